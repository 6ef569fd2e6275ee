/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * POSIX asynchronous input and output.  Once forwarding is on, it serves local descriptors too: the
 * C library's own threads make system calls that cannot be interposed, and aio_suspend takes local
 * and forwarded requests in one list.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 *
 * Requests of one descriptor are executed in order, by one thread at a time.  Result and error are
 * stored in the control block where the C library stores them, so that its aio_error and aio_return
 * work for these requests.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"

#define THREADS_MAX 16
#define IDLE_S 1 /* how long a thread waits for a request before it ends */

enum what {
    DO_READ,
    DO_WRITE,
    DO_FSYNC,
    DO_FDATASYNC
};

/* The requests of one lio_listio, whose end is notified once. */
struct group {
    unsigned left; /* requests in flight */
    bool waited;   /* the caller waits for the group and frees it */
    struct sigevent event;
};

struct amph_ip_aio_request {
    struct amph_ip_aio_request *next;
    struct aiocb *cb;
    enum what what;
    bool running;
    struct amph_fdtab *table; /* of the caller, and of the worker that executes it */
    struct group *group;
};

/* ---- notifying the program ---- */

struct call {
    void (*fn)(union sigval);
    union sigval value;
};

static void *run_call(void *arg)
{
    struct call call = *(struct call *)arg;

    free(arg);
    call.fn(call.value);
    return NULL;
}

static void notify(const struct sigevent *event)
{
    if (event->sigev_notify == SIGEV_SIGNAL && event->sigev_signo) {
        siginfo_t info = { .si_signo = event->sigev_signo, .si_code = SI_ASYNCIO };

        info.si_pid = amph_ip_kernel_getpid();
        info.si_uid = getuid();
        info.si_value = event->sigev_value;
        libc_syscall(SYS_rt_sigqueueinfo, amph_ip_kernel_getpid(), event->sigev_signo, (long)&info,
                     0, 0, 0);
    } else if (event->sigev_notify == SIGEV_THREAD) {
        struct call *call = malloc(sizeof *call);
        pthread_attr_t attr;
        pthread_t thread;

        if (!call)
            return;

        *call = (struct call){ event->sigev_notify_function, event->sigev_value };
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);

        if (amph_ip_thread_start(
                &thread, event->sigev_notify_attributes ? event->sigev_notify_attributes : &attr,
                run_call, call) != 0)
            free(call);

        pthread_attr_destroy(&attr);
    }
}

/* Completes a request.  The lock is held by the caller and released during the notification. */
static void end_request(struct amph_ip_aio_request *rq, ssize_t result, int err)
{
    struct aiocb *cb = rq->cb;
    struct sigevent event = cb->aio_sigevent;
    struct sigevent all = { .sigev_notify = SIGEV_NONE };
    struct group *g = rq->group;

    cb->__return_value = result;

    /* the program may reuse the control block from here on */
    __atomic_store_n(&cb->__error_code, err, __ATOMIC_RELEASE);
    if (g && --g->left == 0 && !g->waited) {
        all = g->event;
        free(g);
    }

    pthread_cond_broadcast(&amph_ip_fds.aio.ended);
    pthread_mutex_unlock(&amph_ip_fds.aio.lock);
    notify(&event);
    notify(&all);
    free(rq);
    pthread_mutex_lock(&amph_ip_fds.aio.lock);
}

/* ---- execution ---- */

static ssize_t perform(const struct amph_ip_aio_request *rq)
{
    struct aiocb *cb = rq->cb;
    int fd = cb->aio_fildes;

    switch (rq->what) {
    case DO_READ:
        return pread(fd, (void *)cb->aio_buf, cb->aio_nbytes, cb->aio_offset);
    case DO_WRITE:
        return pwrite(fd, (const void *)cb->aio_buf, cb->aio_nbytes, cb->aio_offset);
    case DO_FSYNC:
        return fsync(fd);
    default:
        return fdatasync(fd);
    }
}

/* The oldest request of table whose descriptor has no earlier request, running or queued; NULL:
 * none. */
static struct amph_ip_aio_request *next_request(const struct amph_fdtab *table)
{
    for (struct amph_ip_aio_request *rq = amph_ip_fds.aio.queue; rq; rq = rq->next) {
        bool first = !rq->running && rq->table == table;

        for (struct amph_ip_aio_request *before = amph_ip_fds.aio.queue; first && before != rq;
             before = before->next)
            first = before->table != table || before->cb->aio_fildes != rq->cb->aio_fildes;

        if (first)
            return rq;
    }

    return NULL;
}

static void unlink_request(struct amph_ip_aio_request *rq)
{
    struct amph_ip_aio_request **at = &amph_ip_fds.aio.queue;

    while (*at != rq)
        at = &(*at)->next;

    *at = rq->next;
}

/* Only its workers use the table, which is not the process's first. */
static bool is_left(const struct amph_fdtab *table)
{
    return table != &amph_fdtab_first && table->tasks <= table->aio_threads;
}

void amph_ip_aio_table_left(const struct amph_fdtab *table)
{
    pthread_mutex_lock(&amph_ip_fds.aio.lock);
    if (is_left(table))
        pthread_cond_broadcast(&amph_ip_fds.aio.wanted);

    pthread_mutex_unlock(&amph_ip_fds.aio.lock);
}

/* Waits for a request of a task with this table.  NULL: none came for so long, or none can come any
 * more, so the thread ends; as the C library's do, so that a process can end by the end of its last
 * thread.  Lock held. */
static struct amph_ip_aio_request *await_request(struct amph_fdtab *table)
{
    struct amph_ip_aio_request *rq;
    struct timespec end;
    int err = 0;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += IDLE_S;

    while (!(rq = next_request(table)) && !is_left(table) && err != ETIMEDOUT) {
        table->aio_idle++;
        err = pthread_cond_clockwait(&amph_ip_fds.aio.wanted, &amph_ip_fds.aio.lock,
                                     CLOCK_MONOTONIC, &end);
        table->aio_idle--;
    }

    return rq;
}

static void *work(void *arg)
{
    struct amph_fdtab *table = amph_fdtab_current();
    struct amph_ip_aio_request *rq;

    pthread_mutex_lock(&amph_ip_fds.aio.lock);
    while ((rq = await_request(table))) {
        rq->running = true;
        pthread_mutex_unlock(&amph_ip_fds.aio.lock);
        errno = 0;

        ssize_t n = perform(rq);
        int err = n < 0 ? errno : 0;

        pthread_mutex_lock(&amph_ip_fds.aio.lock);
        unlink_request(rq);
        end_request(rq, n, err);
    }

    table->aio_threads--;
    amph_ip_fds.aio.threads--;
    pthread_mutex_unlock(&amph_ip_fds.aio.lock);
    return arg;
}

/* A forked child has none of the parent's requests and threads.  Another thread may have held the lock, or
 * this one may, if a handler has forked; giving back a lock that is free has no effect in glibc. */
void amph_ip_aio_forked(void)
{
    amph_ip_fds.aio.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    amph_ip_fds.aio.ended = amph_ip_fds.aio.wanted = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    amph_ip_fds.aio.queue = NULL;
    amph_ip_fds.aio.threads = 0;
}

/* Starts a worker thread for the caller's table unless one is idle or the maximum is reached; false:
 * there is no worker. */
static bool ensure_worker(void)
{
    struct amph_fdtab *table = amph_fdtab_current();
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;

    if (table->aio_idle || (amph_ip_fds.aio.threads >= THREADS_MAX && table->aio_threads))
        return true;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (amph_ip_thread_start(&thread, &attr, work, NULL) == 0) {
        amph_ip_fds.aio.threads++;
        table->aio_threads++;
    }

    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return table->aio_threads > 0;
}

static int submit(struct aiocb *cb, enum what what, struct group *group)
{
    if (cb->aio_reqprio < 0 || cb->aio_reqprio > AIO_PRIO_DELTA_MAX) {
        cb->__error_code = EINVAL;
        cb->__return_value = -1;
        return amph_ip_fail(EINVAL);
    }

    struct amph_ip_aio_request *rq = calloc(1, sizeof *rq);

    pthread_mutex_lock(&amph_ip_fds.aio.lock);

    if (!rq || !ensure_worker()) {
        pthread_mutex_unlock(&amph_ip_fds.aio.lock);
        free(rq);
        return amph_ip_fail(EAGAIN);
    }

    *rq = (struct amph_ip_aio_request){
        .cb = cb, .what = what, .group = group, .table = amph_fdtab_current()
    };
    cb->__error_code = EINPROGRESS;

    struct amph_ip_aio_request **at = &amph_ip_fds.aio.queue;

    while (*at)
        at = &(*at)->next;

    *at = rq;
    if (amph_ip_tables_many())
        pthread_cond_broadcast(
            &amph_ip_fds.aio.wanted); /* the idle thread that it wakes must be of this table */
    else
        pthread_cond_signal(&amph_ip_fds.aio.wanted);

    pthread_mutex_unlock(&amph_ip_fds.aio.lock);

    return 0;
}

/* ---- the functions ---- */

int amph_do_aio_read(struct aiocb *cb)
{
    return submit(cb, DO_READ, NULL);
}

int amph_do_aio_write(struct aiocb *cb)
{
    return submit(cb, DO_WRITE, NULL);
}

int amph_do_aio_fsync(int op, struct aiocb *cb)
{
    if (op != O_SYNC && op != O_DSYNC)
        return amph_ip_fail(EINVAL);

    if (fcntl(cb->aio_fildes, F_GETFL) < 0)
        return -1;

    return submit(cb, op == O_SYNC ? DO_FSYNC : DO_FDATASYNC, NULL);
}

static bool in_progress(const struct aiocb *cb)
{
    return __atomic_load_n(&cb->__error_code, __ATOMIC_ACQUIRE) == EINPROGRESS;
}

int amph_do_aio_suspend(const struct aiocb *const list[], int n, const struct timespec *limit)
{
    struct timespec until;
    int err = 0;

    if (n < 0)
        return amph_ip_fail(EINVAL);

    clock_gettime(CLOCK_REALTIME, &until);
    if (limit) {
        until.tv_sec += limit->tv_sec + (until.tv_nsec + limit->tv_nsec) / 1000000000;
        until.tv_nsec = (until.tv_nsec + limit->tv_nsec) % 1000000000;
    }

    pthread_mutex_lock(&amph_ip_fds.aio.lock);
    for (;;) {
        bool some = false;
        bool over = false;

        for (int i = 0; i < n; i++)
            if (list[i]) {
                some = true;
                over |= !in_progress(list[i]);
            }

        if (over || !some || err)
            break;

        err = limit ? pthread_cond_timedwait(&amph_ip_fds.aio.ended, &amph_ip_fds.aio.lock, &until)
                    : pthread_cond_wait(&amph_ip_fds.aio.ended, &amph_ip_fds.aio.lock);
    }

    pthread_mutex_unlock(&amph_ip_fds.aio.lock);
    return err ? amph_ip_fail(EAGAIN) : 0;
}

int amph_do_aio_cancel(int fd, struct aiocb *cb)
{
    bool running = false;
    bool cancelled = false;

    if (fcntl(fd, F_GETFL) < 0)
        return amph_ip_fail(EBADF);
    if (cb && cb->aio_fildes != fd)
        return amph_ip_fail(EINVAL);

    pthread_mutex_lock(&amph_ip_fds.aio.lock);
    for (struct amph_ip_aio_request *rq = amph_ip_fds.aio.queue, *next; rq; rq = next) {
        next = rq->next;
        if (cb ? rq->cb != cb : rq->cb->aio_fildes != fd || rq->table != amph_fdtab_current())
            continue;

        if (rq->running) {
            running = true;
            continue;
        }

        cancelled = true;
        unlink_request(rq);
        end_request(rq, -1, ECANCELED);
        next = amph_ip_fds.aio.queue; /* end_request released the lock */
    }

    pthread_mutex_unlock(&amph_ip_fds.aio.lock);
    if (running)
        return AIO_NOTCANCELED;

    return cancelled ? AIO_CANCELED : AIO_ALLDONE;
}

int amph_do_lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event)
{
    struct group *g = calloc(1, sizeof *g);
    int failed = 0;

    if (!g || (mode != LIO_WAIT && mode != LIO_NOWAIT) || n < 0) {
        free(g);
        return amph_ip_fail(g ? EINVAL : EAGAIN);
    }

    g->left = 1; /* for this call, so that the group does not end before all requests are queued */
    g->waited = mode == LIO_WAIT;
    g->event = event && mode == LIO_NOWAIT ? *event
                                           : (struct sigevent){ .sigev_notify = SIGEV_NONE };

    for (int i = 0; i < n; i++) {
        if (!list[i] || list[i]->aio_lio_opcode == LIO_NOP)
            continue;

        pthread_mutex_lock(&amph_ip_fds.aio.lock);
        g->left++;
        pthread_mutex_unlock(&amph_ip_fds.aio.lock);
        if (submit(list[i], list[i]->aio_lio_opcode == LIO_READ ? DO_READ : DO_WRITE, g) == 0)
            continue;

        failed = EAGAIN;
        pthread_mutex_lock(&amph_ip_fds.aio.lock);
        g->left--;
        pthread_mutex_unlock(&amph_ip_fds.aio.lock);
    }

    pthread_mutex_lock(&amph_ip_fds.aio.lock);
    g->left--;
    while (g->waited && g->left)
        pthread_cond_wait(&amph_ip_fds.aio.ended, &amph_ip_fds.aio.lock);

    bool last = g->left == 0;

    pthread_mutex_unlock(&amph_ip_fds.aio.lock);
    for (int i = 0; i < n && mode == LIO_WAIT && !failed; i++)
        if (list[i] && list[i]->aio_lio_opcode != LIO_NOP && list[i]->__error_code)
            failed = EIO;

    if (last) {
        struct sigevent all = g->event;

        free(g);
        if (mode == LIO_NOWAIT)
            notify(&all);
    }

    return amph_ip_result(failed);
}

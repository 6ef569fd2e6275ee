/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking reads and writes: a few threads of the client execute them as ordinary calls, so
 * they progress without the program.
 *
 * Layer: iofwd.
 * Thread rule: any thread, not signal handlers.  A forked child starts without operations and
 * threads.
 */
#include "iofwd/calls/calls.h"
#include "iofwd/client/api/nonblocking.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/os/thread.h"

enum nb_state {
    NB_WAITING,
    NB_RUNNING,
    NB_DONE
};

struct amph_client_nb {
    struct amph_client_nb *next;
    struct amph_fwd_client *cl;
    struct amph_fwd_file file;
    bool write;
    enum nb_state state;
    void *buf;
    size_t len, done;
    off_t off;
    int error;
    uint64_t start_ns, end_ns;
    bool awaited; /* a thread sleeps until it is done */
    pid_t pid;    /* the process that started it */
    void (*finished)(void *arg);
    void *arg;
};

static struct amph_client_nonblocking *const nb = &amph_client_state.nonblocking;

/* ---- the threads ---- */

static void carry_out(struct amph_client_nb *op)
{
    while (op->done < op->len) {
        size_t n = 0;

        op->error = op->write ? amph_fwd_pwrite(op->cl, &op->file, op->off + (off_t)op->done,
                                                (char *)op->buf + op->done, op->len - op->done, &n)
                              : amph_fwd_pread(op->cl, &op->file, op->off + (off_t)op->done,
                                               (char *)op->buf + op->done, op->len - op->done, &n);
        op->done += op->error ? 0 : n;
        if (op->error != EINTR && (op->error || n == 0))
            break;
    }

    if (op->done) /* bytes before an error count, as for read and write */
        op->error = 0;

    op->end_ns = amph_now_ns();
}

static struct timespec deadline(uint64_t timeout_ns)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);

    uint64_t ns = (uint64_t)t.tv_nsec + timeout_ns % AMPH_NS_PER_S;

    t.tv_sec += (time_t)(timeout_ns / AMPH_NS_PER_S + ns / AMPH_NS_PER_S);
    t.tv_nsec = (long)(ns % AMPH_NS_PER_S);
    return t;
}

/* Waits for an operation.  Returns the first one, or NULL if none comes for so long that the thread
 * ends.  Lock held. */
static struct amph_client_nb *next_operation(void)
{
    struct timespec end = deadline(AMPH_THREAD_IDLE_NS);
    int err = 0;

    while (!nb->first && err != ETIMEDOUT) {
        nb->idle++;
        err = pthread_cond_clockwait(&nb->work, &nb->lock, CLOCK_MONOTONIC, &end);
        nb->idle--;
    }

    return nb->first;
}

static void *work(void *unused)
{
    pthread_mutex_lock(&nb->lock);
    for (;;) {
        struct amph_client_nb *op = next_operation();

        if (!op)
            break;

        nb->first = op->next;
        if (!nb->first)
            nb->last = &nb->first;

        op->state = NB_RUNNING;
        pthread_mutex_unlock(&nb->lock);
        carry_out(op);
        pthread_mutex_lock(&nb->lock);

        void (*finished)(void *) = op->finished;
        void *arg = op->arg;
        bool awaited = op->awaited;

        op->state = NB_DONE; /* from here on the waiter owns it */
        if (awaited)
            pthread_cond_broadcast(&nb->done);

        if (finished) {
            pthread_mutex_unlock(&nb->lock);
            finished(arg);
            pthread_mutex_lock(&nb->lock);
        }
    }

    nb->threads--;
    pthread_mutex_unlock(&nb->lock);
    return NULL;
}

/* Starts one more thread.  Lock held. */
static int add_thread(void)
{
    pthread_t thread;
    int err = amph_thread_start(&thread, true, 0, work, NULL);

    nb->threads += err == 0;
    return nb->threads ? 0 : err;
}

static void forget_parent(void)
{
    if (nb->pid == getpid())
        return;

    pthread_cond_init(&nb->work, NULL);
    pthread_cond_init(&nb->done, NULL);
    nb->pid = getpid();
    nb->first = NULL;
    nb->last = &nb->first;
    nb->threads = nb->idle = 0;
}

/* Around fork: no other thread holds the lock while the child is created. */
static void lock_for_fork(void)
{
    pthread_mutex_lock(&nb->lock);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&nb->lock);
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

/* ---- operations ---- */

int amph_client_nb_start(struct amph_fwd_client *cl, const struct amph_fwd_file *file, bool write,
                         void *buf, size_t len, off_t off, void (*finished)(void *arg), void *arg,
                         struct amph_client_nb **op_p)
{
    if (off < 0 || len > (size_t)SSIZE_MAX || (len && !buf))
        return EINVAL;

    struct amph_client_nb *op = calloc(1, sizeof *op);
    if (!op)
        return ENOMEM;

    *op = (struct amph_client_nb){ .cl = cl,
                                   .file = *file,
                                   .write = write,
                                   .buf = buf,
                                   .len = len,
                                   .off = off,
                                   .start_ns = amph_now_ns(),
                                   .finished = finished,
                                   .arg = arg };
    pthread_mutex_lock(&nb->lock);
    forget_parent();
    op->pid = nb->pid;

    int err = nb->idle || nb->threads >= (unsigned)amph_env_int(AMPH_ENV_IOFWD_THREADS)
                  ? 0
                  : add_thread();

    if (!err) {
        *nb->last = op;
        nb->last = &op->next;
        pthread_cond_signal(&nb->work);
    }

    pthread_mutex_unlock(&nb->lock);
    if (err)
        free(op);
    else
        *op_p = op;

    return err;
}

/* Waits until op is done.  Lock held.  0 or ETIMEDOUT. */
static int await(struct amph_client_nb *op, uint64_t timeout_ns)
{
    struct timespec end = deadline(timeout_ns == UINT64_MAX ? 0 : timeout_ns);
    int err = 0;

    op->awaited = timeout_ns > 0;
    while (op->state != NB_DONE && err != ETIMEDOUT) {
        if (timeout_ns == UINT64_MAX)
            err = pthread_cond_wait(&nb->done, &nb->lock);
        else if (timeout_ns == 0)
            err = ETIMEDOUT;
        else
            err = pthread_cond_clockwait(&nb->done, &nb->lock, CLOCK_MONOTONIC, &end);
    }

    return op->state == NB_DONE ? 0 : ETIMEDOUT;
}

int amph_client_nb_wait(struct amph_client_nb *op, uint64_t timeout_ns,
                        struct amph_client_nb_result *result)
{
    if (op->pid != getpid()) /* an operation of the parent, which never completes here */
        return EINVAL;

    pthread_mutex_lock(&nb->lock);

    int err = await(op, timeout_ns);

    pthread_mutex_unlock(&nb->lock);
    if (err)
        return err;

    *result = (struct amph_client_nb_result){ .error = op->error,
                                              .bytes = op->done,
                                              .ns = op->end_ns - op->start_ns };
    free(op);
    return 0;
}

bool amph_client_nb_cancel(struct amph_client_nb *op)
{
    bool found = false;

    if (op->pid != getpid())
        return false;

    pthread_mutex_lock(&nb->lock);
    for (struct amph_client_nb **at = &nb->first; *at && !found; at = *at ? &(*at)->next : at) {
        if (*at != op)
            continue;

        found = true;
        *at = op->next;
        if (!op->next)
            nb->last = at;

        op->state = NB_DONE;
        op->error = ECANCELED;
        op->end_ns = amph_now_ns();
        break;
    }

    if (found)
        pthread_cond_broadcast(&nb->done);

    pthread_mutex_unlock(&nb->lock);
    return found;
}

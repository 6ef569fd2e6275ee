/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lock agents: threads with descriptor tables of their own, to which the server passes files and
 * orders; lock/lock.c explains why.  A lock request that blocks waits in a thread beside the agent.
 *
 * Layer: iofwd.
 * Thread rule: functions whose first argument is a struct amph_server_lock_agent run in its agent,
 * except amph_server_agent_start and _stop.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "am/am.h"
#include "base/os/clock.h"
#include "base/os/descriptors.h"
#include "base/os/thread.h"
#include "base/platform.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/server/lock/lock.h"
#include "iofwd/server/state.h"
#include "iofwd/wire/marshal.h"

#define STACK_BYTES (128 << 10)
#define FIND_TRIES 100

/* Its l_pid is the number of the client's table, which a retry needs; the kernel does not read it. */
static struct flock *lock_of(struct amph_server_request *rq)
{
    const struct amph_fwd_arg_desc *arg = amph_fwd_find_arg(rq->desc, FWD_IN_LOCK);

    return (struct flock *)((char *)&rq->u + arg->server_at);
}

static void *wait_for_lock(void *arg)
{
    struct amph_server_lock_waiter *w = arg;
    struct amph_server_lock_agent *lk = w->locker;
    struct amph_server_request *rq = w->rq;

    amph_server_let_wake_signal_in(true);
    rq->exec.error = fcntl(w->fd, F_SETLKW, lock_of(rq)) == 0 ? 0 : errno;
    amph_server_let_wake_signal_in(false);
    if (!rq->exec.error)
        amph_server_held_record(lk, w->fd, lock_of(rq));

    pthread_mutex_lock(&lk->lock);

    struct amph_server_lock_waiter **at = &lk->waiters;

    while (*at != w)
        at = &(*at)->next;

    *at = w->next;
    amph_server_work_done(lk->server, rq);
    lk->nwaiters--; /* the agent may end from here on */
    pthread_mutex_unlock(&lk->lock);
    free(w);

    return NULL;
}

/* Starts a thread that waits for a lock and answers the request.  0 or an errno value. */
static int begin_wait(struct amph_server_lock_agent *lk, struct amph_server_request *rq, int fd)
{
    struct amph_server_lock_waiter *w = malloc(sizeof *w);

    if (!w)
        return ENOLCK;

    *w = (struct amph_server_lock_waiter){ .locker = lk, .rq = rq, .fd = fd };
    pthread_mutex_lock(&lk->lock);

    int err = amph_thread_start(&w->thread, true, STACK_BYTES, wait_for_lock, w) ? ENOLCK : 0;

    if (!err) {
        w->next = lk->waiters;
        lk->waiters = w;
        lk->nwaiters++;
    } else
        free(w);

    pthread_mutex_unlock(&lk->lock);
    return err;
}

/* Looks for a conflicting lock.  Tries again if its agent has set it but not yet recorded it. */
static int find_lock(int fd, const struct flock *wanted, struct flock *got)
{
    for (unsigned tries = 0; tries < FIND_TRIES; tries++) {
        *got = *wanted;
        got->l_pid = 0;
        if (fcntl(fd, F_GETLK, got) != 0)
            return errno;
        if (amph_server_lock_owner(fd, got))
            break;

        sched_yield();
    }

    return 0;
}

static void run_call(struct amph_server_lock_agent *lk, struct amph_server_request *rq, int fd)
{
    struct flock *l = lock_of(rq);
    uint64_t begin_ns = amph_now_ns();

    if (rq->desc->flags & FWD_CALL_PURE) { /* pgetlock */
        rq->exec.error = find_lock(fd, l, &rq->u.pgetlock.got);
        rq->exec.ns = amph_now_ns() - begin_ns;
    } else {
        rq->exec.error = fcntl(fd, F_SETLK, l) == 0 ? 0 : errno;
        rq->exec.ns = amph_now_ns() - begin_ns; /* the wait for the lock does not count */
        if (rq->exec.error == EACCES)
            rq->exec.error = EAGAIN;

        if (!rq->exec.error)
            amph_server_held_record(lk, fd, l);

        if (rq->exec.error == EAGAIN && (rq->desc->flags & FWD_CALL_BLOCKING)) {
            int err = begin_wait(lk, rq, fd);
            if (!err)
                return; /* the request belongs to the waiting thread, perhaps already answered */

            rq->exec.error = err;
        }
    }

    amph_server_work_done(lk->server, rq);
}

static void take_order(struct amph_server_lock_agent *lk, const struct amph_server_lock_order *o,
                       int fd)
{
    struct amph_server_agent_file *k = amph_server_agent_file_find(lk->kept, o->handle);

    if (o->op == AMPH_SERVER_LOCK_CLOSE_INODE) {
        amph_server_held_close_file(lk, o->dev, o->ino);
        if (o->rq) {
            o->rq->exec.error = 0;
            amph_server_work_done(lk->server, o->rq);
        } else {
            atomic_fetch_add(&lk->closes_done, 1);
            atomic_fetch_add(&amph_server_state.locks_released, 1);
            atomic_fetch_sub(&amph_server_state.locks_releasing, 1);
        }

        return;
    }

    if (o->op == AMPH_SERVER_LOCK_CANCEL) {
        pthread_mutex_lock(&lk->lock);
        for (struct amph_server_lock_waiter *w = lk->waiters; w; w = w->next)
            w->cancelled |= o->seq == AMPH_SERVER_EVERY_SEQ || w->rq->seq == o->seq;

        pthread_mutex_unlock(&lk->lock);
        return;
    }

    if (fd >= 0 && (k = malloc(sizeof *k)) != NULL) {
        *k = (struct amph_server_agent_file){
            .handle = o->handle, .dev = o->dev, .ino = o->ino, .fd = fd
        };
        amph_server_held_add_file(lk, k);
    }

    if (k) {
        run_call(lk, o->rq, k->fd);
        return;
    }

    o->rq->exec.error = ENOLCK;
    amph_server_work_done(lk->server, o->rq);
}

/* Interrupts the cancelled threads.  A signal that arrives before the system call is lost, so the
 * caller repeats this until none is left. */
static bool wake_cancelled(struct amph_server_lock_agent *lk, bool all)
{
    bool more = false;

    pthread_mutex_lock(&lk->lock);
    for (struct amph_server_lock_waiter *w = lk->waiters; w; w = w->next)
        if (all || w->cancelled) {
            pthread_kill(w->thread, AMPH_SERVER_WAKE_SIGNAL);
            more = true;
        }

    more |= all && lk->nwaiters;
    pthread_mutex_unlock(&lk->lock);
    return more;
}

/* Receives an order and possibly a file.  false: the server has closed its end. */
static bool next_order(struct amph_server_lock_agent *lk, struct amph_server_lock_order *o,
                       int *fd_p)
{
    struct amph_descriptors_room room;
    struct iovec iov = { o, sizeof *o };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    amph_descriptors_expect(&msg, &room);
    do
        n = syscall(SYS_recvmsg, lk->sock, &msg,
                    MSG_CMSG_CLOEXEC); /* see amph_server_agent_close */
    while (n < 0 && errno == EINTR);

    (void)atomic_load_explicit(&lk->handed, memory_order_acquire);

    *fd_p = n == (ssize_t)sizeof *o ? amph_descriptors_detach(&msg) : -1;
    return n == (ssize_t)sizeof *o;
}

/* Leaves the server's descriptor table.  The new table has the socket, the descriptor that wakes the
 * progress thread, and the standard ones, which messages go to.  All keep their numbers, so that no file
 * of a client gets one of them and what is written there. */
static bool leave_table(const struct amph_server_lock_agent *lk)
{
    int keep[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, lk->sock,
                   amph_am_kick_fd(lk->server->ep) };

    return unshare(CLONE_FILES) == 0 &&
           amph_descriptors_close_except(keep, AMPH_COUNTOF(keep)) == 0;
}

/* Waits for an order, but only until the cancelled threads are to be interrupted again. */
static bool is_order_there(const struct amph_server_lock_agent *lk)
{
    struct pollfd p = { .fd = lk->sock, .events = POLLIN };

    return poll(&p, 1, 1) > 0;
}

static void *agent(void *arg)
{
    struct amph_server_lock_agent *lk = arg;
    struct amph_server_lock_order o;
    int fd;
    bool works = leave_table(lk);
    bool waking = false;

    lk->apart = works;
    sem_post(&lk->left);

    for (;;) {
        if (!waking || is_order_there(lk)) {
            if (!next_order(lk, &o, &fd))
                break;

            if (works || o.op != AMPH_SERVER_LOCK_CALL)
                take_order(lk, &o, fd);
            else {
                o.rq->exec.error = ENOLCK;
                amph_server_work_done(lk->server, o.rq);
            }
        }

        waking = wake_cancelled(lk, false);
    }

    while (wake_cancelled(lk, true))
        poll(NULL, 0, 1);

    amph_server_held_remove_agent(lk);
    amph_server_held_close_all(lk);

    if (atomic_load(&lk->dropped)) {
        uint32_t closes = lk->closes_sent - atomic_load(&lk->closes_done);

        atomic_fetch_add(&amph_server_state.locks_released, 1);
        atomic_fetch_sub(&amph_server_state.locks_releasing, 1 + closes);
    }

    amph_server_agent_close(lk->sock);
    pthread_mutex_destroy(&lk->lock);
    sem_destroy(&lk->left);
    free(lk);

    return NULL;
}

int amph_server_agent_start(struct amph_server_lock_agent *lk)
{
    pthread_t thread;
    return amph_thread_start(&thread, true, STACK_BYTES, agent, lk);
}

void amph_server_agent_stop(struct amph_server_lock_agent *lk)
{
    /* if the client leaves at once, its agent may still be using the server's table */
    while (sem_wait(&lk->left) != 0)
        ;

    if (lk->apart)
        close(lk->sock);

    int server_sock = lk->server_sock;

    atomic_fetch_add(&amph_server_state.locks_releasing, 1);
    atomic_store(&lk->dropped, true);
    atomic_fetch_add_explicit(&lk->handed, 1, memory_order_release);
    close(server_sock); /* the agent ends by itself */
}

uint32_t amph_server_locks_released(void)
{
    return atomic_load(&amph_server_state.locks_released);
}

bool amph_server_locks_releasing(const struct amph_server_request *rq)
{
    bool is_record_lock = rq->desc && rq->desc->run == FWD_RUN_LOCKER;

    if (atomic_load(&amph_server_state.locks_releasing) > 0)
        return true;

    return is_record_lock &&
           rq->progress.locks_released != atomic_load(&amph_server_state.locks_released);
}

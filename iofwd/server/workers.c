/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers: threads that execute large, slow or blocking calls.  They never use the endpoint,
 * clients or the queues of handles; a finished request returns to the progress thread.
 *
 * A client whose calls block, for example on FIFOs, must not take the workers that others need.  So
 * each has a maximum, and the last workers are for clients that use few.  Requests above these
 * limits wait; those of other clients pass them.
 *
 * Layer: iofwd.
 * Thread rule: amph_server_work_give and _stop by the progress thread; see internal.h for the
 * others.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/settings/counters.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "iofwd/server/internal.h"

#define WORKERS_CLIENT_MAX (AMPH_SERVER_WORKERS_MAX / 4) /* of one client at one time */
#define WORKERS_SHARE 4 /* that each client may use while others have taken the common ones */
#define WORKERS_COMMON (AMPH_SERVER_WORKERS_MAX / 8 * 7) /* the rest is for those that use few */

/* The lock is held; unlock_and_kick wakes the progress thread. */
static void add_done(struct amph_server *s, struct amph_server_request *rq)
{
    rq->next = NULL;
    *s->shared.done_tail = rq;
    s->shared.done_tail = &rq->next;
    __atomic_store_n(&s->shared.posted, true, __ATOMIC_RELEASE);
}

/*
 * Releases the lock, then wakes the progress thread: on the same core it runs at once, and would find
 * the lock taken.  While the server stops, the endpoint may be closed at any time, so that
 * amph_server_work_stop waits for those who are about to use it.
 */
static void unlock_and_kick(struct amph_server *s)
{
    bool kicks = !s->shared.stopping;

    if (kicks)
        atomic_fetch_add(&s->shared.kicking, 1);

    pthread_mutex_unlock(&s->shared.lock);
    if (!kicks)
        return;

    amph_am_kick(s->ep);
    atomic_fetch_sub(&s->shared.kicking, 1);
}

void amph_server_work_done(struct amph_server *s, struct amph_server_request *rq)
{
    pthread_mutex_lock(&s->shared.lock);
    add_done(s, rq);
    unlock_and_kick(s);
}

/* Removes a request from the queue.  The lock is held. */
static struct amph_server_request *take_out(struct amph_server *s, struct amph_server_request **at)
{
    struct amph_server_request *rq = *at;

    *at = rq->next;
    if (!*at)
        s->shared.work_tail = at;

    return rq;
}

/* A queued open waits for nothing unless it is known to be of a FIFO or device: signals do not cut
 * the open of a regular file short.  A FIFO that a worker has begun to open is cancelled there. */
static bool waits_for_nothing(const struct amph_server_request *rq)
{
    return rq->desc && rq->desc->flags & FWD_CALL_OPENS && !rq->exec.may_block;
}

/* Ends queued requests of a client without executing them: the one with a number, or all.  The lock
 * is held. */
static void cancel_queued(struct amph_server *s, const struct amph_server_peer *p, bool all,
                          uint64_t seq)
{
    struct amph_server_request **at = &s->shared.work;

    while (*at) {
        if ((*at)->peer != p || (!all && ((*at)->seq != seq || waits_for_nothing(*at)))) {
            at = &(*at)->next;
            continue;
        }

        struct amph_server_request *rq = take_out(s, at);

        atomic_store(&rq->cancelled, true);
        rq->shared.in_worker = true; /* it is finished as one that a worker has executed */
        rq->exec.error = EINTR;
        add_done(s, rq);
    }
}

void amph_server_let_wake_signal_in(bool in)
{
    int err = errno;
    sigset_t wake;

    sigemptyset(&wake);
    sigaddset(&wake, AMPH_SERVER_WAKE_SIGNAL);
    pthread_sigmask(in ? SIG_UNBLOCK : SIG_BLOCK, &wake, NULL);
    errno = err;
}

/* Cancels a request that a worker executes.  The lock is held. */
static void wake(struct amph_server_request *rq)
{
    atomic_store(&rq->cancelled, true);
    pthread_kill(rq->shared.thread, AMPH_SERVER_WAKE_SIGNAL);
}

void amph_server_work_wake(struct amph_server *s, const struct amph_server_peer *p, uint64_t seq)
{
    pthread_mutex_lock(&s->shared.lock);
    for (struct amph_server_request *rq = s->shared.running; rq; rq = rq->shared.next_running)
        if (rq->peer == p && rq->seq == seq)
            wake(rq);

    cancel_queued(s, p, false, seq);
    unlock_and_kick(s);
}

void amph_server_work_wake_all(struct amph_server *s, const struct amph_server_peer *p)
{
    pthread_mutex_lock(&s->shared.lock);
    for (struct amph_server_request *rq = s->shared.running; rq; rq = rq->shared.next_running)
        if (rq->peer == p)
            wake(rq);

    cancel_queued(s, p, true, 0);
    unlock_and_kick(s);
}

static void list_running(struct amph_server *s, struct amph_server_request *rq)
{
    rq->shared.in_worker = true;
    rq->shared.thread = pthread_self();
    rq->shared.next_running = s->shared.running;
    s->shared.running = rq;
    s->shared.nrunning++;
    rq->peer->shared.nrunning++;
}

static void unlist_running(struct amph_server *s, struct amph_server_request *rq)
{
    struct amph_server_request **at = &s->shared.running;

    while (*at != rq)
        at = &(*at)->shared.next_running;

    *at = rq->shared.next_running;
    s->shared.nrunning--;
    rq->peer->shared.nrunning--;
}

/* Returns whether a client may use one more worker.  The lock is held. */
static bool may_run(const struct amph_server *s, const struct amph_server_peer *p)
{
    if (p->shared.nrunning < WORKERS_SHARE)
        return true;

    return p->shared.nrunning < WORKERS_CLIENT_MAX && s->shared.nrunning < WORKERS_COMMON;
}

/* Takes the first queued request whose client may use one more worker; NULL if no such request is queued.  The
 * lock is held. */
static struct amph_server_request *take_work(struct amph_server *s)
{
    struct amph_server_request **at = &s->shared.work;

    while (*at && !may_run(s, (*at)->peer))
        at = &(*at)->next;

    return *at ? take_out(s, at) : NULL;
}

static void *worker(void *arg)
{
    struct amph_server *s = arg;

    pthread_mutex_lock(&s->shared.lock);
    while (!s->shared.stopping) {
        struct amph_server_request *rq = take_work(s);

        if (!rq) {
            s->shared.idle++;
            pthread_cond_wait(&s->shared.work_cond, &s->shared.lock);
            s->shared.idle--;
            continue;
        }

        list_running(s, rq);
        pthread_mutex_unlock(&s->shared.lock);

        if (atomic_load(&rq->cancelled)) /* cancelled before it began */
            rq->exec.error = EINTR;
        else
            amph_server_request_run(rq);

        pthread_mutex_lock(&s->shared.lock);
        unlist_running(s, rq);
        add_done(s, rq);
        unlock_and_kick(s);
        pthread_mutex_lock(&s->shared.lock);
    }

    s->shared.workers--;
    pthread_mutex_unlock(&s->shared.lock);
    return NULL;
}

/* Starts another worker if all are busy: one that blocks, for example on a FIFO without a writer,
 * must not delay the others. */
static void start_worker(struct amph_server *s)
{
    pthread_t thread;

    if (amph_thread_start(&thread, true, AMPH_SERVER_STACK_BYTES, worker, s) == 0)
        s->shared.workers++;
    else if (s->shared.workers == 0)
        amph_fatal("the I/O server cannot start a worker thread");
}

void amph_server_work_give(struct amph_server *s, struct amph_server_request *rq)
{
    amph_server_assert_owner(&s->progress.owner);

    pthread_mutex_lock(&s->shared.lock);
    rq->next = NULL;
    amph_count(SERVER_TO_WORKERS);

    *s->shared.work_tail = rq;
    s->shared.work_tail = &rq->next;

    unsigned waiting = 0;

    for (struct amph_server_request *q = s->shared.work; q; q = q->next)
        waiting += may_run(s, q->peer);

    if (waiting > s->shared.idle && s->shared.workers < AMPH_SERVER_WORKERS_MAX)
        start_worker(s);

    pthread_mutex_unlock(&s->shared.lock);
    pthread_cond_signal(&s->shared.work_cond); /* the worker finds the lock free */
}

void amph_server_work_stop(struct amph_server *s)
{
    pthread_mutex_lock(&s->shared.lock);
    s->shared.stopping = true;
    pthread_cond_broadcast(&s->shared.work_cond);
    pthread_mutex_unlock(&s->shared.lock);

    while (atomic_load(&s->shared.kicking))
        sched_yield();
}

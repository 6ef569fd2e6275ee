/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers: threads that execute large, slow or blocking calls.  They never use the endpoint,
 * clients or the queues of handles; a finished request returns to the progress thread.
 *
 * Layer: iofwd.
 * Thread rule: amph_server_work_give and _stop by the progress thread; see internal.h for the
 * others.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/thread.h"
#include "iofwd/server/internal.h"

void amph_server_work_done(struct amph_server *s, struct amph_server_request *rq)
{
    pthread_mutex_lock(&s->shared.lock);
    rq->next = NULL;
    *s->shared.done_tail = rq;
    s->shared.done_tail = &rq->next;
    __atomic_store_n(&s->shared.posted, true, __ATOMIC_RELEASE);
    if (!s->shared.stopping) /* while stopping, the endpoint may be closed at any time */
        amph_am_kick(s->ep);

    pthread_mutex_unlock(&s->shared.lock);
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

    pthread_mutex_unlock(&s->shared.lock);
}

void amph_server_work_wake_all(struct amph_server *s, const struct amph_server_peer *p)
{
    pthread_mutex_lock(&s->shared.lock);
    for (struct amph_server_request *rq = s->shared.running; rq; rq = rq->shared.next_running)
        if (rq->peer == p)
            wake(rq);

    for (struct amph_server_request *rq = s->shared.work; rq; rq = rq->next)
        if (rq->peer == p)
            atomic_store(&rq->cancelled, true);

    pthread_mutex_unlock(&s->shared.lock);
}

static void list_running(struct amph_server *s, struct amph_server_request *rq)
{
    rq->shared.in_worker = true;
    rq->shared.thread = pthread_self();
    rq->shared.next_running = s->shared.running;
    s->shared.running = rq;
}

static void unlist_running(struct amph_server *s, struct amph_server_request *rq)
{
    struct amph_server_request **at = &s->shared.running;

    while (*at != rq)
        at = &(*at)->shared.next_running;

    *at = rq->shared.next_running;
}

static void *worker(void *arg)
{
    struct amph_server *s = arg;

    pthread_mutex_lock(&s->shared.lock);
    while (!s->shared.stopping) {
        struct amph_server_request *rq = s->shared.work;

        if (!rq) {
            s->shared.idle++;
            pthread_cond_wait(&s->shared.work_cond, &s->shared.lock);
            s->shared.idle--;
            continue;
        }

        s->shared.work = rq->next;
        if (!s->shared.work)
            s->shared.work_tail = &s->shared.work;

        list_running(s, rq);
        pthread_mutex_unlock(&s->shared.lock);

        if (atomic_load(&rq->cancelled)) /* cancelled before it began */
            rq->exec.error = EINTR;
        else
            amph_server_request_run(rq);

        pthread_mutex_lock(&s->shared.lock);
        unlist_running(s, rq);
        pthread_mutex_unlock(&s->shared.lock);
        amph_server_work_done(s, rq);
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
    s->progress.to_workers++;

    unsigned waiting = 1;

    for (struct amph_server_request *q = s->shared.work; q; q = q->next)
        waiting++;

    *s->shared.work_tail = rq;
    s->shared.work_tail = &rq->next;
    if (waiting > s->shared.idle && s->shared.workers < AMPH_SERVER_WORKERS_MAX)
        start_worker(s);

    pthread_cond_signal(&s->shared.work_cond);
    pthread_mutex_unlock(&s->shared.lock);
}

void amph_server_work_stop(struct amph_server *s)
{
    pthread_mutex_lock(&s->shared.lock);
    s->shared.stopping = true;
    pthread_cond_broadcast(&s->shared.work_cond);
    pthread_mutex_unlock(&s->shared.lock);
}

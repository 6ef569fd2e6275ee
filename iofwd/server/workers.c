/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's workers: threads that execute what is large, slow or blocking.  They never touch the
 * endpoint, clients or handles' queues; a finished request goes back to the progress thread.
 * Layer: iofwd.  Thread rule: give and stop by the progress thread.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/thread.h"
#include "iofwd/server/internal.h"

void amph_server_work_done(struct amph_server *s, struct amph_server_request *rq)
{
    pthread_mutex_lock(&s->lock);
    rq->next = NULL;
    *s->done_tail = rq;
    s->done_tail = &rq->next;
    __atomic_store_n(&s->posted, true, __ATOMIC_RELEASE);
    if (!s->stopping) /* from then on the endpoint may go at any time */
        amph_am_kick(s->ep);

    pthread_mutex_unlock(&s->lock);
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

/* One that a worker has.  With the lock held. */
static void wake(struct amph_server_request *rq)
{
    atomic_store(&rq->unwanted, true);
    pthread_kill(rq->thread, AMPH_SERVER_WAKE_SIGNAL);
}

void amph_server_work_wake(struct amph_server *s, const struct amph_server_peer *p, uint64_t seq)
{
    pthread_mutex_lock(&s->lock);
    for (struct amph_server_request *rq = s->running; rq; rq = rq->next_running)
        if (rq->peer == p && rq->seq == seq)
            wake(rq);

    pthread_mutex_unlock(&s->lock);
}

void amph_server_work_wake_all(struct amph_server *s, const struct amph_server_peer *p)
{
    pthread_mutex_lock(&s->lock);
    for (struct amph_server_request *rq = s->running; rq; rq = rq->next_running)
        if (rq->peer == p)
            wake(rq);

    for (struct amph_server_request *rq = s->work; rq; rq = rq->next)
        if (rq->peer == p)
            atomic_store(&rq->unwanted, true);

    pthread_mutex_unlock(&s->lock);
}

static void list_running(struct amph_server *s, struct amph_server_request *rq)
{
    rq->in_worker = true;
    rq->thread = pthread_self();
    rq->next_running = s->running;
    s->running = rq;
}

static void unlist_running(struct amph_server *s, struct amph_server_request *rq)
{
    struct amph_server_request **at = &s->running;

    while (*at != rq)
        at = &(*at)->next_running;

    *at = rq->next_running;
}

static void *worker(void *arg)
{
    struct amph_server *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct amph_server_request *rq = s->work;

        if (!rq) {
            s->idle++;
            pthread_cond_wait(&s->work_cond, &s->lock);
            s->idle--;
            continue;
        }

        s->work = rq->next;
        if (!s->work)
            s->work_tail = &s->work;

        list_running(s, rq);
        pthread_mutex_unlock(&s->lock);

        if (atomic_load(&rq->unwanted)) /* its client had gone before */
            rq->error = EINTR;
        else
            amph_server_request_run(rq);

        pthread_mutex_lock(&s->lock);
        unlist_running(s, rq);
        pthread_mutex_unlock(&s->lock);
        amph_server_work_done(s, rq);
        pthread_mutex_lock(&s->lock);
    }

    s->workers--;
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Another thread where all are at work: one that blocks (a FIFO without a partner) must not hold up
 * the rest. */
static void hire(struct amph_server *s)
{
    pthread_t thread;

    if (amph_thread_start(&thread, true, AMPH_SERVER_STACK_BYTES, worker, s) == 0)
        s->workers++;
    else if (s->workers == 0)
        amph_fatal("the I/O server cannot start a worker thread");
}

void amph_server_work_give(struct amph_server *s, struct amph_server_request *rq)
{
    pthread_mutex_lock(&s->lock);
    rq->next = NULL;
    s->handed++;

    unsigned waiting = 1;

    for (struct amph_server_request *q = s->work; q; q = q->next)
        waiting++;

    *s->work_tail = rq;
    s->work_tail = &rq->next;
    if (waiting > s->idle && s->workers < AMPH_SERVER_WORKERS_MAX)
        hire(s);

    pthread_cond_signal(&s->work_cond);
    pthread_mutex_unlock(&s->lock);
}

void amph_server_work_stop(struct amph_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->work_cond);
    pthread_mutex_unlock(&s->lock);
}

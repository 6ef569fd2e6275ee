/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls that wait at a server, for a lock or a FIFO.  The program's thread waits for the
 * supervisor in a state that only fatal signals end, so that no signal can repeat a call that has been
 * carried out.  Therefore the supervisor looks whether a signal has arrived for it, and ends the wait.
 *
 * The client has 64 requests for all calls of the program.  At most SLOTS of a queue wait; if more calls
 * want to, they take turns, each for SLICE_NS, because the call that ends a wait must get through.
 * Opens, and files that are ready, of which few wait, have queues of their own.
 *
 * Layer: iofwd.  Thread rule: the thread that carries the call out; one lock guards the queue.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/os/clock.h"

/* Between two looks for signals, at first and at most. */
#define LOOK_NS (5 * AMPH_NS_PER_MS)
#define LOOK_MAX_NS (50 * AMPH_NS_PER_MS)
#define SLICE_NS (100 * AMPH_NS_PER_MS)
#define SLOTS 16

/* The kernel's own value: it runs the handler, and then repeats the call or has it fail with EINTR, as
 * the handler's SA_RESTART says.  Only for a thread that is about to handle a signal. */
#define ERESTARTSYS 512

enum signal {
    NONE,
    OF_PROCESS, /* another thread may take it */
    OF_THREAD
};

static _Thread_local struct {
    const struct amph_trap_call *call;
    struct queue *queue;
    uint64_t begin_ns;
    uint64_t next_ns; /* look for signals */
    uint64_t end_ns;  /* of the slice */
    enum signal signal;
    bool gone;
} waiting;

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned used; /* slots */
    _Atomic unsigned wanting;
    uint64_t last, first; /* tickets: the last one given, the one whose turn is next */
};

static struct queue queues[] = {
    [AMPH_TRAP_WAIT_OPEN] = { .lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER },
    [AMPH_TRAP_WAIT_READY] = { .lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER },
    [AMPH_TRAP_WAIT_USE] = { .lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER },
};

/* ---- signals ---- */

/* The signals that have arrived for the thread and that it will handle. */
static enum signal signal_of(pid_t tid)
{
    unsigned long long pending = 0;
    unsigned long long shared = 0;
    unsigned long long blocked = 0;
    unsigned long long ignored = 0;
    unsigned threads = 0;
    char path[40], line[256];

    snprintf(path, sizeof path, "/proc/%d/status", (int)tid);

    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "Threads: %u", &threads);
        sscanf(line, "SigPnd: %llx", &pending);
        sscanf(line, "ShdPnd: %llx", &shared);
        sscanf(line, "SigBlk: %llx", &blocked);
        if (sscanf(line, "SigIgn: %llx", &ignored) == 1)
            break;
    }

    if (f)
        fclose(f);

    unsigned long long handled = ~blocked & ~ignored;

    if (pending & handled)
        return OF_THREAD;

    if (!(shared & handled))
        return NONE;

    return threads == 1 ? OF_THREAD : OF_PROCESS;
}

static bool is_interrupted(void)
{
    uint64_t now = amph_now_ns();

    if (waiting.signal != NONE || waiting.gone || now < waiting.next_ns)
        return waiting.signal != NONE || waiting.gone;

    /* a long wait costs little of the processor */
    uint64_t pause_ns = LOOK_NS + (now - waiting.begin_ns) / 16;

    waiting.next_ns = now + (pause_ns < LOOK_MAX_NS ? pause_ns : LOOK_MAX_NS);
    waiting.gone = !amph_trap_call_lives(waiting.call);
    if (!waiting.gone)
        waiting.signal = signal_of((pid_t)waiting.call->n.pid);

    return waiting.signal != NONE || waiting.gone;
}

/* Asked by the client while it waits. */
static bool must_end(void)
{
    if (!waiting.call)
        return false;

    if (is_interrupted())
        return true;

    return atomic_load_explicit(&waiting.queue->wanting, memory_order_relaxed) &&
           amph_now_ns() >= waiting.end_ns;
}

void amph_trap_wait_init(void)
{
    amph_fwd_set_cancelled(must_end);
}

/* ---- slots ---- */

/* Waits until its turn comes.  False: interrupted. */
static bool take_slot(struct queue *q)
{
    bool has = false;

    pthread_mutex_lock(&q->lock);

    uint64_t ticket = q->last++;

    atomic_fetch_add(&q->wanting, 1);
    while (!has) {
        struct timespec end;

        if (ticket == q->first && q->used < SLOTS) {
            q->used++;
            has = true;
        } else if (is_interrupted() && ticket == q->first) {
            break;
        } else {
            clock_gettime(CLOCK_MONOTONIC, &end);
            end.tv_nsec += LOOK_MAX_NS;
            if (end.tv_nsec >= (long)AMPH_NS_PER_S) {
                end.tv_nsec -= (long)AMPH_NS_PER_S;
                end.tv_sec++;
            }

            pthread_cond_clockwait(&q->changed, &q->lock, CLOCK_MONOTONIC, &end);
        }
    }

    q->first++;
    atomic_fetch_sub(&q->wanting, 1);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return has;
}

static void give_slot(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->used--;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* ---- the wait ---- */

/* What the call returns that has been interrupted. */
static int result(void)
{
    if (waiting.gone || !amph_trap_call_lives(waiting.call))
        return AMPH_TRAP_GONE;

    return waiting.signal == OF_THREAD ? ERESTARTSYS : EINTR;
}

int amph_trap_wait(struct amph_trap_call *c, enum amph_trap_wait_for what,
                   int (*attempt)(void *arg), void *arg)
{
    int err = EINTR;

    waiting.call = c;
    waiting.queue = &queues[what];
    waiting.begin_ns = amph_now_ns();
    waiting.next_ns = waiting.begin_ns + LOOK_NS;
    waiting.signal = NONE;
    waiting.gone = false;

    while (take_slot(waiting.queue)) {
        waiting.end_ns = amph_now_ns() + SLICE_NS;
        err = attempt(arg);
        give_slot(waiting.queue);
        if (err != EINTR || is_interrupted())
            break;
    }

    if (err == EINTR)
        err = result();

    waiting.call = NULL;
    return err;
}

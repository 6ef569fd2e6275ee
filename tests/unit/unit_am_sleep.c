/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of am/: several threads that sleep on one endpoint. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "am/ep.h"
#include "base/os/clock.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "tests/unit/unit_am.h"

static const struct timespec moment = { 0, AMPH_NS_PER_MS };

struct waiter {
    pthread_t thread;
    struct amph_am_ep *ep;
    _Atomic bool over;      /* what it waits for */
    _Atomic pid_t tid;      /* set when it begins */
    _Atomic unsigned steps; /* begun */
};

/* The library's ppoll comes here.  The thread `held` stays here after its sleep. */
static _Atomic pid_t held;
static _Atomic bool holds;

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec left = timeout ? *timeout : (struct timespec){ 0, 0 };
    int found = (int)syscall(SYS_ppoll, fds, n, timeout ? &left : NULL, mask, _NSIG / 8);

    while (held == gettid()) {
        holds = true;
        nanosleep(&moment, NULL);
    }

    return found;
}

static void *wait_for_it(void *arg)
{
    struct waiter *t = arg;
    struct amph_waiter w = AMPH_WAITER_INIT;

    t->tid = gettid();
    while (!t->over) {
        t->steps++;
        amph_am_wait_step(t->ep, &w);
    }

    return NULL;
}

/* Is the thread in this system call? */
static bool is_in_call(pid_t tid, long number)
{
    char name[64];
    long now = -1;

    snprintf(name, sizeof name, "/proc/self/task/%ld/syscall", (long)tid);

    FILE *f = fopen(name, "r");

    if (f && fscanf(f, "%ld", &now) != 1)
        now = -1;

    if (f)
        fclose(f);

    return now == number;
}

static void begin(struct waiter *t, struct amph_am_ep *ep, long sleeps_in)
{
    *t = (struct waiter){ .ep = ep };
    pthread_create(&t->thread, NULL, wait_for_it, t);
    while (!t->tid || !is_in_call(t->tid, sleeps_in))
        nanosleep(&moment, NULL);
}

/* One thread sleeps on the descriptors, and another on the futex.  The first one leaves, and the other one has looked
 * before it has.  What comes at a descriptor afterwards wakes the other one all the same. */
Test(am, the_last_waiter_sleeps_on_the_descriptors, .timeout = 60)
{
    static struct waiter first, last;
    int p[2];

    cr_assert_eq(pipe(p), 0);
    cr_assert_eq(amph_am_watch_fd(a, p[0]), AMPH_OK);
    a->threaded = true;
    a->cx[AMPH_CX_NET]->caps.fd_blocks = true;
    amph_am_set_wait_mode(AMPH_WAIT_BLOCK);
    amph_job.sleep_factor = 255; /* sleeps of 2.5 s and more, if nobody ends them */

    begin(&first, a, SYS_ppoll);
    begin(&last, a, SYS_futex);

    unsigned steps = last.steps;

    held = first.tid;
    first.over = true;
    amph_am_kick(a);
    while (!holds || last.steps == steps || !is_in_call(last.tid, SYS_futex))
        nanosleep(&moment, NULL);

    held = 0;
    pthread_join(first.thread, NULL);

    uint64_t came_ns = amph_now_ns();

    last.over = true;
    cr_assert_eq(write(p[1], "x", 1), 1);
    pthread_join(last.thread, NULL);
    cr_assert_lt(amph_now_ns() - came_ns, AMPH_NS_PER_S, "nobody has woken the last waiter");
    close(p[0]);
    close(p[1]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of am/: how waits spin, yield and sleep, and what ends a sleep. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "am/ep.h"
#include "base/os/clock.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "tests/unit/unit_am_fake.h"
#include "tests/unit/unit_am.h"

static unsigned ticks;

static void count_tick(struct amph_am_ep *ep)
{
    ticks++;
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * AMPH_NS_PER_S + (uint64_t)ts.tv_nsec;
}

Test(am, idle_waits_sleep, .timeout = 20)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    amph_am_set_tick(a, count_tick);

    uint64_t cpu = cpu_ns();
    uint64_t end = amph_now_ns() + 500 * AMPH_NS_PER_MS;

    while (amph_now_ns() < end)
        amph_am_wait_step(a, &w);

    cr_assert_lt(cpu_ns() - cpu, 50 * AMPH_NS_PER_MS, "an idle half second cost %llu us",
                 (unsigned long long)(cpu_ns() - cpu) / 1000);
    cr_assert_geq(ticks, 20);
}

struct kicker {
    struct amph_am_ep *ep;
    uint64_t at_ns; /* when it kicked; 0: not yet */
    sem_t next;
};

static void *kick_thread(void *arg)
{
    const struct timespec pause = { 0, 3000000 };
    struct kicker *k = arg;

    for (unsigned i = 0; i < 50; i++) {
        sem_wait(&k->next);
        nanosleep(&pause, NULL);
        __atomic_store_n(&k->at_ns, amph_now_ns(), __ATOMIC_SEQ_CST);
        amph_am_kick(k->ep);
    }

    return NULL;
}

/* A kick ends a sleep, which otherwise would last for 7 ms more.  On a busy host some wake late. */
Test(am, kick_wakes_sleepers, .timeout = 20)
{
    struct kicker k = { .ep = open_one(3, true) };
    unsigned prompt = 0;
    pthread_t t;

    amph_am_set_wait_mode(AMPH_WAIT_BLOCK);
    sem_init(&k.next, 0, 0);
    pthread_create(&t, NULL, kick_thread, &k);
    for (unsigned i = 0; i < 50; i++) {
        struct amph_waiter w = AMPH_WAITER_INIT;
        uint64_t at_ns;

        __atomic_store_n(&k.at_ns, 0, __ATOMIC_SEQ_CST);
        sem_post(&k.next);
        while ((at_ns = __atomic_load_n(&k.at_ns, __ATOMIC_SEQ_CST)) == 0)
            amph_am_wait_step(k.ep, &w);

        prompt += amph_now_ns() - at_ns < 4 * AMPH_NS_PER_MS;
    }

    pthread_join(t, NULL);
    amph_am_close(k.ep);
    cr_assert_geq(prompt, 25, "%u of 50 waits ended within 4 ms of their kick", prompt);
}

Test(am, watched_descriptors_end_a_sleep, .timeout = 20)
{
    int p[2];

    cr_assert_eq(pipe(p), 0);
    cr_assert_eq(amph_am_watch_fd(a, p[0]), AMPH_OK);
    cr_assert_eq(write(p[1], "x", 1), 1);
    amph_am_set_wait_mode(AMPH_WAIT_BLOCK);

    struct amph_waiter w = AMPH_WAITER_INIT;
    uint64_t begin = amph_now_ns();

    for (unsigned i = 0; i < 20; i++)
        amph_am_wait_step(a, &w);

    cr_assert_lt(amph_now_ns() - begin, 100 * AMPH_NS_PER_MS);
    amph_am_unwatch_fd(a, p[0]);
    cr_assert_eq(a->nwatch, 0);
    for (unsigned i = 0; i < AMPH_AM_WATCH_MAX; i++)
        cr_assert_eq(amph_am_watch_fd(a, p[0]), AMPH_OK);

    cr_assert_eq(amph_am_watch_fd(a, p[0]), AMPH_ERR_NOMEM);
    amph_am_unwatch_fd(a, p[0]);
    cr_assert_eq(a->nwatch, 0);
}

/* The library's yields come here; others compute for so long then.  0: they have nothing to do.  A true yield takes
 * a time slice on a busy host, which ends the yields of the next 64 waits. */
static long others_compute_ns;

int sched_yield(void)
{
    const struct timespec nap = { 0, others_compute_ns };
    return others_compute_ns ? nanosleep(&nap, NULL) : 0;
}

/* A wait of b for a message that comes as soon as b yields, or, where its sender has a core of its
 * own, after two rounds of whatever kind.  Tells how many steps it took, and what the last did. */
static unsigned steps_of_wait(bool own_core, enum amph_waiter_phase *phase_p)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    unsigned had = seen.n;
    unsigned steps = 0;
    bool sent = false;

    while (seen.n == had) {
        if (!sent && (own_core ? w.rounds == 2 : w.phase != AMPH_WAITER_SPINS)) {
            cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
            sent = true;
        }

        *phase_p = w.phase;
        amph_am_wait_step(b, &w);
        steps++;
    }

    return steps;
}

/* How many waits it takes until 20 in a row have been as wanted; 1000: that never came. */
static unsigned waits_until(bool own_core, enum amph_waiter_phase wanted, unsigned most_steps)
{
    unsigned waits = 0;
    unsigned row = 0;
    enum amph_waiter_phase phase;

    while (row < 20 && waits < 1000) {
        waits++;
        unsigned steps = steps_of_wait(own_core, &phase);

        row = phase == wanted && steps <= most_steps ? row + 1 : 0;
    }

    return waits;
}

Test(am, who_is_waited_for_needs_this_core, .timeout = 20)
{
    amph_am_set_wait_mode(AMPH_WAIT_ADAPTIVE);
    add(b, 20, count, 1, 1, 0);
    cr_assert_lt(waits_until(false, AMPH_WAITER_YIELDS, 3), 1000,
                 "waits spin although the sender runs only when they yield");
    cr_assert_lt(waits_until(true, AMPH_WAITER_SPINS, 5), 1000,
                 "waits yield although the sender has a core of its own");
    waits_until(false, AMPH_WAITER_YIELDS, 3);
    others_compute_ns = 200000;
    cr_assert_lt(waits_until(true, AMPH_WAITER_SPINS, 5), 30,
                 "waits go on giving their core to others");
}

/* ---- more processes than cores ---- */

/* The yields of a wait for which nothing comes, up to its sleep. */
static unsigned yields_up_to_sleep(void)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    while (w.phase != AMPH_WAITER_SLEEPS)
        amph_am_wait_step(b, &w);

    return w.yields;
}

/* The same, without yields that other processes of this machine have made long. */
static unsigned yields_before_sleep(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        amph_job.slow_yield_waits = 0;
        amph_job.waits_without_yields = 0;

        unsigned yields = yields_up_to_sleep();

        if (!amph_job.slow_yield_waits)
            return yields;
    }

    cr_assert_fail("every wait had a long yield");
    return 0;
}

Test(am, waits_yield_less_often_where_yields_take_longer, .timeout = 20)
{
    const unsigned cores = amph_am_cores();

    amph_am_set_wait_mode(AMPH_WAIT_ADAPTIVE);
    amph_am_set_oversubscribed(2 * cores);

    unsigned few = yields_before_sleep();

    others_compute_ns = 100000;
    amph_am_set_oversubscribed(64 * cores);

    unsigned many = yields_before_sleep();

    cr_assert_geq(few, 32, "%u", few);
    cr_assert_leq(many, few / 2, "%u of a few processes, %u of many", few, many);
}

/* Processes that are woken one after the other must find those that woke first still awake. */
Test(am, waits_yield_until_all_can_be_awake, .timeout = 20)
{
    const unsigned cores = amph_am_cores();

    amph_am_set_wait_mode(AMPH_WAIT_ADAPTIVE);
    amph_am_set_oversubscribed(64 * cores);

    uint64_t begin = amph_now_ns();

    yields_before_sleep();
    cr_assert_geq(amph_now_ns() - begin, AMPH_NS_PER_MS);
}

/* A yield that takes a time slice makes the next waits sleep at once, and more of them each time; a wait
 * with short ones ends that. */
Test(am, long_yields_are_forgotten_after_short_ones, .timeout = 20)
{
    enum amph_waiter_phase phase = AMPH_WAITER_SPINS;

    amph_am_set_wait_mode(AMPH_WAIT_ADAPTIVE);
    amph_am_set_oversubscribed(2 * amph_am_cores());
    add(b, 20, count, 1, 1, 0);

    others_compute_ns = 5000000;
    yields_up_to_sleep();
    cr_assert_gt(amph_job.slow_yield_waits, 0);

    others_compute_ns = 0;

    unsigned waits = 0;

    for (; waits < 1000 && amph_job.slow_yield_waits; waits++) {
        struct amph_waiter w = AMPH_WAITER_INIT;

        amph_am_wait_step(b, &w);
        phase = w.phase;
        cr_assert_eq(send_short(20, 0, 0), AMPH_OK);
        amph_am_wait_step(b, &w);
    }

    cr_assert_eq(amph_job.slow_yield_waits, 0, "waits go on sleeping");
    cr_assert_gt(waits, 32, "%u waits slept", waits);
    cr_assert_neq(phase, AMPH_WAITER_SLEEPS);
}

/* What a yield takes in which each of many processes of the job has its turn is no time slice of others. */
Test(am, turns_of_many_processes_are_no_long_yield, .timeout = 20)
{
    amph_am_set_wait_mode(AMPH_WAIT_ADAPTIVE);
    amph_am_set_oversubscribed(64 * amph_am_cores());
    others_compute_ns = 1000000;
    cr_assert_gt(yields_before_sleep(), 2);
}

/* Requests that are not handled before deferred replies are sent do not keep a wait awake, and naps grow by 2. */
Test(am, waits_sleep_while_replies_are_put_off, .timeout = 20)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    add(b, 20, answer, 1, 1, 0);
    fake.room[AMPH_LANE_REPLY] = 1;
    for (unsigned i = 0; i < 2 * AMPH_AM_BUDGET; i++)
        cr_assert_eq(send_short(20, 0, AMPH_AM_IMMEDIATE), AMPH_OK);

    amph_am_poll(b);
    cr_assert_not_null(b->deferred);
    b->cx[AMPH_CX_NET]->caps.fd_blocks = true;
    amph_am_set_wait_mode(AMPH_WAIT_BLOCK);

    uint64_t cpu = cpu_ns();
    uint64_t end = amph_now_ns() + 500 * AMPH_NS_PER_MS;
    uint64_t nap_ns = 0;

    while (amph_now_ns() < end) {
        amph_am_wait_step(b, &w);
        cr_assert_leq(w.nap_ns, nap_ns ? 2 * nap_ns : 20 * AMPH_NS_PER_US);
        nap_ns = w.nap_ns;
    }

    cr_assert_lt(cpu_ns() - cpu, 150 * AMPH_NS_PER_MS, "half a second of waiting cost %llu us",
                 (unsigned long long)(cpu_ns() - cpu) / 1000);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* An idle wait sleeps in the kernel: two seconds cost under 30 ms of CPU time; and a message ends
 * it in far less than its longest sleep, also where a core has hundreds of processes, which wake up
 * less often. */
#include <sys/resource.h>
#include <time.h>

#include "tests/am/am_common.h"

static unsigned came;

static void on_wake(struct amph_token *token, const struct amph_am *am)
{
    came++;
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * AMPH_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int less(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void idle(uint64_t for_ns)
{
    uint64_t end = amph_now_ns() + for_ns;
    struct amph_waiter w = AMPH_WAITER_INIT;

    while (amph_now_ns() < end)
        amph_am_wait_step(amph_job.ep, &w);
}

static long switches(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
}

/* As one of 256 processes for each core: sleeps of 10 ms would be 100 switches. */
static void check_crowd(void)
{
    amph_am_set_oversubscribed(256 * amph_am_cores());

    long before = switches();

    idle(AMPH_NS_PER_S);

    long n = switches() - before;

    CHECK(n < 30, "an idle second of one of 256 processes a core has %ld switches", n);
}

int main(void)
{
    enum {
        TRIPS = 41
    };

    uint64_t trip[TRIPS];

    am_start(false);
    am_needs_two();
    am_handler(130, on_wake, 1, 3, 0);
    am_barrier();

    uint32_t other = amph_job.size - 1 - amph_job.rank;
    uint64_t cpu = cpu_ns();

    idle(2 * AMPH_NS_PER_S);
    cpu = cpu_ns() - cpu;
    CHECK(cpu < 30 * AMPH_NS_PER_MS, "two idle seconds cost %llu us of CPU",
          (unsigned long long)cpu / 1000);
    am_barrier();
    check_crowd();
    am_barrier();

    /* Member 0 sends every 5 ms to one that sleeps, which answers. */
    for (unsigned i = 0; i < TRIPS; i++) {
        struct timespec pause = { 0, 5000000 };
        const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 130 };
        unsigned want = came + 1;
        uint64_t begin = 0;

        if (amph_job.rank == 0) {
            nanosleep(&pause, NULL);
            begin = amph_now_ns();
            CHECK(amph_am_request(amph_job.ep, other, &am, 0, NULL) == AMPH_OK, "request");
        }

        WAIT_UNTIL(came >= want);
        if (amph_job.rank != 0)
            CHECK(amph_am_request(amph_job.ep, other, &am, 0, NULL) == AMPH_OK, "request");

        trip[i] = amph_now_ns() - begin;
    }

    if (amph_job.rank == 0) {
        qsort(trip, TRIPS, sizeof trip[0], less);
        printf("idle: %llu us of CPU in 2 s; to a sleeper and back: median %llu us\n",
               (unsigned long long)cpu / 1000, (unsigned long long)trip[TRIPS / 2] / 1000);
        CHECK(trip[TRIPS / 2] < 4 * AMPH_NS_PER_MS, "a message takes %llu us to wake a sleeper",
              (unsigned long long)trip[TRIPS / 2] / 1000);
    }

    am_barrier();
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures of a conduit by itself, beside the machine's limits in the same run (make
 * tests/conformance/bench_conduit; not installed, no test).
 * Layer: tests.  Thread rule: two or more
 * forked processes of one thread.
 *
 *   tests/conformance/bench_conduit [CONDUIT [TEST...]]     tests: rtt flood medium sleep oversubscribed
 *   idle
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/platform.h"
#include "conduits/conduit.h"

#define MAX_PROCS 8
#define SECONDS_LIMIT 120

/* Shared by the processes of a run, outside of the conduit. */
static struct shared {
    struct {
        uint64_t word AMPH_ALIGN_LINE;
    } line[2];
    unsigned here AMPH_ALIGN_LINE;
    uint8_t addr[MAX_PROCS][AMPH_ADDR_MAX_BYTES];
    size_t addr_len[MAX_PROCS];
    double result[4];
} * shared;

static const struct amph_conduit_ops *ops;
static struct amph_cx *cx;
static uint64_t got[AMPH_NLANES];
static bool replies;

static void bad(const char *what)
{
    fprintf(stderr, "bench_conduit: %s\n", what);
    exit(1);
}

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    got[lane]++;
    if (replies && lane == AMPH_LANE_REQUEST &&
        ops->am_send(cx, peer, AMPH_LANE_REPLY, am, NULL) != AMPH_OK)
        bad("a reply found no room");
}

static void on_peer_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    bad(why);
}

static const struct amph_upcalls upcalls = { on_am, on_peer_error };

static void pin(unsigned core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void barrier(unsigned n)
{
    unsigned mine = __atomic_add_fetch(&shared->here, 1, __ATOMIC_SEQ_CST);
    unsigned all = (mine + n - 1) / n * n;

    while (__atomic_load_n(&shared->here, __ATOMIC_SEQ_CST) < all)
        sched_yield();
}

static void join(unsigned index, unsigned n)
{
    struct amph_cx_config cfg = { .name = "bench",
                                  .max_peers = 64,
                                  .loopback_only = true,
                                  .interface = "",
                                  .upcalls = &upcalls };

    if (ops->open(&cfg, &cx) != AMPH_OK)
        bad("open failed");

    memcpy(shared->addr[index], cx->addr, cx->addr_len);
    shared->addr_len[index] = cx->addr_len;
    barrier(n);

    for (unsigned i = 0; i < n; i++) {
        struct amph_peer_spec spec = { shared->addr[i], shared->addr_len[i], index,
                                       1000 + index * 64 + i, 1000 + i * 64 + index };

        if (ops->add_peer(cx, i, &spec) != AMPH_OK)
            bad("add_peer failed");
    }

    barrier(n);
}

static void send(uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    enum amph_status st;

    while ((st = ops->am_send(cx, peer, lane, am, NULL)) == AMPH_AGAIN)
        if (ops->progress(cx, 3, 32) == 0)
            amph_cpu_relax();

    if (st != AMPH_OK)
        bad("am_send failed");
}

static double two_line(unsigned index, unsigned rounds)
{
    uint64_t start = amph_now_ns();

    for (uint64_t i = 1; i <= rounds; i++) {
        if (index == 0)
            __atomic_store_n(&shared->line[0].word, i, __ATOMIC_RELEASE);

        while (__atomic_load_n(&shared->line[1 - index].word, __ATOMIC_ACQUIRE) < i)
            ;

        if (index == 1)
            __atomic_store_n(&shared->line[1].word, i, __ATOMIC_RELEASE);
    }

    return (double)(amph_now_ns() - start) / rounds;
}

static double ping_pong(unsigned index, unsigned rounds, const struct amph_am *am)
{
    uint64_t start = amph_now_ns();
    uint64_t first = got[1 - index];

    replies = index == 1;
    for (unsigned i = 1; i <= rounds; i++) {
        if (index == 0)
            send(1, AMPH_LANE_REQUEST, am);

        while (got[index == 0 ? AMPH_LANE_REPLY : AMPH_LANE_REQUEST] - first < i)
            ops->progress(cx, 3, 32);

        if (index == 0)
            first = got[AMPH_LANE_REPLY] - i;
    }

    return (double)(amph_now_ns() - start) / rounds;
}

static void rtt(unsigned index)
{
    static uint8_t payload[65536];
    static const uint32_t sizes[] = { 8, 1024, 4096, 65536 };
    int32_t args[16] = { 0 };

    for (unsigned round = 0; round < 3; round++) {
        barrier(2);

        double limit = two_line(index, 1000000);

        memset(shared->line, 0, sizeof shared->line);
        barrier(2);
        memset(shared->line, 0, sizeof shared->line);

        for (unsigned nargs = 0; nargs <= 16; nargs += 16) {
            struct amph_am am = {
                .kind = AMPH_AM_SHORT, .handler = 1, .nargs = (uint8_t)nargs, .args = args
            };

            barrier(2);
            memset(got, 0, sizeof got);
            barrier(2);

            double t = ping_pong(index, 500000, &am);

            if (index == 0)
                printf("short rtt, %2u args      %8.1f ns   two-line %6.1f ns   ratio %.2f\n",
                       nargs, t, limit, t / limit);
        }
    }

    for (size_t k = 0; k < AMPH_COUNTOF(sizes); k++) {
        struct amph_am am = {
            .kind = AMPH_AM_MEDIUM, .handler = 1, .nbytes = sizes[k], .payload = payload
        };

        barrier(2);
        memset(got, 0, sizeof got);
        barrier(2);

        double t = ping_pong(index, 20000, &am);

        if (index == 0)
            printf("medium rtt, %5u bytes  %8.1f ns\n", sizes[k], t);
    }
}

static double copy_speed(void)
{
    static uint8_t a[1 << 20], b[1 << 20];

    memset(a, 1, sizeof a);
    memset(b, 2, sizeof b);

    uint64_t start = amph_now_ns();

    for (unsigned i = 0; i < 4000; i++) {
        memcpy(a, b, sizeof a);
        __asm__ volatile("" ::: "memory");
    }

    return 4000.0 * sizeof a / (double)(amph_now_ns() - start);
}

/* Process 0 floods process 1, which does (or does not) read the payload. */
static void flood_size(unsigned index, unsigned size, unsigned count)
{
    static uint8_t payload[65536];
    struct amph_am am = { .kind = size ? AMPH_AM_MEDIUM : AMPH_AM_SHORT,
                          .handler = 1,
                          .nbytes = size,
                          .payload = payload };

    replies = false;
    memset(got, 0, sizeof got);
    barrier(2);

    uint64_t start = amph_now_ns();

    if (index == 0) {
        for (unsigned i = 0; i < count; i++)
            send(1, AMPH_LANE_REQUEST, &am);
    } else {
        while (got[0] < count)
            ops->progress(cx, 3, 32);
    }

    barrier(2);

    double ns = (double)(amph_now_ns() - start);

    if (index == 0)
        printf("flood, %5u bytes       %8.1f ns a message   %6.2f GB/s\n", size, ns / count,
               size * (double)count / ns);
}

static void flood(unsigned index)
{
    static const unsigned sizes[] = { 0, 8, 64, 512, 4096, 16384, 65536 };

    for (size_t k = 0; k < AMPH_COUNTOF(sizes); k++)
        flood_size(index, sizes[k], sizes[k] > 1000 ? 40000 : 2000000);

    if (index == 0)
        printf("memcpy of 1 MiB in one process: %.2f GB/s\n", copy_speed());
}

static void sleep_once(void)
{
    if (ops->arm(cx, AMPH_ARM_FD, 0) == AMPH_OK) {
        struct pollfd p = { ops->wait_fd(cx), POLLIN, 0 };
        poll(&p, 1, 1000);
    }

    ops->arm(cx, AMPH_ARM_OFF, 0);
}

static double cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Ping-pong in which every wait sleeps at once, by either way of sleeping. */
static void sleepers(unsigned index)
{
    struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };

    replies = index == 1;
    for (unsigned how = 0; how < 2; how++) {
        enum {
            ROUNDS = 20000
        };
        memset(got, 0, sizeof got);
        barrier(2);

        uint64_t start = amph_now_ns();
        double cpu = cpu_us();

        for (unsigned i = 1; i <= ROUNDS; i++) {
            if (index == 0)
                send(1, AMPH_LANE_REQUEST, &am);

            while (got[1 - index] < i)
                if (ops->progress(cx, 3, 32) == 0) {
                    if (how && cx->caps.can_sleep)
                        ops->arm(cx, AMPH_ARM_SLEEP, AMPH_NS_PER_S);
                    else
                        sleep_once();
                }
        }

        if (index == 0)
            printf("rtt of sleepers by %s   %8.2f us, %.2f us of a core\n",
                   how ? "futex     " : "descriptor",
                   (double)(amph_now_ns() - start) / ROUNDS / 1e3, (cpu_us() - cpu) / ROUNDS);

        barrier(2);
    }
}

/* Eight processes in a ring on all cores; each waits for its left neighbour: some yields, then
 * sleep. */
static void oversubscribed(unsigned index)
{
    enum {
        ROUNDS = 4000
    };

    struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };

    for (unsigned yields = 0; yields <= 64; yields += 32) {
        memset(got, 0, sizeof got);
        barrier(MAX_PROCS);

        uint64_t start = amph_now_ns();

        for (unsigned i = 1; i <= ROUNDS; i++) {
            unsigned n = 0;

            if (index == 0)
                send(1, AMPH_LANE_REQUEST, &am);

            while (got[0] < i)
                if (ops->progress(cx, 3, 32) == 0) {
                    if (n++ < yields)
                        sched_yield();
                    else if (cx->caps.can_sleep)
                        ops->arm(cx, AMPH_ARM_SLEEP, AMPH_NS_PER_S);
                    else
                        sleep_once();
                }

            if (index)
                send((index + 1) % MAX_PROCS, AMPH_LANE_REQUEST, &am);
        }

        if (index == 0)
            printf("ring of %u processes, %2u yields before sleep: %7.2f us a hop\n", MAX_PROCS,
                   yields, (double)(amph_now_ns() - start) / ROUNDS / MAX_PROCS / 1e3);

        barrier(MAX_PROCS);
    }
}

static void idle(unsigned index)
{
    struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };

    memset(got, 0, sizeof got);
    replies = false;
    barrier(2);

    if (index == 1) {
        sleep(2);
        send(0, AMPH_LANE_REQUEST, &am);
        return;
    }

    double cpu = cpu_us();

    while (got[0] == 0)
        if (ops->progress(cx, 3, 32) == 0) {
            if (ops->arm(cx, AMPH_ARM_FD, 0) == AMPH_OK) {
                struct pollfd p = { ops->wait_fd(cx), POLLIN, 0 };
                poll(&p, 1, 10);
            }

            ops->arm(cx, AMPH_ARM_OFF, 0);
        }

    printf("idle wait of 2 s, waking every 10 ms: %.2f ms of a core\n", (cpu_us() - cpu) / 1e3);
}

static const struct {
    const char *name;
    unsigned procs;
    void (*run)(unsigned index);
} tests[] = { { "rtt", 2, rtt },

              { "flood", 2, flood },
              { "sleep", 2, sleepers },
              { "oversubscribed", MAX_PROCS, oversubscribed },
              { "idle", 2, idle } };

static void run(size_t which)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        bad("no shared memory");

    fflush(NULL);
    for (unsigned i = 0; i < tests[which].procs; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(SECONDS_LIMIT);
            pin(i);
            join(i, tests[which].procs);
            tests[which].run(i);
            barrier(tests[which].procs);
            ops->close(cx);
            exit(0);
        }

    for (unsigned i = 0; i < tests[which].procs; i++) {
        int status;

        wait(&status);
        if (status)
            bad("a process failed");
    }

    munmap(shared, sizeof *shared);
}

int main(int argc, char **argv)
{
    ops = amph_conduit_find(argc > 1 ? argv[1] : "smp");
    if (!ops)
        bad("there is no such conduit");

    for (size_t i = 0; i < AMPH_COUNTOF(tests); i++) {
        bool wanted = argc <= 2;

        for (int k = 2; k < argc; k++)
            wanted |= strcmp(argv[k], tests[i].name) == 0;

        if (wanted)
            run(i);
    }

    return 0;
}

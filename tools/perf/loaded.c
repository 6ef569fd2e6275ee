/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amphora-perf -loaded: waits beside processes that compute.  For each conduit and each number of
 * competing processes, jobs take turns with AMPHORA_WAIT=spin, block and adaptive; in each, every
 * call of a kind is timed by itself, because a busy machine shows in the slowest ones.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#define GASNET_SEQ 1
#include <errno.h>
#include <fcntl.h>
#include <gasnet.h>
#include <gasnetex.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

enum {
    CALLS_MIN = 100,   /* so that there is a slowest hundredth */
    CALLS_MAX = 40000, /* a sample of a fast call ends here */
    CALL_BYTES = 1024,
    LOADS_MAX = 1024
};
#define SAMPLE_NS (300 * AMPH_NS_PER_MS)

enum mode {
    SPIN,
    BLOCK,
    DEFAULT,
    MODES
};
static const char *const mode_word[MODES] = { "spin", "block", "adaptive" };
static const char *const call_name[PERF_LOADED_CALLS] = { "am_rtt", "barrier", "fwd_read" };
static const char *const statistic_name[PERF_LOADED_STATISTICS] = { "median", "p99", "mean" };

/* ---- inside a job ---- */

struct calls {
    double us[CALLS_MAX];
    unsigned count;
    uint64_t end_ns;
};

static void calls_begin(struct calls *c)
{
    c->count = 0;
    c->end_ns = amph_now_ns() + SAMPLE_NS;
}

static bool calls_enough(const struct calls *c)
{
    return c->count >= CALLS_MAX || (c->count >= CALLS_MIN && amph_now_ns() >= c->end_ns);
}

static void calls_add(struct calls *c, uint64_t start_ns)
{
    if (c->count < CALLS_MAX)
        c->us[c->count++] = (double)(amph_now_ns() - start_ns) / 1e3;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

static void calls_end(struct calls *c, struct perf_shared *shared, enum perf_loaded_call call)
{
    double *us = shared->loaded_us[call];
    double sum = 0;

    qsort(c->us, c->count, sizeof *c->us, by_size);
    for (unsigned i = 0; i < c->count; i++)
        sum += c->us[i];

    us[PERF_LOADED_MEDIAN] = c->us[c->count / 2];
    us[PERF_LOADED_P99] = c->us[c->count - 1 - c->count / 100];
    us[PERF_LOADED_MEAN] = sum / c->count;
}

static void sample_messages(struct perf_run *run, struct calls *c)
{
    if (run->rank == 1) {
        perf_am_serve_waiting();
        return;
    }

    for (calls_begin(c); !calls_enough(c);) {
        uint64_t start_ns = amph_now_ns();

        perf_am_ping();
        calls_add(c, start_ns);
    }

    perf_am_release(run);
    calls_end(c, run->shared, PERF_LOADED_AM);
}

/* Both processes make the same number: before barrier i rank 0 writes whether it is the last. */
static void sample_barriers(struct perf_run *run, struct calls *c)
{
    _Atomic uint64_t *last = &run->shared->line_a;

    calls_begin(c);
    for (uint64_t i = 1;; i++) {
        if (run->rank == 0)
            *last = calls_enough(c) ? i : 0;

        uint64_t start_ns = amph_now_ns();

        perf_sync(run);
        calls_add(c, start_ns);
        if (*last == i)
            break;
    }

    if (run->rank == 0)
        calls_end(c, run->shared, PERF_LOADED_BARRIER);
}

static bool sample_reads(struct perf_run *run, struct calls *c)
{
    char buffer[CALL_BYTES];
    int fd = open(PERF_PREFIX "/data", O_RDONLY);
    bool ok = fd >= 0;

    for (calls_begin(c); ok && !calls_enough(c);) {
        uint64_t start_ns = amph_now_ns();

        ok = pread(fd, buffer, sizeof buffer, 0) == (ssize_t)sizeof buffer;
        calls_add(c, start_ns);
    }

    if (!ok)
        fprintf(stderr, "amphora-perf: reading " PERF_PREFIX "/data failed: %s\n", strerror(errno));
    else
        calls_end(c, run->shared, PERF_LOADED_READ);

    if (fd >= 0)
        close(fd);

    return ok;
}

int perf_loaded_inside(const struct perf_options *opt)
{
    struct calls calls;
    struct perf_run run = { .opt = opt, .conduit = opt->conduits, .tcp_fd = -1, .udp_fd = -1 };
    bool ok = true;

    run.shared = perf_shared_open(opt->inside);
    if (!run.shared || !perf_join(&run, 1u << 20))
        return 1;

    perf_sync(&run); /* all have registered their handlers */
    if (run.procs == 1) {
        ok = sample_reads(&run, &calls);
    } else {
        sample_messages(&run, &calls);
        perf_sync(&run);
        sample_barriers(&run, &calls);
    }

    gasnet_exit(ok ? 0 : 1);
    return 0;
}

/* ---- competing processes ---- */

struct load {
    pid_t pid[LOADS_MAX];
    unsigned count;
};

static void compute(pid_t parent)
{
    volatile uint64_t n = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        for (unsigned i = 0; i < 1u << 24; i++)
            n++;

    _exit(0);
}

static bool load_begin(struct load *l, unsigned count)
{
    const pid_t self = getpid();

    for (l->count = 0; l->count < count; l->count++) {
        pid_t pid = fork();

        if (pid == 0)
            compute(self);

        if (pid < 0) {
            fprintf(stderr, "amphora-perf: cannot start competing process %u: %s\n", l->count,
                    strerror(errno));
            return false;
        }

        l->pid[l->count] = pid;
    }

    return true;
}

static void load_end(struct load *l)
{
    for (unsigned i = 0; i < l->count; i++)
        kill(l->pid[i], SIGKILL);

    for (unsigned i = 0; i < l->count; i++)
        while (waitpid(l->pid[i], NULL, 0) < 0 && errno == EINTR)
            ;

    l->count = 0;
}

/* ---- the table ---- */

/* The figures of one call: a series over the jobs of each mode. */
struct cell {
    struct perf_series us[PERF_LOADED_STATISTICS][MODES];
};

static void print_row(const struct perf_options *opt, const char *conduit, unsigned load,
                      const char *call, const char *statistic, const struct perf_series us[MODES])
{
    double spin = perf_median(&us[SPIN]);
    double block = perf_median(&us[BLOCK]);
    double adaptive = perf_median(&us[DEFAULT]);
    double better = spin < block ? spin : block;

    printf(opt->json ? "{\"conduit\":\"%s\",\"load\":%u,\"test\":\"%s\",\"statistic\":\"%s\","
                       "\"spin_us\":%.2f,\"block_us\":%.2f,\"default_us\":%.2f,\"ratio\":%.2f}\n"
                     : "%-5s %4u %-8s %-9s %9.2f %9.2f %9.2f %6.2f\n",
           conduit, load, call, statistic, spin, block, adaptive, adaptive / better);
    fflush(stdout);
}

static void print_cell(const struct perf_options *opt, const char *conduit, unsigned load,
                       const char *call, const struct cell *cell)
{
    for (unsigned i = 0; i < PERF_LOADED_STATISTICS; i++)
        print_row(opt, conduit, load, call, statistic_name[i], cell->us[i]);
}

static void take(struct cell cells[PERF_LOADED_CALLS], enum mode mode, unsigned first,
                 unsigned last, const struct perf_shared *shared)
{
    for (unsigned call = first; call <= last; call++)
        for (unsigned i = 0; i < PERF_LOADED_STATISTICS; i++) {
            struct perf_series *series = &cells[call].us[i][mode];

            series->value[series->count++] = shared->loaded_us[call][i];
        }
}

/* One job of two processes and one with a server, in one mode. */
static bool sample_mode(struct perf_loaded *l, const char *conduit, enum mode mode,
                        struct cell cells[PERF_LOADED_CALLS])
{
    if (!l->run(l, conduit, 2, mode_word[mode]))
        return false;

    take(cells, mode, PERF_LOADED_AM, PERF_LOADED_BARRIER, l->shared);
    if (!l->run(l, conduit, 1, mode_word[mode]))
        return false;

    take(cells, mode, PERF_LOADED_READ, PERF_LOADED_READ, l->shared);
    return true;
}

static bool run_load(struct perf_loaded *l, const char *conduit, unsigned count)
{
    struct cell *cells = calloc(PERF_LOADED_CALLS, sizeof *cells);
    struct load load = { .count = 0 };
    bool ok = cells && load_begin(&load, count);

    for (unsigned i = 0; ok && i < l->opt->repeat; i++)
        for (unsigned m = 0; ok && m < MODES; m++)
            ok = sample_mode(l, conduit, (enum mode)((m + i) % MODES), cells);

    load_end(&load);
    for (unsigned call = 0; ok && call < PERF_LOADED_CALLS; call++)
        print_cell(l->opt, conduit, count, call_name[call], &cells[call]);

    free(cells);
    return ok;
}

bool perf_loaded_list(const char *list)
{
    for (const char *at = list; *at; at += *at == ',') {
        char *end;
        unsigned long n = strtoul(at, &end, 10);

        if (end == at || (*end && *end != ',') || *at == '-' || n > LOADS_MAX) {
            fprintf(stderr,
                    "amphora-perf: -loaded %s: wanted are numbers from 0 to %d, commas between\n",
                    list, LOADS_MAX);
            return false;
        }

        at = end;
    }

    return *list != '\0';
}

bool perf_loaded_conduit(struct perf_loaded *l, const char *conduit)
{
    bool ok = true;

    for (const char *at = l->opt->loaded; ok && *at; at += *at == ',') {
        char *end;

        ok = run_load(l, conduit, (unsigned)strtoul(at, &end, 10));
        at = end;
    }

    return ok;
}

void perf_loaded_head(const struct perf_options *opt)
{
    if (!opt->json)
        printf("%-5s %4s %-8s %-9s %9s %9s %9s %6s\n", "", "load", "call", "", "spin us",
               "block us", "default", "ratio");
}

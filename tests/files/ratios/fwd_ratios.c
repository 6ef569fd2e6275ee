/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times patterns of file calls.
 *
 *   fwd_ratios DIR [-short] [PATTERN...]
 *
 * Works in DIR and prints "NAME NANOSECONDS" for each pattern: the median of ROUNDS rounds, in each of which a call
 * is the mean of all.  -short: one round of a few calls.  Each pattern has a process of its own, so that none finds
 * what others have left in it: this program executes itself.
 * fwd_ratios.sh and ratios_figures.sh run it on a directory and below a prefix and compare the two.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/bench.h"
#include "tests/files/ratios/ratios.h"

#define ROUNDS 5
#define SHORT 20 /* a short run makes one call of so many */
#define KEPT_NAMES 8

static const struct pattern *const tables[] = { patterns_names, patterns_trees, patterns_data,
                                                patterns_process, patterns_shared };

static char work[3000];
static bool is_short;

/* ---- what patterns use ---- */

const char *at(const char *format, ...)
{
    static __thread char kept[KEPT_NAMES][4096];
    static __thread unsigned next;
    char *name = kept[next++ % KEPT_NAMES];
    size_t len = (size_t)snprintf(name, sizeof kept[0], "%s/", work);
    va_list args;

    va_start(args, format);
    vsnprintf(name + len, sizeof kept[0] - len, format, args);
    va_end(args);
    return name;
}

void must(int ok, const char *what)
{
    if (ok)
        return;

    fprintf(stderr, "fwd_ratios: %s: %s\n", what, strerror(errno));
    _exit(1);
}

void make_file(const char *name, size_t bytes)
{
    static char data[1 << 16];
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    must(fd >= 0, name);
    memset(data, 'x', sizeof data);
    for (size_t done = 0; done < bytes;) {
        size_t left = bytes - done;
        ssize_t n = write(fd, data, left < sizeof data ? left : sizeof data);

        must(n > 0, name);
        done += (size_t)n;
    }

    must(close(fd) == 0, name);
}

unsigned pick(unsigned n)
{
    static __thread uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % n);
}

/* ---- rounds ---- */

/* What the workers of a round share; processes too. */
static struct common {
    pthread_barrier_t begin;
    double begin_ns[PATTERN_WORKERS_MAX], end_ns[PATTERN_WORKERS_MAX];
} * common;

struct worker {
    const struct pattern *p;
    int number;
};

static int calls_of(const struct pattern *p)
{
    int calls = is_short ? p->calls / SHORT : p->calls;

    return calls ? calls : 1;
}

static void *make_calls(void *arg)
{
    const struct worker *w = arg;
    int calls = calls_of(w->p);

    if (w->p->enter)
        w->p->enter(w->number);

    pthread_barrier_wait(&common->begin);
    common->begin_ns[w->number] = bench_now_ns();
    for (int i = 0; i < calls; i++)
        w->p->call(w->number, i);

    common->end_ns[w->number] = bench_now_ns();
    return NULL;
}

static void start_barrier(int workers)
{
    pthread_barrierattr_t shared;

    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&common->begin, &shared, (unsigned)workers);
    pthread_barrierattr_destroy(&shared);
}

/* From the first worker's begin to the last one's end. */
static double span_ns(int workers)
{
    double first = common->begin_ns[0];
    double last = common->end_ns[0];

    for (int i = 1; i < workers; i++) {
        first = common->begin_ns[i] < first ? common->begin_ns[i] : first;
        last = common->end_ns[i] > last ? common->end_ns[i] : last;
    }

    return last - first;
}

static double by_processes(const struct pattern *p)
{
    int status;

    start_barrier(p->processes);
    for (int i = 0; i < p->processes; i++) {
        pid_t child = fork();

        must(child >= 0, "fork");
        if (child == 0) {
            make_calls(&(struct worker){ p, i });
            exit(0);
        }
    }

    for (int i = 0; i < p->processes; i++)
        must(wait(&status) > 0 && status == 0, p->name);

    return span_ns(p->processes);
}

static double by_threads(const struct pattern *p)
{
    pthread_t thread[PATTERN_WORKERS_MAX];
    struct worker w[PATTERN_WORKERS_MAX];

    start_barrier(p->threads);
    for (int i = 0; i < p->threads; i++) {
        w[i] = (struct worker){ p, i };
        must(pthread_create(&thread[i], NULL, make_calls, &w[i]) == 0, "pthread_create");
    }

    for (int i = 0; i < p->threads; i++)
        pthread_join(thread[i], NULL);

    return span_ns(p->threads);
}

static double alone(const struct pattern *p)
{
    int calls = calls_of(p);

    if (p->enter)
        p->enter(0);

    double begin_ns = bench_now_ns();

    for (int i = 0; i < calls; i++)
        p->call(0, i);

    return bench_now_ns() - begin_ns;
}

static int remove_one(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
    must(remove(name) == 0, name);
    return 0;
}

/* The time of a call in one round. */
static double round_ns(const struct pattern *p)
{
    double ns;
    int workers = p->processes + p->threads;

    must(mkdir(work, 0700) == 0, work);
    if (p->prepare)
        p->prepare();

    if (p->processes)
        ns = by_processes(p);
    else if (p->threads)
        ns = by_threads(p);
    else
        ns = alone(p);

    if (p->finish)
        p->finish();

    must(nftw(work, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, work);
    return ns / calls_of(p) / (workers ? workers : 1) / (p->each ? p->each : 1);
}

static void run(const struct pattern *p)
{
    double ns[ROUNDS];
    int rounds = is_short ? 1 : ROUNDS;

    for (int i = 0; i < rounds; i++)
        ns[i] = round_ns(p);

    qsort(ns, (size_t)rounds, sizeof *ns, bench_compare);
    printf("%s %.0f\n", p->name, ns[rounds / 2]);
    fflush(stdout);
}

/* Runs one pattern in a process of its own. */
static void run_apart(const char *dir, const char *name)
{
    char *args[] = { (char *)"/proc/self/exe",           (char *)dir, (char *)"-one", (char *)name,
                     is_short ? (char *)"-short" : NULL, NULL };
    pid_t child;
    int status;

    must(posix_spawn(&child, args[0], NULL, NULL, args, environ) == 0, "posix_spawn");
    must(waitpid(child, &status, 0) == child && status == 0, name);
}

/* Runs what is wanted of all patterns; apart: each in a process of its own.  wanted: ends with NULL; none: all. */
static void run_all(const char *dir, char **wanted, bool apart)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct pattern *p = tables[t]; p->name; p++) {
            char **w = wanted;

            while (*w && strcmp(*w, p->name) != 0)
                w++;

            if (*wanted && !*w)
                continue;

            if (apart)
                run_apart(dir, p->name);
            else
                run(p);
        }
}

int main(int argc, char **argv)
{
    struct rlimit files;
    char *one[] = { NULL, NULL };

    must(argc >= 2, "usage: fwd_ratios DIR [-short] [PATTERN...]");
    snprintf(work, sizeof work, "%s/ratios", argv[1]);
    if (argc < 4 || strcmp(argv[2], "-one") != 0) {
        is_short = argc > 2 && strcmp(argv[2], "-short") == 0;
        run_all(argv[1], argv + 2 + is_short, true);
        return 0;
    }

    one[0] = argv[3];
    is_short = argc > 4;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(common != MAP_FAILED, "mmap");
    run_all(argv[1], one, false);
    return 0;
}

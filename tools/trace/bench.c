/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench: what one recorded call costs here, beside strace and ltrace of the same loop.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/trace/trace.h"

enum {
    ROUNDS = 9,
    TURNS = 3,
    WORDS = 16
};

#define NOT_MEASURED 1e18

struct cost {
    double fd_ns, path_ns; /* of a write to /dev/null, and of an access; the best round */
};

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The measured program: prints the best time of a call by descriptor, and of one by path. */
int trace_bench_loop(const char *calls)
{
    long n = strtol(calls, NULL, 10);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct cost best = { NOT_MEASURED, NOT_MEASURED };

    if (n < 1 || fd < 0)
        return trace_fail("the loop needs a number of calls, and /dev/null");

    for (int round = 0; round < ROUNDS; round++) {
        double from = now_ns();

        for (long i = 0; i < n; i++)
            if (write(fd, "x", 1) != 1)
                return trace_fail("/dev/null: %s", strerror(errno));

        double between = now_ns();

        for (long i = 0; i < n; i++)
            if (access("/dev/null", F_OK) != 0)
                return trace_fail("/dev/null: %s", strerror(errno));

        double to = now_ns();

        if (between - from < best.fd_ns)
            best.fd_ns = between - from;
        if (to - between < best.path_ns)
            best.path_ns = to - between;
    }

    close(fd);
    printf("%.1f %.1f\n", best.fd_ns / (double)n, best.path_ns / (double)n);
    return 0;
}

/* Runs the loop under a command of words that ends with NULL.  false: it cannot be run. */
static bool measure(const char *const *under, const char *calls, struct cost *cost_p)
{
    char self[4096], line[128] = "";
    const char *argv[WORDS + 4];
    int n = 0, pair[2], status = 0;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    if (len < 0 || pipe(pair) != 0)
        return false;

    self[len] = 0;
    for (; under[n] && n < WORDS; n++)
        argv[n] = under[n];

    argv[n++] = self;
    argv[n++] = "bench-loop";
    argv[n++] = calls;
    argv[n] = NULL;

    pid_t pid = fork();

    if (pid == 0) {
        dup2(pair[1], STDOUT_FILENO);
        close(pair[0]);
        close(pair[1]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }

    close(pair[1]);
    for (size_t at = 0; at < sizeof line - 1;) {
        ssize_t got = read(pair[0], line + at, sizeof line - 1 - at);

        if (got <= 0)
            break;

        at += (size_t)got;
    }

    close(pair[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return false;

    return sscanf(line, "%lf %lf", &cost_p->fd_ns, &cost_p->path_ns) == 2;
}

static void keep_best(struct cost *best, const struct cost *cost)
{
    best->fd_ns = cost->fd_ns < best->fd_ns ? cost->fd_ns : best->fd_ns;
    best->path_ns = cost->path_ns < best->path_ns ? cost->path_ns : best->path_ns;
}

static void remove_folder(const char *dir)
{
    char command[4200];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        trace_fail("%s cannot be removed", dir);
}

/* The best of TURNS runs of each, in turn, so that a change of the machine's speed meets both.  The second
 * writes the folder dir, which each turn begins without.  false: the first cannot be run; if the second
 * cannot, its cost is NOT_MEASURED. */
static bool measure_in_turn(const char *const *first, const char *const *second, const char *dir,
                            const char *calls, struct cost *first_p, struct cost *second_p)
{
    struct cost cost;

    *first_p = *second_p = (struct cost){ NOT_MEASURED, NOT_MEASURED };
    for (int turn = 0; turn < TURNS; turn++) {
        if (!measure(first, calls, &cost))
            return false;

        keep_best(first_p, &cost);
        remove_folder(dir);
        if (measure(second, calls, &cost))
            keep_best(second_p, &cost);
    }

    return true;
}

static void print_row(const char *name, const struct cost *cost, const struct cost *plain)
{
    printf("%-22s %12.0f %12.0f %12.0f %12.0f\n", name, cost->fd_ns, cost->fd_ns - plain->fd_ns,
           cost->path_ns, cost->path_ns - plain->path_ns);
}

int trace_bench(const char *iofwd_run)
{
    char dir[] = "/tmp/iofwd-trace-bench.XXXXXX";
    char records[sizeof dir + 8];
    char slow_calls[] = "500";
    char calls[] = "100000";
    struct cost plain, cost;

    if (!mkdtemp(dir))
        return trace_fail("/tmp: %s", strerror(errno));

    snprintf(records, sizeof records, "%s/records", dir);

    const char *const none[] = { NULL };
    const char *const record[] = { iofwd_run, "-record", records, NULL };
    const char *const strace[] = { "strace", "-f", "-o", "/dev/null", NULL };
    const char *const ltrace[] = { "ltrace", "-f", "-o", "/dev/null", NULL };
    int code = 0;

    if (!measure_in_turn(none, record, records, calls, &plain, &cost)) {
        remove_folder(dir);
        return trace_fail("the loop cannot be run");
    }

    printf("%-22s %12s %12s %12s %12s\n", "ns for a call", "write", "more", "access", "more");
    print_row("nothing", &plain, &plain);
    if (cost.fd_ns < NOT_MEASURED)
        print_row("iofwd-run -record", &cost, &plain);
    else
        code = trace_fail("%s -record cannot be run; name the program: iofwd-trace bench PATH",
                          iofwd_run);

    if (measure(strace, slow_calls, &cost))
        print_row("strace -f", &cost, &plain);
    else
        printf("%-22s is not here, or may not trace\n", "strace");

    if (measure(ltrace, slow_calls, &cost))
        print_row("ltrace -f", &cost, &plain);
    else
        printf("%-22s is not here, or may not trace\n", "ltrace");

    remove_folder(dir);
    return code;
}

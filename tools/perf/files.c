/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwarded files in comparison with direct ones, and the cost of the preload library for a program.
 * The same file has two names: the real one, and one below the forwarded prefix, which an I/O server
 * serves.  Only the read and write calls are timed.
 *
 * Layer: tools.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

extern char **environ;

static const char forwarded[] = PERF_PREFIX "/data";

static void real_path(const struct perf_run *run, char path[4096])
{
    snprintf(path, 4096, "%s/data", run->opt->dir);
}

/* What one sample moves: the whole file, or what 20000 calls can. */
static size_t total_of(size_t bytes)
{
    return bytes < PERF_FILE_BYTES / 20000 ? 20000 * bytes : PERF_FILE_BYTES;
}

static bool move_all(int fd, unsigned char *buffer, size_t total, size_t bytes, bool reading)
{
    for (size_t done = 0; done < total;) {
        size_t len = total - done < bytes ? total - done : bytes;
        ssize_t n = reading ? read(fd, buffer, len) : write(fd, buffer, len);

        if (n <= 0)
            return false;

        done += (size_t)n;
    }

    return true;
}

/* Moves a sample through `path` in calls of `bytes`; MB/s, NaN if something fails. */
static double timed(struct perf_run *run, const char *path, size_t bytes, bool reading)
{
    int fd = open(path, reading ? O_RDONLY : O_WRONLY);
    uint64_t start = amph_now_ns();
    bool ok = fd >= 0 && move_all(fd, run->buffer, total_of(bytes), bytes, reading);
    uint64_t end = amph_now_ns();

    if (!ok)
        perf_no_value(run, "%s of %s failed: %s", reading ? "reading" : "writing", path,
                      strerror(errno));

    if (fd >= 0 && close(fd) != 0)
        ok = false;

    return ok ? (double)total_of(bytes) * 1e3 / (double)(end - start) : NAN;
}

/* Brings the file into the state from which a sample starts: empty, or 64 MiB long. */
static bool set_state(struct perf_run *run, bool empty)
{
    char path[4096];
    struct stat st;

    real_path(run, path);

    int fd = open(path, O_RDWR | O_CREAT, 0666);
    bool ok = fd >= 0 && fstat(fd, &st) == 0;

    if (ok && empty)
        ok = ftruncate(fd, 0) == 0;
    else if (ok && st.st_size != PERF_FILE_BYTES)
        ok = move_all(fd, run->buffer, PERF_FILE_BYTES, 1u << 20, false);

    if (fd >= 0)
        close(fd);

    if (!ok)
        perf_no_value(run, "%s cannot be prepared: %s", path, strerror(errno));

    return ok;
}

enum way {
    DIRECT,    /* calls on the file itself */
    FORWARDED, /* through the I/O server */
    OVER_TCP,  /* through a child at a TCP connection that does nothing else */
};

static double timed_by(struct perf_run *run, enum way way, size_t bytes, bool reading)
{
    char path[4096];

    real_path(run, path);
    if (way == OVER_TCP)
        return perf_tcp_file(run, path, bytes, total_of(bytes), reading);

    return timed(run, way == FORWARDED ? forwarded : path, bytes, reading);
}

static double sample(struct perf_run *run, bool empty, enum way way, bool reading, size_t bytes)
{
    char path[4096];
    struct stat st;

    real_path(run, path);
    if (run->rank != 0)
        return 0;
    if (!set_state(run, empty))
        return NAN;

    double value = timed_by(run, way, bytes, reading);
    size_t wanted = empty ? total_of(bytes) : PERF_FILE_BYTES;

    if (!isnan(value) && (stat(path, &st) != 0 || (size_t)st.st_size != wanted)) {
        perf_no_value(run, "what was written did not arrive in %s", path);
        return NAN;
    }

    return value;
}

double perf_direct_fresh(struct perf_run *run, size_t bytes)
{
    return sample(run, true, DIRECT, false, bytes);
}

double perf_direct_write(struct perf_run *run, size_t bytes)
{
    return sample(run, false, DIRECT, false, bytes);
}

double perf_direct_read(struct perf_run *run, size_t bytes)
{
    return sample(run, false, DIRECT, true, bytes);
}

double perf_tcp_write(struct perf_run *run, size_t bytes)
{
    return sample(run, false, OVER_TCP, false, bytes);
}

double perf_tcp_read(struct perf_run *run, size_t bytes)
{
    return sample(run, false, OVER_TCP, true, bytes);
}

double perf_fwd_fresh(struct perf_run *run, size_t bytes)
{
    return sample(run, true, FORWARDED, false, bytes);
}

double perf_fwd_write(struct perf_run *run, size_t bytes)
{
    return sample(run, false, FORWARDED, false, bytes);
}

double perf_fwd_read(struct perf_run *run, size_t bytes)
{
    return sample(run, false, FORWARDED, true, bytes);
}

/* ---- start of programs ---- */

/* Runs argv to its end; microseconds, negative if it fails.  out_fd: its standard output, or -1.
 * The child is started past the preload library, which would put itself into every environment. */
static double run_program(char *const argv[], char *const env[], int out_fd)
{
    int status;
    uint64_t start = amph_now_ns();
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        if (out_fd >= 0)
            dup2(out_fd, 1);

        syscall(SYS_execve, argv[0], argv, env);
        _exit(127);
    }

    if (pid < 0)
        return -1;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;

    return status == 0 ? (double)(amph_now_ns() - start) / 1e3 : -1;
}

/* The environment without LD_PRELOAD; NULL if there is no such variable in it.  The caller frees
 * the array. */
static char **without_preload(void)
{
    size_t n = 0;
    size_t kept = 0;

    while (environ[n])
        n++;

    char **env = malloc((n + 1) * sizeof *env);

    for (size_t i = 0; env && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            env[kept++] = environ[i];

    if (!env || kept == n) {
        free(env);
        return NULL;
    }

    env[kept] = NULL;
    return env;
}

double perf_start_preload(struct perf_run *run, size_t bytes)
{
    char *argv[] = { "/bin/true", NULL };
    double with = 0;
    double bare = 0;

    if (run->rank != 0)
        return 0;

    char **env = without_preload();

    if (!env) {
        perf_no_value(run, "no LD_PRELOAD in the environment: nothing is preloaded");
        return NAN;
    }

    for (unsigned i = 0; i < 20; i++) {
        double a = run_program(argv, env, -1);
        double b = run_program(argv, environ, -1);

        if (a < 0 || b < 0) {
            perf_no_value(run, "/bin/true cannot be run: %s", strerror(errno));
            with = NAN;
        }

        bare += a;
        with += b;
    }

    free(env);
    return (with - bare) / 20;
}

int perf_first_call_child(void)
{
    struct stat st;
    uint64_t start = amph_now_ns();
    int ret = stat(forwarded, &st);

    printf("%.3f\n", (double)(amph_now_ns() - start) / 1e3);
    return ret == 0 ? 0 : 1;
}

double perf_first_call(struct perf_run *run, size_t bytes)
{
    char *argv[] = { "/proc/self/exe", "--first-call", NULL };
    char text[64] = "";
    char self[4096];
    int ends[2];

    if (run->rank != 0)
        return 0;

    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    if (!set_state(run, false) || len < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        perf_no_value(run, "cannot start a program: %s", strerror(errno));
        return NAN;
    }

    self[len] = '\0';
    argv[0] = self;

    double whole = run_program(argv, environ, ends[1]);

    close(ends[1]);

    ssize_t got = read(ends[0], text, sizeof text - 1);

    close(ends[0]);
    if (whole < 0 || got <= 0) {
        perf_no_value(run,
                      "the first call of a new program failed: %s is not reached through a server",
                      forwarded);
        return NAN;
    }

    return strtod(text, NULL);
}

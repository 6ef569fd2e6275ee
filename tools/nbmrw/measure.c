/* SPDX-License-Identifier: BSD-3-Clause */
/* One sample of each kind of measurement.  Layer: tools.  Thread rule: one thread. */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "iofwd.h"
#include "tools/nbmrw/state.h"

enum {
    CALLS_MAX = 200000,
    FILES = 2000
};
#define BUFFER_BYTES ((size_t)NBMRW_CALL_MAX)
#define SAMPLE_SECONDS 2.0 /* if calls are this slow, a sample makes fewer */
#define LOOK_CALLS 256u

double nbmrw_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool complain(const char *what, const char *path)
{
    fprintf(stderr, "nbmrw: %s %s: %s\n", what, path, strerror(errno));
    return false;
}

static char *buffer(void)
{
    if (!nbmrw_state.buffer && (nbmrw_state.buffer = aligned_alloc(4096, BUFFER_BYTES)))
        memset(nbmrw_state.buffer, 0x5a, BUFFER_BYTES);

    return nbmrw_state.buffer;
}

/* Fills in the offsets of the calls, in order or shuffled, always in the same way. */
static off_t offset_of(const struct series *s, uint64_t i, uint64_t calls)
{
    /* this step reaches every offset once, because it is prime to the number of calls */
    uint64_t odd = 2654435761u % calls;

    while (s->random_order) {
        uint64_t a = odd;
        uint64_t b = calls;

        while (b) {
            uint64_t r = a % b;

            a = b;
            b = r;
        }

        if (a == 1)
            break;

        odd++;
    }

    return (off_t)((s->random_order ? i * odd % calls : i) * s->call_bytes);
}

static uint64_t step_of(const struct series *s, uint64_t calls)
{
    return calls > 1 ? ((uint64_t)offset_of(s, 1, calls) / s->call_bytes) : 1;
}

/* Makes all calls, or as many as fit into SAMPLE_SECONDS.  Returns the seconds they took, or -1. */
static double run_calls(const struct series *s, int fd, const char *path, uint64_t *done_p)
{
    uint64_t calls = s->file_bytes / s->call_bytes;
    uint64_t at = 0;
    bool reads = s->what == READ;
    char *buf = s->segment ? nbmrw_state.segment : buffer();
    size_t len = (size_t)s->call_bytes;

    calls = calls > CALLS_MAX ? CALLS_MAX : calls;

    uint64_t step = step_of(s, calls);

    if (s->way == COLLECTED && !s->random_order)
        (void)(reads ? iofwd_read_prep : iofwd_write_prep)(fd, calls * s->call_bytes,
                                                           (unsigned)calls);

    if (nbmrw_state.ready)
        nbmrw_state.ready();

    double start = nbmrw_now();

    for (*done_p = 0; *done_p < calls; ++*done_p) {
        ssize_t n;

        if (*done_p % LOOK_CALLS == LOOK_CALLS - 1 && nbmrw_now() - start > SAMPLE_SECONDS)
            break;

        if (s->random_order) {
            n = reads ? pread(fd, buf, len, (off_t)(at * len))
                      : pwrite(fd, buf, len, (off_t)(at * len));
            at = (at + step) % calls;
        } else
            n = reads ? read(fd, buf, len) : write(fd, buf, len);

        if (n != (ssize_t)len) {
            complain(reads ? "reading" : "writing", path);
            return -1;
        }

        if (nbmrw_state.ended_by)
            return -1;
    }

    return nbmrw_now() - start;
}

/* Fills the file up to the size that the calls need. */
static bool fill(const struct series *s, int fd)
{
    struct stat st;

    if (s->what == WRITE_FRESH || fstat(fd, &st) != 0 || (uint64_t)st.st_size >= s->file_bytes)
        return true;

    for (uint64_t at = 0; at < s->file_bytes; at += BUFFER_BYTES) {
        uint64_t left = s->file_bytes - at;
        size_t n = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;

        if (pwrite(fd, buffer(), n, (off_t)at) != (ssize_t)n)
            return false;
    }

    return true;
}

static bool sample_data(const struct options *o, const struct series *s, const char *path,
                        double *value_p)
{
    uint64_t calls;

    if (s->call_bytes > BUFFER_BYTES || !buffer())
        return complain("memory for", path);
    if (s->what == WRITE_FRESH && unlink(path) != 0 && errno != ENOENT)
        return complain("removing", path);

    int fd = open(path, O_RDWR | O_CREAT, 0600);

    if (fd < 0)
        return complain("opening", path);
    if (!fill(s, fd)) {
        complain("filling", path);
        close(fd);
        return false;
    }

    double seconds = run_calls(s, fd, path, &calls);
    double start = nbmrw_now();

    if (close(fd) != 0 || seconds < 0)
        return seconds < 0 ? false : complain("closing", path);

    /* A network file system may send written data only now. */
    if (nbmrw_elsewhere(o))
        seconds += nbmrw_now() - start;

    *value_p = (double)(calls * s->call_bytes) / seconds;
    return true;
}

/* ---- metadata: operations a second ---- */

static bool each_file(const char *dir, bool (*does)(const char *path), double *seconds_p)
{
    char path[600];
    double start = nbmrw_now();

    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/m.%d", dir, i);
        if (!does(path))
            return complain("file", path);
    }

    *seconds_p = nbmrw_now() - start;
    return true;
}

static bool do_stat(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static bool do_open_close(const char *path)
{
    int fd = open(path, O_RDONLY);
    return fd >= 0 && close(fd) == 0;
}

static bool do_create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    return fd >= 0 && close(fd) == 0;
}

static bool do_unlink(const char *path)
{
    return unlink(path) == 0;
}

static bool sample_metadata(const struct series *s, const char *dir, double *value_p)
{
    static bool (*const table[NWHAT])(const char *) = {
        [STAT] = do_stat, [OPEN_CLOSE] = do_open_close, [CREATE] = do_create, [UNLINK] = do_unlink
    };

    double seconds, unused;
    bool ok = (s->what == CREATE || each_file(dir, do_create, &unused)) &&
              each_file(dir, table[s->what], &seconds) &&
              (s->what == UNLINK || each_file(dir, do_unlink, &unused));

    *value_p = ok ? FILES / seconds : 0;
    return ok;
}

/* All ways and widths use the same file if they can, because files differ in the location of their
 * pages, and so in their rate. */
static void name_file(const struct options *o, bool direct, char path[500])
{
    snprintf(path, 500, "%.400s/f.%u", direct ? o->direct_dir : o->forwarded_dir, o->rank);
}

void nbmrw_remove_files(const struct options *o)
{
    char path[500];

    name_file(o, true, path);
    unlink(path);
}

bool nbmrw_sample(const struct options *o, const struct series *s, double *value_p)
{
    char path[500];
    bool direct = s->way == DIRECT;

    if (s->way == STREAMS)
        return nbmrw_sample_streams(o, s, value_p);

    name_file(o, direct, path);
    if (s->what >= NDATA)
        return sample_metadata(s, direct ? o->direct_dir : o->forwarded_dir, value_p);
    if (!direct && iofwd_set_stripe("f.*", s->width, 0) != 0)
        return complain("striping", path);

    return sample_data(o, s, path, value_p);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of wave, written with plain open, lseek, write and close: where the directory is a
 * forwarded one they travel to the I/O servers, and nothing here knows of it.
 *
 *   scalars.txt          time series, one line of fixed length for each entry (a continued run
 *                        writes on at the right place)
 *   vector_NNNNNN.bin    velocity in the cells: a line of text, then nx * ny pairs of 4-byte
 *                        floats, lowest row first
 *   restart_NNNNNN.bin   all of p, u, v: a line of text, then three arrays of nx * ny 8-byte floats
 *
 * Numbers are little-endian.  Each process writes its own rows into the common file, so the split
 * leaves no trace in it.
 */
#include "wave.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <gasnet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 128
};

void wave_io_path(const struct wave_field *f, const char *name, char *path, size_t len_bytes)
{
    if (snprintf(path, len_bytes, "%s/%s", f->par->output, name) >= (int)len_bytes)
        wave_fatal("the path %s/%s is too long", f->par->output, name);
}

static int open_or_die(const char *path, int flags)
{
    int fd = open(path, flags, 0666);

    if (fd < 0)
        wave_fatal("cannot open %s: %s", path, strerror(errno));

    return fd;
}

static void close_or_die(int fd, const char *path)
{
    if (close(fd) != 0)
        wave_fatal("closing %s failed, its data may be incomplete: %s", path, strerror(errno));
}

static void seek_or_die(int fd, const char *path, uint64_t offset)
{
    if (lseek(fd, (off_t)offset, SEEK_SET) != (off_t)offset)
        wave_fatal("cannot seek to byte %" PRIu64 " of %s: %s", offset, path, strerror(errno));
}

void wave_io_all(int fd, const char *path, const void *data, size_t len_bytes)
{
    const char *at = data;

    wave_time[WAVE_WRITTEN] += (double)len_bytes;
    while (len_bytes > 0) {
        ssize_t n = write(fd, at, len_bytes);

        if (n < 0 && errno == EINTR)
            continue;

        if (n <= 0)
            wave_fatal("writing %zu bytes to %s failed: %s", len_bytes, path,
                       n ? strerror(errno) : "nothing was taken");

        at += n;
        len_bytes -= (size_t)n;
    }
}

static void read_all(int fd, const char *path, void *data, size_t len_bytes)
{
    char *at = data;

    while (len_bytes > 0) {
        ssize_t n = read(fd, at, len_bytes);

        if (n < 0 && errno == EINTR)
            continue;

        if (n <= 0)
            wave_fatal("%s ends %zu bytes too early: %s", path, len_bytes,
                       n ? strerror(errno) : "it is cut off");

        at += n;
        len_bytes -= (size_t)n;
    }
}

/* mkdir -p */
void wave_io_prepare(const struct wave_field *f)
{
    char path[WAVE_PATH_BYTES];

    if (f->rank == 0) {
        strcpy(path, f->par->output);
        for (char *slash = path; slash; *slash = '/') {
            slash = strchr(slash + 1, '/');
            if (slash)
                *slash = '\0';

            /* What lies above a forwarded prefix need not exist and cannot be made: only the last
             * mkdir has to succeed. */
            if (mkdir(path, 0777) != 0 && errno != EEXIST && !slash)
                wave_fatal("cannot make the output directory %s: %s", path, strerror(errno));

            if (!slash)
                break;
        }
    }

    wave_barrier();
}

/* ---- series ---- */

enum {
    SERIES_LINE = 10 + 16 + (2 + WAVE_MAX_PROBES) * 24 + 1
};

static void series_line(char *line, const struct wave_field *f, const struct wave_sums *s)
{
    int n = snprintf(line, SERIES_LINE + 1, "%10d%16.8f%24.15e%24.15e", f->step, f->step * f->dt,
                     s->energy, s->peak);

    for (int i = 0; i < WAVE_MAX_PROBES; i++)
        n += snprintf(line + n, (size_t)(SERIES_LINE + 1 - n), "%24.15e", s->probe[i]);

    line[SERIES_LINE - 1] = '\n';
}

void wave_io_series(struct wave_field *f)
{
    char path[WAVE_PATH_BYTES], text[2 * SERIES_LINE + 1], title[SERIES_LINE + 1];
    struct wave_sums sums;

    wave_field_sums(f, &sums);
    if (f->rank != 0)
        return;

    double t = wave_now();

    wave_io_path(f, "scalars.txt", path, sizeof path);
    snprintf(title, sizeof title, "%10s%16s%24s%24s%24s%24s%24s%24s", "# step", "time", "energy",
             "peak", "probe 1", "probe 2", "probe 3", "probe 4");
    series_line(text, f, &sums);

    bool first = f->step == 0;
    int fd = open_or_die(path, O_WRONLY | O_CREAT | (first ? O_TRUNC : 0));

    if (first) {
        title[SERIES_LINE - 1] = '\n';
        wave_io_all(fd, path, title, SERIES_LINE);
    } else {
        seek_or_die(fd, path, (uint64_t)(1 + f->step / f->par->series_every) * SERIES_LINE);
    }

    wave_io_all(fd, path, text, SERIES_LINE);
    close_or_die(fd, path);
    wave_time[WAVE_FILE] += wave_now() - t;
}

/* ---- vector and restart ---- */

/* Process 0 makes the file and writes its first line; the others open it when it is there. */
static int open_common(struct wave_field *f, const char *path, const char *head)
{
    int fd = -1;
    char line[HEAD_BYTES + 1];

    if (f->rank == 0) {
        snprintf(line, sizeof line, "%-*s\n", HEAD_BYTES - 1, head);
        fd = open_or_die(path, O_WRONLY | O_CREAT | O_TRUNC);
        wave_io_all(fd, path, line, HEAD_BYTES);
    }

    wave_barrier();
    return f->rank == 0 ? fd : open_or_die(path, O_WRONLY);
}

static void *buffer(size_t bytes)
{
    void *data = malloc(bytes);

    if (!data)
        wave_fatal("no memory for %zu bytes of output", bytes);

    return data;
}

static uint32_t float_bits(double x)
{
    float y = (float)x;
    uint32_t bits;

    memcpy(&bits, &y, sizeof bits);
    return htole32(bits);
}

void wave_io_vector(struct wave_field *f)
{
    char name[32], path[WAVE_PATH_BYTES], head[HEAD_BYTES];
    double t = wave_now();
    double comm = wave_time[WAVE_COMM];

    snprintf(name, sizeof name, "vector_%06d.bin", f->step);
    wave_io_path(f, name, path, sizeof path);
    snprintf(head, sizeof head, "wave-vector nx %d ny %d step %d time %.17g", f->nx, f->par->ny,
             f->step, f->step * f->dt);

    int fd = open_common(f, path, head);
    size_t cells = (size_t)f->rows * f->nx;
    size_t n = 0;
    uint32_t *out = buffer(2 * cells * sizeof *out);

    for (int r = 1; r <= f->rows; r++)
        for (int i = 0; i < f->nx; i++) {
            const double *u = f->box.u + (size_t)r * f->nx + i;
            const double *v = f->box.v + (size_t)r * f->nx + i;

            out[n++] = float_bits(0.5 * (u[0] + (i + 1 < f->nx ? u[1] : 0)));
            out[n++] = float_bits(0.5 * (v[0] + v[f->nx]));
        }

    seek_or_die(fd, path, HEAD_BYTES + (uint64_t)f->first * f->nx * 8);
    wave_io_all(fd, path, out, n * sizeof *out);
    close_or_die(fd, path);
    free(out);
    wave_time[WAVE_FILE] += wave_now() - t - (wave_time[WAVE_COMM] - comm);
}

/* Own rows of one array between memory and the file's order of bytes; both ways alike. */
static void swap_rows(uint64_t *out, const void *in, size_t cells)
{
    memcpy(out, in, cells * 8);
    for (size_t i = 0; i < cells; i++)
        out[i] = htole64(out[i]);
}

static void restart_head(const struct wave_field *f, char *head, int step)
{
    snprintf(head, HEAD_BYTES, "wave-restart nx %d ny %d setup %016" PRIx64 " step %d", f->nx,
             f->par->ny, wave_params_hash(f->par), step);
}

static uint64_t restart_offset(const struct wave_field *f, int array)
{
    return HEAD_BYTES + ((uint64_t)array * f->par->ny + f->first) * f->nx * 8;
}

void wave_io_write_restart(struct wave_field *f)
{
    char name[32], path[WAVE_PATH_BYTES], head[HEAD_BYTES];
    double t = wave_now();
    double comm = wave_time[WAVE_COMM];

    snprintf(name, sizeof name, "restart_%06d.bin", f->step);
    wave_io_path(f, name, path, sizeof path);
    restart_head(f, head, f->step);

    int fd = open_common(f, path, head);
    const double *arrays[] = { f->box.p, f->box.u, f->box.v };
    size_t cells = (size_t)f->rows * f->nx;
    uint64_t *out = buffer(cells * sizeof *out);

    for (int a = 0; a < 3; a++) {
        swap_rows(out, arrays[a] + f->nx, cells);
        seek_or_die(fd, path, restart_offset(f, a));
        wave_io_all(fd, path, out, cells * sizeof *out);
    }

    free(out);
    close_or_die(fd, path);
    wave_time[WAVE_FILE] += wave_now() - t - (wave_time[WAVE_COMM] - comm);
}

/* Reads own rows; the halo comes with the next step. */
void wave_io_read_restart(struct wave_field *f)
{
    const char *path = f->par->restart;
    char line[HEAD_BYTES + 1] = "", head[HEAD_BYTES], wanted[HEAD_BYTES + 1];
    double t = wave_now();
    int fd = open_or_die(path, O_RDONLY);

    read_all(fd, path, line, HEAD_BYTES);

    const char *word = strstr(line, " step ");

    f->step = word ? atoi(word + 6) : -1;
    restart_head(f, head, f->step);
    snprintf(wanted, sizeof wanted, "%-*s\n", HEAD_BYTES - 1, head);

    if (f->step < 0 || strcmp(line, wanted) != 0)
        wave_fatal("%s does not continue this run: it begins \"%.100s\", wanted is \"%.100s\"; use "
                   "the parameters it was made with",
                   path, line, head);

    double *arrays[] = { f->box.p, f->box.u, f->box.v };
    size_t cells = (size_t)f->rows * f->nx;

    for (int a = 0; a < 3; a++) {
        uint64_t *in = (uint64_t *)(arrays[a] + f->nx);

        seek_or_die(fd, path, restart_offset(f, a));
        read_all(fd, path, in, cells * sizeof *in);
        for (size_t i = 0; i < cells; i++)
            in[i] = le64toh(in[i]);
    }

    close_or_die(fd, path);
    wave_time[WAVE_FILE] += wave_now() - t;
}

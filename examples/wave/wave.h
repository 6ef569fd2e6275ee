/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wave: sound in two dimensions on all compute processes of a job.  What its files share.
 *
 *   wave.c         main: start, time loop, end
 *   wave_field.c   the physics: grid, kernels, halo exchange
 *   wave_params.c  the parameter file
 *   wave_io.c      series, vector and restart files
 *   wave_png.c     the picture
 *   wave_report.c  the table at the end
 */
#ifndef WAVE_H
#define WAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WAVE_MAX_SHAPES 64
#define WAVE_MAX_PROBES 4
#define WAVE_PATH_BYTES 512

/* ---- parameters ---- */

enum wave_shape_kind {
    WAVE_CIRCLE,
    WAVE_BOX,
    WAVE_RING
};

/* Lengths are in units of the grid's height. */
struct wave_shape {
    enum wave_shape_kind kind;
    double a[6]; /* circle: x y r; box: x0 y0 x1 y1; ring: x y inner outer from to (degrees) */
};

struct wave_pulse {
    double x, y, radius, height;
};

struct wave_params {
    int nx, ny, steps;
    double cfl; /* time step as a fraction of the largest stable one */
    int sponge; /* cells of absorbing layer along the border; 0: the border reflects */
    struct wave_pulse pulse[WAVE_MAX_SHAPES];
    struct wave_shape obstacle[WAVE_MAX_SHAPES];
    double probe[WAVE_MAX_PROBES][2];
    int npulses, nobstacles, nprobes;
    /* steps; 0: never (picture: only at the end) */
    int series_every, vector_every, restart_every, picture_every;
    /* pressure that has the full colour; 0: chosen from the field */
    double picture_range;
    char output[WAVE_PATH_BYTES];
    char restart[WAVE_PATH_BYTES];
};

/* Fills *p with the defaults and what the file says; where that is wrong prints a sentence with the
 * line, returns false. */
bool wave_params_read(struct wave_params *p, const char *path, FILE *complaints);
/* A number that tells two physical set-ups apart; a restart file carries it. */
uint64_t wave_params_hash(const struct wave_params *p);

/* ---- the field ---- */

/* What process q tells process 0 about its part. */
struct wave_slot {
    int64_t energy; /* in units of 2^-30: whole numbers add up to the same sum in any order */
    double peak;
    double probe[WAVE_MAX_PROBES];
};

/* What every process keeps in its segment, so that others can put into it and get from it. */
struct wave_box {
    struct wave_slot *slots; /* on process 0: one for each process */
    double *times;           /* on process 0: WAVE_TIMES numbers for each process */
    double *p, *u, *v;       /* (rows + 2) x nx each; row 0 and row rows + 1 are halo */
};

/* Rows first..first+rows-1 of the nx x ny cells.  p lives in cell centres, u on their left, v on
 * their lower sides. */
struct wave_field {
    const struct wave_params *par;
    int rank, procs;
    int nx, rows, first;
    int step;
    double dt, k;              /* k = dt / h */
    void **base;               /* each process's segment */
    struct wave_box box, root; /* own parts, and where process 0 keeps its own */
    /* halo rows of the neighbours: p of the one above, v of the one below; NULL where there is
     * none */
    double *above_p, *below_v;
    double *open_u, *open_v; /* 1: air on both sides of the face, 0: wall */
    double *damp_x, *damp_y; /* what the sponge leaves in one step, by column and by global row */
};

/* What process q of procs owns. */
void wave_rows(int ny, int procs, int q, int *first_p, int *rows_p);
/* segment that one process needs */
size_t wave_field_bytes(const struct wave_params *par, int procs);
void wave_field_open(struct wave_field *f, const struct wave_params *par);
void wave_field_start(struct wave_field *f); /* the initial pulses */
void wave_field_step(struct wave_field *f);
void wave_field_close(struct wave_field *f);
struct wave_box wave_box_of(const struct wave_field *f, int q); /* where process q keeps what */
bool wave_is_solid(const struct wave_params *par, int i, int j);

struct wave_sums {
    double energy, peak;
    double probe[WAVE_MAX_PROBES];
};

/* Energy, largest |p| and the probes of the whole field; the result is given on process 0.
 * Collective. */
void wave_field_sums(struct wave_field *f, struct wave_sums *sums_p);
/* Reads row j (nx numbers) of p from its owner.  Not collective, but nobody may step meanwhile. */
void wave_field_fetch_row(struct wave_field *f, int j, double *row);

/* ---- files ---- */

void wave_io_prepare(const struct wave_field *f); /* the output directory, by process 0 */
void wave_io_series(struct wave_field *f);
void wave_io_vector(struct wave_field *f);
void wave_io_write_restart(struct wave_field *f);
void wave_io_read_restart(struct wave_field *f);
void wave_io_all(int fd, const char *path, const void *data, size_t len_bytes);
void wave_png_write(struct wave_field *f, const char *name);
void wave_io_path(const struct wave_field *f, const char *name, char *path, size_t len_bytes);

/* ---- time and report ---- */

enum wave_clock {
    WAVE_COMPUTE,
    WAVE_COMM,
    WAVE_FILE,
    WAVE_WRITTEN,
    WAVE_CALLS,
    WAVE_OUT,
    WAVE_IN,
    WAVE_TIMES
};

/* Of this process: seconds in the first three; bytes written; calls, bytes written and read as its
 * server counted them. */
extern double wave_time[WAVE_TIMES];

double wave_now(void);   /* seconds */
void wave_barrier(void); /* a whole barrier, counted as communication */
void wave_report(struct wave_field *f, double wall);
void wave_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif

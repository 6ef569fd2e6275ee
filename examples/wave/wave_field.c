/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The physics of wave: the linearised Euler equations for a resting gas, in units where density and
 * speed of sound are 1,
 *
 *     dp/dt = -(du/dx + dv/dy)     du/dt = -dp/dx     dv/dt = -dp/dy
 *
 * on a staggered grid (p in the centre of a cell, u on its left side, v on its lower side),
 * leap-frog in time: second order, no numerical loss, stable for dt <= h / sqrt(2).  A wall is a
 * face whose velocity stays zero; that reflects.  The sponge takes the same share of p, u and v
 * away, which keeps the impedance and so reflects nothing.
 *
 * Rows are dealt out to the processes.  A process sends two rows in each step, and both are the row
 * that it has computed last; everything else is computed between the notify and the wait of a split
 * barrier.  Every number is computed by the same expression whatever the split, so that the result
 * does not depend on it by a single bit.
 */
#include "wave.h"

#include <gasnet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ENERGY_UNIT 0x1p-30

void wave_rows(int ny, int procs, int q, int *first_p, int *rows_p)
{
    *first_p = (int)((int64_t)ny * q / procs);
    *rows_p = (int)((int64_t)ny * (q + 1) / procs) - *first_p;
}

static size_t head_bytes(int procs)
{
    return (size_t)procs * (sizeof(struct wave_slot) + WAVE_TIMES * sizeof(double));
}

size_t wave_field_bytes(const struct wave_params *par, int procs)
{
    size_t most_rows = (size_t)par->ny / (size_t)procs + 1;
    return head_bytes(procs) + 3 * (most_rows + 2) * (size_t)par->nx * sizeof(double);
}

struct wave_box wave_box_of(const struct wave_field *f, int q)
{
    int first, rows;

    wave_rows(f->par->ny, f->procs, q, &first, &rows);

    size_t array = ((size_t)rows + 2) * (size_t)f->nx;
    struct wave_box box;

    box.slots = f->base[q];
    box.times = (double *)(box.slots + f->procs);
    box.p = box.times + (size_t)f->procs * WAVE_TIMES;
    box.u = box.p + array;
    box.v = box.u + array;

    return box;
}

/* ---- set-up ---- */

static bool inside(const struct wave_shape *s, double x, double y)
{
    const double *a = s->a;
    double dx = x - a[0];
    double dy = y - a[1];
    double r = sqrt(dx * dx + dy * dy);
    double angle;

    switch (s->kind) {
    case WAVE_CIRCLE:
        return r < a[2];
    case WAVE_BOX:
        return x > a[0] && x < a[2] && y > a[1] && y < a[3];
    case WAVE_RING:
        angle = fmod(atan2(dy, dx) * (180 / M_PI) - a[4] + 720, 360);
        return r > a[2] && r < a[3] && angle <= a[5] - a[4];
    }
    return false;
}

bool wave_is_solid(const struct wave_params *par, int i, int j)
{
    double h = 1.0 / par->ny;

    if (i < 0 || j < 0 || i >= par->nx || j >= par->ny)
        return true;

    for (int s = 0; s < par->nobstacles; s++)
        if (inside(&par->obstacle[s], (i + 0.5) * h, (j + 0.5) * h))
            return true;

    return false;
}

/* What is left after one step in cell i of n: loss grows with the square of the depth, 1e-5 comes
 * back through the layer. */
static double *damping(int n, int width, double k)
{
    double *left = malloc((size_t)n * sizeof *left);

    for (int i = 0; left && i < n; i++) {
        int edge = i < n - 1 - i ? i : n - 1 - i;
        double depth = edge < width ? (width - edge - 0.5) / width : 0;

        left[i] = width ? exp(-3 * k * log(1e5) / (2 * width) * depth * depth) : 1;
    }

    return left;
}

static void open_faces(struct wave_field *f)
{
    for (int r = 1; r <= f->rows; r++)
        for (int i = 0; i < f->nx; i++) {
            int j = f->first + r - 1;
            bool here = !wave_is_solid(f->par, i, j);

            f->open_u[(size_t)r * f->nx + i] = here && !wave_is_solid(f->par, i - 1, j);
            f->open_v[(size_t)r * f->nx + i] = here && !wave_is_solid(f->par, i, j - 1);
        }
}

static void find_segments(struct wave_field *f)
{
    gasnet_seginfo_t *seg = malloc((size_t)f->procs * sizeof *seg);

    f->base = malloc((size_t)f->procs * sizeof *f->base);
    if (!seg || !f->base || gasnet_getSegmentInfo(seg, f->procs) != GASNET_OK)
        wave_fatal("cannot learn where the segments of %d processes are", f->procs);

    for (int q = 0; q < f->procs; q++)
        f->base[q] = seg[q].addr;

    free(seg);
}

static void find_neighbours(struct wave_field *f)
{
    if (f->rank + 1 < f->procs)
        f->above_p = wave_box_of(f, f->rank + 1).p;

    if (f->rank > 0) {
        int first, rows;

        wave_rows(f->par->ny, f->procs, f->rank - 1, &first, &rows);
        f->below_v = wave_box_of(f, f->rank - 1).v + ((size_t)rows + 1) * f->nx;
    }
}

void wave_field_open(struct wave_field *f, const struct wave_params *par)
{
    memset(f, 0, sizeof *f);
    f->par = par;
    f->rank = (int)gasnet_mynode();
    f->procs = (int)gasnet_nodes();
    f->nx = par->nx;
    f->k = par->cfl / sqrt(2);
    f->dt = f->k / par->ny;
    wave_rows(par->ny, f->procs, f->rank, &f->first, &f->rows);
    find_segments(f);
    f->box = wave_box_of(f, f->rank);
    f->root = wave_box_of(f, 0);
    find_neighbours(f);

    size_t cells = ((size_t)f->rows + 2) * (size_t)f->nx;

    f->open_u = calloc(cells, sizeof(double));
    f->open_v = calloc(cells, sizeof(double));
    f->damp_x = damping(par->nx, par->sponge, f->k);
    f->damp_y = damping(par->ny, par->sponge, f->k);

    if (!f->open_u || !f->open_v || !f->damp_x || !f->damp_y)
        wave_fatal("no memory for %d rows of %d cells; use more processes or a smaller grid",
                   f->rows, f->nx);

    memset(f->box.p, 0, 3 * cells * sizeof(double));
    open_faces(f);
}

void wave_field_close(struct wave_field *f)
{
    free(f->damp_y);
    free(f->damp_x);
    free(f->open_v);
    free(f->open_u);
    free(f->base);
}

void wave_field_start(struct wave_field *f)
{
    double h = 1.0 / f->par->ny;

    for (int r = 1; r <= f->rows; r++)
        for (int i = 0; i < f->nx; i++) {
            double x = (i + 0.5) * h;
            double y = (f->first + r - 0.5) * h;
            double p = 0;

            for (int s = 0; s < f->par->npulses; s++) {
                const struct wave_pulse *g = &f->par->pulse[s];
                double dx = x - g->x;
                double dy = y - g->y;

                p += g->height * exp(-(dx * dx + dy * dy) / (2 * g->radius * g->radius));
            }

            f->box.p[(size_t)r * f->nx + i] = wave_is_solid(f->par, i, f->first + r - 1) ? 0 : p;
        }
}

/* ---- kernels: one row each ---- */

static void row_u(int nx, double k, double dy, const double *restrict dx,
                  const double *restrict open, const double *restrict p, double *restrict u)
{
    for (int i = 1; i < nx; i++)
        u[i] = open[i] * (dx[i] * dy * u[i] - k * (p[i] - p[i - 1]));
}

static void row_v(int nx, double k, double dy, const double *restrict dx,
                  const double *restrict open, const double *restrict below,
                  const double *restrict p, double *restrict v)
{
    for (int i = 0; i < nx; i++)
        v[i] = open[i] * (dx[i] * dy * v[i] - k * (p[i] - below[i]));
}

static void row_p(int nx, double k, double dy, const double *restrict dx, const double *restrict u,
                  const double *restrict v, const double *restrict above, double *restrict p)
{
    int last = nx - 1;

    for (int i = 0; i < last; i++)
        p[i] = dx[i] * dy * p[i] - k * (u[i + 1] - u[i] + (above[i] - v[i]));

    p[last] = dx[last] * dy * p[last] - k * (0.0 - u[last] + (above[last] - v[last]));
}

static void rows_u(struct wave_field *f, int from, int to)
{
    for (int r = from; r <= to; r++) {
        size_t at = (size_t)r * f->nx;
        row_u(f->nx, f->k, f->damp_y[f->first + r - 1], f->damp_x, f->open_u + at, f->box.p + at,
              f->box.u + at);
    }
}

static void rows_v(struct wave_field *f, int from, int to)
{
    for (int r = from; r <= to; r++) {
        size_t at = (size_t)r * f->nx;
        row_v(f->nx, f->k, f->damp_y[f->first + r - 1], f->damp_x, f->open_v + at,
              f->box.p + at - f->nx, f->box.p + at, f->box.v + at);
    }
}

static void rows_p(struct wave_field *f, int from, int to)
{
    for (int r = from; r <= to; r++) {
        size_t at = (size_t)r * f->nx;
        row_p(f->nx, f->k, f->damp_y[f->first + r - 1], f->damp_x, f->box.u + at, f->box.v + at,
              f->box.v + at + f->nx, f->box.p + at);
    }
}

/* ---- one step ---- */

/* Sends a row of this process to process q and opens a split barrier; whoever has passed its wait
 * sees the row. */
static void send_row(struct wave_field *f, int q, double *there, const double *row)
{
    double t = wave_now();

    if (there) {
        gasnet_put_nbi_bulk((gasnet_node_t)q, there, (void *)row, (size_t)f->nx * sizeof(double));
        gasnet_wait_syncnbi_puts();
    }

    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    wave_time[WAVE_COMM] += wave_now() - t;
}

static void await_rows(void)
{
    double t = wave_now();

    if (gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) != GASNET_OK)
        wave_fatal("the barrier of a halo exchange failed");

    wave_time[WAVE_COMM] += wave_now() - t;
}

void wave_field_step(struct wave_field *f)
{
    double t = wave_now();
    double comm = wave_time[WAVE_COMM];
    int last = f->rows;
    struct wave_box *box = &f->box;

    /* The last row of p goes up.  Only the first row of v needs what comes from below. */
    send_row(f, f->rank + 1, f->above_p, box->p + (size_t)last * f->nx);
    rows_u(f, 1, last);
    rows_v(f, 2, last);
    await_rows();
    rows_v(f, 1, 1);

    /* The first row of v goes down.  Only the last row of p needs what comes from above. */
    send_row(f, f->rank - 1, f->below_v, box->v + f->nx);
    rows_p(f, 1, last - 1);
    await_rows();
    rows_p(f, last, last);

    f->step++;
    wave_time[WAVE_COMPUTE] += wave_now() - t - (wave_time[WAVE_COMM] - comm);
}

/* ---- the whole field ---- */

static struct wave_slot own_slot(const struct wave_field *f)
{
    struct wave_slot s = { 0 };

    for (size_t at = f->nx; at < ((size_t)f->rows + 1) * f->nx; at++) {
        double p = f->box.p[at];
        double u = f->box.u[at];
        double v = f->box.v[at];

        s.energy += (int64_t)(0.5 * (p * p + u * u + v * v) / ENERGY_UNIT);
        if (fabs(p) > s.peak)
            s.peak = fabs(p);
    }

    for (int n = 0; n < f->par->nprobes; n++) {
        int i = (int)(f->par->probe[n][0] * f->par->ny);
        int r = (int)(f->par->probe[n][1] * f->par->ny) - f->first + 1;

        if (r >= 1 && r <= f->rows)
            s.probe[n] = f->box.p[(size_t)r * f->nx + i];
    }

    return s;
}

void wave_field_sums(struct wave_field *f, struct wave_sums *sums_p)
{
    double t = wave_now();
    struct wave_slot mine = own_slot(f);

    wave_time[WAVE_COMPUTE] += wave_now() - t;
    t = wave_now();
    gasnet_put(0, f->root.slots + f->rank, &mine, sizeof mine);
    wave_time[WAVE_COMM] += wave_now() - t;
    wave_barrier();
    memset(sums_p, 0, sizeof *sums_p);
    if (f->rank != 0)
        return;

    int64_t energy = 0;

    for (int q = 0; q < f->procs; q++) {
        const struct wave_slot *s = &f->box.slots[q];

        energy += s->energy;
        sums_p->peak = s->peak > sums_p->peak ? s->peak : sums_p->peak;
        for (int n = 0; n < f->par->nprobes; n++)
            sums_p->probe[n] += s->probe[n]; /* all but one are zero */
    }

    sums_p->energy = (double)energy * ENERGY_UNIT / ((double)f->par->ny * f->par->ny);
}

void wave_field_fetch_row(struct wave_field *f, int j, double *row)
{
    int q = -1;
    int first, rows;

    do
        wave_rows(f->par->ny, f->procs, ++q, &first, &rows);
    while (j >= first + rows);

    struct wave_box box = wave_box_of(f, q);

    gasnet_get_bulk(row, (gasnet_node_t)q, box.p + (size_t)(j - first + 1) * f->nx,
                    (size_t)f->nx * sizeof(double));
}

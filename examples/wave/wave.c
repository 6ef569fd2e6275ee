/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wave: two-dimensional sound propagation, the main example of Amphora.
 *
 *   amphora-run -n 4 -servers 2 -iofwd /fwd=/some/dir wave -output /fwd/wave wave.params
 */
#include "wave.h"

#include <gasnet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double wave_time[WAVE_TIMES];

double wave_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

void wave_fatal(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("wave: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    gasnet_exit(1);
    abort(); /* gasnet_exit does not come back */
}

void wave_barrier(void)
{
    double t = wave_now();

    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) != GASNET_OK)
        wave_fatal("a barrier failed");

    wave_time[WAVE_COMM] += wave_now() - t;
}

/* ---- command line ---- */

static const char usage[] =
    "usage: wave [-output DIR] [-restart FILE] [-steps N] [-quiet] PARAMETER-FILE\n";

struct options {
    const char *output, *restart, *steps, *params;
    bool quiet;
};

static bool parse(struct options *o, int argc, char **argv)
{
    const struct {
        const char *name;
        const char **value;
    } known[] = { { "-output", &o->output }, { "-restart", &o->restart }, { "-steps", &o->steps } };
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i][0] == '-' && argv[i][1] == '-' ? argv[i] + 1 : argv[i];
        const char **value = NULL;

        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (strcmp(arg, known[k].name) == 0)
                value = known[k].value;

        if (value && i + 1 < argc)
            *value = argv[++i];
        else if (strcmp(arg, "-quiet") == 0)
            o->quiet = true;
        else if (arg[0] != '-' && !o->params)
            o->params = arg;
        else
            return false;
    }

    return o->params != NULL;
}

/* Reads the parameter file and what the command line says otherwise. */
static bool prepare(struct wave_params *par, const struct options *o, int procs, FILE *complaints)
{
    if (!wave_params_read(par, o->params, complaints))
        return false;

    if ((o->output && strlen(o->output) >= sizeof par->output) ||
        (o->restart && strlen(o->restart) >= sizeof par->restart)) {
        fprintf(complaints, "wave: a path on the command line has more than %d bytes\n",
                WAVE_PATH_BYTES - 1);
        return false;
    }

    if (o->output)
        strcpy(par->output, o->output);

    if (o->restart)
        strcpy(par->restart, o->restart);

    if (o->steps)
        par->steps = atoi(o->steps);

    if (procs > par->ny) {
        fprintf(complaints, "wave: %d processes cannot share %d rows; start at most %d\n", procs,
                par->ny, par->ny);
        return false;
    }

    return true;
}

/* ---- the run ---- */

static bool due(int every, int step)
{
    return every > 0 && step % every == 0;
}

static void output(struct wave_field *f, bool resumed)
{
    const struct wave_params *par = f->par;
    char name[32];

    if (resumed)
        return; /* this step's files were written before */

    if (due(par->series_every, f->step))
        wave_io_series(f);

    if (f->step > 0 && due(par->vector_every, f->step))
        wave_io_vector(f);

    if (f->step > 0 && due(par->restart_every, f->step))
        wave_io_write_restart(f);

    if (due(par->picture_every, f->step)) {
        snprintf(name, sizeof name, "pressure_%06d.png", f->step);
        wave_png_write(f, name);
    }
}

static void progress(const struct wave_field *f, double start, int start_step, double *last)
{
    double now = wave_now();
    int steps = f->par->steps;
    bool end = f->step == steps;

    if (f->rank != 0 || (now - *last < 1.0 && !end))
        return;

    double left = f->step > start_step ? (now - start) * (steps - f->step) / (f->step - start_step)
                                       : 0;

    printf("wave: step %*d of %d, %3d %%, time %.3f, %.1f s so far, %.1f s left\n",
           steps > 9999 ? 8 : 4, f->step, steps, steps ? (int)(100L * f->step / steps) : 100,
           f->step * f->dt, now - start, left);
    fflush(stdout);
    *last = now;
}

static void run(struct wave_field *f, bool quiet)
{
    bool resumed = f->par->restart[0] != '\0';
    double start, last;

    wave_io_prepare(f);
    if (resumed)
        wave_io_read_restart(f);
    else
        wave_field_start(f);

    wave_barrier();

    int start_step = f->step;

    last = start = wave_now();
    output(f, resumed);

    while (f->step < f->par->steps) {
        wave_field_step(f);
        output(f, false);
        if (!quiet)
            progress(f, start, start_step, &last);
    }

    wave_png_write(f, "pressure.png");
    wave_report(f, wave_now() - start);
}

static void check(int result, const char *what)
{
    if (result == GASNET_OK)
        return;

    fprintf(stderr, "wave: %s failed: %s (%s)\n", what, gasnet_ErrorName(result),
            gasnet_ErrorDesc(result));
    gasnet_exit(1);
}

int main(int argc, char **argv)
{
    struct wave_params par;
    struct wave_field field;
    struct options options = { 0 };

    check(gasnet_init(&argc, &argv), "gasnet_init");
    if (!parse(&options, argc, argv)) {
        if (gasnet_mynode() == 0)
            fputs(usage, stderr);

        gasnet_exit(2);
    }

    /* All processes read the same file and find the same mistakes; one tells. */
    FILE *complaints = gasnet_mynode() == 0 ? stderr : fopen("/dev/null", "w");

    if (!complaints || !prepare(&par, &options, (int)gasnet_nodes(), complaints))
        gasnet_exit(2);

    size_t page = GASNET_PAGESIZE;
    size_t segment = wave_field_bytes(&par, (int)gasnet_nodes());

    check(gasnet_attach(NULL, 0, (segment + page - 1) / page * page, 0), "gasnet_attach");
    wave_field_open(&field, &par);
    run(&field, options.quiet);
    wave_field_close(&field);
    gasnet_exit(0);

    return 0;
}

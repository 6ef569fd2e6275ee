/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of measurements, and the loop that takes them.
 *
 * Each repetition measures all ways of one call size in turn, so that a slow phase of the machine
 * affects all of them.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"
#include "tools/nbmrw/state.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SINGLE_CALL UINT64_C(1024)
#define DATA_BITS ((1u << NDATA) - 1)
#define STRIPED_CALL (1 << 20) /* the smallest call that is measured with several widths */

struct plan {
    struct series *s;
    size_t n, room;
};

static void add(struct plan *p, struct series s)
{
    if (p->n == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->s = realloc(p->s, p->room * sizeof *p->s);
        if (!p->s)
            exit(1);
    }

    p->s[p->n++] = s;
}

static uint64_t next_size(uint64_t size, uint64_t to, uint64_t step)
{
    uint64_t next = size * step;
    return size < to && next > to ? to : next;
}

/* Direct calls are left out if the servers are elsewhere and no directory was given for them. */
static bool has_direct(const struct options *o)
{
    return o->dir_given || !nbmrw_elsewhere(o);
}

/* All ways of one kind of call: sampled in turn, and compared with each other. */
static void plan_ways(struct plan *p, const struct options *o, struct series s)
{
    bool sweeps = s.call_bytes >= STRIPED_CALL; /* else one server has the file */

    if (has_direct(o))
        add(p, s);

    s.way = COLLECTED;
    if (s.call_bytes <= 64 << 10 && !s.random_order)
        add(p, s);

    for (unsigned w = 0; w < (sweeps ? o->nwidths : 1); w++) {
        s.width = sweeps ? o->widths[w] : 1;
        if (s.width > o->servers)
            continue;

        s.way = FORWARDED;
        add(p, s);

        s.way = STREAMS;
        if (o->streams && !s.random_order)
            add(p, s);
    }
}

static void plan_call_size(struct plan *p, const struct options *o, uint64_t file, uint64_t call)
{
    for (int what = 0; what < NDATA; what++)
        for (int random = !o->sequential; random <= (o->random_order ? 1 : 0); random++)
            if (o->measured & 1u << what)
                plan_ways(p, o,
                          (struct series){ .what = (enum what)what,
                                           .width = 1,
                                           .random_order = random,
                                           .file_bytes = file,
                                           .call_bytes = call });
}

/* The size of calls after this one.  SINGLE_CALL is among them, whatever the steps: the
 * effect of coalescing is measured with it. */
static uint64_t next_call_size(const struct options *o, uint64_t size)
{
    uint64_t step = o->step;
    uint64_t next = o->call_from;

    if (!step)
        step = o->quick ? 128 : 8;

    while (next <= size)
        next = next_size(next, o->call_to, step);

    return size < SINGLE_CALL && next > SINGLE_CALL && o->call_to > SINGLE_CALL ? SINGLE_CALL
                                                                                : next;
}

/* Calls that are longer than the file are as long as the file. */
static void plan_file_size(struct plan *p, const struct options *o, uint64_t file)
{
    for (uint64_t call = o->call_from; call <= o->call_to; call = next_call_size(o, call)) {
        plan_call_size(p, o, file, call < file ? call : file);
        if (call >= file)
            break;
    }
}

static void make_plan(struct plan *p, const struct options *o)
{
    for (uint64_t file = o->file_from; o->measured & DATA_BITS && file <= o->file_to;
         file = next_size(file, o->file_to, o->step ? o->step : 2))
        plan_file_size(p, o, file);

    for (int what = NDATA; what < NWHAT; what++) {
        if (!(o->measured & 1u << what))
            continue;

        if (has_direct(o))
            add(p, (struct series){ .what = (enum what)what, .width = 1 });

        add(p, (struct series){ .what = (enum what)what, .way = FORWARDED, .width = 1 });
    }
}

/* Do both belong to one group, which is sampled in turn? */
static bool together(const struct series *a, const struct series *b)
{
    return a->what == b->what && a->random_order == b->random_order &&
           a->file_bytes == b->file_bytes && a->call_bytes == b->call_bytes;
}

void nbmrw_pause(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };
    while (seconds > 0 && nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static bool sample_group(const struct options *o, struct series *s, size_t n)
{
    for (unsigned r = 0; r < o->repeats; r++) {
        if (r)
            nbmrw_pause(o->pause);

        for (size_t i = 0; i < n; i++)
            if (nbmrw_state.ended_by || !nbmrw_sample(o, &s[i], &s[i].value[s[i].n++]))
                return false;
    }

    return true;
}

/* Opens the file for -json, "-" for the standard output.  Returns NULL with errno if that fails. */
static FILE *open_json(const char *name)
{
    return strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
}

/* What a series is compared with: streams to as many servers, else direct calls; or NULL. */
static const struct series *limit_of(const struct series *s, const struct series *group, size_t n)
{
    const struct series *limit = NULL;

    for (size_t i = 0; i < n; i++) {
        bool same = group[i].way == STREAMS && group[i].width == s->width;

        if (same || (!limit && group[i].way == DIRECT))
            limit = &group[i];
    }

    return s->way == DIRECT || s->way == STREAMS ? NULL : limit;
}

static void print_group(const struct options *o, FILE *json, const struct series *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct series *limit = limit_of(&s[i], s, n);

        if (json != stdout)
            nbmrw_table_row(stdout, &s[i], limit);

        if (json)
            nbmrw_json_row(json, o, &s[i], limit);
    }
}

static bool sample_all(const struct options *o, struct plan *p, FILE *json)
{
    for (size_t i = 0, n; i < p->n; i += n) {
        for (n = 1; i + n < p->n && together(&p->s[i], &p->s[i + n]); n++)
            ;

        if (!sample_group(o, &p->s[i], n))
            return false;

        print_group(o, json, &p->s[i], n);
    }

    return true;
}

int nbmrw_measure(const struct options *o)
{
    struct plan p = { 0 };
    FILE *json = o->json ? open_json(o->json) : NULL;

    if (o->json && !json) {
        fprintf(stderr, "nbmrw: %s cannot be written: %s\n", o->json, strerror(errno));
        return 1;
    }

    make_plan(&p, o);
    if (json != stdout)
        nbmrw_table_head(stdout);

    if (!sample_all(o, &p, json))
        return 1;

    if (json && json != stdout && fclose(json) != 0)
        return 1;

    if (o->svg && !nbmrw_plot(o->svg, o->caption, p.s, p.n)) {
        fprintf(stderr, "nbmrw: %s cannot be written: %s\n", o->svg, strerror(errno));
        return 1;
    }

    return 0;
}

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

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SINGLE_CALL UINT64_C(1024)
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

static void plan_call_size(struct plan *p, const struct options *o, uint64_t file, uint64_t call)
{
    for (int what = 0; what < NDATA; what++)
        for (int random = !o->sequential; random <= (o->random_order ? 1 : 0); random++) {
            struct series s = { .what = (enum what)what,
                                .width = 1,
                                .random_order = random,
                                .file_bytes = file,
                                .call_bytes = call };

            add(p, s);
            s.way = COLLECTED;
            if (call <= 64 << 10 && !random)
                add(p, s);

            s.way = FORWARDED;
            if (call < STRIPED_CALL)
                add(p, s); /* the widths are for larger calls */

            for (unsigned w = 0; w < o->nwidths && call >= STRIPED_CALL; w++) {
                s.width = o->widths[w];
                if (s.width <= o->servers)
                    add(p, s);
            }
        }
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

static void make_plan(struct plan *p, const struct options *o)
{
    for (uint64_t file = o->file_from; o->data && file <= o->file_to;
         file = next_size(file, o->file_to, o->step ? o->step : 2))
        for (uint64_t call = o->call_from; call <= o->call_to && call <= file;
             call = next_call_size(o, call))
            plan_call_size(p, o, file, call);

    for (int what = NDATA; o->metadata && what < NWHAT; what++) {
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
            if (!nbmrw_sample(o, &s[i], &s[i].value[s[i].n++]))
                return false;
    }

    return true;
}

/* Opens the file for -json, "-" for the standard output.  Returns NULL with errno if that fails. */
static FILE *open_json(const char *name)
{
    return strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
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

    for (size_t i = 0, n; i < p.n; i += n) {
        for (n = 1; i + n < p.n && together(&p.s[i], &p.s[i + n]); n++)
            ;

        if (!sample_group(o, &p.s[i], n))
            return 1;

        for (size_t k = i; k < i + n; k++) {
            const struct series *direct = p.s[i].way == DIRECT && k > i ? &p.s[i] : NULL;

            if (json != stdout)
                nbmrw_table_row(stdout, &p.s[k], direct);

            if (json)
                nbmrw_json_row(json, o, &p.s[k], direct);
        }
    }

    if (json && json != stdout && fclose(json) != 0)
        return 1;

    if (o->svg && !nbmrw_plot(o->svg, p.s, p.n)) {
        fprintf(stderr, "nbmrw: %s cannot be written: %s\n", o->svg, strerror(errno));
        return 1;
    }

    return 0;
}

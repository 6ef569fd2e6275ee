/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured clocks of a job's hosts; see clocks.h.
 *
 * Layer: iofwd (trace).  Thread rule: see clocks.h.
 *
 * Between two measurements the offset changes evenly: clocks drift slowly.  A measurement that says
 * less than a better one, and does not contradict it, is left out.
 */
#include "iofwd/trace/clocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/trace/format.h"

enum {
    LINE = 160,
    LATEST = 1 << 30 /* seconds: no clock is beyond */
};

static bool wrong(char *why, size_t why_len, const char *what)
{
    snprintf(why, why_len, "%s", what);
    return false;
}

static bool is_sane(int64_t ns)
{
    const int64_t max = (int64_t)LATEST * 1000000000 * 4;

    return ns > -max && ns < max;
}

static bool add_one(struct amph_trace_clocks *clocks, struct amph_trace_clock clock)
{
    if (clocks->n == clocks->room) {
        size_t room = clocks->room ? clocks->room * 2 : 64;
        struct amph_trace_clock *longer = realloc(clocks->all, room * sizeof *longer);

        if (!longer)
            return false;

        clocks->all = longer;
        clocks->room = room;
    }

    clocks->all[clocks->n++] = clock;
    return true;
}

static int by_number_and_time(const void *a, const void *b)
{
    const struct amph_trace_clock *x = a;
    const struct amph_trace_clock *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)(a - b) : (uint64_t)(b - a);
}

/* Leaves out, of the n measurements of one clock, those that say nothing new.  Returns how many stay. */
static size_t thin_out(struct amph_trace_clock *point, size_t n)
{
    struct amph_trace_clock best = point[0];
    size_t kept = 0;

    for (size_t i = 1; i < n; i++)
        if (point[i].error_ns < best.error_ns)
            best = point[i];

    for (size_t i = 0; i < n; i++) {
        bool is_good = point[i].error_ns <= 2 * best.error_ns;
        bool contradicts = distance(point[i].offset_ns, best.offset_ns) > point[i].error_ns;

        if (is_good || contradicts)
            point[kept++] = point[i];
    }

    return kept;
}

static void arrange(struct amph_trace_clocks *clocks)
{
    size_t kept = 0;

    if (!clocks->n)
        return;

    qsort(clocks->all, clocks->n, sizeof *clocks->all, by_number_and_time);
    for (size_t from = 0, to; from < clocks->n; from = to) {
        for (to = from; to < clocks->n && clocks->all[to].number == clocks->all[from].number;)
            to++;

        size_t n = thin_out(clocks->all + from, to - from);

        memmove(clocks->all + kept, clocks->all + from, n * sizeof *clocks->all);
        kept += n;
    }

    clocks->n = kept;
}

static bool add_lines(struct amph_trace_clocks *clocks, const char *text, size_t len, char *why,
                      size_t why_len)
{
    uint64_t job, monotonic_ns, real_ns;
    bool is_first = true;
    int64_t base_ns = 0;
    char line[LINE];

    for (const char *at = text, *end = text + len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);

        if (!stop && !is_first)
            break; /* the launcher was killed while it wrote */
        if (n >= sizeof line)
            return wrong(why, why_len, "it is no file of clocks: a line is too long");

        memcpy(line, at, n);
        line[n] = 0;
        at += n + 1;
        if (is_first) {
            if (sscanf(line, AMPH_TRACE_CLOCKS " %" SCNu64 " %" SCNu64 " %" SCNu64, &job,
                       &monotonic_ns, &real_ns) != 3)
                return wrong(why, why_len, "it is no file of clocks");

            base_ns = (int64_t)(real_ns - monotonic_ns);
            is_first = false;
            continue;
        }

        struct amph_trace_clock c = { .base_ns = base_ns };

        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNu64, &c.number, &c.at_ns,
                   &c.offset_ns, &c.error_ns) != 4 ||
            !c.number || !is_sane(c.base_ns) || !is_sane(c.offset_ns) ||
            !is_sane((int64_t)c.at_ns) || !is_sane((int64_t)c.error_ns))
            return wrong(why, why_len, "it is damaged: a line is no measurement");
        if (!add_one(clocks, c))
            return wrong(why, why_len, "there is not enough memory for its clocks");
    }

    return !is_first || wrong(why, why_len, "it is no file of clocks");
}

bool amph_trace_clocks_add(struct amph_trace_clocks *clocks, const char *text, size_t len,
                           char *why, size_t why_len)
{
    size_t before = clocks->n;

    if (!add_lines(clocks, text, len, why, why_len)) {
        clocks->n = before;
        return false;
    }

    arrange(clocks);
    return true;
}

struct amph_trace_axis amph_trace_axis_of(const struct amph_trace_clocks *clocks, uint64_t number,
                                          int64_t fixed_ns)
{
    struct amph_trace_axis axis = { .fixed_ns = fixed_ns, .error_ns = UINT64_MAX };

    for (size_t i = 0; number && i < clocks->n; i++) {
        const struct amph_trace_clock *c = &clocks->all[i];

        if (c->number != number)
            continue;

        if (!axis.n++) {
            axis.point = c;
            axis.error_ns = 0;
        }

        axis.error_ns = c->error_ns > axis.error_ns ? c->error_ns : axis.error_ns;
    }

    return axis;
}

int64_t amph_trace_job_time(const struct amph_trace_axis *axis, uint64_t ns)
{
    size_t after = 0;
    size_t end = axis->n;

    if (!axis->n)
        return (int64_t)(ns + (uint64_t)axis->fixed_ns);

    while (after < end) { /* the first measurement after ns */
        size_t middle = after + (end - after) / 2;

        if (axis->point[middle].at_ns > ns)
            end = middle;
        else
            after = middle + 1;
    }

    const struct amph_trace_clock *b = &axis->point[after < axis->n ? after : axis->n - 1];
    const struct amph_trace_clock *a = after > 0 ? b - (after < axis->n) : b;
    int64_t offset_ns = a->offset_ns;

    if (b->at_ns > a->at_ns) {
        double part = (double)(ns - a->at_ns) / (double)(b->at_ns - a->at_ns);

        offset_ns += (int64_t)(part * (double)(b->offset_ns - a->offset_ns));
    }

    return (int64_t)(ns + (uint64_t)offset_ns + (uint64_t)a->base_ns);
}

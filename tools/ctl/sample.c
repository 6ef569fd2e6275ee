/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of all servers, and rates between two of them; see sample.h.  Layer: tools. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/platform.h"
#include "tools/ctl/sample.h"

void ctl_sample_take(struct ctl_set *set, enum amph_fwd_watch query, struct ctl_sample *sample_p)
{
    *sample_p = (struct ctl_sample){ .query = query, .n = set->n, .at_ns = amph_now_ns() };
    sample_p->server = calloc(set->n, sizeof *sample_p->server);
    if (!sample_p->server) {
        ctl_fail("there is no memory for what the servers answer");
        exit(1);
    }

    for (uint32_t i = 0; i < set->n; i++)
        sample_p->reached += ctl_ask(set, i, query, "", &sample_p->server[i]);
}

void ctl_sample_free(struct ctl_sample *sample)
{
    for (uint32_t i = 0; sample->server && i < sample->n; i++)
        ctl_rows_free(&sample->server[i]);

    free(sample->server);
    *sample = (struct ctl_sample){ 0 };
}

void ctl_samples_take(struct ctl_set *set, enum amph_fwd_watch query, struct ctl_samples *s)
{
    ctl_sample_free(&s->before);
    if (s->now.query == query)
        s->before = s->now;
    else
        ctl_sample_free(&s->now);

    ctl_sample_take(set, query, &s->now);
}

void ctl_samples_free(struct ctl_samples *s)
{
    ctl_sample_free(&s->before);
    ctl_sample_free(&s->now);
}

double ctl_samples_seconds(const struct ctl_samples *s)
{
    return s->before.server ? (double)(s->now.at_ns - s->before.at_ns) / AMPH_NS_PER_S : 0;
}

/* The cells that say which server, client or file a row is about. */
static const char *const key_cells[] = { "process", "client", "path", "opener" };

static bool is_same(const struct ctl_row *a, const struct ctl_row *b)
{
    for (size_t i = 0; i < AMPH_COUNTOF(key_cells); i++)
        if (ctl_value_of(a, key_cells[i]) != ctl_value_of(b, key_cells[i]) ||
            strcmp(ctl_text_of(a, key_cells[i]), ctl_text_of(b, key_cells[i])) != 0)
            return false;

    return true;
}

const struct ctl_row *ctl_samples_before(const struct ctl_samples *s, uint32_t server,
                                         const struct ctl_row *row)
{
    if (!s->before.server || server >= s->before.n)
        return NULL;

    const struct ctl_rows *rows = &s->before.server[server];

    for (size_t i = 0; i < rows->n; i++)
        if (is_same(&rows->row[i], row))
            return &rows->row[i];

    return NULL;
}

struct amph_fwd_latency ctl_latency_since(const struct ctl_row *now, const struct ctl_row *before,
                                          const char *name)
{
    const struct ctl_cell *a = ctl_cell_of(now, name);
    const struct ctl_cell *b = before ? ctl_cell_of(before, name) : NULL;
    struct amph_fwd_latency since = { .sum_ns = 0 };

    if (!a || !a->latency)
        return since;

    since = *a->latency;
    if (!b || !b->latency || b->latency->sum_ns > since.sum_ns)
        return since;

    for (unsigned i = 0; i < FWD_WATCH_LATENCY_BUCKETS; i++)
        since.count[i] -= b->latency->count[i] < since.count[i] ? b->latency->count[i]
                                                                : since.count[i];

    since.sum_ns -= b->latency->sum_ns;
    return since;
}

double ctl_rate(const struct ctl_row *now, const struct ctl_row *before, const char *name,
                double seconds)
{
    if (!before || seconds <= 0)
        return 0;

    uint64_t a = ctl_value_of(before, name);
    uint64_t b = ctl_value_of(now, name);

    return b > a ? (double)(b - a) / seconds : 0;
}

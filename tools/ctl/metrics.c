/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl metrics: the servers' counters as OpenMetrics text.  A counter of the registry
 * (base/settings/counter_defs.h) is one metric; labels are the server's number and host, never a path or a
 * user.
 *
 * Layer: tools.  Thread rule: one thread at a time uses a set.
 * Source: OpenMetrics 1.0 (families, suffixes, # EOF).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "iofwd/wire/watch.h"
#include "tools/ctl/metrics.h"
#include "tools/ctl/sample.h"

#define PREFIX "amphora_"

/* Puts a label's value, with its escapes. */
static void put_label(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            putc(*text, out);
    }
}

/* Puts "NAME{server="0",host="node07"", to which labels may be added. */
static void put_sample(FILE *out, const char *name, const char *suffix, uint32_t server,
                       const struct ctl_row *row)
{
    fprintf(out, PREFIX "%s%s{server=\"%" PRIu32 "\",host=\"", name, suffix, server);
    put_label(out, ctl_text_of(row, "host"));
    putc('"', out);
}

static void put_family(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# TYPE " PREFIX "%s %s\n# HELP " PREFIX "%s ", name, type, name);
    put_label(out, help);
    putc('\n', out);
}

/* ---- the families ---- */

static void put_up(FILE *out, const struct ctl_sample *s)
{
    put_family(out, "server_up", "gauge", "whether the I/O server answers");

    for (uint32_t i = 0; i < s->n; i++)
        fprintf(out, PREFIX "server_up{server=\"%" PRIu32 "\"} %d\n", i, s->server[i].n > 0);
}

static void put_uptime(FILE *out, const struct ctl_sample *s)
{
    fputs("# TYPE " PREFIX "server_uptime_seconds gauge\n"
          "# UNIT " PREFIX "server_uptime_seconds seconds\n"
          "# HELP " PREFIX "server_uptime_seconds how long the I/O server has run\n",
          out);

    for (uint32_t i = 0; i < s->n; i++) {
        if (s->server[i].n == 0)
            continue;

        const struct ctl_row *row = &s->server[i].row[0];

        put_sample(out, "server_uptime_seconds", "", i, row);
        fprintf(out, "} %.3f\n", (double)ctl_value_of(row, "uptime_ns") / AMPH_NS_PER_S);
    }
}

static void put_counter(FILE *out, const struct ctl_sample *s, const struct amph_counters_row *c)
{
    put_family(out, c->name, c->is_level ? "gauge" : "counter", c->help);

    for (uint32_t i = 0; i < s->n; i++) {
        if (s->server[i].n == 0)
            continue;

        const struct ctl_row *row = &s->server[i].row[0];

        put_sample(out, c->name, c->is_level ? "" : "_total", i, row);
        fprintf(out, "} %" PRIu64 "\n", ctl_value_of(row, c->name));
    }
}

/* Puts one server's histogram, a bucket for each factor of two. */
static void put_histogram(FILE *out, uint32_t server, const struct ctl_row *row)
{
    const struct ctl_cell *cell = ctl_cell_of(row, "latency");
    static const char name[] = "server_latency_seconds";
    uint64_t n = 0;

    if (!cell || !cell->latency)
        return;

    for (unsigned i = 0; i < FWD_WATCH_LATENCY_BUCKETS - 1; i++) {
        n += cell->latency->count[i];
        if (i % 4 != 0)
            continue;

        put_sample(out, name, "_bucket", server, row);
        fprintf(out, ",le=\"%.9g\"} %" PRIu64 "\n",
                (double)amph_fwd_latency_above_ns(i) / AMPH_NS_PER_S, n);
    }

    n += cell->latency->count[FWD_WATCH_LATENCY_BUCKETS - 1];
    put_sample(out, name, "_bucket", server, row);
    fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n", n);
    put_sample(out, name, "_count", server, row);
    fprintf(out, "} %" PRIu64 "\n", n);
    put_sample(out, name, "_sum", server, row);
    fprintf(out, "} %.9f\n", (double)cell->latency->sum_ns / AMPH_NS_PER_S);
}

static void put_latency(FILE *out, const struct ctl_sample *s)
{
    fputs("# TYPE " PREFIX "server_latency_seconds histogram\n"
          "# UNIT " PREFIX "server_latency_seconds seconds\n"
          "# HELP " PREFIX "server_latency_seconds from a request's arrival to its answer\n",
          out);

    for (uint32_t i = 0; i < s->n; i++)
        if (s->server[i].n > 0)
            put_histogram(out, i, &s->server[i].row[0]);
}

uint32_t ctl_metrics_write(struct ctl_set *set, FILE *out)
{
    struct ctl_sample s;

    ctl_sample_take(set, FWD_WATCH_STATUS, &s);
    put_up(out, &s);
    put_uptime(out, &s);

    for (unsigned i = 0; i < AMPH_COUNTER_COUNT; i++)
        put_counter(out, &s, amph_counters_row(i));

    put_latency(out, &s);
    fputs("# EOF\n", out);

    uint32_t unreachable = s.n - s.reached;

    ctl_sample_free(&s);
    return unreachable;
}

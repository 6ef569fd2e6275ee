/* SPDX-License-Identifier: BSD-3-Clause */
/* Five-number summaries, the table, JSON.  Layer: tools.  Thread rule: one thread. */
#include "tools/nbmrw/nbmrw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const nbmrw_way[NWAYS] = { "direct", "forwarded", "collected", "TCP streams" };
const char *const nbmrw_what[NWHAT] = { "write-fresh", "write-over", "read",  "stat",
                                        "open-close",  "create",     "unlink" };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double at_share(const double *sorted, unsigned n, double share)
{
    double at = share * (n - 1);
    unsigned low = (unsigned)at;
    unsigned high = low + 1 < n ? low + 1 : low;

    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

struct summary nbmrw_summary(const struct series *s)
{
    double sorted[NBMRW_REPEATS_MAX];
    struct summary r = { 0 };

    if (!s->n)
        return r;

    memcpy(sorted, s->value, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, by_value);
    r.min = sorted[0];
    r.q1 = at_share(sorted, s->n, 0.25);
    r.median = at_share(sorted, s->n, 0.5);
    r.q3 = at_share(sorted, s->n, 0.75);
    r.max = sorted[s->n - 1];
    r.low = r.q1 - 1.5 * (r.q3 - r.q1);
    r.high = r.q3 + 1.5 * (r.q3 - r.q1);
    for (unsigned i = 0; i < s->n; i++)
        r.outliers += sorted[i] < r.low || sorted[i] > r.high;

    return r;
}

static double ratio(const struct summary *r, const struct series *limit)
{
    return limit && limit->n ? r->median / nbmrw_summary(limit).median : NAN;
}

static const char *size_text(uint64_t bytes, char text[16])
{
    static const char unit[] = " KMGT";
    unsigned u = 0;

    while (bytes >= 1024 && bytes % 1024 == 0 && u < 4) {
        bytes /= 1024;
        u++;
    }

    snprintf(text, 16, u ? "%llu%c" : "%llu", (unsigned long long)bytes, unit[u]);
    return text;
}

void nbmrw_table_head(FILE *out)
{
    fprintf(out, "%-12s %-11s %5s %-4s %7s %7s %-6s %10s %10s %10s %10s %10s %3s %6s\n", "what",
            "way", "width", "order", "file", "call", "unit", "least", "q1", "median", "q3", "most",
            "out", "ratio");
}

void nbmrw_table_row(FILE *out, const struct series *s, const struct series *limit)
{
    struct summary r = nbmrw_summary(s);
    bool data = s->what < NDATA;
    double unit = data ? 1e6 : 1e3;
    double x = ratio(&r, limit);
    char file[16], call[16];
    char text[16] = "";
    const char *order = s->random_order ? "rand" : "seq";

    if (!isnan(x))
        snprintf(text, sizeof text, "%.3f", x);

    fprintf(out, "%-12s %-11s %5u %-4s %7s %7s %-6s %10.1f %10.1f %10.1f %10.1f %10.1f %3u %6s\n",
            nbmrw_what[s->what], nbmrw_way[s->way], s->width, data ? order : "",
            data ? size_text(s->file_bytes, file) : "", data ? size_text(s->call_bytes, call) : "",
            data ? "MB/s" : "k/s", r.min / unit, r.q1 / unit, r.median / unit, r.q3 / unit,
            r.max / unit, r.outliers, text);
    fflush(out);
}

void nbmrw_json_row(FILE *out, const struct options *o, const struct series *s,
                    const struct series *limit)
{
    struct summary r = nbmrw_summary(s);
    double x = ratio(&r, limit);

    fprintf(out,
            "{\"test\":\"nbmrw-%s\",\"conduit\":\"%s\",\"procs\":1,\"bytes\":%llu,\"value\":%.6g,"
            "\"unit\":\"%s\","
            "\"way\":\"%s\",\"width\":%u,"
            "\"order\":\"%s\",\"file_bytes\":%llu,\"least\":%.6g,\"q1\":%.6g,\"median\":%.6g,"
            "\"q3\":%.6g,\"most\":%.6g,\"outliers\":[",
            nbmrw_what[s->what], o->conduit, (unsigned long long)s->call_bytes, r.median,
            s->what < NDATA ? "B/s" : "1/s", nbmrw_way[s->way], s->width,
            s->random_order ? "random" : "sequential", (unsigned long long)s->file_bytes, r.min,
            r.q1, r.median, r.q3, r.max);

    const char *comma = "";

    for (unsigned i = 0; i < s->n; i++)
        if (s->value[i] < r.low || s->value[i] > r.high) {
            fprintf(out, "%s%.6g", comma, s->value[i]);
            comma = ",";
        }

    fprintf(out, "]");
    if (!isnan(x))
        fprintf(out, ",\"limit\":\"%s\",\"limit_value\":%.6g,\"ratio\":%.4f", nbmrw_way[limit->way],
                nbmrw_summary(limit).median, x);

    fprintf(out, "}\n");
    fflush(out);
}

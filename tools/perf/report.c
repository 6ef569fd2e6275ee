/* SPDX-License-Identifier: BSD-3-Clause */
/* Medians and quartiles, the table, and JSON.  Layer: tools. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/perf/perf.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value below which `share` of the series lies, between neighbours in proportion. */
static double quantile(const struct perf_series *s, double share)
{
    double sorted[PERF_MAX_SAMPLES];
    double at = share * (s->count - 1);

    memcpy(sorted, s->value, s->count * sizeof *sorted);
    qsort(sorted, s->count, sizeof *sorted, by_value);

    unsigned low = (unsigned)at;
    unsigned high = low + 1 < s->count ? low + 1 : low;

    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

double perf_median(const struct perf_series *s)
{
    return quantile(s, 0.5);
}

/* Of each sample to that of the limit beside it: what the machine does besides falls on both. */
static double median_ratio(const struct perf_series *values, const struct perf_series *limits)
{
    struct perf_series ratios = { .count = values->count < limits->count ? values->count
                                                                         : limits->count };

    for (unsigned i = 0; i < ratios.count; i++)
        ratios.value[i] = values->value[i] / limits->value[i];

    return perf_median(&ratios);
}

/* What is compared: the limit's name and value, the ratio, the target in words and whether it is
 * met (-1: no target). */
struct verdict {
    const char *limit;
    double limit_value, ratio;
    char target[48];
    int met;
};

static void compare_with_target(const struct perf_row *row, double value, struct verdict *v)
{
    const struct perf_target *g = perf_target_of(row->test, row->conduit, row->bytes, row->procs);

    v->met = -1;
    v->limit = row->limit;
    v->limit_value = row->limits ? perf_median(row->limits) : NAN;

    if (!row->limit && g) {
        v->limit = "target";
        v->limit_value = g->number;
    }

    v->ratio = NAN;
    if (row->limits)
        v->ratio = median_ratio(row->values, row->limits);
    else if (v->limit)
        v->ratio = value / v->limit_value;

    v->target[0] = '\0';
    if (!g)
        return;

    size_t n = 0;

    v->met = 0;
    for (; g && n < sizeof v->target; g = perf_target_else(g)) {
        double seen = g->is_ratio ? v->ratio : value;

        v->met |= g->at_least ? seen >= g->number : seen <= g->number;
        n += (size_t)snprintf(v->target + n, sizeof v->target - n, "%s%s %g%s%s", n ? " or " : "",
                              g->at_least ? ">=" : "<=", g->number, g->is_ratio ? " x" : " ",
                              g->is_ratio ? "" : row->test->unit);
    }
}

/* Four significant digits, without an exponent. */
static const char *number(double x, char *text, size_t len)
{
    if (!isfinite(x))
        return "-";

    int digits = x == 0 ? 0 : 3 - (int)floor(log10(fabs(x)));

    if (digits < 0)
        digits = 0;

    if (digits > 6)
        digits = 6;

    snprintf(text, len, "%.*f", digits, x);
    return text;
}

void perf_report_head(const struct perf_options *opt)
{
    if (opt->json)
        return;

    printf("%-21s %-4s %5s %8s %10s %-5s %-19s %-13s %10s %7s  %s\n", "test", "net", "procs",
           "bytes", "median", "unit", "middle half", "limit", "limit's", "ratio", "target");
    fflush(stdout);
}

static void print_json(const struct perf_row *row, double value, const struct verdict *v)
{
    printf("{\"test\":\"%s\",\"conduit\":\"%s\",\"procs\":%u,\"bytes\":%u,\"value\":%.6g,\"unit\":"
           "\"%s\",",
           row->test->name, row->conduit, row->procs, row->bytes, value, row->test->unit);
    if (v->limit)
        printf("\"limit\":\"%s\",\"limit_value\":%.6g,\"ratio\":%.4g", v->limit, v->limit_value,
               v->ratio);
    else
        printf("\"limit\":null,\"limit_value\":null,\"ratio\":null");

    printf(",\"low\":%.6g,\"high\":%.6g,\"samples\":%u", quantile(row->values, 0.25),
           quantile(row->values, 0.75), row->values->count);
    if (v->met >= 0)
        printf(",\"target\":\"%s\",\"met\":%s", v->target, v->met ? "true" : "false");

    printf("}\n");
}

static void print_line(const struct perf_row *row, double value, const struct verdict *v)
{
    char a[24], b[24], c[24], d[24], e[24], range[56];
    const char *met = v->met ? " ok" : " MISS";

    snprintf(range, sizeof range, "%s..%s", number(quantile(row->values, 0.25), a, sizeof a),
             number(quantile(row->values, 0.75), b, sizeof b));
    printf("%-21s %-4s %5u %8u %10s %-5s %-19s %-13s %10s %7s  %s%s\n", row->test->name,
           row->conduit, row->procs, row->bytes, number(value, c, sizeof c), row->test->unit, range,
           v->limit ? v->limit : "-", number(v->limit_value, d, sizeof d),
           number(v->ratio, e, sizeof e), v->target, v->met < 0 ? "" : met);
}

void perf_report_row(const struct perf_options *opt, struct perf_shared *shared,
                     const struct perf_row *row)
{
    struct verdict v;
    double value = perf_median(row->values);

    compare_with_target(row, value, &v);
    if (opt->json)
        print_json(row, value, &v);
    else
        print_line(row, value, &v);

    fflush(stdout);
    shared->rows++;
    if (v.met == 1)
        shared->met++;

    if (v.met == 0)
        shared->missed++;
}

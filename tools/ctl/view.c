/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of iofwd-ctl top; see view.h.  Layer: tools. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/platform.h"
#include "tools/ctl/view.h"

/* ---- columns ---- */

/* clang-format off */
static const struct ctl_column server_columns[] = {
    { "server", "SERVER", CTL_SERVER },
    { "server_clients", "CLIENTS", CTL_NUMBER },
    { "server_files", "FILES", CTL_NUMBER },
    { "server_queued", "QUEUE", CTL_NUMBER },
    { "server_memory", "MEMORY", CTL_LEVEL_BYTES },
    { "server_calls", "CALLS/S", CTL_PER_SECOND },
    { "server_errors", "ERRORS/S", CTL_PER_SECOND },
    { "server_bytes_written", "WRITE/S", CTL_BYTES_PER_SECOND },
    { "server_bytes_read", "READ/S", CTL_BYTES_PER_SECOND },
    { "latency", "P50", CTL_P50 },
    { "latency", "P99", CTL_P99 },
    { "state", "STATE", CTL_TEXT },
    { "host", "HOST", CTL_TEXT },
};

/* How a column of a list is shown: a count as a rate. */
static const struct {
    enum ctl_form form;
    const char *title; /* NULL: the column's own */
} list_forms[] = {
    [FWD_FORM_NUMBER] = { CTL_NUMBER, NULL },
    [FWD_FORM_COUNT] = { CTL_PER_SECOND, NULL },
    [FWD_FORM_BYTES] = { CTL_BYTES_PER_SECOND, NULL },
    [FWD_FORM_LEVEL_BYTES] = { CTL_LEVEL_BYTES, NULL },
    [FWD_FORM_TEXT] = { CTL_TEXT, NULL },
    [FWD_FORM_LATENCY] = { CTL_P50, "P50" },
};

static const struct {
    const char *from, *to;
} rate_titles[] = {
    { "CALLS", "CALLS/S" }, { "ERRORS", "ERRORS/S" }, { "WRITTEN", "WRITE/S" }, { "READ", "READ/S" },
};
/* clang-format on */

static void add_column(struct ctl_view *view, struct ctl_column column)
{
    if (view->ncolumns < CTL_VIEW_COLUMNS_MAX)
        view->column[view->ncolumns++] = column;
}

static const char *title_of(const struct amph_fwd_column *c)
{
    bool is_rate = c->form == FWD_FORM_COUNT || c->form == FWD_FORM_BYTES;

    for (size_t i = 0; is_rate && i < AMPH_COUNTOF(rate_titles); i++)
        if (strcmp(rate_titles[i].from, c->title) == 0)
            return rate_titles[i].to;

    return list_forms[c->form].title ? list_forms[c->form].title : c->title;
}

/* Adds a list's columns: those that are texts, or all others. */
static void add_list_columns(struct ctl_view *view, bool texts)
{
    for (unsigned i = 0; i < FWD_COLUMN_COUNT; i++) {
        const struct amph_fwd_column *c = &amph_fwd_columns[i];

        if (c->list != view->query || (c->form == FWD_FORM_TEXT) != texts)
            continue;

        add_column(view, (struct ctl_column){ c->name, title_of(c), list_forms[c->form].form });
        if (c->form == FWD_FORM_LATENCY)
            add_column(view, (struct ctl_column){ c->name, "P99", CTL_P99 });
    }
}

void ctl_view_begin(struct ctl_view *view, enum amph_fwd_watch query)
{
    free(view->line);
    *view = (struct ctl_view){ .query = query };

    if (query == FWD_WATCH_STATUS) {
        for (size_t i = 0; i < AMPH_COUNTOF(server_columns); i++)
            add_column(view, server_columns[i]);
    } else {
        add_column(view, server_columns[0]);
        add_list_columns(view, false);
        add_list_columns(view, true);
    }

    ctl_view_sort_by(view, "CALLS/S");
}

bool ctl_view_sort_by(struct ctl_view *view, const char *name)
{
    for (size_t i = 0; i < view->ncolumns; i++)
        if (strcasecmp(view->column[i].title, name) == 0 ||
            strcasecmp(view->column[i].name, name) == 0) {
            view->sort = i;
            return true;
        }

    return false;
}

/* ---- lines ---- */

static double value_of(const struct ctl_column *c, uint32_t server, const struct ctl_row *row,
                       const struct ctl_row *before, double seconds)
{
    if (c->form == CTL_SERVER)
        return server;
    if (c->form == CTL_PER_SECOND || c->form == CTL_BYTES_PER_SECOND)
        return ctl_rate(row, before, c->name, seconds);
    if (c->form != CTL_P50 && c->form != CTL_P99)
        return (double)ctl_value_of(row, c->name);

    struct amph_fwd_latency since = ctl_latency_since(row, before, c->name);

    return amph_fwd_latency_share_ns(&since, c->form == CTL_P50 ? 0.5 : 0.99);
}

static void add_line(struct ctl_view *view, const struct ctl_samples *s, uint32_t server,
                     const struct ctl_row *row)
{
    if (view->nlines == view->room) {
        view->room = view->room ? 2 * view->room : 64;
        view->line = realloc(view->line, view->room * sizeof *view->line);
        if (!view->line) {
            ctl_fail("there is no memory for what the servers answer");
            exit(1);
        }
    }

    struct ctl_line *line = &view->line[view->nlines++];
    const struct ctl_row *before = ctl_samples_before(s, server, row);

    *line = (struct ctl_line){ .server = server, .row = row };
    for (size_t i = 0; i < view->ncolumns; i++) {
        if (view->column[i].form == CTL_TEXT)
            line->text[i] = ctl_text_of(row, view->column[i].name);
        else
            line->value[i] = value_of(&view->column[i], server, row, before,
                                      ctl_samples_seconds(s));
    }
}

static int compare(const void *a, const void *b, void *arg)
{
    const struct ctl_line *x = a;
    const struct ctl_line *y = b;
    const struct ctl_view *view = arg;
    int order;

    if (view->column[view->sort].form == CTL_TEXT)
        order = strcmp(x->text[view->sort], y->text[view->sort]);
    else
        order = (x->value[view->sort] < y->value[view->sort]) -
                (x->value[view->sort] > y->value[view->sort]);

    if (order != 0)
        return view->ascending ? -order : order;

    return (x->server > y->server) - (x->server < y->server);
}

void ctl_view_fill(struct ctl_view *view, const struct ctl_samples *s)
{
    view->nlines = 0;
    for (uint32_t i = 0; i < s->now.n; i++)
        for (size_t k = 0; k < s->now.server[i].n; k++)
            add_line(view, s, i, &s->now.server[i].row[k]);

    if (view->nlines)
        qsort_r(view->line, view->nlines, sizeof *view->line, compare, view);
}

void ctl_view_free(struct ctl_view *view)
{
    free(view->line);
    *view = (struct ctl_view){ 0 };
}

/* ---- text ---- */

/* Appends to out, which remains terminated if the text does not fit. */
AMPH_PRINTF(3, 4) static void append(char *out, size_t size, const char *fmt, ...)
{
    size_t at = strlen(out);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(out + at, size - at, fmt, ap);
    va_end(ap);
}

void ctl_view_title(const struct ctl_view *view, char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < view->ncolumns; i++)
        append(out, size, view->column[i].form == CTL_TEXT ? "%s%-9s" : "%s%9s", i ? " " : "",
               view->column[i].title);
}

static const char *number_text(double value, char out[CTL_CELL_BYTES])
{
    snprintf(out, CTL_CELL_BYTES, value < 99.95 && value > 0 ? "%.1f" : "%.0f", value);
    return out;
}

static const char *cell_text(const struct ctl_column *c, double value, char out[CTL_CELL_BYTES])
{
    switch (c->form) {
    case CTL_LEVEL_BYTES:
    case CTL_BYTES_PER_SECOND:
        return ctl_bytes(value, out);
    case CTL_P50:
    case CTL_P99:
        return ctl_time(value, out);
    case CTL_PER_SECOND:
        return number_text(value, out);
    default:
        snprintf(out, CTL_CELL_BYTES, "%.0f", value);
        return out;
    }
}

void ctl_view_line(const struct ctl_view *view, const struct ctl_line *line, char *out, size_t size)
{
    char cell[CTL_CELL_BYTES], text[CTL_TEXT_BYTES];

    out[0] = 0;
    for (size_t i = 0; i < view->ncolumns; i++) {
        const struct ctl_column *c = &view->column[i];

        if (c->form == CTL_TEXT)
            append(out, size, "%s%-9s", i ? " " : "",
                   amph_visible(text, sizeof text, line->text[i]));
        else
            append(out, size, "%s%9s", i ? " " : "", cell_text(c, line->value[i], cell));
    }
}

void ctl_view_totals(const struct ctl_set *set, const struct ctl_samples *status, char *out,
                     size_t size)
{
    static const char *const levels[] = { "server_clients", "server_files", "server_queued" };
    static const char *const counts[] = { "server_calls", "server_errors", "server_bytes_written",
                                          "server_bytes_read" };
    double level[AMPH_COUNTOF(levels)] = { 0 };
    double rate[AMPH_COUNTOF(counts)] = { 0 };
    double seconds = ctl_samples_seconds(status);
    char calls[CTL_CELL_BYTES], errors[CTL_CELL_BYTES], written[16], read[16];

    for (uint32_t i = 0; i < status->now.n; i++) {
        if (status->now.server[i].n == 0)
            continue;

        const struct ctl_row *row = &status->now.server[i].row[0];
        const struct ctl_row *before = ctl_samples_before(status, i, row);

        for (size_t k = 0; k < AMPH_COUNTOF(levels); k++)
            level[k] += (double)ctl_value_of(row, levels[k]);

        for (size_t k = 0; k < AMPH_COUNTOF(counts); k++)
            rate[k] += ctl_rate(row, before, counts[k], seconds);
    }

    snprintf(out, size, "%" PRIu32 " servers, %.0f clients, %.0f files, queue %.0f",
             status->now.reached, level[0], level[1], level[2]);

    if (status->now.reached < set->n)
        append(out, size, " (%" PRIu32 " servers cannot be reached)", set->n - status->now.reached);

    if (seconds > 0)
        append(out, size, "; %s calls/s, %s errors/s, written %s/s, read %s/s",
               number_text(rate[0], calls), number_text(rate[1], errors),
               ctl_bytes(rate[2], written), ctl_bytes(rate[3], read));
}

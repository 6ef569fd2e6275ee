/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table that iofwd-ctl top shows: servers, clients or files with their rates, sorted.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#ifndef AMPH_TOOLS_CTL_VIEW_H
#define AMPH_TOOLS_CTL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/ctl/sample.h"

#define CTL_VIEW_COLUMNS_MAX 20
#define CTL_CELL_BYTES 16

enum ctl_form {
    CTL_SERVER, /* the server's number */
    CTL_NUMBER,
    CTL_LEVEL_BYTES,
    CTL_PER_SECOND,
    CTL_BYTES_PER_SECOND,
    CTL_P50, /* of the requests since the sample before */
    CTL_P99,
    CTL_TEXT
};

struct ctl_column {
    const char *name;  /* of the answer's item; also the JSON name */
    const char *title; /* at most 8 characters */
    enum ctl_form form;
};

struct ctl_line {
    uint32_t server;
    const struct ctl_row *row;
    double value[CTL_VIEW_COLUMNS_MAX];     /* of columns that are numbers */
    const char *text[CTL_VIEW_COLUMNS_MAX]; /* of texts */
};

/* Titles and totals, and the sorted lines. */
struct ctl_view {
    enum amph_fwd_watch query;
    size_t ncolumns;
    struct ctl_column column[CTL_VIEW_COLUMNS_MAX];
    size_t sort;    /* the column that the lines are sorted by */
    bool ascending; /* numbers are sorted from the largest on otherwise */
    size_t nlines, room;
    struct ctl_line *line; /* owned; refers to the sample that it was made from */
};

/* Gives the view the columns of a list, sorted by calls a second. */
void ctl_view_begin(struct ctl_view *view, enum amph_fwd_watch query);

/* Chooses the column to sort by, by its title or name in any case.  false: no such column. */
bool ctl_view_sort_by(struct ctl_view *view, const char *name);

/* Fills the lines from the samples, which must be of the view's query. */
void ctl_view_fill(struct ctl_view *view, const struct ctl_samples *s);
void ctl_view_free(struct ctl_view *view);

/* Writes the titles, or a line; texts come last and are not cut. */
void ctl_view_title(const struct ctl_view *view, char *out, size_t size);
void ctl_view_line(const struct ctl_view *view, const struct ctl_line *line, char *out,
                   size_t size);

/* Writes one sentence that sums up all servers, from samples of FWD_WATCH_STATUS. */
void ctl_view_totals(const struct ctl_set *set, const struct ctl_samples *status, char *out,
                     size_t size);

#endif

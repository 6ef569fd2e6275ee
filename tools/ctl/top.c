/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl top: shows repeatedly what servers, clients or files are doing.  On a terminal it fills
 * the screen and takes keys (screen.c); elsewhere, with -count or with -json, it prints one table
 * or one JSON object after the other.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/platform.h"
#include "tools/ctl/ctl.h"
#include "tools/ctl/top.h"

#define LINE_BYTES 4096

/* ---- the views ---- */

static const struct {
    const char *name, *rows; /* rows: the JSON name of the lines */
    enum amph_fwd_watch query;
} views[] = {
    { "server", "servers", FWD_WATCH_STATUS },
    { "client", "clients", FWD_WATCH_CLIENTS },
    { "file", "files", FWD_WATCH_FILES },
};

enum amph_fwd_watch ctl_top_view_named(const char *name)
{
    for (size_t i = 0; i < AMPH_COUNTOF(views); i++)
        if (strcasecmp(views[i].name, name) == 0 || strcasecmp(views[i].rows, name) == 0)
            return views[i].query;

    return 0;
}

static const char *rows_name(enum amph_fwd_watch query)
{
    size_t i = 0;

    while (views[i].query != query)
        i++;

    return views[i].rows;
}

/* ---- samples ---- */

void ctl_top_sample(struct ctl_top *top)
{
    ctl_samples_take(top->set, FWD_WATCH_STATUS, &top->status);

    if (top->view.query == FWD_WATCH_STATUS) {
        ctl_view_fill(&top->view, &top->status);
        return;
    }

    ctl_samples_take(top->set, top->view.query, &top->list);
    ctl_view_fill(&top->view, &top->list);
}

/* ---- text and JSON ---- */

static void print_text(const struct ctl_top *top)
{
    char line[LINE_BYTES], at[32];
    time_t now = time(NULL);
    struct tm tm;

    strftime(at, sizeof at, "%H:%M:%S", localtime_r(&now, &tm));
    ctl_view_totals(top->set, &top->status, line, sizeof line);
    printf("%s  %s\n", at, line);
    ctl_view_title(&top->view, line, sizeof line);
    puts(line);

    for (size_t i = 0; i < top->view.nlines; i++) {
        ctl_view_line(&top->view, &top->view.line[i], line, sizeof line);
        puts(line);
    }

    putchar('\n');
}

/* The JSON name of a column: rates and percentiles say so. */
static void print_json_name(const struct ctl_column *c)
{
    static const char *const suffixes[] = {
        [CTL_PER_SECOND] = "_per_s", [CTL_BYTES_PER_SECOND] = "_per_s",
        [CTL_P50] = "_p50_ns",       [CTL_P99] = "_p99_ns",
        [CTL_TEXT] = NULL,
    };

    printf("\"%s%s\":", c->name, suffixes[c->form] ? suffixes[c->form] : "");
}

static void print_json_line(const struct ctl_view *view, const struct ctl_line *line)
{
    putchar('{');

    for (size_t i = 0; i < view->ncolumns; i++) {
        const struct ctl_column *c = &view->column[i];

        fputs(i ? "," : "", stdout);
        print_json_name(c);
        if (c->form == CTL_TEXT)
            ctl_json_text(stdout, line->text[i]);
        else
            printf("%.15g", line->value[i]);
    }

    putchar('}');
}

static void print_json(const struct ctl_top *top)
{
    printf("{\"time\":%lld,\"interval_s\":%.6f,\"servers_reached\":%" PRIu32 ",\"%s\":[",
           (long long)time(NULL), ctl_samples_seconds(&top->status), top->status.now.reached,
           rows_name(top->view.query));

    for (size_t i = 0; i < top->view.nlines; i++) {
        fputs(i ? "," : "", stdout);
        print_json_line(&top->view, &top->view.line[i]);
    }

    puts("]}");
}

/* Waits for the interval, or less if standard output's reader goes away. */
static bool await_interval(double seconds)
{
    struct pollfd p = { .fd = STDOUT_FILENO, .events = 0 };

    return poll(&p, 1, (int)lrint(seconds * 1e3)) <= 0;
}

static int top_print(struct ctl_top *top)
{
    ctl_top_sample(top); /* rates begin with the second sample */

    for (unsigned long shown = 0; top->count == 0 || shown < top->count; shown++) {
        if (!await_interval(top->interval_s))
            break;

        ctl_top_sample(top);
        if (top->status.now.reached == 0)
            return ctl_fail("none of the %" PRIu32 " servers of %s can be reached: %s", top->set->n,
                            top->set->file, top->set->server[0].why);

        (top->json ? print_json : print_text)(top);
        if (fflush(stdout) != 0)
            break; /* base/program/stdout_check.h reports it */
    }

    return 0;
}

int ctl_top(struct ctl_top *top)
{
    bool screen = !top->json && top->count == 0 && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    int code = screen ? ctl_screen(top) : top_print(top);

    ctl_samples_free(&top->status);
    ctl_samples_free(&top->list);
    ctl_view_free(&top->view);
    return code;
}

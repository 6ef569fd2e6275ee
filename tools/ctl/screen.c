/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl top on a terminal: draws the table with ncurses and takes keys.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"
#include "base/platform.h"
#include "iofwd/wire/watch.h"
#include "tools/ctl/ctl.h"
#include "tools/ctl/sample.h"
#include "tools/ctl/top.h"

#ifdef AMPH_HAVE_CURSES

#include <curses.h>

#define LINE_BYTES 4096
#define FIRST_LINE 3 /* rows above: totals, keys, titles */

struct screen {
    struct ctl_top *top;
    size_t first; /* the first line that is shown */
    bool end;
};

static void draw_titles(const struct ctl_view *view)
{
    char title[LINE_BYTES];
    int x = 0;

    ctl_view_title(view, title, sizeof title);
    attron(A_REVERSE);
    mvhline(FIRST_LINE - 1, 0, ' ', COLS);
    mvaddnstr(FIRST_LINE - 1, 0, title, COLS);
    attroff(A_REVERSE);

    /* The column that the lines are sorted by; each is 9 characters wide. */
    x = (int)(10 * view->sort);
    if (x < COLS)
        mvchgat(FIRST_LINE - 1, x, 9, A_BOLD | A_UNDERLINE, 0, NULL);
}

static void draw(const struct screen *s)
{
    const struct ctl_view *view = &s->top->view;
    char line[LINE_BYTES];

    erase();
    ctl_view_totals(s->top->set, &s->top->status, line, sizeof line);
    mvaddnstr(0, 0, line, COLS);
    snprintf(line, sizeof line,
             "s servers  c clients  f files   < > sort   r reverse   + - every %.3g s   q quit",
             s->top->interval_s);
    attron(A_DIM);
    mvaddnstr(1, 0, line, COLS);
    attroff(A_DIM);
    draw_titles(view);

    for (int y = FIRST_LINE; y < LINES; y++) {
        size_t i = s->first + (size_t)(y - FIRST_LINE);

        if (i >= view->nlines)
            break;

        ctl_view_line(view, &view->line[i], line, sizeof line);
        mvaddnstr(y, 0, line, COLS);
    }

    refresh();
}

/* ---- keys ---- */

static void show_list(struct screen *s, enum amph_fwd_watch query)
{
    ctl_view_begin(&s->top->view, query);
    s->first = 0;
    ctl_top_sample(s->top);
}

static void key_servers(struct screen *s)
{
    show_list(s, FWD_WATCH_STATUS);
}

static void key_clients(struct screen *s)
{
    show_list(s, FWD_WATCH_CLIENTS);
}

static void key_files(struct screen *s)
{
    show_list(s, FWD_WATCH_FILES);
}

static void sort_again(struct screen *s)
{
    struct ctl_top *top = s->top;

    ctl_view_fill(&top->view, top->view.query == FWD_WATCH_STATUS ? &top->status : &top->list);
}

static void key_sort_left(struct screen *s)
{
    struct ctl_view *view = &s->top->view;

    view->sort = (view->sort + view->ncolumns - 1) % view->ncolumns;
    sort_again(s);
}

static void key_sort_right(struct screen *s)
{
    struct ctl_view *view = &s->top->view;

    view->sort = (view->sort + 1) % view->ncolumns;
    sort_again(s);
}

static void key_reverse(struct screen *s)
{
    s->top->view.ascending = !s->top->view.ascending;
    sort_again(s);
}

static void key_slower(struct screen *s)
{
    s->top->interval_s = fmin(s->top->interval_s * 2, 3600);
}

static void key_faster(struct screen *s)
{
    s->top->interval_s = fmax(s->top->interval_s / 2, 0.1);
}

static void key_down(struct screen *s)
{
    if (s->first + 1 < s->top->view.nlines)
        s->first++;
}

static void key_up(struct screen *s)
{
    if (s->first > 0)
        s->first--;
}

static void key_quit(struct screen *s)
{
    s->end = true;
}

static const struct {
    int key;
    void (*act)(struct screen *s);
} keys[] = {
    { 's', key_servers },
    { 'c', key_clients },
    { 'f', key_files },
    { '<', key_sort_left },
    { KEY_LEFT, key_sort_left },
    { '>', key_sort_right },
    { KEY_RIGHT, key_sort_right },
    { 'r', key_reverse },
    { '+', key_slower },
    { '-', key_faster },
    { KEY_DOWN, key_down },
    { KEY_UP, key_up },
    { 'q', key_quit },
};

static void take_key(struct screen *s, int key)
{
    for (size_t i = 0; i < AMPH_COUNTOF(keys); i++)
        if (keys[i].key == key)
            keys[i].act(s);
}

/* Takes keys until the next sample is due. */
static void await_next(struct screen *s, uint64_t due_ns)
{
    uint64_t now;

    while (!s->end && (now = amph_now_ns()) < due_ns) {
        timeout((int)((due_ns - now) / AMPH_NS_PER_MS) + 1);

        int key = getch();

        if (key == ERR)
            continue;

        take_key(s, key);
        draw(s);
    }
}

int ctl_screen(struct ctl_top *top)
{
    struct screen s = { .top = top };

    if (!newterm(NULL, stdout, stdin))
        return ctl_fail("this terminal (TERM) is not known; use -count N for plain tables");

    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);

    while (!s.end) {
        ctl_top_sample(top);
        if (top->status.now.reached == 0)
            break;

        draw(&s);
        await_next(&s, top->status.now.at_ns + (uint64_t)(top->interval_s * AMPH_NS_PER_S));
    }

    endwin();
    if (top->status.now.reached == 0)
        return ctl_fail("none of the %" PRIu32 " servers of %s can be reached: %s", top->set->n,
                        top->set->file, top->set->server[0].why);

    return 0;
}

#else

int ctl_screen(struct ctl_top *top)
{
    (void)top;
    return ctl_fail("this iofwd-ctl was built without ncurses (libncurses-dev); use -count N for "
                    "plain tables");
}

#endif

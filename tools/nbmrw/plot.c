/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The picture of all measurements as SVG: the line charts of lines.c; box plots of writing and reading by
 * call size, and of 1 KiB calls, each forwarded alone or coalesced; the caption.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include "tools/nbmrw/nbmrw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 1060,
    PANEL = 390,
    LEFT = 80,
    TOP = 40,
    BOTTOM = 110, /* room for labels that are turned */
    RIGHT = 20,
    MAX_SERIES = 256,
    BOX = 22,
    SLOT_MAX = 110,
    CAPTION_LINE = 18,
    CAPTION_CHARS = 165
};

struct panel {
    const char *title;
    const struct series *s[MAX_SERIES];
    unsigned n, left_out;
    double low, high; /* powers of ten around the values */
    int top, width;
};

static const char *const colour[NWAYS] = { "#777777", "#1f6fb4", "#d1662a", "#3a9a4b" };

static double y_of(const struct panel *p, double value)
{
    double height = PANEL - TOP - BOTTOM;
    return p->top + TOP + height * (1 - (log10(value) - p->low) / (p->high - p->low));
}

static void axis(FILE *out, const struct panel *p)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"bold\">%s</text>\n", LEFT,
            p->top + 22, p->title);
    for (double d = p->low; d <= p->high + 0.01; d += 1) {
        double y = y_of(p, pow(10, d));

        fprintf(out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, p->width - RIGHT, y, y, LEFT - 8, y + 4, pow(10, d) / 1e6);
    }

    fprintf(out,
            "<text x=\"18\" y=\"%d\" transform=\"rotate(-90 18 %d)\" "
            "text-anchor=\"middle\">MB/s</text>\n",
            p->top + PANEL / 2, p->top + PANEL / 2);
}

static void box(FILE *out, const struct panel *p, unsigned i)
{
    const struct series *s = p->s[i];
    struct summary r = nbmrw_summary(s);
    double slot = fmin((double)(p->width - LEFT - RIGHT) / p->n, SLOT_MAX);
    double x = LEFT + slot * (i + 0.5);
    double half = slot * 0.3 < 12 ? slot * 0.3 : 12;

    /* whiskers: the outermost values that are no outliers */
    double low = r.q1;
    double high = r.q3;

    for (unsigned k = 0; k < s->n; k++) {
        if (s->value[k] >= r.low && s->value[k] < low)
            low = s->value[k];

        if (s->value[k] <= r.high && s->value[k] > high)
            high = s->value[k];

        if (s->value[k] < r.low || s->value[k] > r.high)
            fprintf(out,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"none\" stroke=\"%s\"/>\n", x,
                    y_of(p, s->value[k]), colour[s->way]);
    }

    fprintf(out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x, x,
            y_of(p, low), y_of(p, high), colour[s->way]);
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
            "fill-opacity=\"0.35\" stroke=\"%s\"/>\n",
            x - half, y_of(p, r.q3), 2 * half, fmax(1, y_of(p, r.q1) - y_of(p, r.q3)),
            colour[s->way], colour[s->way]);
    fprintf(out,
            "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"2\"/>\n",
            x - half, x + half, y_of(p, r.median), y_of(p, r.median), colour[s->way]);

    double kib = (double)s->call_bytes / 1024;
    int y = p->top + PANEL - BOTTOM + 16;

    fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\" transform=\"rotate(-40 %.1f %d)\">",
            x, y, x, y);
    if (kib >= 1024)
        fprintf(out, "%gM", kib / 1024);
    else if (kib >= 1)
        fprintf(out, "%gK", kib);
    else
        fprintf(out, "%llu", (unsigned long long)s->call_bytes);

    static const char *const kind[] = { "write new", "write over", "read" };

    fprintf(out, " %s, %s", kind[s->what], nbmrw_way[s->way]);
    if (s->width > 1)
        fprintf(out, " on %u", s->width);

    fprintf(out, "</text>\n");
}

static void draw(FILE *out, struct panel *p)
{
    p->low = 99;
    p->high = -99;

    for (unsigned i = 0; i < p->n; i++) {
        struct summary r = nbmrw_summary(p->s[i]);

        p->low = fmin(p->low, floor(log10(r.min)));
        p->high = fmax(p->high, ceil(log10(r.max)));
    }

    if (p->high <= p->low)
        p->high = p->low + 1;

    axis(out, p);
    for (unsigned i = 0; i < p->n; i++)
        box(out, p, i);
}

static void add(struct panel *p, const struct series *s)
{
    if (p->n < MAX_SERIES && s->n)
        p->s[p->n++] = s;
    else if (s->n)
        p->left_out++;
}

/* Returns whether the panels by call size show what no other panel shows: several sizes of calls on the
 * largest file, or one that is not 1 KiB where there are no line charts. */
static bool has_call_panels(const struct series *s, size_t n, uint64_t largest, bool lines)
{
    uint64_t first = 0;

    for (size_t i = 0; i < n; i++) {
        if (s[i].what >= NDATA || s[i].file_bytes != largest)
            continue;

        if (first && s[i].call_bytes != first)
            return true;

        first = s[i].call_bytes;
    }

    return !lines && first != 1024;
}

/* Chooses the boxes of each panel.  by_call: the panels by call size are drawn. */
static void fill_panels(struct panel panel[3], const struct series *s, size_t n, uint64_t largest,
                        bool by_call)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i].what >= NDATA || s[i].random_order || s[i].file_bytes != largest)
            continue;

        if (s[i].way != COLLECTED && by_call)
            add(&panel[s[i].what == READ], &s[i]);

        if (s[i].call_bytes == 1024)
            add(&panel[2], &s[i]);
    }
}

/* Reports which boxes were left out of the picture. */
static void report_left_out(const char *path, const struct panel panel[3])
{
    for (unsigned i = 0; i < 3; i++)
        if (panel[i].left_out)
            fprintf(stderr,
                    "nbmrw: %s: \"%s\" shows %u boxes; %u more are in the table only: take "
                    "fewer call sizes (-c, -s)\n",
                    path, panel[i].title, panel[i].n, panel[i].left_out);
}

static void put_text(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        switch (text[i]) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc(text[i], out);
        }
}

/* Writes the caption in lines of at most CAPTION_CHARS, if out is not NULL.  Returns the height. */
static int draw_caption(FILE *out, const char *caption, int top)
{
    int lines = 0;

    while (caption && *caption) {
        size_t len = strlen(caption);

        if (len > CAPTION_CHARS) {
            for (len = CAPTION_CHARS; len > 0 && caption[len] != ' '; len--)
                ;

            len = len ? len : CAPTION_CHARS;
        }

        lines++;
        if (out) {
            fprintf(out, "<text x=\"20\" y=\"%d\" font-size=\"12\">", top + lines * CAPTION_LINE);
            put_text(out, caption, len);
            fprintf(out, "</text>\n");
        }

        caption += len + strspn(caption + len, " ");
    }

    return lines ? (lines + 1) * CAPTION_LINE : 0;
}

/* Draws the panels below each other, all as wide as the picture.  Returns the height of both. */
static int draw_panels(FILE *out, struct panel panel[3], int width, int top)
{
    for (unsigned i = 0; i < 3; i++) {
        if (!panel[i].n)
            continue;

        panel[i].top = top;
        panel[i].width = width;
        if (out)
            draw(out, &panel[i]);

        top += PANEL;
    }

    return top;
}

bool nbmrw_plot(const char *path, const char *caption, const struct series *s, size_t n)
{
    struct panel panel[3] = { { .title = "Writing, sequential, by call size" },
                              { .title = "Reading, sequential, by call size" },
                              { .title = "1 KiB calls: one by one, and collected" } };
    uint64_t largest = 0;
    int width = WIDTH;

    for (size_t i = 0; i < n; i++)
        if (s[i].what < NDATA && s[i].file_bytes > largest)
            largest = s[i].file_bytes;

    int lines = nbmrw_lines(NULL, s, n, 0);

    fill_panels(panel, s, n, largest, has_call_panels(s, n, largest, lines > 0));
    report_left_out(path, panel);

    for (unsigned i = 0; i < 3; i++) {
        int wants = LEFT + RIGHT + BOX * (int)panel[i].n;

        width = wants > width ? wants : width;
    }

    FILE *out = fopen(path, "w");

    if (!out)
        return false;

    int boxes = draw_panels(NULL, panel, width, lines);

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, boxes + draw_caption(NULL, caption, 0));
    nbmrw_lines(out, s, n, 0);
    draw_panels(out, panel, width, lines);
    draw_caption(out, caption, boxes);
    fprintf(out, "</svg>\n");
    return fclose(out) == 0;
}

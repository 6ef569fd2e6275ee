/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Line charts as SVG: rates by file size, and by the number of servers that share a file.  A point is a
 * median, the bar behind it the quartiles.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include "tools/nbmrw/nbmrw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHART = 530, /* width; two charts are drawn side by side */
    HEIGHT = 340,
    LEFT = 66,
    RIGHT = 96,
    TOP = 50,
    BOTTOM = 50,
    LABEL = 13, /* height of a line of text */
    LINES_MAX = 2 * NBMRW_WIDTHS_MAX + 1
};

struct chart {
    enum what what;
    bool by_servers; /* x is the number of servers; else the size of the file */
    uint64_t file;   /* of by_servers */
    double first, last, top_value;
    int left, top;
    int label_y[LINES_MAX]; /* positions of the labels drawn so far, in pixels */
    unsigned nlabels;
};

static const char *const shade[] = { "#1f6fb4", "#3a9a4b", "#d1662a", "#8a4fb0",
                                     "#b03a48", "#2a8c8c", "#a08020", "#444444" };
static const char *const verb[] = { "Writing new files", "Writing over files", "Reading" };

static double x_value(const struct chart *c, const struct series *s)
{
    return c->by_servers ? s->width : (double)s->file_bytes;
}

static double x_of(const struct chart *c, double x)
{
    double share = c->last > c->first ? log(x / c->first) / log(c->last / c->first) : 0.5;

    return c->left + LEFT + (CHART - LEFT - RIGHT) * share;
}

static double y_of(const struct chart *c, double value)
{
    return c->top + TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / c->top_value);
}

/* Returns the length of the longest calls, with which file sizes are compared. */
static uint64_t longest_call(const struct series *s, size_t n, uint64_t file)
{
    uint64_t longest = 0;

    for (size_t i = 0; i < n; i++)
        if (s[i].what < NDATA && s[i].file_bytes == file && s[i].call_bytes > longest)
            longest = s[i].call_bytes;

    return longest;
}

static bool in_chart(const struct chart *c, const struct series *all, size_t n,
                     const struct series *s)
{
    return s->what == c->what && s->n && !s->random_order && s->way != COLLECTED &&
           (!c->by_servers || s->file_bytes == c->file) &&
           s->call_bytes == longest_call(all, n, s->file_bytes);
}

/* Finds the ends of both axes.  Returns how many different x there are. */
static unsigned measure_axes(struct chart *c, const struct series *s, size_t n)
{
    double before = -1;
    unsigned count = 0;

    c->first = INFINITY;
    c->last = c->top_value = 0;
    for (size_t i = 0; i < n; i++) {
        if (!in_chart(c, s, n, &s[i]))
            continue;

        c->top_value = fmax(c->top_value, nbmrw_summary(&s[i]).q3);
        if (c->by_servers && s[i].way == DIRECT)
            continue;

        double x = x_value(c, &s[i]);

        if (x < c->first || x > c->last || x != before)
            count++;

        before = x;
        c->first = fmin(c->first, x);
        c->last = fmax(c->last, x);
    }

    c->top_value *= 1.06;
    return c->last > c->first ? count : 0;
}

static void print_size(FILE *out, double bytes)
{
    static const char *const unit[] = { "", " KiB", " MiB", " GiB" };
    unsigned u = 0;

    while (bytes >= 1024 && u < 3) {
        bytes /= 1024;
        u++;
    }

    fprintf(out, "%g%s", bytes, unit[u]);
}

/* Marks of the axis are 1, 2 or 5 times a power of ten apart, about five of them. */
static double tick_distance(double top)
{
    double power = pow(10, floor(log10(top / 5)));

    if (top / power <= 10)
        return 2 * power;

    return top / power <= 25 ? 5 * power : 10 * power;
}

/* Two lines of title: what the chart shows, and what all its points have in common. */
static void draw_title(FILE *out, const struct chart *c, const struct series *s, size_t n)
{
    uint64_t longest = 0;
    bool streams = false;

    for (size_t i = 0; i < n; i++) {
        if (!in_chart(c, s, n, &s[i]))
            continue;

        longest = s[i].call_bytes > longest ? s[i].call_bytes : longest;
        streams |= s[i].way == STREAMS;
    }

    fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"bold\">%s, %s</text>\n",
            c->left + LEFT, c->top + 20, verb[c->what],
            c->by_servers ? "by number of servers" : "by file size");
    fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"#555\">calls of %s", c->left + LEFT, c->top + 36,
            c->by_servers ? "" : "at most ");
    print_size(out, (double)longest);
    fprintf(out, "; bars: quartiles%s</text>\n", streams ? "; dashed: plain TCP streams" : "");
}

static void draw_frame(FILE *out, const struct chart *c)
{
    int right = c->left + CHART - RIGHT;
    double distance = tick_distance(c->top_value);

    for (double v = 0; v <= c->top_value; v += distance)
        fprintf(out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                c->left + LEFT, right, y_of(c, v), y_of(c, v), v > 0 ? "#ddd" : "#777",
                c->left + LEFT - 8, y_of(c, v) + 4, v / 1e6);

    fprintf(out,
            "<text transform=\"translate(%d %d) rotate(-90)\" text-anchor=\"middle\">MB/s</text>\n",
            c->left + 16, c->top + TOP + (HEIGHT - TOP - BOTTOM) / 2);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s", (c->left + LEFT + right) / 2,
            c->top + HEIGHT - BOTTOM + 36,
            c->by_servers ? "servers that share a file of " : "file");
    if (c->by_servers)
        print_size(out, (double)c->file);

    fprintf(out, "</text>\n");
}

static void draw_x_marks(FILE *out, const struct chart *c, const struct series *s, size_t n)
{
    double before = -1;

    for (size_t i = 0; i < n; i++) {
        double x = x_value(c, &s[i]);

        if (!in_chart(c, s, n, &s[i]) || x == before || (c->by_servers && s[i].way == DIRECT))
            continue;

        before = x;
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x_of(c, x),
                c->top + HEIGHT - BOTTOM + 18);
        if (c->by_servers)
            fprintf(out, "%g", x);
        else
            print_size(out, x);

        fprintf(out, "</text>\n");
    }
}

/* Returns the label that a label at y would cover, or NULL. */
static const int *covered(const struct chart *c, int y)
{
    for (unsigned i = 0; i < c->nlabels; i++)
        if (abs(c->label_y[i] - y) < LABEL)
            return &c->label_y[i];

    return NULL;
}

/* Writes a label beside the end of a line, moved down until it covers no other. */
static void draw_label(FILE *out, struct chart *c, int y, const char *colour, const char *text)
{
    for (const int *other = covered(c, y); other; other = covered(c, y))
        y = *other + LABEL;

    if (c->nlabels < LINES_MAX)
        c->label_y[c->nlabels++] = y;

    fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", c->left + CHART - RIGHT + 10,
            y + 4, colour, text);
}

static void draw_point(FILE *out, const struct chart *c, const struct series *s, const char *colour)
{
    struct summary r = nbmrw_summary(s);
    double x = x_of(c, x_value(c, s));

    fprintf(out,
            "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"5\" stroke-opacity=\"0.35\"/>",
            x, x, y_of(c, r.q1), y_of(c, r.q3), colour);
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\" stroke=\"%s\"/>\n", x,
            y_of(c, r.median), s->way == STREAMS ? "2" : "3", s->way == STREAMS ? "white" : colour,
            colour);
}

/* The line of one way, over a number of servers (0: any number). */
static void draw_line(FILE *out, struct chart *c, const struct series *s, size_t n, enum way way,
                      unsigned width, const char *colour)
{
    double last = -1;
    char text[32];

    fprintf(out,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" "
            "points=\"",
            colour, way == STREAMS ? "5 4" : "none");
    for (size_t i = 0; i < n; i++)
        if (in_chart(c, s, n, &s[i]) && s[i].way == way && (!width || s[i].width == width)) {
            last = nbmrw_summary(&s[i]).median;
            fprintf(out, "%.1f,%.1f ", x_of(c, x_value(c, &s[i])), y_of(c, last));
        }

    fprintf(out, "\"/>\n");
    for (size_t i = 0; i < n; i++)
        if (in_chart(c, s, n, &s[i]) && s[i].way == way && (!width || s[i].width == width))
            draw_point(out, c, &s[i], colour);

    if (last < 0)
        return;

    snprintf(text, sizeof text, "%s", nbmrw_way[way]);
    if (width && way == FORWARDED)
        snprintf(text, sizeof text, "%u server%s", width, width > 1 ? "s" : "");

    if (way != STREAMS || c->by_servers)
        draw_label(out, c, y_of(c, last), colour, text);
}

/* Draws direct calls, which use no servers, as a line across the chart. */
static void draw_direct_level(FILE *out, struct chart *c, const struct series *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!in_chart(c, s, n, &s[i]) || s[i].way != DIRECT)
            continue;

        double y = y_of(c, nbmrw_summary(&s[i]).median);

        fprintf(out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#777\" "
                "stroke-width=\"2\"/>\n",
                c->left + LEFT, c->left + CHART - RIGHT, y, y);
        draw_label(out, c, y, "#777", nbmrw_way[DIRECT]);
    }
}

static void draw_chart(FILE *out, struct chart *c, const struct series *s, size_t n)
{
    draw_title(out, c, s, n);
    draw_frame(out, c);
    draw_x_marks(out, c, s, n);

    if (c->by_servers) {
        draw_direct_level(out, c, s, n);
        draw_line(out, c, s, n, STREAMS, 0, shade[2]);
        draw_line(out, c, s, n, FORWARDED, 0, shade[0]);
        return;
    }

    draw_line(out, c, s, n, DIRECT, 0, "#777");
    for (unsigned width = 64, k = 0; width > 0; width--) {
        bool there = false;

        for (size_t i = 0; i < n && !there; i++)
            there = in_chart(c, s, n, &s[i]) && s[i].way == FORWARDED && s[i].width == width;

        if (!there)
            continue;

        draw_line(out, c, s, n, STREAMS, width, shade[k % 8]);
        draw_line(out, c, s, n, FORWARDED, width, shade[k % 8]);
        k++;
    }
}

int nbmrw_lines(FILE *out, const struct series *s, size_t n, int top)
{
    uint64_t largest = 0;
    unsigned drawn = 0;

    for (size_t i = 0; i < n; i++)
        if (s[i].what < NDATA && s[i].file_bytes > largest)
            largest = s[i].file_bytes;

    for (unsigned kind = 0; kind < 2 * NDATA; kind++) {
        struct chart c = { .what = (enum what)(kind % NDATA),
                           .by_servers = kind >= NDATA,
                           .file = largest };

        if (measure_axes(&c, s, n) < 2)
            continue;

        c.left = (int)(drawn % 2) * CHART;
        c.top = top + (int)(drawn / 2) * HEIGHT;
        drawn++;
        if (out)
            draw_chart(out, &c, s, n);
    }

    return (int)((drawn + 1) / 2) * HEIGHT;
}

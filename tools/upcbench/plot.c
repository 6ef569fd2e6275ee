/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bandwidth of put, get and block-cyclic copies by size, a line for each conduit: SVG with
 * logarithmic axes.
 *
 * Layer: tools.  Thread rule: one thread of each process.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/upcbench/upcbench.h"

enum {
    WIDTH = 900,
    HEIGHT = 480,
    LEFT = 80,
    RIGHT = 150,
    TOP = 40,
    BOTTOM = 50
};

static const char *const drawn[] = { "put", "get", "cyclic" };
static const char *const colour[] = { "#1f6fb4", "#d1662a", "#3a9a4b", "#8a4fb0", "#777777" };
static const char *const dash[] = { "", "7 3", "2 3" };

struct frame {
    double x0, x1, y0, y1; /* logarithms: of 2 for sizes, of 10 for values */
};

static double x_of(const struct frame *f, double bytes)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (log2(bytes) - f->x0) / (f->x1 - f->x0);
}

static double y_of(const struct frame *f, double value)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (log10(value) - f->y0) / (f->y1 - f->y0));
}

static int kind_of(const struct bench_row *r)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(r->test, drawn[i]) == 0 && r->value > 0)
            return i;

    return -1;
}

/* Writes a size below the axis. */
static void mark_size(FILE *out, const struct frame *f, double bytes)
{
    double shown = bytes;
    const char *unit = "";

    if (bytes >= 1 << 20) {
        shown = bytes / (1 << 20);
        unit = "M";
    } else if (bytes >= 1024) {
        shown = bytes / 1024;
        unit = "K";
    }

    fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g%s</text>\n", x_of(f, bytes),
            HEIGHT - BOTTOM + 18, shown, unit);
}

static void axes(FILE *out, const struct frame *f)
{
    for (double d = f->y0; d <= f->y1 + 0.01; d++)
        fprintf(out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, WIDTH - RIGHT, y_of(f, pow(10, d)), y_of(f, pow(10, d)), LEFT - 8,
                y_of(f, pow(10, d)) + 4, pow(10, d));

    double marked = f->x0;

    for (double d = f->x0; d <= f->x1 + 0.01; d += 3) {
        mark_size(out, f, pow(2, d));
        marked = d;
    }

    /* the largest size, unless its mark would cover the last one */
    if (f->x1 - marked > 1.5)
        mark_size(out, f, pow(2, f->x1));

    fprintf(out,
            "<text x=\"18\" y=\"%d\" transform=\"rotate(-90 18 %d)\" "
            "text-anchor=\"middle\">MB/s</text>\n",
            HEIGHT / 2, HEIGHT / 2);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">bytes of a copy</text>\n",
            LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 10);
}

/* The line that begins with row i: all rows of its test and conduit. */
static void line(FILE *out, const struct frame *f, const struct bench_row *rows, size_t n, size_t i,
                 unsigned shade, unsigned *row)
{
    int kind = kind_of(&rows[i]);

    fprintf(out,
            "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" stroke-dasharray=\"%s\" "
            "points=\"",
            colour[shade % 5], dash[kind]);
    for (size_t k = i; k < n; k++)
        if (strcmp(rows[k].test, rows[i].test) == 0 &&
            strcmp(rows[k].conduit, rows[i].conduit) == 0)
            fprintf(out, "%.1f,%.1f ", x_of(f, (double)rows[k].bytes), y_of(f, rows[k].value));

    fprintf(out, "\"/>\n");
    for (size_t k = i; k < n; k++)
        if (strcmp(rows[k].test, rows[i].test) == 0 &&
            strcmp(rows[k].conduit, rows[i].conduit) == 0)
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                    x_of(f, (double)rows[k].bytes), y_of(f, rows[k].value), colour[shade % 5]);

    fprintf(out,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%u\" y2=\"%u\" stroke-width=\"2\" stroke=\"%s\" "
            "stroke-dasharray=\"%s\"/>"
            "<text x=\"%d\" y=\"%u\">%s %s</text>\n",
            WIDTH - RIGHT + 10, WIDTH - RIGHT + 40, TOP + 16 * *row, TOP + 16 * *row,
            colour[shade % 5], dash[kind], WIDTH - RIGHT + 46, TOP + 16 * *row + 4, rows[i].conduit,
            rows[i].test);
    ++*row;
}

bool bench_plot(const char *path, const struct bench_row *rows, size_t n)
{
    struct frame f = { 99, -99, 99, -99 };
    unsigned shade = 0;
    unsigned row = 0;

    for (size_t i = 0; i < n; i++) {
        if (kind_of(&rows[i]) < 0)
            continue;

        f.x0 = fmin(f.x0, log2((double)rows[i].bytes));
        f.x1 = fmax(f.x1, log2((double)rows[i].bytes));
        f.y0 = fmin(f.y0, floor(log10(rows[i].value)));
        f.y1 = fmax(f.y1, ceil(log10(rows[i].value)));
    }

    f.x1 = f.x1 > f.x0 ? f.x1 : f.x0 + 1;
    f.y1 = f.y1 > f.y0 ? f.y1 : f.y0 + 1;

    FILE *out = fopen(path, "w");
    if (!out)
        return false;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"22\" font-size=\"15\" font-weight=\"bold\">Copies inside a shared "
            "array</text>\n",
            WIDTH, HEIGHT, LEFT);
    axes(out, &f);

    for (size_t i = 0; i < n; i++) {
        bool first = kind_of(&rows[i]) >= 0;

        for (size_t k = 0; k < i && first; k++)
            first = strcmp(rows[k].test, rows[i].test) || strcmp(rows[k].conduit, rows[i].conduit);

        if (i && strcmp(rows[i].conduit, rows[i - 1].conduit))
            shade++;

        if (first)
            line(out, &f, rows, n, i, shade, &row);
    }

    fprintf(out, "</svg>\n");
    return fclose(out) == 0;
}

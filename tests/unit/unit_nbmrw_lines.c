/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of tools/nbmrw/lines.c: charts of random figures are drawn to their end, and no label covers
 * another one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/nbmrw/nbmrw.h"

enum {
    CHARTS = 2000,
    WIDTHS = 4,
    LINE_HEIGHT = 13,
    FILE_BYTES = 1 << 20
};

static struct series some_series(unsigned width, uint64_t file_bytes)
{
    return (struct series){ .what = READ,
                            .way = width ? FORWARDED : DIRECT,
                            .width = width ? width : 1,
                            .file_bytes = file_bytes,
                            .call_bytes = FILE_BYTES,
                            .n = 1,
                            .value = { 1e6 + rand() % 1000000 } };
}

/* The labels are beside the ends of the lines, and their texts end in "server" or "servers", or are
 * "direct". */
static void check_labels(const char *svg)
{
    int y[64];
    unsigned n = 0;
    int x;
    char colour[16], text[32];

    for (const char *at = svg; (at = strstr(at, "<text x=")) != NULL; at++) {
        int label_y;

        if (sscanf(at, "<text x=\"%d\" y=\"%d\" fill=\"%15[^\"]\">%31[^<]", &x, &label_y, colour,
                   text) != 4 ||
            (!strstr(text, "server") && strcmp(text, "direct") != 0))
            continue;

        for (unsigned i = 0; i < n; i++)
            cr_assert_geq(abs(y[i] - label_y), LINE_HEIGHT, "%s covers another label", text);

        cr_assert_lt(n, 64);
        y[n++] = label_y;
    }

    cr_assert_eq(n, WIDTHS + 1);
}

Test(nbmrw_lines, labels, .timeout = 60)
{
    struct series s[2 * (WIDTHS + 1)];

    srand(1);
    for (unsigned chart = 0; chart < CHARTS; chart++) {
        size_t size;
        char *svg;
        FILE *out = open_memstream(&svg, &size);
        size_t n = 0;

        for (uint64_t file = FILE_BYTES; file <= 2 * FILE_BYTES; file *= 2)
            for (unsigned width = 0; width <= WIDTHS; width++)
                s[n++] = some_series(width, file);

        nbmrw_lines(out, s, n, 0);
        fclose(out);

        /* the first chart is the one by file size */
        char *next = strstr(svg, "by number of servers");

        if (next)
            *next = 0;

        check_labels(svg);
        free(svg);
    }
}

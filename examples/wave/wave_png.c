/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The picture of wave: pressure as colour (blue below, red above the resting pressure, white at
 * rest), walls dark.  Process 0 fetches row by row and writes through plain write(), so the picture
 * too may lie under a forwarded prefix.
 */
#include "wave.h"

#include <errno.h>
#include <fcntl.h>
#include <gasnet.h>
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sink {
    int fd;
    const char *path;
};

static void sink_write(png_structp png, png_bytep data, png_size_t len_bytes)
{
    struct sink *sink = png_get_io_ptr(png);
    wave_io_all(sink->fd, sink->path, data, len_bytes);
}

static void sink_flush(png_structp png)
{
    (void)png;
}

/* A diverging map: from the darkest low to the darkest high, evenly spaced. */
/* clang-format off */
static const unsigned char colours[][3] = {
    { 8, 20, 58 },     { 18, 52, 116 },   { 31, 94, 168 },   { 62, 142, 205 },  { 130, 190, 226 },
    { 196, 224, 240 }, { 247, 246, 242 }, { 250, 219, 190 }, { 245, 170, 124 }, { 226, 106, 76 },
    { 189, 48, 50 },   { 130, 16, 40 },   { 72, 4, 30 },
};
/* clang-format on */

static void colour(double x, unsigned char *rgb)
{
    const int last = (int)(sizeof colours / sizeof colours[0]) - 1;

    /* The root lifts faint echoes; it is odd, so that equal and opposite pressures stay equally
     * strong. */
    double s = copysign(pow(fmin(fabs(x), 1), 0.65), x);
    double at = (s + 1) / 2 * last;
    int low = at < last ? (int)at : last - 1;

    for (int c = 0; c < 3; c++)
        rgb[c] = (unsigned char)(colours[low][c] +
                                 (at - low) * (colours[low + 1][c] - colours[low][c]) + 0.5);
}

static void paint_row(const struct wave_field *f, int j, const double *p, double range,
                      unsigned char *rgb)
{
    static const unsigned char wall[] = { 44, 44, 52 };
    static const unsigned char rim[] = { 16, 16, 20 };

    for (int i = 0; i < f->nx; i++, rgb += 3) {
        if (!wave_is_solid(f->par, i, j)) {
            colour(p[i] / range, rgb);
            continue;
        }

        bool edge = !wave_is_solid(f->par, i - 1, j) || !wave_is_solid(f->par, i + 1, j) ||
                    !wave_is_solid(f->par, i, j - 1) || !wave_is_solid(f->par, i, j + 1);

        memcpy(rgb, edge ? rim : wall, 3);
    }
}

/* Three quarters of the largest pressure in the field, or what the parameters say. */
static double full_colour(struct wave_field *f)
{
    struct wave_sums sums;

    wave_field_sums(f, &sums);
    if (f->par->picture_range > 0)
        return f->par->picture_range;

    return sums.peak > 0 ? 0.75 * sums.peak : 1;
}

static void write_rows(struct wave_field *f, png_structp png, double range)
{
    double *row = malloc((size_t)f->nx * sizeof *row);
    unsigned char *rgb = malloc((size_t)f->nx * 3);

    if (!row || !rgb)
        wave_fatal("no memory for a row of the picture");

    for (int j = f->par->ny - 1; j >= 0; j--) {
        wave_field_fetch_row(f, j, row);
        paint_row(f, j, row, range, rgb);
        png_write_row(png, rgb);
    }

    free(rgb);
    free(row);
}

static void write_picture(struct wave_field *f, const char *path, double range)
{
    struct sink sink = { open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666), path };

    if (sink.fd < 0)
        wave_fatal("cannot open %s: %s", path, strerror(errno));

    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;

    if (!info || setjmp(png_jmpbuf(png)))
        wave_fatal("libpng cannot write %s", path);

    png_set_write_fn(png, &sink, sink_write, sink_flush);
    png_set_IHDR(png, info, (png_uint_32)f->nx, (png_uint_32)f->par->ny, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    write_rows(f, png, range);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    if (close(sink.fd) != 0)
        wave_fatal("closing %s failed: %s", path, strerror(errno));
}

void wave_png_write(struct wave_field *f, const char *name)
{
    char path[WAVE_PATH_BYTES];
    double range = full_colour(f);
    double t = wave_now();

    if (f->rank == 0) {
        wave_io_path(f, name, path, sizeof path);
        write_picture(f, path, range);
        wave_time[WAVE_FILE] += wave_now() - t;
    }

    wave_barrier(); /* nobody changes p before the last row has been fetched */
}

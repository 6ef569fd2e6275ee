/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter file of wave: lines of "name = value", '#' starts a comment.  Every name is one row
 * of a table. */
#include "wave.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a complaint points to. */
struct place {
    const char *path;
    int line;
    FILE *out;
};

static bool complain(const struct place *at, const char *name, const char *value,
                     const char *wanted)
{
    fprintf(at->out, "wave: %s:%d: %s = %s: %s\n", at->path, at->line, name, value, wanted);
    return false;
}

/* Reads exactly n numbers. */
static bool numbers(const char *text, int n, double *out)
{
    for (int i = 0; i < n; i++) {
        char *end;

        out[i] = strtod(text, &end);
        if (end == text || !isfinite(out[i]))
            return false;

        text = end;
    }

    return text[strspn(text, " \t")] == '\0';
}

struct row;
typedef bool (*set_fn)(struct wave_params *p, const struct row *row, const char *value,
                       const struct place *at);

struct row {
    const char *name;
    set_fn set;
    size_t offset;
    double least, most;
};

static bool set_int(struct wave_params *p, const struct row *row, const char *value,
                    const struct place *at)
{
    double x;
    char wanted[80];

    snprintf(wanted, sizeof wanted, "wanted is a whole number from %.0f to %.0f", row->least,
             row->most);
    if (!numbers(value, 1, &x) || x != floor(x) || x < row->least || x > row->most)
        return complain(at, row->name, value, wanted);

    *(int *)((char *)p + row->offset) = (int)x;
    return true;
}

static bool set_real(struct wave_params *p, const struct row *row, const char *value,
                     const struct place *at)
{
    double x;
    char wanted[80];

    snprintf(wanted, sizeof wanted, "wanted is a number from %g to %g", row->least, row->most);
    if (!numbers(value, 1, &x) || x < row->least || x > row->most)
        return complain(at, row->name, value, wanted);

    *(double *)((char *)p + row->offset) = x;
    return true;
}

static bool set_path(struct wave_params *p, const struct row *row, const char *value,
                     const struct place *at)
{
    if (*value == '\0' || strlen(value) >= WAVE_PATH_BYTES)
        return complain(at, row->name, value, "wanted is a path of at most 511 bytes");

    strcpy((char *)p + row->offset, value);
    return true;
}

static bool set_pulse(struct wave_params *p, const struct row *row, const char *value,
                      const struct place *at)
{
    double a[4];

    if (!numbers(value, 4, a) || a[2] <= 0)
        return complain(at, row->name, value,
                        "wanted are four numbers: x y radius height, with radius above 0");

    if (p->npulses == WAVE_MAX_SHAPES)
        return complain(at, row->name, value, "there are too many pulses (64 at most)");

    p->pulse[p->npulses++] = (struct wave_pulse){ a[0], a[1], a[2], a[3] };
    return true;
}

static const struct {
    const char *word;
    int count;
} shapes[] = {
    [WAVE_CIRCLE] = { "circle", 3 }, [WAVE_BOX] = { "box", 4 }, [WAVE_RING] = { "ring", 6 }
};

static bool set_obstacle(struct wave_params *p, const struct row *row, const char *value,
                         const struct place *at)
{
    if (p->nobstacles == WAVE_MAX_SHAPES)
        return complain(at, row->name, value, "there are too many obstacles (64 at most)");

    struct wave_shape *s = &p->obstacle[p->nobstacles];

    for (size_t kind = 0; kind < sizeof shapes / sizeof shapes[0]; kind++) {
        size_t len = strlen(shapes[kind].word);

        if (strncmp(value, shapes[kind].word, len) != 0 ||
            !numbers(value + len, shapes[kind].count, s->a))
            continue;

        s->kind = (enum wave_shape_kind)kind;
        p->nobstacles++;
        return true;
    }

    return complain(at, row->name, value,
                    "wanted is: circle x y r, or box x0 y0 x1 y1, or ring x y inner outer from to");
}

static bool set_probe(struct wave_params *p, const struct row *row, const char *value,
                      const struct place *at)
{
    double a[2];

    if (!numbers(value, 2, a) || a[0] < 0 || a[1] < 0)
        return complain(at, row->name, value, "wanted are two numbers, x y, inside the grid");
    if (p->nprobes == WAVE_MAX_PROBES)
        return complain(at, row->name, value, "there are too many probes (4 at most)");

    p->probe[p->nprobes][0] = a[0];
    p->probe[p->nprobes++][1] = a[1];
    return true;
}

#define FIELD(f) offsetof(struct wave_params, f)
/* clang-format off */
static const struct row rows[] = {
    { "nx", set_int, FIELD(nx), 8, 32768 },
    { "ny", set_int, FIELD(ny), 8, 32768 },
    { "steps", set_int, FIELD(steps), 0, 1e8 },
    { "cfl", set_real, FIELD(cfl), 0.01, 1.0 },
    { "sponge", set_int, FIELD(sponge), 0, 1000 },
    { "pulse", set_pulse, 0, 0, 0 },
    { "obstacle", set_obstacle, 0, 0, 0 },
    { "probe", set_probe, 0, 0, 0 },
    { "series_every", set_int, FIELD(series_every), 0, 1e8 },
    { "vector_every", set_int, FIELD(vector_every), 0, 1e8 },
    { "restart_every", set_int, FIELD(restart_every), 0, 1e8 },
    { "picture_every", set_int, FIELD(picture_every), 0, 1e8 },
    { "picture_range", set_real, FIELD(picture_range), 0, 1e6 },
    { "output", set_path, FIELD(output), 0, 0 },
    { "restart", set_path, FIELD(restart), 0, 0 },
};
/* clang-format on */

/* Cuts comment and blanks off both ends. */
static char *trim(char *s)
{
    s[strcspn(s, "#\r\n")] = '\0';
    s += strspn(s, " \t");

    size_t len = strlen(s);

    while (len > 0 && isspace((unsigned char)s[len - 1]))
        s[--len] = '\0';

    return s;
}

static bool read_line(struct wave_params *p, char *line, const struct place *at)
{
    char *name = trim(line);

    if (*name == '\0')
        return true;

    char *eq = strchr(name, '=');

    if (!eq) {
        fprintf(at->out, "wave: %s:%d: \"%s\" is no line of the form name = value\n", at->path,
                at->line, name);
        return false;
    }

    *eq = '\0';
    name = trim(name);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].set(p, &rows[i], trim(eq + 1), at);

    fprintf(at->out, "wave: %s:%d: there is no parameter called \"%s\"; there are:", at->path,
            at->line, name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fprintf(at->out, " %s", rows[i].name);

    fputc('\n', at->out);
    return false;
}

static bool consistent(const struct wave_params *p, const struct place *at)
{
    if (2 * p->sponge + 4 > p->nx || 2 * p->sponge + 4 > p->ny) {
        fprintf(at->out,
                "wave: %s: a sponge of %d cells on each side leaves no room in %d x %d cells\n",
                at->path, p->sponge, p->nx, p->ny);
        return false;
    }

    for (int i = 0; i < p->nprobes; i++)
        if (p->probe[i][0] * p->ny >= p->nx || p->probe[i][1] >= 1) {
            fprintf(at->out,
                    "wave: %s: probe %g %g lies outside the grid, which is %g wide and 1 high\n",
                    at->path, p->probe[i][0], p->probe[i][1], (double)p->nx / p->ny);
            return false;
        }

    return true;
}

bool wave_params_read(struct wave_params *p, const char *path, FILE *complaints)
{
    *p = (struct wave_params){
        .nx = 960, .ny = 540, .steps = 1000, .cfl = 0.7, .sponge = 40, .series_every = 10
    };
    strcpy(p->output, "wave-out");

    FILE *in = fopen(path, "r");

    if (!in) {
        fprintf(complaints, "wave: cannot open the parameter file %s: %s\n", path, strerror(errno));
        return false;
    }

    char line[1024];
    struct place at = { path, 0, complaints };
    bool ok = true;

    while (ok && fgets(line, sizeof line, in)) {
        at.line++;
        ok = read_line(p, line, &at);
    }

    fclose(in);
    return ok && consistent(p, &at);
}

/* FNV-1a over what decides the numbers (not over where and how often they are written). */
static uint64_t mix(uint64_t h, const double *x, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t bits;

        memcpy(&bits, &x[i], sizeof bits);
        for (int b = 0; b < 64; b += 8)
            h = (h ^ ((bits >> b) & 0xff)) * UINT64_C(0x100000001b3);
    }

    return h;
}

uint64_t wave_params_hash(const struct wave_params *p)
{
    double head[] = { p->nx,      p->ny,         p->cfl,     p->sponge,
                      p->npulses, p->nobstacles, p->nprobes, p->series_every };
    uint64_t h = mix(UINT64_C(0xcbf29ce484222325), head, (int)(sizeof head / sizeof head[0]));

    for (int i = 0; i < p->npulses; i++) {
        double a[] = { p->pulse[i].x, p->pulse[i].y, p->pulse[i].radius, p->pulse[i].height };
        h = mix(h, a, 4);
    }

    for (int i = 0; i < p->nobstacles; i++) {
        double kind = p->obstacle[i].kind;
        h = mix(mix(h, &kind, 1), p->obstacle[i].a, shapes[p->obstacle[i].kind].count);
    }

    for (int i = 0; i < p->nprobes; i++)
        h = mix(h, p->probe[i], 2);

    return h;
}

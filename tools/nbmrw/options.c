/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of nbmrw and their help.  Layer: tools.  Thread rule: one thread. */
#include "tools/nbmrw/nbmrw.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/env.h"

static const char usage[] =
    "usage: nbmrw [options]     file throughput through the I/O servers, beside direct calls\n"
    "  -d, --dir DIR            where the files are kept (default: /dev/shm)\n"
    "  -f, --file-sizes A:B     sizes of the file, from A on (default 64M:64M)\n"
    "  -c, --call-sizes A:B     sizes of the calls, up to 64M (default 8:16M); 1K is among them\n"
    "  -s, --step N             sizes grow by this factor (default: files 2, calls 8)\n"
    "  -r, --repeats N          samples of each measurement (default 10; of a figure 21)\n"
    "  -p, --pause SECONDS      between repeats (default 0)\n"
    "  -S, --servers N          I/O servers (default 8)\n"
    "  -w, --widths A,B,...     how many servers share a file's data, for calls of 1 MiB and more "
    "(default 1,2,4,8)\n"
    "  -C, --conduit NAME       smp, tcp, ... (default auto)\n"
    "  -o, --order seq|random|both (default both)\n"
    "  -m, --measure data|metadata|all (default all)\n"
    "  -j, --json[=FILE]        one object a line (default: standard output, in place of the "
    "table)\n"
    "  -g, --svg FILE           box plots\n"
    "  -q, --quick              few sizes, 3 repeats: a look\n"
    "  -F, --figures[=TEXT]     only what is to be reached (rows with TEXT), each beside its "
    "limit; exit status 3 where one is missed\n";

/* clang-format off */
static const struct option longs[] = {
    { "dir", required_argument, NULL, 'd' },     { "file-sizes", required_argument, NULL, 'f' },
    { "call-sizes", required_argument, NULL, 'c' }, { "step", required_argument, NULL, 's' },
    { "repeats", required_argument, NULL, 'r' }, { "pause", required_argument, NULL, 'p' },
    { "servers", required_argument, NULL, 'S' }, { "widths", required_argument, NULL, 'w' },
    { "conduit", required_argument, NULL, 'C' }, { "order", required_argument, NULL, 'o' },
    { "measure", required_argument, NULL, 'm' }, { "json", optional_argument, NULL, 'j' },
    { "svg", required_argument, NULL, 'g' },     { "quick", no_argument, NULL, 'q' },
    { "figures", optional_argument, NULL, 'F' }, { "job", required_argument, NULL, 'J' },
    { "inside", no_argument, NULL, 'I' },        { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};
/* clang-format on */

static void bad(const char *option, const char *value)
{
    fprintf(stderr, "nbmrw: %s: \"%s\" is not understood; see nbmrw --help\n", option, value);
    exit(2);
}

static void take_range(const char *option, const char *text, uint64_t *from, uint64_t *to)
{
    char copy[64];

    snprintf(copy, sizeof copy, "%s", text);

    char *colon = strchr(copy, ':');

    if (colon)
        *colon = 0;

    if (!amph_parse_size(copy, from) || !amph_parse_size(colon ? colon + 1 : copy, to) ||
        *from < 1 || *to < *from)
        bad(option, text);
}

static unsigned take_count(const char *option, const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (end == text || *end || n < least || n > most)
        bad(option, text);

    return (unsigned)n;
}

static void take_widths(struct options *o, const char *text)
{
    char copy[64];
    char *save = NULL;

    snprintf(copy, sizeof copy, "%s", text);
    o->nwidths = 0;

    o->widths_given = true;

    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        if (o->nwidths == NBMRW_WIDTHS_MAX)
            bad("--widths", text);

        o->widths[o->nwidths++] = take_count("--widths", w, 1, 8);
    }

    if (!o->nwidths)
        bad("--widths", text);
}

/* Refuses a width that would be left out without a message. */
static void check_widths(const struct options *o)
{
    for (unsigned w = 0; o->widths_given && w < o->nwidths; w++)
        if (o->widths[w] > o->servers) {
            fprintf(stderr,
                    "nbmrw: a file cannot be shared by %u servers (--widths) where there are %u; "
                    "start more by --servers\n",
                    o->widths[w], o->servers);
            exit(2);
        }
}

static double take_seconds(const char *option, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds >= 0 && seconds <= 3600))
        bad(option, text);

    return seconds;
}

/* Parses one of two words, or the word for both. */
static void take_words(const char *option, const char *text, const char *const word[3],
                       bool *first_p, bool *second_p)
{
    *first_p = strcmp(text, word[0]) == 0 || strcmp(text, word[2]) == 0;
    *second_p = strcmp(text, word[1]) == 0 || strcmp(text, word[2]) == 0;
    if (!*first_p && !*second_p)
        bad(option, text);
}

static void take_option(struct options *o, int c, const char *arg)
{
    static const char *const orders[] = { "seq", "random", "both" };
    static const char *const kinds[] = { "data", "metadata", "all" };

    switch (c) {
    case 'd':
        o->dir = arg;
        break;
    case 'f':
        take_range("--file-sizes", arg, &o->file_from, &o->file_to);
        break;
    case 'c':
        take_range("--call-sizes", arg, &o->call_from, &o->call_to);
        if (o->call_to > NBMRW_CALL_MAX)
            bad("--call-sizes", arg);
        break;
    case 's':
        o->step = take_count("--step", arg, 2, 1024);
        break;
    case 'r':
        o->repeats = take_count("--repeats", arg, 1, NBMRW_REPEATS_MAX);
        break;
    case 'p':
        o->pause = take_seconds("--pause", arg);
        break;
    case 'S':
        o->servers = take_count("--servers", arg, 1, 64);
        break;
    case 'w':
        take_widths(o, arg);
        break;
    case 'C':
        o->conduit = arg;
        break;
    case 'o':
        take_words("--order", arg, orders, &o->sequential, &o->random_order);
        break;
    case 'm':
        take_words("--measure", arg, kinds, &o->data, &o->metadata);
        break;
    case 'j':
        o->json = arg ? arg : "-";
        break;
    case 'g':
        o->svg = arg;
        break;
    case 'F':
        o->figures = true;
        o->match = arg;
        break;
    case 'q':
        o->quick = true;
        o->repeats = 3;
        o->file_from = o->file_to = 8 << 20;
        break;
    }
}

void nbmrw_options(struct options *o, int argc, char **argv)
{
    for (int c;
         (c = getopt_long(argc, argv, "d:f:c:s:r:p:S:w:C:o:m:j::g:F::qh", longs, NULL)) != -1;) {
        if (c == 'h')
            exit(fputs(usage, stdout) < 0);
        if (c == '?')
            exit(2);

        o->inside |= c == 'I';
        if (c == 'J')
            o->job = take_count("--job", optarg, 0, NBMRW_JOBS - 1);

        take_option(o, c, optarg);
    }

    if (!o->repeats)
        o->repeats = o->figures ? 21 : 10;

    if (optind < argc)
        bad("argument", argv[optind]);

    check_widths(o);
}

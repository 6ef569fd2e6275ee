/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of nbmrw and their help.  Layer: tools.  Thread rule: one thread. */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/settings/env.h"

/* clang-format off */
static const char usage[] =
    "usage: nbmrw [options]     file throughput through the I/O servers, beside direct calls\n"
    "  -d, --dir DIR            where the files are kept (default: /dev/shm)\n"
    "  -f, --file-sizes A:B     sizes of the file, from A on (default 64M:64M)\n"
    "  -c, --call-sizes A:B     sizes of the calls, up to 64M (default 8:16M); 1K is among them\n"
    "  -s, --step N             sizes grow by this factor (default: files 2, calls 8)\n"
    "  -r, --repeats N          samples of each measurement (default 10; of a figure 21)\n"
    "  -p, --pause SECONDS      between repeats (default 0)\n"
    "  -S, --servers N          I/O servers (default 8)\n"
    "  -S, --servers FILE       the standing servers of this address file, in place of a job\n"
    "  -P, --prefix PATH        a directory of theirs (default: their first prefix)\n"
    "  -H, --hosts FILE         the host file of the job: this host, then the servers' hosts\n"
    "  -D, --server-dir DIR     where these keep the files (default: that of --dir)\n"
    "  -T, --streams HOST:PORT,...  plain TCP streams beside forwarded calls, to nbmrw --sink\n"
    "      --sink PORT          be the far end of such streams, until killed\n"
    "  -w, --widths A,B,...     how many servers share a file's data, for calls of 1 MiB and more\n"
    "                           (default 1,2,4,8)\n"
    "  -C, --conduit NAME       " AMPH_CONDUIT_WORDS " (default auto)\n"
    "  -o, --order seq|random|both\n"
    "                           order of the calls in the file (default both)\n"
    "  -m, --measure A,B,...    data, metadata, all (default), or names of the table's first column\n"
    "  -j, --json[=FILE]        one object a line (default: standard output, in place of the table)\n"
    "  -g, --svg FILE           box plots; lines for several file sizes and numbers of servers\n"
    "      --caption TEXT       written below the picture\n"
    "  -q, --quick              few sizes, 3 repeats: a look\n"
    "  -F, --figures[=TEXT]     only what is to be reached (rows with TEXT), each beside its limit;\n"
    "                           exit status 3 if one is missed\n"
    "      --version            the version\n";
/* clang-format on */

__attribute__((noreturn, format(printf, 3, 4))) static void bad(const char *option,
                                                                const char *value,
                                                                const char *allowed, ...)
{
    va_list ap;

    fprintf(stderr, "nbmrw: %s \"%s\" is not allowed; it takes ", option, value);
    va_start(ap, allowed);
    vfprintf(stderr, allowed, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

/* max: of both sizes; UINT64_MAX: any */
static void take_range(const char *option, const char *text, uint64_t max, uint64_t *from,
                       uint64_t *to)
{
    char copy[64];

    snprintf(copy, sizeof copy, "%s", text);

    char *colon = strchr(copy, ':');

    if (colon)
        *colon = 0;

    if (!amph_parse_size(copy, from) || !amph_parse_size(colon ? colon + 1 : copy, to) ||
        *from < 1 || *to < *from || *to > max)
        bad(option, text, "a size, or two with a colon between them and the smaller one first%s",
            max == NBMRW_CALL_MAX ? ", up to 64M" : "");
}

static unsigned take_count(const char *option, const char *text, unsigned min, unsigned max)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (end == text || *end || n < min || n > max)
        bad(option, text, "a number from %u to %u", min, max);

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
            bad("--widths", text, "at most %d numbers", NBMRW_WIDTHS_MAX);

        o->widths[o->nwidths++] = take_count("--widths", w, 1, 8);
    }

    if (!o->nwidths)
        bad("--widths", text, "numbers from 1 to 8 with commas between them");
}

/* Refuses a width that would be left out without a message. */
static void check_widths(const struct options *o)
{
    for (unsigned w = 0; o->widths_given && !o->address_file && w < o->nwidths; w++)
        if (o->widths[w] > o->servers) {
            fprintf(stderr,
                    "nbmrw: a file cannot be shared by %u servers (--widths) where there are %u; "
                    "start more by --servers\n",
                    o->widths[w], o->servers);
            exit(2);
        }

    for (unsigned w = 0; o->streams && w < o->nwidths; w++)
        if (o->widths[w] > nbmrw_streams(o->streams)) {
            fprintf(stderr,
                    "nbmrw: --streams names %u places, but --widths asks for %u servers; name one "
                    "on the host of each server\n",
                    nbmrw_streams(o->streams), o->widths[w]);
            exit(2);
        }
}

/* Ends the process after a sentence if an option needs, or excludes, another.  fixed: one is given
 * that --figures does not heed. */
static void check_together(const struct options *o, bool fixed)
{
    const char *why = NULL;

    if (o->address_file && o->hosts)
        why = "--hosts starts servers, --servers ADDRESSFILE uses standing ones; give one of both";
    else if (o->prefix && !o->address_file)
        why = "--prefix is of standing servers; name them by --servers ADDRESSFILE";
    else if (o->server_dir && !o->hosts)
        why = "--server-dir is of servers on other hosts; name these by --hosts FILE";
    else if (o->figures && nbmrw_elsewhere(o))
        why = "--figures measures jobs on this host; leave out --hosts and --servers ADDRESSFILE";
    else if (o->figures && fixed)
        why = "--figures has sizes, widths, orders and servers of its own and draws no picture; "
              "leave "
              "out --file-sizes, --call-sizes, --step, --widths, --order, --measure, --servers, "
              "--streams and --svg";
    else if (o->caption && !o->svg)
        why = "--caption is written below a picture; name its file by --svg";

    if (why) {
        fprintf(stderr, "nbmrw: %s\n", why);
        exit(2);
    }
}

/* --servers: a number of servers to start, or the address file of standing ones. */
static void take_servers(struct options *o, const char *text)
{
    if (text[strspn(text, "0123456789")] == 0)
        o->servers = take_count("--servers", text, 1, 64);
    else if (access(text, R_OK) == 0)
        o->address_file = text;
    else {
        fprintf(stderr,
                "nbmrw: --servers: %s is neither a number of servers to start nor an address file "
                "that can be read: %s\n",
                text, strerror(errno));
        exit(2);
    }
}

__attribute__((noreturn)) static void bad_measure(const char *text)
{
    char names[128] = "";
    size_t used = 0;

    for (unsigned what = 0; what < NWHAT; what++)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s", nbmrw_what[what]);

    bad("--measure", text, "data, metadata, all%s, with commas between them", names);
}

/* --measure: names of what is measured, and words for several of them. */
static void take_measured(struct options *o, const char *text)
{
    static const unsigned data = (1u << NDATA) - 1;
    static const unsigned all = (1u << NWHAT) - 1;
    char copy[128];
    char *save = NULL;

    snprintf(copy, sizeof copy, "%s", text);
    o->measured = 0;
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        unsigned found = 0;

        if (strcmp(w, "data") == 0 || strcmp(w, "all") == 0)
            found |= data;
        if (strcmp(w, "metadata") == 0 || strcmp(w, "all") == 0)
            found |= all & ~data;

        for (unsigned what = 0; what < NWHAT; what++)
            if (strcmp(w, nbmrw_what[what]) == 0)
                found |= 1u << what;

        if (!found)
            bad_measure(text);

        o->measured |= found;
    }

    if (!o->measured)
        bad_measure(text);
}

static void take_pause(struct options *o, const char *text)
{
    char *end;

    o->pause = strtod(text, &end);
    if (end == text || *end || !(o->pause >= 0 && o->pause <= 3600))
        bad("--pause", text, "a number of seconds from 0 to 3600");
}

/* Parses one of two words, or the word for both. */
static void take_words(const char *option, const char *text, const char *const word[3],
                       bool *first_p, bool *second_p)
{
    *first_p = strcmp(text, word[0]) == 0 || strcmp(text, word[2]) == 0;
    *second_p = strcmp(text, word[1]) == 0 || strcmp(text, word[2]) == 0;
    if (!*first_p && !*second_p)
        bad(option, text, "%s, %s or %s", word[0], word[1], word[2]);
}

static void take_dir(struct options *o, const char *arg)
{
    o->dir = arg;
    o->dir_given = true;
}

static void take_file_sizes(struct options *o, const char *arg)
{
    take_range("--file-sizes", arg, UINT64_MAX, &o->file_from, &o->file_to);
}

static void take_call_sizes(struct options *o, const char *arg)
{
    take_range("--call-sizes", arg, NBMRW_CALL_MAX, &o->call_from, &o->call_to);
}

static void take_step(struct options *o, const char *arg)
{
    o->step = take_count("--step", arg, 2, 1024);
}

static void take_repeats(struct options *o, const char *arg)
{
    o->repeats = take_count("--repeats", arg, 1, NBMRW_REPEATS_MAX);
}

static void take_sink(struct options *o, const char *arg)
{
    o->sink = take_count("--sink", arg, 1, 65535);
}

static void take_job(struct options *o, const char *arg)
{
    o->job = take_count("--job", arg, 0, NBMRW_JOBS - 1);
}

static void take_inside(struct options *o, const char *arg)
{
    o->inside = true;
}

static void take_order(struct options *o, const char *arg)
{
    static const char *const orders[] = { "seq", "random", "both" };

    take_words("--order", arg, orders, &o->sequential, &o->random_order);
}

static void take_json(struct options *o, const char *arg)
{
    o->json = arg ? arg : "-";
}

static void take_figures(struct options *o, const char *arg)
{
    o->figures = true;
    o->match = arg;
}

static void take_quick(struct options *o, const char *arg)
{
    o->quick = true;
    o->repeats = 3;
    o->file_from = o->file_to = 8 << 20;
}

__attribute__((noreturn)) static void print_help(struct options *o, const char *arg)
{
    exit(fputs(usage, stdout) < 0);
}

__attribute__((noreturn)) static void print_version(struct options *o, const char *arg)
{
    exit(printf("nbmrw (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION) < 0);
}

/* An option.  Its argument goes to take, or is stored as it is in the member at that offset. */
struct row {
    struct option form; /* getopt's */
    bool is_fixed;      /* --figures has its own */
    void (*take)(struct options *o, const char *arg);
    size_t text_at;
};

#define TEXT(member) NULL, offsetof(struct options, member)

/* clang-format off */
static const struct row rows[] = {
    { { "dir",        required_argument, NULL, 'd' }, false, take_dir,        0 },
    { { "file-sizes", required_argument, NULL, 'f' }, true,  take_file_sizes, 0 },
    { { "call-sizes", required_argument, NULL, 'c' }, true,  take_call_sizes, 0 },
    { { "step",       required_argument, NULL, 's' }, true,  take_step,       0 },
    { { "repeats",    required_argument, NULL, 'r' }, false, take_repeats,    0 },
    { { "pause",      required_argument, NULL, 'p' }, false, take_pause,      0 },
    { { "servers",    required_argument, NULL, 'S' }, true,  take_servers,    0 },
    { { "prefix",     required_argument, NULL, 'P' }, false, TEXT(prefix) },
    { { "hosts",      required_argument, NULL, 'H' }, false, TEXT(hosts) },
    { { "server-dir", required_argument, NULL, 'D' }, false, TEXT(server_dir) },
    { { "streams",    required_argument, NULL, 'T' }, true,  TEXT(streams) },
    { { "sink",       required_argument, NULL, 'K' }, false, take_sink,       0 },
    { { "widths",     required_argument, NULL, 'w' }, true,  take_widths,     0 },
    { { "conduit",    required_argument, NULL, 'C' }, false, TEXT(conduit) },
    { { "order",      required_argument, NULL, 'o' }, true,  take_order,      0 },
    { { "measure",    required_argument, NULL, 'm' }, true,  take_measured,   0 },
    { { "json",       optional_argument, NULL, 'j' }, false, take_json,       0 },
    { { "svg",        required_argument, NULL, 'g' }, true,  TEXT(svg) },
    { { "caption",    required_argument, NULL, 'A' }, false, TEXT(caption) },
    { { "quick",      no_argument,       NULL, 'q' }, false, take_quick,      0 },
    { { "figures",    optional_argument, NULL, 'F' }, false, take_figures,    0 },
    { { "job",        required_argument, NULL, 'J' }, false, take_job,        0 },
    { { "inside",     no_argument,       NULL, 'I' }, false, take_inside,     0 },
    { { "help",       no_argument,       NULL, 'h' }, false, print_help,      0 },
    { { "version",    no_argument,       NULL, 'v' }, false, print_version,   0 },
};
/* clang-format on */

static const struct row *row_of(int letter)
{
    size_t i = 0;

    while (rows[i].form.val != letter)
        i++;

    return &rows[i];
}

static void take_option(struct options *o, const struct row *row, const char *arg)
{
    if (row->take)
        row->take(o, arg);
    else
        memcpy((char *)o + row->text_at, &arg, sizeof arg);
}

void nbmrw_options(struct options *o, int argc, char **argv)
{
    struct option longs[AMPH_COUNTOF(rows) + 1] = { { 0 } };
    bool fixed = false; /* what has no effect on --figures is given */

    for (size_t i = 0; i < AMPH_COUNTOF(rows); i++)
        longs[i] = rows[i].form;

    for (int c; (c = getopt_long_only(argc, argv, "d:f:c:s:r:p:S:P:H:D:T:w:C:o:m:j::g:F::qh", longs,
                                      NULL)) != -1;) {
        if (c == '?')
            exit(2);

        take_option(o, row_of(c), optarg);
        fixed |= row_of(c)->is_fixed;
    }

    if (!o->repeats)
        o->repeats = o->figures ? 21 : 10;

    if (optind < argc) {
        fprintf(stderr, "nbmrw: \"%s\" is not an option; nbmrw --help lists them\n", argv[optind]);
        exit(2);
    }

    check_together(o, fixed);
    check_widths(o);
}

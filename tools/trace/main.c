/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trace: the command line; see trace.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/program/stdout_check.h"
#include "tools/trace/trace.h"

enum {
    WRONG = 2,
    MAX_WORDS = 64,
    MAX_SIZE_MB = 1000
};

/* clang-format off */
static const char usage[] =
    "usage: iofwd-trace COMMAND DIR [ARGUMENT]...\n"
    "What a program did with files; DIR has been written by iofwd-run -record DIR PROGRAM.\n"
    "  summary DIR              calls, bytes, times and errors of the run\n"
    "  files DIR                a line for each file\n"
    "  ranks DIR                a line for each process\n"
    "  timeline DIR             the run in forty parts\n"
    "  patterns DIR [-json]     what costs time, and the setting that mends it\n"
    "  sql DIR QUERY            the answer of SQLite; the view calls has all calls (-csv, -json)\n"
    "  diff DIR DIR             what two runs did differently\n"
    "  report DIR [-o FILE] [-size MB]\n"
    "                           a page for a browser, without network: timeline, heat maps, charts,\n"
    "                           files, findings, servers (report.html, at most 30 MB)\n"
    "  export DIR -format jsonl|chrome|csv\n"
    "  pack DIR                 compresses the files of a run that has ended\n"
    "  replay DIR -prefix FOLDER [-below PATH] [-no-think] [SETTING=VALUE]...\n"
    "                           makes the calls again below FOLDER, and says how long they take\n"
    "  bench [IOFWD-RUN]        what recording costs here, beside strace and ltrace\n"
    "  -help, -version\n";
/* clang-format on */

int trace_fail(const char *format, ...)
{
    va_list ap;

    fflush(stdout);
    fputs("iofwd-trace: ", stderr);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    return 1;
}

static bool is_option(const char *word, const char *name)
{
    return word && word[0] == '-' && strcmp(word + 1 + (word[1] == '-'), name) == 0;
}

static int run_sql(const char *dir, const char *query, enum trace_form form)
{
    sqlite3 *db = trace_open(dir);
    int code = db ? trace_print(db, stdout, form, query) : 1;

    sqlite3_close(db);
    return code;
}

struct given {
    char **word;
    int n;
    enum trace_form form;
    const char *format, *prefix, *below, *output, *size;
    bool no_think;
};

/* The option with a value that the word is, or NULL. */
static const char **value_of(struct given *g, const char *word)
{
    if (is_option(word, "format"))
        return &g->format;
    if (is_option(word, "prefix"))
        return &g->prefix;
    if (is_option(word, "below"))
        return &g->below;

    if (is_option(word, "o"))
        return &g->output;
    if (is_option(word, "size"))
        return &g->size;

    return NULL;
}

/* Takes the options out of the words. */
static bool take_options(int argc, char **argv, struct given *g)
{
    g->word = argv;
    for (int i = 0; i < argc; i++) {
        const char **value_p = value_of(g, argv[i]);

        if (value_p && i + 1 < argc)
            *value_p = argv[++i];
        else if (is_option(argv[i], "json"))
            g->form = TRACE_JSONL;
        else if (is_option(argv[i], "csv"))
            g->form = TRACE_CSV;
        else if (is_option(argv[i], "no-think"))
            g->no_think = true;
        else if (argv[i][0] == '-' && argv[i][1]) {
            trace_fail("%s is not an option of iofwd-trace%s; -help lists them", argv[i],
                       value_p ? " without a value" : "");
            return false;
        } else
            argv[g->n++] = argv[i];
    }

    argv[g->n] = NULL;
    return true;
}

static int do_summary(const struct given *g)
{
    return trace_summary(g->word[0]);
}

static int do_files(const struct given *g)
{
    return trace_files(g->word[0]);
}

static int do_ranks(const struct given *g)
{
    return trace_ranks(g->word[0]);
}

static int do_timeline(const struct given *g)
{
    return trace_timeline(g->word[0]);
}

static int do_patterns(const struct given *g)
{
    return trace_patterns(g->word[0], g->form);
}

static int do_sql(const struct given *g)
{
    return run_sql(g->word[0], g->word[1], g->form);
}

static int do_diff(const struct given *g)
{
    return trace_diff(g->word[0], g->word[1]);
}

static int do_export(const struct given *g)
{
    return trace_export(g->word[0], g->format);
}

static int do_report(const struct given *g)
{
    char *end;
    unsigned long size_mb = strtoul(g->size, &end, 10);

    if (*end || size_mb < 1 || size_mb > MAX_SIZE_MB)
        return trace_fail("-size %s is no number of megabytes from 1 to %d", g->size, MAX_SIZE_MB) +
               1;

    return trace_report(g->word[0], g->output, size_mb);
}

static int do_pack(const struct given *g)
{
    return trace_shrink(g->word[0]);
}

static int do_replay(const struct given *g)
{
    const struct trace_replay options = { .dir = g->word[0],
                                          .prefix = g->prefix,
                                          .below = g->below,
                                          .no_think = g->no_think,
                                          .settings = g->word + 1,
                                          .nsettings = g->n - 1 };

    for (int i = 0; i < options.nsettings; i++)
        if (!strchr(options.settings[i], '='))
            return trace_fail("%s is not of the form SETTING=VALUE", options.settings[i]) + 1;

    return trace_replay(&options);
}

static int do_bench(const struct given *g)
{
    return trace_bench(g->word[0] ? g->word[0] : "iofwd-run");
}

static int do_bench_loop(const struct given *g)
{
    return trace_bench_loop(g->word[0]);
}

static const struct {
    const char *name;
    int min, max; /* words after the command */
    int (*run)(const struct given *g);
} commands[] = {
    { "summary", 1, 1, do_summary },
    { "files", 1, 1, do_files },
    { "ranks", 1, 1, do_ranks },
    { "timeline", 1, 1, do_timeline },
    { "patterns", 1, 1, do_patterns },
    { "sql", 2, 2, do_sql },
    { "diff", 2, 2, do_diff },
    { "report", 1, 1, do_report },
    { "export", 1, 1, do_export },
    { "pack", 1, 1, do_pack },
    { "replay", 1, MAX_WORDS, do_replay },
    { "bench", 0, 1, do_bench },
    { "bench-loop", 1, 1, do_bench_loop }, /* what bench measures */
};

int main(int argc, char **argv)
{
    struct given g = {
        .form = TRACE_TEXT, .format = "jsonl", .output = "report.html", .size = "30"
    };

    amph_stdout_check();
    if (argc < 2) {
        fputs(usage, stderr);
        return WRONG;
    }

    if (is_option(argv[1], "help") || is_option(argv[1], "h")) {
        fputs(usage, stdout);
        return 0;
    }

    if (is_option(argv[1], "version")) {
        printf("iofwd-trace (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
        return 0;
    }

    if (!take_options(argc - 2, argv + 2, &g))
        return WRONG;

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;

        if (g.n < commands[i].min || g.n > commands[i].max) {
            trace_fail("%s takes another number of words; -help lists the commands", argv[1]);
            return WRONG;
        }

        return commands[i].run(&g);
    }

    trace_fail("%s is not a command of iofwd-trace; -help lists them", argv[1]);
    return WRONG;
}

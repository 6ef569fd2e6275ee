/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trace: the command line; see trace.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program/stdout_check.h"
#include "tools/trace/trace.h"

enum {
    WRONG = 2,
    MAX_WORDS = 64,
    MAX_SIZE_MB = 1000
};

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
    int code = 1;

    if (db) {
        trace_read_only(db);
        code = trace_print(db, stdout, form, query);
    }

    sqlite3_close(db);
    return code;
}

struct given {
    char **word;
    int n;
    enum trace_form form;
    const char *format, *prefix, *below, *output, *size;
    bool no_think, ended, help;
    unsigned seen; /* options */
};

/* Options: commands name those that they take. */
enum {
    O_JSON = 1 << 0,
    O_CSV = 1 << 1,
    O_FORMAT = 1 << 2,
    O_PREFIX = 1 << 3,
    O_BELOW = 1 << 4,
    O_NO_THINK = 1 << 5,
    O_OUTPUT = 1 << 6,
    O_SIZE = 1 << 7,
    O_ENDED = 1 << 8,
    O_HELP = 1 << 9
};

#define IN(member) offsetof(struct given, member)

/* clang-format off */
static const struct option {
    const char *name;
    unsigned bit;
    bool has_value;
    size_t at; /* of what the option sets: a text if it has a value, else a bool; 0: the form of the output */
} options[] = {
    { "json",     O_JSON,     false, 0 },
    { "csv",      O_CSV,      false, 0 },
    { "format",   O_FORMAT,   true,  IN(format) },
    { "prefix",   O_PREFIX,   true,  IN(prefix) },
    { "below",    O_BELOW,    true,  IN(below) },
    { "no-think", O_NO_THINK, false, IN(no_think) },
    { "o",        O_OUTPUT,   true,  IN(output) },
    { "size",     O_SIZE,     true,  IN(size) },
    { "help",     O_HELP,     false, IN(help) },
    { "h",        O_HELP,     false, IN(help) },
    { "ended",    O_ENDED,    false, IN(ended) },
};
/* clang-format on */

static const struct option *find_option(const char *word)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (is_option(word, options[i].name))
            return &options[i];

    return NULL;
}

/* Stores the option.  false: it contradicts one before it. */
static bool set_option(struct given *g, const struct option *o, const char *value)
{
    const unsigned forms = O_JSON | O_CSV;

    if ((o->bit & forms) && (g->seen & forms & ~o->bit))
        return false;
    if (o->has_value && (g->seen & o->bit))
        return false;

    g->seen |= o->bit;

    if (o->bit & forms)
        g->form = o->bit == O_JSON ? TRACE_JSONL : TRACE_CSV;
    else if (o->has_value)
        memcpy((char *)g + o->at, &value, sizeof value);
    else
        *(bool *)((char *)g + o->at) = true;

    return true;
}

/* Takes the options out of the words; allowed: those of the command. */
static bool take_options(const char *command, unsigned allowed, int argc, char **argv,
                         struct given *g)
{
    g->word = argv;
    for (int i = 0; i < argc; i++) {
        const struct option *o = find_option(argv[i]);

        if (!o && (argv[i][0] != '-' || !argv[i][1])) {
            argv[g->n++] = argv[i];
            continue;
        }

        if (!o || !(o->bit & (allowed | O_HELP))) {
            trace_fail(
                "%s is not an option of iofwd-trace %s; iofwd-trace %s -help lists its options",
                argv[i], command, command);
            return false;
        }

        if (o->has_value && i + 1 == argc) {
            trace_fail("%s needs a value; iofwd-trace %s -help says which", argv[i], command);
            return false;
        }

        if (!set_option(g, o, o->has_value ? argv[i + 1] : NULL)) {
            if (o->has_value)
                trace_fail("%s is given twice; give one of them", argv[i]);
            else
                trace_fail("-json and -csv are two forms of the same answer; give one of them");

            return false;
        }

        i += o->has_value;
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
    return trace_shrink(g->word[0], g->ended);
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

static const struct command {
    const char *name;
    int min, max; /* words after the command */
    unsigned options;
    int (*run)(const struct given *g);
    const char *arguments, *help; /* help NULL: not listed */
} commands[] = {
    { "summary", 1, 1, 0, do_summary, "DIR", "calls, bytes, times and errors of the run" },
    { "files", 1, 1, 0, do_files, "DIR", "a line for each file" },
    { "ranks", 1, 1, 0, do_ranks, "DIR", "a line for each process" },
    { "timeline", 1, 1, 0, do_timeline, "DIR", "the run in forty parts" },
    { "patterns", 1, 1, O_JSON | O_CSV, do_patterns, "DIR [-json|-csv]",
      "what costs time, and the setting that mends it" },
    { "sql", 2, 2, O_JSON | O_CSV, do_sql, "DIR QUERY [-json|-csv]",
      "the answer of SQLite; the view calls has all calls" },
    { "diff", 2, 2, 0, do_diff, "DIR DIR", "what two runs did differently" },
    { "report", 1, 1, O_OUTPUT | O_SIZE, do_report, "DIR [-o FILE] [-size MB]",
      "a page for a browser, without network: timeline, heat maps, charts,\n"
      "                           files, findings, servers (report.html, at most 30 MB)" },
    { "export", 1, 1, O_FORMAT, do_export, "DIR -format jsonl|chrome|csv", "all calls" },
    { "pack", 1, 1, O_ENDED, do_pack, "DIR [-ended]",
      "compresses the files of a run that has ended; -ended: only those of\n"
      "                           processes of this host that have" },
    { "replay", 1, MAX_WORDS, O_PREFIX | O_BELOW | O_NO_THINK, do_replay,
      "DIR -prefix FOLDER [-below PATH] [-no-think] [SETTING=VALUE]...",
      "makes the calls again below FOLDER, and says how long they take" },
    { "bench", 0, 1, 0, do_bench, "[IOFWD-RUN]",
      "what recording costs here, beside strace and ltrace" },
    { "bench-loop", 1, 1, 0, do_bench_loop, "CALLS", NULL }, /* what bench measures */
};

enum {
    HELP_AT = 27 /* the column of what a command does */
};

static void print_command(const struct command *c)
{
    int width = printf("  %s %s", c->name, c->arguments);

    if (width + 2 > HELP_AT) {
        putchar('\n');
        width = 0;
    }
    printf("%*s%s\n", HELP_AT - width, "", c->help);
}

static void print_usage(void)
{
    printf(
        "usage: iofwd-trace COMMAND DIR [ARGUMENT]...\n"
        "What a program did with files; DIR has been written by iofwd-run -record DIR PROGRAM.\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (commands[i].help)
            print_command(&commands[i]);

    printf("  -help, -version; COMMAND -help\n");
}

static int run_command(const struct command *c, int argc, char **argv)
{
    struct given g = {
        .form = TRACE_TEXT, .format = "jsonl", .output = "report.html", .size = "30"
    };

    if (!take_options(c->name, c->options, argc, argv, &g))
        return WRONG;

    if (g.help) {
        printf("usage: iofwd-trace %s %s\n", c->name, c->arguments);
        if (c->help)
            printf("%*s%s\n", HELP_AT, "", c->help);
        return 0;
    }

    if (g.n < c->min || g.n > c->max) {
        trace_fail("%s takes another number of words: iofwd-trace %s %s", c->name, c->name,
                   c->arguments);
        return WRONG;
    }

    return c->run(&g);
}

int main(int argc, char **argv)
{
    amph_stdout_check();
    if (argc < 2) {
        trace_fail("a command is missing; -help lists them");
        return WRONG;
    }

    if (is_option(argv[1], "help") || is_option(argv[1], "h")) {
        print_usage();
        return 0;
    }

    if (is_option(argv[1], "version")) {
        printf("iofwd-trace (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
        return 0;
    }

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run_command(&commands[i], argc - 2, argv + 2);

    trace_fail("%s is not a command of iofwd-trace; -help lists them", argv[1]);
    return WRONG;
}

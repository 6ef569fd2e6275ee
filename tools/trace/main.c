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
    WRONG = 2
};

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
    "  export DIR -format jsonl|chrome|csv\n"
    "  pack DIR                 compresses the files of a run that has ended\n"
    "  bench [IOFWD-RUN]        what recording costs here, beside strace and ltrace\n"
    "  -help, -version\n";

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

/* Takes the options out of the words; *form_p and *format_p are their values. */
static int take_options(int argc, char **argv, enum trace_form *form_p, const char **format_p)
{
    int n = 0;

    for (int i = 0; i < argc; i++) {
        if (is_option(argv[i], "json"))
            *form_p = TRACE_JSONL;
        else if (is_option(argv[i], "csv"))
            *form_p = TRACE_CSV;
        else if (is_option(argv[i], "format") && i + 1 < argc)
            *format_p = argv[++i];
        else if (argv[i][0] == '-' && argv[i][1]) {
            trace_fail("%s is not an option of iofwd-trace; -help lists them", argv[i]);
            return -1;
        } else
            argv[n++] = argv[i];
    }

    return n;
}

struct given {
    char **word;
    enum trace_form form;
    const char *format;
};

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

static int do_pack(const struct given *g)
{
    return trace_shrink(g->word[0]);
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
    int least, most; /* words after the command */
    int (*run)(const struct given *g);
} commands[] = {
    { "summary", 1, 1, do_summary },
    { "files", 1, 1, do_files },
    { "ranks", 1, 1, do_ranks },
    { "timeline", 1, 1, do_timeline },
    { "patterns", 1, 1, do_patterns },
    { "sql", 2, 2, do_sql },
    { "diff", 2, 2, do_diff },
    { "export", 1, 1, do_export },
    { "pack", 1, 1, do_pack },
    { "bench", 0, 1, do_bench },
    { "bench-loop", 1, 1, do_bench_loop }, /* what bench measures */
};

int main(int argc, char **argv)
{
    enum trace_form form = TRACE_TEXT;
    const char *format = "jsonl";

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

    int n = take_options(argc - 2, argv + 2, &form, &format);

    if (n < 0)
        return WRONG;

    argv[2 + n] = NULL;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;

        if (n < commands[i].least || n > commands[i].most) {
            trace_fail("%s takes another number of words; -help lists the commands", argv[1]);
            return WRONG;
        }

        struct given g = { argv + 2, form, format };

        amph_stdout_check();
        return commands[i].run(&g);
    }

    trace_fail("%s is not a command of iofwd-trace; -help lists them", argv[1]);
    return WRONG;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* iofwd-ctl: the command line and the orders; see ctl.h.  Layer: tools. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/platform.h"
#include "base/program/stdout_check.h"
#include "iofwd/wire/watch.h"
#include "tools/ctl/metrics.h"
#include "tools/ctl/progress.h"
#include "tools/ctl/top.h"

enum {
    WRONG = CTL_WRONG
};

#define END_NS (30 * AMPH_NS_PER_S) /* how long stop waits for the servers to end */

/* clang-format off */
static const char usage[] =
    "usage: iofwd-ctl COMMAND [-servers ADDRESSFILE] [OPTION]... [ARGUMENT]...\n"
    "What I/O servers do, and orders to them.  ADDRESSFILE: of iofwd-server -daemon, or a job's (AMPHORA_JOB).\n"
    "  status [-all] [-json]    a line for each server; -all: every counter and limit\n"
    "  clients [-json]          a line for each client of each server\n"
    "  files [-json]            a line for each open file\n"
    "  top [-by server|client|file] [-sort COLUMN] [-interval S] [-count N] [-json]\n"
    "                           rates, sorted, at each interval\n"
    "  progress [-interval S]   what all servers have done, until they end\n"
    "  metrics [-listen SOCKET|PORT]\n"
    "                           the counters as OpenMetrics text, once or by HTTP\n"
    "  drain                    take no further clients; the servers end when the last one has left\n"
    "  stop                     end the servers now\n"
    "  reload [NAME=VALUE]...   open the log file again, and set AMPHORA_LOG, IOFWD_CLIENT_FILES,\n"
    "                           IOFWD_CLIENT_MEMORY or IOFWD_SERVER_MEMORY\n"
    "  loglevel LEVEL           error, warn, info or debug\n"
    "  -help, -version\n"
    "Orders are taken on the servers' own host only, from their user or root.\n";
/* clang-format on */

int ctl_fail(const char *format, ...)
{
    va_list ap;

    fflush(stdout);
    fputs("iofwd-ctl: ", stderr);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    return 1;
}

struct given {
    const char *file;
    const char *by, *sort, *interval, *count, *listen;
    const char *json, *all; /* flags: NULL if not given */
    char **word;            /* what follows the command; ends with NULL */
    int nwords;
    double interval_s; /* 0: not given */
    struct ctl_top top;
};

/* ---- orders ---- */

/* Gives an order to every server.  Returns the number of those that did not take it. */
static uint32_t order(struct ctl_set *set, enum amph_fwd_watch query, const char *text)
{
    uint32_t failed = 0;

    for (uint32_t i = 0; i < set->n; i++) {
        struct ctl_rows rows;
        bool ok = ctl_ask(set, i, query, text, &rows);

        ctl_rows_free(&rows);
        failed += !ok;
        if (!ok)
            ctl_fail("server %" PRIu32 " %s: %s", i,
                     set->server[i].refused ? "refuses" : "cannot be reached", set->server[i].why);
    }

    return failed;
}

static int do_drain(struct ctl_set *set, struct given *g)
{
    uint64_t left = 0;

    if (order(set, FWD_WATCH_DRAIN, ""))
        return 1;

    for (uint32_t i = 0; i < set->n; i++) {
        struct ctl_rows rows;

        if (ctl_ask(set, i, FWD_WATCH_STATUS, "", &rows) && rows.n > 0)
            left += ctl_value_of(&rows.row[0], "server_clients");

        ctl_rows_free(&rows);
    }

    printf("the servers take no further clients; ");
    if (left)
        printf("%" PRIu64
               " connections of clients are left, and the servers end with the last one\n",
               left);
    else
        printf("none is left, and they end now\n");

    return 0;
}

static int do_stop(struct ctl_set *set, struct given *g)
{
    struct ctl_rows rows;
    bool ok = false;

    /* one order is enough: the process that supervises the set ends all servers */
    for (uint32_t i = 0; i < set->n && !ok; i++) {
        ok = ctl_ask(set, i, FWD_WATCH_STOP, "", &rows);
        ctl_rows_free(&rows);
        if (!ok && set->server[i].refused)
            return ctl_fail("server %" PRIu32 " refuses: %s", i, set->server[i].why);
        if (ok && !ctl_await_end(set, i, END_NS))
            return ctl_fail("the servers have not ended within %" PRIu64 " s; see their log",
                            (uint64_t)(END_NS / AMPH_NS_PER_S));
    }

    if (!ok && !ctl_end_supervisor(set, END_NS))
        return ctl_fail("none of the %" PRIu32 " servers of %s can be reached: %s", set->n,
                        set->file, set->server[0].why);

    printf("the servers have ended\n");
    return 0;
}

static int do_reload(struct ctl_set *set, struct given *g)
{
    uint32_t failed = 0;

    for (int i = 0; i < g->nwords && !failed; i++)
        failed = order(set, FWD_WATCH_SET, g->word[i]);

    if (!failed)
        failed = order(set, FWD_WATCH_SET, "");

    return failed ? 1 : 0;
}

static int do_loglevel(struct ctl_set *set, struct given *g)
{
    char text[64];

    snprintf(text, sizeof text, "AMPHORA_LOG=%.40s", g->word[0]);
    return order(set, FWD_WATCH_SET, text) ? 1 : 0;
}

/* ---- queries ---- */

static int do_status(struct ctl_set *set, struct given *g)
{
    return ctl_status(set, g->json, g->all);
}

static int do_clients(struct ctl_set *set, struct given *g)
{
    return ctl_list(set, FWD_WATCH_CLIENTS, g->json);
}

static int do_files(struct ctl_set *set, struct given *g)
{
    return ctl_list(set, FWD_WATCH_FILES, g->json);
}

/* ---- repeated queries ---- */

static int wrong(const char *word, const char *why)
{
    ctl_fail("%s %s; -help lists what there is", word, why);
    return WRONG;
}

/* Reads -interval.  Returns 0, or the exit code after a sentence. */
static int check_interval(struct given *g)
{
    char *end;

    if (!g->interval)
        return 0;

    g->interval_s = strtod(g->interval, &end);
    if (end != g->interval && !*end && g->interval_s >= 0.1 && g->interval_s <= 86400)
        return 0;

    return wrong(g->interval, "is not an interval of 0.1 to 86400 seconds");
}

static int check_count(const struct given *g, unsigned long *count_p)
{
    char *end;

    if (!g->count)
        return 0;

    *count_p = strtoul(g->count, &end, 10);
    if (g->count[0] >= '0' && g->count[0] <= '9' && !*end && *count_p > 0)
        return 0;

    return wrong(g->count, "is not a number of tables, from 1 on");
}

static int check_top(struct given *g)
{
    struct ctl_top *top = &g->top;
    enum amph_fwd_watch query = ctl_top_view_named(g->by ? g->by : "server");
    int code = query ? check_interval(g)
                     : wrong(g->by, "is not what top sorts by: server, client or file");

    if (!code)
        code = check_count(g, &top->count);
    if (code)
        return code;

    ctl_view_begin(&top->view, query);
    if (g->sort && !ctl_view_sort_by(&top->view, g->sort))
        return wrong(g->sort, "is no column of this table");

    top->interval_s = g->interval_s > 0 ? g->interval_s : 2;
    top->json = g->json;
    return 0;
}

static int do_top(struct ctl_set *set, struct given *g)
{
    g->top.set = set;
    return ctl_top(&g->top);
}

static int do_progress(struct ctl_set *set, struct given *g)
{
    double usual_s = isatty(STDERR_FILENO) ? 1 : 10;
    struct ctl_set ending;

    if (!ctl_open(g->file, &ending))
        return 1;

    int code = ctl_progress(set, &ending, g->interval_s > 0 ? g->interval_s : usual_s);

    ctl_close(&ending);
    return code;
}

static int check_metrics(struct given *g)
{
    return g->listen ? ctl_metrics_can_listen(g->listen) : 0;
}

static int do_metrics(struct ctl_set *set, struct given *g)
{
    if (g->listen)
        return ctl_metrics_listen(set, g->listen);

    uint32_t unreachable = ctl_metrics_write(set, stdout);

    if (unreachable)
        return ctl_fail("%" PRIu32 " of %" PRIu32 " servers of %s cannot be reached", unreachable,
                        set->n, set->file);

    return 0;
}

/* ---- the command line ---- */

/* clang-format off */
static const struct {
    const char *name;
    int min_words, max_words;
    const char *options; /* its options besides -servers, each with a space before and after it */
    int (*check)(struct given *g); /* of the options' values: 0, or the exit code after a sentence */
    int (*run)(struct ctl_set *set, struct given *g);
} commands[] = {
    { "status", 0, 0, " all json ", NULL, do_status },
    { "clients", 0, 0, " json ", NULL, do_clients },
    { "files", 0, 0, " json ", NULL, do_files },
    { "top", 0, 0, " by sort interval count json ", check_top, do_top },
    { "progress", 0, 0, " interval ", check_interval, do_progress },
    { "metrics", 0, 0, " listen ", check_metrics, do_metrics },
    { "drain", 0, 0, " ", NULL, do_drain },
    { "stop", 0, 0, " ", NULL, do_stop },
    { "reload", 0, 16, " ", NULL, do_reload },
    { "loglevel", 1, 1, " ", NULL, do_loglevel },
};
/* clang-format on */

/* clang-format off */
static const struct {
    const char *name;
    size_t at; /* offset of its value in struct given; a flag's value is its name */
    bool is_flag;
} options[] = {
    { "servers", offsetof(struct given, file), false },
    { "all", offsetof(struct given, all), true },
    { "json", offsetof(struct given, json), true },
    { "by", offsetof(struct given, by), false },
    { "sort", offsetof(struct given, sort), false },
    { "interval", offsetof(struct given, interval), false },
    { "count", offsetof(struct given, count), false },
    { "listen", offsetof(struct given, listen), false },
};
/* clang-format on */

static bool is_option(const char *word, const char *name)
{
    return word[0] == '-' && strcmp(word + 1 + (word[1] == '-'), name) == 0;
}

/* Does the command take the option?  All take -servers. */
static bool takes(size_t command, const char *name)
{
    char word[32];

    snprintf(word, sizeof word, " %s ", name);
    return strcmp(name, "servers") == 0 || strstr(commands[command].options, word);
}

/* Takes option argv[0] and its value.  Returns the number of words taken, or -1 after a sentence. */
static int take_option(size_t command, char **argv, struct given *g)
{
    for (size_t i = 0; i < AMPH_COUNTOF(options); i++) {
        const char **value = (const char **)(void *)((char *)g + options[i].at);

        if (!is_option(argv[0], options[i].name))
            continue;

        if (!takes(command, options[i].name))
            break;

        *value = options[i].is_flag ? options[i].name : argv[1];
        if (*value)
            return options[i].is_flag ? 1 : 2;

        wrong(argv[0], "needs a value");
        return -1;
    }

    ctl_fail("%s is not an option of iofwd-ctl %s; -help lists what there is", argv[0],
             commands[command].name);
    return -1;
}

/* Takes the options out of the words, which end with NULL.  0, or the exit code. */
static int take_options(size_t command, char **argv, struct given *g)
{
    g->word = argv;

    while (*argv) {
        int taken = 1;

        if (argv[0][0] == '-')
            taken = take_option(command, argv, g);
        else
            g->word[g->nwords++] = argv[0];

        if (taken < 0)
            return WRONG;

        argv += taken;
    }

    return 0;
}

static int run(size_t command, char **argv)
{
    struct given g = { .file = NULL };
    struct ctl_set set;
    int code = take_options(command, argv, &g);

    if (code)
        return code;
    if (g.nwords < commands[command].min_words)
        return wrong(commands[command].name, "needs an argument");
    if (g.nwords > commands[command].max_words)
        return wrong(g.word[commands[command].max_words], "is one word too many");

    code = commands[command].check ? commands[command].check(&g) : 0;
    if (code)
        return code;
    if (!ctl_open(g.file, &set))
        return 1;

    code = commands[command].run(&set, &g);
    ctl_close(&set);
    return code;
}

int main(int argc, char **argv)
{
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
        printf("iofwd-ctl %s\n", PACKAGE_VERSION);
        return 0;
    }

    for (size_t i = 0; i < AMPH_COUNTOF(commands); i++)
        if (strcmp(commands[i].name, argv[1]) == 0)
            return run(i, argv + 2);

    return wrong(argv[1], "is no command of iofwd-ctl");
}

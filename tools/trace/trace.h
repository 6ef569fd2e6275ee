/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trace: what a recorded run did.  The reader's events become tables of SQLite in memory, and
 * most answers are queries on them.
 *
 * Layer: tools.  Thread rule: one thread.
 *
 *   main.c      the command line
 *   database.c  events as tables
 *   table.c     answers of queries as text, CSV or lines of JSON
 *   views.c     summary, files, ranks, timeline, diff
 *   patterns.c  findings: what a run does badly, what it costs, which setting mends it
 *   export.c    lines of JSON, Chrome's trace events, CSV
 *   shrink.c    the compressed form of a folder's files
 *   settings.c  the names of Amphora's settings
 *   replay.c, replay.h     the calls of a run, made again below a scratch folder
 *   replay_plan.c          which calls, by which process and thread, after what
 *   replay_files.c         the files that must be there before
 *   replay_run.c           processes, threads, waits and times
 *   replay_call.c          one call
 *   bench.c     what recording costs, beside strace and ltrace
 */
#ifndef AMPH_TOOLS_TRACE_H
#define AMPH_TOOLS_TRACE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "iofwd/trace/reader.h"

enum trace_form {
    TRACE_TEXT,
    TRACE_CSV,
    TRACE_JSONL
};

/* Prints a sentence on standard error, and gives 1. */
int trace_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The tables of the run in dir; schema: the database's name for them (main, or b for diff). */
bool trace_load(sqlite3 *db, const char *schema, const char *dir);
sqlite3 *trace_open(const char *dir);

/* Prints the answer of a query.  Returns an exit code. */
int trace_print(sqlite3 *db, FILE *out, enum trace_form form, const char *sql);
/* The first number of an answer. */
long long trace_number(sqlite3 *db, const char *sql);

int trace_summary(const char *dir);
int trace_files(const char *dir);
int trace_ranks(const char *dir);
int trace_timeline(const char *dir);
int trace_diff(const char *a, const char *b);
int trace_patterns(const char *dir, enum trace_form form);
int trace_export(const char *dir, const char *format);
int trace_shrink(const char *dir);

struct trace_replay {
    const char *dir, *prefix;
    const char *below; /* NULL: see replay_plan.c */
    bool no_think;
    char **settings; /* NAME=VALUE */
    int nsettings;
};

int trace_replay(const struct trace_replay *options);

/* Is word, of len bytes, the name of a setting? */
bool trace_is_setting(const char *word, size_t len);

int trace_bench(const char *iofwd_run);
int trace_bench_loop(const char *calls);

#endif

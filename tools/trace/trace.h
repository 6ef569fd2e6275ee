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
 *   report.c, report.h     the run as a page of HTML
 *   report_choice.c        which calls it has, if they are too many
 *   report_data.c          its data: a text in JSON, and columns of numbers
 *   report_bytes.c         bytes, numbers and strings of these
 *   report_write.c         compresses and writes it
 *   page/                  the page's text, styles and scripts; README.md there
 *   settings.c  the names of Amphora's settings
 *   replay.c, replay.h     the calls of a run, made again below a scratch folder
 *   replay_plan.c          which calls, by which process and thread, after what
 *   replay_files.c         the files that must be there before
 *   replay_run.c           processes, threads, waits and times
 *   replay_call.c          one call
 *   replay_request.c       requests, which are carried out meanwhile
 *   bench.c     what recording costs, beside strace and ltrace
 */
#ifndef AMPH_TOOLS_TRACE_H
#define AMPH_TOOLS_TRACE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
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
/* The same of a run that has been read. */
bool trace_tables(sqlite3 *db, const char *schema, const struct amph_trace *t);
/* Names of sides, as the column `side` has them. */
extern const char *const trace_sides[AMPH_TRACE_SIDES];
/* Are the results of such calls bytes, as in the column `bytes`? */
bool trace_moves(enum amph_trace_class cls);
/* When the run began, by the job's clock: time 0 of the tables. */
int64_t trace_zero(const struct amph_trace *t);
/* An empty database with the functions of iofwd-trace; NULL: after a sentence. */
sqlite3 *trace_database(void);
sqlite3 *trace_open(const char *dir);
/* From here on, queries of this database may read its tables, and do nothing else. */
void trace_read_only(sqlite3 *db);

/* Says why the last query has failed, and gives 1. */
int trace_refused(sqlite3 *db);
/* Prints the answer of a query.  Returns an exit code. */
int trace_print(sqlite3 *db, FILE *out, enum trace_form form, const char *sql);
/* The same text in valid UTF-8, for the caller to free; NULL: no memory. */
char *trace_utf8(const char *value);
/* The first number of an answer. */
long long trace_number(sqlite3 *db, const char *sql);

/* A sentence for each kind of call that is not among the events. */
void trace_say_losses(sqlite3 *db, const char *schema, FILE *out);
int trace_summary(const char *dir);
int trace_files(const char *dir);
int trace_ranks(const char *dir);
int trace_timeline(const char *dir);
int trace_diff(const char *a, const char *b);
int trace_patterns(const char *dir, enum trace_form form);
/* Makes the table of findings. */
bool trace_find(sqlite3 *db);
/* The filter of the page that shows a finding's calls. */
const char *trace_finding_shows(const char *finding);
/* Writes a page of at most size_mb megabytes to path; "-": to standard output. */
int trace_report(const char *dir, const char *path, unsigned long size_mb);
int trace_export(const char *dir, const char *format);
/* ended: files of other hosts and of processes that run are left as they are, without a word. */
int trace_shrink(const char *dir, bool ended);

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

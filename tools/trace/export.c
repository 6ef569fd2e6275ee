/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * export: lines of JSON, CSV, and the trace events that Chrome's viewer and Perfetto read.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

/* One event a row, made by SQLite's own JSON functions. */
/* clang-format off */
static const char chrome[] =
    "SELECT json_object('name', name, 'cat', class, 'ph', 'X', "
    "'ts', start_ns / 1e3, 'dur', coalesce(ns, 0) / 1e3, 'pid', process, 'tid', tid, "
    "'args', json_object('path', path, 'offset', offset, 'length', length, 'result', result, "
    "'errno', errno, 'side', side, 'peer', peer, 'server', server, "
    "'queue_us', queue_ns / 1e3, 'file_us', file_ns / 1e3)) "
    "FROM calls WHERE NOT async ORDER BY id";
/* Requests overlap on their thread, so that each is a pair of events with an identity. */
static const char requests[] =
    "SELECT json_object('name', name, 'cat', class, 'ph', ph, 'id', id, 'ts', ts / 1e3, 'pid', process, 'tid', tid, "
    "'args', json_object('path', path, 'offset', offset, 'length', length, 'result', result, "
    "'errno', errno, 'side', side)) FROM "
    "(SELECT *, 'b' AS ph, start_ns AS ts FROM calls WHERE async "
    "UNION ALL SELECT *, 'e', end_ns FROM calls WHERE async AND returned) ORDER BY ts, id";
static const char threads[] =
    "SELECT json_object('name', 'process_name', 'ph', 'M', 'pid', process, "
    "'args', json_object('name', printf('%s %s %d', coalesce('rank ' || rank, ''), host, pid))) "
    "FROM processes";
/* clang-format on */

static bool print_rows(sqlite3 *db, const char *sql, bool *first_p)
{
    sqlite3_stmt *stmt = NULL;
    int code;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return !trace_fail("%s", sqlite3_errmsg(db));

    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        char *event = trace_utf8((const char *)sqlite3_column_text(stmt, 0));

        if (!event) {
            sqlite3_finalize(stmt);
            return !trace_fail("there is not enough memory");
        }

        printf("%s%s", *first_p ? "" : ",\n", event);
        free(event);
        *first_p = false;
    }

    sqlite3_finalize(stmt);
    return code == SQLITE_DONE || !trace_refused(db);
}

int trace_export(const char *dir, const char *format)
{
    bool is_chrome = strcmp(format, "chrome") == 0;
    bool is_csv = strcmp(format, "csv") == 0;
    bool first = true;

    if (!is_chrome && !is_csv && strcmp(format, "jsonl") != 0)
        return trace_fail("-format %s is not known; it is jsonl, chrome or csv", format) + 1;

    sqlite3 *db = trace_open(dir);
    int code = db ? 0 : 1;

    if (db && is_chrome) {
        printf("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        code = print_rows(db, threads, &first) && print_rows(db, chrome, &first) &&
                       print_rows(db, requests, &first)
                   ? 0
                   : 1;
        printf("\n]}\n");
    } else if (db)
        code = trace_print(db, stdout, is_csv ? TRACE_CSV : TRACE_JSONL,
                           "SELECT * FROM calls ORDER BY id");

    if (db)
        trace_say_losses(db, "main", stderr);

    sqlite3_close(db);
    return code;
}

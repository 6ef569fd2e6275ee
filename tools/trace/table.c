/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers of queries as text, CSV or lines of JSON.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/visible.h"
#include "tools/trace/trace.h"

enum {
    COLUMNS = 64,
    WIDEST = 60 /* of a column of text; a longer value moves the rest of its line */
};

struct answer {
    char **cells; /* row by row */
    size_t n, room;
    int columns;
    int types[COLUMNS];
};

static bool keep(struct answer *a, const char *value)
{
    if (a->n == a->room) {
        size_t room = a->room ? a->room * 2 : 256;
        char **longer = realloc(a->cells, room * sizeof *longer);

        if (!longer)
            return false;

        a->cells = longer;
        a->room = room;
    }

    const char *text = value ? value : "";
    size_t bytes = AMPH_VISIBLE_WIDEST * (strlen(text) + 1) + 1;
    char *cell = malloc(bytes);

    a->cells[a->n++] = cell;
    if (cell)
        amph_visible(cell, bytes, text);

    return cell != NULL;
}

/* Prints column c of a line, as wide as the column: text on the left, numbers on the right. */
static void print_cell(FILE *out, const struct answer *a, const int *width, int c, const char *text)
{
    bool left = a->types[c] == SQLITE_TEXT;
    bool last = c == a->columns - 1;
    int field = left ? -width[c] : width[c];

    if (left && last)
        field = 0; /* no blanks at the end of a line */

    fprintf(out, "%*s%s", field, text, last ? "\n" : "  ");
}

static void print_text(FILE *out, const struct answer *a, sqlite3_stmt *stmt)
{
    int width[COLUMNS];

    for (int c = 0; c < a->columns; c++) {
        width[c] = (int)strlen(sqlite3_column_name(stmt, c));
        for (size_t i = (size_t)c; i < a->n; i += (size_t)a->columns) {
            int len = (int)strlen(a->cells[i]);

            if (len > width[c] && len <= WIDEST)
                width[c] = len;
        }
    }

    for (int c = 0; c < a->columns; c++)
        print_cell(out, a, width, c, sqlite3_column_name(stmt, c));

    for (size_t i = 0; i < a->n; i++)
        print_cell(out, a, width, (int)(i % (size_t)a->columns), a->cells[i]);
}

/* The length of the character of UTF-8 at the start of s; 0: it is invalid. */
static int utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char mask, lead;
        unsigned smallest;
    } forms[] = {
        { 0x80, 0, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 }
    };

    for (int more = 0; more < 4; more++) {
        if ((s[0] & forms[more].mask) != forms[more].lead)
            continue;

        unsigned code = s[0] & (unsigned char)~forms[more].mask;

        for (int i = 1; i <= more; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (s[i] & 0x3fu);
        }

        bool surrogate = code >= 0xd800 && code < 0xe000;

        return code < forms[more].smallest || code > 0x10ffff || surrogate ? 0 : more + 1;
    }

    return 0;
}

/* A path is any bytes: those that are not UTF-8 become U+FFFD, one for each byte. */
char *trace_utf8(const char *value)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *text = malloc(3 * strlen(value) + 1);
    char *to = text;

    while (text && *value) {
        int len = utf8_length((const unsigned char *)value);

        memcpy(to, len ? value : replacement, len ? (size_t)len : 3);
        to += len ? len : 3;
        value += len ? len : 1;
    }

    if (text)
        *to = '\0';
    return text;
}

static void put_csv(FILE *out, const char *value)
{
    if (!strpbrk(value, ",\"\n\r")) {
        fputs(value, out);
        return;
    }

    fputc('"', out);
    for (; *value; value++)
        fprintf(out, *value == '"' ? "\"\"" : "%c", *value);

    fputc('"', out);
}

static void put_json(FILE *out, const char *value)
{
    fputc('"', out);
    for (; *value; value++)
        if (*value == '"' || *value == '\\')
            fprintf(out, "\\%c", *value);
        else if ((unsigned char)*value < ' ')
            fprintf(out, "\\u%04x", (unsigned)*value);
        else
            fputc(*value, out);

    fputc('"', out);
}

static bool print_row(FILE *out, enum trace_form form, sqlite3_stmt *stmt, int columns)
{
    fputs(form == TRACE_JSONL ? "{" : "", out);
    for (int c = 0; c < columns; c++) {
        const char *bytes = (const char *)sqlite3_column_text(stmt, c);
        bool is_null = !bytes;
        char *value = trace_utf8(bytes ? bytes : "");

        if (!value)
            return false;

        fputs(c ? "," : "", out);
        if (form == TRACE_JSONL) {
            put_json(out, sqlite3_column_name(stmt, c));
            fputc(':', out);
        }

        if (form == TRACE_CSV)
            put_csv(out, value);
        else if (is_null)
            fputs("null", out);
        else if (sqlite3_column_type(stmt, c) == SQLITE_TEXT)
            put_json(out, value);
        else
            fputs(value, out);

        free(value);
    }

    fputs(form == TRACE_JSONL ? "}\n" : "\n", out);
    return true;
}

int trace_refused(sqlite3 *db)
{
    const char *text = sqlite3_errmsg(db);

    if (strcmp(text, "integer overflow") == 0)
        return trace_fail(
            "a sum exceeds 64 bits: unless the query makes it, numbers of the record are damaged; "
            "record the run again");
    if (sqlite3_errcode(db) == SQLITE_AUTH || strncmp(text, "not authorized", 14) == 0)
        return trace_fail("the query does more than read the tables of the run (%s): iofwd-trace "
                          "sql takes SELECT, "
                          "and changes no table and no file",
                          text);

    return trace_fail("%s", text);
}

/* Compiles one query.  Returns 0, or the exit code after a message. */
static int prepare(sqlite3 *db, const char *sql, sqlite3_stmt **stmt_p)
{
    const char *rest = "";

    if (sqlite3_prepare_v2(db, sql, -1, stmt_p, &rest) != SQLITE_OK)
        return trace_refused(db);

    if (!*stmt_p)
        return trace_fail("no query is given");

    if (!rest[strspn(rest, " \t\n;")])
        return 0;

    sqlite3_finalize(*stmt_p);
    return trace_fail("one query at a time, please; this is left: %s", rest);
}

/* Prints rows as they come.  Returns SQLITE_DONE or an error of SQLite. */
static int print_rows(FILE *out, enum trace_form form, sqlite3_stmt *stmt, int columns)
{
    int code;

    for (int c = 0; form == TRACE_CSV && c < columns; c++) {
        put_csv(out, sqlite3_column_name(stmt, c));
        fputs(c == columns - 1 ? "\n" : ",", out);
    }

    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        if (!print_row(out, form, stmt, columns))
            return SQLITE_NOMEM;

    return code;
}

/* Keeps all rows, since the width of a column depends on all of them.  Returns SQLITE_DONE or an error of
 * SQLite. */
static int keep_rows(struct answer *a, sqlite3_stmt *stmt)
{
    int code;

    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        for (int c = 0; c < a->columns; c++) {
            if (sqlite3_column_type(stmt, c) == SQLITE_TEXT)
                a->types[c] = SQLITE_TEXT;
            if (!keep(a, (const char *)sqlite3_column_text(stmt, c)))
                return SQLITE_NOMEM;
        }

    return code;
}

static int print_table(FILE *out, sqlite3_stmt *stmt, int columns)
{
    struct answer a = { .columns = columns };
    int code = keep_rows(&a, stmt);

    if (code == SQLITE_DONE && columns)
        print_text(out, &a, stmt);

    for (size_t i = 0; i < a.n; i++)
        free(a.cells[i]);

    free(a.cells);
    return code;
}

int trace_print(sqlite3 *db, FILE *out, enum trace_form form, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int exit_code = prepare(db, sql, &stmt);

    if (exit_code)
        return exit_code;

    int columns = sqlite3_column_count(stmt);

    if (columns > COLUMNS)
        columns = COLUMNS;

    int code = form == TRACE_TEXT ? print_table(out, stmt, columns)
                                  : print_rows(out, form, stmt, columns);

    if (code == SQLITE_NOMEM)
        trace_fail("there is not enough memory");
    else if (code != SQLITE_DONE)
        trace_refused(db);

    sqlite3_finalize(stmt);
    return code != SQLITE_DONE;
}

long long trace_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    long long value = 0;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        value = sqlite3_column_int64(stmt, 0);

    sqlite3_finalize(stmt);
    return value;
}

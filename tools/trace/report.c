/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report: a run as one page of HTML; see report.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <string.h>

#include "tools/trace/report.h"

enum {
    MB = 1000000,
    MAX_WHOLE = 6000000, /* calls that are tried one by one; more do not fit in any page */
    SMALLEST = 1000      /* calls, below which a page is given up */
};

/* Data of a page that has at most `whole` calls one by one; 0: all. */
static bool make(const struct amph_trace *t, sqlite3 *db, const char *dir,
                 const struct report_threads *threads, size_t whole, struct report_bytes *packed,
                 size_t *len_p)
{
    struct report_choice choice = { 0 };
    struct report_bytes data = { 0 };
    bool ok = whole == 0 || report_choose(t, threads, whole, whole, &choice);

    *len_p = SIZE_MAX; /* sums that are too many are a page that is too long */
    if (ok) {
        ok = report_data(t, db, dir, threads, &choice, &data) &&
             report_deflate(&data, packed, len_p);
        if (!ok)
            trace_fail("there is not enough memory for the page");
    } else
        ok = true;

    report_free(&data);
    report_free_choice(&choice);
    return ok;
}

/* The longest page that fits. */
static bool fit(const struct amph_trace *t, sqlite3 *db, const char *dir, size_t limit,
                struct report_bytes *packed)
{
    struct report_threads threads = { 0 };
    size_t whole = t->nevents > MAX_WHOLE ? MAX_WHOLE / 8 : 0;
    size_t len = 0;
    bool ok = report_find_threads(t, &threads) ||
              !trace_fail("there is not enough memory for the page");

    while (ok && (ok = make(t, db, dir, &threads, whole, packed, &len)) && len > limit) {
        report_free(packed);
        if (whole == 0 && len != SIZE_MAX)
            whole = (size_t)((double)t->nevents * (double)limit / (double)len / 2);
        else
            whole /= 2;

        if (whole < SMALLEST)
            ok = !trace_fail("the page of %s does not fit in %zu MB; -size gives it more", dir,
                             limit / MB);
    }

    report_free_threads(&threads);
    return ok;
}

int trace_report(const char *dir, const char *path, unsigned long size_mb)
{
    struct amph_trace t = { 0 };
    struct report_bytes packed = { 0 };
    char why[512];
    sqlite3 *db = NULL;
    bool ok = amph_trace_read(&t, dir, why, sizeof why) || !trace_fail("%s", why);

    ok = ok && (db = trace_database()) && trace_tables(db, "main", &t) && trace_find(db) &&
         fit(&t, db, dir, size_mb * MB, &packed) && report_write(path, &packed);

    if (ok)
        trace_say_losses(db, "main", stderr);

    sqlite3_close(db);
    report_free(&packed);
    amph_trace_free(&t);
    return ok ? 0 : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data of a page: a text in JSON, and columns; see report.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/report.h"

/* Above it the page's numbers are not exact, so that nothing is predicted from them. */
#define EXACT (INT64_C(1) << 52)

/* Columns of calls, and of sums of calls, in the order of the block. */
enum column {
    C_ID,
    C_THREAD,
    C_NAME,
    C_START, /* signed: from the call before */
    C_NS,    /* + 1; 0: it has not returned */
    C_FILE,
    C_FILE2,
    C_OFFSET,     /* signed: from the end of the last call on the file */
    C_HAS_OFFSET, /* 1: it has one; 2: computed from earlier calls */
    C_LENGTH,     /* + 1; 0: it has none */
    C_RESULT,     /* signed: from the length */
    C_ERRNO,
    C_FLAGS, /* + 1; 0: it has none */
    C_BITS,
    C_FD,     /* + 1; 0: it has none */
    C_PEER,   /* + 1; 0: it has none */
    C_SERVER, /* + 1; 0: no server was asked; the next three are for those that were */
    C_REQUESTS,
    C_SERVER_NS,
    C_QUEUE_NS,
    S_THREAD,
    S_NAME,
    S_FILE,
    S_SERVER,
    S_START,
    S_SPAN,
    S_CALLS,
    S_BYTES,
    S_NS,
    S_LONGEST,
    S_FAILED,
    S_REQUESTS,
    S_SERVER_NS,
    S_QUEUE_NS,
    S_SIZE_LOG2,
    S_NS_LOG2,
    S_OFFSET, /* + 1; 0: they have none */
    S_OFFSET_SPAN,
    S_SIDE,
    COLUMNS
};

static const char *const column_names[COLUMNS] = {
    "id",        "thread",        "name",        "start",      "ns",          "file",
    "file2",     "offset",        "hasOffset",   "length",     "result",      "errno",
    "flags",     "bits",          "fd",          "peer",       "server",      "requests",
    "serverNs",  "queueNs",       "sumThread",   "sumName",    "sumFile",     "sumServer",
    "sumStart",  "sumSpan",       "sumCalls",    "sumBytes",   "sumNs",       "sumLongest",
    "sumFailed", "sumRequests",   "sumServerNs", "sumQueueNs", "sumSizeLog2", "sumNsLog2",
    "sumOffset", "sumOffsetSpan", "sumSide"
};

enum {
    BIT_FAILED = 1,
    BIT_GIVEN = 2,
    SIDE_SHIFT = 2 /* the bits from here on are the side */
};

struct state {
    struct report_bytes column[COLUMNS];
    int64_t *file_end; /* of the last call, by file */
    int64_t start_ns;
    int64_t zero;
    size_t id;
};

static int64_t within(int64_t value)
{
    return value >= 0 && value < EXACT ? value : 0;
}

/* Numbers of a damaged file may be any. */
static int64_t difference(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static void put_place(struct state *s, const struct amph_trace_event *e)
{
    unsigned kind = 0;

    if (e->has & AMPH_TRACE_HAS_OFFSET)
        kind = 1;
    else if (e->has & AMPH_TRACE_HAS_POSITION)
        kind = 2;

    report_number(&s->column[C_HAS_OFFSET], kind);
    if (!kind)
        return;

    int64_t offset = within(e->offset);
    int64_t done = within(e->result);

    report_signed(&s->column[C_OFFSET], difference(e->offset, s->file_end[e->file]));
    s->file_end[e->file] = within(offset + done);
}

static uint64_t ns_of(const struct amph_trace_event *e)
{
    return (uint64_t)difference(e->end_ns, e->start_ns);
}

static void put_event(struct state *s, const struct amph_trace *t, size_t i, uint32_t thread)
{
    const struct amph_trace_event *e = &t->events[i];
    bool has_length = e->has & AMPH_TRACE_HAS_LENGTH;
    bool exact = has_length && e->length < (uint64_t)EXACT;
    bool has_flags = e->has & AMPH_TRACE_HAS_FLAGS;
    unsigned bits = (unsigned)e->side << SIDE_SHIFT;

    if (e->has & AMPH_TRACE_HAS_FAILED)
        bits |= BIT_FAILED;
    if (e->has & AMPH_TRACE_HAS_PATH)
        bits |= BIT_GIVEN;

    report_number(&s->column[C_ID], i + 1 - s->id);
    report_number(&s->column[C_THREAD], thread);
    report_number(&s->column[C_NAME], e->name);
    report_signed(&s->column[C_START], difference(e->start_ns, s->start_ns));
    report_number(&s->column[C_NS], e->end_ns ? ns_of(e) + 1 : 0);
    report_number(&s->column[C_FILE], e->file);
    report_number(&s->column[C_FILE2], e->file2);
    put_place(s, e);
    uint64_t length = exact ? e->length : (uint64_t)EXACT;

    report_number(&s->column[C_LENGTH], has_length ? length + 1 : 0);
    report_signed(&s->column[C_RESULT], difference(e->result, exact ? (int64_t)e->length : 0));
    report_number(&s->column[C_ERRNO], e->err);
    report_number(&s->column[C_FLAGS], has_flags ? (uint64_t)e->flags + 1 : 0);
    report_number(&s->column[C_BITS], bits);
    report_number(&s->column[C_FD], e->fd >= 0 ? (uint64_t)e->fd + 1 : 0);
    report_number(&s->column[C_PEER], e->peer >= 0 ? (uint64_t)e->peer + 1 : 0);
    report_number(&s->column[C_SERVER], e->requests ? (uint64_t)e->server + 1 : 0);
    if (e->requests) {
        report_number(&s->column[C_REQUESTS], e->requests);
        report_number(&s->column[C_SERVER_NS], e->server_ns);
        report_number(&s->column[C_QUEUE_NS], e->queue_ns);
    }

    s->start_ns = e->start_ns;
    s->id = i + 1;
}

static void put_sum(struct state *s, const struct report_sum *sum)
{
    report_number(&s->column[S_THREAD], sum->thread);
    report_number(&s->column[S_NAME], sum->name);
    report_number(&s->column[S_FILE], sum->file);
    report_number(&s->column[S_SERVER], sum->server);
    report_signed(&s->column[S_START], difference(sum->start_ns, s->zero));
    report_number(&s->column[S_SPAN], (uint64_t)difference(sum->end_ns, sum->start_ns));
    report_number(&s->column[S_CALLS], sum->calls);
    report_number(&s->column[S_BYTES], sum->bytes);
    report_number(&s->column[S_NS], sum->total_ns);
    report_number(&s->column[S_LONGEST], sum->longest_ns);
    report_number(&s->column[S_FAILED], sum->failed);
    report_number(&s->column[S_REQUESTS], sum->requests);
    report_number(&s->column[S_SERVER_NS], sum->server_ns);
    report_number(&s->column[S_QUEUE_NS], sum->queue_ns);
    report_number(&s->column[S_SIZE_LOG2], sum->size_log2);
    report_number(&s->column[S_NS_LOG2], sum->ns_log2);
    report_number(&s->column[S_OFFSET], sum->offset >= 0 ? (uint64_t)sum->offset + 1 : 0);
    report_number(&s->column[S_OFFSET_SPAN],
                  sum->offset >= 0 ? (uint64_t)difference(sum->offset_end, sum->offset) : 0);
    report_number(&s->column[S_SIDE], sum->side);
}

/* Sums that the recorder itself has made, beyond its budget. */
static void put_totals(struct state *s, const struct amph_trace *t,
                       const struct report_threads *threads)
{
    for (size_t i = 0; i < t->ntotals; i++) {
        const struct amph_trace_total *total = &t->totals[i];
        uint64_t calls = total->calls ? total->calls : 1;
        struct report_sum sum = { .thread = threads->of_process[total->process] - 1,
                                  .name = total->name,
                                  .file = total->file,
                                  .start_ns = total->first_ns,
                                  .end_ns = total->last_ns,
                                  .calls = total->calls,
                                  .bytes = total->bytes,
                                  .failed = total->errors,
                                  .total_ns = total->total_ns,
                                  .longest_ns = total->longest_ns,
                                  .offset = -1 };

        if (sum.end_ns < sum.start_ns)
            sum.end_ns = sum.start_ns;

        for (uint64_t each = sum.bytes / calls; each > 1; each >>= 1)
            sum.size_log2++;
        for (uint64_t each = sum.total_ns / calls; each > 1; each >>= 1)
            sum.ns_log2++;
        put_sum(s, &sum);
    }
}

static void put_errnos(struct report_bytes *json, const struct amph_trace *t)
{
    bool seen[UINT16_MAX + 1] = { false };
    const char *before = "";

    report_printf(json, ",\"errnos\":{");
    for (size_t i = 0; i < t->nevents; i++) {
        int err = t->events[i].err;

        if (!err || seen[err])
            continue;

        const char *name = strerrorname_np(err);

        seen[err] = true;
        report_printf(json, "%s\"%d\":[", before, err);
        report_string(json, name ? name : "?");
        report_put(json, ",", 1);
        report_string(json, strerror(err));
        report_put(json, "]", 1);
        before = ",";
    }

    report_put(json, "}", 1);
}

static void put_processes(struct report_bytes *json, const struct amph_trace *t, int64_t zero)
{
    report_printf(json, ",\"processes\":[");
    for (size_t i = 0; i < t->nprocesses; i++) {
        const struct amph_trace_process *p = &t->processes[i];

        report_printf(
            json, "%s{\"pid\":%d,\"ppid\":%d,\"rank\":%d,\"start\":%lld,\"host\":", i ? "," : "",
            p->pid, p->ppid, p->rank, (long long)difference(p->start_ns, zero));
        report_string(json, p->host);
        report_printf(json, ",\"exe\":");
        report_string(json, p->exe);
        report_printf(json, ",\"cwd\":");
        report_string(json, p->cwd);
        report_put(json, "}", 1);
    }

    report_put(json, "]", 1);
}

static void put_lists(struct report_bytes *json, const struct amph_trace *t,
                      const struct report_threads *threads)
{
    report_printf(json, ",\"threads\":[");
    for (size_t i = 0; i < threads->n; i++)
        report_printf(json, "%s[%u,%d]", i ? "," : "", threads->list[i].process,
                      threads->list[i].tid);

    report_printf(json, "],\"kinds\":[");
    for (size_t i = 0; i < AMPH_TRACE_CLASSES; i++) {
        report_put(json, ",", i > 0);
        report_string(json, amph_trace_class_names[i]);
    }

    report_printf(json, "],\"moves\":[");
    for (int i = 0; i < AMPH_TRACE_CLASSES; i++)
        report_printf(json, "%s%d", i ? "," : "", trace_moves((enum amph_trace_class)i));

    report_printf(json, "],\"sides\":[");
    for (size_t i = 0; i < AMPH_TRACE_SIDES; i++) {
        report_put(json, ",", i > 0);
        report_string(json, trace_sides[i]);
    }

    report_printf(json, "],\"names\":[");
    for (size_t i = 0; i < t->nnames; i++) {
        report_printf(json, "%s[", i ? "," : "");
        report_string(json, t->names[i]);
        report_printf(json, ",%d]", (int)amph_trace_class_of(t->names[i]));
    }

    report_printf(json, "],\"files\":[\"\"");
    for (size_t i = 1; i < t->nfiles; i++) {
        report_put(json, ",", 1);
        report_string(json, t->files[i]);
    }

    report_put(json, "]", 1);
}

static const char *cell(sqlite3_stmt *stmt, int column)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);

    return text ? text : "";
}

static bool put_findings(struct report_bytes *json, sqlite3 *db)
{
    static const char *const keys[] = { "finding", "remedy", "subject", "detail" };
    sqlite3_stmt *stmt = NULL;
    bool first = true;
    int code = sqlite3_prepare_v2(db,
                                  "SELECT finding, remedy, subject, detail, calls, coalesce(ns, 0) "
                                  "FROM findings ORDER BY ns DESC",
                                  -1, &stmt, NULL);

    report_printf(json, ",\"findings\":[");
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(stmt);
        if (code != SQLITE_ROW)
            break;

        report_printf(json, "%s{\"calls\":%lld,\"ns\":%lld,\"shows\":", first ? "" : ",",
                      (long long)sqlite3_column_int64(stmt, 4),
                      (long long)sqlite3_column_int64(stmt, 5));
        report_string(json, trace_finding_shows(cell(stmt, 0)));
        for (int i = 0; i < 4; i++) {
            report_put(json, ",", 1);
            report_string(json, keys[i]);
            report_put(json, ":", 1);
            report_string(json, cell(stmt, i));
        }

        report_put(json, "}", 1);
        first = false;
    }

    sqlite3_finalize(stmt);
    report_put(json, "]", 1);
    return code == SQLITE_DONE;
}

static void put_losses(struct report_bytes *json, const struct amph_trace *t,
                       const struct report_choice *choice, int64_t zero)
{
    report_printf(json, ",\"zero\":%lld,\"events\":%zu,\"sums\":%zu", (long long)zero,
                  choice->whole ? choice->nwhole : t->nevents, choice->nsums + t->ntotals);
    report_printf(json, ",\"budgetSums\":%zu,\"droppedCalls\":%llu,\"summedCalls\":%llu",
                  t->ntotals, (unsigned long long)t->dropped_calls,
                  (unsigned long long)t->summed_calls);
    report_printf(json, ",\"droppedTexts\":%llu,\"unfinished\":%llu",
                  (unsigned long long)t->dropped_texts, (unsigned long long)t->unfinished);
    if (!choice->whole)
        return;

    report_printf(json, ",\"left\":{\"calls\":%zu,\"parts\":%u,\"slowestNs\":%llu",
                  t->nevents - choice->nwhole, choice->parts,
                  (unsigned long long)choice->slowest_ns);
    report_printf(json, ",\"failed\":%llu,\"filesMerged\":%zu}",
                  (unsigned long long)choice->failed_left, choice->files_merged);
}

/* A column of zeros is left out. */
static bool is_zero(const struct report_bytes *column)
{
    for (size_t i = 0; i < column->len; i++)
        if (column->at[i])
            return false;

    return true;
}

/* Empties the columns that the page can do without: numbers that count from 1, and zeros. */
static void drop_columns(struct state *s, bool whole)
{
    if (!whole)
        s->column[C_ID].len = 0;

    for (int i = 0; i < COLUMNS; i++)
        if (is_zero(&s->column[i]))
            s->column[i].len = 0;
}

static void put_column_lengths(struct report_bytes *json, const struct state *s)
{
    report_printf(json, ",\"columns\":[");
    for (int i = 0; i < COLUMNS; i++)
        report_printf(json, "%s[\"%s\",%zu]", i ? "," : "", column_names[i], s->column[i].len);

    report_printf(json, "]");
}

/* Appends part to data, and frees it. */
static void move_part(struct report_bytes *data, struct report_bytes *part)
{
    report_put(data, part->at, part->len);
    data->failed |= part->failed;
    report_free(part);
}

bool report_data(const struct amph_trace *t, sqlite3 *db, const char *dir,
                 const struct report_threads *threads, const struct report_choice *choice,
                 struct report_bytes *data)
{
    struct state s = { .zero = trace_zero(t) };
    struct report_bytes json = { 0 };
    size_t n = choice->whole ? choice->nwhole : t->nevents;
    bool ok = (s.file_end = calloc(t->nfiles + 1, sizeof *s.file_end)) != NULL;

    s.start_ns = s.zero;
    for (size_t k = 0; ok && k < n; k++) {
        size_t i = choice->whole ? choice->whole[k] : k;

        put_event(&s, t, i, threads->of_event[i]);
    }

    put_totals(&s, t, threads);
    for (size_t i = 0; i < choice->nsums; i++)
        put_sum(&s, &choice->sums[i]);

    report_printf(&json, "{\"tool\":");
    report_string(&json, PACKAGE_NAME " " PACKAGE_VERSION);
    report_printf(&json, ",\"folder\":");
    report_string(&json, dir);
    put_losses(&json, t, choice, s.zero);
    put_processes(&json, t, s.zero);
    put_lists(&json, t, threads);
    put_errnos(&json, t);
    ok = put_findings(&json, db) && ok;

    drop_columns(&s, choice->whole);
    put_column_lengths(&json, &s);
    report_printf(&json, "}");

    const unsigned char head[4] = { (unsigned char)json.len, (unsigned char)(json.len >> 8),
                                    (unsigned char)(json.len >> 16),
                                    (unsigned char)(json.len >> 24) };

    report_put(data, head, sizeof head);
    move_part(data, &json);
    for (int i = 0; i < COLUMNS; i++)
        move_part(data, &s.column[i]);

    free(s.file_end);
    return ok && !data->failed;
}

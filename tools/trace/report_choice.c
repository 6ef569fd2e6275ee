/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a page holds of a run that is too long for it: errors and the slowest calls as they are, the
 * others as sums; see report.h.
 *
 * Layer: tools.  Thread rule: one thread.
 *
 * A sum is of one thread, call, file, server, part of the run, size and duration (in powers of two).
 * The run is divided into fewer parts until the sums are few enough; then the files with the fewest
 * calls become one, and at last all files.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/report.h"

enum {
    MAX_PARTS = 2048,
    KEPT_FILES = 2000 /* when files are merged */
};

/* ---- threads ---- */

static uint32_t thread_hash(uint32_t process, int32_t tid)
{
    uint64_t h = ((uint64_t)process << 32 | (uint32_t)tid) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(h >> 32);
}

static bool one_more_thread(struct report_threads *threads, uint32_t process, int32_t tid)
{
    if (threads->n == threads->room) {
        size_t room = threads->room ? threads->room * 2 : 64;
        struct report_thread *longer = realloc(threads->list, room * sizeof *longer);

        if (!longer)
            return false;

        threads->list = longer;
        threads->room = room;
    }

    threads->list[threads->n++] = (struct report_thread){ process, tid };
    return true;
}

bool report_find_threads(const struct amph_trace *t, struct report_threads *threads)
{
    size_t room = 64;

    while (room < 2 * (t->nprocesses + t->nevents) && room < (1u << 24))
        room *= 2;

    uint32_t *slots = calloc(room, sizeof *slots); /* number of the thread + 1 */
    bool ok = slots && (threads->of_event = malloc((t->nevents + 1) * sizeof(uint32_t)));

    for (size_t i = 0; ok && i < t->nevents; i++) {
        const struct amph_trace_event *e = &t->events[i];
        size_t at = thread_hash(e->process, e->tid) & (room - 1);

        while (slots[at] && (threads->list[slots[at] - 1].process != e->process ||
                             threads->list[slots[at] - 1].tid != e->tid))
            at = (at + 1) & (room - 1);

        if (!slots[at]) {
            ok = threads->n + 1 < room && one_more_thread(threads, e->process, e->tid);
            slots[at] = (uint32_t)threads->n;
        }

        threads->of_event[i] = slots[at] - 1;
    }

    ok = ok && (threads->of_process = calloc(t->nprocesses + 1, sizeof(uint32_t)));
    for (size_t i = threads->n; ok && i-- > 0;)
        threads->of_process[threads->list[i].process] = (uint32_t)i + 1;

    /* what is in the recorder's sums only has a process without a thread */
    for (size_t i = 0; ok && i < t->ntotals; i++) {
        uint32_t p = t->totals[i].process;

        if (!threads->of_process[p]) {
            ok = one_more_thread(threads, p, t->processes[p].pid);
            threads->of_process[p] = (uint32_t)threads->n;
        }
    }

    free(slots);
    return ok;
}

void report_free_threads(struct report_threads *threads)
{
    free(threads->of_event);
    free(threads->of_process);
    free(threads->list);
    *threads = (struct report_threads){ 0 };
}

/* ---- whole events ---- */

static uint64_t duration(const struct amph_trace_event *e)
{
    return e->end_ns ? (uint64_t)e->end_ns - (uint64_t)e->start_ns : 0;
}

/* A call that failed, or had not returned. */
static bool is_special(const struct amph_trace_event *e)
{
    return (e->has & AMPH_TRACE_HAS_FAILED) || !e->end_ns;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

/* The duration from which on there are at most *n_p calls of a kind; *n_p becomes their number at
 * most. */
static uint64_t limit_of(const struct amph_trace *t, bool special, size_t *n_p, uint64_t *room)
{
    size_t count = 0;

    for (size_t i = 0; i < t->nevents; i++)
        if (is_special(&t->events[i]) == special)
            room[count++] = duration(&t->events[i]);

    if (count <= *n_p) {
        *n_p = count;
        return 0;
    }

    qsort(room, count, sizeof *room, by_size);
    return room[count - *n_p - 1] + 1;
}

static bool choose_whole(const struct amph_trace *t, size_t whole, struct report_choice *choice)
{
    uint64_t *room = malloc((t->nevents + 1) * sizeof *room);
    bool ok = room && (choice->whole = malloc((whole + 1) * sizeof *choice->whole));

    if (ok) {
        size_t special_room = whole / 2; /* the slowest calls get what they leave */
        uint64_t special_ns = limit_of(t, true, &special_room, room);
        size_t slow_room = whole - special_room;

        choice->slowest_ns = limit_of(t, false, &slow_room, room);
        for (size_t i = 0; i < t->nevents; i++) {
            const struct amph_trace_event *e = &t->events[i];
            bool special = is_special(e);

            if (duration(e) >= (special ? special_ns : choice->slowest_ns))
                choice->whole[choice->nwhole++] = i;
            else
                choice->failed_left += special;
        }
    }

    free(room);
    return ok;
}

/* ---- sums ---- */

struct table {
    struct report_sum *rows;
    uint32_t *slots; /* number of the row + 1 */
    size_t n, max, room;
};

static bool same_row(const struct report_sum *a, const struct report_sum *b)
{
    return a->thread == b->thread && a->name == b->name && a->file == b->file &&
           a->server == b->server && a->part == b->part && a->size_log2 == b->size_log2 &&
           a->ns_log2 == b->ns_log2 && a->side == b->side;
}

static size_t row_hash(const struct report_sum *s)
{
    const uint64_t parts[] = {
        s->thread, s->name, s->file,
        s->server, s->part, (uint64_t)s->size_log2 << 16 | (uint64_t)s->ns_log2 << 8 | s->side
    };
    uint64_t h = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        h = (h ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;

    return (size_t)(h ^ h >> 32);
}

/* The row of a key.  NULL: there are too many. */
static struct report_sum *row_of(struct table *table, const struct report_sum *key)
{
    size_t at = row_hash(key) & (table->room - 1);

    while (table->slots[at] && !same_row(&table->rows[table->slots[at] - 1], key))
        at = (at + 1) & (table->room - 1);

    if (table->slots[at])
        return &table->rows[table->slots[at] - 1];
    if (table->n == table->max)
        return NULL;

    table->rows[table->n] = *key;
    table->slots[at] = (uint32_t)++table->n;
    return &table->rows[table->n - 1];
}

static uint8_t log2_of(uint64_t value)
{
    uint8_t log = 0;

    for (; value > 1; value >>= 1)
        log++;

    return log;
}

static uint64_t moved(const struct amph_trace_event *e, const enum amph_trace_class *classes)
{
    return trace_moves(classes[e->name]) && e->result > 0 ? (uint64_t)e->result : 0;
}

static void add(struct report_sum *row, const struct amph_trace_event *e, uint64_t bytes)
{
    bool placed = e->has & (AMPH_TRACE_HAS_OFFSET | AMPH_TRACE_HAS_POSITION);

    if (row->calls == 0 || e->start_ns < row->start_ns)
        row->start_ns = e->start_ns;
    if (row->calls == 0 || e->end_ns > row->end_ns)
        row->end_ns = e->end_ns > row->start_ns ? e->end_ns : row->start_ns;
    if (duration(e) > row->longest_ns)
        row->longest_ns = duration(e);

    if (bytes && placed && e->offset >= 0 && e->offset < INT64_MAX - (int64_t)bytes) {
        int64_t end = e->offset + (int64_t)bytes;

        if (row->offset < 0 || e->offset < row->offset)
            row->offset = e->offset;
        if (end > row->offset_end)
            row->offset_end = end;
    }

    row->calls++;
    row->bytes += bytes;
    row->total_ns += duration(e);
    row->failed += (e->has & AMPH_TRACE_HAS_FAILED) != 0;
    row->requests += e->requests;
    row->server_ns += e->server_ns;
    row->queue_ns += e->queue_ns;
}

struct division {
    unsigned parts;
    bool sizes;            /* apart by size and duration */
    const uint32_t *files; /* by file: what it becomes; NULL: what it is */
};

static bool sum_up(const struct amph_trace *t, const struct report_threads *threads,
                   const struct report_choice *choice, const struct division *division,
                   const enum amph_trace_class *classes, struct table *table)
{
    double first = (double)t->events[0].start_ns;
    double span = (double)t->events[t->nevents - 1].start_ns - first + 1;
    size_t next = 0;

    memset(table->slots, 0, table->room * sizeof *table->slots);
    table->n = 0;
    for (size_t i = 0; i < t->nevents; i++) {
        const struct amph_trace_event *e = &t->events[i];

        if (next < choice->nwhole && choice->whole[next] == i) {
            next++;
            continue;
        }

        uint64_t bytes = moved(e, classes);
        struct report_sum key = { .thread = threads->of_event[i],
                                  .name = e->name,
                                  .file = division->files ? division->files[e->file] : e->file,
                                  .server = e->requests ? e->server + 1 : 0,
                                  .part = (uint32_t)(((double)e->start_ns - first) / span *
                                                     division->parts),
                                  .side = e->side,
                                  .offset = -1 };

        if (division->sizes) {
            key.size_log2 = log2_of(bytes);
            key.ns_log2 = log2_of(duration(e));
        }

        struct report_sum *row = row_of(table, &key);

        if (!row)
            return false;

        add(row, e, bytes);
    }

    return true;
}

/* files[f]: f for those that have the most calls, 0 for the others. */
static size_t merge_files(const struct amph_trace *t, uint32_t *files, uint64_t *room)
{
    uint64_t *calls = room;
    uint64_t *sorted = room + t->nfiles;
    size_t merged = 0;

    memset(calls, 0, t->nfiles * sizeof *calls);
    for (size_t i = 0; i < t->nevents; i++)
        calls[t->events[i].file]++;

    memcpy(sorted, calls, t->nfiles * sizeof *calls);
    qsort(sorted, t->nfiles, sizeof *sorted, by_size);

    uint64_t min = t->nfiles > KEPT_FILES ? sorted[t->nfiles - KEPT_FILES] + 1 : 0;

    for (size_t f = 0; f < t->nfiles; f++) {
        files[f] = calls[f] >= min ? (uint32_t)f : 0;
        merged += files[f] != f;
    }

    return merged;
}

/* The mean takes the place of sizes and durations that are not kept apart. */
static void take_means(struct report_sum *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rows[i].size_log2 = log2_of(rows[i].bytes / rows[i].calls);
        rows[i].ns_log2 = log2_of(rows[i].total_ns / rows[i].calls);
    }
}

bool report_choose(const struct amph_trace *t, const struct report_threads *threads, size_t whole,
                   size_t sums, struct report_choice *choice)
{
    struct table table = { .max = sums, .room = 64 };
    enum amph_trace_class *classes = malloc((t->nnames + 1) * sizeof *classes);
    uint32_t *files = malloc((t->nfiles + 1) * sizeof *files);
    uint64_t *room = malloc((t->nfiles + 1) * 2 * sizeof *room);

    while (table.room < 2 * sums)
        table.room *= 2;

    table.rows = malloc((sums + 1) * sizeof *table.rows);
    table.slots = malloc(table.room * sizeof *table.slots);

    bool ok = classes && files && room && table.rows && table.slots &&
              choose_whole(t, whole, choice);
    bool fits = false;
    struct division division = { .parts = MAX_PARTS, .sizes = true };

    for (size_t i = 0; ok && i < t->nnames; i++)
        classes[i] = amph_trace_class_of(t->names[i]);

    for (; ok && !fits && division.parts; division.parts /= 4) {
        choice->parts = division.parts;
        fits = sum_up(t, threads, choice, &division, classes, &table);
    }

    /* then fewer files, and at last one, in a few parts */
    for (int step = 0; ok && !fits && step < 2; step++) {
        if (step == 0)
            choice->files_merged = merge_files(t, files, room);
        else {
            memset(files, 0, t->nfiles * sizeof *files);
            choice->files_merged = t->nfiles;
        }

        division = (struct division){ .parts = 32, .sizes = false, .files = files };
        choice->parts = division.parts;
        fits = sum_up(t, threads, choice, &division, classes, &table);
        if (fits)
            take_means(table.rows, table.n);
    }

    if (fits) {
        choice->sums = table.rows;
        choice->nsums = table.n;
        table.rows = NULL;
    }

    free(classes);
    free(files);
    free(room);
    free(table.rows);
    free(table.slots);
    return fits;
}

void report_free_choice(struct report_choice *choice)
{
    free(choice->whole);
    free(choice->sums);
    *choice = (struct report_choice){ 0 };
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watching servers: what iofwd-ctl asks on a control connection, and the encoding of the answers.
 *
 * Layer: iofwd.  Thread rule: pure functions on the caller's memory.
 *
 * A connection becomes a watcher's by HELLO of kind FWD_HELLO_WATCH, whose proof shows the job's key.
 * Then the watcher sends QUERY frames, one at a time, and gets one ANSWER to each, or REFUSE with a
 * sentence, which ends the connection:
 *
 *   QUERY   u8 query (enum amph_fwd_watch), u64 cursor (0: from the beginning), text
 *   ANSWER  u8 query, u64 cursor of the next page (FWD_WATCH_END: this is the last), items
 *
 * An answer is one frame, so a long list takes several queries and no server queues output.  Items
 * carry their names: a reader shows what it does not know as it is, so that servers and watchers of
 * different builds understand each other.
 */
#ifndef AMPH_IOFWD_WATCH_H
#define AMPH_IOFWD_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire.h"
#include "iofwd/wire/request_name.h"
#include "iofwd/wire/watch_columns.h"

enum amph_fwd_watch {
    FWD_WATCH_STATUS = 1, /* texts, counters, histogram of the server */
    FWD_WATCH_CLIENTS,    /* a row for each client */
    FWD_WATCH_FILES,      /* a row for each open file */
    FWD_WATCH_FINAL,      /* STATUS when the server ends: the answer comes then */
    FWD_WATCH_DRAIN,      /* take no further clients, end with the last one */
    FWD_WATCH_STOP,       /* end now */
    FWD_WATCH_SET,        /* text NAME=VALUE: a setting's new value; "": open the log file again */
    FWD_WATCH_CLOCK,      /* the server's clock at this moment, answered at once (base/os/host_clock.h) */
    FWD_WATCH_COUNT
};

#define FWD_WATCH_END UINT64_MAX
#define FWD_WATCH_NAME_MAX 32   /* bytes of an item's name, with its NUL */
#define FWD_WATCH_TEXT_MAX 1024 /* bytes of a text; longer ones are cut */
#define FWD_WATCH_QUERY_BYTES 9 /* without the text */

/* ---- latency: a histogram with four buckets for each factor of two ---- */

#define FWD_WATCH_LATENCY_FIRST 7 /* the first factor of two: below 128 ns is one bucket */
#define FWD_WATCH_LATENCY_BUCKETS 129

struct amph_fwd_latency {
    uint64_t count[FWD_WATCH_LATENCY_BUCKETS];
    uint64_t sum_ns;
};

static inline unsigned amph_fwd_latency_bucket(uint64_t ns)
{
    if (ns < UINT64_C(1) << FWD_WATCH_LATENCY_FIRST)
        return 0;

    unsigned exponent = 63 - (unsigned)__builtin_clzll(ns);
    unsigned quarter = (unsigned)(ns >> (exponent - 2)) & 3;
    unsigned i = 1 + 4 * (exponent - FWD_WATCH_LATENCY_FIRST) + quarter;

    return i < FWD_WATCH_LATENCY_BUCKETS ? i : FWD_WATCH_LATENCY_BUCKETS - 1;
}

/* The smallest time that no longer belongs to bucket i. */
static inline uint64_t amph_fwd_latency_above_ns(unsigned i)
{
    return (uint64_t)(4 + i % 4) << (FWD_WATCH_LATENCY_FIRST - 2 + i / 4);
}

/* Adds a request's time.  One thread writes, others may read at any moment. */
static inline void amph_fwd_latency_add(struct amph_fwd_latency *l, uint64_t ns)
{
    uint64_t *count = &l->count[amph_fwd_latency_bucket(ns)];

    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&l->sum_ns, __atomic_load_n(&l->sum_ns, __ATOMIC_RELAXED) + ns,
                     __ATOMIC_RELAXED);
}

/* The time that a share of the requests (0.5: the median) do not exceed, in ns; 0: no requests. */
double amph_fwd_latency_share_ns(const struct amph_fwd_latency *l, double share);

/* ---- columns of clients and files (watch_columns.h) ---- */

enum amph_fwd_column_id {
#define FWD_COLUMN_ID(id, ...) FWD_COLUMN_##id,
    FWD_WATCH_COLUMNS(FWD_COLUMN_ID)
#undef FWD_COLUMN_ID
    FWD_COLUMN_COUNT
};

enum amph_fwd_column_form {
    FWD_FORM_NUMBER,
    FWD_FORM_COUNT,
    FWD_FORM_BYTES,
    FWD_FORM_LEVEL_BYTES,
    FWD_FORM_TEXT,
    FWD_FORM_LATENCY
};

struct amph_fwd_column {
    const char *name, *title;
    enum amph_fwd_column_form form;
    enum amph_fwd_watch list;
    const char *help;
};

extern const struct amph_fwd_column amph_fwd_columns[FWD_COLUMN_COUNT];

/* ---- items ---- */

enum amph_fwd_item_kind {
    FWD_ITEM_ROW = 'r', /* the items after it belong to a new row */
    FWD_ITEM_VALUE = 'v',
    FWD_ITEM_TEXT = 't',
    FWD_ITEM_LATENCY = 'l'
};

/* An item as read; the texts are copies, so they end with a NUL. */
struct amph_fwd_item {
    uint8_t kind;
    char name[FWD_WATCH_NAME_MAX];
    uint64_t value;
    char text[FWD_WATCH_TEXT_MAX];
    struct amph_fwd_latency latency;
};

void amph_fwd_watch_put_row(struct amph_wr *w);
void amph_fwd_watch_put_value(struct amph_wr *w, const char *name, uint64_t value);
void amph_fwd_watch_put_text(struct amph_wr *w, const char *name, const char *text);
void amph_fwd_watch_put_latency(struct amph_wr *w, const char *name,
                                const struct amph_fwd_latency *l);

/* Reads the next item.  false: no more items, or r->bad. */
bool amph_fwd_watch_next(struct amph_rd *r, struct amph_fwd_item *item_p);

#endif

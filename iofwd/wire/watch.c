/* SPDX-License-Identifier: BSD-3-Clause */
/* The encoding of reports to watchers; see wire/watch.h.  Layer: iofwd. */
#include "iofwd/wire/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct amph_fwd_column amph_fwd_columns[FWD_COLUMN_COUNT] = {
#define COLUMN(id, name, title, form, list, help) \
    { name, title, FWD_FORM_##form, FWD_WATCH_##list, help },
    FWD_WATCH_COLUMNS(COLUMN)
#undef COLUMN
};

double amph_fwd_latency_share_ns(const struct amph_fwd_latency *l, double share)
{
    double all = 0;
    double seen = 0;

    for (unsigned i = 0; i < FWD_WATCH_LATENCY_BUCKETS; i++)
        all += (double)l->count[i];

    if (all == 0)
        return 0;

    for (unsigned i = 0; i < FWD_WATCH_LATENCY_BUCKETS; i++) {
        double here = (double)l->count[i];
        double below = i ? (double)amph_fwd_latency_above_ns(i - 1) : 0;
        double above = (double)amph_fwd_latency_above_ns(i);

        if (here > 0 && seen + here >= share * all)
            return below + (above - below) * (share * all - seen) / here;

        seen += here;
    }

    return (double)amph_fwd_latency_above_ns(FWD_WATCH_LATENCY_BUCKETS - 1);
}

static void put_head(struct amph_wr *w, enum amph_fwd_item_kind kind, const char *name)
{
    size_t len = strnlen(name, FWD_WATCH_NAME_MAX - 1);

    amph_wr_u8(w, (uint8_t)kind);
    amph_wr_u8(w, (uint8_t)len);
    amph_wr_bytes(w, name, len);
}

void amph_fwd_watch_put_row(struct amph_wr *w)
{
    put_head(w, FWD_ITEM_ROW, "");
}

void amph_fwd_watch_put_value(struct amph_wr *w, const char *name, uint64_t value)
{
    put_head(w, FWD_ITEM_VALUE, name);
    amph_wr_u64(w, value);
}

void amph_fwd_watch_put_text(struct amph_wr *w, const char *name, const char *text)
{
    size_t len = strnlen(text, FWD_WATCH_TEXT_MAX - 1);

    put_head(w, FWD_ITEM_TEXT, name);
    amph_wr_u16(w, (uint16_t)len);
    amph_wr_bytes(w, text, len);
}

void amph_fwd_watch_put_latency(struct amph_wr *w, const char *name,
                                const struct amph_fwd_latency *l)
{
    uint64_t count[FWD_WATCH_LATENCY_BUCKETS];
    uint16_t used = 0;

    for (unsigned i = 0; i < FWD_WATCH_LATENCY_BUCKETS; i++) {
        count[i] = __atomic_load_n(&l->count[i], __ATOMIC_RELAXED);
        used += count[i] != 0;
    }

    put_head(w, FWD_ITEM_LATENCY, name);
    amph_wr_u64(w, __atomic_load_n(&l->sum_ns, __ATOMIC_RELAXED));
    amph_wr_u16(w, used);

    for (unsigned i = 0; i < FWD_WATCH_LATENCY_BUCKETS; i++)
        if (count[i]) {
            amph_wr_u8(w, (uint8_t)i);
            amph_wr_u64(w, count[i]);
        }
}

/* ---- reading ---- */

static void take_text(struct amph_rd *r, char *out, size_t room, size_t len)
{
    const void *bytes = len < room ? amph_rd_bytes(r, len) : NULL;

    r->bad = r->bad || !bytes || memchr(bytes, 0, len);
    if (r->bad)
        return;

    memcpy(out, bytes, len);
    out[len] = 0;
}

static void take_latency(struct amph_rd *r, struct amph_fwd_latency *l)
{
    memset(l, 0, sizeof *l);
    l->sum_ns = amph_rd_u64(r);

    for (unsigned n = amph_rd_u16(r); n > 0 && !r->bad; n--) {
        unsigned i = amph_rd_u8(r);
        uint64_t count = amph_rd_u64(r);

        r->bad = r->bad || i >= FWD_WATCH_LATENCY_BUCKETS;
        if (!r->bad)
            l->count[i] = count;
    }
}

bool amph_fwd_watch_next(struct amph_rd *r, struct amph_fwd_item *item)
{
    if (r->bad || amph_rd_left(r) == 0)
        return false;

    item->kind = amph_rd_u8(r);
    item->value = 0;
    item->text[0] = 0;
    take_text(r, item->name, sizeof item->name, amph_rd_u8(r));

    if (item->kind == FWD_ITEM_VALUE)
        item->value = amph_rd_u64(r);
    else if (item->kind == FWD_ITEM_TEXT)
        take_text(r, item->text, sizeof item->text, amph_rd_u16(r));
    else if (item->kind == FWD_ITEM_LATENCY)
        take_latency(r, &item->latency);
    else
        r->bad = r->bad || item->kind != FWD_ITEM_ROW;

    return !r->bad;
}

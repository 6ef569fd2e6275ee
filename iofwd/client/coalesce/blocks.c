/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers the data of one sequence of small calls in blocks (coalesce/coalesce.c decides which
 * calls form a sequence).  Writes fill a block, which is a slot of the transfer area if one is
 * free; a full block is sent while the next one is filled.  Reads are fetched ahead in the same
 * blocks.
 *
 * Layer: iofwd.  Thread rule: the caller owns the coalescer.
 */
#include "iofwd/client/coalesce/blocks.h"
#include "iofwd/client/state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/env.h"

#define SLOT_BLOCK ((size_t)128 << 10)
#define HEAP_BLOCK \
    ((size_t)1 \
     << 20) /* without slots: the server does not map the transfer area, or the file is striped */

static struct block *block_at(struct coalescer *c, unsigned i)
{
    return &c->ring[(c->head + i) % BLOCKS_MAX];
}

static uint8_t *block_memory(const struct coalescer *c, const struct block *b)
{
    return c->on_heap ? c->heap : c->link->part + (size_t)b->slot * c->cl->piece;
}

/* Takes a free slot of the link.  All coalescers together hold at most a quarter of the slots,
 * because large calls wait for slots and coalescers do not. */
static bool slot_take(struct coalescer *c, unsigned *slot_p)
{
    uint64_t bits = atomic_load_explicit(&c->link->slots, memory_order_relaxed);

    if (atomic_fetch_add(&amph_client_coalesce.slots_held, 1) < c->cl->nslots / 4)
        while (bits)
            if (atomic_compare_exchange_weak_explicit(&c->link->slots, &bits, bits & (bits - 1),
                                                      memory_order_acquire, memory_order_relaxed)) {
                *slot_p = (unsigned)__builtin_ctzll(bits);
                return true;
            }

    atomic_fetch_sub(&amph_client_coalesce.slots_held, 1);
    return false;
}

static void slot_give(struct coalescer *c, unsigned slot)
{
    atomic_fetch_or_explicit(&c->link->slots, UINT64_C(1) << slot, memory_order_release);
    atomic_fetch_sub(&amph_client_coalesce.slots_held, 1);
}

void amph_client_blocks_error(struct coalescer *c, int err)
{
    if (err && !c->late)
        c->late = err;
}

/* Sends a block.  Returns 0, or an errno value if nothing was sent. */
static int block_send(struct coalescer *c, struct block *b)
{
    struct amph_fwd_bulk bulk = { .where = FWD_AREA,
                                  .flags = FWD_PIECE_FIRST | FWD_PIECE_LAST,
                                  .len = (uint32_t)b->len,
                                  .at = (uint64_t)b->slot * c->cl->piece };

    b->pend = amph_client_pending_acquire(c->cl);
    bulk.op = (uint32_t)b->pend->seq;

    struct amph_client_data d = { .file = &c->file,
                                  .off = b->off,
                                  .done_p = &b->pend->got,
                                  .reads = c->mode == READING,
                                  .placed = c->mode == READING || !c->append };

    b->pend->desc = &amph_fwd_calls[amph_client_data_record(&d, &b->args)];
    b->pend->args = &b->args;
    b->pend->want = b->len;

    int err = amph_client_pending_send(c->cl, c->link, b->pend, &bulk, NULL);

    if (err) {
        amph_client_pending_release(c->cl, b->pend);
        b->pend = NULL;
    }

    return err;
}

/* Writes the rest of a block by ordinary calls, which also handle striped files and return the
 * server's error. */
static int write_rest(struct coalescer *c, const struct block *b, size_t at)
{
    uint8_t *data = block_memory(c, b);

    for (size_t done; at < b->len; at += done) {
        union amph_fwd_args u;
        struct amph_client_data d = { .file = &c->file,
                                      .off = b->off + (off_t)at,
                                      .data = data + at,
                                      .len = b->len - at,
                                      .done_p = &done,
                                      .placed = !c->append };

        done = 0;

        int err = amph_client_call(c->cl, amph_client_data_record(&d, &u), &u);

        /* the program's calls have returned, so only this loop can retry */
        if (err != EINTR && (err || done == 0))
            return err ? err : EIO;
    }

    return 0;
}

/* Waits for a block in flight. */
static void block_wait(struct coalescer *c, struct block *b, struct amph_client_sigguard *g)
{
    if (!b->pend)
        return;

    int err = amph_client_pending_wait(c->cl, c->link, b->pend, g);

    b->got = err || b->pend->got > b->len ? 0 : b->pend->got;
    b->back = true;
    amph_client_pending_release(c->cl, b->pend);
    b->pend = NULL;

    /* The server may have died: bytes it has not acknowledged go to the next one. */
    bool again = err == EINTR || (err == EIO && c->cl->failover && !c->append);

    if (c->mode == WRITING && b->got < b->len && (!err || again))
        err = write_rest(c, b, b->got);

    if (c->mode == WRITING)
        amph_client_blocks_error(c, err);
    else if (b->got < b->len)
        c->ended = true;
}

/* Removes the head block. */
static void drop_head(struct coalescer *c)
{
    if (!c->on_heap)
        slot_give(c, block_at(c, 0)->slot);

    c->head = (c->head + 1) % BLOCKS_MAX;
    c->n--;
    c->taken = 0;
}

/* Adds a block at the tail.  NULL: no free slot. */
static struct block *add_block(struct coalescer *c, off_t off)
{
    unsigned slot = 0;

    if (c->n >= c->blocks_max || (!c->on_heap && !slot_take(c, &slot)))
        return NULL;

    struct block *b = block_at(c, c->n++);

    *b = (struct block){ .slot = slot, .off = off };
    return b;
}

static bool go_to_heap(struct coalescer *c)
{
    c->on_heap = true;
    c->block_bytes = HEAP_BLOCK;
    c->blocks_max = 1;
    return c->heap || (c->heap = malloc(HEAP_BLOCK));
}

bool amph_client_blocks_room(struct coalescer *c)
{
    if (amph_client_link_to(c->cl, c->server, &c->link))
        return false;
    if (c->file.nparts > 1 || !c->link->part ||
        atomic_load(&amph_client_coalesce.slots_held) >= c->cl->nslots / 4)
        return go_to_heap(c);

    c->on_heap = false;
    c->block_bytes = c->cl->piece < SLOT_BLOCK ? c->cl->piece : SLOT_BLOCK;

    int64_t limit = amph_env_int(AMPH_ENV_IOFWD_BLOCKS);

    c->blocks_max = limit < BLOCKS_MAX ? (unsigned)limit : BLOCKS_MAX;
    return true;
}

/* Sends the block that is being filled. */
static void flush(struct coalescer *c)
{
    struct block *b = c->n ? block_at(c, c->n - 1) : NULL;
    struct amph_client_sigguard g;

    if (c->mode != WRITING || !b || b->pend || b->back || !b->len)
        return;

    if (c->on_heap) {
        amph_client_blocks_error(c, write_rest(c, b, 0));
        drop_head(c);
        return;
    }

    amph_client_sigguard_enter(&g);

    int err = block_send(c, b);

    if (err) {
        /* nothing has been sent */
        amph_client_blocks_error(c, c->cl->failover ? write_rest(c, b, 0) : err);
        b->back = true;
    }

    amph_client_sigguard_leave(&g);
}

static void drain(struct coalescer *c)
{
    struct amph_client_sigguard g;

    if (!c->n)
        return;

    amph_client_sigguard_enter(&g);
    while (c->n) {
        block_wait(c, block_at(c, 0), &g);
        drop_head(c);
    }

    amph_client_sigguard_leave(&g);
}

void amph_client_blocks_flush(struct coalescer *c)
{
    flush(c);
    drain(c);
}

bool amph_client_blocks_touch(struct coalescer *c, off_t from, off_t to)
{
    const struct block *tail = c->n ? block_at(c, c->n - 1) : NULL;

    if (!tail || from >= to)
        return false;
    if (c->mode == WRITING)
        return c->append || (from < c->pos && to > block_at(c, 0)->off);

    /* a short block ended at the end of the file, which a write may move */
    bool whole = tail->back && tail->got == tail->len;

    return to > c->pos && (!whole || from < tail->off + (off_t)tail->len);
}

bool amph_client_blocks_hold(struct coalescer *c, size_t len)
{
    const struct block *head = c->n ? block_at(c, 0) : NULL;
    return head && c->mode == READING && head->back && len <= head->got - c->taken;
}

void amph_client_blocks_forget(void)
{
    atomic_store(&amph_client_coalesce.slots_held, 0);
}

/* ---- writing ---- */

/* Returns the block that is being filled.  Adds one if necessary, which may wait for the
 * oldest block in flight.  NULL: no slot and no memory. */
static struct block *filling_block(struct coalescer *c)
{
    struct block *b = c->n ? block_at(c, c->n - 1) : NULL;
    struct amph_client_sigguard g;

    if (b && !b->pend && !b->back && b->len < c->block_bytes)
        return b;

    flush(c);
    if ((b = add_block(c, c->pos)))
        return b;

    if (c->n) {
        amph_client_sigguard_enter(&g);
        block_wait(c, block_at(c, 0), &g);
        drop_head(c);
        amph_client_sigguard_leave(&g);
        if ((b = add_block(c, c->pos)))
            return b;

        drain(c);
    }

    return go_to_heap(c) ? add_block(c, c->pos) : NULL; /* other files hold all slots */
}

bool amph_client_blocks_append(struct coalescer *c, const struct amph_client_data *d)
{
    size_t done = 0;
    size_t len = d->len;

    /* Other processes may append too, so the bytes of one call stay in one block. */
    struct block *tail = c->append && c->n ? block_at(c, c->n - 1) : NULL;
    if (c->append && len > c->block_bytes)
        return false;

    if (tail && tail->len + len > c->block_bytes)
        flush(c);

    while (done < len) {
        struct block *b = filling_block(c);

        if (!b)
            break;

        size_t n = c->block_bytes - b->len < len - done ? c->block_bytes - b->len : len - done;

        memcpy(block_memory(c, b) + b->len, d->data + done, n);
        b->len += n;
        done += n;
        c->pos += (off_t)n;
        if (b->len == c->block_bytes)
            flush(c);
    }

    *d->done_p = done;
    return done > 0;
}

/* ---- reading ---- */

static void heap_fetch(struct coalescer *c)
{
    struct block *b = add_block(c, c->pos);
    struct amph_fwd_args_pread a = {
        .file = &c->file, .off = c->pos, .buf = c->heap, .buf_cap = HEAP_BLOCK, .buf_len = &b->got
    };

    b->len = HEAP_BLOCK;
    if (amph_client_call(c->cl, AMPH_FWD_PREAD, &a))
        b->got = 0;

    b->back = true;
    c->ended = b->got < b->len;
}

/* Requests the next blocks, limited by free slots and by the announced length. */
static void fetch_ahead(struct coalescer *c)
{
    struct amph_client_sigguard g;

    if (c->ended)
        return;

    if (c->on_heap) {
        if (!c->n)
            heap_fetch(c);

        return;
    }

    amph_client_sigguard_enter(&g);
    for (;;) {
        const struct block *tail = c->n ? block_at(c, c->n - 1) : NULL;
        off_t off = tail ? tail->off + (off_t)tail->len : c->pos;
        uint64_t limit = c->announced == READING ? c->bytes_left : UINT64_MAX;

        if ((uint64_t)(off - c->pos) >= limit)
            break;

        struct block *b = add_block(c, off);
        if (!b)
            break;

        b->len = limit - (uint64_t)(off - c->pos) < c->block_bytes
                     ? (size_t)(limit - (uint64_t)(off - c->pos))
                     : c->block_bytes;
        if (block_send(c, b)) { /* the ordinary call that follows reports the error or fails over */
            slot_give(c, b->slot);
            c->n--;
            c->ended = true;
            break;
        }
    }

    amph_client_sigguard_leave(&g);
}

/* Returns the head block once it has arrived.  NULL: no more data can be read ahead. */
static struct block *arrived(struct coalescer *c)
{
    struct amph_client_sigguard g;
    struct block *b = c->n ? block_at(c, 0) : NULL;

    if (b && b->back && c->taken < b->got)
        return b;

    if (b && b->back) {
        if (b->got < b->len)
            return NULL; /* end of file or an error; the caller asks the server */

        drop_head(c);
    }

    fetch_ahead(c);
    if (!c->n && !c->ended && go_to_heap(c)) /* other files hold all slots */
        fetch_ahead(c);

    b = c->n ? block_at(c, 0) : NULL;
    if (!b)
        return NULL;

    if (b->pend) {
        amph_client_sigguard_enter(&g);
        block_wait(c, b, &g);
        amph_client_sigguard_leave(&g);
    }

    return b->got ? b : NULL;
}

bool amph_client_blocks_serve(struct coalescer *c, const struct amph_client_data *d)
{
    size_t done = 0;
    size_t len = d->len;

    if (c->versioned)
        return amph_client_ahead_serve(c, d);

    while (done < len) {
        struct block *b = arrived(c);

        if (!b)
            break;

        size_t n = b->got - c->taken < len - done ? b->got - c->taken : len - done;

        memcpy(d->data + done, block_memory(c, b) + c->taken, n);
        c->taken += n;
        done += n;
        c->pos += (off_t)n;
    }

    *d->done_p = done;
    return done > 0;
}

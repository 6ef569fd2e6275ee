/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks in which a run of small calls travels (coalesce/coalesce.c decides what is one).
 * Writes gather in blocks, which are slots of the transfer area where there are any to spare; a
 * full block is sent off and the next one filled meanwhile.  Reads are fetched ahead the same way.
 * Layer: iofwd.  Thread rule: the caller is inside the collector.
 */
#include "iofwd/client/coalesce/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

#define SLOT_BLOCK ((size_t)128 << 10)
#define HEAP_BLOCK \
    ((size_t)1 << 20) /* of a file without slots: no server maps us, or it is spread over several */

static _Atomic uint32_t slots_held; /* of all links, by all collectors */

static struct block *block_at(struct collector *c, unsigned i)
{
    return &c->ring[(c->head + i) % BLOCKS_MOST];
}

static uint8_t *block_memory(const struct collector *c, const struct block *b)
{
    return c->on_heap ? c->heap : c->link->part + (size_t)b->slot * c->cl->piece;
}

/* Collectors together leave most slots to other calls, which wait for slots while collectors do
 * not. */
static bool slot_take(struct collector *c, unsigned *slot_p)
{
    uint64_t bits = atomic_load_explicit(&c->link->slots, memory_order_relaxed);

    if (atomic_fetch_add(&slots_held, 1) < c->cl->nslots / 4)
        while (bits)
            if (atomic_compare_exchange_weak_explicit(&c->link->slots, &bits, bits & (bits - 1),
                                                      memory_order_acquire, memory_order_relaxed)) {
                *slot_p = (unsigned)__builtin_ctzll(bits);
                return true;
            }

    atomic_fetch_sub(&slots_held, 1);
    return false;
}

static void slot_give(struct collector *c, unsigned slot)
{
    atomic_fetch_or_explicit(&c->link->slots, UINT64_C(1) << slot, memory_order_release);
    atomic_fetch_sub(&slots_held, 1);
}

void amph_client_blocks_error(struct collector *c, int err)
{
    if (err && !c->late)
        c->late = err;
}

/* Sends a block off.  0 or an errno value, with nothing under way. */
static int block_send(struct collector *c, struct block *b)
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

/* Writes the rest of a block by ordinary calls, whatever the file is spread over: the server's
 * reason for stopping comes out. */
static int write_rest(struct collector *c, const struct block *b, size_t at)
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

        /* the calls that gave the data have returned: nobody else can make it again */
        if (err != EINTR && (err || done == 0))
            return err ? err : EIO;
    }

    return 0;
}

/* Waits for a block that is under way. */
static void block_wait(struct collector *c, struct block *b, struct amph_client_sigguard *g)
{
    if (!b->pend)
        return;

    int err = amph_client_pending_wait(c->cl, c->link, b->pend, g);

    b->got = err || b->pend->got > b->len ? 0 : b->pend->got;
    b->back = true;
    amph_client_pending_release(c->cl, b->pend);
    b->pend = NULL;

    /* Its server has gone, perhaps: what it has not acknowledged goes to the next. */
    bool again = err == EINTR || (err == EIO && c->cl->failover && !c->append);

    if (c->mode == WRITING && b->got < b->len && (!err || again))
        err = write_rest(c, b, b->got);

    if (c->mode == WRITING)
        amph_client_blocks_error(c, err);
    else if (b->got < b->len)
        c->ended = true;
}

/* The head block is done with. */
static void drop_head(struct collector *c)
{
    if (!c->on_heap)
        slot_give(c, block_at(c, 0)->slot);

    c->head = (c->head + 1) % BLOCKS_MOST;
    c->n--;
    c->taken = 0;
}

/* A further block at the tail, or NULL: no slot. */
static struct block *add_block(struct collector *c, off_t off)
{
    unsigned slot = 0;

    if (c->n >= c->most || (!c->on_heap && !slot_take(c, &slot)))
        return NULL;

    struct block *b = block_at(c, c->n++);

    *b = (struct block){ .slot = slot, .off = off };
    return b;
}

static bool go_to_heap(struct collector *c)
{
    c->on_heap = true;
    c->block_bytes = HEAP_BLOCK;
    c->most = 1;
    return c->heap || (c->heap = malloc(HEAP_BLOCK));
}

/* Slots, where this file can have them; else memory of its own. */
bool amph_client_blocks_room(struct collector *c)
{
    if (amph_client_link_to(c->cl, c->server, &c->link))
        return false;
    if (c->file.nparts > 1 || !c->link->part || atomic_load(&slots_held) >= c->cl->nslots / 4)
        return go_to_heap(c);

    c->on_heap = false;
    c->block_bytes = c->cl->piece < SLOT_BLOCK ? c->cl->piece : SLOT_BLOCK;

    int64_t most = amph_env_int(AMPH_ENV_IOFWD_BLOCKS);

    c->most = most < BLOCKS_MOST ? (unsigned)most : BLOCKS_MOST;
    return true;
}

/* Sends what has been gathered. */
static void flush(struct collector *c)
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

    if (c->link->near && c->cl->demotes)
        amph_cache_demote(block_memory(c, b), b->len);

    amph_client_sigguard_enter(&g);

    int err = block_send(c, b);

    if (err) {
        /* nothing has been sent */
        amph_client_blocks_error(c, c->cl->failover ? write_rest(c, b, 0) : err);
        b->back = true;
    }

    amph_client_sigguard_leave(&g);
}

static void drain(struct collector *c)
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

void amph_client_blocks_flush(struct collector *c)
{
    flush(c);
    drain(c);
}

bool amph_client_blocks_touch(struct collector *c, off_t from, off_t to)
{
    const struct block *tail = c->n ? block_at(c, c->n - 1) : NULL;

    if (!tail || from >= to)
        return false;
    if (c->mode == WRITING)
        return c->append || (from < c->pos && to > block_at(c, 0)->off);

    /* else it may have met the end of the file, which is elsewhere after a write */
    bool whole = tail->back && tail->got == tail->len;

    return to > c->pos && (!whole || from < tail->off + (off_t)tail->len);
}

bool amph_client_blocks_hold(struct collector *c, size_t len)
{
    const struct block *head = c->n ? block_at(c, 0) : NULL;
    return head && c->mode == READING && head->back && len <= head->got - c->taken;
}

void amph_client_blocks_forget(void)
{
    atomic_store(&slots_held, 0);
}

/* ---- writing ---- */

/* The block that is being filled; makes room for one where there is none.  NULL: none to be had. */
static struct block *filling(struct collector *c)
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

    return go_to_heap(c) ? add_block(c, c->pos) : NULL; /* other files have all the slots */
}

bool amph_client_blocks_append(struct collector *c, const struct amph_client_data *d)
{
    size_t done = 0;
    size_t len = d->len;

    /* Others append, too: what one call appends stays together. */
    struct block *tail = c->append && c->n ? block_at(c, c->n - 1) : NULL;
    if (c->append && len > c->block_bytes)
        return false;

    if (tail && tail->len + len > c->block_bytes)
        flush(c);

    while (done < len) {
        struct block *b = filling(c);

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

static void heap_fetch(struct collector *c)
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

/* Asks for what comes next, as far as there is room and the run goes. */
static void fetch_ahead(struct collector *c)
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
        uint64_t most = c->announced == READING ? c->bytes_left : UINT64_MAX;

        if ((uint64_t)(off - c->pos) >= most)
            break;

        struct block *b = add_block(c, off);
        if (!b)
            break;

        b->len = most - (uint64_t)(off - c->pos) < c->block_bytes
                     ? (size_t)(most - (uint64_t)(off - c->pos))
                     : c->block_bytes;
        if (block_send(c, b)) { /* the plain call that follows says why, or finds another server */
            slot_give(c, b->slot);
            c->n--;
            c->ended = true;
            break;
        }
    }

    amph_client_sigguard_leave(&g);
}

/* The head block, come back; NULL: nothing more can be had this way. */
static struct block *arrived(struct collector *c)
{
    struct amph_client_sigguard g;
    struct block *b = c->n ? block_at(c, 0) : NULL;

    if (b && b->back && c->taken < b->got)
        return b;

    if (b && b->back) {
        if (b->got < b->len)
            return NULL; /* the end of the file, or an error: the server will say which */

        drop_head(c);
    }

    fetch_ahead(c);
    if (!c->n && !c->ended && go_to_heap(c)) /* other files have all the slots */
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

bool amph_client_blocks_serve(struct collector *c, const struct amph_client_data *d)
{
    size_t done = 0;
    size_t len = d->len;

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

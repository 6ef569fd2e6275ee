/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small puts, gets and answers to gets: those that follow each other travel in one segment.
 * Layer: conduits (udp).  Thread rule: the caller holds the lock of struct amph_rdp.
 *
 * Each is a unit of a segment's body: a head and, if it has any, its data, copied.  While a segment waits in its
 * lane's queue, further units join it.  A put or get waits in it if it is the third or a later one of which none is
 * answered yet, or if as many followed each other the last time.  It is sent when many bytes wait, by the next
 * progress call, with which each wait and test begins, and for a process that computes by the guard.  So one that
 * is alone is sent at once, and so is a flag after its data.
 *
 * The acknowledgement of the segment completes its puts.  Their operations are noted at the end of the memory
 * for the body, the first one last.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "base/wire.h"
#include "conduits/udp/rdp.h"

/* Of a segment that others may join: longer ones would be received in place, which takes one system call more. */
#define ROOM_BYTES 8192u
#define WAIT_BYTES 32768u /* units of this length in all are sent, and no longer wait */
#define MANY 3u           /* so many at a time, that more are expected, also the next time */
#define UNIT_HEAD sizeof(struct amph_rdp_rma)

/* The operation of put number i. */
static struct amph_op **op_of(const struct amph_rdp_seg *s, unsigned i)
{
    return (struct amph_op **)(void *)(s->head + s->head_room) - i - 1;
}

static size_t noted_bytes(unsigned nops)
{
    return amph_rdp_pad8(nops * sizeof(struct amph_op *));
}

/* Bytes of a segment's memory that a unit takes. */
static size_t bytes_of(unsigned lane, size_t data_len)
{
    return UNIT_HEAD + amph_rdp_pad8(data_len) + (lane == RDP_PUT ? noted_bytes(1) : 0);
}

static size_t free_bytes(const struct amph_rdp_seg *s)
{
    return s->head_room - s->head_len - noted_bytes(s->nops);
}

/* Returns the last segment of the lane's queue if the unit can join it. */
static struct amph_rdp_seg *open_segment(const struct amph_rdp_txlane *tx, size_t bytes)
{
    struct amph_rdp_seg *s = tx->head ? tx->tail : NULL;

    return s && !s->flags && !s->data_len && !s->xfer && free_bytes(s) >= bytes ? s : NULL;
}

static struct amph_rdp_seg *make_segment(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                         size_t bytes, bool more)
{
    const size_t most = c->body_max < ROOM_BYTES ? c->body_max & ~7u : ROOM_BYTES;
    const size_t room = more && 2 * bytes <= most ? most : bytes;
    struct amph_rdp_seg *s = amph_rdp_seg_new(r, c, lane, room);

    if (s && lane == RDP_PUT)
        c->tx[lane].reserved++;

    return s;
}

struct amph_rdp_seg *amph_rdp_unit_add(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                       const struct amph_rdp_rma *m, const void *data,
                                       struct amph_op *op, bool more)
{
    struct amph_rdp_txlane *tx = &c->tx[lane];
    const size_t data_len = data ? m->len_bytes : 0;
    const size_t padded = amph_rdp_pad8(data_len);
    const size_t bytes = bytes_of(lane, data_len);
    struct amph_rdp_seg *open = open_segment(tx, bytes);
    struct amph_rdp_seg *s = open ? open : make_segment(r, c, lane, bytes, more);

    if (!s)
        return NULL;

    uint8_t *at = s->head + s->head_len;

    at += amph_rdp_put_rma(at, m);
    if (padded) {
        memset(at + padded - 8, 0, 8);
        memcpy(at, data, data_len);
    }

    s->head_len += (uint32_t)(UNIT_HEAD + padded);
    if (lane == RDP_PUT)
        *op_of(s, s->nops++) = op;

    if (open) {
        s->body_len = s->head_len;
        tx->queued_bytes += (uint32_t)(UNIT_HEAD + padded);
    } else {
        s->lead = UNIT_HEAD;
        amph_rdp_seg_queue(c, s);
    }

    return s;
}

void amph_rdp_units_done(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s,
                         enum amph_status st)
{
    c->nanswers -= s->nanswers;
    s->nanswers = 0;

    for (unsigned i = 0; i < s->nops; i++)
        amph_rdp_finish_op(r, *op_of(s, i), st);

    s->nops = 0;
}

bool amph_rdp_unit_void(struct amph_rdp *r, struct amph_rdp_seg *s, uint64_t id)
{
    struct amph_rdp_rma m;
    size_t n;
    uint32_t at = 0;

    for (unsigned i = 0; i < s->nops; i++, at += (uint32_t)n) {
        n = amph_rdp_get_unit(s->head + at, s->head_len - at, &m);
        if (!n || m.id != id)
            continue;

        s->head[at + offsetof(struct amph_rdp_rma, code)] = RDP_RMA_VOID;
        amph_rdp_finish_op(r, *op_of(s, i), AMPH_ERR_RANGE);
        *op_of(s, i) = NULL;
        return true;
    }

    return false;
}

/* ---- when it is sent ---- */

bool amph_rdp_is_one_of_many(struct amph_rdp_conn *c)
{
    if (c->tx[RDP_PUT].out || c->tx[RDP_PUT].head || c->ngets) {
        c->run += c->run < MANY;
    } else {
        c->last_run = c->run;
        c->run = 1;
    }

    return c->run >= MANY || c->last_run >= MANY;
}

void amph_rdp_unit_push(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane, bool more)
{
    if (more && c->tx[lane].queued_bytes < WAIT_BYTES && c->state == RDP_CONN_UP && !c->lost)
        amph_rdp_cork(r, c);
    else
        amph_rdp_push(r, c);
}

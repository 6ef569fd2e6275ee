/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with separate data for each pair: scatter, gather, gather to all, exchange.  Layer:
 * extended.  Thread rule: the team is locked.
 *
 * A block of op->len bytes is at op->off of each member's op->block bytes; participant and rank are
 * the same number here.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "am/bruck.h"
#include "extended/coll/coll.h"

static uint8_t *dst_block(const struct amph_coll_op *op, uint32_t i)
{
    return op->dst + i * op->block + op->off;
}

static const uint8_t *src_block(const struct amph_coll_op *op, uint32_t i)
{
    return op->src + i * op->block + op->off;
}

/* Blocks of all participants will come. */
static void open_blocks(struct amph_coll_op *op)
{
    amph_coll_mail_area(op->coll, op->dst, op->net.count * op->block, op->len);
}

/* The step of all kinds: done when all incoming data has arrived and all outgoing data has been
 * sent. */
static bool step_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    bool sent = amph_coll_mail_pump(op->coll);

    for (; net->round < op->coll->mail.nin; net->round++)
        if (op->coll->mail.in[net->round].open && !amph_coll_mail_got(op->coll, net->round))
            return false;

    return sent;
}

void amph_coll_flat_scatter(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    bool root = net->me == op->root;

    amph_coll_mail_begin(op->coll, op->seq, !root, root ? net->count : 0, net->piece);
    net->step = step_all;

    if (!root) {
        amph_coll_mail_in(op->coll, 0, op->root, op->dst + op->off, op->len);
        return;
    }

    for (uint32_t i = 1; i < net->count; i++) {
        uint32_t to = (net->me + i) % net->count;
        amph_coll_mail_out(op->coll, to, 0, src_block(op, to), op->len, op->len);
    }

    amph_coll_copy(op->dst + op->off, src_block(op, net->me), op->len);
}

void amph_coll_flat_gather(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    bool root = net->me == op->root;

    amph_coll_mail_begin(op->coll, op->seq, root ? net->count : 0, !root, net->piece);
    net->step = step_all;

    if (!root) {
        amph_coll_mail_out(op->coll, op->root, net->me, op->src + op->off, op->len, op->len);
        return;
    }

    open_blocks(op);
    for (uint32_t i = 0; i < net->count; i++)
        if (i != net->me)
            amph_coll_mail_in(op->coll, i, i, dst_block(op, i), op->len);

    amph_coll_copy(dst_block(op, net->me), op->src + op->off, op->len);
}

/* Sends a block to each other participant, and receives one of each.  stride_bytes: from the block for one participant
 * to that for the next; 0: all get the same. */
static void swap_blocks(struct amph_coll_op *op, size_t stride_bytes)
{
    struct amph_net *net = &op->net;
    const uint8_t *first = op->src + op->off;

    amph_coll_mail_begin(op->coll, op->seq, net->count, net->count, net->piece);
    net->step = step_all;
    open_blocks(op);

    for (uint32_t i = 1; i < net->count; i++) {
        uint32_t from = (net->me + net->count - i) % net->count;
        amph_coll_mail_in(op->coll, from, from, dst_block(op, from), op->len);
    }

    for (uint32_t i = 1; i < net->count; i++) {
        uint32_t to = (net->me + i) % net->count;
        amph_coll_mail_out(op->coll, to, net->me, first + to * stride_bytes, op->len, op->len);
    }

    amph_coll_copy(dst_block(op, net->me), first + net->me * stride_bytes, op->len);
}

void amph_coll_flat_exchange(struct amph_coll_op *op)
{
    swap_blocks(op, op->block);
}

/* ---- gather to all: of a few participants each sends its block to each other one ---- */

void amph_coll_spread_gather_all(struct amph_coll_op *op)
{
    swap_blocks(op, 0);
}

/* ---- gather to all: a ring; each block goes on to the right when it has come from the left ---- */

static bool step_ring(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t right = (net->me + 1) % net->count;

    for (; net->round + 1 < net->count; net->round++) { /* blocks passed on */
        uint32_t block = (net->me + net->count - net->round) % net->count;
        if (net->round && !amph_coll_mail_got(op->coll, block))
            break;
        amph_coll_mail_out(op->coll, right, block, dst_block(op, block), op->len, op->len);
    }

    bool sent = amph_coll_mail_pump(op->coll);

    return sent && net->round + 1 == net->count && amph_coll_mail_got(op->coll, right);
}

void amph_coll_flat_gather_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t left = (net->me + net->count - 1) % net->count;

    amph_coll_mail_begin(op->coll, op->seq, net->count, net->count, net->piece);
    amph_coll_copy(dst_block(op, net->me), op->src + op->off, op->len);

    open_blocks(op);
    for (uint32_t i = 0; i < net->count; i++)
        if (i != net->me)
            amph_coll_mail_in(op->coll, i, left, dst_block(op, i), op->len);

    net->step = step_ring;
}

/* ---- gather to all, small: Bruck's schedule ---- */

static bool step_bruck(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    for (; amph_am_bruck_has_round(net->count, net->round); net->round++, net->sent = false) {
        uint32_t to = amph_am_bruck_to(net->count, net->me, net->round);
        size_t len = amph_am_bruck_blocks(net->count, net->round) * op->len;

        if (!net->sent)
            amph_coll_mail_out(op->coll, to, net->round, net->scratch, len, len);

        net->sent = true;
        amph_coll_mail_pump(op->coll);
        if (!amph_coll_mail_got(op->coll, net->round))
            return false;
    }

    if (!amph_coll_mail_pump(op->coll))
        return false;

    amph_am_bruck_copy_by_rank(dst_block(op, 0), op->block, net->scratch, op->len, net->count,
                               net->me);
    return true;
}

void amph_coll_bruck_gather_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    amph_coll_mail_begin(op->coll, op->seq, 32, 32, net->piece);
    memcpy(net->scratch, op->src + op->off, op->len);

    for (uint32_t k = 0; amph_am_bruck_has_round(net->count, k); k++)
        amph_coll_mail_in(op->coll, k, amph_am_bruck_from(net->count, net->me, k),
                          net->scratch + amph_am_bruck_first(k) * op->len,
                          amph_am_bruck_blocks(net->count, k) * op->len);

    net->step = step_bruck;
}

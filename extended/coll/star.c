/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small data through one participant, the centre.  Layer: extended.  Thread rule: the team is
 * locked.
 *
 * Where participants outnumber cores and share no memory, each round of messages costs a turn of
 * every participant on its core.  Through a centre each has one turn, and there are at most two
 * messages for each.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "extended/coll/coll.h"

/* Has everything arrived?  net->round counts the ports that have been seen complete. */
static bool all_got(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    for (; net->round < op->coll->mail.nin; net->round++)
        if (op->coll->mail.in[net->round].open && !amph_coll_mail_got(op->coll, net->round))
            return false;

    return true;
}

/* ---- folds: the centre receives all operands; net->scratch holds one for each participant ---- */

static uint8_t *operand(const struct amph_net *net, uint32_t i)
{
    return net->scratch + (size_t)i * net->len;
}

/* Returns the sum of all operands. */
static uint8_t *fold_all(struct amph_coll_op *op)
{
    const struct amph_net *net = &op->net;
    uint8_t *last = operand(net, net->count - 1);

    amph_coll_copy(operand(net, net->me), net->src, net->len);
    for (uint32_t i = net->count - 1; i-- > 0;)
        amph_coll_fold_wire(&op->fold, operand(net, i), last, net->len);

    return last;
}

/* Opens a port for each other participant, or sends the operand to the centre. */
static void begin_fold(struct amph_coll_op *op, uint32_t centre, bool answers)
{
    struct amph_net *net = &op->net;
    const bool here = net->me == centre;

    amph_coll_mail_begin(op->coll, op->seq, here ? net->count : answers,
                         here && answers ? net->count : !here, net->piece);

    if (!here) {
        if (answers)
            amph_coll_mail_in(op->coll, 0, amph_coll_net_rank(op, centre), net->dst, net->len);

        amph_coll_mail_out(op->coll, amph_coll_net_rank(op, centre), net->me, net->src, net->len,
                           net->len);
        return;
    }

    for (uint32_t i = 0; i < net->count; i++)
        if (i != net->me)
            amph_coll_mail_in(op->coll, i, amph_coll_net_rank(op, i), operand(net, i), net->len);
}

static bool step_reduce(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    const bool sent = amph_coll_mail_pump(op->coll);

    if (net->me != net->root)
        return sent;
    if (!all_got(op))
        return false;

    amph_coll_copy(net->dst, fold_all(op), net->len);
    return true;
}

void amph_coll_star_reduce(struct amph_coll_op *op)
{
    op->net.step = step_reduce;
    begin_fold(op, op->net.root, false);
}

/* Participant 0 sends the sum to all others. */
static bool step_reduce_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    const bool sent = amph_coll_mail_pump(op->coll);

    if (!all_got(op))
        return false;
    if (net->me != 0 || net->sent)
        return sent;

    const uint8_t *sum = fold_all(op);

    net->sent = true;
    for (uint32_t i = 1; i < net->count; i++)
        amph_coll_mail_out(op->coll, amph_coll_net_rank(op, i), 0, sum, net->len, net->len);

    amph_coll_copy(net->dst, sum, net->len);
    return amph_coll_mail_pump(op->coll);
}

void amph_coll_star_reduce_all(struct amph_coll_op *op)
{
    op->net.step = step_reduce_all;
    begin_fold(op, 0, true);
}

/* ---- broadcast ---- */

static bool step_broadcast(struct amph_coll_op *op)
{
    const bool sent = amph_coll_mail_pump(op->coll);

    return sent && (op->net.me == op->net.root || amph_coll_mail_got(op->coll, 0));
}

void amph_coll_star_broadcast(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    const bool root = net->me == net->root;

    amph_coll_mail_begin(op->coll, op->seq, !root, root ? net->count : 0, net->piece);
    net->step = step_broadcast;

    if (!root) {
        amph_coll_mail_in(op->coll, 0, amph_coll_net_rank(op, net->root), net->dst, net->len);
        return;
    }

    for (uint32_t i = 1; i < net->count; i++)
        amph_coll_mail_out(op->coll, amph_coll_net_rank(op, (net->me + i) % net->count), 0,
                           net->src, net->len, net->len);
}

/* ---- gather to all, exchange: participant 0 receives the blocks of all and sends each those that are for it, in
 * the order of participants.  net->scratch holds what is received, and for an exchange, behind it, what is
 * sent.  Participants and ranks are the same. ---- */

static void pack(const struct amph_coll_op *op, uint8_t *to)
{
    for (uint32_t i = 0; i < op->net.count; i++)
        memcpy(to + i * op->len, op->src + i * op->block + op->off, op->len);
}

static void unpack(const struct amph_coll_op *op, const uint8_t *from)
{
    for (uint32_t i = 0; i < op->net.count; i++)
        memcpy(op->dst + i * op->block + op->off, from + i * op->len, op->len);
}

/* The centre of an exchange has received everything. */
static void send_rows(struct amph_coll_op *op)
{
    const struct amph_net *net = &op->net;
    const size_t row = net->count * op->len;
    uint8_t *out = net->scratch + net->count * row;

    for (uint32_t to = 0; to < net->count; to++)
        for (uint32_t from = 0; from < net->count; from++)
            memcpy(out + to * row + from * op->len, net->scratch + from * row + to * op->len,
                   op->len);

    for (uint32_t to = 1; to < net->count; to++)
        amph_coll_mail_out(op->coll, to, 0, out + to * row, row, row);

    unpack(op, out);
}

/* The centre of a gather to all has received everything. */
static void send_blocks(struct amph_coll_op *op)
{
    const struct amph_net *net = &op->net;
    const size_t row = net->count * op->len;

    for (uint32_t to = 1; to < net->count; to++)
        amph_coll_mail_out(op->coll, to, 0, net->scratch, row, row);

    unpack(op, net->scratch);
}

static bool step_blocks(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    bool sent = amph_coll_mail_pump(op->coll);

    if (!all_got(op))
        return false;

    if (net->me != 0) {
        if (sent)
            unpack(op, net->scratch);

        return sent;
    }

    if (!net->sent) {
        net->sent = true;
        if (op->kind == AMPH_COLL_EXCHANGE)
            send_rows(op);
        else
            send_blocks(op);
    }

    return amph_coll_mail_pump(op->coll);
}

void amph_coll_star_exchange(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    const size_t row = net->count * op->len;

    net->step = step_blocks;

    if (net->me != 0) {
        amph_coll_mail_begin(op->coll, op->seq, 1, 1, net->piece);
        amph_coll_mail_in(op->coll, 0, 0, net->scratch, row);
        pack(op, net->scratch + row);
        amph_coll_mail_out(op->coll, 0, net->me, net->scratch + row, row, row);
        return;
    }

    amph_coll_mail_begin(op->coll, op->seq, net->count, net->count, net->piece);
    pack(op, net->scratch);
    for (uint32_t i = 1; i < net->count; i++)
        amph_coll_mail_in(op->coll, i, i, net->scratch + i * row, row);
}

void amph_coll_star_gather_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    const uint8_t *own = op->src + op->off;

    net->step = step_blocks;

    if (net->me != 0) {
        amph_coll_mail_begin(op->coll, op->seq, 1, 1, net->piece);
        amph_coll_mail_in(op->coll, 0, 0, net->scratch, net->count * op->len);
        amph_coll_mail_out(op->coll, 0, net->me, own, op->len, op->len);
        return;
    }

    amph_coll_mail_begin(op->coll, op->seq, net->count, net->count, net->piece);
    memcpy(net->scratch, own, op->len);
    for (uint32_t i = 1; i < net->count; i++)
        amph_coll_mail_in(op->coll, i, i, net->scratch + i * op->len, op->len);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large data between participants: chains, along which the pieces of the data follow each other, so
 * that each link carries the data once.  Layer: extended.  Thread rule: the team is locked.
 *
 * Operands are folded on their way to the result: the local piece is the left operand; the piece
 * from the right covers all later participants, so the order is preserved.  The first participant
 * of an all-reduce sends on the pieces of the result while later pieces are still arriving.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "extended/coll/coll.h"

enum {
    PORT_UP,   /* data moves towards the first participant */
    PORT_DOWN, /* and away from it */
    PORTS
};

static uint32_t at(const struct amph_net *net, uint32_t shift)
{
    return (net->me + net->count - shift) % net->count;
}

static uint32_t rank_at(const struct amph_coll_op *op, uint32_t pos, uint32_t shift)
{
    return amph_coll_net_rank(op, (pos + shift) % op->net.count);
}

/* Opens the port for the result from `from`, which is sent on or not. */
static void open_down(struct amph_coll_op *op, uint32_t from, bool sent_on)
{
    struct amph_net *net = &op->net;

    if (sent_on)
        amph_coll_mail_in_pieces(op->coll, PORT_DOWN, from, net->dst, net->len, net->count);
    else
        amph_coll_mail_in(op->coll, PORT_DOWN, from, net->dst, net->len);
}

/* ---- broadcast ---- */

static bool step_broadcast(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t pos = at(net, net->root);

    if (pos && pos + 1 < net->count)
        amph_coll_mail_more(op->coll, 0, amph_coll_mail_prefix(op->coll, PORT_DOWN));

    bool sent = amph_coll_mail_pump(op->coll);

    return sent && (!pos || amph_coll_mail_got(op->coll, PORT_DOWN));
}

void amph_coll_chain_broadcast(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t pos = at(net, net->root);

    amph_coll_mail_begin(op->coll, op->seq, PORTS, PORTS, net->piece);
    if (pos)
        open_down(op, rank_at(op, pos - 1, net->root), pos + 1 < net->count);

    if (pos + 1 < net->count)
        amph_coll_mail_out(op->coll, rank_at(op, pos + 1, net->root), PORT_DOWN,
                           pos ? net->dst : net->src, net->len, pos ? 0 : net->len);

    net->step = step_broadcast;
}

/* ---- reductions ---- */

/* Opens the ports for operands that move towards the first participant; message 0 sends them on
 * (if there is a next participant).  The first one folds them where its result is to be, if it has one. */
static void begin_up(struct amph_coll_op *op, uint32_t shift, bool has_result)
{
    struct amph_net *net = &op->net;
    uint32_t pos = at(net, shift);
    bool last = pos + 1 == net->count;

    net->acc = !pos && has_result && amph_coll_apart(net->dst, net->src, net->len) ? net->dst
                                                                                   : net->scratch;
    amph_coll_mail_begin(op->coll, op->seq, PORTS, PORTS, net->piece);
    if (!last)
        amph_coll_mail_in_pieces(op->coll, PORT_UP, rank_at(op, pos + 1, shift), net->acc, net->len,
                                 net->count);

    if (pos)
        amph_coll_mail_out(op->coll, rank_at(op, pos - 1, shift), PORT_UP,
                           last ? net->src : net->acc, net->len, last ? net->len : 0);
}

/* Folds the pieces received; returns the number of bytes folded so far. */
static size_t fold_up(struct amph_coll_op *op, uint32_t shift)
{
    struct amph_net *net = &op->net;
    uint32_t pos = at(net, shift);

    if (pos + 1 == net->count)
        return net->len;

    size_t have = amph_coll_mail_prefix(op->coll, PORT_UP);

    amph_coll_fold_wire(&op->fold, net->src + net->folded, net->acc + net->folded,
                        have - net->folded);
    net->folded = have;
    if (pos)
        amph_coll_mail_more(op->coll, 0, have);

    return have;
}

static uint32_t reduce_shift(const struct amph_coll_op *op)
{
    return op->fold.commutes ? op->net.root : 0;
}

/* The first participant has the result.  If the root is another one (non-commutative operator),
 * message 0 carries the result there. */
static bool step_reduce(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t shift = reduce_shift(op);
    uint32_t pos = at(net, shift);
    size_t have = fold_up(op, shift);

    if (!pos && net->me != net->root)
        amph_coll_mail_more(op->coll, 0, have);

    bool done = amph_coll_mail_pump(op->coll) && have == net->len;
    if (net->me != net->root)
        return done;
    if (pos)
        return done && amph_coll_mail_got(op->coll, PORT_DOWN);

    if (done)
        amph_coll_copy(net->dst, net->acc, net->len);

    return done;
}

void amph_coll_chain_reduce(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t shift = reduce_shift(op);
    uint32_t pos = at(net, shift);

    begin_up(op, shift, net->me == net->root);
    if (!pos && net->me != net->root)
        amph_coll_mail_out(op->coll, amph_coll_net_rank(op, net->root), PORT_DOWN, net->acc,
                           net->len, 0);

    if (pos && net->me == net->root)
        amph_coll_mail_in(op->coll, PORT_DOWN, amph_coll_net_rank(op, 0), net->dst, net->len);

    net->step = step_reduce;
}

static bool step_reduce_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    /* the message that passes the result on */
    const uint32_t pos = net->me;
    const uint32_t down = pos ? 1 : 0;
    size_t before = net->folded;
    size_t have = fold_up(op, 0);

    if (!pos) {
        amph_coll_copy(net->dst + before, net->acc + before, have - before);
        amph_coll_mail_more(op->coll, down, have);
    } else if (pos + 1 < net->count) {
        amph_coll_mail_more(op->coll, down, amph_coll_mail_prefix(op->coll, PORT_DOWN));
    }

    bool sent = amph_coll_mail_pump(op->coll);

    return sent && have == net->len && (!pos || amph_coll_mail_got(op->coll, PORT_DOWN));
}

void amph_coll_chain_reduce_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    const uint32_t pos = net->me;

    begin_up(op, 0, true);
    if (pos)
        open_down(op, rank_at(op, pos - 1, 0), pos + 1 < net->count);

    if (pos + 1 < net->count)
        amph_coll_mail_out(op->coll, rank_at(op, pos + 1, 0), PORT_DOWN, net->dst, net->len, 0);

    net->step = step_reduce_all;
}

/* ---- scan: data from the left covers all participants before ---- */

static bool step_scan(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    size_t have = net->len;

    if (net->me) {
        have = amph_coll_mail_prefix(op->coll, PORT_DOWN);
        amph_coll_fold_wire(&op->fold, net->scratch + net->folded, net->dst + net->folded,
                            have - net->folded);
        net->folded = have;
        if (net->me + 1 < net->count)
            amph_coll_mail_more(op->coll, 0, have);
    }

    return amph_coll_mail_pump(op->coll) && have == net->len;
}

void amph_coll_chain_scan(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    amph_coll_mail_begin(op->coll, op->seq, PORTS, PORTS, net->piece);
    if (net->dst != net->src)
        amph_copy(net->dst, net->src, net->len);

    if (net->me)
        amph_coll_mail_in_pieces(op->coll, PORT_DOWN, amph_coll_net_rank(op, net->me - 1),
                                 net->scratch, net->len, net->count);

    if (net->me + 1 < net->count)
        amph_coll_mail_out(op->coll, amph_coll_net_rank(op, net->me + 1), PORT_DOWN, net->dst,
                           net->len, net->me ? 0 : net->len);

    net->step = step_scan;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small data between participants: binomial trees and recursive doubling.  Layer: extended.  Thread
 * rule: the team is locked.
 *
 * Participants are numbered 0..count-1.  If the operator does not commute, a folded operand always
 * covers the numbers directly below (left) or directly above (right) those of the other operand.  A
 * buffer in flight is changed only after all sends from it have completed.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "extended/coll/coll.h"

/* Ports in addition to those of the rounds. */
enum {
    PORT_ODD = 32,
    PORT_RESULT,
    PORTS
};

/* Returns this participant's number relative to participant `by`. */
static uint32_t relative_to(const struct amph_net *net, uint32_t by)
{
    return (net->me + net->count - by) % net->count;
}

/* Returns the rank of the participant whose number relative to `by` is v. */
static uint32_t rank_of_relative(const struct amph_coll_op *op, uint32_t v, uint32_t by)
{
    return amph_coll_net_rank(op, (v + by) % op->net.count);
}

/* ---- broadcast: a participant whose lowest set bit is 2^k receives from the one without that bit
 * ---- */

static bool step_broadcast(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t v = relative_to(net, net->root);
    uint32_t bit = v ? v & -v : UINT32_C(1) << 31;

    if (v && !amph_coll_mail_got(op->coll, 0)) {
        amph_coll_mail_pump(op->coll);
        return false;
    }

    for (; !net->sent && (bit >>= 1) != 0;)
        if (v + (uint64_t)bit < net->count)
            amph_coll_mail_out(op->coll, rank_of_relative(op, v + bit, net->root), 0,
                               v ? net->dst : net->src, net->len, net->len);

    net->sent = true;
    return amph_coll_mail_pump(op->coll);
}

void amph_coll_tree_broadcast(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t v = relative_to(net, net->root);

    amph_coll_mail_begin(op->coll, op->seq, 1, 32, net->piece);
    if (v)
        amph_coll_mail_in(op->coll, 0, rank_of_relative(op, v & (v - 1), net->root), net->dst,
                          net->len);

    net->step = step_broadcast;
}

/* ---- reduce: the same tree, upwards ---- */

static uint32_t reduce_shift(const struct amph_coll_op *op)
{
    return op->fold.commutes ? op->net.root : 0;
}

/* Has participant v a child at distance 2^round? */
static bool has_child(const struct amph_net *net, uint32_t v, uint32_t round)
{
    uint64_t bit = UINT64_C(1) << round;
    return !(v & bit) && v + bit < net->count;
}

/* Returns where a child's operand is received and folded: that of the last one where the root of the tree wants
 * the result. */
static uint8_t *operand(const struct amph_net *net, uint32_t round)
{
    const bool last = UINT64_C(2) << round >= net->count;

    /* the first participant of the tree is the root, or sends the result there (top) */
    return last && net->result_in_dst ? net->dst : net->scratch + round * net->len;
}

/* Stores the result at the root of the tree. */
static void top(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    if (net->me == net->root)
        amph_coll_copy(net->dst, net->acc, net->len);
    else
        amph_coll_mail_out(op->coll, amph_coll_net_rank(op, net->root), PORT_RESULT, net->acc,
                           net->len, net->len);
}

static bool step_reduce(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t shift = reduce_shift(op);
    uint32_t v = relative_to(net, shift);

    for (; !net->sent; net->round++) {
        uint64_t bit = UINT64_C(1) << net->round;

        if (bit >= net->count) {
            top(op);
            net->sent = true;
        } else if (v & bit) {
            amph_coll_mail_out(op->coll, rank_of_relative(op, v - (uint32_t)bit, shift), net->round,
                               net->acc, net->len, net->len);
            net->sent = true;
        } else if (has_child(net, v, net->round)) {
            if (!amph_coll_mail_got(op->coll, net->round))
                break;

            uint8_t *right = operand(net, net->round);

            amph_coll_fold_wire(&op->fold, net->acc, right, net->len);
            net->acc = right;
        }
    }

    bool all = amph_coll_mail_pump(op->coll) && net->sent;

    return all && !(net->me == net->root && v && !amph_coll_mail_got(op->coll, PORT_RESULT));
}

void amph_coll_tree_reduce(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t shift = reduce_shift(op);
    uint32_t v = relative_to(net, shift);

    net->result_in_dst = !v && net->me == net->root &&
                         amph_coll_apart(net->dst, net->src, net->len);
    amph_coll_mail_begin(op->coll, op->seq, PORTS, 1, net->piece);
    for (uint32_t k = 0; (UINT64_C(1) << k) < net->count && !(v >> k & 1); k++)
        if (has_child(net, v, k))
            amph_coll_mail_in(op->coll, k, rank_of_relative(op, v + (1u << k), shift),
                              operand(net, k), net->len);

    if (net->me == net->root && v)
        amph_coll_mail_in(op->coll, PORT_RESULT, rank_of_relative(op, 0, shift), net->dst,
                          net->len);

    net->acc = (uint8_t *)(uintptr_t)net->src; /* read only */
    net->step = step_reduce;
}

/* ---- reduce to all: doubling.  Of the first 2 * (count - power of 2) the odd ones take their left
 * neighbours in ---- */

enum {
    DOUBLE_BEFORE,
    DOUBLE_ROUNDS,
    DOUBLE_AFTER,
    DOUBLE_LAST
};

static uint32_t power_below(uint32_t count)
{
    return UINT32_C(1) << (31 - __builtin_clz(count));
}

/* The participant with number d in the doubling. */
static uint32_t participant_of(const struct amph_net *net, uint32_t d)
{
    uint32_t extra = net->count - power_below(net->count);
    return d < extra ? 2 * d + 1 : d + extra;
}

static bool is_extra(const struct amph_net *net)
{
    return net->me < 2 * (net->count - power_below(net->count));
}

static bool rounds(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t extra = net->count - power_below(net->count);
    uint32_t d = is_extra(net) ? net->me / 2 : net->me - extra;

    for (; (UINT32_C(1) << net->round) < power_below(net->count); net->round++, net->sent = false) {
        uint32_t other = d ^ UINT32_C(1) << net->round;
        const bool first = !net->round && net->result_in_dst;
        const uint8_t *mine = first ? net->src : net->dst;
        uint8_t *theirs = first ? net->dst : net->scratch + net->round * net->len;

        if (!net->sent)
            amph_coll_mail_out(op->coll, amph_coll_net_rank(op, participant_of(net, other)),
                               net->round, mine, net->len, net->len);

        net->sent = true;
        if (!amph_coll_mail_pump(op->coll) || !amph_coll_mail_got(op->coll, net->round))
            return false;

        if (other < d) {
            amph_coll_fold_wire(&op->fold, theirs, net->dst, net->len);
        } else {
            amph_coll_fold_wire(&op->fold, mine, theirs, net->len);
            amph_coll_copy(net->dst, theirs, net->len);
        }
    }

    return true;
}

static bool step_double(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    if (net->phase == DOUBLE_BEFORE) {
        if (!amph_coll_mail_pump(op->coll))
            return false;

        if (is_extra(net) && net->me % 2) {
            if (!amph_coll_mail_got(op->coll, PORT_ODD))
                return false;

            amph_coll_fold_wire(&op->fold, net->acc, net->dst, net->len);
        }

        net->phase = is_extra(net) && net->me % 2 == 0 ? DOUBLE_LAST : DOUBLE_ROUNDS;
    }

    if (net->phase == DOUBLE_ROUNDS) {
        if (!rounds(op))
            return false;

        if (is_extra(net))
            amph_coll_mail_out(op->coll, amph_coll_net_rank(op, net->me - 1), PORT_RESULT, net->dst,
                               net->len, net->len);

        net->phase = DOUBLE_AFTER;
    }

    if (net->phase == DOUBLE_LAST && !amph_coll_mail_got(op->coll, PORT_RESULT)) {
        amph_coll_mail_pump(op->coll);
        return false;
    }

    return amph_coll_mail_pump(op->coll);
}

void amph_coll_double_reduce_all(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;
    uint32_t extra = net->count - power_below(net->count);
    uint32_t k = 0;

    /* the left one of each first pair folds its own operand into that of the right one */
    net->result_in_dst = !extra && !(net->me & 1) && amph_coll_apart(net->dst, net->src, net->len);
    amph_coll_mail_begin(op->coll, op->seq, PORTS, PORTS, net->piece);
    if (!net->result_in_dst)
        amph_coll_copy(net->dst, net->src, net->len);

    net->step = step_double;

    if (is_extra(net) && net->me % 2 == 0) {
        amph_coll_mail_out(op->coll, amph_coll_net_rank(op, net->me + 1), PORT_ODD, net->dst,
                           net->len, net->len);
        amph_coll_mail_in(op->coll, PORT_RESULT, amph_coll_net_rank(op, net->me + 1), net->dst,
                          net->len);
        return;
    }

    uint32_t d = is_extra(net) ? net->me / 2 : net->me - extra;

    for (; (UINT32_C(1) << k) < power_below(net->count); k++)
        amph_coll_mail_in(
            op->coll, k, amph_coll_net_rank(op, participant_of(net, d ^ UINT32_C(1) << k)),
            !k && net->result_in_dst ? net->dst : net->scratch + k * net->len, net->len);

    net->acc = net->scratch + k * net->len;
    if (is_extra(net))
        amph_coll_mail_in(op->coll, PORT_ODD, amph_coll_net_rank(op, net->me - 1), net->acc,
                          net->len);
}

/* ---- scan: in each round the values of 2^round participants move 2^round to the right ---- */

static bool step_scan(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    for (; (UINT64_C(1) << net->round) < net->count; net->round++, net->sent = false) {
        uint64_t distance = UINT64_C(1) << net->round;

        if (!net->sent && net->me + distance < net->count)
            amph_coll_mail_out(op->coll, amph_coll_net_rank(op, net->me + (uint32_t)distance),
                               net->round, net->dst, net->len, net->len);

        net->sent = true;
        if (!amph_coll_mail_pump(op->coll))
            return false;
        if (net->me < distance)
            continue;
        if (!amph_coll_mail_got(op->coll, net->round))
            return false;

        amph_coll_fold_wire(&op->fold, net->scratch + net->round * net->len, net->dst, net->len);
    }

    return true;
}

void amph_coll_double_scan(struct amph_coll_op *op)
{
    struct amph_net *net = &op->net;

    amph_coll_mail_begin(op->coll, op->seq, PORTS, PORTS, net->piece);
    amph_coll_copy(net->dst, net->src, net->len);

    for (uint32_t k = 0; (UINT64_C(1) << k) <= net->me; k++)
        amph_coll_mail_in(op->coll, k, amph_coll_net_rank(op, net->me - (1u << k)),
                          net->scratch + k * net->len, net->len);

    net->step = step_scan;
}

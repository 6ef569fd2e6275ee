/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two sides of a transfer as rows of pieces that match; see vis.h.
 * Layer: extended.  Thread rule: any thread.
 */
#include "extended/rma/vis.h"

#include <stdlib.h>

#include "base/log.h"

/* ---- the number of bytes ---- */

static uint64_t strided_bytes(const struct amph_rma_vis_side *s)
{
    uint64_t bytes = s->len;

    for (size_t i = 0; i < s->levels; i++)
        bytes *= s->box[i];

    return bytes;
}

static uint64_t vector_bytes(struct amph_rma_vis_side *s)
{
    uint64_t sum = 0;
    bool equal = true;

    for (size_t i = 0; i < s->count; i++) {
        sum += s->vec[i].gex_len;
        equal &= s->vec[i].gex_len == s->vec[0].gex_len;
    }

    s->len = equal && s->count ? s->vec[0].gex_len : 0;

    return sum;
}

uint64_t amph_rma_vis_bytes(struct amph_rma_vis_side *s)
{
    switch (s->shape) {
    case AMPH_VIS_VECTOR:
        return vector_bytes(s);
    case AMPH_VIS_STRIDED:
        return strided_bytes(s);
    default:
        return (uint64_t)s->count * s->len;
    }
}

/* ---- strided ---- */

/* A level of a strided transfer. */
struct level {
    ptrdiff_t dst, src; /* strides */
    size_t count;
};

/* Calls row for all rows below `level`.  level[0] is the row itself. */
static void walk(const struct level *level, size_t levels, char *dst, char *src, size_t len,
                 amph_rma_vis_row_fn *row, void *arg)
{
    if (levels > 1) {
        const struct level *top = &level[levels - 1];

        for (size_t i = 0; i < top->count; i++)
            walk(level, levels - 1, dst + (ptrdiff_t)i * top->dst, src + (ptrdiff_t)i * top->src,
                 len, row, arg);

        return;
    }

    const struct amph_rma_vis_row to = { .base = dst, .step = level->dst };
    const struct amph_rma_vis_row from = { .base = src, .step = level->src };

    row(arg, &to, &from, level->count, len);
}

/* Copies the levels of both sides to out.  Leaves out levels of one piece and joins levels that
 * continue each other on both sides.  Returns the number of levels, at least 1.  Adds to *len_p
 * what is contiguous on both sides. */
static size_t join_levels(const struct amph_rma_vis_side *dst, const struct amph_rma_vis_side *src,
                          struct level *out, size_t *len_p)
{
    size_t n = 0;

    for (size_t i = 0; i < dst->levels; i++) {
        const struct level l = { dst->strides[i], src->strides[i], dst->box[i] };
        const struct level *below = n ? &out[n - 1] : NULL;

        if (l.count == 1)
            continue;

        if (!below && l.dst == (ptrdiff_t)*len_p && l.src == (ptrdiff_t)*len_p)
            *len_p *= l.count;
        else if (below && l.dst == below->dst * (ptrdiff_t)below->count &&
                 l.src == below->src * (ptrdiff_t)below->count)
            out[n - 1].count *= l.count;
        else
            out[n++] = l;
    }

    if (n == 0)
        out[n++] = (struct level){ (ptrdiff_t)*len_p, (ptrdiff_t)*len_p, 1 };

    return n;
}

/* Strided: both sides have the same extents and element length, because the call has only one
 * argument for both. */
static void each_strided(const struct amph_rma_vis_side *dst, const struct amph_rma_vis_side *src,
                         amph_rma_vis_row_fn *row, void *arg)
{
    struct level few[8];
    struct level *level = few;
    size_t len = dst->len;

    if (dst->levels > AMPH_COUNTOF(few))
        level = malloc(dst->levels * sizeof *level);
    if (!level)
        amph_fatal("gex_VIS: no memory for %zu levels of strides", dst->levels);

    size_t levels = join_levels(dst, src, level, &len);

    walk(level, levels, dst->base, src->base, len, row, arg);
    if (level != few)
        free(level);
}

/* ---- lists ---- */

static char *listed(const struct amph_rma_vis_side *s, size_t i, size_t *len_p)
{
    if (s->shape == AMPH_VIS_INDEXED) {
        *len_p = s->len;
        return s->list[i];
    }

    *len_p = s->vec[i].gex_len;
    return s->vec[i].gex_addr;
}

/* Describes the pieces of a side as a row: count pieces of len bytes, or count parts of its only
 * piece. false: the pieces are not of this kind. */
static bool as_row(const struct amph_rma_vis_side *s, size_t count, size_t len,
                   struct amph_rma_vis_row *row_p)
{
    if (s->count == 1) {
        size_t all;

        *row_p = (struct amph_rma_vis_row){ .base = listed(s, 0, &all), .step = (ptrdiff_t)len };
        return true;
    }

    if (s->count != count || s->len != len)
        return false;

    *row_p = s->shape == AMPH_VIS_INDEXED
                 ? (struct amph_rma_vis_row){ .list = (const char *)s->list,
                                              .step = sizeof *s->list }
                 : (struct amph_rma_vis_row){ .list = (const char *)&s->vec->gex_addr,
                                              .step = sizeof *s->vec };

    return true;
}

/* A side whose pieces are taken from its list one after the other. */
struct cursor {
    const struct amph_rma_vis_side *side;
    size_t next; /* piece after the current one */
    char *at;    /* what is left of the current one */
    size_t left;
};

/* If the current piece is used up, makes the next one current, joined with those that follow it
 * in memory. false: no more pieces. */
static bool refill(struct cursor *c)
{
    if (c->left)
        return true;

    while (c->next < c->side->count) {
        size_t len;
        char *at = listed(c->side, c->next, &len);

        if (c->left && at != c->at + c->left)
            break;

        if (len && !c->left)
            c->at = at;

        c->left += len;
        c->next++;
    }

    return c->left != 0;
}

/* Lists whose pieces do not match one to one: a row for each run of bytes that both have. */
static void each_run(const struct amph_rma_vis_side *dst, const struct amph_rma_vis_side *src,
                     amph_rma_vis_row_fn *row, void *arg)
{
    struct cursor to = { .side = dst };
    struct cursor from = { .side = src };

    while (refill(&to) && refill(&from)) {
        size_t n = to.left < from.left ? to.left : from.left;
        const struct amph_rma_vis_row to_row = { .base = to.at, .step = (ptrdiff_t)n };
        const struct amph_rma_vis_row from_row = { .base = from.at, .step = (ptrdiff_t)n };

        row(arg, &to_row, &from_row, 1, n);

        to.at += n;
        to.left -= n;
        from.at += n;
        from.left -= n;
    }
}

void amph_rma_vis_each_row(const struct amph_rma_vis_side *dst, const struct amph_rma_vis_side *src,
                           amph_rma_vis_row_fn *row, void *arg)
{
    if (dst->shape == AMPH_VIS_STRIDED) {
        each_strided(dst, src, row, arg);
        return;
    }

    const struct amph_rma_vis_side *many = dst->count > 1 ? dst : src;
    struct amph_rma_vis_row to;
    struct amph_rma_vis_row from;

    if (many->len && as_row(dst, many->count, many->len, &to) &&
        as_row(src, many->count, many->len, &from))
        row(arg, &to, &from, many->count, many->len);
    else
        each_run(dst, src, row, arg);
}

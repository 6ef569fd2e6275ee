/* SPDX-License-Identifier: BSD-3-Clause */
/* A side of a transfer as runs of bytes; see vis.h.  Layer: extended. */
#include "extended/rma/vis.h"

static size_t pieces(const struct amph_vis_side *s)
{
    size_t n = 1;

    if (s->shape != AMPH_VIS_STRIDED)
        return s->count;

    for (size_t i = 0; i < s->levels; i++)
        n *= s->box[i];

    return n;
}

uint64_t amph_rma_vis_bytes(const struct amph_vis_side *s)
{
    uint64_t sum = 0;

    if (s->shape != AMPH_VIS_VECTOR)
        return (uint64_t)pieces(s) * s->len;

    for (size_t i = 0; i < s->count; i++)
        sum += s->vec[i].gex_len;

    return sum;
}

/* Place and length of piece i.  The place in a box is found from the number, so that no state of
 * any size is kept. */
static char *piece(const struct amph_vis_side *s, size_t i, size_t *len_p)
{
    *len_p = s->shape == AMPH_VIS_VECTOR ? s->vec[i].gex_len : s->len;
    if (s->shape == AMPH_VIS_VECTOR)
        return s->vec[i].gex_addr;
    if (s->shape == AMPH_VIS_INDEXED)
        return s->list[i];

    ptrdiff_t off = 0;

    for (size_t level = 0; level < s->levels; level++) {
        off += (ptrdiff_t)(i % s->box[level]) * s->strides[level];
        i /= s->box[level];
    }

    return s->base + off;
}

bool amph_rma_vis_fill(struct amph_vis_side *s)
{
    if (s->left)
        return true;

    if (s->shape == AMPH_VIS_STRIDED && !s->count)
        s->count = pieces(s);

    while (s->next < s->count) {
        size_t len;
        char *at = piece(s, s->next, &len);

        if (s->left && at != s->at + s->left)
            break;

        if (len && !s->left)
            s->at = at;

        s->left += len;
        s->next++;
    }

    return s->left != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of locked byte ranges; see ranges.h.  Layer: iofwd. */
#include "iofwd/wire/ranges.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Returns the index of the first range of this kind that ends at `from` or later. */
static uint32_t first_ending_at(const struct amph_fwd_ranges *set, short kind, int64_t from)
{
    uint32_t low = 0;
    uint32_t high = set->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct amph_fwd_range *at = &set->item[middle];

        if (at->kind < kind || (at->kind == kind && at->to < from))
            low = middle + 1;
        else
            high = middle;
    }

    return low;
}

static bool reserve(struct amph_fwd_ranges *set, uint32_t n)
{
    if (n <= set->cap)
        return true;

    uint32_t cap = n < 2 * set->cap ? 2 * set->cap : n;
    struct amph_fwd_range *item = realloc(set->item, cap * sizeof *item);

    if (!item)
        return false;

    set->item = item;
    set->cap = cap;
    return true;
}

/* Replaces the ranges from index `first` up to `end` by the n ranges at `now`. */
static void replace(struct amph_fwd_ranges *set, uint32_t first, uint32_t end,
                    const struct amph_fwd_range *now, uint32_t n)
{
    memmove(&set->item[first + n], &set->item[end], (set->n - end) * sizeof *now);
    if (n)
        memcpy(&set->item[first], now, n * sizeof *now);

    set->n = set->n - (end - first) + n;
}

static void add(struct amph_fwd_range *now, uint32_t *n_p, struct amph_fwd_range r)
{
    if (r.type != F_UNLCK && r.from < r.to)
        now[(*n_p)++] = r;
}

bool amph_fwd_ranges_set(struct amph_fwd_ranges *set, struct amph_fwd_range r)
{
    if (!reserve(set, set->n + 2)) /* an unlock in the middle of a range makes two of it */
        return false;

    /* the ranges that r overlaps or touches */
    uint32_t first = first_ending_at(set, r.kind, r.from);
    uint32_t end = first;

    while (end < set->n && set->item[end].kind == r.kind && set->item[end].from <= r.to)
        end++;

    /* what stays of the first one before r, and of the last one after r; r takes in its like */
    struct amph_fwd_range head = { .type = F_UNLCK };
    struct amph_fwd_range tail = { .type = F_UNLCK };

    if (first < end) {
        head = set->item[first];
        tail = set->item[end - 1];

        if (head.type == r.type && head.from < r.from)
            r.from = head.from;
        if (tail.type == r.type && tail.to > r.to)
            r.to = tail.to;

        head.to = head.to < r.from ? head.to : r.from;
        tail.from = tail.from > r.to ? tail.from : r.to;
    }

    struct amph_fwd_range now[3];
    uint32_t n = 0;

    add(now, &n, head);
    add(now, &n, r);
    add(now, &n, tail);
    replace(set, first, end, now, n);

    return true;
}

bool amph_fwd_ranges_holds(const struct amph_fwd_ranges *set, const struct amph_fwd_range *r)
{
    for (uint32_t i = first_ending_at(set, r->kind, r->from); i < set->n; i++) {
        const struct amph_fwd_range *at = &set->item[i];

        if (at->kind != r->kind || at->from >= r->to)
            return false;

        if (at->type == r->type && at->to > r->from)
            return true;
    }

    return false;
}

void amph_fwd_ranges_forget(struct amph_fwd_ranges *set, short kind)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < set->n; i++)
        if (set->item[i].kind != kind)
            set->item[kept++] = set->item[i];

    set->n = kept;
}

void amph_fwd_ranges_forget_above(struct amph_fwd_ranges *set, short kind)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < set->n; i++)
        if (set->item[i].kind <= kind)
            set->item[kept++] = set->item[i];

    set->n = kept;
}

bool amph_fwd_ranges_copy(const struct amph_fwd_ranges *set, struct amph_fwd_ranges *copy_p)
{
    *copy_p = (struct amph_fwd_ranges){
        .n = set->n, .cap = set->n + 1, .item = malloc((set->n + (size_t)1) * sizeof *copy_p->item)
    };
    if (!copy_p->item)
        return false;

    if (set->n)
        memcpy(copy_p->item, set->item, set->n * sizeof *set->item);

    return true;
}

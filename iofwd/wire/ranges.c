/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of locked byte ranges; see ranges.h.  Layer: iofwd. */
#include "iofwd/wire/ranges.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

bool amph_fwd_ranges_set(struct amph_fwd_ranges *set, struct amph_fwd_range r)
{
    /* each range may be split in two */
    struct amph_fwd_range *now = malloc((2 * (size_t)set->n + 1) * sizeof *now);
    uint32_t n = 0;

    if (!now)
        return false;

    for (uint32_t i = 0; i < set->n; i++) {
        struct amph_fwd_range old = set->item[i];
        bool other = old.kind != r.kind;

        if (!other && old.type == r.type && old.from <= r.to && r.from <= old.to) {
            r.from = old.from < r.from ? old.from : r.from;
            r.to = old.to > r.to ? old.to : r.to;
        } else if (other || old.to <= r.from || r.to <= old.from)
            now[n++] = old;
        else {
            if (old.from < r.from)
                now[n++] = (struct amph_fwd_range){ old.from, r.from, old.type, old.kind };

            if (r.to < old.to)
                now[n++] = (struct amph_fwd_range){ r.to, old.to, old.type, old.kind };
        }
    }

    if (r.type != F_UNLCK)
        now[n++] = r;

    free(set->item);
    set->item = now;
    set->n = n;

    return true;
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
        .n = set->n, .item = malloc((set->n + (size_t)1) * sizeof *copy_p->item)
    };
    if (!copy_p->item)
        return false;

    if (set->n)
        memcpy(copy_p->item, set->item, set->n * sizeof *set->item);

    return true;
}

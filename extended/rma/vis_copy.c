/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying rows of pieces in memory: one loop for each class of sizes, so that a short piece costs its
 * loads and stores and no call.
 * Layer: extended.  Thread rule: any thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/copy.h"
#include "base/platform.h"
#include "extended/rma/vis.h"

/* Two copies of UNIT bytes that may overlap handle every length from UNIT to 2 * UNIT.  Both are
 * read before either is written. */
#define ENDS(UNIT) \
    do { \
        char head[UNIT]; \
        char tail[UNIT]; \
\
        memcpy(head, src, UNIT); \
        memcpy(tail, src + len - UNIT, UNIT); \
        memcpy(dst, head, UNIT); \
        memcpy(dst + len - UNIT, tail, UNIT); \
    } while (0)

/* Sizes that the processor copies with one or two moves have their own class. */
/* clang-format off */
#define CLASSES(CLASS) \
    CLASS(one,        memcpy(dst, src, 1)) \
    CLASS(two,        memcpy(dst, src, 2)) \
    CLASS(four,       memcpy(dst, src, 4)) \
    CLASS(eight,      memcpy(dst, src, 8)) \
    CLASS(sixteen,    memcpy(dst, src, 16)) \
    CLASS(thirty_two, memcpy(dst, src, 32)) \
    CLASS(sixty_four, memcpy(dst, src, 64)) \
    CLASS(to_4,       ENDS(2)) \
    CLASS(to_8,       ENDS(4)) \
    CLASS(to_16,      ENDS(8)) \
    CLASS(to_32,      ENDS(16)) \
    CLASS(to_64,      ENDS(32)) \
    CLASS(to_128,     ENDS(64)) \
    CLASS(any,        memcpy(dst, src, len))
/* clang-format on */

/* Address of piece i.  `listed` is a constant where this is inlined. */
static inline __attribute__((always_inline)) char *piece_at(const struct amph_rma_vis_row *row,
                                                            size_t i, bool listed)
{
    if (listed)
        return amph_rma_vis_listed(row, i);

    return row->base + (ptrdiff_t)i * row->step;
}

#define DEFINE_CLASS(NAME, COPY) \
    static inline \
        __attribute__((always_inline)) void copy_##NAME(char *dst, const char *src, size_t len) \
    { \
        COPY; \
    } \
\
    static inline __attribute__((always_inline)) void loop_##NAME( \
        const struct amph_rma_vis_row dst, const struct amph_rma_vis_row src, size_t count, \
        size_t len, bool dst_listed, bool src_listed) \
    { \
        for (size_t i = 0; i < count; i++) \
            copy_##NAME(piece_at(&dst, i, dst_listed), piece_at(&src, i, src_listed), len); \
    } \
\
    static void row_##NAME(const struct amph_rma_vis_row *dst, const struct amph_rma_vis_row *src, \
                           size_t count, size_t len) \
    { \
        if (dst->list && src->list) \
            loop_##NAME(*dst, *src, count, len, true, true); \
        else if (dst->list) \
            loop_##NAME(*dst, *src, count, len, true, false); \
        else if (src->list) \
            loop_##NAME(*dst, *src, count, len, false, true); \
        else \
            loop_##NAME(*dst, *src, count, len, false, false); \
    }

CLASSES(DEFINE_CLASS)

typedef void row_fn(const struct amph_rma_vis_row *dst, const struct amph_rma_vis_row *src,
                    size_t count, size_t len);

static row_fn *class_of(size_t len)
{
    /* clang-format off */
    static const struct {
        size_t max;
        row_fn *exact;   /* for len == max */
        row_fn *below;   /* for shorter ones, down to the row before */
    } classes[] = {
        { 1,   row_one,        row_one    },
        { 2,   row_two,        row_two    },
        { 4,   row_four,       row_to_4   },
        { 8,   row_eight,      row_to_8   },
        { 16,  row_sixteen,    row_to_16  },
        { 32,  row_thirty_two, row_to_32  },
        { 64,  row_sixty_four, row_to_64  },
        { 128, row_to_128,     row_to_128 },
    };
    /* clang-format on */

    for (size_t i = 0; i < AMPH_COUNTOF(classes); i++)
        if (len <= classes[i].max)
            return len == classes[i].max ? classes[i].exact : classes[i].below;

    return row_any;
}

void amph_rma_vis_copy(const struct amph_rma_vis_row *dst, const struct amph_rma_vis_row *src,
                       size_t count, size_t len)
{
    bool dst_solid = !dst->list && dst->step == (ptrdiff_t)len;
    bool src_solid = !src->list && src->step == (ptrdiff_t)len;

    if (dst_solid && src_solid)
        amph_copy(dst->base, src->base, count * len);
    else
        class_of(len)(dst, src, count, len);
}

/* ---- lists, checked and copied in one pass ---- */

/* len, to_list and vector are constants where this is inlined. */
static inline __attribute__((always_inline)) size_t list_loop(const struct amph_rma_vis_list list,
                                                              char *solid, size_t len, bool to_list,
                                                              bool vector)
{
    const size_t step = vector ? sizeof(gex_Memvec_t) : sizeof(void *);
    const char *entry = list.entries;

    for (size_t i = 0; i < list.count; i++, entry += step, solid += len) {
        gex_Memvec_t piece = { .gex_len = len };

        memcpy(&piece, entry, step);
        uintptr_t at = (uintptr_t)piece.gex_addr;

        if (AMPH_UNLIKELY(piece.gex_len != len || (uint64_t)at - list.base > list.max_offset))
            return i;

        char *here = (char *)(at + (uintptr_t)list.mapping);

        memcpy(to_list ? here : solid, to_list ? solid : here, len);
    }

    return list.count;
}

#define QUICK(NAME, LEN) \
    static size_t list_##NAME(const struct amph_rma_vis_list *list, char *solid, bool to_list) \
    { \
        if (list->vector) \
            return to_list ? list_loop(*list, solid, LEN, true, true) \
                           : list_loop(*list, solid, LEN, false, true); \
\
        return to_list ? list_loop(*list, solid, LEN, true, false) \
                       : list_loop(*list, solid, LEN, false, false); \
    }

QUICK(four, 4)
QUICK(eight, 8)
QUICK(sixteen, 16)
QUICK(thirty_two, 32)
QUICK(sixty_four, 64)

typedef size_t list_fn(const struct amph_rma_vis_list *list, char *solid, bool to_list);

static list_fn *quick_list(size_t len)
{
    switch (len) {
    case 4:
        return list_four;
    case 8:
        return list_eight;
    case 16:
        return list_sixteen;
    case 32:
        return list_thirty_two;
    case 64:
        return list_sixty_four;
    default:
        return NULL;
    }
}

bool amph_rma_vis_is_quick(size_t len)
{
    return quick_list(len) != NULL;
}

size_t amph_rma_vis_copy_list(const struct amph_rma_vis_list *list, char *solid, size_t len,
                              bool to_list)
{
    return quick_list(len)(list, solid, to_list);
}

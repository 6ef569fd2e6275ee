/* SPDX-License-Identifier: BSD-3-Clause */
/* GASNet-1's vector, indexed and strided transfers, implemented by those of GASNet-EX.  Layer:
 * extended.  Thread rule: any thread. */
#include "amphora/vis1.h"
#include "amphora/team.h"

#include "base/log.h"
#include "base/platform.h"

_Static_assert(sizeof(gasnet_memvec_t) == sizeof(gex_Memvec_t) &&
                   sizeof(size_t) == sizeof(ptrdiff_t),
               "lists are passed on as they are");

static const gex_Memvec_t *vec(const gasnet_memvec_t *list)
{
    return (const gex_Memvec_t *)list;
}

/* GASNet-1 has no negative strides: a stride beyond PTRDIFF_MAX is an error. */
static const ptrdiff_t *signed_strides(const size_t *strides, size_t levels, const char *call)
{
    for (size_t i = 0; i < levels; i++)
        if (strides[i] > PTRDIFF_MAX)
            amph_fatal("%s: stride %zu is %zu bytes", call, i, strides[i]);

    return (const ptrdiff_t *)strides;
}

#define DEFINE_VIS1(TYPE, SUFFIX, FORM, RETURN) \
    TYPE gasnet_putv##SUFFIX(gex_Rank_t node, size_t dstcount, gasnet_memvec_t const dstlist[], \
                             size_t srccount, gasnet_memvec_t const srclist[]) \
    { \
        RETURN gex_VIS_VectorPut##FORM(amphora_team0, node, dstcount, vec(dstlist), srccount, \
                                       vec(srclist), 0); \
    } \
    TYPE gasnet_getv##SUFFIX(size_t dstcount, gasnet_memvec_t const dstlist[], gex_Rank_t node, \
                             size_t srccount, gasnet_memvec_t const srclist[]) \
    { \
        RETURN gex_VIS_VectorGet##FORM(amphora_team0, dstcount, vec(dstlist), node, srccount, \
                                       vec(srclist), 0); \
    } \
    TYPE gasnet_puti##SUFFIX(gex_Rank_t node, size_t dstcount, void *const dstlist[], \
                             size_t dstlen, size_t srccount, void *const srclist[], size_t srclen) \
    { \
        RETURN gex_VIS_IndexedPut##FORM(amphora_team0, node, dstcount, dstlist, dstlen, srccount, \
                                        srclist, srclen, 0); \
    } \
    TYPE gasnet_geti##SUFFIX(size_t dstcount, void *const dstlist[], size_t dstlen, \
                             gex_Rank_t node, size_t srccount, void *const srclist[], \
                             size_t srclen) \
    { \
        RETURN gex_VIS_IndexedGet##FORM(amphora_team0, dstcount, dstlist, dstlen, node, srccount, \
                                        srclist, srclen, 0); \
    } \
    TYPE gasnet_puts##SUFFIX(gex_Rank_t node, void *dstaddr, const size_t dststrides[], \
                             void *srcaddr, const size_t srcstrides[], const size_t count[], \
                             size_t levels) \
    { \
        RETURN gex_VIS_StridedPut##FORM(amphora_team0, node, dstaddr, \
                                        signed_strides(dststrides, levels, "gasnet_puts" #SUFFIX), \
                                        srcaddr, \
                                        signed_strides(srcstrides, levels, "gasnet_puts" #SUFFIX), \
                                        count[0], count + 1, levels, 0); \
    } \
    TYPE gasnet_gets##SUFFIX(void *dstaddr, const size_t dststrides[], gex_Rank_t node, \
                             void *srcaddr, const size_t srcstrides[], const size_t count[], \
                             size_t levels) \
    { \
        RETURN gex_VIS_StridedGet##FORM( \
            amphora_team0, dstaddr, signed_strides(dststrides, levels, "gasnet_gets" #SUFFIX), \
            node, srcaddr, signed_strides(srcstrides, levels, "gasnet_gets" #SUFFIX), count[0], \
            count + 1, levels, 0); \
    }

/* clang-format off */
DEFINE_VIS1(void, _bulk, Blocking, (void))
DEFINE_VIS1(void, _nbi_bulk, NBI, (void))
DEFINE_VIS1(gex_Event_t, _nb_bulk, NB, return)
/* clang-format on */

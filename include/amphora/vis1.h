/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GASNet-1's vector, indexed and strided transfers: as those of amphora/vis.h over all processes.
 * In strided ones count[0] is the bytes of a piece and strides[i] the distance in dimension count[i
 * + 1].  _nb gives a handle, _nbi counts with the implicit ones.
 */
#ifndef AMPHORA_VIS1_H
#define AMPHORA_VIS1_H

#include "amphora/gasnet1.h"
#include "amphora/vis.h"

AMPHORA_BEGIN_C

#define AMPHORA_DECLARE_VIS1(TYPE, SUFFIX) \
    TYPE gasnet_putv##SUFFIX(gex_Rank_t dstnode, size_t dstcount, gasnet_memvec_t const dstlist[], \
                             size_t srccount, gasnet_memvec_t const srclist[]); \
    TYPE gasnet_getv##SUFFIX(size_t dstcount, gasnet_memvec_t const dstlist[], gex_Rank_t srcnode, \
                             size_t srccount, gasnet_memvec_t const srclist[]); \
    TYPE gasnet_puti##SUFFIX(gex_Rank_t dstnode, size_t dstcount, void *const dstlist[], \
                             size_t dstlen, size_t srccount, void *const srclist[], \
                             size_t srclen); \
    TYPE gasnet_geti##SUFFIX(size_t dstcount, void *const dstlist[], size_t dstlen, \
                             gex_Rank_t srcnode, size_t srccount, void *const srclist[], \
                             size_t srclen); \
    TYPE gasnet_puts##SUFFIX(gex_Rank_t dstnode, void *dstaddr, const size_t dststrides[], \
                             void *srcaddr, const size_t srcstrides[], const size_t count[], \
                             size_t stridelevels); \
    TYPE gasnet_gets##SUFFIX(void *dstaddr, const size_t dststrides[], gex_Rank_t srcnode, \
                             void *srcaddr, const size_t srcstrides[], const size_t count[], \
                             size_t stridelevels);

/* clang-format off */
AMPHORA_DECLARE_VIS1(void, _bulk)
AMPHORA_DECLARE_VIS1(void, _nbi_bulk)
AMPHORA_DECLARE_VIS1(gex_Event_t, _nb_bulk)
/* clang-format on */

AMPHORA_END_C

#endif

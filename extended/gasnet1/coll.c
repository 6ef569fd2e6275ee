/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives of GASNet-1; see amphora/coll1.h.  Layer: extended.  Thread rule: coll.h;
 * gasnet_coll_init by one thread. */
#include "amphora/coll1.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "extended/check.h"
#include "extended/coll/coll.h"

/* ---- operators ---- */

/* A row of the client's table with a call's argument; belongs to the operation. */
struct bound {
    gasnet_coll_fn_entry_t entry;
    size_t elem_size;
    int arg;
};

void gasnet_coll_init(const gasnet_image_t images[], gasnet_image_t my_image,
                      gasnet_coll_fn_entry_t fn_tbl[], size_t fn_tbl_sz, int init_flags)
{
    struct amph_gex *g = amph_gex_need("gasnet_coll_init");

    for (uint32_t i = 0; images && i < g->team.pub.size; i++)
        if (images[i] != 1)
            amph_fatal("gasnet_coll_init: process %u is said to have %u images; a process has one "
                       "image here",
                       i, images[i]);

    if (fn_tbl_sz && !fn_tbl)
        amph_fatal("gasnet_coll_init: a table of %zu functions at NULL is none", fn_tbl_sz);

    gasnet_coll_fn_entry_t *table = calloc(fn_tbl_sz + 1, sizeof *table);

    if (!table)
        amph_fatal("no memory for a table of %zu operators", fn_tbl_sz);

    if (fn_tbl_sz)
        memcpy(table, fn_tbl, fn_tbl_sz * sizeof *table);

    free(g->colls->operators);
    g->colls->operators = table;
    g->colls->noperators = fn_tbl_sz;
}

/* The client's form writes its result beside its operands; pieces bound the memory for that. */
static void call_operator(const void *left, void *right, size_t count, const void *cdata)
{
    const struct bound *b = cdata;

    _Alignas(16) uint8_t small[AMPH_COLL_INLINE];

    size_t max = AMPH_COLL_SEGMENT / b->elem_size;

    if (max == 0)
        max = 1;

    size_t piece = count < max ? count : max;
    size_t len = piece * b->elem_size;
    uint8_t *out = len <= sizeof small ? small : amph_coll_pool_get(len);

    for (size_t i = 0; i < count; i += piece) {
        size_t n = count - i < piece ? count - i : piece;
        size_t at = i * b->elem_size;

        b->entry.fnptr(out, n, (const uint8_t *)left + at, n, (uint8_t *)right + at, b->elem_size,
                       (int)b->entry.flags, b->arg);
        memcpy((uint8_t *)right + at, out, n * b->elem_size);
    }

    if (out != small)
        amph_coll_pool_put(out, len);
}

static struct amph_fold bind_operator(size_t elem_size, size_t elem_count,
                                      gasnet_coll_fn_handle_t func, int arg, const char *call)
{
    const struct amph_colls *all = amph_gex_need(call)->colls;

    if (func >= all->noperators || !all->operators[func].fnptr)
        amph_fatal("%s: there is no operator %u; gasnet_coll_init was given %zu", call, func,
                   all->noperators);

    if (!elem_size || elem_count > SIZE_MAX / elem_size)
        amph_fatal("%s: %zu elements of %zu bytes are none that can be reduced", call, elem_count,
                   elem_size);

    struct bound *b = malloc(sizeof *b);

    if (!b)
        amph_fatal("no memory for another collective");

    *b = (struct bound){ .entry = all->operators[func], .elem_size = elem_size, .arg = arg };
    return (struct amph_fold){ .fn = call_operator,
                               .cdata = b,
                               .elem_bytes = elem_size,
                               .commutes = !(b->entry.flags & GASNET_COLL_NONCOMM),
                               .owned = true };
}

/* ---- calls ---- */

#define IN_FLAGS (GASNET_COLL_IN_NOSYNC | GASNET_COLL_IN_MYSYNC | GASNET_COLL_IN_ALLSYNC)
#define OUT_FLAGS (GASNET_COLL_OUT_NOSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_OUT_ALLSYNC)
#define HINTS (GASNET_COLL_AGGREGATE | GASNET_COLL_DST_IN_SEGMENT | GASNET_COLL_SRC_IN_SEGMENT)
#define ADDRESS_SCOPES (GASNET_COLL_LOCAL | GASNET_COLL_SINGLE)

static void check_flags(int flags, const char *call)
{
    int in = flags & IN_FLAGS;
    int out = flags & OUT_FLAGS;
    int scope = flags & ADDRESS_SCOPES;

    if ((flags & ~(IN_FLAGS | OUT_FLAGS | HINTS | ADDRESS_SCOPES)) || (in & (in - 1)) ||
        (out & (out - 1)) || (scope & (scope - 1)))
        amph_fatal("%s: flags %#x are not one of GASNET_COLL_IN_NOSYNC, MYSYNC and ALLSYNC, one of "
                   "OUT_NOSYNC, MYSYNC and ALLSYNC, "
                   "one of LOCAL and SINGLE, and hints",
                   call, (unsigned)flags);
}

static gasnet_coll_handle_t start(gasnet_team_handle_t tm, struct amph_coll_args *args, int flags,
                                  const char *call)
{
    amph_check_call(call);

    struct amph_team *team = amph_gex_team_of(tm, call);

    check_flags(flags, call);
    if (args->root >= team->pub.size)
        amph_fatal("%s: image %u is out of range; the team has %u", call, args->root,
                   team->pub.size);

    args->sync_first = flags & GASNET_COLL_IN_ALLSYNC;
    args->sync_last = flags & GASNET_COLL_OUT_ALLSYNC;
    return amph_coll_start(team, args);
}

/* This process's address in a list. */
static void *own(gasnet_team_handle_t tm, void *const list[], int flags, const char *call)
{
    return list[flags & GASNET_COLL_SINGLE ? amph_gex_team_of(tm, call)->pub.rank : 0];
}

gasnet_coll_handle_t gasnet_coll_broadcast_nb(gasnet_team_handle_t team, void *dst,
                                              gasnet_image_t srcimage, void *src, size_t nbytes,
                                              int flags)
{
    struct amph_coll_args args = {
        .kind = AMPH_COLL_BROADCAST, .root = srcimage, .dst = dst, .src = src, .block = nbytes
    };
    return start(team, &args, flags, "gasnet_coll_broadcast");
}

gasnet_coll_handle_t gasnet_coll_broadcastM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                               gasnet_image_t srcimage, void *src, size_t nbytes,
                                               int flags)
{
    return gasnet_coll_broadcast_nb(team, own(team, dstlist, flags, "gasnet_coll_broadcastM"),
                                    srcimage, src, nbytes, flags);
}

gasnet_coll_handle_t gasnet_coll_scatter_nb(gasnet_team_handle_t team, void *dst,
                                            gasnet_image_t srcimage, void *src, size_t nbytes,
                                            int flags)
{
    struct amph_coll_args args = {
        .kind = AMPH_COLL_SCATTER, .root = srcimage, .dst = dst, .src = src, .block = nbytes
    };
    return start(team, &args, flags, "gasnet_coll_scatter");
}

gasnet_coll_handle_t gasnet_coll_scatterM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                             gasnet_image_t srcimage, void *src, size_t nbytes,
                                             int flags)
{
    return gasnet_coll_scatter_nb(team, own(team, dstlist, flags, "gasnet_coll_scatterM"), srcimage,
                                  src, nbytes, flags);
}

gasnet_coll_handle_t gasnet_coll_gather_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                           void *dst, void *src, size_t nbytes, int flags)
{
    struct amph_coll_args args = {
        .kind = AMPH_COLL_GATHER, .root = dstimage, .dst = dst, .src = src, .block = nbytes
    };
    return start(team, &args, flags, "gasnet_coll_gather");
}

gasnet_coll_handle_t gasnet_coll_gatherM_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                            void *dst, void *const srclist[], size_t nbytes,
                                            int flags)
{
    return gasnet_coll_gather_nb(team, dstimage, dst,
                                 own(team, srclist, flags, "gasnet_coll_gatherM"), nbytes, flags);
}

gasnet_coll_handle_t gasnet_coll_gather_all_nb(gasnet_team_handle_t team, void *dst, void *src,
                                               size_t nbytes, int flags)
{
    struct amph_coll_args args = {
        .kind = AMPH_COLL_GATHER_ALL, .dst = dst, .src = src, .block = nbytes
    };
    return start(team, &args, flags, "gasnet_coll_gather_all");
}

gasnet_coll_handle_t gasnet_coll_gather_allM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                                void *const srclist[], size_t nbytes, int flags)
{
    void *dst = own(team, dstlist, flags, "gasnet_coll_gather_allM");
    void *src = own(team, srclist, flags, "gasnet_coll_gather_allM");

    return gasnet_coll_gather_all_nb(team, dst, src, nbytes, flags);
}

gasnet_coll_handle_t gasnet_coll_exchange_nb(gasnet_team_handle_t team, void *dst, void *src,
                                             size_t nbytes, int flags)
{
    struct amph_coll_args args = {
        .kind = AMPH_COLL_EXCHANGE, .dst = dst, .src = src, .block = nbytes
    };
    return start(team, &args, flags, "gasnet_coll_exchange");
}

gasnet_coll_handle_t gasnet_coll_exchangeM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                              void *const srclist[], size_t nbytes, int flags)
{
    void *dst = own(team, dstlist, flags, "gasnet_coll_exchangeM");
    void *src = own(team, srclist, flags, "gasnet_coll_exchangeM");

    return gasnet_coll_exchange_nb(team, dst, src, nbytes, flags);
}

gasnet_coll_handle_t gasnet_coll_reduce_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                           void *dst, void *src, size_t src_blksz,
                                           size_t src_offset, size_t elem_size, size_t elem_count,
                                           gasnet_coll_fn_handle_t func, int func_arg, int flags)
{
    const struct amph_fold fold = bind_operator(elem_size, elem_count, func, func_arg,
                                                "gasnet_coll_reduce");
    struct amph_coll_args args = { .kind = AMPH_COLL_REDUCE,
                                   .root = dstimage,
                                   .dst = dst,
                                   .src = src,
                                   .block = elem_size * elem_count,
                                   .fold = &fold };

    return start(team, &args, flags, "gasnet_coll_reduce");
}

gasnet_coll_handle_t gasnet_coll_reduceM_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                            void *dst, void *const srclist[], size_t src_blksz,
                                            size_t src_offset, size_t elem_size, size_t elem_count,
                                            gasnet_coll_fn_handle_t func, int func_arg, int flags)
{
    void *src = own(team, srclist, flags, "gasnet_coll_reduceM");
    return gasnet_coll_reduce_nb(team, dstimage, dst, src, src_blksz, src_offset, elem_size,
                                 elem_count, func, func_arg, flags);
}

gasnet_coll_handle_t gasnet_coll_scan_nb(gasnet_team_handle_t team, void *dst, size_t dst_blksz,
                                         size_t dst_offset, void *src, size_t src_blksz,
                                         size_t src_offset, size_t elem_size, size_t elem_count,
                                         gasnet_coll_fn_handle_t func, int func_arg, int flags)
{
    const struct amph_fold fold = bind_operator(elem_size, elem_count, func, func_arg,
                                                "gasnet_coll_scan");
    struct amph_coll_args args = { .kind = AMPH_COLL_SCAN,
                                   .dst = dst,
                                   .src = src,
                                   .block = elem_size * elem_count,
                                   .fold = &fold };

    return start(team, &args, flags, "gasnet_coll_scan");
}

gasnet_coll_handle_t gasnet_coll_scanM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                          size_t dst_blksz, size_t dst_offset,
                                          void *const srclist[], size_t src_blksz,
                                          size_t src_offset, size_t elem_size, size_t elem_count,
                                          gasnet_coll_fn_handle_t func, int func_arg, int flags)
{
    void *dst = own(team, dstlist, flags, "gasnet_coll_scanM");
    void *src = own(team, srclist, flags, "gasnet_coll_scanM");

    return gasnet_coll_scan_nb(team, dst, dst_blksz, dst_offset, src, src_blksz, src_offset,
                               elem_size, elem_count, func, func_arg, flags);
}

/* ---- handles ---- */

int gasnet_coll_try_sync(gasnet_coll_handle_t handle)
{
    return gasnet_try_syncnb(handle);
}

int gasnet_coll_try_sync_some(gasnet_coll_handle_t *handles, size_t count)
{
    return gasnet_try_syncnb_some(handles, count);
}

int gasnet_coll_try_sync_all(gasnet_coll_handle_t *handles, size_t count)
{
    return gasnet_try_syncnb_all(handles, count);
}

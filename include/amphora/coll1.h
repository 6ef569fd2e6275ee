/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of GASNet-1; included by gasnet_coll.h.  The names are those that clients use
 * beyond the specification's text.
 *
 * A team is a gex_TM_t, GASNET_TEAM_ALL that of all processes; an image is a process, so image
 * numbers are ranks of the team.  All members make the same calls on a team in the same order.
 *
 * flags: one GASNET_COLL_IN_ and one OUT_ word, GASNET_COLL_LOCAL or SINGLE, and hints.  ALLSYNC:
 * no data moves before all members have made the call (IN), nobody's call is complete before all
 * data has moved (OUT).  MYSYNC and NOSYNC: a member's own call concerns its own data; others are
 * waited for only as far as their data is needed.  LOCAL: each member states its own addresses;
 * SINGLE: all state the same, and where there is a list it has the address of each image (LOCAL: of
 * the own one alone).
 *
 * _nb: returns a handle, GASNET_COLL_INVALID_HANDLE: complete already; buffers stay the library's
 * until it is synchronised. Reductions and scans are elementwise over the members in the order of
 * ranks; func is an index of the table of gasnet_coll_init; blksz and offset arguments describe no
 * other layout here and are not looked at.  Not from handlers.
 */
#ifndef AMPHORA_COLL1_H
#define AMPHORA_COLL1_H

#include "amphora/coll.h"
#include "amphora/gasnet1.h"

AMPHORA_BEGIN_C

typedef gex_TM_t gasnet_team_handle_t;
typedef gex_Event_t gasnet_coll_handle_t;
typedef gex_Rank_t gasnet_image_t;

#define GASNET_TEAM_ALL amphora_team0
#define GASNET_COLL_INVALID_HANDLE GEX_EVENT_INVALID

/* Names that some clients use for the same. */
typedef gasnet_team_handle_t gasnete_coll_team_t;
#define gasnete_coll_team_all GASNET_TEAM_ALL

#define GASNET_COLL_IN_NOSYNC (1 << 0)
#define GASNET_COLL_IN_MYSYNC (1 << 1)
#define GASNET_COLL_IN_ALLSYNC (1 << 2)
#define GASNET_COLL_OUT_NOSYNC (1 << 3)
#define GASNET_COLL_OUT_MYSYNC (1 << 4)
#define GASNET_COLL_OUT_ALLSYNC (1 << 5)
#define GASNET_COLL_SINGLE (1 << 6)
#define GASNET_COLL_LOCAL (1 << 7)
#define GASNET_COLL_AGGREGATE (1 << 8) /* hints from here */
#define GASNET_COLL_DST_IN_SEGMENT (1 << 9)
#define GASNET_COLL_SRC_IN_SEGMENT (1 << 10)

/* ---- operators ---- */

/* results = left (+) right, elem_size bytes an element; flags and arg: of the table's row and of
 * the call. */
typedef void (*gasnet_coll_reduce_fn_t)(void *results, size_t result_count,
                                        const void *left_operands, size_t left_count,
                                        const void *right_operands, size_t elem_size, int flags,
                                        int arg);
typedef unsigned int gasnet_coll_fn_handle_t;
typedef struct {
    gasnet_coll_reduce_fn_t fnptr;
    unsigned int flags; /* 0, or: */
} gasnet_coll_fn_entry_t;
#define GASNET_COLL_NONCOMM (1u << 0) /* the operator does not commute */

/* Before the first collective; by all processes.  images: NULL, or [gasnet_nodes()] how many images
 * each process has (1); my_image: not looked at; fn_tbl: operators (copied), the same functions in
 * the same order at all.  A second call replaces the table. */
void gasnet_coll_init(const gasnet_image_t images[], gasnet_image_t my_image,
                      gasnet_coll_fn_entry_t fn_tbl[], size_t fn_tbl_sz, int init_flags);

/* ---- handles: as those of put and get.  try polls first: GASNET_OK or GASNET_ERR_NOT_READY
 * ---- */

int gasnet_coll_try_sync(gasnet_coll_handle_t handle);
int gasnet_coll_try_sync_some(gasnet_coll_handle_t *handles, size_t count);
int gasnet_coll_try_sync_all(gasnet_coll_handle_t *handles, size_t count);
#define gasnet_coll_wait_sync(handle) gex_Event_Wait(handle)
#define gasnet_coll_wait_sync_some(handles, count) gex_Event_WaitSome(handles, count, 0)
#define gasnet_coll_wait_sync_all(handles, count) gex_Event_WaitAll(handles, count, 0)

/* ---- barriers of a team; see gasnet_barrier_notify ---- */

void gasnet_coll_barrier_notify(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier_wait(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier_try(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier_result(gasnet_team_handle_t team, int *id);

/* ---- data.  nbytes: of the block that a member brings or gets; M: with lists of addresses ---- */

/* broadcast: src of srcimage to dst of all. */
gasnet_coll_handle_t gasnet_coll_broadcast_nb(gasnet_team_handle_t team, void *dst,
                                              gasnet_image_t srcimage, void *src, size_t nbytes,
                                              int flags);
gasnet_coll_handle_t gasnet_coll_broadcastM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                               gasnet_image_t srcimage, void *src, size_t nbytes,
                                               int flags);
AMPHORA_INLINE void gasnet_coll_broadcast(gasnet_team_handle_t team, void *dst,
                                          gasnet_image_t srcimage, void *src, size_t nbytes,
                                          int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_broadcast_nb(team, dst, srcimage, src, nbytes, flags));
}

AMPHORA_INLINE void gasnet_coll_broadcastM(gasnet_team_handle_t team, void *const dstlist[],
                                           gasnet_image_t srcimage, void *src, size_t nbytes,
                                           int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_broadcastM_nb(team, dstlist, srcimage, src, nbytes, flags));
}

/* scatter: block i of src of srcimage to dst of image i. */
gasnet_coll_handle_t gasnet_coll_scatter_nb(gasnet_team_handle_t team, void *dst,
                                            gasnet_image_t srcimage, void *src, size_t nbytes,
                                            int flags);
gasnet_coll_handle_t gasnet_coll_scatterM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                             gasnet_image_t srcimage, void *src, size_t nbytes,
                                             int flags);
AMPHORA_INLINE void gasnet_coll_scatter(gasnet_team_handle_t team, void *dst,
                                        gasnet_image_t srcimage, void *src, size_t nbytes,
                                        int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_scatter_nb(team, dst, srcimage, src, nbytes, flags));
}

AMPHORA_INLINE void gasnet_coll_scatterM(gasnet_team_handle_t team, void *const dstlist[],
                                         gasnet_image_t srcimage, void *src, size_t nbytes,
                                         int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_scatterM_nb(team, dstlist, srcimage, src, nbytes, flags));
}

/* gather: src of image i to block i of dst of dstimage. */
gasnet_coll_handle_t gasnet_coll_gather_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                           void *dst, void *src, size_t nbytes, int flags);
gasnet_coll_handle_t gasnet_coll_gatherM_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                            void *dst, void *const srclist[], size_t nbytes,
                                            int flags);
AMPHORA_INLINE void gasnet_coll_gather(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                       void *dst, void *src, size_t nbytes, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_gather_nb(team, dstimage, dst, src, nbytes, flags));
}

AMPHORA_INLINE void gasnet_coll_gatherM(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                        void *dst, void *const srclist[], size_t nbytes, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_gatherM_nb(team, dstimage, dst, srclist, nbytes, flags));
}

/* gather_all: src of image i to block i of dst of all. */
gasnet_coll_handle_t gasnet_coll_gather_all_nb(gasnet_team_handle_t team, void *dst, void *src,
                                               size_t nbytes, int flags);
gasnet_coll_handle_t gasnet_coll_gather_allM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                                void *const srclist[], size_t nbytes, int flags);
AMPHORA_INLINE void gasnet_coll_gather_all(gasnet_team_handle_t team, void *dst, void *src,
                                           size_t nbytes, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_gather_all_nb(team, dst, src, nbytes, flags));
}

AMPHORA_INLINE void gasnet_coll_gather_allM(gasnet_team_handle_t team, void *const dstlist[],
                                            void *const srclist[], size_t nbytes, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_gather_allM_nb(team, dstlist, srclist, nbytes, flags));
}

/* exchange: block j of src of image i to block i of dst of image j. */
gasnet_coll_handle_t gasnet_coll_exchange_nb(gasnet_team_handle_t team, void *dst, void *src,
                                             size_t nbytes, int flags);
gasnet_coll_handle_t gasnet_coll_exchangeM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                              void *const srclist[], size_t nbytes, int flags);
AMPHORA_INLINE void gasnet_coll_exchange(gasnet_team_handle_t team, void *dst, void *src,
                                         size_t nbytes, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_exchange_nb(team, dst, src, nbytes, flags));
}

AMPHORA_INLINE void gasnet_coll_exchangeM(gasnet_team_handle_t team, void *const dstlist[],
                                          void *const srclist[], size_t nbytes, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_exchangeM_nb(team, dstlist, srclist, nbytes, flags));
}

/* reduce: src of image 0 (+) src of image 1 (+) ... to dst of dstimage, elem_count elements. */
gasnet_coll_handle_t gasnet_coll_reduce_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                           void *dst, void *src, size_t src_blksz,
                                           size_t src_offset, size_t elem_size, size_t elem_count,
                                           gasnet_coll_fn_handle_t func, int func_arg, int flags);
gasnet_coll_handle_t gasnet_coll_reduceM_nb(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                            void *dst, void *const srclist[], size_t src_blksz,
                                            size_t src_offset, size_t elem_size, size_t elem_count,
                                            gasnet_coll_fn_handle_t func, int func_arg, int flags);
AMPHORA_INLINE void gasnet_coll_reduce(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                       void *dst, void *src, size_t src_blksz, size_t src_offset,
                                       size_t elem_size, size_t elem_count,
                                       gasnet_coll_fn_handle_t func, int func_arg, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_reduce_nb(team, dstimage, dst, src, src_blksz, src_offset,
                                                elem_size, elem_count, func, func_arg, flags));
}

AMPHORA_INLINE void gasnet_coll_reduceM(gasnet_team_handle_t team, gasnet_image_t dstimage,
                                        void *dst, void *const srclist[], size_t src_blksz,
                                        size_t src_offset, size_t elem_size, size_t elem_count,
                                        gasnet_coll_fn_handle_t func, int func_arg, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_reduceM_nb(team, dstimage, dst, srclist, src_blksz,
                                                 src_offset, elem_size, elem_count, func, func_arg,
                                                 flags));
}

/* scan: the same up to and with the own image, to dst of each. */
gasnet_coll_handle_t gasnet_coll_scan_nb(gasnet_team_handle_t team, void *dst, size_t dst_blksz,
                                         size_t dst_offset, void *src, size_t src_blksz,
                                         size_t src_offset, size_t elem_size, size_t elem_count,
                                         gasnet_coll_fn_handle_t func, int func_arg, int flags);
gasnet_coll_handle_t gasnet_coll_scanM_nb(gasnet_team_handle_t team, void *const dstlist[],
                                          size_t dst_blksz, size_t dst_offset,
                                          void *const srclist[], size_t src_blksz,
                                          size_t src_offset, size_t elem_size, size_t elem_count,
                                          gasnet_coll_fn_handle_t func, int func_arg, int flags);
AMPHORA_INLINE void gasnet_coll_scan(gasnet_team_handle_t team, void *dst, size_t dst_blksz,
                                     size_t dst_offset, void *src, size_t src_blksz,
                                     size_t src_offset, size_t elem_size, size_t elem_count,
                                     gasnet_coll_fn_handle_t func, int func_arg, int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_scan_nb(team, dst, dst_blksz, dst_offset, src, src_blksz,
                                              src_offset, elem_size, elem_count, func, func_arg,
                                              flags));
}

AMPHORA_INLINE void gasnet_coll_scanM(gasnet_team_handle_t team, void *const dstlist[],
                                      size_t dst_blksz, size_t dst_offset, void *const srclist[],
                                      size_t src_blksz, size_t src_offset, size_t elem_size,
                                      size_t elem_count, gasnet_coll_fn_handle_t func, int func_arg,
                                      int flags)
{
    gasnet_coll_wait_sync(gasnet_coll_scanM_nb(team, dstlist, dst_blksz, dst_offset, srclist,
                                               src_blksz, src_offset, elem_size, elem_count, func,
                                               func_arg, flags));
}

AMPHORA_END_C

#endif

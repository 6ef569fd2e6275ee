/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GASNet-1 calls in terms of the GASNet-EX ones; included by gasnet.h.  GASNet-1 spec 1.8; errors
 * in the extended calls end the job with a sentence.
 */
#ifndef AMPHORA_GASNET1_H
#define AMPHORA_GASNET1_H

#include <stdint.h>
#include <string.h>

#include "amphora/event.h"
#include "amphora/job.h"
#include "amphora/message.h"
#include "amphora/rma.h"

AMPHORA_BEGIN_C

typedef gex_Rank_t gasnet_node_t;
typedef gex_Event_t gasnet_handle_t;
typedef gex_AM_Index_t gasnet_handler_t;
typedef gex_AM_Arg_t gasnet_handlerarg_t;
typedef gex_Token_t gasnet_token_t;
typedef gex_RMA_Value_t gasnet_register_value_t;
typedef struct amphora_valget *gasnet_valget_handle_t;

#define GASNET_INVALID_HANDLE GEX_EVENT_INVALID
#define SIZEOF_GASNET_REGISTER_VALUE_T SIZEOF_GEX_RMA_VALUE_T

typedef struct {
    gasnet_handler_t index; /* 0: the library chooses and writes the number here */
    gex_AM_Fn_t fnptr;
} gasnet_handlerentry_t;

typedef struct {
    void *addr;
    uintptr_t size;
} gasnet_seginfo_t;

typedef struct {
    void *addr;
    size_t len;
} gasnet_memvec_t;

/* ---- job ---- */

#ifdef AMPHORA_THREADMODE
/* First call of a client.  Collective; GASNET_OK, or GASNET_ERR_RESOURCE (also for a second
 * call). */
AMPHORA_INLINE int gasnet_init(int *argc, char ***argv)
{
    amphora_client_built(AMPHORA_CONDUIT, AMPHORA_SEGMENT, GASNET_CONFIG_STRING);
    return amphora_client_init(NULL, NULL, NULL, "GASNET1", argc, argv, GEX_FLAG_USES_GASNET1,
                               AMPHORA_THREADMODE);
}

/* ---- handler-safe locks ---- */

typedef gex_HSL_t gasnet_hsl_t;
#define GASNET_HSL_INITIALIZER GEX_HSL_INITIALIZER
#define gasnet_hsl_init(hsl) gex_HSL_Init(hsl)
#define gasnet_hsl_destroy(hsl) gex_HSL_Destroy(hsl)
#define gasnet_hsl_lock(hsl) gex_HSL_Lock(hsl)
#define gasnet_hsl_unlock(hsl) gex_HSL_Unlock(hsl)
#define gasnet_hsl_trylock(hsl) gex_HSL_Trylock(hsl)
#endif

/* Registers handlers and makes a segment of segsize bytes (0: none).  Collective; once.  GASNET_OK,
 * GASNET_ERR_NOT_INIT, GASNET_ERR_BAD_ARG, GASNET_ERR_RESOURCE. */
int gasnet_attach(gasnet_handlerentry_t *table, int numentries, uintptr_t segsize,
                  uintptr_t minheapoffset);

/* Fills in the segments of the nodes below numentries; further entries are left alone.  With
 * GASNET_SEGMENT_EVERYTHING each is NULL of size (uintptr_t)-1.  GASNET_OK, GASNET_ERR_NOT_INIT
 * (before gasnet_attach), GASNET_ERR_BAD_ARG. */
int gasnet_getSegmentInfo(gasnet_seginfo_t *seginfo_table, int numentries);

/* Where a node is: nodes of one host share `host`, nodes that share memory (a neighbourhood)
 * `supernode`; both count from 0. */
typedef struct {
    gasnet_node_t host;
    gasnet_node_t supernode;
    /* after gasnet_attach: an address in the node's segment + offset is where it is mapped here
     * (0: not mapped, or the same address) */
    uintptr_t offset;
} gasnet_nodeinfo_t;

/* Fills in the nodes below numentries.  GASNET_OK, GASNET_ERR_NOT_INIT (before gasnet_init),
 * GASNET_ERR_BAD_ARG. */
int gasnet_getNodeInfo(gasnet_nodeinfo_t *nodeinfo_table, int numentries);

/* NULL, or a function of the client's that gasnet_attach and gex_Segment_Attach call when this
 * process's segment has been made and before any other process can reach it (for placing its pages,
 * say).  Returns 0; another value makes the attach fail with GASNET_ERR_RESOURCE everywhere. */
extern int (*gasnet_client_attach_hook)(void *segbase, uintptr_t segsize);

/* The job's size and this process's number as variables, for code that reaches for them; 0 before
 * gasnet_init. */
extern gasnet_node_t gasneti_nodes, gasneti_mynode;

/* The objects that gasnet_init, or gex_Client_Init with GEX_FLAG_USES_GASNET1, made; outputs may be
 * NULL. */
void gasnet_QueryGexObjects(gex_Client_t *client_p, gex_EP_t *endpoint_p, gex_TM_t *tm_p,
                            gex_Segment_t *segment_p);

#define gasnet_mynode() gex_System_QueryJobRank()
#define gasnet_nodes() gex_System_QueryJobSize()

/* ---- messages ---- */

#define gasnet_AMMaxArgs() ((size_t)gex_AM_MaxArgs())
AMPHORA_INLINE size_t gasnet_AMMaxMedium(void)
{
    size_t request = gex_AM_LUBRequestMedium();
    size_t reply = gex_AM_LUBReplyMedium();

    return request < reply ? request : reply;
}
#define gasnet_AMMaxLongRequest() gex_AM_LUBRequestLong()
#define gasnet_AMMaxLongReply() gex_AM_LUBReplyLong()

AMPHORA_INLINE int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *srcindex)
{
    gex_Token_Info_t info;
    int known = (gex_Token_Info(token, &info, GEX_TI_SRCRANK) & GEX_TI_SRCRANK) != 0;

    if (!srcindex)
        return GASNET_ERR_BAD_ARG;

    /* Written in any case: compilers that see this function warn of clients that go on after an error. */
    *srcindex = known ? info.gex_srcrank : GEX_RANK_INVALID;
    return known ? GASNET_OK : GASNET_ERR_BAD_ARG;
}

/* Local completion that nobody asks for: the reply implies it (gasnet_AMRequestLongAsync). */
#define AMPHORA_EVENT_UNHEARD ((gex_Event_t *)(uintptr_t)4)

/* What a message to dest with this payload is refused with: GASNET_OK, or after a sentence
 * GASNET_ERR_NOT_INIT or GASNET_ERR_BAD_ARG. */
int amphora_refuse(gasnet_node_t dest, size_t nbytes, int is_long);
/* Any message may have this many bytes; longer ones are looked at. */
#define AMPHORA_ANY_PAYLOAD 65408
AMPHORA_INLINE int amphora_refused(gasnet_node_t dest, size_t nbytes, int is_long)
{
    if (AMPHORA_UNLIKELY(dest >= amphora_team0->size || nbytes > AMPHORA_ANY_PAYLOAD))
        return amphora_refuse(dest, nbytes, is_long);

    return GASNET_OK;
}

#define AMPHORA_DEFINE_GASNET1_REQUESTS(M) \
    AMPHORA_INLINE int gasnet_AMRequestShort##M(gasnet_node_t dest, \
                                                gasnet_handler_t handler AMPHORA_PARAMS_##M) \
    { \
        int err = amphora_refused(dest, 0, 0); \
        return err ? err \
                   : gex_AM_RequestShort##M(amphora_team0, dest, handler, 0 AMPHORA_NAMES_##M); \
    } \
    AMPHORA_INLINE int gasnet_AMRequestMedium##M(gasnet_node_t dest, gasnet_handler_t handler, \
                                                 const void *source_addr, \
                                                 size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        int err = amphora_refused(dest, nbytes, 0); \
        return err ? err \
                   : gex_AM_RequestMedium##M(amphora_team0, dest, handler, source_addr, nbytes, \
                                             GEX_EVENT_NOW, 0 AMPHORA_NAMES_##M); \
    } \
    AMPHORA_INLINE int gasnet_AMRequestLong##M(gasnet_node_t dest, gasnet_handler_t handler, \
                                               const void *source_addr, size_t nbytes, \
                                               void *dest_addr AMPHORA_PARAMS_##M) \
    { \
        int err = amphora_refused(dest, nbytes, 1); \
        return err ? err \
                   : gex_AM_RequestLong##M(amphora_team0, dest, handler, source_addr, nbytes, \
                                           dest_addr, GEX_EVENT_NOW, 0 AMPHORA_NAMES_##M); \
    } \
    AMPHORA_INLINE int gasnet_AMRequestLongAsync##M(gasnet_node_t dest, gasnet_handler_t handler, \
                                                    const void *source_addr, size_t nbytes, \
                                                    void *dest_addr AMPHORA_PARAMS_##M) \
    { \
        int err = amphora_refused(dest, nbytes, 1); \
        return err ? err \
                   : gex_AM_RequestLong##M(amphora_team0, dest, handler, source_addr, nbytes, \
                                           dest_addr, AMPHORA_EVENT_UNHEARD, 0 AMPHORA_NAMES_##M); \
    }

#define AMPHORA_DEFINE_GASNET1_REPLIES(M) \
    AMPHORA_INLINE int gasnet_AMReplyShort##M(gasnet_token_t token, \
                                              gasnet_handler_t handler AMPHORA_PARAMS_##M) \
    { \
        return gex_AM_ReplyShort##M(token, handler, 0 AMPHORA_NAMES_##M); \
    } \
    AMPHORA_INLINE int gasnet_AMReplyMedium##M(gasnet_token_t token, gasnet_handler_t handler, \
                                               const void *source_addr, \
                                               size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        return gex_AM_ReplyMedium##M(token, handler, source_addr, nbytes, GEX_EVENT_NOW, \
                                     0 AMPHORA_NAMES_##M); \
    } \
    AMPHORA_INLINE int gasnet_AMReplyLong##M(gasnet_token_t token, gasnet_handler_t handler, \
                                             const void *source_addr, size_t nbytes, \
                                             void *dest_addr AMPHORA_PARAMS_##M) \
    { \
        return gex_AM_ReplyLong##M(token, handler, source_addr, nbytes, dest_addr, GEX_EVENT_NOW, \
                                   0 AMPHORA_NAMES_##M); \
    }

AMPHORA_EACH_M(AMPHORA_DEFINE_GASNET1_REQUESTS)
AMPHORA_EACH_M(AMPHORA_DEFINE_GASNET1_REPLIES)

#define gasnet_AMRequestShort(...) \
    AMPHORA_NUMBERED(gasnet_AMRequestShort, AMPHORA_COUNT_2(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMRequestMedium(...) \
    AMPHORA_NUMBERED(gasnet_AMRequestMedium, AMPHORA_COUNT_4(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMRequestLong(...) \
    AMPHORA_NUMBERED(gasnet_AMRequestLong, AMPHORA_COUNT_5(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMRequestLongAsync(...) \
    AMPHORA_NUMBERED(gasnet_AMRequestLongAsync, AMPHORA_COUNT_5(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMReplyShort(...) \
    AMPHORA_NUMBERED(gasnet_AMReplyShort, AMPHORA_COUNT_2(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMReplyMedium(...) \
    AMPHORA_NUMBERED(gasnet_AMReplyMedium, AMPHORA_COUNT_4(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_AMReplyLong(...) \
    AMPHORA_NUMBERED(gasnet_AMReplyLong, AMPHORA_COUNT_5(__VA_ARGS__))(__VA_ARGS__)

/* ---- blocking transfers ---- */

void amphora_memset_blocking(gex_TM_t tm, gex_Rank_t rank, void *dest, int val, size_t nbytes);
gex_Event_t amphora_memset_nb(gex_TM_t tm, gex_Rank_t rank, void *dest, int val, size_t nbytes);
void amphora_memset_nbi(gex_TM_t tm, gex_Rank_t rank, void *dest, int val, size_t nbytes);

AMPHORA_INLINE void gasnet_get(void *dest, gasnet_node_t node, void *src, size_t nbytes)
{
    (void)gex_RMA_GetBlocking(amphora_team0, dest, node, src, nbytes, 0);
}

AMPHORA_INLINE void gasnet_put(gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    (void)gex_RMA_PutBlocking(amphora_team0, node, dest, src, nbytes, 0);
}
#define gasnet_get_bulk(dest, node, src, nbytes) gasnet_get(dest, node, src, nbytes)
#define gasnet_put_bulk(node, dest, src, nbytes) gasnet_put(node, dest, src, nbytes)

AMPHORA_INLINE void gasnet_memset(gasnet_node_t node, void *dest, int val, size_t nbytes)
{
    void *at = amphora_reach_addr_unless_own(amphora_team0, node, dest, nbytes);

    if (AMPHORA_UNLIKELY(!at)) {
        amphora_memset_blocking(amphora_team0, node, dest, val, nbytes);
        return;
    }

    AMPHORA_FENCE();
    memset(at, val, nbytes);
    AMPHORA_FENCE();
}

/* ---- explicit handles.  put: the source may be used again on return; put_bulk: when the operation
 * is complete ---- */

AMPHORA_INLINE gasnet_handle_t gasnet_get_nb(void *dest, gasnet_node_t node, void *src,
                                             size_t nbytes)
{
    return gex_RMA_GetNB(amphora_team0, dest, node, src, nbytes, 0);
}

AMPHORA_INLINE gasnet_handle_t gasnet_put_nb(gasnet_node_t node, void *dest, const void *src,
                                             size_t nbytes)
{
    return gex_RMA_PutNB(amphora_team0, node, dest, src, nbytes, GEX_EVENT_NOW, 0);
}

AMPHORA_INLINE gasnet_handle_t gasnet_put_nb_bulk(gasnet_node_t node, void *dest, const void *src,
                                                  size_t nbytes)
{
    return gex_RMA_PutNB(amphora_team0, node, dest, src, nbytes, GEX_EVENT_DEFER, 0);
}

AMPHORA_INLINE gasnet_handle_t gasnet_memset_nb(gasnet_node_t node, void *dest, int val,
                                                size_t nbytes)
{
    if (AMPHORA_UNLIKELY(!amphora_reach_addr_unless_own(amphora_team0, node, dest, nbytes)))
        return amphora_memset_nb(amphora_team0, node, dest, val, nbytes);

    gasnet_memset(node, dest, val, nbytes);
    return GASNET_INVALID_HANDLE;
}
#define gasnet_get_nb_bulk(dest, node, src, nbytes) gasnet_get_nb(dest, node, src, nbytes)

/* The try forms poll first; GASNET_OK or GASNET_ERR_NOT_READY. */
int gasnet_try_syncnb(gasnet_handle_t handle);
int gasnet_try_syncnb_some(gasnet_handle_t *handles, size_t numhandles);
int gasnet_try_syncnb_all(gasnet_handle_t *handles, size_t numhandles);
#define gasnet_wait_syncnb(handle) gex_Event_Wait(handle)
#define gasnet_wait_syncnb_some(handles, numhandles) gex_Event_WaitSome(handles, numhandles, 0)
#define gasnet_wait_syncnb_all(handles, numhandles) gex_Event_WaitAll(handles, numhandles, 0)
#define gasnet_try_syncnb_nopoll(handle) \
    gex_Event_Test(handle) /* as gasnet_try_syncnb, without a poll */

/* ---- implicit handles ---- */

AMPHORA_INLINE void gasnet_get_nbi(void *dest, gasnet_node_t node, void *src, size_t nbytes)
{
    (void)gex_RMA_GetNBI(amphora_team0, dest, node, src, nbytes, 0);
}

AMPHORA_INLINE void gasnet_put_nbi(gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    (void)gex_RMA_PutNBI(amphora_team0, node, dest, src, nbytes, GEX_EVENT_NOW, 0);
}

AMPHORA_INLINE void gasnet_put_nbi_bulk(gasnet_node_t node, void *dest, const void *src,
                                        size_t nbytes)
{
    (void)gex_RMA_PutNBI(amphora_team0, node, dest, src, nbytes, GEX_EVENT_DEFER, 0);
}

AMPHORA_INLINE void gasnet_memset_nbi(gasnet_node_t node, void *dest, int val, size_t nbytes)
{
    if (AMPHORA_UNLIKELY(!amphora_reach_addr(amphora_team0, node, dest, nbytes)))
        amphora_memset_nbi(amphora_team0, node, dest, val, nbytes);
    else
        gasnet_memset(node, dest, val, nbytes);
}
#define gasnet_get_nbi_bulk(dest, node, src, nbytes) gasnet_get_nbi(dest, node, src, nbytes)

int amphora_try_nbi(gex_EC_t mask);
#define gasnet_wait_syncnbi_gets() gex_NBI_Wait(GEX_EC_GET, 0)
#define gasnet_wait_syncnbi_puts() gex_NBI_Wait(GEX_EC_PUT, 0)
#define gasnet_wait_syncnbi_all() gex_NBI_Wait(GEX_EC_GET | GEX_EC_PUT, 0)
#define gasnet_try_syncnbi_gets() amphora_try_nbi(GEX_EC_GET)
#define gasnet_try_syncnbi_puts() amphora_try_nbi(GEX_EC_PUT)
#define gasnet_try_syncnbi_all() amphora_try_nbi(GEX_EC_GET | GEX_EC_PUT)
#define gasnet_begin_nbi_accessregion() gex_NBI_BeginAccessRegion(0)
#define gasnet_end_nbi_accessregion() gex_NBI_EndAccessRegion(0)

/* ---- values ---- */

AMPHORA_INLINE void gasnet_put_val(gasnet_node_t node, void *dest, gasnet_register_value_t value,
                                   size_t nbytes)
{
    (void)gex_RMA_PutBlockingVal(amphora_team0, node, dest, value, nbytes, 0);
}

AMPHORA_INLINE gasnet_handle_t gasnet_put_nb_val(gasnet_node_t node, void *dest,
                                                 gasnet_register_value_t value, size_t nbytes)
{
    return gex_RMA_PutNBVal(amphora_team0, node, dest, value, nbytes, 0);
}

AMPHORA_INLINE void gasnet_put_nbi_val(gasnet_node_t node, void *dest,
                                       gasnet_register_value_t value, size_t nbytes)
{
    (void)gex_RMA_PutNBIVal(amphora_team0, node, dest, value, nbytes, 0);
}

AMPHORA_INLINE gasnet_register_value_t gasnet_get_val(gasnet_node_t node, void *src, size_t nbytes)
{
    return gex_RMA_GetBlockingVal(amphora_team0, node, src, nbytes, 0);
}

/* A get whose value comes with the wait; each handle must be waited for, once. */
gasnet_valget_handle_t gasnet_get_nb_val(gasnet_node_t node, void *src, size_t nbytes);
gasnet_register_value_t gasnet_wait_syncnb_valget(gasnet_valget_handle_t handle);

AMPHORA_END_C

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types and constants of the API: ranks, handles, flags, events, errors.  GASNet-EX spec, "Basic
 * types"; GASNet-1 spec, "Types".
 */
#ifndef AMPHORA_TYPES_H
#define AMPHORA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "amphora/compiler.h"
#include "amphora/version.h"

/* ---- errors ---- */
#define GASNET_OK 0
#define GASNET_ERR_NOT_INIT 10001
#define GASNET_ERR_RESOURCE 10002
#define GASNET_ERR_BAD_ARG 10003
#define GASNET_ERR_NOT_READY 10004
#define GASNET_ERR_BARRIER_MISMATCH 10005

/* ---- scalars ---- */
typedef uint32_t gex_Rank_t;
typedef uint32_t gex_Flags_t;
typedef uint8_t gex_AM_Index_t;
typedef int32_t gex_AM_Arg_t;
typedef uintptr_t gex_RMA_Value_t;
typedef void *gex_Addr_t;
typedef uint16_t gex_EP_Index_t;
typedef uint32_t gex_EC_t;
typedef uint32_t gex_TI_t;

#define GEX_RANK_INVALID ((gex_Rank_t)0xffffffffu)
#define SIZEOF_GEX_RMA_VALUE_T __SIZEOF_POINTER__
#define GASNET_MAXNODES 1048576
#define GASNET_MAXEPS 32
#define GEX_AM_INDEX_BASE 128

/* ---- objects; their insides are the library's ---- */
struct amphora_event;
struct amphora_team;
typedef struct amphora_event *gex_Event_t;
typedef struct amphora_team *gex_TM_t; /* or a tagged value: see gex_TM_Pair */
typedef struct amphora_client *gex_Client_t;
typedef struct amphora_ep *gex_EP_t;
typedef struct amphora_segment *gex_Segment_t;
typedef struct amph_token *gex_Token_t;
typedef amphora_any_fn_t gex_AM_Fn_t;

#define GEX_CLIENT_INVALID ((gex_Client_t)0)
#define GEX_EP_INVALID ((gex_EP_t)0)
#define GEX_SEGMENT_INVALID ((gex_Segment_t)0)
#define GEX_TM_INVALID ((gex_TM_t)0)

typedef struct {
    void *gex_addr;
    size_t gex_len;
} gex_Memvec_t;

typedef struct {
    gex_Rank_t gex_rank;
    gex_EP_Index_t gex_ep_index;
} gex_EP_Location_t;

typedef const struct {
    gex_Rank_t gex_jobrank;
} gex_RankInfo_t;

/* One handler.  gex_index 0 on entry: the library chooses (the highest free) and writes the number
 * here. */
typedef struct {
    gex_AM_Index_t gex_index;
    gex_AM_Fn_t gex_fnptr;
    gex_Flags_t gex_flags;  /* one of GEX_FLAG_AM_SHORT.. and one of GEX_FLAG_AM_REQUEST.. */
    unsigned int gex_nargs; /* 0..gex_AM_MaxArgs() */
    const void *gex_cdata;
    const char *gex_name;
} gex_AM_Entry_t;

typedef struct {
    gex_Rank_t gex_srcrank;
    gex_EP_t gex_ep;
    const gex_AM_Entry_t *gex_entry;
    int gex_is_req;
    int gex_is_long;
} gex_Token_Info_t;

#define GEX_TI_SRCRANK ((gex_TI_t)1)
#define GEX_TI_EP ((gex_TI_t)2)
#define GEX_TI_ENTRY ((gex_TI_t)4)
#define GEX_TI_IS_REQ ((gex_TI_t)8)
#define GEX_TI_IS_LONG ((gex_TI_t)16)
#define GEX_TI_ALL ((gex_TI_t)31)
#define GASNET_SUPPORTS_TI_SRCRANK 1
#define GASNET_SUPPORTS_TI_EP 1
#define GASNET_SUPPORTS_TI_ENTRY 1
#define GASNET_SUPPORTS_TI_IS_REQ 1
#define GASNET_SUPPORTS_TI_IS_LONG 1

/* ---- events ---- */
#define GEX_EVENT_INVALID ((gex_Event_t)0)
#define GEX_EVENT_NO_OP ((gex_Event_t)(uintptr_t)1)
/* In place of a pointer to a local-completion event. */
#define GEX_EVENT_NOW ((gex_Event_t *)(uintptr_t)1)
#define GEX_EVENT_DEFER ((gex_Event_t *)(uintptr_t)2)
#define GEX_EVENT_GROUP ((gex_Event_t *)(uintptr_t)3)
/* Is this lc_opt the address of an event of the client's? */
#define AMPHORA_LC_IS_ADDRESS(lc) ((uintptr_t)(lc) > 15)

#define GEX_EC_GET ((gex_EC_t)1)
#define GEX_EC_PUT ((gex_EC_t)2)
#define GEX_EC_AM ((gex_EC_t)4)
#define GEX_EC_LC ((gex_EC_t)8)
#define GEX_EC_RMW ((gex_EC_t)16)
#define GEX_EC_ALL ((gex_EC_t)31)

/* ---- flags ---- */
/* of gex_AM_Entry_t */
#define GEX_FLAG_AM_SHORT ((gex_Flags_t)1)
#define GEX_FLAG_AM_MEDIUM ((gex_Flags_t)2)
#define GEX_FLAG_AM_LONG ((gex_Flags_t)4)
#define GEX_FLAG_AM_MEDLONG ((gex_Flags_t)6)
#define GEX_FLAG_AM_REQUEST ((gex_Flags_t)8)
#define GEX_FLAG_AM_REPLY ((gex_Flags_t)16)
#define GEX_FLAG_AM_REQREP ((gex_Flags_t)24)
/* of gex_Client_Init */
#define GEX_FLAG_USES_GASNET1 ((gex_Flags_t)1)
#define GEX_FLAG_DEFER_THREADS ((gex_Flags_t)2)
/* of communication calls; some clients know the values of IMMEDIATE and the PREPARE ones */
#define GEX_FLAG_IMMEDIATE ((gex_Flags_t)1u << 0)
#define GEX_FLAG_LC_COPY_YES ((gex_Flags_t)1u << 1)
#define GEX_FLAG_LC_COPY_NO ((gex_Flags_t)1u << 2)
#define GEX_FLAG_PEER_NEVER_SELF ((gex_Flags_t)1u << 3)
#define GEX_FLAG_PEER_NEVER_NBRHD ((gex_Flags_t)1u << 4)
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT ((gex_Flags_t)1u << 11)
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC ((gex_Flags_t)1u << 12)
#define GEX_FLAG_SELF_SEG_UNKNOWN ((gex_Flags_t)1u << 7)
#define GEX_FLAG_SELF_SEG_SOME ((gex_Flags_t)1u << 8)
#define GEX_FLAG_SELF_SEG_BOUND ((gex_Flags_t)1u << 9)
#define GEX_FLAG_SELF_SEG_OFFSET ((gex_Flags_t)1u << 10)
#define GEX_FLAG_PEER_SEG_UNKNOWN ((gex_Flags_t)1u << 5)
#define GEX_FLAG_PEER_SEG_SOME ((gex_Flags_t)1u << 6)
#define GEX_FLAG_PEER_SEG_BOUND ((gex_Flags_t)1u << 13)
#define GEX_FLAG_PEER_SEG_OFFSET ((gex_Flags_t)1u << 14)
#define GEX_FLAG_ENABLE_LEAF_LC ((gex_Flags_t)1u << 15)
/* of remote atomics */
#define GEX_FLAG_AD_MY_RANK ((gex_Flags_t)1u << 16)
#define GEX_FLAG_AD_MY_NBRHD ((gex_Flags_t)1u << 17)
#define GEX_FLAG_AD_ACQ ((gex_Flags_t)1u << 18)
#define GEX_FLAG_AD_REL ((gex_Flags_t)1u << 19)
#define GEX_FLAG_AD_FAVOR_MY_RANK ((gex_Flags_t)1u << 20)
#define GEX_FLAG_AD_FAVOR_MY_NBRHD ((gex_Flags_t)1u << 21)
#define GEX_FLAG_AD_FAVOR_REMOTE ((gex_Flags_t)1u << 22)
#define GEX_FLAG_RANK_IS_JOBRANK ((gex_Flags_t)1u << 23)
/* of teams */
#define GEX_FLAG_TM_GLOBAL_SCRATCH ((gex_Flags_t)1u << 24)
#define GEX_FLAG_TM_LOCAL_SCRATCH ((gex_Flags_t)1u << 25)
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH ((gex_Flags_t)1u << 26)
#define GEX_FLAG_TM_NO_SCRATCH ((gex_Flags_t)1u << 27)
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN ((gex_Flags_t)1u << 28)
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED ((gex_Flags_t)1u << 29)
#define GEX_FLAG_SCRATCH_SEG_OFFSET ((gex_Flags_t)1u << 30)
#define GEX_FLAG_GLOBALLY_QUIESCED ((gex_Flags_t)1u << 31)

/* ---- barriers and waiting ---- */
#define GASNET_BARRIERFLAG_ANONYMOUS 1
#define GASNET_BARRIERFLAG_MISMATCH 2
#define GASNET_BARRIERFLAG_UNNAMED 5 /* anonymous at all processes */
#define GASNET_WAIT_SPIN 0
#define GASNET_WAIT_BLOCK 1
#define GASNET_WAIT_SPINBLOCK 2

/* ---- what this implementation is ---- */
#define GASNET_ALIGNED_SEGMENTS 0
#define GASNET_PSHM 1
/* A client with threads may ask for a progress thread; gex_System_QueryHiddenAMConcurrencyLevel
 * returns whether it did. */
#ifdef GASNET_PAR
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 1
#define GASNET_RCV_THREAD 1
#else
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 0
#endif

#endif

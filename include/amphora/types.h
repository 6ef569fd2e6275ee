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

#define GEX_RANK_INVALID 0xffffffffu
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

#define GEX_TI_SRCRANK 1u
#define GEX_TI_EP 2u
#define GEX_TI_ENTRY 4u
#define GEX_TI_IS_REQ 8u
#define GEX_TI_IS_LONG 16u
#define GEX_TI_ALL 31u
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

#define GEX_EC_GET 1u
#define GEX_EC_PUT 2u
#define GEX_EC_AM 4u
#define GEX_EC_LC 8u
#define GEX_EC_RMW 16u
#define GEX_EC_ALL 31u

/* ---- flags; like all constants of the API but pointers, also for #if ---- */
/* of gex_AM_Entry_t */
#define GEX_FLAG_AM_SHORT 1u
#define GEX_FLAG_AM_MEDIUM 2u
#define GEX_FLAG_AM_LONG 4u
#define GEX_FLAG_AM_MEDLONG 6u
#define GEX_FLAG_AM_REQUEST 8u
#define GEX_FLAG_AM_REPLY 16u
#define GEX_FLAG_AM_REQREP 24u
/* of gex_Client_Init */
#define GEX_FLAG_USES_GASNET1 1u
#define GEX_FLAG_DEFER_THREADS 2u
/* of communication calls; some clients know the values of IMMEDIATE and the PREPARE ones */
#define GEX_FLAG_IMMEDIATE (1u << 0)
#define GEX_FLAG_LC_COPY_YES (1u << 1)
#define GEX_FLAG_LC_COPY_NO (1u << 2)
#define GEX_FLAG_PEER_NEVER_SELF (1u << 3)
#define GEX_FLAG_PEER_NEVER_NBRHD (1u << 4)
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT (1u << 11)
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC (1u << 12)
#define GEX_FLAG_SELF_SEG_UNKNOWN (1u << 7)
#define GEX_FLAG_SELF_SEG_SOME (1u << 8)
#define GEX_FLAG_SELF_SEG_BOUND (1u << 9)
#define GEX_FLAG_SELF_SEG_OFFSET (1u << 10)
#define GEX_FLAG_PEER_SEG_UNKNOWN (1u << 5)
#define GEX_FLAG_PEER_SEG_SOME (1u << 6)
#define GEX_FLAG_PEER_SEG_BOUND (1u << 13)
#define GEX_FLAG_PEER_SEG_OFFSET (1u << 14)
#define GEX_FLAG_ENABLE_LEAF_LC (1u << 15)
/* of remote atomics */
#define GEX_FLAG_AD_MY_RANK (1u << 16)
#define GEX_FLAG_AD_MY_NBRHD (1u << 17)
#define GEX_FLAG_AD_ACQ (1u << 18)
#define GEX_FLAG_AD_REL (1u << 19)
#define GEX_FLAG_AD_FAVOR_MY_RANK (1u << 20)
#define GEX_FLAG_AD_FAVOR_MY_NBRHD (1u << 21)
#define GEX_FLAG_AD_FAVOR_REMOTE (1u << 22)
#define GEX_FLAG_RANK_IS_JOBRANK (1u << 23)
/* of teams */
#define GEX_FLAG_TM_GLOBAL_SCRATCH (1u << 24)
#define GEX_FLAG_TM_LOCAL_SCRATCH (1u << 25)
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH (1u << 26)
#define GEX_FLAG_TM_NO_SCRATCH (1u << 27)
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN (1u << 28)
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED (1u << 29)
#define GEX_FLAG_SCRATCH_SEG_OFFSET (1u << 30)
#define GEX_FLAG_GLOBALLY_QUIESCED (1u << 31)

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

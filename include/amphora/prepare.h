/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Negotiated-payload active messages: prepare, put the payload together, commit.  GASNet-EX spec
 * 0.19, "Negotiated-payload AM".
 *
 * A prepare call says who is to get a medium or long message, between how many bytes it may have,
 * and either offers the client's own buffer or asks for one of the library's (client_buf NULL;
 * lc_opt must be NULL then).  It returns a descriptor of where the payload belongs and how many
 * bytes may be sent at once; the commit call names the handler, the length and the arguments and
 * sends. To a neighbour the library's buffer of a medium lies where the receiver will read it.
 *
 * Rules.  A descriptor belongs to the thread that prepared it and is used up by one commit or
 * cancel; in between no communication call is allowed, and pairs do not nest.  PrepareReply and
 * CommitReply are for handlers of requests.  Prepare may block and run handlers unless
 * GEX_FLAG_IMMEDIATE is given (GEX_AM_SRCDESC_NO_OP: no room now); so may CommitRequest.  What is
 * not allowed ends the job with a sentence.
 */
#ifndef AMPHORA_PREPARE_H
#define AMPHORA_PREPARE_H

#include <stddef.h>

#include "amphora/message.h"

AMPHORA_BEGIN_C

/* A descriptor; its insides are the library's. */
struct amphora_srcdesc {
    void *addr;
    size_t size;
};

typedef struct amphora_srcdesc *gex_AM_SrcDesc_t;

#define GEX_AM_SRCDESC_NO_OP ((gex_AM_SrcDesc_t)0)

/* A buffer of the library's saves a copy, to neighbours and over the network. */
#define GASNET_NATIVE_NP_ALLOC_REQ_MEDIUM 1
#define GASNET_NATIVE_NP_ALLOC_REP_MEDIUM 1
#define GASNET_NATIVE_NP_ALLOC_REQ_LONG 1
#define GASNET_NATIVE_NP_ALLOC_REP_LONG 1

/* Experimental features of release 2025.8. */
#define GASNET_SUPPORTS_AM_COMMIT_V2 20240906L
#define GASNET_SUPPORTS_AM_CANCEL 20240418L

/* Where the payload belongs (client_buf if one was given; else aligned for any type) and how many
 * bytes commit may send. */
AMPHORA_INLINE void *gex_AM_SrcDescAddr(gex_AM_SrcDesc_t sd)
{
    return sd->addr;
}

AMPHORA_INLINE size_t gex_AM_SrcDescSize(gex_AM_SrcDesc_t sd)
{
    return sd->size;
}

/* least_payload: bytes that the client needs at least, not above gex_AM_Max* with
 * GEX_FLAG_AM_PREPARE_LEAST_CLIENT or _ALLOC; most_payload: what it could use, at least
 * least_payload.  dest_addr: NULL, or what will be given to commit.  numargs: how many arguments
 * commit will have. */
gex_AM_SrcDesc_t gex_AM_PrepareRequestMedium(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                             size_t least_payload, size_t most_payload,
                                             gex_Event_t *lc_opt, gex_Flags_t flags,
                                             unsigned int numargs);
gex_AM_SrcDesc_t gex_AM_PrepareReplyMedium(gex_Token_t token, const void *client_buf,
                                           size_t least_payload, size_t most_payload,
                                           gex_Event_t *lc_opt, gex_Flags_t flags,
                                           unsigned int numargs);
gex_AM_SrcDesc_t gex_AM_PrepareRequestLong(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                           size_t least_payload, size_t most_payload,
                                           void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                                           unsigned int numargs);
gex_AM_SrcDesc_t gex_AM_PrepareReplyLong(gex_Token_t token, const void *client_buf,
                                         size_t least_payload, size_t most_payload, void *dest_addr,
                                         gex_Event_t *lc_opt, gex_Flags_t flags,
                                         unsigned int numargs);

/* Give a prepared message up: nothing is sent, the descriptor and a buffer of the library's are
 * gone.  flags: 0.  Return 0. */
int gex_AM_CancelRequestMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
int gex_AM_CancelReplyMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
int gex_AM_CancelRequestLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
int gex_AM_CancelReplyLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags);

/* What the calls below are made from: what is the kind of the message. */
enum {
    AMPHORA_NP_REQUEST_MEDIUM,
    AMPHORA_NP_REPLY_MEDIUM,
    AMPHORA_NP_REQUEST_LONG,
    AMPHORA_NP_REPLY_LONG
};

int amphora_am_commit(gex_AM_SrcDesc_t sd, int what, gex_AM_Index_t handler, size_t nbytes,
                      void *dest, gex_Flags_t flags, unsigned nargs, const gex_AM_Arg_t *args);

/* nbytes: 0 to gex_AM_SrcDescSize(sd).  The _v2 forms take GEX_FLAG_IMMEDIATE: non-zero says that
 * nothing was sent for lack of room, and sd is still prepared. */
#define AMPHORA_DEFINE_COMMIT_MEDIUM(M, kind, what) \
    AMPHORA_INLINE void gex_AM_Commit##kind##M(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, \
                                               size_t nbytes AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        (void)amphora_am_commit(sd, what, handler, nbytes, 0, 0, M, args); \
    } \
    AMPHORA_INLINE int gex_AM_Commit##kind##M##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, \
                                                   size_t nbytes, \
                                                   gex_Flags_t commit_flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_commit(sd, what, handler, nbytes, 0, commit_flags, M, args); \
    }

#define AMPHORA_DEFINE_COMMIT_LONG(M, kind, what) \
    AMPHORA_INLINE void gex_AM_Commit##kind##M(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, \
                                               size_t nbytes, void *dest_addr AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        (void)amphora_am_commit(sd, what, handler, nbytes, dest_addr, 0, M, args); \
    } \
    AMPHORA_INLINE int gex_AM_Commit##kind##M##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, \
                                                   size_t nbytes, void *dest_addr, \
                                                   gex_Flags_t commit_flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_commit(sd, what, handler, nbytes, dest_addr, commit_flags, M, args); \
    }

#define AMPHORA_DEFINE_COMMITS(M) \
    AMPHORA_DEFINE_COMMIT_MEDIUM(M, RequestMedium, AMPHORA_NP_REQUEST_MEDIUM) \
    AMPHORA_DEFINE_COMMIT_MEDIUM(M, ReplyMedium, AMPHORA_NP_REPLY_MEDIUM) \
    AMPHORA_DEFINE_COMMIT_LONG(M, RequestLong, AMPHORA_NP_REQUEST_LONG) \
    AMPHORA_DEFINE_COMMIT_LONG(M, ReplyLong, AMPHORA_NP_REPLY_LONG)

AMPHORA_EACH_M(AMPHORA_DEFINE_COMMITS)

#define gex_AM_CommitRequestMedium(...) \
    AMPHORA_NUMBERED(gex_AM_CommitRequestMedium, AMPHORA_COUNT_3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyMedium(...) \
    AMPHORA_NUMBERED(gex_AM_CommitReplyMedium, AMPHORA_COUNT_3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitRequestLong(...) \
    AMPHORA_NUMBERED(gex_AM_CommitRequestLong, AMPHORA_COUNT_4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyLong(...) \
    AMPHORA_NUMBERED(gex_AM_CommitReplyLong, AMPHORA_COUNT_4(__VA_ARGS__))(__VA_ARGS__)

#define AMPHORA_NUMBERED_V2(name, count) AMPHORA_CAT(AMPHORA_CAT(name, count), _v2)
#define gex_AM_CommitRequestMedium_v2(...) \
    AMPHORA_NUMBERED_V2(gex_AM_CommitRequestMedium, AMPHORA_COUNT_4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyMedium_v2(...) \
    AMPHORA_NUMBERED_V2(gex_AM_CommitReplyMedium, AMPHORA_COUNT_4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitRequestLong_v2(...) \
    AMPHORA_NUMBERED_V2(gex_AM_CommitRequestLong, AMPHORA_COUNT_5(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyLong_v2(...) \
    AMPHORA_NUMBERED_V2(gex_AM_CommitReplyLong, AMPHORA_COUNT_5(__VA_ARGS__))(__VA_ARGS__)

AMPHORA_END_C

#endif

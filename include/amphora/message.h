/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages: handlers, requests, replies, limits.  GASNet-EX spec, "AM handler registration"
 * to "Fixed-payload AM".
 *
 * gex_AM_RequestShort3(tm, rank, handler, flags, a0, a1, a2) and its like exist for 0 to 16
 * arguments; without the number the arguments are counted.  Requests return 0, or non-zero where
 * nothing was sent (GEX_FLAG_IMMEDIATE only).  A request may block until there is room and then
 * runs handlers; replies are allowed once, in the handler of a request.  lc_opt: GEX_EVENT_NOW (the
 * source may be used again on return), GEX_EVENT_GROUP (gex_NBI_Wait(GEX_EC_AM) waits for it; requests
 * only), or the address of an event. What the limits forbid ends the job with a sentence.
 */
#ifndef AMPHORA_MESSAGE_H
#define AMPHORA_MESSAGE_H

#include <stddef.h>

#include "amphora/args.h"
#include "amphora/team.h"

AMPHORA_BEGIN_C

/* Registers handlers with ep; see gex_AM_Entry_t.  Not collective.  Returns GASNET_OK,
 * GASNET_ERR_NOT_INIT, or, with nothing registered, GASNET_ERR_BAD_ARG (index below
 * GEX_AM_INDEX_BASE or taken, too many arguments, flags) or GASNET_ERR_RESOURCE. */
int gex_EP_RegisterHandlers(gex_EP_t ep, gex_AM_Entry_t *table, size_t numentries);

/* Fills the fields of info that mask asks for and returns the mask of those that are valid.  In
 * handlers. */
gex_TI_t gex_Token_Info(gex_Token_t token, gex_Token_Info_t *info, gex_TI_t mask);

#define AMPHORA_MAX_ARGS 16
AMPHORA_INLINE unsigned int gex_AM_MaxArgs(void)
{
    return AMPHORA_MAX_ARGS;
}

/* Largest payload in bytes to or from other_rank (GEX_RANK_INVALID: any member of tm) with these
 * options. */
size_t gex_AM_MaxRequestLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                             gex_Flags_t flags, unsigned int numargs);
size_t gex_AM_MaxReplyLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                           gex_Flags_t flags, unsigned int numargs);
size_t gex_AM_MaxRequestMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                               gex_Flags_t flags, unsigned int numargs);
size_t gex_AM_MaxReplyMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                             gex_Flags_t flags, unsigned int numargs);
size_t gex_Token_MaxReplyLong(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                              unsigned int numargs);
size_t gex_Token_MaxReplyMedium(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                unsigned int numargs);

/* What is allowed to every peer with all options; the same in the whole job.  Before gex_Client_Init
 * what every conduit allows, which may be less. */
size_t gex_AM_LUBRequestLong(void);
size_t gex_AM_LUBReplyLong(void);
size_t gex_AM_LUBRequestMedium(void);
size_t gex_AM_LUBReplyMedium(void);

/* What the calls below are made from. */
int amphora_am_request_short(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                             gex_Flags_t flags, unsigned nargs, const gex_AM_Arg_t *args);
int amphora_am_request_medium(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                              size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs,
                              const gex_AM_Arg_t *args);
int amphora_am_request_long(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                            size_t nbytes, void *dest, gex_Event_t *lc_opt, gex_Flags_t flags,
                            unsigned nargs, const gex_AM_Arg_t *args);
int amphora_am_reply_short(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags,
                           unsigned nargs, const gex_AM_Arg_t *args);
int amphora_am_reply_medium(gex_Token_t token, gex_AM_Index_t handler, const void *src,
                            size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs,
                            const gex_AM_Arg_t *args);
int amphora_am_reply_long(gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,
                          void *dest, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs,
                          const gex_AM_Arg_t *args);

#define AMPHORA_DEFINE_SHORTS(M) \
    AMPHORA_INLINE int gex_AM_RequestShort##M(gex_TM_t tm, gex_Rank_t rank, \
                                              gex_AM_Index_t handler, \
                                              gex_Flags_t flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_request_short(tm, rank, handler, flags, M, args); \
    } \
    AMPHORA_INLINE int gex_AM_ReplyShort##M(gex_Token_t token, gex_AM_Index_t handler, \
                                            gex_Flags_t flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_reply_short(token, handler, flags, M, args); \
    }

#define AMPHORA_DEFINE_MEDIUMS(M) \
    AMPHORA_INLINE int gex_AM_RequestMedium##M( \
        gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *source_addr, \
        size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_request_medium(tm, rank, handler, source_addr, nbytes, lc_opt, flags, M, \
                                         args); \
    } \
    AMPHORA_INLINE int gex_AM_ReplyMedium##M( \
        gex_Token_t token, gex_AM_Index_t handler, const void *source_addr, size_t nbytes, \
        gex_Event_t *lc_opt, gex_Flags_t flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_reply_medium(token, handler, source_addr, nbytes, lc_opt, flags, M, \
                                       args); \
    }

#define AMPHORA_DEFINE_LONGS(M) \
    AMPHORA_INLINE int gex_AM_RequestLong##M( \
        gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *source_addr, \
        size_t nbytes, void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_request_long(tm, rank, handler, source_addr, nbytes, dest_addr, lc_opt, \
                                       flags, M, args); \
    } \
    AMPHORA_INLINE int gex_AM_ReplyLong##M( \
        gex_Token_t token, gex_AM_Index_t handler, const void *source_addr, size_t nbytes, \
        void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags AMPHORA_PARAMS_##M) \
    { \
        const gex_AM_Arg_t args[] = { AMPHORA_VALUES_##M }; \
        return amphora_am_reply_long(token, handler, source_addr, nbytes, dest_addr, lc_opt, \
                                     flags, M, args); \
    }

/* clang-format off */
AMPHORA_EACH_M(AMPHORA_DEFINE_SHORTS)
AMPHORA_EACH_M(AMPHORA_DEFINE_MEDIUMS)
AMPHORA_EACH_M(AMPHORA_DEFINE_LONGS)
/* clang-format on */

#define gex_AM_RequestShort(...) \
    AMPHORA_NUMBERED(gex_AM_RequestShort, AMPHORA_COUNT_4(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_RequestMedium(...) \
    AMPHORA_NUMBERED(gex_AM_RequestMedium, AMPHORA_COUNT_7(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_RequestLong(...) \
    AMPHORA_NUMBERED(gex_AM_RequestLong, AMPHORA_COUNT_8(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyShort(...) \
    AMPHORA_NUMBERED(gex_AM_ReplyShort, AMPHORA_COUNT_3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyMedium(...) \
    AMPHORA_NUMBERED(gex_AM_ReplyMedium, AMPHORA_COUNT_6(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyLong(...) \
    AMPHORA_NUMBERED(gex_AM_ReplyLong, AMPHORA_COUNT_7(__VA_ARGS__))(__VA_ARGS__)

AMPHORA_END_C

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages of the API: handlers, requests, replies, tokens, limits.  Layer: extended.
 * Thread rule: as am/am.h; registration by one thread at a time.
 */
#include "amphora/message.h"

#include <stdio.h>

#include "amphora/gasnet1.h"
#include "base/log.h"
#include "extended/check.h"
#include "extended/event.h"
#include "extended/message.h"

/* The longest payload for which a prepare call returns a buffer of the library. */
#define ALLOC_MAX_BYTES (16u << 20)

/* Payloads up to this size are copied by the call; for longer ones local completion is an
 * operation. */
#define COPY_MAX_BYTES AMPH_AM_MIN_MAX_MEDIUM

/* ---- handlers ---- */

static bool category_ok(gex_Flags_t flags)
{
    gex_Flags_t kind = flags & (GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDLONG);
    gex_Flags_t dir = flags & GEX_FLAG_AM_REQREP;

    return kind && dir && !(flags & ~(gex_Flags_t)31);
}

/* Can entry i of table be registered?  Its index must not be 0 nor that of an earlier entry. */
static int check_entry(const struct amphora_ep *ep, const gex_AM_Entry_t *table, size_t i,
                       bool any_args)
{
    const gex_AM_Entry_t *e = &table[i];
    const char *name = e->gex_name ? e->gex_name : "without name";

    if (!e->gex_fnptr || !category_ok(e->gex_flags)) {
        amph_gex_complain("handler %u (%s) has no function or no category; give a function, one of "
                          "GEX_FLAG_AM_SHORT, MEDIUM, LONG, "
                          "MEDLONG and one of REQUEST, REPLY, REQREP",
                          e->gex_index, name);
        return GASNET_ERR_BAD_ARG;
    }

    if (!any_args && e->gex_nargs > AMPHORA_MAX_ARGS) {
        amph_gex_complain("handler %u (%s) wants %u arguments; a message has at most %d",
                          e->gex_index, name, e->gex_nargs, AMPHORA_MAX_ARGS);
        return GASNET_ERR_BAD_ARG;
    }

    if (e->gex_index && e->gex_index < GEX_AM_INDEX_BASE) {
        amph_gex_complain(
            "handler index %u (%s) is not a client's; those are %d to 255, or 0 for any",
            e->gex_index, name, GEX_AM_INDEX_BASE);
        return GASNET_ERR_BAD_ARG;
    }

    bool taken = e->gex_index && ep->entry[e->gex_index].gex_fnptr;

    for (size_t j = 0; e->gex_index && j < i; j++)
        taken |= table[j].gex_index == e->gex_index;

    if (taken) {
        amph_gex_complain(
            "handler index %u (%s) is taken twice; give each handler its own, or 0 for any",
            e->gex_index, name);
        return GASNET_ERR_BAD_ARG;
    }

    return GASNET_OK;
}

static int register_one(struct amphora_ep *ep, const gex_AM_Entry_t *e, bool any_args)
{
    struct amph_am_entry entry = {
        .fn = (void *)e->gex_fnptr,
        .client_form = true,
        .kinds = e->gex_flags & 7,
        .dirs = (uint8_t)(e->gex_flags >> 3 & 3),
        .nargs = any_args ? -1 : (int)e->gex_nargs,
        .cdata = e->gex_cdata,
        .name = e->gex_name,
    };
    enum amph_status st = amph_am_context_register(ep->am, ep->index, e->gex_index, &entry);

    if (st != AMPH_OK)
        return amph_gex_error(st);

    ep->entry[e->gex_index] = *e;
    return GASNET_OK;
}

/* Registers entries whose index is 0, each at the highest free index. */
static int place_entry(struct amphora_ep *ep, gex_AM_Entry_t *e, bool any_args)
{
    unsigned index = 255;

    while (index >= GEX_AM_INDEX_BASE && ep->entry[index].gex_fnptr)
        index--;

    if (index < GEX_AM_INDEX_BASE) {
        amph_gex_complain("no handler index is left; a client has %d", 256 - GEX_AM_INDEX_BASE);
        return GASNET_ERR_RESOURCE;
    }

    e->gex_index = (gex_AM_Index_t)index;
    return register_one(ep, e, any_args);
}

int amph_gex_handlers_register(struct amphora_ep *ep, gex_AM_Entry_t *table, size_t numentries,
                               bool any_args)
{
    int err = GASNET_OK;

    if (!amph_gex())
        return GASNET_ERR_NOT_INIT;
    if (!ep || (!table && numentries))
        return GASNET_ERR_BAD_ARG;

    if (!(ep->capabilities & GEX_EP_CAPABILITY_AM)) {
        amph_gex_complain(
            "endpoint %u was created without GEX_EP_CAPABILITY_AM, so it takes no handlers",
            ep->index);
        return GASNET_ERR_BAD_ARG;
    }

    for (size_t i = 0; i < numentries && !err; i++)
        err = check_entry(ep, table, i, any_args);

    for (size_t i = 0; i < numentries && !err; i++)
        if (table[i].gex_index)
            err = register_one(ep, &table[i], any_args);

    for (size_t i = 0; i < numentries && !err; i++)
        if (!table[i].gex_index)
            err = place_entry(ep, &table[i], any_args);

    return err;
}

int gex_EP_RegisterHandlers(gex_EP_t ep, gex_AM_Entry_t *table, size_t numentries)
{
    return amph_gex_handlers_register(ep, table, numentries, false);
}

/* ---- limits ---- */

struct amph_gex *amph_gex_need(const char *call)
{
    if (AMPH_UNLIKELY(!amph_gex()))
        amph_fatal("%s was called before gex_Client_Init or gasnet_init", call);

    return amph_gex();
}

static uint8_t route_between(const struct amph_dest *d, const char *call)
{
    if (!(d->from->capabilities & GEX_EP_CAPABILITY_AM))
        amph_fatal("%s: endpoint %u of this process was created without GEX_EP_CAPABILITY_AM", call,
                   d->from->index);

    if (d->index >= AMPH_AM_CONTEXTS)
        amph_fatal(
            "%s: endpoint %u of process %u takes no messages; those with an index below %u may",
            call, d->index, d->peer, AMPH_AM_CONTEXTS);

    return AMPH_AM_ROUTE(d->from->index, d->index);
}

uint32_t amph_gex_message_peer_of(gex_TM_t tm, gex_Rank_t rank, const char *call, uint8_t *route_p)
{
    const struct amph_dest d = amph_gex_team_dest(tm, rank, call);

    *route_p = 0;
    if (d.from->index | d.index)
        *route_p = route_between(&d, call);

    return d.peer;
}

size_t amph_gex_message_limit(const struct amph_gex *g, uint32_t peer, bool is_long,
                              gex_Flags_t flags)
{
    size_t max = is_long ? amph_am_max_long(g->ep.am, peer) : amph_am_max_medium(g->ep.am, peer);
    return flags & GEX_FLAG_AM_PREPARE_LEAST_ALLOC && max > ALLOC_MAX_BYTES ? ALLOC_MAX_BYTES : max;
}

static size_t limit(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                    gex_Flags_t flags, unsigned numargs, bool is_long, const char *call)
{
    const gex_Flags_t both = GEX_FLAG_AM_PREPARE_LEAST_CLIENT | GEX_FLAG_AM_PREPARE_LEAST_ALLOC;
    struct amph_gex *g = amph_gex_need(call);

    if (numargs > AMPHORA_MAX_ARGS)
        amph_fatal("%s: a message has at most %d arguments, not %u", call, AMPHORA_MAX_ARGS,
                   numargs);

    if (lc_opt == GEX_EVENT_DEFER)
        amph_fatal("%s: GEX_EVENT_DEFER is not an lc_opt of active messages", call);

    if ((flags & both) == both)
        amph_fatal("%s: ask with GEX_FLAG_AM_PREPARE_LEAST_CLIENT or with "
                   "GEX_FLAG_AM_PREPARE_LEAST_ALLOC, not with both",
                   call);

    if (other_rank != GEX_RANK_INVALID)
        return amph_gex_message_limit(g, amph_gex_team_peer(tm, other_rank, call), is_long, flags);

    /* a pair reaches the whole job */
    const struct amph_team *team = (uintptr_t)tm & 1 ? &g->team : amph_gex_team_of(tm, call);
    size_t min = SIZE_MAX;

    for (gex_Rank_t i = 0; i < team->pub.size; i++) {
        size_t max = amph_gex_message_limit(g, amph_gex_team_member(team, i), is_long, flags);
        min = max < min ? max : min;
    }

    return min;
}

static size_t token_limit(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                          unsigned numargs, bool is_long, const char *call)
{
    amph_check_token(token, call);
    return limit(&amph_gex_need(call)->team.pub, token->peer, lc_opt, flags, numargs, is_long,
                 call);
}

size_t gex_AM_MaxRequestLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                             gex_Flags_t flags, unsigned int numargs)
{
    return limit(tm, other_rank, lc_opt, flags, numargs, true, "gex_AM_MaxRequestLong");
}

size_t gex_AM_MaxReplyLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                           gex_Flags_t flags, unsigned int numargs)
{
    return limit(tm, other_rank, lc_opt, flags, numargs, true, "gex_AM_MaxReplyLong");
}

size_t gex_AM_MaxRequestMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                               gex_Flags_t flags, unsigned int numargs)
{
    return limit(tm, other_rank, lc_opt, flags, numargs, false, "gex_AM_MaxRequestMedium");
}

size_t gex_AM_MaxReplyMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt,
                             gex_Flags_t flags, unsigned int numargs)
{
    return limit(tm, other_rank, lc_opt, flags, numargs, false, "gex_AM_MaxReplyMedium");
}

size_t gex_Token_MaxReplyLong(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                              unsigned int numargs)
{
    return token_limit(token, lc_opt, flags, numargs, true, "gex_Token_MaxReplyLong");
}

size_t gex_Token_MaxReplyMedium(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                unsigned int numargs)
{
    return token_limit(token, lc_opt, flags, numargs, false, "gex_Token_MaxReplyMedium");
}

/* Returns the limit of the whole job.  Clients size their tables with it before they join the
 * job; until then it is the minimum over all conduits. */
static size_t limit_to_all(bool is_long)
{
    const struct amph_gex *g = amph_gex();

    if (!g || !g->max_medium)
        return AMPH_AM_MIN_MAX_MEDIUM;

    return is_long ? g->max_long : g->max_medium;
}

size_t gex_AM_LUBRequestLong(void)
{
    return limit_to_all(true);
}

size_t gex_AM_LUBReplyLong(void)
{
    return limit_to_all(true);
}

size_t gex_AM_LUBRequestMedium(void)
{
    return limit_to_all(false);
}

size_t gex_AM_LUBReplyMedium(void)
{
    return limit_to_all(false);
}

/* ---- tokens ---- */

gex_TI_t gex_Token_Info(gex_Token_t token, gex_Token_Info_t *info, gex_TI_t mask)
{
    struct amph_gex *g = amph_gex();

    if (!g || !token || !info)
        return 0;

    amph_check_token(token, "gex_Token_Info");
    info->gex_srcrank = token->peer;

    /* delivery has checked that it exists */
    info->gex_ep = g->eps[AMPH_AM_ROUTE_TO(token->am->flags)];
    info->gex_entry = &info->gex_ep->entry[token->am->handler];
    info->gex_is_req = token->is_request;
    info->gex_is_long = token->am->kind == AMPH_AM_LONG || token->am->kind == AMPH_AM_LONG_PACKED;

    return mask & GEX_TI_ALL;
}

/* ---- sending ---- */

static const char *const kind_name[] = {
    [AMPH_AM_SHORT] = "Short", [AMPH_AM_MEDIUM] = "Medium", [AMPH_AM_LONG] = "Long"
};

int amph_gex_message_answer(enum amph_status st, uint32_t peer, const struct amph_am *am,
                            const char *call)
{
    if (st == AMPH_AGAIN)
        return 1;

    if (st == AMPH_ERR_RANGE && am->kind == AMPH_AM_LONG)
        amph_fatal("%sLong: %u bytes at %#llx lie outside the segment of process %u", call,
                   am->nbytes, (unsigned long long)am->dest, peer);

    if (st == AMPH_ERR_STATE)
        amph_fatal("%s%s: not allowed here: requests are for outside handlers, and a request's "
                   "handler may reply once",
                   call, kind_name[am->kind]);

    amph_fatal("%s%s to process %u (handler %u, %u bytes, %u arguments): %s", call,
               kind_name[am->kind], peer, am->handler, am->nbytes, am->nargs,
               amph_job_failure_text(st));
}

static void check_payload(struct amph_gex *g, uint32_t peer, bool is_long, size_t nbytes,
                          const char *call)
{
    size_t max = is_long ? amph_am_max_long(g->ep.am, peer) : amph_am_max_medium(g->ep.am, peer);

    if (nbytes > max)
        amph_fatal("%s%s: a payload of %zu bytes is too large; to process %u at most %zu (ask "
                   "gex_AM_Max%s%s)",
                   call, is_long ? "Long" : "Medium", nbytes, peer, max,
                   call + sizeof "gex_AM_" - 1, is_long ? "Long" : "Medium");
}

/* Begins the local completion of a call.  Returns the operation to pass to am/, or NULL:
 * complete on return. */
static struct amph_gex_op *lc_begin(gex_Event_t *lc_opt, size_t nbytes, bool request,
                                    const char *call)
{
    if (lc_opt == GEX_EVENT_DEFER || !lc_opt || (lc_opt == GEX_EVENT_GROUP && !request))
        amph_fatal("%s: lc_opt must be GEX_EVENT_NOW%s or the address of an event", call,
                   request ? ", GEX_EVENT_GROUP" : "");

    if (lc_opt == GEX_EVENT_NOW || nbytes <= COPY_MAX_BYTES) {
        if (AMPHORA_LC_IS_ADDRESS(lc_opt))
            *lc_opt = GEX_EVENT_INVALID;

        return NULL;
    }

    struct amph_gex_op *op = amph_gex_op_get();

    op->root.pending = 1;
    if (lc_opt == GEX_EVENT_GROUP)
        amph_gex_op_detach(op, AMPH_EC_AM);
    else if (lc_opt == AMPHORA_EVENT_UNHEARD)
        op->detached = true;

    return op;
}

static void lc_end(struct amph_gex_op *op, gex_Event_t *lc_opt, int result)
{
    if (!op)
        return;

    if (result)
        amph_gex_op_retract(op);
    else if (AMPHORA_LC_IS_ADDRESS(lc_opt))
        *lc_opt = amph_gex_op_event(op);
}

int amph_gex_message_request(uint32_t peer, const struct amph_am *am, gex_Event_t *lc_opt,
                             gex_Flags_t flags)
{
    struct amph_gex_op *op = NULL;

    if (am->kind != AMPH_AM_SHORT)
        op = lc_begin(lc_opt, am->nbytes, true, "gex_AM_Request");

    enum amph_status st = amph_am_request(amph_gex()->ep.am, peer, am, flags & GEX_FLAG_IMMEDIATE,
                                          op ? &op->rc : NULL);
    int result = AMPH_LIKELY(st == AMPH_OK)
                     ? 0
                     : amph_gex_message_answer(st, peer, am, "gex_AM_Request");

    lc_end(op, lc_opt, result);
    amph_gex_handle_own();
    return result;
}

int amph_gex_message_reply(gex_Token_t token, const struct amph_am *am, gex_Event_t *lc_opt,
                           gex_Flags_t flags)
{
    struct amph_gex_op *op = NULL;

    if (am->kind != AMPH_AM_SHORT)
        op = lc_begin(lc_opt, am->nbytes, false, "gex_AM_Reply");

    enum amph_status st = amph_am_reply(token, am, flags & GEX_FLAG_IMMEDIATE, op ? &op->rc : NULL);
    int result = AMPH_LIKELY(st == AMPH_OK)
                     ? 0
                     : amph_gex_message_answer(st, token->peer, am, "gex_AM_Reply");

    lc_end(op, lc_opt, result);
    return result;
}

/* Checks the flags, in debug builds. */
static inline void check_flags(gex_Flags_t flags, const char *call)
{
    if (AMPH_CHECKS && flags & (GEX_FLAG_AM_PREPARE_LEAST_CLIENT | GEX_FLAG_AM_PREPARE_LEAST_ALLOC))
        amph_fatal("%s: GEX_FLAG_AM_PREPARE_LEAST_CLIENT and _ALLOC are for the queries of limits",
                   call);
}

static inline void check_request(uint32_t peer, const void *src, size_t nbytes, gex_Flags_t flags,
                                 const char *call)
{
    amph_check_call(call);
    amph_check_transfer(peer, src, nbytes, flags, call);
    check_flags(flags, call);
}

static inline void check_reply(const struct amph_token *token, const void *src, size_t nbytes,
                               gex_Flags_t flags, const char *call)
{
    amph_check_reply(token, call);
    amph_check_transfer(token->peer, src, nbytes, flags, call);
    check_flags(flags, call);
}

/* Sends a request whose local completion needs no operation: the short path. */
static inline int request_now(uint32_t peer, const struct amph_am *am, gex_Flags_t flags)
{
    enum amph_status st = amph_am_request(amph_gex()->ep.am, peer, am, flags & GEX_FLAG_IMMEDIATE,
                                          NULL);

    amph_gex_handle_own();
    return AMPH_LIKELY(st == AMPH_OK) ? 0 : amph_gex_message_answer(st, peer, am, "gex_AM_Request");
}

static inline int reply_now(gex_Token_t token, const struct amph_am *am, gex_Flags_t flags)
{
    enum amph_status st = amph_am_reply(token, am, flags & GEX_FLAG_IMMEDIATE, NULL);
    return AMPH_LIKELY(st == AMPH_OK)
               ? 0
               : amph_gex_message_answer(st, token->peer, am, "gex_AM_Reply");
}

int amphora_am_request_short(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                             gex_Flags_t flags, unsigned nargs, const gex_AM_Arg_t *args)
{
    uint8_t route;
    const uint32_t peer = amph_gex_message_peer(tm, rank, "gex_AM_RequestShort", &route);
    const struct amph_am am = { .kind = AMPH_AM_SHORT,
                                .handler = handler,
                                .nargs = (uint8_t)nargs,
                                .flags = route,
                                .args = args };

    check_request(peer, NULL, 0, flags, "gex_AM_RequestShort");
    return request_now(peer, &am, flags);
}

int amphora_am_request_medium(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                              size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs,
                              const gex_AM_Arg_t *args)
{
    uint8_t route;
    uint32_t peer = amph_gex_message_peer(tm, rank, "gex_AM_RequestMedium", &route);

    check_request(peer, src, nbytes, flags, "gex_AM_RequestMedium");
    if (AMPH_UNLIKELY(nbytes > AMPH_AM_MIN_MAX_MEDIUM))
        check_payload(amph_gex(), peer, false, nbytes, "gex_AM_Request");

    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = handler,
                                .nargs = (uint8_t)nargs,
                                .nbytes = (uint32_t)nbytes,
                                .flags = route,
                                .args = args,
                                .payload = amph_gex_message_source(amph_gex(), route, src, flags) };

    return AMPH_LIKELY(lc_opt == GEX_EVENT_NOW)
               ? request_now(peer, &am, flags)
               : amph_gex_message_request(peer, &am, lc_opt, flags);
}

int amphora_am_request_long(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                            size_t nbytes, void *dest, gex_Event_t *lc_opt, gex_Flags_t flags,
                            unsigned nargs, const gex_AM_Arg_t *args)
{
    uint8_t route;
    uint32_t peer = amph_gex_message_peer(tm, rank, "gex_AM_RequestLong", &route);

    check_request(peer, src, nbytes, flags, "gex_AM_RequestLong");

    struct amph_gex *g = amph_gex();

    if (AMPH_UNLIKELY(nbytes > AMPH_AM_MIN_MAX_MEDIUM))
        check_payload(g, peer, true, nbytes, "gex_AM_Request");

    const struct amph_am am = { .kind = AMPH_AM_LONG,
                                .handler = handler,
                                .nargs = (uint8_t)nargs,
                                .nbytes = (uint32_t)nbytes,
                                .dest = amph_gex_message_dest(g, peer, route, dest, flags),
                                .flags = route,
                                .args = args,
                                .payload = amph_gex_message_source(g, route, src, flags) };

    return AMPH_LIKELY(lc_opt == GEX_EVENT_NOW)
               ? request_now(peer, &am, flags)
               : amph_gex_message_request(peer, &am, lc_opt, flags);
}

int amphora_am_reply_short(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags,
                           unsigned nargs, const gex_AM_Arg_t *args)
{
    check_reply(token, NULL, 0, flags, "gex_AM_ReplyShort");

    const struct amph_am am = { .kind = AMPH_AM_SHORT,
                                .handler = handler,
                                .nargs = (uint8_t)nargs,
                                .flags = amph_gex_message_back(token),
                                .args = args };

    return reply_now(token, &am, flags);
}

int amphora_am_reply_medium(gex_Token_t token, gex_AM_Index_t handler, const void *src,
                            size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs,
                            const gex_AM_Arg_t *args)
{
    check_reply(token, src, nbytes, flags, "gex_AM_ReplyMedium");
    if (AMPH_UNLIKELY(nbytes > AMPH_AM_MIN_MAX_MEDIUM))
        check_payload(amph_gex(), token->peer, false, nbytes, "gex_AM_Reply");

    const uint8_t route = amph_gex_message_back(token);
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                .handler = handler,
                                .nargs = (uint8_t)nargs,
                                .nbytes = (uint32_t)nbytes,
                                .flags = route,
                                .args = args,
                                .payload = amph_gex_message_source(amph_gex(), route, src, flags) };

    return AMPH_LIKELY(lc_opt == GEX_EVENT_NOW) ? reply_now(token, &am, flags)
                                                : amph_gex_message_reply(token, &am, lc_opt, flags);
}

int amphora_am_reply_long(gex_Token_t token, gex_AM_Index_t handler, const void *src, size_t nbytes,
                          void *dest, gex_Event_t *lc_opt, gex_Flags_t flags, unsigned nargs,
                          const gex_AM_Arg_t *args)
{
    struct amph_gex *g = amph_gex();

    check_reply(token, src, nbytes, flags, "gex_AM_ReplyLong");
    if (AMPH_UNLIKELY(nbytes > AMPH_AM_MIN_MAX_MEDIUM))
        check_payload(g, token->peer, true, nbytes, "gex_AM_Reply");

    const uint8_t route = amph_gex_message_back(token);
    const struct amph_am am = { .kind = AMPH_AM_LONG,
                                .handler = handler,
                                .nargs = (uint8_t)nargs,
                                .nbytes = (uint32_t)nbytes,
                                .dest = amph_gex_message_dest(g, token->peer, route, dest, flags),
                                .flags = route,
                                .args = args,
                                .payload = amph_gex_message_source(g, route, src, flags) };

    return AMPH_LIKELY(lc_opt == GEX_EVENT_NOW) ? reply_now(token, &am, flags)
                                                : amph_gex_message_reply(token, &am, lc_opt, flags);
}

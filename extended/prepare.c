/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Negotiated-payload active messages.  Layer: extended.  Thread rule: a descriptor belongs to its
 * thread; each thread has one for requests and one for replies, since the commit of a request may
 * run handlers that reply.
 *
 * The library's payload buffer is, for up to SMALL_BYTES, the descriptor itself, because the data
 * is copied into a message's head anyway; for a medium to a neighbour, the ring that the neighbour
 * reads; otherwise a buffer that is sent in place and freed when its operation completes.
 */
#include "am/am.h"
#include "amphora/prepare.h"
#include "base/status.h"
#include "conduits/conduit.h"

#include <stdlib.h>
#include <string.h>

#include "am/check.h"
#include "base/log.h"
#include "extended/check.h"
#include "extended/event.h"
#include "extended/message.h"

enum {
    SMALL_BYTES = 64
};
/* Limit of the free buffers that a thread keeps: enough for all payloads in flight, so that
 * their memory is not freed and allocated again. */
#define SPARE_MAX_BYTES (4u << 20)
#define BUFFER_MIN_BYTES (64u << 10)
#define LONG_OFFER_BYTES \
    (256u << 10) /* size that a prepare of a long returns, even if less is required */

/* A buffer of the library, which becomes free when its operation completes. */
struct amph_np_buffer {
    struct amph_op op;
    struct amph_np_buffer *next;
    size_t capacity;
    _Alignas(AMPH_CACHE_LINE) uint8_t bytes[];
};

enum storage {
    CLIENT,
    SMALL,
    RING,
    BUFFER
};

struct amph_srcdesc {
    struct amphora_srcdesc pub; /* first member */
    bool prepared;
    uint8_t what;    /* AMPHORA_NP_ */
    uint8_t storage; /* enum storage */
    uint8_t numargs;
    uint8_t route; /* the pair of endpoints */
    uint32_t peer;
    gex_Token_t token; /* of a reply */
    void *dest;        /* as given to prepare */
    gex_Event_t *lc_opt;
    gex_Flags_t flags;
    struct amph_am_prep ring;
    struct amph_np_buffer *buffer;
    _Alignas(16) uint8_t small[SMALL_BYTES];
};

static const char *const call_name[] = { "gex_AM_PrepareRequestMedium", "gex_AM_PrepareReplyMedium",
                                         "gex_AM_PrepareRequestLong", "gex_AM_PrepareReplyLong" };
static const char *const commit_name[] = { "gex_AM_CommitRequest", "gex_AM_CommitReply" };

static bool is_reply(int what)
{
    return what & 1;
}

static enum amph_lane lane_of(int what)
{
    return is_reply(what) ? AMPH_LANE_REPLY : AMPH_LANE_REQUEST;
}

static bool is_long(int what)
{
    return what >= AMPHORA_NP_REQUEST_LONG;
}

/* ---- buffers ---- */

static void buffer_done(struct amph_op *op, enum amph_status st)
{
    struct amph_np_buffer *b = AMPH_CONTAINER_OF(op, struct amph_np_buffer, op);
    struct amph_gex_thread *t = amph_gex_thread();

    if (st != AMPH_OK && !amph_job.exiting)
        amph_fatal("a prepared message could not be sent: %s", amph_job_failure_text(st));

    if (t->spare_bytes + b->capacity > SPARE_MAX_BYTES) {
        free(b);
        return;
    }

    b->next = t->spares;
    t->spares = b;
    t->spare_bytes += b->capacity;
}

static struct amph_np_buffer *buffer_get(size_t len_bytes)
{
    struct amph_gex_thread *t = amph_gex_thread();
    struct amph_np_buffer *b = t->spares;

    if (b) {
        t->spares = b->next;
        t->spare_bytes -= b->capacity;
        if (b->capacity >= len_bytes)
            return b;

        free(b);
    }

    size_t capacity = amph_align_up(len_bytes > BUFFER_MIN_BYTES ? len_bytes : BUFFER_MIN_BYTES,
                                    AMPH_CACHE_LINE);

    b = aligned_alloc(AMPH_CACHE_LINE, amph_align_up(sizeof *b + capacity, AMPH_CACHE_LINE));
    if (!b)
        amph_fatal(
            "no memory for a message of %zu bytes; ask for less, or give the process more memory",
            len_bytes);

    b->op.done = buffer_done;
    b->capacity = capacity;
    return b;
}

void amph_gex_prepare_thread_end(struct amph_gex_thread *t)
{
    while (t->spares) {
        struct amph_np_buffer *b = t->spares;

        t->spares = b->next;
        free(b);
    }

    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        if (t->srcdesc[lane] && t->srcdesc[lane]->prepared && t->srcdesc[lane]->storage == BUFFER)
            free(t->srcdesc[lane]->buffer);

        free(t->srcdesc[lane]);
        t->srcdesc[lane] = NULL;
    }
}

/* ---- prepare ---- */

static inline void set_prepared(struct amph_srcdesc *sd, bool on)
{
    sd->prepared = on;
    if (AMPH_CHECKS)
        amph_am_context_self()->prepared = on ? call_name[sd->what] : NULL;
}

/* The calling thread's descriptor. */
static struct amph_srcdesc *descriptor(int what)
{
    struct amph_srcdesc **sd_p = &amph_gex_thread()->srcdesc[lane_of(what)];

    if (AMPH_UNLIKELY(!*sd_p)) {
        *sd_p = aligned_alloc(AMPH_CACHE_LINE, amph_align_up(sizeof **sd_p, AMPH_CACHE_LINE));
        if (!*sd_p)
            amph_fatal("%s: no memory for a descriptor", call_name[what]);

        memset(*sd_p, 0, sizeof **sd_p);
    }

    if (AMPH_UNLIKELY((*sd_p)->prepared))
        amph_fatal("%s: this thread's last prepared message has not been committed or cancelled; "
                   "prepare and commit do not nest",
                   call_name[what]);

    return *sd_p;
}

static void check(struct amph_srcdesc *sd, size_t min, size_t max, const void *client_buf,
                  size_t limit)
{
    const char *call = call_name[sd->what];

    if (min > max || min > limit)
        amph_fatal("%s: least_payload is %zu, but may be at most most_payload (%zu) and what the "
                   "query of limits gives (%zu)",
                   call, min, max, limit);

    if (sd->numargs > AMPHORA_MAX_ARGS)
        amph_fatal("%s: a message has at most %d arguments, not %u", call, AMPHORA_MAX_ARGS,
                   sd->numargs);

    if (!client_buf && sd->lc_opt)
        amph_fatal("%s: lc_opt must be NULL where the buffer is the library's (client_buf is NULL)",
                   call);

    if (client_buf && (!sd->lc_opt || sd->lc_opt == GEX_EVENT_DEFER ||
                       (sd->lc_opt == GEX_EVENT_GROUP && is_reply(sd->what))))
        amph_fatal("%s: lc_opt must be GEX_EVENT_NOW%s or the address of an event where the buffer "
                   "is the client's",
                   call, is_reply(sd->what) ? "" : ", GEX_EVENT_GROUP");
}

/* Tries to get room in the conduit's memory.  Returns AMPH_AGAIN only with IMMEDIATE: other
 * callers use a buffer and wait at the commit. */
static enum amph_status try_ring(struct amph_gex *g, struct amph_srcdesc *sd, size_t min,
                                 size_t max)
{
    enum amph_lane lane = lane_of(sd->what);
    enum amph_status st = amph_am_prepare(g->ep.am, sd->peer, lane, min, max, &sd->ring);

    if (st == AMPH_AGAIN && !(sd->flags & GEX_FLAG_IMMEDIATE) && !is_reply(sd->what)) {
        amph_am_poll(g->ep.am);
        st = amph_am_prepare(g->ep.am, sd->peer, lane, min, max, &sd->ring);
    }

    return st == AMPH_AGAIN && !(sd->flags & GEX_FLAG_IMMEDIATE) ? AMPH_ERR_NOSYS : st;
}

/* Finds room for `min` to `max` bytes. false: no room now. */
static bool find_storage(struct amph_gex *g, struct amph_srcdesc *sd, size_t min, size_t max)
{
    bool small = max <= SMALL_BYTES;

    if (!is_long(sd->what) && !small) {
        enum amph_status st = try_ring(g, sd, min, max);

        if (st == AMPH_AGAIN)
            return false;

        if (st == AMPH_OK) {
            sd->storage = RING;
            sd->pub = (struct amphora_srcdesc){ sd->ring.buf, sd->ring.len_bytes };
            return true;
        }
    }

    if (sd->flags & GEX_FLAG_IMMEDIATE && !amph_am_has_room(g->ep.am, sd->peer, lane_of(sd->what)))
        return false;

    sd->storage = small ? SMALL : BUFFER;
    if (!small) {
        /* The buffer freed last is warm in the cache. */
        if (!amph_gex_thread()->spares && !is_reply(sd->what) && !(sd->flags & GEX_FLAG_IMMEDIATE))
            amph_am_poll(g->ep.am);

        sd->buffer = buffer_get(max);
    }

    sd->pub = (struct amphora_srcdesc){ small ? sd->small : sd->buffer->bytes, max };
    return true;
}

/* Completes a prepare call; sd's peer and token are set. */
static gex_AM_SrcDesc_t prepare(struct amph_gex *g, struct amph_srcdesc *sd, const void *client_buf,
                                size_t min, size_t max, void *dest, gex_Event_t *lc_opt,
                                gex_Flags_t flags, unsigned numargs)
{
    gex_Flags_t which = client_buf ? GEX_FLAG_AM_PREPARE_LEAST_CLIENT
                                   : GEX_FLAG_AM_PREPARE_LEAST_ALLOC;
    size_t limit = amph_gex_message_limit(g, sd->peer, is_long(sd->what), flags | which);

    sd->dest = dest;
    sd->lc_opt = lc_opt;
    sd->flags = flags;
    sd->numargs = numargs > UINT8_MAX ? UINT8_MAX : (uint8_t)numargs;
    check(sd, min, max, client_buf, limit);

    if (AMPH_CHECKS && flags & GEX_FLAG_SELF_SEG_OFFSET)
        amph_fatal(
            "%s: GEX_FLAG_SELF_SEG_OFFSET is not for prepared messages: client_buf is an address",
            call_name[sd->what]);

    amph_check_transfer(sd->peer, client_buf, client_buf ? max : 0, flags, call_name[sd->what]);
    if (max > limit)
        max = limit;

    if (client_buf) {
        if (flags & GEX_FLAG_IMMEDIATE && !amph_am_has_room(g->ep.am, sd->peer, lane_of(sd->what)))
            return GEX_AM_SRCDESC_NO_OP;

        sd->storage = CLIENT;
        sd->pub = (struct amphora_srcdesc){ (void *)(uintptr_t)client_buf, max };
    } else {
        if (is_long(sd->what) && max > LONG_OFFER_BYTES)
            max = min > LONG_OFFER_BYTES ? min : LONG_OFFER_BYTES;

        if (!find_storage(g, sd, min, max))
            return GEX_AM_SRCDESC_NO_OP;
    }

    set_prepared(sd, true);
    return &sd->pub;
}

static gex_AM_SrcDesc_t prepare_request(int what, gex_TM_t tm, gex_Rank_t rank,
                                        const void *client_buf, size_t min, size_t max, void *dest,
                                        gex_Event_t *lc_opt, gex_Flags_t flags, unsigned numargs)
{
    struct amph_gex *g = amph_gex_need(call_name[what]);
    struct amph_srcdesc *sd = descriptor(what);

    sd->what = (uint8_t)what;
    sd->peer = amph_gex_message_peer(tm, rank, call_name[what], &sd->route);
    amph_check_call(call_name[what]);

    return prepare(g, sd, client_buf, min, max, dest, lc_opt, flags, numargs);
}

static gex_AM_SrcDesc_t prepare_reply(int what, gex_Token_t token, const void *client_buf,
                                      size_t min, size_t max, void *dest, gex_Event_t *lc_opt,
                                      gex_Flags_t flags, unsigned numargs)
{
    struct amph_gex *g = amph_gex_need(call_name[what]);
    struct amph_srcdesc *sd = descriptor(what);

    amph_check_reply(token, call_name[what]);
    if (!token->is_request || token->replied)
        amph_fatal("%s: not allowed here: only the handler of a request may reply, and once",
                   call_name[what]);

    sd->what = (uint8_t)what;
    sd->token = token;
    sd->peer = token->peer;
    sd->route = amph_gex_message_back(token);

    return prepare(g, sd, client_buf, min, max, dest, lc_opt, flags, numargs);
}

gex_AM_SrcDesc_t gex_AM_PrepareRequestMedium(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                             size_t least_payload, size_t most_payload,
                                             gex_Event_t *lc_opt, gex_Flags_t flags,
                                             unsigned int numargs)
{
    return prepare_request(AMPHORA_NP_REQUEST_MEDIUM, tm, rank, client_buf, least_payload,
                           most_payload, NULL, lc_opt, flags, numargs);
}

gex_AM_SrcDesc_t gex_AM_PrepareReplyMedium(gex_Token_t token, const void *client_buf,
                                           size_t least_payload, size_t most_payload,
                                           gex_Event_t *lc_opt, gex_Flags_t flags,
                                           unsigned int numargs)
{
    return prepare_reply(AMPHORA_NP_REPLY_MEDIUM, token, client_buf, least_payload, most_payload,
                         NULL, lc_opt, flags, numargs);
}

gex_AM_SrcDesc_t gex_AM_PrepareRequestLong(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                           size_t least_payload, size_t most_payload,
                                           void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags,
                                           unsigned int numargs)
{
    return prepare_request(AMPHORA_NP_REQUEST_LONG, tm, rank, client_buf, least_payload,
                           most_payload, dest_addr, lc_opt, flags, numargs);
}

gex_AM_SrcDesc_t gex_AM_PrepareReplyLong(gex_Token_t token, const void *client_buf,
                                         size_t least_payload, size_t most_payload, void *dest_addr,
                                         gex_Event_t *lc_opt, gex_Flags_t flags,
                                         unsigned int numargs)
{
    return prepare_reply(AMPHORA_NP_REPLY_LONG, token, client_buf, least_payload, most_payload,
                         dest_addr, lc_opt, flags, numargs);
}

/* ---- commit and cancel ---- */

/* Returns the calling thread's prepared message of descriptor sd. */
static struct amph_srcdesc *prepared(gex_AM_SrcDesc_t sd, int what, const char *call)
{
    struct amph_gex_thread *t = amph_gex_thread();
    struct amph_srcdesc *own = t->srcdesc[lane_of(what)];

    if (AMPH_UNLIKELY(!sd || !own || sd != &own->pub || !own->prepared || own->what != what))
        amph_fatal("%s%s: the descriptor is not one that this thread's last gex_AM_Prepare%s%s "
                   "gave, or it has been used up",
                   call, is_long(what) ? "Long" : "Medium", is_reply(what) ? "Reply" : "Request",
                   is_long(what) ? "Long" : "Medium");

    return own;
}

static enum amph_status send_buffer(struct amph_gex *g, struct amph_srcdesc *sd,
                                    const struct amph_am *am, gex_Flags_t flags)
{
    struct amph_np_buffer *b = sd->buffer;
    struct amph_op *lc = sd->storage == BUFFER ? &b->op : NULL;

    sd->buffer = NULL;

    enum amph_status st;

    if (is_reply(sd->what))
        st = amph_am_reply(sd->token, am, flags, lc);
    else
        st = amph_am_request(g->ep.am, sd->peer, am, flags, lc);

    if (st == AMPH_AGAIN)
        sd->buffer = b;

    return st;
}

int amphora_am_commit(gex_AM_SrcDesc_t pub, int what, gex_AM_Index_t handler, size_t nbytes,
                      void *dest, gex_Flags_t flags, unsigned nargs, const gex_AM_Arg_t *args)
{
    struct amph_gex *g = amph_gex();
    const char *call = commit_name[is_reply(what)];
    struct amph_srcdesc *sd = prepared(pub, what, call);
    const bool reply = is_reply(what);

    if (AMPH_UNLIKELY(nbytes > sd->pub.size || nargs != sd->numargs))
        amph_fatal(
            "%s%s: %zu bytes and %u arguments; prepared were at most %zu bytes and %u arguments",
            call, is_long(what) ? "Long" : "Medium", nbytes, nargs, sd->pub.size, sd->numargs);

    const struct amph_am am = {
        .kind = is_long(what) ? AMPH_AM_LONG : AMPH_AM_MEDIUM,
        .handler = handler,
        .nargs = (uint8_t)nargs,
        .nbytes = (uint32_t)nbytes,
        .args = args,
        .payload = sd->pub.addr,
        .flags = sd->route,
        .dest = is_long(what) ? amph_gex_message_dest(g, sd->peer, sd->route, dest, sd->flags) : 0
    };
    enum amph_status st;
    int result;

    if (AMPH_CHECKS && sd->dest && dest != sd->dest)
        amph_fatal("%sLong: the destination is %p, but %p was given to the prepare call", call,
                   dest, sd->dest);

    amph_check_zero(flags & ~GEX_FLAG_IMMEDIATE, call);
    set_prepared(sd, false); /* first, because handlers that run in this call may prepare */
    flags &= GEX_FLAG_IMMEDIATE;

    if (sd->storage == CLIENT) {
        result = reply ? amph_gex_message_reply(sd->token, &am, sd->lc_opt, flags)
                       : amph_gex_message_request(sd->peer, &am, sd->lc_opt, flags);
    } else {
        if (sd->storage != RING)
            st = send_buffer(g, sd, &am, flags);
        else if (reply)
            st = amph_am_commit_reply(sd->token, &sd->ring, &am, flags);
        else
            st = amph_am_commit_request(g->ep.am, &sd->ring, &am, flags);

        result = AMPH_LIKELY(st == AMPH_OK) ? 0 : amph_gex_message_answer(st, sd->peer, &am, call);
    }

    if (AMPH_UNLIKELY(result))
        set_prepared(sd, true);

    amph_gex_handle_own();
    return result;
}

static int cancel(gex_AM_SrcDesc_t pub, int what, gex_Flags_t flags)
{
    struct amph_srcdesc *sd = prepared(
        pub, what, is_reply(what) ? "gex_AM_CancelReply" : "gex_AM_CancelRequest");

    if (flags)
        amph_fatal("gex_AM_Cancel: flags must be 0, not %#x", (unsigned)flags);

    if (sd->storage == RING)
        amph_am_cancel(amph_gex()->ep.am, &sd->ring);
    else if (sd->storage == BUFFER)
        buffer_done(&sd->buffer->op, AMPH_OK);

    sd->buffer = NULL;
    set_prepared(sd, false);
    return GASNET_OK;
}

int gex_AM_CancelRequestMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags)
{
    return cancel(sd, AMPHORA_NP_REQUEST_MEDIUM, flags);
}

int gex_AM_CancelReplyMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags)
{
    return cancel(sd, AMPHORA_NP_REPLY_MEDIUM, flags);
}

int gex_AM_CancelRequestLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags)
{
    return cancel(sd, AMPHORA_NP_REQUEST_LONG, flags);
}

int gex_AM_CancelReplyLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags)
{
    return cancel(sd, AMPHORA_NP_REPLY_LONG, flags);
}

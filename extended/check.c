/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the client's use of the API, and its handler-safe locks.  Layer: extended.  Thread
 * rule: any thread. */
#include "conduits/conduit.h"
#include "extended/check.h"

#include "am/check.h"
#include "amphora/lock.h"
#include "base/log.h"

/* ---- where a call comes from ---- */

static void refuse_locks(const char *call)
{
    const struct amph_context *c = amph_am_context_self();

    if (c->nheld)
        amph_fatal("%s was called by a thread that holds a handler-safe lock (%p); unlock it first",
                   call, c->held[c->nheld - 1]);
}

void amph_gex_checked_call(const char *call)
{
    const struct amph_context *c = amph_am_context_self();

    amph_gex_need(call);
    if (c->token)
        amph_fatal("%s was called from a handler (%u, %s); a handler may only reply, and only to a "
                   "request",
                   call, c->token->am->handler,
                   c->token->entry->name ? c->token->entry->name : "without name");

    refuse_locks(call);
    if (c->prepared)
        amph_fatal(
            "%s was called between %s and its commit; commit or cancel the prepared message first",
            call, c->prepared);
}

void amph_gex_checked_token(const struct amph_token *token, const char *call)
{
    amph_gex_need(call);
    if (!token || token != amph_am_context_self()->token)
        amph_fatal("%s: the token is not that of the handler which runs in this thread; a token "
                   "ends with its handler",
                   call);
}

void amph_gex_checked_reply(const struct amph_token *token, const char *call)
{
    amph_gex_checked_token(token, call);
    refuse_locks(call);

    if (!token->is_request)
        amph_fatal("%s was called by the handler of a reply (%u); only requests are replied to",
                   call, token->am->handler);

    if (token->replied)
        amph_fatal("%s: handler %u has replied already; a request is replied to once", call,
                   token->am->handler);

    if (amph_am_context_self()->prepared)
        amph_fatal(
            "%s was called between %s and its commit; commit or cancel the prepared message first",
            call, amph_am_context_self()->prepared);
}

void amph_gex_checked_zero(gex_Flags_t flags, const char *call)
{
    if (flags)
        amph_fatal("%s: flags are %#x; they are reserved and must be 0", call, (unsigned)flags);
}

/* ---- what flags state ---- */

static void at_most_one(gex_Flags_t flags, gex_Flags_t of, const char *names, const char *call)
{
    if (flags & of & ((flags & of) - 1))
        amph_fatal("%s: flags %#x hold several of %s, which exclude each other", call,
                   (unsigned)flags, names);
}

/* Memory of this process that must lie in one of its segments. */
static void check_own(const struct amph_gex *g, const void *own, size_t nbytes, gex_Flags_t flags,
                      const char *call)
{
    if (!(flags & (GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_SELF_SEG_BOUND | GEX_FLAG_SELF_SEG_OFFSET)))
        return;

    for (unsigned i = 0; i < GASNET_MAXEPS; i++) {
        const struct amphora_segment *seg = g->eps[i] ? g->eps[i]->segment : NULL;
        uint64_t offset = (uintptr_t)own;

        if (seg && !(flags & GEX_FLAG_SELF_SEG_OFFSET))
            offset -= (uintptr_t)seg->base;

        if (seg && nbytes <= seg->len_bytes && offset <= seg->len_bytes - nbytes)
            return;
    }

    amph_fatal("%s: %zu bytes at %p are said to lie in this process's segment (flags %#x), which "
               "has %zu bytes at %p",
               call, nbytes, own, (unsigned)flags, g->segment.len_bytes, g->segment.base);
}

void amph_gex_checked_transfer(uint32_t peer, const void *own, size_t nbytes, gex_Flags_t flags,
                               const char *call)
{
    const struct amph_gex *g = amph_gex();

    at_most_one(flags, GEX_FLAG_LC_COPY_YES | GEX_FLAG_LC_COPY_NO, "GEX_FLAG_LC_COPY_YES and _NO",
                call);
    at_most_one(flags,
                GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_SELF_SEG_BOUND |
                    GEX_FLAG_SELF_SEG_OFFSET,
                "GEX_FLAG_SELF_SEG_UNKNOWN, _SOME, _BOUND and _OFFSET", call);
    at_most_one(flags,
                GEX_FLAG_PEER_SEG_UNKNOWN | GEX_FLAG_PEER_SEG_SOME | GEX_FLAG_PEER_SEG_BOUND |
                    GEX_FLAG_PEER_SEG_OFFSET,
                "GEX_FLAG_PEER_SEG_UNKNOWN, _SOME, _BOUND and _OFFSET", call);

    if (flags & (GEX_FLAG_PEER_NEVER_SELF | GEX_FLAG_PEER_NEVER_NBRHD) && peer == amph_job.rank)
        amph_fatal("%s: the flags (%#x) say that the target is another process, but it is process "
                   "%u itself",
                   call, (unsigned)flags, peer);

    if (flags & GEX_FLAG_PEER_NEVER_NBRHD && g->leader[peer] == g->leader[amph_job.rank])
        amph_fatal("%s: GEX_FLAG_PEER_NEVER_NBRHD says that process %u is no neighbour of process "
                   "%u, but it is",
                   call, peer, amph_job.rank);

    if (nbytes)
        check_own(g, own, nbytes, flags, call);

    if (nbytes && !own && !(flags & GEX_FLAG_SELF_SEG_OFFSET))
        amph_fatal("%s: the memory of %zu bytes in this process is NULL", call, nbytes);
}

/* ---- handler-safe locks of clients compiled with GASNET_DEBUG ---- */

static unsigned find(const struct amph_context *c, const void *hsl)
{
    unsigned i = c->nheld;

    while (i > 0 && c->held[i - 1] != hsl)
        i--;

    return i;
}

void amphora_hsl_note(const void *hsl, int what)
{
    static const char *const name[] = { "gex_HSL_Lock", "gex_HSL_Lock", "gex_HSL_Trylock",
                                        "gex_HSL_Unlock", "gex_HSL_Destroy" };
    struct amph_context *c = amph_am_context_self();
    unsigned at = find(c, hsl);

    if (what != AMPHORA_HSL_UNLOCK && at)
        amph_fatal("%s: this thread holds the lock (%p) already%s", name[what], hsl,
                   what == AMPHORA_HSL_DESTROY ? "; unlock it first"
                                               : " and would wait for itself");

    if (what == AMPHORA_HSL_UNLOCK && !at)
        amph_fatal("%s: this thread does not hold the lock (%p)", name[what], hsl);

    if (what == AMPHORA_HSL_UNLOCK) {
        for (c->nheld--; at <= c->nheld; at++)
            c->held[at - 1] = c->held[at];
    } else if (what == AMPHORA_HSL_LOCKED || what == AMPHORA_HSL_TRIED) {
        if (c->nheld == AMPH_HSL_MAX)
            amph_fatal("%s: this thread holds %u handler-safe locks; more cannot be watched",
                       name[what], c->nheld);

        c->held[c->nheld++] = hsl;
    }
}

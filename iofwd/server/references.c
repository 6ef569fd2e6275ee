/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * References keep an open file alive while requests use it, even if all clients close it meanwhile.
 *
 * The parser lists the files that a request names (rq->named).  A request that is executed takes
 * one reference on each of them at once, and returns them at once when it has been answered or
 * dropped; rq->progress.has_refs is true in between.  The progress thread pins a file while it
 * works on its queue.  No other code changes the count.
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#include <inttypes.h>

#include "base/log.h"
#include "iofwd/server/flow.h"

void amph_server_refs_take(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    if (AMPH_SELF_CHECKS && rq->progress.has_refs)
        amph_fatal("iofwd server: a request takes its references twice");

    for (unsigned i = 0; i < rq->nnamed; i++)
        rq->named[i]->progress.inflight++;

    rq->peer->nrefs += rq->nnamed;
    rq->progress.has_refs = true;
}

void amph_server_refs_give(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    if (!rq->progress.has_refs)
        return;

    rq->progress.has_refs = false;
    rq->peer->nrefs -= rq->nnamed;

    for (unsigned i = 0; i < rq->nnamed; i++) {
        rq->named[i]->progress.inflight--;
        amph_server_handle_release(rq->server, rq->named[i]);
    }
}

void amph_server_handle_pin(struct amph_server *s, struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    h->progress.inflight++;
    s->progress.npins++;
}

void amph_server_handle_unpin(struct amph_server *s, struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    s->progress.npins--;
    h->progress.inflight--;
    amph_server_handle_release(s, h);
}

/* ---- self-checks ---- */

void amph_server_wrong_thread(const char *function)
{
    amph_fatal("iofwd server: %s was called by a thread that does not own its data", function);
}

void amph_server_refs_check(const struct amph_server *s)
{
    uint64_t refs = s->progress.npins;
    uint64_t held = 0;
    uint64_t inflight = 0;
    uint64_t holders = 0;
    uint32_t files = 0;

    if (!AMPH_SELF_CHECKS || !s->progress.peer)
        return;

    for (uint32_t i = 0; i < s->max_peers; i++) {
        if (!s->progress.peer[i])
            continue;

        refs += s->progress.peer[i]->nrefs;
        held += s->progress.peer[i]->nheld;
    }

    for (uint32_t i = 0; i < s->progress.nslots; i++) {
        if (!s->progress.handle[i])
            continue;

        inflight += s->progress.handle[i]->progress.inflight;
        holders += s->progress.handle[i]->progress.nholders;
        files++;
    }

    if (refs != inflight || held != holders || files != s->progress.nhandles)
        amph_fatal("iofwd server: %" PRIu64 " references and %" PRIu64
                   " holds of clients, but files count %" PRIu64 " and %" PRIu64 "; %" PRIu32
                   " files are open, %" PRIu32 " are counted",
                   refs, held, inflight, holders, files, s->progress.nhandles);
}

void amph_server_refs_check_ended(const struct amph_server_peer *p)
{
    if (AMPH_SELF_CHECKS && (p->nrefs || p->nheld || p->memory || p->queued))
        amph_fatal("iofwd server: client %" PRIu32 " has ended with %" PRIu32
                   " references, %" PRIu32 " open files, %zu bytes and %" PRIu32 " requests",
                   p->number, p->nrefs, p->nheld, p->memory, p->queued);
}

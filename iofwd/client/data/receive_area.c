/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts the data of large writes into memory of a server on another host, before their requests.
 *
 * Layer: iofwd.  Thread rule: see client/data/receive_area.h.
 */
#include <errno.h>
#include <stdatomic.h>

#include "am/am.h"
#include "base/platform.h"
#include "base/status.h"
#include "base/wire.h"
#include "iofwd/client/internal.h"

#define ASK_FROM_CALL 4u /* programs with fewer large writes do not pay for the answer */

static uint32_t peer_of(const struct amph_fwd_client *cl, const struct amph_client_link *link)
{
    return link->server - cl->first;
}

/* Returns how many slots of the client's size a receive area may have. */
static uint32_t slots_wanted(const struct amph_fwd_client *cl)
{
    size_t n = FWD_RECEIVE_MAX_BYTES / cl->piece;

    n = n < AMPH_CLIENT_RECEIVE_SLOTS ? n : AMPH_CLIENT_RECEIVE_SLOTS;
    return n < cl->nslots ? (uint32_t)n : cl->nslots;
}

/* Asks the server for the area.  false: there will be none. */
static bool ask(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    struct amph_client_receive_area *area = &link->receive_area;
    uint8_t body[sizeof(uint64_t)];
    uint8_t key[sizeof cl->area_mem.key];
    struct amph_wr w;
    size_t key_len;

    /* Under failover the call goes on with another server, and may end, while this one is still sent what was
     * begun: that must be the data of the call. */
    area->in_place = !cl->failover && amph_am_puts_in_place(cl->ep, peer_of(cl, link));
    area->nslots = slots_wanted(cl);
    if (area->nslots == 0 || !amph_am_put_arrives_first(cl->ep, peer_of(cl, link)))
        return false;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u64(&w, (uint64_t)area->nslots * cl->piece);

    return amph_client_special(cl, link, FWD_SERVICE_RECEIVE_AREA, body, sizeof body, key,
                               sizeof key, &key_len) == 0 &&
           amph_am_mem_import(cl->ep, peer_of(cl, link), key, key_len, &area->memory) == AMPH_OK &&
           area->memory.len_bytes >= (uint64_t)area->nslots * cl->piece;
}

unsigned amph_client_receive_area_slots(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    struct amph_client_receive_area *area = &link->receive_area;
    uint32_t state = atomic_load_explicit(&area->state, memory_order_acquire);

    if (state == AMPH_CLIENT_RECEIVE_READY)
        return area->nslots;

    if (state != AMPH_CLIENT_RECEIVE_NONE || link->near ||
        atomic_fetch_add_explicit(&area->calls, 1, memory_order_relaxed) + 1 < ASK_FROM_CALL ||
        !atomic_compare_exchange_strong(&area->state, &state, AMPH_CLIENT_RECEIVE_ASKED))
        return 0;

    bool ready = ask(cl, link);

    atomic_store_explicit(&area->state,
                          ready ? AMPH_CLIENT_RECEIVE_READY : AMPH_CLIENT_RECEIVE_REFUSED,
                          memory_order_release);
    return ready ? area->nslots : 0;
}

static void put_done(struct amph_op *op, enum amph_status st)
{
    struct amph_client_receive_put *put = AMPH_CONTAINER_OF(op, struct amph_client_receive_put, op);

    /* a failed put is a broken connection, by which the call fails, too */
    atomic_store_explicit(&put->in_flight, false, memory_order_release);
}

int amph_client_receive_area_put(struct amph_fwd_client *cl, struct amph_client_link *link,
                                 unsigned slot, const void *data, size_t len_bytes)
{
    struct amph_client_receive_put *put = &link->receive_area.put[slot];
    uint64_t at = (uint64_t)slot * cl->piece;

    if (atomic_load_explicit(&link->state, memory_order_acquire) != AMPH_CLIENT_LINK_READY)
        return EIO;

    put->op.done = put_done;
    atomic_store_explicit(&put->in_flight, true, memory_order_relaxed);

    enum amph_status st = amph_am_put(cl->ep, peer_of(cl, link), &link->receive_area.memory, at,
                                      data, len_bytes, 0, &put->op, NULL);

    if (st == AMPH_OK)
        return 0;

    atomic_store_explicit(&put->in_flight, false, memory_order_relaxed);
    amph_client_link_dead(cl, link, amph_status_text(st));
    return EIO;
}

void amph_client_receive_area_wait(struct amph_fwd_client *cl, struct amph_client_link *link,
                                   unsigned slot)
{
    struct amph_client_wait wait =
        AMPH_CLIENT_WAIT_INIT; /* it also looks whether the server is dead */

    if (slot >= link->receive_area.nslots)
        return;

    while (atomic_load_explicit(&link->receive_area.put[slot].in_flight, memory_order_acquire) &&
           atomic_load_explicit(&link->state, memory_order_acquire) == AMPH_CLIENT_LINK_READY)
        (void)amph_client_wait_step(cl, &wait);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: opening and closing, the handler table, and how much a message may carry.
 * Layer: am.  Thread rule: open and close by one thread; see am.h for the rest.
 */
#include "am/ep.h"
#include "base/status.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "am/address.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "conduits/emulate.h"

static enum amph_status open_conduit(struct amph_am_ep *ep, int which,
                                     const struct amph_conduit_ops *ops)
{
    const char *interface = amph_env_str(AMPH_ENV_INTERFACE);
    const struct amph_cx_config cx_cfg = {
        .name = ep->cfg.name,
        .max_peers = ep->max_peers,
        .threaded = ep->threaded,
        .loopback_only = ep->cfg.loopback_only,
        .bursts = ep->cfg.bursts,
        .incoming = ep->cfg.incoming,
        .interface = interface[0] || !ep->cfg.interface ? interface : ep->cfg.interface,
        .upcalls = &amph_am_upcalls,
        .up = ep,
    };

    if (ep->cfg.anywhere)
        return amph_conduit_emulate_open(ops, &cx_cfg, &ep->cx[which]);

    return amph_conduit_open(ops, &cx_cfg, &ep->cx[which]);
}

static void close_conduits(struct amph_am_ep *ep)
{
    for (int i = AMPH_NCX - 1; i >= 0; i--)
        if (ep->cx[i])
            ep->cx[i]->ops->close(ep->cx[i]);
}

/* Opens smp even with AMPHORA_SMP=0, because messages to the process itself use it. */
static enum amph_status open_conduits(struct amph_am_ep *ep)
{
    enum amph_status st = open_conduit(ep, AMPH_CX_SMP, &amph_smp_ops);

    if (st == AMPH_OK && ep->cfg.net)
        st = open_conduit(ep, AMPH_CX_NET, ep->cfg.net);

    const struct amph_cx *net = ep->cx[AMPH_CX_NET];

    if (st == AMPH_OK && net && !net->caps.mixed_width)
        st = amph_conduit_emulate_beside(ep->cx[AMPH_CX_NET], ep->threaded ? &ep->send_lock : NULL,
                                         &ep->cx[AMPH_CX_EMULATED]);

    if (st == AMPH_OK && net && !net->caps.self_flow)
        st = amph_ep_lost_open(ep);

    if (st == AMPH_OK)
        st = amph_am_address_make(ep);

    if (st != AMPH_OK)
        close_conduits(ep);

    return st;
}

enum amph_status amph_am_open(const struct amph_am_config *cfg, struct amph_am_ep **ep_p)
{
    enum amph_status st = AMPH_ERR_NOMEM;
    struct amph_am_ep *ep = calloc(1, sizeof *ep);

    if (!ep)
        return AMPH_ERR_NOMEM;

    ep->cfg = *cfg;
    ep->max_peers = cfg->max_peers;
    ep->threaded = cfg->threaded;
    ep->deferred_end = &ep->deferred;
    ep->self = UINT32_MAX;
    ep->own_messages = &ep->own_counter;
    amph_ep_wait_setup();
    pthread_mutex_init(&ep->send_lock, NULL);
    ep->peer = calloc(cfg->max_peers, sizeof *ep->peer);
    if (!ep->peer)
        goto free_ep;

    ep->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (ep->kick_fd < 0) {
        st = AMPH_ERR_SYS;
        amph_error(
            "%s: no descriptor for waking sleepers: %m; raise the limit of open files (ulimit -n)",
            cfg->name);
        goto free_peers;
    }

    st = open_conduits(ep);
    if (st != AMPH_OK)
        goto close_kick;

    *ep_p = ep;
    return AMPH_OK;

close_kick:
    close(ep->kick_fd);
free_peers:
    amph_ep_lost_close(ep);
    free(ep->peer);
free_ep:
    pthread_mutex_destroy(&ep->send_lock);
    free(ep);
    return st;
}

void amph_am_close(struct amph_am_ep *ep)
{
    if (!ep)
        return;

    close_conduits(ep);
    amph_ep_drop_deferred(ep);
    amph_am_carry_close(ep);
    amph_ep_lost_close(ep);
    for (unsigned i = 1; i < AMPH_AM_CONTEXTS; i++)
        free(ep->context[i]);

    close(ep->kick_fd);
    pthread_mutex_destroy(&ep->send_lock);
    free(ep->peer);
    free(ep);
}

const char *amph_am_network(struct amph_am_ep *ep)
{
    return ep->cfg.net ? ep->cfg.net->name : amph_smp_ops.name;
}

void *amph_am_user(struct amph_am_ep *ep)
{
    return ep->cfg.user;
}

void amph_am_set_tick(struct amph_am_ep *ep, void (*tick)(struct amph_am_ep *ep))
{
    ep->tick = tick;
}

void amph_am_set_refused(struct amph_am_ep *ep,
                         void (*refused)(struct amph_am_ep *ep, uint32_t peer,
                                         const struct amph_am *am, const char *why))
{
    ep->refused = refused;
}

void amph_am_count_own(struct amph_am_ep *ep, uint32_t *counter)
{
    *counter = *ep->own_messages;
    ep->own_messages = counter;
}

static uint16_t accepted(const struct amph_am_entry *entry)
{
    /* Kinds by their bit in amph_am_entry.kinds; a packed long is a long. */
    static const unsigned kinds[] = { 1u << AMPH_AM_SHORT, 1u << AMPH_AM_MEDIUM,
                                      1u << AMPH_AM_LONG | 1u << AMPH_AM_LONG_PACKED };
    unsigned mask = 0;

    for (unsigned k = 0; k < AMPH_COUNTOF(kinds); k++)
        if (entry->kinds & 1u << k)
            mask |= kinds[k];

    return (uint16_t)((entry->dirs & 1 ? mask : 0) | (entry->dirs & 2 ? mask << 8 : 0));
}

static enum amph_status enter(struct amph_hot *hot, struct amph_am_entry *slot,
                              const struct amph_am_entry *entry)
{
    if (!entry->fn || entry->nargs < -1 || entry->nargs > AMPH_AM_MAX_ARGS || !(entry->kinds & 7) ||
        !(entry->dirs & 3))
        return AMPH_ERR_ARG;
    if (hot->fn)
        return AMPH_ERR_STATE;

    *slot = *entry;
    hot->client_form = entry->client_form;
    hot->counts = entry->nargs < 0 ? (1u << (AMPH_AM_MAX_ARGS + 1)) - 1 : 1u << entry->nargs;
    hot->accept = accepted(entry);
    __atomic_store_n(&hot->fn, entry->fn, __ATOMIC_RELEASE);

    return AMPH_OK;
}

enum amph_status amph_am_register(struct amph_am_ep *ep, unsigned index,
                                  const struct amph_am_entry *entry)
{
    if (index == 0 || index >= AMPH_COUNTOF(ep->entry))
        return AMPH_ERR_RANGE;

    return enter(&ep->hot[index], &ep->entry[index], entry);
}

const struct amph_am_entry *amph_am_handler(struct amph_am_ep *ep, unsigned index)
{
    return index < AMPH_COUNTOF(ep->entry) && ep->hot[index].fn ? &ep->entry[index] : NULL;
}

static uint32_t max_long_of(const struct amph_cx *cx)
{
    return cx->caps.maps_memory || cx->caps.put_then_am ? AMPH_AM_LONG_BYTES : cx->caps.max_medium;
}

/* Returns the minimum of a limit over all conduits by which peers may be reached or, for a valid
 * peer, the limit of its conduit. */
static uint32_t min(struct amph_am_ep *ep, uint32_t peer, uint32_t (*fact)(const struct amph_cx *))
{
    if (peer < ep->max_peers)
        return ep->peer[peer].cx ? fact(ep->peer[peer].cx) : 0;

    uint32_t min = UINT32_MAX;

    for (int i = 0; i < AMPH_NCX; i++)
        if (ep->cx[i] && (i != AMPH_CX_EMULATED || amph_ep_emulates(ep)) && fact(ep->cx[i]) < min)
            min = fact(ep->cx[i]);

    return min;
}

static uint32_t max_medium_of(const struct amph_cx *cx)
{
    return cx->caps.max_medium;
}

uint32_t amph_am_max_medium(struct amph_am_ep *ep, uint32_t peer)
{
    return min(ep, peer, max_medium_of);
}

uint32_t amph_am_max_long(struct amph_am_ep *ep, uint32_t peer)
{
    return min(ep, peer, max_long_of);
}

void amph_am_set_segment(struct amph_am_ep *ep, void *base, size_t len_bytes)
{
    ep->segment_base = base;
    ep->segment_bytes = len_bytes;
}

/* ---- contexts ---- */

enum amph_status amph_am_context_open(struct amph_am_ep *ep, unsigned n)
{
    if (n == 0 || n >= AMPH_AM_CONTEXTS)
        return AMPH_ERR_RANGE;
    if (ep->context[n])
        return AMPH_ERR_STATE;

    struct amph_am_context *c = calloc(1, sizeof *c);
    if (!c)
        return AMPH_ERR_NOMEM;

    __atomic_store_n(&ep->context[n], c, __ATOMIC_RELEASE);
    return AMPH_OK;
}

enum amph_status amph_am_context_register(struct amph_am_ep *ep, unsigned n, unsigned index,
                                          const struct amph_am_entry *entry)
{
    if (n == 0)
        return amph_am_register(ep, index, entry);
    if (n >= AMPH_AM_CONTEXTS || !ep->context[n] || index == 0 || index >= AMPH_COUNTOF(ep->entry))
        return AMPH_ERR_RANGE;

    return enter(&ep->context[n]->hot[index], &ep->context[n]->entry[index], entry);
}

void amph_am_context_segment(struct amph_am_ep *ep, unsigned n, void *base, size_t len_bytes)
{
    if (n == 0) {
        amph_am_set_segment(ep, base, len_bytes);
    } else if (n < AMPH_AM_CONTEXTS && ep->context[n]) {
        ep->context[n]->segment_base = base;
        ep->context[n]->segment_bytes = len_bytes;
    }
}

void amph_am_context_lookup(struct amph_am_ep *ep,
                            const struct amph_rmem *(*segment_of)(struct amph_am_ep *ep,
                                                                  uint32_t peer, unsigned context))
{
    ep->segment_of = segment_of;
}

const struct amph_rmem *amph_ep_segment_of(struct amph_am_ep *ep, uint32_t peer, unsigned to)
{
    const struct amph_peer *p = &ep->peer[peer];
    if (AMPH_LIKELY(to == 0))
        return p->has_segment ? &p->segment : NULL;

    return ep->segment_of ? ep->segment_of(ep, peer, to) : NULL;
}

void amph_am_set_peer_segment(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem)
{
    if (peer >= ep->max_peers)
        return;

    amph_ep_lock(ep);
    ep->peer[peer].segment = *rmem;
    ep->peer[peer].has_segment = true;
    amph_ep_unlock(ep);
}

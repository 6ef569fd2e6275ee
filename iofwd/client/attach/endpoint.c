/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's endpoint: its network, its address, and what it does in waits and when a peer is lost.
 *
 * Layer: iofwd (client).  Thread rule: under the lock of amph_client_state.
 */
#include <netinet/in.h>
#include <string.h>

#include "am/am.h"
#include "base/settings/env.h"
#include "conduits/inet.h"
#include "iofwd/client/client.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/handshake.h"

static void on_peer_error(struct amph_am_ep *ep, uint32_t peer, enum amph_status st,
                          const char *why)
{
    struct amph_fwd_client *cl = amph_am_user(ep);
    if (peer < cl->nlinks)
        amph_client_link_dead(cl, &cl->link[peer], why);
}

/* Runs in every wait on the endpoint: for a reply, a record, a slot, room to send. */
static void on_tick(struct amph_am_ep *ep)
{
    amph_client_check(amph_am_user(ep));
}

/* By which address do standing servers on other hosts reach this process?  Finds the source address of
 * the route to the first one, since this host's other networks may not lead there.  In a job the launcher
 * names the address. */
static bool find_source(struct amph_fwd_client *cl, char *text)
{
    struct amph_fwd_server_addr addr;

    if (!cl->job->several_machines || !cl->job->conduit[0])
        return false;

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        uint32_t server = cl->first + i;

        if (amph_client_host_of(cl, server) != amph_client_host_of(cl, cl->rank) &&
            amph_client_server_address(cl, server, &addr) && addr.tcp.ss_family != AF_UNSPEC)
            return amph_conduit_inet_source(&addr.tcp, text);
    }

    return false;
}

enum amph_status amph_client_open_endpoint(struct amph_fwd_client *cl)
{
    char source[INET6_ADDRSTRLEN];
    struct amph_am_config cfg = { .name = "iofwd",
                                  .domain = 2,
                                  .max_peers = cl->nlinks,
                                  .threaded = true,
                                  .use_smp = amph_env_bool(AMPH_ENV_SMP),
                                  .loopback_only = !cl->job->several_machines,
                                  .on_peer_error = on_peer_error,
                                  .user = cl };

    cfg.host_id = amph_am_host_id(
        cl->job->nhosts ? cl->job->host_name[amph_client_host_of(cl, cl->rank)] : NULL);
    memcpy(cfg.key, cl->job->key, AMPH_KEY_BYTES);
    if (find_source(cl, source))
        cfg.interface = source;

    enum amph_status st = AMPH_OK;

    amph_fwd_note_oversubscribed(cl->job, amph_client_host_of(cl, cl->rank));
    if (amph_fwd_needs_network(cl->job))
        st = amph_fwd_choose_network(cl->job, &cfg.net);

    if (st == AMPH_OK)
        st = amph_am_open(&cfg, &cl->ep);

    if (st != AMPH_OK)
        return st;

    amph_am_set_tick(cl->ep, on_tick);

    struct amph_am_entry reply = {
        .fn = (void *)amph_client_on_reply, .kinds = 2, .dirs = 3, .nargs = 0, .name = "iofwd reply"
    };

    return amph_am_register(cl->ep, FWD_AM_REPLY, &reply);
}

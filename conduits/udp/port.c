/* SPDX-License-Identifier: BSD-3-Clause */
/* Which datagram port the udp conduit uses.  Layer: conduits (udp).  Thread rule: any thread. */
#include <stdio.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "conduits/port.h"
#include "conduits/udp/udp.h"

enum amph_status amph_udp_choose_port(const struct amph_port_ops **ops_p, char *why, size_t why_len)
{
    static const unsigned word_ofi = 2; /* of AMPHORA_UDP_PORT's row */
    char text[384] = "";
    const struct amph_port_ops *ops = &amph_conduit_port_socket_ops;
    unsigned word = amph_env_enum(AMPH_ENV_UDP_PORT);

    if (word == word_ofi)
        ops = amph_conduit_module_symbol(AMPH_PORT_OFI_ENTRY);

    if (!ops) {
        snprintf(why, why_len,
                 "AMPHORA_UDP_PORT=ofi asks for libfabric, and its module cannot be loaded");
        return AMPH_ERR_NOSYS;
    }

    enum amph_status st = ops->probe(text, sizeof text);

    snprintf(why, why_len, "port %s (%s): %s", ops->name, word ? "AMPHORA_UDP_PORT" : "the default",
             text);
    *ops_p = ops;
    return st;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of endpoints: the portable bytes by which peers reach an endpoint.  Layer: am;
 * internal.  Thread rule: as amph_am_add_peer.
 */
#ifndef AMPH_AM_ADDRESS_H
#define AMPH_AM_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "am/ep.h"
#include "base/status.h"

/* A parsed address; its pointers point into the bytes. */
struct amph_address {
    bool smp_allowed;
    bool narrow; /* its pointers have 32 bits */
    /* kind of machine, boot and process name space: where smp can work at all */
    uint64_t machine;
    uint64_t host; /* amph_am_host_id */
    const void *smp, *net;
    size_t smp_len, net_len;
    const void *net_name;
    size_t net_name_len;
    uint32_t protocol; /* below the network: as in struct amph_cx */
    const void *provider;
    size_t provider_len;
};

/* Writes the endpoint's address to ep->addr. */
enum amph_status amph_am_address_make(struct amph_am_ep *ep);

/* Parses an address from a peer.  AMPH_ERR_PROTO: it is malformed. */
enum amph_status amph_am_address_parse(const void *bytes, size_t len_bytes,
                                       struct amph_address *addr_p);

#endif

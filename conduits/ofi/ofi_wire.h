/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The message format of the libfabric conduits.
 * Layer: conduits (ofi).  Thread rule: pure functions.
 *
 * Message:  header (32 bytes) | nargs words, padded to 8 | payload, padded to 8
 * Address:  version | family (4, 6) | port, network order | IP address, network order (4 or 16 bytes)
 * Key:      version | flags | 6 zero bytes | base | length | remote key | remote base
 *
 * All words are little-endian (base/wire.h).  The length of each message is a multiple of 8, so that
 * messages that share a receive buffer stay aligned.  MEDIUM, LONG_PACKED and INTERNAL carry a
 * payload; the data of a LONG is already at dest.
 */
#ifndef AMPH_CONDUITS_OFI_OFI_WIRE_H
#define AMPH_CONDUITS_OFI_OFI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire.h"
#include "conduits/conduit.h"

#define OFI_WIRE_VERSION \
    4 /* part of an instance's `protocol`; rises with the messages of extended/, too */

/* Codes of pack.c in messages of the kind INTERNAL; those of am/ are smaller, those of emulate.c larger. */
#define OFI_INTERNAL_FIRST 224

struct amph_ofi_hdr {
    uint64_t cookie;
    uint64_t dest;
    uint32_t src; /* number of the sender in the receiver's table */
    uint32_t nbytes;
    uint16_t aux;
    uint8_t kind; /* enum amph_am_kind */
    uint8_t lane; /* enum amph_lane */
    uint8_t handler;
    uint8_t nargs;
    uint8_t flags;
    uint8_t version;
};

_Static_assert(sizeof(struct amph_ofi_hdr) == 32, "the header is a wire format");
_Static_assert(offsetof(struct amph_ofi_hdr, aux) == 24 &&
                   offsetof(struct amph_ofi_hdr, version) == 31,
               "no holes in a wire format");

#define OFI_MAX_MEDIUM 65536u
#define OFI_ARGS_MAX_BYTES (AMPH_AM_MAX_ARGS * 4u)
#define OFI_MSG_MAX_BYTES (sizeof(struct amph_ofi_hdr) + OFI_ARGS_MAX_BYTES + OFI_MAX_MEDIUM)

static inline size_t amph_ofi_pad8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* Bytes of header and arguments. */
static inline size_t amph_ofi_head_len(unsigned nargs)
{
    return sizeof(struct amph_ofi_hdr) + amph_ofi_pad8(4u * nargs);
}

/* Does the payload of this kind travel in the message? */
static inline bool amph_ofi_kind_packs(unsigned kind)
{
    return kind == AMPH_AM_MEDIUM || kind == AMPH_AM_LONG_PACKED || kind == AMPH_AM_INTERNAL;
}

/* Must words be swapped between this host and the wire? */
static inline bool amph_ofi_wire_swaps(void)
{
    return AMPH_BIG_ENDIAN != amph_wire_swapped;
}

/* Writes header and arguments to buf (amph_ofi_head_len bytes, aligned to 8). */
static inline void amph_ofi_put_head(void *buf, const struct amph_am *am, enum amph_lane lane,
                                     uint32_t src, uint64_t cookie)
{
    struct amph_ofi_hdr *h = buf;

    h->cookie = amph_le64(cookie);
    h->dest = amph_le64(am->dest);
    h->src = amph_le32(src);
    h->nbytes = amph_le32(am->nbytes);
    h->aux = amph_le16(am->aux);
    h->kind = am->kind;
    h->lane = (uint8_t)lane;
    h->handler = am->handler;
    h->nargs = am->nargs;
    h->flags = am->flags;
    h->version = OFI_WIRE_VERSION;

    uint32_t *args = (uint32_t *)(h + 1);

    for (unsigned i = 0; i < am->nargs; i++)
        args[i] = amph_le32((uint32_t)am->args[i]);

    if (am->nargs & 1)
        args[am->nargs] = 0;
}

#endif

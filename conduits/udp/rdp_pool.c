/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of segments and held messages: three sizes, allocated on demand; a few free items of each
 * size are kept.
 *
 * Layer: conduits/udp.  Thread rule: rdp.h.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "conduits/udp/rdp.h"

static const struct {
    size_t bytes;
    unsigned keep;
} sizes[RDP_NPOOLS] = {
    [RDP_POOL_SMALL] = { 256, 256 },
    [RDP_POOL_MIDDLE] = { 2048, 128 },
    [RDP_POOL_LARGE] = { RDP_DATAGRAM_MAX + 96, 8 },
};

static unsigned size_for(size_t len_bytes)
{
    unsigned i = 0;

    while (i < RDP_NPOOLS && sizes[i].bytes < len_bytes)
        i++;

    return i;
}

/* Returns true if len_bytes is allocated with exactly its size.  A held datagram of an Ethernet must
 * not cost 64 KiB. */
static bool exact(unsigned i, size_t len_bytes)
{
    return i == RDP_NPOOLS || (i == RDP_POOL_LARGE && len_bytes <= sizes[i].bytes / 2);
}

void *amph_rdp_pool_get(struct amph_rdp_pool *p, size_t len_bytes)
{
    unsigned i = size_for(len_bytes);
    void *at;

    if (!exact(i, len_bytes) && p->free[i]) {
        at = p->free[i];
        p->free[i] = p->free[i]->next;
        p->nfree[i]--;
    } else {
        at = malloc(exact(i, len_bytes) ? len_bytes : sizes[i].bytes);
    }

    if (at)
        p->in_use += len_bytes;

    return at;
}

void amph_rdp_pool_put(struct amph_rdp_pool *p, void *at, size_t len_bytes)
{
    unsigned i = size_for(len_bytes);

    if (!at)
        return;

    p->in_use -= len_bytes;
    if (exact(i, len_bytes) || p->nfree[i] >= sizes[i].keep) {
        free(at);
        return;
    }

    struct amph_rdp_chunk *chunk = at;

    chunk->next = p->free[i];
    p->free[i] = chunk;
    p->nfree[i]++;
}

void amph_rdp_pool_fini(struct amph_rdp_pool *p)
{
    for (unsigned i = 0; i < RDP_NPOOLS; i++)
        while (p->free[i]) {
            struct amph_rdp_chunk *chunk = p->free[i];

            p->free[i] = chunk->next;
            free(chunk);
        }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory and its keys; see memkey.h.
 *
 * Layer: conduits.
 * Thread rule: see memkey.h.
 */
#include "conduits/memkey.h"

#include <stdlib.h>

#include "base/auth.h"
#include "base/wire.h"

struct amph_mem_region *amph_conduit_region_add(struct amph_mem_region **list, void *base,
                                                size_t len_bytes)
{
    struct amph_mem_region *r = malloc(sizeof *r);

    if (!r)
        return NULL;

    *r = (struct amph_mem_region){ .next = *list, .base = base, .len_bytes = len_bytes };
    amph_random(&r->key, sizeof r->key);
    *list = r;

    return r;
}

bool amph_conduit_region_remove(struct amph_mem_region **list, const struct amph_mem_region *region)
{
    for (struct amph_mem_region **at = list; *at; at = &(*at)->next)
        if (*at == region) {
            *at = region->next;
            return true;
        }

    return false;
}

void *amph_conduit_region_find(const struct amph_mem_region *list, uint64_t key, uint64_t offset,
                               uint64_t len_bytes)
{
    for (const struct amph_mem_region *r = list; r; r = r->next) {
        if (r->key != key)
            continue;

        bool inside = len_bytes <= r->len_bytes && offset <= r->len_bytes - len_bytes;

        /* without pointer arithmetic, because a region may begin at address 0 */
        return inside ? (void *)((uintptr_t)r->base + offset) : NULL;
    }

    return NULL;
}

void amph_conduit_regions_free(struct amph_mem_region **list)
{
    while (*list) {
        struct amph_mem_region *r = *list;

        *list = r->next;
        free(r);
    }
}

void amph_conduit_memkey_put(struct amph_mem *mem, uint32_t version, uint64_t number, void *base,
                             size_t len_bytes, void *impl)
{
    struct amph_wr w;

    amph_wr_init(&w, mem->key, sizeof mem->key);
    amph_wr_u32(&w, version);
    amph_wr_u64(&w, number);
    amph_wr_u64(&w, (uint64_t)(uintptr_t)base);
    amph_wr_u64(&w, len_bytes);
    mem->base = base;
    mem->len_bytes = len_bytes;
    mem->key_len = amph_wr_len(&w);
    mem->impl = impl;
}

enum amph_status amph_conduit_memkey_get(const void *key, size_t key_len, uint32_t version,
                                         struct amph_rmem *rmem_p)
{
    struct amph_rd r;

    amph_rd_init(&r, key, key_len);

    uint32_t got = amph_rd_u32(&r);
    struct amph_rmem m = { .rkey = amph_rd_u64(&r) };

    m.base = amph_rd_u64(&r);
    m.len_bytes = amph_rd_u64(&r);
    if (r.bad || amph_rd_left(&r) || got != version || m.base + m.len_bytes < m.base)
        return AMPH_ERR_PROTO;

    *rmem_p = m;
    return AMPH_OK;
}

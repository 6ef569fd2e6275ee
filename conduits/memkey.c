/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of memory that is named by a number; see memkey.h.  Layer: conduits. */
#include "conduits/memkey.h"

#include "base/wire.h"

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

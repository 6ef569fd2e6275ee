/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory and its keys.  Layer: conduits (ofi).  Thread rule: that of conduit.h for
 * mem_*.
 *
 * The provider's mr_mode decides what a registration needs: who chooses the key, whether transfers
 * name addresses or offsets, and whether a region is bound to the endpoint.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/ofi/ofi.h"

static void put_key(struct amph_mem *mem, uint64_t key, uint64_t rbase)
{
    struct amph_wr w;

    amph_wr_init(&w, mem->key, sizeof mem->key);
    amph_wr_u8(&w, OFI_WIRE_VERSION);
    amph_wr_u8(&w, 0);
    amph_wr_u16(&w, 0);
    amph_wr_u32(&w, 0);
    amph_wr_u64(&w, (uintptr_t)mem->base);
    amph_wr_u64(&w, mem->len_bytes);
    amph_wr_u64(&w, key);
    amph_wr_u64(&w, rbase);
    mem->key_len = amph_wr_len(&w);
}

enum amph_status amph_ofi_mem_reg(struct amph_cx *base_cx, void *base, size_t len_bytes, int fd,
                                  uint64_t fd_offset, struct amph_mem *mem)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base_cx);
    struct amph_ofi_reg *reg;

    if (!base || len_bytes == 0)
        return AMPH_ERR_ARG;

    (void)amph_ofi_pack_first(cx, UINT32_MAX);

    int ret = amph_ofi_reg_make(cx, base, len_bytes, OFI_ACCESS_ALL, &reg);

    if (ret) {
        amph_error("cannot register %zu bytes with libfabric's provider %s: %s", len_bytes,
                   cx->prov->name, fi_strerror(-ret));
        return amph_status_from_fi(ret);
    }

    mem->base = base;
    mem->len_bytes = len_bytes;
    mem->impl = reg;
    put_key(mem, fi_mr_key(reg->mr), cx->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)base : 0);
    amph_ofi_reg_list(cx, reg);

    return AMPH_OK;
}

void amph_ofi_mem_dereg(struct amph_cx *base_cx, struct amph_mem *mem)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base_cx);

    (void)amph_ofi_pack_first(cx, UINT32_MAX);
    if (mem->impl)
        amph_ofi_reg_put(cx, mem->impl);

    mem->impl = NULL;
    mem->key_len = 0;
}

enum amph_status amph_ofi_mem_import(struct amph_cx *base_cx, uint32_t peer, const void *key,
                                     size_t key_len, struct amph_rmem *rmem)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base_cx);
    struct amph_rd r;

    if (peer >= base_cx->cfg.max_peers || cx->peer[peer].state != OFI_PEER_UP)
        return AMPH_ERR_PEER;

    amph_rd_init(&r, key, key_len);

    uint8_t version = amph_rd_u8(&r);
    uint8_t flags = amph_rd_u8(&r);
    uint32_t zero = amph_rd_u16(&r);

    zero |= amph_rd_u32(&r);

    struct amph_rmem m = { .local = NULL };

    m.base = amph_rd_u64(&r);
    m.len_bytes = amph_rd_u64(&r);
    m.rkey = amph_rd_u64(&r);
    m.rbase = amph_rd_u64(&r);
    if (r.bad || amph_rd_left(&r) || version != OFI_WIRE_VERSION || flags || zero ||
        m.len_bytes == 0 || m.base + m.len_bytes < m.base || (m.rbase != 0 && m.rbase != m.base))
        return AMPH_ERR_PROTO;

    *rmem = m;
    return AMPH_OK;
}

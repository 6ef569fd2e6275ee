/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory and its keys.  Layer: conduits (ofi).  Thread rule: that of conduit.h for mem_*.
 *
 * What a registration needs is read from the provider's mr_mode, never assumed: who chooses the key, whether addresses or offsets
 * are named in transfers, whether a region is bound to the endpoint.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>

#include "base/auth.h"
#include "base/log.h"
#include "conduits/ofi/ofi.h"

#define KEY_TRIES 8

/* A random key, where the provider leaves the choice to us, so that a stranger cannot guess it. */
static uint64_t random_key(const struct fi_domain_attr *attr)
{
    uint64_t key = 0;
    if (attr->mr_mode & FI_MR_PROV_KEY)
        return 0;
    amph_random(&key, sizeof key);
    return attr->mr_key_size >= sizeof key ? key : key & ((UINT64_C(1) << (8 * attr->mr_key_size)) - 1);
}

static int enable_mr(struct ofi_cx *cx, struct fid_mr *mr)
{
    if (!(cx->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
        return 0;
    int ret = fi_mr_bind(mr, &cx->ep->fid, 0);
    return ret ? ret : fi_mr_enable(mr);
}

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

enum amph_status ofi_mem_reg(struct amph_cx *base_cx, void *base, size_t len_bytes, int fd, uint64_t fd_offset,
                             struct amph_mem *mem)
{
    struct ofi_cx *cx = ofi_of(base_cx);
    const uint64_t access = FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
    struct fid_mr *mr;
    int ret = -FI_ENOKEY;
    if (!base || len_bytes == 0)
        return AMPH_ERR_ARG;
    for (int i = 0; i < KEY_TRIES && ret == -FI_ENOKEY; i++)
        ret = fi_mr_reg(cx->domain, base, len_bytes, access, 0, random_key(cx->info->domain_attr), 0, &mr, NULL);
    if (!ret) {
        ret = enable_mr(cx, mr);
        if (ret)
            fi_close(&mr->fid);
    }
    if (ret) {
        amph_error("cannot register %zu bytes with libfabric's provider %s: %s", len_bytes, cx->prov->name, fi_strerror(-ret));
        return amph_status_from_fi(ret);
    }
    mem->base = base;
    mem->len_bytes = len_bytes;
    mem->impl = mr;
    put_key(mem, fi_mr_key(mr), cx->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)base : 0);
    return AMPH_OK;
}

void ofi_mem_dereg(struct amph_cx *base_cx, struct amph_mem *mem)
{
    if (mem->impl)
        fi_close(&((struct fid_mr *)mem->impl)->fid);
    mem->impl = NULL;
    mem->key_len = 0;
}

enum amph_status ofi_mem_import(struct amph_cx *base_cx, uint32_t peer, const void *key, size_t key_len, struct amph_rmem *rmem)
{
    struct ofi_cx *cx = ofi_of(base_cx);
    struct amph_rd r;
    if (peer >= base_cx->cfg.max_peers || cx->peer[peer].state != OFI_PEER_UP)
        return AMPH_ERR_PEER;
    amph_rd_init(&r, key, key_len);
    uint8_t version = amph_rd_u8(&r), flags = amph_rd_u8(&r);
    uint32_t zero = amph_rd_u16(&r);
    zero |= amph_rd_u32(&r);
    struct amph_rmem m = { .local = NULL };
    m.base = amph_rd_u64(&r);
    m.len_bytes = amph_rd_u64(&r);
    m.rkey = amph_rd_u64(&r);
    m.rbase = amph_rd_u64(&r);
    if (r.bad || amph_rd_left(&r) || version != OFI_WIRE_VERSION || flags || zero || m.len_bytes == 0 ||
        m.base + m.len_bytes < m.base || (m.rbase != 0 && m.rbase != m.base))
        return AMPH_ERR_PROTO;
    *rmem = m;
    return AMPH_OK;
}


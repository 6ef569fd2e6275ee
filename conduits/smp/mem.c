/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that peers of the same host map, and put and get by copying.  Layer: conduits (smp).  Thread rule: that of conduit.h.
 *
 * Key: version | pid | descriptor | offset in it | base address | length
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/wire.h"
#include "conduits/smp/smp.h"

#define KEY_VERSION 1

enum amph_status smp_mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd, uint64_t fd_offset, struct amph_mem *mem)
{
    if (fd < 0)
        return AMPH_ERR_NOSYS; /* private memory cannot be mapped by others */
    struct amph_wr w;
    mem->base = base;
    mem->len_bytes = len_bytes;
    mem->impl = NULL;
    amph_wr_init(&w, mem->key, sizeof mem->key);
    amph_wr_u32(&w, KEY_VERSION);
    amph_wr_u32(&w, (uint32_t)getpid());
    amph_wr_u32(&w, (uint32_t)fd);
    amph_wr_u64(&w, fd_offset);
    amph_wr_u64(&w, (uint64_t)(uintptr_t)base);
    amph_wr_u64(&w, len_bytes);
    mem->key_len = amph_wr_len(&w);
    return AMPH_OK;
}

void smp_mem_dereg(struct amph_cx *cx, struct amph_mem *mem)
{
    mem->key_len = 0;
}

static enum amph_status map(struct smp_cx *s, pid_t pid, int fd, uint64_t offset, size_t len_bytes, void **addr_p)
{
    struct smp_import *import = malloc(sizeof *import);
    if (!import)
        return AMPH_ERR_NOMEM;
    enum amph_status st = amph_shm_map_peer(pid, fd, offset, len_bytes, addr_p);
    if (st != AMPH_OK) {
        free(import);
        return st;
    }
    *import = (struct smp_import){ s->imports, *addr_p, len_bytes };
    s->imports = import;
    return AMPH_OK;
}

enum amph_status smp_mem_import(struct amph_cx *cx, uint32_t peer, const void *key, size_t key_len, struct amph_rmem *rmem)
{
    struct smp_cx *s = smp_of(cx);
    struct amph_rd r;
    if (peer >= cx->cfg.max_peers || !s->peer[peer].up)
        return AMPH_ERR_RANGE;
    amph_rd_init(&r, key, key_len);
    uint32_t version = amph_rd_u32(&r), pid = amph_rd_u32(&r), fd = amph_rd_u32(&r);
    uint64_t offset = amph_rd_u64(&r), base = amph_rd_u64(&r), len = amph_rd_u64(&r);
    void *addr;
    /* Only the peer's own memory: its pid is known from its address. */
    if (r.bad || amph_rd_left(&r) || version != KEY_VERSION || (pid_t)pid != s->peer[peer].pid || fd > INT32_MAX || len == 0 ||
        offset + len < offset || base + len < base)
        return AMPH_ERR_PROTO;
    if ((pid_t)pid == getpid()) {
        addr = (void *)(uintptr_t)base;
    } else {
        enum amph_status st = map(s, (pid_t)pid, (int)fd, offset, (size_t)len, &addr);
        if (st != AMPH_OK)
            return st;
    }
    *rmem = (struct amph_rmem){ .base = base, .len_bytes = len, .local = addr, .rkey = 0, .rbase = 0 };
    return AMPH_OK;
}

static inline void finish(struct amph_op *op)
{
    if (op)
        op->done(op, AMPH_OK);
}

enum amph_status smp_put(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem, uint64_t offset, const void *src,
                         size_t len_bytes, struct amph_op *lc, struct amph_op *rc)
{
    memcpy((char *)rmem->local + offset, src, len_bytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    finish(lc);
    finish(rc);
    return AMPH_OK;
}

enum amph_status smp_get(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem, uint64_t offset, void *dst, size_t len_bytes,
                         struct amph_op *done)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    memcpy(dst, (const char *)rmem->local + offset, len_bytes);
    finish(done);
    return AMPH_OK;
}

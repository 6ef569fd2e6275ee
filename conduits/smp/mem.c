/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that peers on the same host map, and put and get by copying.
 * Layer: conduits (smp).  Thread rule: that of conduit.h.
 *
 * Imported memory is unmapped when it is released or its peer is removed.
 *
 * Key: version | pid | descriptor | inode | offset in it | base address | length
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/smp/smp.h"

#define KEY_VERSION 2

enum amph_status amph_smp_mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                  uint64_t fd_offset, struct amph_mem *mem)
{
    struct amph_smp_cx *s = amph_smp_of(cx);
    struct stat sb;

    if (fd < 0)
        return AMPH_ERR_NOSYS; /* private memory cannot be mapped by others */
    if (fstat(fd, &sb) != 0)
        return AMPH_ERR_ARG;

    struct amph_smp_reg *reg = malloc(sizeof *reg);
    if (!reg)
        return AMPH_ERR_NOMEM;

    struct amph_wr w;

    amph_wr_init(&w, mem->key, sizeof mem->key);
    amph_wr_u32(&w, KEY_VERSION);
    amph_wr_u32(&w, (uint32_t)getpid());
    amph_wr_u32(&w, (uint32_t)fd);
    amph_wr_u64(&w, sb.st_ino);
    amph_wr_u64(&w, fd_offset);
    amph_wr_u64(&w, (uint64_t)(uintptr_t)base);
    amph_wr_u64(&w, len_bytes);
    mem->base = base;
    mem->len_bytes = len_bytes;
    mem->key_len = amph_wr_len(&w);
    mem->impl = reg;
    *reg = (struct amph_smp_reg){ .next = s->regs, .key_len = mem->key_len };
    memcpy(reg->key, mem->key, mem->key_len);
    s->regs = reg;

    return AMPH_OK;
}

void amph_smp_mem_dereg(struct amph_cx *cx, struct amph_mem *mem)
{
    for (struct amph_smp_reg **at = &amph_smp_of(cx)->regs; *at; at = &(*at)->next)
        if (*at == mem->impl) {
            struct amph_smp_reg *reg = *at;

            *at = reg->next;
            free(reg);
            break;
        }

    mem->impl = NULL;
    mem->key_len = 0;
}

struct key {
    uint32_t version, pid, fd;
    uint64_t ino, offset, base, len_bytes;
};

static bool read_key(const void *bytes, size_t len, struct key *k)
{
    struct amph_rd r;

    amph_rd_init(&r, bytes, len);
    k->version = amph_rd_u32(&r);
    k->pid = amph_rd_u32(&r);
    k->fd = amph_rd_u32(&r);
    k->ino = amph_rd_u64(&r);
    k->offset = amph_rd_u64(&r);
    k->base = amph_rd_u64(&r);
    k->len_bytes = amph_rd_u64(&r);

    return !r.bad && !amph_rd_left(&r) && k->version == KEY_VERSION && k->fd <= INT32_MAX &&
           k->ino != 0 && k->len_bytes != 0 && k->len_bytes <= SIZE_MAX &&
           k->offset + k->len_bytes >= k->offset && k->base + k->len_bytes >= k->base;
}

/* Returns true if this instance registered memory with that key. */
static bool is_registered(const struct amph_smp_cx *s, const void *key, size_t key_len)
{
    for (const struct amph_smp_reg *reg = s->regs; reg; reg = reg->next)
        if (reg->key_len == key_len && memcmp(reg->key, key, key_len) == 0)
            return true;

    return false;
}

/* Maps the memory of a key.  The mapping starts at a page boundary. */
static enum amph_status map(struct amph_smp_import *import, const struct key *k)
{
    uint64_t skip = k->offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);

    if (k->len_bytes + skip < skip)
        return AMPH_ERR_PROTO;

    import->len_bytes = (size_t)(k->len_bytes + skip);

    enum amph_status st = amph_smp_map((pid_t)k->pid, (int)k->fd, k->ino, k->offset - skip,
                                       import->len_bytes, &import->addr);

    if (st == AMPH_OK)
        import->rmem.local = (char *)import->addr + skip;

    return st;
}

static enum amph_status forget(struct amph_smp_peer *p, const struct amph_rmem *rmem)
{
    for (struct amph_smp_import **at = &p->imports; *at; at = &(*at)->next) {
        struct amph_smp_import *import = *at;

        if (import->rmem.local != rmem->local || import->rmem.base != rmem->base)
            continue;

        *at = import->next;
        munmap(import->addr, import->len_bytes);
        free(import);
        break;
    }

    return AMPH_OK;
}

enum amph_status amph_smp_mem_import(struct amph_cx *cx, uint32_t peer, const void *key,
                                     size_t key_len, struct amph_rmem *rmem)
{
    struct amph_smp_cx *s = amph_smp_of(cx);
    struct key k;

    if (peer >= cx->cfg.max_peers || !s->peer[peer].up)
        return AMPH_ERR_RANGE;

    struct amph_smp_peer *p = &s->peer[peer];
    if (!key)
        return forget(p, rmem);

    /* Only the peer's own memory: its pid is known from its address. */
    if (key_len > AMPH_KEY_BLOB_MAX_BYTES || !read_key(key, key_len, &k) || (pid_t)k.pid != p->pid)
        return AMPH_ERR_PROTO;

    const struct amph_rmem known = { .base = k.base, .len_bytes = k.len_bytes };

    if (p->region == s->region) {
        if (!is_registered(s, key, key_len))
            return AMPH_ERR_PROTO;

        *rmem = known;
        rmem->local = (void *)(uintptr_t)k.base;
        return AMPH_OK;
    }

    struct amph_smp_import *import;

    for (import = p->imports; import; import = import->next)
        if (import->key_len == key_len && memcmp(import->key, key, key_len) == 0)
            break;

    if (!import) {
        import = calloc(1, sizeof *import);
        if (!import)
            return AMPH_ERR_NOMEM;

        import->rmem = known;

        enum amph_status st = map(import, &k);

        if (st != AMPH_OK) {
            free(import);
            return st;
        }

        memcpy(import->key, key, key_len);
        import->key_len = key_len;
        import->next = p->imports;
        p->imports = import;
    }

    *rmem = import->rmem;
    return AMPH_OK;
}

static inline void finish(struct amph_op *op)
{
    if (op)
        op->done(op, AMPH_OK);
}

enum amph_status amph_smp_put(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, const void *src, size_t len_bytes,
                              struct amph_op *lc, struct amph_op *rc)
{
    amph_copy((char *)rmem->local + offset, src, len_bytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    finish(lc);
    finish(rc);

    return AMPH_OK;
}

enum amph_status amph_smp_get(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    amph_copy(dst, (const char *)rmem->local + offset, len_bytes);
    finish(done);
    return AMPH_OK;
}

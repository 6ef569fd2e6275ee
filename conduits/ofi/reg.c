/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of this process's own memory.  A provider with FI_MR_LOCAL requires one for every
 * buffer that it reads or writes.  Layer: conduits (ofi).  Thread rule: make and user on the send
 * side or while the instance is opened; put on either side; the table has a lock of its own.
 *
 * Segments and large client buffers are kept in a table, so that concurrent transfers share a
 * registration.  Segments stay until they are deregistered.  A client buffer leaves with its last
 * transfer: this file cannot see whether its memory is unmapped afterwards, and a registration that
 * outlives its pages would let a card read or write the old ones. libfabric's own cache behind
 * fi_mr_reg watches the address space and makes the next registration of the same buffer cheap.
 *
 * AMPHORA_MR_DEBUG=1 applies the strict rules to providers that have none: each buffer passed to
 * libfabric must be in a live registration (otherwise amph_ofi_desc ends the process), the provider
 * chooses keys, and transfers name addresses.
 */
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auth.h"
#include "base/log.h"
#include "conduits/ofi/ofi.h"

#define REG_MAGIC 0x72656769u
#define KEY_TRIES 8

/* Returns a random key, which others cannot guess, or 0 if the provider chooses keys. */
static uint64_t random_key(const struct fi_domain_attr *attr)
{
    uint64_t key = 0;

    if (attr->mr_mode & FI_MR_PROV_KEY)
        return 0;

    amph_random(&key, sizeof key);
    return attr->mr_key_size >= sizeof key ? key
                                           : key & ((UINT64_C(1) << (8 * attr->mr_key_size)) - 1);
}

static int enable_mr(struct amph_ofi_cx *cx, struct fid_mr *mr)
{
    if (!(cx->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
        return 0;

    int ret = fi_mr_bind(mr, &cx->ep->fid, 0);
    return ret ? ret : fi_mr_enable(mr);
}

int amph_ofi_reg_make(struct amph_ofi_cx *cx, void *base, size_t len_bytes, uint64_t access,
                      struct amph_ofi_reg **reg_p)
{
    struct amph_ofi_reg *reg = calloc(1, sizeof *reg);
    int ret = reg ? -FI_ENOKEY : -FI_ENOMEM;

    for (int i = 0; i < KEY_TRIES && ret == -FI_ENOKEY; i++)
        ret = fi_mr_reg(cx->domain, base, len_bytes, access, 0, random_key(cx->info->domain_attr),
                        0, &reg->mr, NULL);

    if (!ret && (ret = enable_mr(cx, reg->mr)) != 0)
        fi_close(&reg->mr->fid);

    if (ret) {
        free(reg);
        return ret;
    }

    reg->magic = REG_MAGIC;
    reg->base = (uintptr_t)base;
    reg->len_bytes = len_bytes;
    reg->access = access;
    reg->desc = fi_mr_desc(reg->mr);
    reg->refs = 1;
    *reg_p = reg;

    return 0;
}

static void destroy(struct amph_ofi_reg *reg)
{
    fi_close(&reg->mr->fid);
    reg->magic = 0;
    free(reg);
}

/* ---- the table ---- */

static bool covers(const struct amph_ofi_reg *reg, uintptr_t addr, size_t len_bytes)
{
    return addr >= reg->base && len_bytes <= reg->len_bytes &&
           addr - reg->base <= reg->len_bytes - len_bytes;
}

static struct amph_ofi_reg *find_locked(struct amph_ofi_cx *cx, uintptr_t addr, size_t len_bytes,
                                        uint64_t access)
{
    for (struct amph_ofi_reg *reg = cx->regs; reg; reg = reg->next)
        if ((reg->access & access) == access && covers(reg, addr, len_bytes)) {
            reg->refs++;
            return reg;
        }

    return NULL;
}

void amph_ofi_reg_list(struct amph_ofi_cx *cx, struct amph_ofi_reg *reg)
{
    pthread_mutex_lock(&cx->reg_lock);
    reg->listed = true;
    reg->next = cx->regs;
    cx->regs = reg;
    pthread_mutex_unlock(&cx->reg_lock);
}

struct amph_ofi_reg *amph_ofi_reg_of_key(struct amph_ofi_cx *cx, uint64_t key)
{
    pthread_mutex_lock(&cx->reg_lock);
    struct amph_ofi_reg *reg = cx->regs;

    while (reg && (!(reg->access & FI_REMOTE_WRITE) || fi_mr_key(reg->mr) != key))
        reg = reg->next;

    if (reg)
        reg->refs++;

    pthread_mutex_unlock(&cx->reg_lock);
    return reg;
}

struct amph_ofi_reg *amph_ofi_reg_find(struct amph_ofi_cx *cx, const void *addr, size_t len_bytes,
                                       uint64_t access)
{
    pthread_mutex_lock(&cx->reg_lock);
    struct amph_ofi_reg *reg = find_locked(cx, (uintptr_t)addr, len_bytes, access);

    pthread_mutex_unlock(&cx->reg_lock);
    return reg;
}

int amph_ofi_reg_user(struct amph_ofi_cx *cx, const void *addr, size_t len_bytes, uint64_t access,
                      struct amph_ofi_reg **reg_p)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)addr & ~(page - 1);
    size_t len = amph_align_up((uintptr_t)addr + len_bytes, page) - from;

    if ((*reg_p = amph_ofi_reg_find(cx, addr, len_bytes, access)) != NULL)
        return 0;

    int ret = amph_ofi_reg_make(cx, (void *)from, len, access, reg_p);

    if (!ret)
        amph_ofi_reg_list(cx, *reg_p);

    return ret;
}

void amph_ofi_reg_put(struct amph_ofi_cx *cx, struct amph_ofi_reg *reg)
{
    pthread_mutex_lock(&cx->reg_lock);

    bool last = --reg->refs == 0;
    struct amph_ofi_reg **at = &cx->regs;

    while (last && reg->listed && *at && *at != reg)
        at = &(*at)->next;

    if (last && reg->listed && *at)
        *at = reg->next;

    pthread_mutex_unlock(&cx->reg_lock);
    if (last)
        destroy(reg);
}

void *amph_ofi_desc_checked(const struct amph_ofi_reg *reg, const void *addr, size_t len_bytes)
{
    const char *wrong = NULL;

    if (!reg)
        wrong = "no registration";
    else if (reg->magic != REG_MAGIC)
        wrong = "it has ended";
    else if (!covers(reg, (uintptr_t)addr, len_bytes))
        wrong = "it covers other bytes";

    if (wrong)
        amph_fatal("AMPHORA_MR_DEBUG: %zu bytes at %p are handed to libfabric outside registered "
                   "memory (%s)",
                   len_bytes, addr, wrong);

    return reg->desc;
}

uint64_t amph_ofi_remote_checked(const struct amph_ofi_cx *cx, const struct amph_rmem *rmem,
                                 uint64_t offset)
{
    uint64_t addr = rmem->rbase + offset;

    if (addr < rmem->base || addr - rmem->base >= rmem->len_bytes)
        amph_fatal("AMPHORA_MR_DEBUG: a transfer names address 0x%llx of a peer whose memory "
                   "begins at 0x%llx",
                   (unsigned long long)addr, (unsigned long long)rmem->base);

    return cx->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? addr : addr - rmem->base;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adding and removing peers: mapping their regions, and the send side of their rings.
 * Layer: conduits (smp).  Thread rule: send side.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wire.h"
#include "conduits/smp/smp.h"

struct address {
    uint32_t version, pid, region_fd, doorbell_fd, max_peers;
    uint64_t nonce;
};

static bool read_address(const struct amph_peer_spec *spec, struct address *a)
{
    struct amph_rd r;

    amph_rd_init(&r, spec->addr, spec->addr_len);
    a->version = amph_rd_u32(&r);
    a->pid = amph_rd_u32(&r);
    a->region_fd = amph_rd_u32(&r);
    a->doorbell_fd = amph_rd_u32(&r);
    a->max_peers = amph_rd_u32(&r);
    a->nonce = amph_rd_u64(&r);

    return !r.bad && !amph_rd_left(&r) && a->version == SMP_ADDR_VERSION &&
           a->max_peers <= SMP_MAX_PEERS && a->pid <= INT32_MAX && a->region_fd <= INT32_MAX &&
           a->doorbell_fd <= INT32_MAX;
}

/* Maps the peer's rings for this process.  They may start anywhere in a page, because the peer's page
 * size may be another. */
static enum amph_status map_pair(struct amph_smp_peer *p, const struct address *a, int memory,
                                 uint32_t remote_index)
{
    size_t at = amph_smp_pair_offset(a->max_peers, remote_index);
    size_t skip = at & ((size_t)sysconf(_SC_PAGESIZE) - 1);

    p->rings_bytes = skip + sizeof(struct amph_smp_pair);

    enum amph_status st = amph_smp_map_memory((pid_t)a->pid, memory, 0, at - skip, p->rings_bytes,
                                              &p->rings);

    if (st == AMPH_OK)
        p->pair = (struct amph_smp_pair *)(void *)((char *)p->rings + skip);

    return st;
}

static enum amph_status map_region(struct amph_smp_cx *s, struct amph_smp_peer *p,
                                   const struct address *a, uint32_t remote_index)
{
    void *addr = NULL;

    if (a->nonce == s->region->nonce) {
        p->region = s->region;
        p->pair = amph_smp_pair_of(s->region, a->max_peers, remote_index);
        return a->max_peers == s->base.cfg.max_peers ? AMPH_OK : AMPH_ERR_PROTO;
    }

    p->front_bytes = amph_smp_pairs_offset(a->max_peers);

    int memory = -1;
    enum amph_status st = amph_smp_open_memory((pid_t)a->pid, (int)a->region_fd, &memory);

    if (st == AMPH_OK)
        st = amph_smp_map_memory((pid_t)a->pid, memory, 0, 0, p->front_bytes, &addr);

    p->region = addr;

    bool same = st == AMPH_OK && p->region->magic == SMP_MAGIC && p->region->nonce == a->nonce &&
                p->region->max_peers == a->max_peers;

    if (same)
        st = map_pair(p, a, memory, remote_index);

    if (memory >= 0)
        close(memory);

    if (same && st == AMPH_OK)
        return AMPH_OK;

    if (addr)
        munmap(addr, p->front_bytes);

    if (st != AMPH_OK) {
        /* a process that has ended: the caller knows which one it was */
        amph_log(st == AMPH_ERR_PEER ? AMPH_LOG_INFO : AMPH_LOG_ERROR,
                 "%s: cannot reach process %u of this host by shared memory: %s", s->base.cfg.name,
                 a->pid, amph_status_text(st));
        return st;
    }

    amph_error("the shared memory of process %u is not that of its address (the process has ended, "
               "or its number belongs to another)",
               a->pid);
    return AMPH_ERR_PEER;
}

/* Sets the positions to where this session stopped, or to the start. */
static void connect_rings(struct amph_smp_peer *p, uint32_t remote_max, uint32_t remote_index)
{
    struct amph_smp_positions *at = p->positions = amph_smp_positions_of(p->region, remote_max,
                                                                         remote_index);

    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        uint32_t produced = amph_smp_number(
            __atomic_load_n(&at->out[lane].produced, __ATOMIC_RELAXED), p->seed_out);

        p->out[lane] = (struct amph_smp_out){
            .ring = &p->pair->ring[lane],
            .bulk = p->pair->bulk[lane],
            .consumed = &at->in[lane].consumed,
            .bulk_consumed_there = &at->in[lane].bulk_consumed,
            .produced = produced,
            .limit = produced ? produced : SMP_PLAIN_SLOTS,
            .bulk_at = amph_smp_number(__atomic_load_n(&at->out[lane].bulk_at, __ATOMIC_RELAXED),
                                       p->seed_out) &
                       ~(AMPH_CACHE_LINE - 1u),
            .publish_seq = produced,
            .bulk_consumed = amph_smp_number(
                __atomic_load_n(&at->in[lane].bulk_consumed, __ATOMIC_ACQUIRE), p->seed_out),
        };
        p->out[lane].bulk_released = p->out[lane].bulk_at;
    }

    p->watched_word = &p->region->watched[remote_index / 64];
    p->watched_bit = UINT64_C(1) << (remote_index % 64);
}

enum amph_status amph_smp_add_peer(struct amph_cx *cx, uint32_t peer,
                                   const struct amph_peer_spec *spec)
{
    struct amph_smp_cx *s = amph_smp_of(cx);
    struct address a;

    if (peer >= cx->cfg.max_peers)
        return AMPH_ERR_RANGE;
    if (s->peer[peer].up)
        return AMPH_ERR_STATE;
    if (!read_address(spec, &a))
        return AMPH_ERR_PROTO;
    if (spec->remote_index >= a.max_peers)
        return AMPH_ERR_RANGE;

    struct amph_smp_peer p = { .pid = (pid_t)a.pid,
                               .remote_doorbell_fd = (int)a.doorbell_fd,
                               .doorbell_fd = -1,
                               .seed_out = amph_smp_seed(spec->cookie_out, s->region->nonce) };
    enum amph_status st = map_region(s, &p, &a, spec->remote_index);

    if (st != AMPH_OK)
        return st;

    connect_rings(&p, a.max_peers, spec->remote_index);
    p.up = true;
    s->peer[peer] = p;
    amph_smp_request_update(s, peer, true, amph_smp_seed(spec->cookie_in, a.nonce));

    return AMPH_OK;
}

void amph_smp_drop_peer(struct amph_smp_cx *s, struct amph_smp_peer *p)
{
    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        struct amph_smp_out *out = &p->out[lane];
        uint32_t bulk_at = amph_smp_bulk_end(out, p->seed_out);

        __atomic_store_n(&p->positions->out[lane].bulk_at, amph_smp_mark(p->seed_out, bulk_at),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&p->positions->out[lane].produced,
                         amph_smp_mark(p->seed_out, out->produced), __ATOMIC_RELEASE);
    }

    while (p->imports) {
        struct amph_smp_import *import = p->imports;

        p->imports = import->next;
        if (import->addr)
            munmap(import->addr, import->len_bytes);

        free(import);
    }

    if (p->region != s->region) {
        munmap(p->region, p->front_bytes);
        munmap(p->rings, p->rings_bytes);
    }

    if (p->doorbell_fd >= 0)
        close(p->doorbell_fd);

    memset(p, 0, sizeof *p);
}

void amph_smp_del_peer(struct amph_cx *cx, uint32_t peer)
{
    struct amph_smp_cx *s = amph_smp_of(cx);

    if (peer >= cx->cfg.max_peers || !s->peer[peer].up)
        return;

    amph_smp_drop_peer(s, &s->peer[peer]);
    amph_smp_request_update(s, peer, false, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared-memory conduit: instances and peers.  Layer: conduits (smp).  Thread rule: that of conduit.h.
 *
 * Address: version | pid | descriptor of the region | descriptor of the doorbell's write end | largest number of peers | nonce
 * Peers open the region through /proc/PID/fd, so nothing ever stands in the file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auth.h"
#include "base/log.h"
#include "base/wire.h"
#include "conduits/smp/smp.h"

#define ADDR_VERSION 1

static enum amph_status smp_probe(char *why, size_t why_len)
{
    if (access("/proc/self/fd", X_OK) == 0)
        return AMPH_OK;
    snprintf(why, why_len, "/proc is not mounted, and processes find each other's memory there");
    return AMPH_ERR_NOSYS;
}

static const struct amph_conduit_caps caps = {
    .max_medium = SMP_MAX_MEDIUM,
    .inject_bytes = SMP_REST_BYTES - 4 * AMPH_AM_MAX_ARGS,
    .self_flow = true,
    .native_rma = true,
    .put_then_am = true,
    .maps_memory = true,
    .can_sleep = true,
    .fd_blocks = true,
    .mixed_order = false,
    .need_local_reg = false,
};

static enum amph_status make_region(struct smp_cx *s)
{
    size_t bytes = smp_region_bytes(s->base.cfg.max_peers);
    enum amph_status st = amph_shm_create("amphora-smp", bytes, &s->region_fd);
    if (st != AMPH_OK)
        return st;
    s->region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->region_fd, 0);
    if (s->region == MAP_FAILED) {
        s->region = NULL;
        amph_error("cannot map %zu bytes of shared memory: %m", bytes);
        return AMPH_ERR_NOMEM;
    }
    s->region->magic = SMP_MAGIC;
    s->region->max_peers = s->base.cfg.max_peers;
    amph_random(&s->region->nonce, sizeof s->region->nonce);
    s->sender_must_fence = !smp_fence_setup();
    s->region->full_fence = s->sender_must_fence;
    return AMPH_OK;
}

static void make_address(struct smp_cx *s)
{
    struct amph_wr w;
    amph_wr_init(&w, s->base.addr, sizeof s->base.addr);
    amph_wr_u32(&w, ADDR_VERSION);
    amph_wr_u32(&w, (uint32_t)getpid());
    amph_wr_u32(&w, (uint32_t)s->region_fd);
    amph_wr_u32(&w, (uint32_t)s->bell[1]);
    amph_wr_u32(&w, s->base.cfg.max_peers);
    amph_wr_u64(&w, s->region->nonce);
    s->base.addr_len = amph_wr_len(&w);
}

static void smp_close(struct amph_cx *cx);

static enum amph_status smp_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    if (cfg->max_peers == 0)
        return AMPH_ERR_ARG;
    struct smp_cx *s = calloc(1, sizeof *s);
    if (!s)
        return AMPH_ERR_NOMEM;
    s->base = (struct amph_cx){ .ops = &amph_smp_ops, .caps = caps, .cfg = *cfg };
    s->region_fd = s->bell[0] = s->bell[1] = -1;
    s->peer = aligned_alloc(AMPH_CACHE_LINE, cfg->max_peers * sizeof *s->peer);
    enum amph_status st = s->peer ? AMPH_OK : AMPH_ERR_NOMEM;
    if (st == AMPH_OK) {
        memset(s->peer, 0, cfg->max_peers * sizeof *s->peer);
        st = make_region(s);
    }
    if (st == AMPH_OK && pipe2(s->bell, O_NONBLOCK | O_CLOEXEC) != 0) {
        st = amph_status_from_errno(errno);
        amph_error("cannot make a doorbell pipe: %m");
    }
    if (st != AMPH_OK) {
        smp_close(&s->base);
        return st;
    }
    make_address(s);
    *cx_p = &s->base;
    return AMPH_OK;
}

static void drop_peer(struct smp_cx *s, struct smp_peer *p)
{
    if (p->region && p->region != s->region)
        munmap(p->region, p->region_bytes);
    if (p->bell_fd >= 0)
        close(p->bell_fd);
    memset(p, 0, sizeof *p);
}

static void smp_close(struct amph_cx *cx)
{
    struct smp_cx *s = smp_of(cx);
    for (uint32_t i = 0; i < s->npeers; i++)
        if (s->peer[i].up)
            drop_peer(s, &s->peer[i]);
    while (s->imports) {
        struct smp_import *import = s->imports;
        s->imports = import->next;
        munmap(import->addr, import->len_bytes);
        free(import);
    }
    if (s->region)
        munmap(s->region, smp_region_bytes(cx->cfg.max_peers));
    int fds[] = { s->region_fd, s->bell[0], s->bell[1] };
    for (size_t i = 0; i < AMPH_COUNTOF(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(s->peer);
    free(s);
}

struct address {
    uint32_t version, pid, region_fd, bell_fd, max_peers;
    uint64_t nonce;
};

static bool read_address(const struct amph_peer_spec *spec, struct address *a)
{
    struct amph_rd r;
    amph_rd_init(&r, spec->addr, spec->addr_len);
    a->version = amph_rd_u32(&r);
    a->pid = amph_rd_u32(&r);
    a->region_fd = amph_rd_u32(&r);
    a->bell_fd = amph_rd_u32(&r);
    a->max_peers = amph_rd_u32(&r);
    a->nonce = amph_rd_u64(&r);
    return !r.bad && !amph_rd_left(&r) && a->version == ADDR_VERSION && spec->remote_index < a->max_peers && a->region_fd <= INT32_MAX &&
           a->bell_fd <= INT32_MAX && a->max_peers <= (UINT32_C(1) << 24);
}

static enum amph_status map_region(struct smp_cx *s, struct smp_peer *p, const struct address *a)
{
    if (a->nonce == s->region->nonce) {
        p->region = s->region;
        return AMPH_OK;
    }
    void *addr;
    p->region_bytes = smp_region_bytes(a->max_peers);
    enum amph_status st = amph_shm_map_peer((pid_t)a->pid, (int)a->region_fd, 0, p->region_bytes, &addr);
    if (st != AMPH_OK)
        return st;
    p->region = addr;
    if (p->region->magic == SMP_MAGIC && p->region->nonce == a->nonce && p->region->max_peers == a->max_peers)
        return AMPH_OK;
    munmap(addr, p->region_bytes);
    p->region = NULL;
    amph_error("process %u holds other shared memory than its address says (it has ended, or its number was given away)", a->pid);
    return AMPH_ERR_PEER;
}

static void connect_rings(struct smp_cx *s, struct smp_peer *p, uint32_t peer, uint32_t remote_max, uint32_t remote_index)
{
    struct smp_pair *there = smp_pair_of(p->region, remote_max, remote_index);
    struct smp_pair *here = smp_pair_of(s->region, s->base.cfg.max_peers, peer);
    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        p->out[lane] = (struct smp_out){ .ring = &there->ring[lane], .bulk = there->bulk[lane], .limit = SMP_SLOTS };
        p->in[lane] = (struct smp_in){ .ring = &here->ring[lane], .bulk = here->bulk[lane] };
    }
    p->watched_word = &p->region->watched[remote_index / 64];
    p->watched_bit = UINT64_C(1) << (remote_index % 64);
}

static enum amph_status smp_add_peer(struct amph_cx *cx, uint32_t peer, const struct amph_peer_spec *spec)
{
    struct smp_cx *s = smp_of(cx);
    struct address a;
    if (peer >= cx->cfg.max_peers)
        return AMPH_ERR_RANGE;
    if (s->peer[peer].up)
        return AMPH_ERR_STATE;
    if (!read_address(spec, &a))
        return AMPH_ERR_PROTO;
    struct smp_peer p = { .pid = (pid_t)a.pid, .bell_fd_there = (int)a.bell_fd, .bell_fd = -1, .seed_in = smp_seed(spec->cookie_in),
                          .seed_out = smp_seed(spec->cookie_out) };
    enum amph_status st = map_region(s, &p, &a);
    if (st != AMPH_OK)
        return st;
    connect_rings(s, &p, peer, a.max_peers, spec->remote_index);
    s->peer[peer] = p;
    s->peer[peer].up = true;
    if (peer >= s->npeers)
        s->npeers = peer + 1;
    return AMPH_OK;
}

/* The rings must be as new for whoever comes next under this number.  A former peer that still writes gives words that the next
 * one's seed does not know. */
static void smp_del_peer(struct amph_cx *cx, uint32_t peer)
{
    struct smp_cx *s = smp_of(cx);
    if (peer >= cx->cfg.max_peers || !s->peer[peer].up)
        return;
    struct smp_pair *here = smp_pair_of(s->region, cx->cfg.max_peers, peer);
    for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
        memset(&here->ring[lane], 0, sizeof here->ring[lane]);
    __atomic_fetch_and(&s->region->watched[peer / 64], ~(UINT64_C(1) << (peer % 64)), __ATOMIC_SEQ_CST);
    drop_peer(s, &s->peer[peer]);
}

const struct amph_conduit_ops amph_smp_ops = {
    .name = "smp",
    .summary = "shared memory between the processes of one host",
    .probe = smp_probe,
    .open = smp_open,
    .close = smp_close,
    .add_peer = smp_add_peer,
    .del_peer = smp_del_peer,
    .mem_reg = smp_mem_reg,
    .mem_dereg = smp_mem_dereg,
    .mem_import = smp_mem_import,
    .am_send = smp_am_send,
    .am_prepare = amph_conduit_no_prepare,
    .am_commit = amph_conduit_no_commit,
    .put = smp_put,
    .get = smp_get,
    .atomic = amph_conduit_no_atomic,
    .flush = amph_conduit_no_flush,
    .progress = smp_progress,
    .wait_fd = smp_wait_fd,
    .arm = smp_arm,
};

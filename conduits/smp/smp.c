/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared-memory conduit: opening and closing an instance.
 * Layer: conduits (smp).  Thread rule: that of conduit.h.
 *
 * Address: version | pid | descriptor of the region | descriptor of the doorbell's write end |
 *          maximum number of peers | nonce
 *
 * Peers open the region through /proc/PID/fd, so it has no name in a file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/aligned.h"
#include "base/os/arena.h"
#include "base/auth.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/wire.h"
#include "conduits/smp/smp.h"

static enum amph_status amph_smp_probe(char *why, size_t why_len)
{
    if (access("/proc/self/fd", X_OK) == 0)
        return AMPH_OK;

    snprintf(why, why_len, "/proc is not mounted, and processes open each other's memory there");
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
};

enum amph_status amph_smp_open_memory(pid_t pid, int fd, int *own_p)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);

    int own = open(path, O_RDWR | O_CLOEXEC);

    if (own >= 0) {
        *own_p = own;
        return AMPH_OK;
    }

    enum amph_status st = errno == ENOENT ? AMPH_ERR_PEER : amph_status_from_errno(errno);

    amph_debug("cannot open the shared memory of process %ld (%s): %m", (long)pid, path);
    return st;
}

enum amph_status amph_smp_map_memory(pid_t pid, int own, uint64_t ino, uint64_t offset,
                                     size_t len_bytes, void **addr_p)
{
    struct stat sb;

    /* Maps only the intended object, and only if it is long enough and sealed against shrinking:
     * otherwise its owner could make this process fail with SIGBUS. */
    int seals = fcntl(own, F_GET_SEALS);
    bool fits = seals >= 0 && seals & F_SEAL_SHRINK && fstat(own, &sb) == 0 &&
                (ino == 0 || sb.st_ino == ino) && offset + len_bytes >= offset &&
                offset + len_bytes <= (uint64_t)sb.st_size;

    if (!fits) {
        amph_debug("what process %ld names is not the shared memory of its address", (long)pid);
        return AMPH_ERR_PEER;
    }

    void *addr = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, own,
                      (off_t)offset);

    if (addr != MAP_FAILED) {
        *addr_p = addr;
        return AMPH_OK;
    }

    int saved = errno;

    amph_error("cannot map %zu bytes of process %ld: %m", len_bytes, (long)pid);
    return amph_status_from_errno(saved);
}

enum amph_status amph_smp_map(pid_t pid, int fd, uint64_t ino, uint64_t offset, size_t len_bytes,
                              void **addr_p)
{
    int own;
    enum amph_status st = amph_smp_open_memory(pid, fd, &own);

    if (st != AMPH_OK)
        return st;

    st = amph_smp_map_memory(pid, own, ino, offset, len_bytes, addr_p);
    close(own);
    return st;
}

static enum amph_status make_region(struct amph_smp_cx *s)
{
    size_t bytes = amph_smp_region_bytes(s->base.cfg.max_peers);
    enum amph_status st = amph_shm_create("amphora-smp", bytes, &s->region_fd);

    if (st != AMPH_OK)
        return st;

    s->region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->region_fd,
                     0);
    if (s->region == MAP_FAILED) {
        s->region = NULL;
        amph_error("cannot map %zu bytes of shared memory: %s%s", bytes, strerror(errno),
                   amph_limit_remedy(errno));
        return AMPH_ERR_NOMEM;
    }

    s->region->magic = SMP_MAGIC;
    s->region->max_peers = s->base.cfg.max_peers;
    amph_random(&s->region->nonce, sizeof s->region->nonce);
    amph_fence_join(&s->fence);
    s->region->full_fence = s->fence.asks;

    return AMPH_OK;
}

static enum amph_status make_doorbell(struct amph_smp_cx *s)
{
    struct stat sb;

    if (pipe2(s->doorbell, O_NONBLOCK | O_CLOEXEC) != 0 || fstat(s->doorbell[1], &sb) != 0) {
        enum amph_status st = amph_status_from_errno(errno);

        amph_error("cannot make a doorbell pipe: %m; raise the limit of open files (ulimit -n)");
        return st;
    }

    s->region->doorbell_ino = sb.st_ino;
    s->pid = getpid();
    return AMPH_OK;
}

static enum amph_status make_tables(struct amph_smp_cx *s)
{
    uint32_t n = s->base.cfg.max_peers;

    s->peer = amph_aligned_alloc(AMPH_CACHE_LINE, n * sizeof *s->peer);
    s->source = amph_aligned_alloc(AMPH_CACHE_LINE, n * sizeof *s->source);
    s->update = calloc(n, sizeof *s->update);

    /* also if another allocation has failed: amph_smp_close() looks at the peers */
    if (s->peer)
        memset(s->peer, 0, n * sizeof *s->peer);

    if (s->source)
        memset(s->source, 0, n * sizeof *s->source);

    return s->peer && s->source && s->update ? AMPH_OK : AMPH_ERR_NOMEM;
}

static void make_address(struct amph_smp_cx *s)
{
    struct amph_wr w;

    amph_wr_init(&w, s->base.addr, sizeof s->base.addr);
    amph_wr_u32(&w, SMP_ADDR_VERSION);
    amph_wr_u32(&w, (uint32_t)getpid());
    amph_wr_u32(&w, (uint32_t)s->region_fd);
    amph_wr_u32(&w, (uint32_t)s->doorbell[1]);
    amph_wr_u32(&w, s->base.cfg.max_peers);
    amph_wr_u64(&w, s->region->nonce);
    s->base.addr_len = amph_wr_len(&w);
}

static void amph_smp_close(struct amph_cx *cx)
{
    struct amph_smp_cx *s = amph_smp_of(cx);

    for (uint32_t i = 0; s->peer && i < cx->cfg.max_peers; i++)
        if (s->peer[i].up)
            amph_smp_drop_peer(s, &s->peer[i]);

    while (s->regs) {
        struct amph_smp_reg *reg = s->regs;

        s->regs = reg->next;
        free(reg);
    }

    if (s->region)
        munmap(s->region, amph_smp_region_bytes(cx->cfg.max_peers));

    int fds[] = { s->region_fd, s->doorbell[0], s->doorbell[1] };

    for (size_t i = 0; i < AMPH_COUNTOF(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);

    pthread_mutex_destroy(&s->update_lock);
    free(s->update);
    amph_aligned_free(s->source);
    amph_aligned_free(s->peer);
    free(s);
}

static enum amph_status amph_smp_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    if (cfg->max_peers == 0 || cfg->max_peers > SMP_MAX_PEERS)
        return AMPH_ERR_ARG;

    struct amph_smp_cx *s = calloc(1, sizeof *s);
    if (!s)
        return AMPH_ERR_NOMEM;

    s->base = (struct amph_cx){ .ops = &amph_smp_ops, .caps = caps, .cfg = *cfg };
    s->region_fd = s->doorbell[0] = s->doorbell[1] = -1;
    s->first_update = UINT32_MAX;
    s->last_active = UINT32_MAX;
    pthread_mutex_init(&s->update_lock, NULL);

    enum amph_status st = make_tables(s);

    if (st == AMPH_OK)
        st = make_region(s);

    if (st == AMPH_OK)
        st = make_doorbell(s);

    if (st != AMPH_OK) {
        amph_smp_close(&s->base);
        return st;
    }

    make_address(s);
    *cx_p = &s->base;
    return AMPH_OK;
}

const struct amph_conduit_ops amph_smp_ops = {
    .name = "smp",
    .summary = "shared memory between the processes of one host",
    .probe = amph_smp_probe,
    .open = amph_smp_open,
    .close = amph_smp_close,
    .add_peer = amph_smp_add_peer,
    .del_peer = amph_smp_del_peer,
    .peer_gone = amph_conduit_no_peer_gone,
    .mem_reg = amph_smp_mem_reg,
    .mem_dereg = amph_smp_mem_dereg,
    .mem_import = amph_smp_mem_import,
    .am_send = amph_smp_am_send,
    .am_prepare = amph_smp_am_prepare,
    .am_commit = amph_smp_am_commit,
    .put = amph_smp_put,
    .get = amph_smp_get,
    .atomic = amph_conduit_no_atomic,
    .flush = amph_conduit_no_flush,
    .counts = amph_conduit_no_counts,
    .progress = amph_smp_progress,
    .tick = amph_conduit_no_tick,
    .wait_fd = amph_smp_wait_fd,
    .arm = amph_smp_arm,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module's table: every conduit that runs over libfabric is one row of operations here.  Layer:
 * conduits (ofi). Thread rule: read-only data.
 *
 * Loaded by registry.c when a network is first needed, or linked into static programs.
 */
#include <stddef.h>

#include "base/status.h"
#include "conduits/ofi/ofi.h"

static const struct amph_conduit_ops tcp_ops, verbs_ops;

static enum amph_status tcp_probe(char *why, size_t why_len)
{
    return amph_ofi_probe(&amph_ofi_family_tcp, why, why_len);
}

static enum amph_status tcp_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    return amph_ofi_open(&amph_ofi_family_tcp, &tcp_ops, cfg, cx_p);
}

static enum amph_status verbs_probe(char *why, size_t why_len)
{
    return amph_ofi_probe(&amph_ofi_family_verbs, why, why_len);
}

static enum amph_status verbs_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    return amph_ofi_open(&amph_ofi_family_verbs, &verbs_ops, cfg, cx_p);
}

static void flush(struct amph_cx *base)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    if (AMPH_UNLIKELY(amph_ofi_pack_waits(cx))) {
        (void)amph_ofi_pack_send(cx, UINT32_MAX); /* without room, progress tries again */
        amph_ofi_pack_answer(cx);
    }

    amph_ofi_cork_push_sent(cx);
}

/* The operations that are the same for every family. */
#define COMMON_OPERATIONS \
    .close = amph_ofi_close, .add_peer = amph_ofi_add_peer, .del_peer = amph_ofi_del_peer, \
    .peer_gone = amph_ofi_peer_gone, .mem_reg = amph_ofi_mem_reg, .mem_dereg = amph_ofi_mem_dereg, \
    .mem_import = amph_ofi_mem_import, .am_send = amph_ofi_am_send, \
    .am_prepare = amph_conduit_no_prepare, .am_commit = amph_conduit_no_commit, \
    .put = amph_ofi_put, .get = amph_ofi_get, .atomic = amph_conduit_no_atomic, .flush = flush, \
    .counts = amph_ofi_counts, .progress = amph_ofi_progress, .tick = amph_ofi_tick, \
    .wait_fd = amph_ofi_wait_fd, .arm = amph_ofi_arm

static const struct amph_conduit_ops tcp_ops = {
    .name = "tcp",
    .summary = "TCP/IP over libfabric (providers tcp, net, tcp;ofi_rxm)",
    .probe = tcp_probe,
    .open = tcp_open,
    COMMON_OPERATIONS,
};

static const struct amph_conduit_ops verbs_ops = {
    .name = "verbs",
    .summary = "InfiniBand, RoCE and other cards over libfabric (verbs;ofi_rxm, or a provider that "
               "asks for registered memory)",
    .probe = verbs_probe,
    .open = verbs_open,
    COMMON_OPERATIONS,
};

const struct amph_conduit_ops *const *amph_ofi_conduits(void);

const struct amph_conduit_ops *const *amph_ofi_conduits(void)
{
    static const struct amph_conduit_ops *const all[] = { &verbs_ops, &tcp_ops, NULL };
    return all;
}

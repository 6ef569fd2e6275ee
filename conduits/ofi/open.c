/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing an instance, and its table of peers.  Layer: conduits (ofi).  Thread rule:
 * that of conduit.h.
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "conduits/inet.h"
#include "conduits/ofi/ofi.h"

#define SPARE_DESCRIPTORS 256
#define AV_HINT_MAX 1024 /* the provider's table grows by itself */
/* What the first connections and messages take, rounded up. */
#define LATER_BYTES ((size_t)1 << 20)

/* Logs a failed step. ret is a libfabric return value; 0: the step succeeded. */
static enum amph_status step(struct amph_ofi_cx *cx, const char *what, int ret)
{
    if (AMPH_LIKELY(ret == 0))
        return AMPH_OK;

    amph_error("libfabric's provider %s: %s failed: %s%s", cx->prov ? cx->prov->name : "?", what,
               fi_strerror(-ret), amph_limit_remedy(-ret));
    return amph_status_from_fi(ret);
}

static enum amph_status open_objects(struct amph_ofi_cx *cx)
{
    struct fi_cq_attr cq = { .size = OFI_MAX_OPS,
                             .format = FI_CQ_FORMAT_DATA,
                             .wait_obj = cx->wait == OFI_WAIT_CQ ? FI_WAIT_FD : FI_WAIT_NONE };
    uint32_t peers = cx->base.cfg.max_peers;
    struct fi_av_attr av = { .type = FI_AV_TABLE,
                             .count = peers < AV_HINT_MAX ? peers : AV_HINT_MAX };
    enum amph_status st;

    if ((st = step(cx, "fi_fabric", fi_fabric(cx->info->fabric_attr, &cx->fabric, NULL))) !=
            AMPH_OK ||
        (st = step(cx, "fi_domain", fi_domain(cx->fabric, cx->info, &cx->domain, NULL))) !=
            AMPH_OK ||
        (st = step(cx, "fi_cq_open", fi_cq_open(cx->domain, &cq, &cx->cq, NULL))) != AMPH_OK ||
        (st = step(cx, "fi_av_open", fi_av_open(cx->domain, &av, &cx->av, NULL))) != AMPH_OK ||
        (st = step(cx, "fi_endpoint", fi_endpoint(cx->domain, cx->info, &cx->ep, NULL))) !=
            AMPH_OK ||
        (st = step(cx, "fi_ep_bind", fi_ep_bind(cx->ep, &cx->cq->fid, FI_TRANSMIT | FI_RECV))) !=
            AMPH_OK ||
        (st = step(cx, "fi_ep_bind", fi_ep_bind(cx->ep, &cx->av->fid, 0))) != AMPH_OK ||
        (st = step(cx, "fi_enable", fi_enable(cx->ep))) != AMPH_OK)
        return st;

    return amph_ofi_own_address(cx);
}

static void close_fids(struct amph_ofi_cx *cx, struct fid **fid, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fid[i]) {
            int ret = fi_close(fid[i]);

            if (ret)
                amph_debug("%s: fi_close of object %zu: %s", cx->base.cfg.name, i,
                           fi_strerror(-ret));
        }
}

/* Closes the endpoint.  Afterwards nothing is in flight. */
static void close_endpoint(struct amph_ofi_cx *cx)
{
    struct fid *fid[] = { cx->ep ? &cx->ep->fid : NULL, cx->cq ? &cx->cq->fid : NULL,
                          cx->av ? &cx->av->fid : NULL };

    close_fids(cx, fid, AMPH_COUNTOF(fid));
    cx->ep = NULL;
    cx->cq = NULL;
    cx->av = NULL;
}

/* Closes the libfabric objects in the required order.  All registrations have been released
 * before. */
static void close_objects(struct amph_ofi_cx *cx)
{
    close_endpoint(cx);

    struct fid *fid[] = { cx->domain ? &cx->domain->fid : NULL,
                          cx->fabric ? &cx->fabric->fid : NULL };

    close_fids(cx, fid, AMPH_COUNTOF(fid));
    cx->domain = NULL;
    cx->fabric = NULL;
    if (cx->info)
        fi_freeinfo(cx->info);

    cx->info = NULL;
}

/* Sets the registration rules: the provider's and, with AMPHORA_MR_DEBUG, those of the strictest
 * provider. */
static void set_rules(struct amph_ofi_cx *cx)
{
    cx->mr_debug = amph_env_bool(AMPH_ENV_MR_DEBUG);
    cx->mr_mode = (uint64_t)cx->info->domain_attr->mr_mode;
    if (cx->mr_debug)
        cx->mr_mode |= FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;

    cx->need_reg = (cx->mr_mode & FI_MR_LOCAL) != 0;
}

/* Enables the endpoint, which then listens.  If this side chooses the port, the port is reserved
 * meanwhile. */
static enum amph_status open_endpoint(struct amph_ofi_cx *cx, const struct amph_ofi_family *family)
{
    const char *interface = cx->base.cfg.interface;
    const struct sockaddr_storage *src = &cx->listen_addr;
    int reserved = -1;
    enum amph_status st = AMPH_OK;

    if (family->own_port)
        st = amph_ofi_reserve_address(cx->family->conduit, &cx->base.cfg, &cx->listen_addr,
                                      &reserved);
    else if (interface && interface[0])
        st = amph_conduit_inet_choose(family->conduit, false, interface, &cx->listen_addr);
    else
        src = NULL;

    if (st != AMPH_OK)
        return st;

    st = amph_ofi_find_provider(family, cx->base.cfg.threaded, src, &cx->prov, &cx->info);
    if (st == AMPH_ERR_NOMEM)
        amph_error_shared("there is no memory for libfabric%s", amph_limit_remedy(ENOMEM));
    else if (st != AMPH_OK)
        amph_error_shared("no libfabric provider for %s works on the chosen interface; see "
                          "fi_info, or set AMPHORA_INTERFACE",
                          family->conduit);

    if (st == AMPH_OK) {
        set_rules(cx);
        if (cx->wait != OFI_WAIT_CQ)
            cx->wait = cx->prov->wait;

        st = open_objects(cx);
    }

    if (reserved >= 0)
        close(reserved);

    return st;
}

static enum amph_status open_all(struct amph_ofi_cx *cx, const struct amph_ofi_family *family)
{
    enum amph_status st = open_endpoint(cx, family);

    if (st != AMPH_OK)
        return st;

    st = amph_ofi_wait_open(cx);
    if (st == AMPH_ERR_NOSYS && cx->wait == OFI_WAIT_INNER && cx->prov->cq_sleeps) {
        /* The provider's epoll set was not found: use its wait object instead. */
        close_objects(cx);
        cx->wait = OFI_WAIT_CQ;
        if ((st = open_endpoint(cx, family)) != AMPH_OK)
            return st;

        st = amph_ofi_wait_open(cx);
    }

    if (st == AMPH_ERR_NOSYS)
        amph_info("%s: provider %s has nothing to wait for; waiting is by time", cx->base.cfg.name,
                  cx->prov->name);
    else if (st != AMPH_OK)
        return st;

    /* without enough descriptors, peers would try to connect for ever */
    if (cx->base.cfg.incoming && cx->listen_fd >= 0 && !amph_ofi_has_room(cx->base.cfg.incoming)) {
        amph_error("%s: of the descriptors that this process may open, too few are left for its "
                   "peers' connections%s",
                   cx->base.cfg.name, amph_limit_remedy(EMFILE));
        return AMPH_ERR_NOMEM;
    }

    amph_ofi_pack_open(cx);
    st = amph_ofi_rx_start(cx);
    if (st == AMPH_OK && !amph_limit_memory_suffices(LATER_BYTES)) {
        amph_error("%s: there is no memory for libfabric's connections%s", cx->base.cfg.name,
                   amph_limit_remedy(ENOMEM));
        st = AMPH_ERR_NOMEM;
    }

    return st;
}

static void set_facts(struct amph_ofi_cx *cx)
{
    cx->base.protocol = amph_ofi_protocol(cx->info);
    cx->base.provider = cx->info->fabric_attr->prov_name;

    const uint64_t ordered = FI_ORDER_SAW;
    struct amph_conduit_caps *caps = &cx->base.caps;

    cx->inject_bytes = cx->info->tx_attr->inject_size < OFI_INJECT_MAX_BYTES
                           ? cx->info->tx_attr->inject_size
                           : OFI_INJECT_MAX_BYTES;
    caps->max_medium = OFI_MAX_MEDIUM;
    caps->inject_bytes = cx->inject_bytes > sizeof(struct amph_ofi_hdr)
                             ? (uint32_t)(cx->inject_bytes - sizeof(struct amph_ofi_hdr))
                             : 0;
    caps->native_rma = true;
    caps->sends_in_place = true;
    caps->puts_in_place = !cx->need_reg;
    caps->put_then_am = (cx->info->tx_attr->msg_order & ordered) == ordered;
    caps->mixed_order = cx->prov->mixed_order;
}

/* Completes an operation in flight with AMPH_ERR_STATE, because the instance is being closed. */
static void abandon(void *item, void *arg)
{
    struct amph_ofi_op *op = item;
    if (op->busy)
        amph_ofi_op_finish(arg, op, AMPH_ERR_STATE);
}

static void close_pool(struct amph_ofi_pool *pool)
{
    amph_ofi_pool_unregister(pool);
    amph_ofi_pool_fini(pool);
}

void amph_ofi_close(struct amph_cx *base)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    (void)amph_ofi_pack_first(cx, UINT32_MAX);
    amph_ofi_quiesce(cx);
    amph_ofi_pusher_close(cx);
    amph_ofi_wait_close(cx);
    if (cx->probe_fd >= 0)
        close(cx->probe_fd);

    close_endpoint(cx);
    amph_ofi_pool_each(&cx->ops, abandon, cx);
    amph_ofi_pack_close(cx);
    amph_ofi_rx_stop(cx);
    close_pool(&cx->ops);
    for (unsigned i = 0; i < OFI_NBOUNCE; i++)
        close_pool(&cx->bounce[i]);

    while (cx->regs)
        amph_ofi_reg_put(cx, cx->regs);

    close_objects(cx);
    amph_ofi_close_accepted(cx);
    pthread_mutex_destroy(&cx->reg_lock);
    pthread_mutex_destroy(&cx->pack.lock);
    free(cx->peer);
    free(cx);
}

/* Raises the limit of descriptors if necessary: each connected peer uses one. */
static void want_descriptors(uint32_t peers)
{
    struct rlimit limit;
    rlim_t need = (rlim_t)peers + SPARE_DESCRIPTORS;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
        return;

    limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < need)
        amph_info(
            "%u peers may need more than this process's %llu descriptors; ulimit -Hn raises them",
            peers, (unsigned long long)limit.rlim_cur);
}

enum amph_status amph_ofi_open(const struct amph_ofi_family *family,
                               const struct amph_conduit_ops *ops, const struct amph_cx_config *cfg,
                               struct amph_cx **cx_p)
{
    struct amph_ofi_cx *cx = calloc(1, sizeof *cx);

    if (!cx)
        return AMPH_ERR_NOMEM;

    want_descriptors(cfg->max_peers);
    cx->base.ops = ops;
    cx->base.cfg = *cfg;
    cx->family = family;
    cx->wait_fd = cx->listen_fd = cx->inner_fd = cx->notify_fd = cx->probe_fd = cx->pusher.fd = -1;
    cx->pusher.pack_ns = OFI_PUSH_NS;
    cx->silence_ns = amph_env_ns(AMPH_ENV_TCP_TIMEOUT);
    pthread_mutex_init(&cx->reg_lock, NULL);
    pthread_mutex_init(&cx->pack.lock, NULL);
    amph_ofi_pool_init(&cx->ops, cx, sizeof(struct amph_ofi_op), 32, OFI_MAX_OPS);
    amph_ofi_pool_init(&cx->bounce[OFI_BOUNCE_SMALL], cx, OFI_BOUNCE_SMALL_BYTES, 16, 256);
    amph_ofi_pool_init(&cx->bounce[OFI_BOUNCE_LARGE], cx, OFI_MSG_MAX_BYTES, 2, 16);
    cx->peer = calloc(cfg->max_peers ? cfg->max_peers : 1, sizeof *cx->peer);

    enum amph_status st = cx->peer ? open_all(cx, family) : AMPH_ERR_NOMEM;

    if (st != AMPH_OK) {
        amph_ofi_close(&cx->base);
        return st;
    }

    set_facts(cx);
    *cx_p = &cx->base;
    return AMPH_OK;
}

/* ---- peers ---- */

enum amph_status amph_ofi_add_peer(struct amph_cx *base, uint32_t peer,
                                   const struct amph_peer_spec *spec)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    if (peer >= base->cfg.max_peers)
        return AMPH_ERR_RANGE;

    struct amph_ofi_peer *p = &cx->peer[peer];
    if (__atomic_load_n(&p->state, __ATOMIC_RELAXED) != OFI_PEER_NONE)
        return AMPH_ERR_STATE;
    if (amph_ofi_set_address(cx, p, spec->addr, spec->addr_len) != AMPH_OK)
        return AMPH_ERR_PEER;

    p->again_ns = p->unheard_s = p->unacked = 0;
    p->pack_counts = (struct amph_cx_counts){ 0 };
    p->cookie_in = spec->cookie_in;
    p->cookie_out = spec->cookie_out;
    p->remote_index = spec->remote_index;
    cx->npeers++;
    __atomic_store_n(&p->state, OFI_PEER_UP, __ATOMIC_RELEASE);

    return AMPH_OK;
}

void amph_ofi_del_peer(struct amph_cx *base, uint32_t peer)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    if (peer >= base->cfg.max_peers ||
        __atomic_load_n(&cx->peer[peer].state, __ATOMIC_RELAXED) == OFI_PEER_NONE)
        return;

    (void)amph_ofi_pack_first(cx, peer);
    __atomic_store_n(&cx->peer[peer].state, OFI_PEER_NONE, __ATOMIC_RELAXED);
    cx->npeers--;
    amph_ofi_pack_fail(cx, peer, AMPH_ERR_PEER);
    if (cx->peer[peer].addr != FI_ADDR_UNSPEC)
        fi_av_remove(cx->av, &cx->peer[peer].addr, 1, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datagram port over libfabric's udp provider (FI_EP_DGRAM).  Layer: conduits (ofi).  Thread
 * rule: see conduits/port.h.
 *
 * The provider accepts datagrams of up to 1472 bytes and moves one per system call, so this port is
 * slower than the kernel socket.  It serves hosts where libfabric is required, and comparisons.
 * Its socket is found among the process's descriptors, to sleep on it and to enlarge its receive
 * queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "conduits/inet.h"
#include "conduits/ofi/ofi.h"
#include "conduits/port.h"

#define BUFFERS 64u
#define BUFFER_BYTES 1536u
#define V6_MAX 1448u /* fits an Ethernet frame after IPv6's longer header */
#define WANTED_QUEUE (4 << 20)

struct buffer {
    struct fi_context2 fi;
    uint8_t *mem;
};

struct amph_ofi_port {
    struct amph_port base;
    uint32_t max_peers;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t *addr; /* [max_peers] */
    int fd;          /* the provider's socket; never closed by us */
    uint8_t *mem;
    struct buffer buffer[BUFFERS];
};

struct amph_ofi_set {
    struct amph_port_set base;
    uint64_t mem[AMPH_PORT_BATCH][BUFFER_BYTES / 8];
};

static struct amph_ofi_port *port_of(struct amph_port *port)
{
    return (struct amph_ofi_port *)port;
}

/* What is asked of libfabric.  NULL: no memory.  The caller frees it by fi_freeinfo. */
static struct fi_info *make_hints(const struct sockaddr_storage *src)
{
    struct fi_info *h = fi_allocinfo();

    if (!h)
        return NULL;

    h->caps = FI_MSG;
    h->ep_attr->type = FI_EP_DGRAM;
    h->domain_attr->threading = FI_THREAD_SAFE;
    h->fabric_attr->prov_name = strdup("udp");

    if (src) {
        h->addr_format = src->ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
        h->src_addrlen = amph_conduit_inet_len(src);
        h->src_addr = malloc(h->src_addrlen);
        if (h->src_addr)
            memcpy(h->src_addr, src, h->src_addrlen);
    }

    /* without the name libfabric would choose another provider */
    if (h->fabric_attr->prov_name && (!src || h->src_addr))
        return h;

    fi_freeinfo(h);
    return NULL;
}

static enum amph_status get_info(const struct sockaddr_storage *src, struct fi_info **info_p)
{
    amph_ofi_prepare();

    struct fi_info *h = make_hints(src);

    if (!h)
        return AMPH_ERR_NOMEM;

    int ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, info_p);

    fi_freeinfo(h);
    return ret ? AMPH_ERR_NOSYS : AMPH_OK;
}

static enum amph_status port_probe(char *why, size_t why_len)
{
    struct fi_info *info;
    uint32_t v = fi_version();
    enum amph_status st = get_info(NULL, &info);

    if (st != AMPH_OK) {
        snprintf(why, why_len,
                 "libfabric %u.%u has no provider udp; see fi_info, and FI_PROVIDER if it is set",
                 FI_MAJOR(v), FI_MINOR(v));
        return st;
    }

    snprintf(why, why_len,
             "libfabric %u.%u, provider udp: datagrams of %zu bytes, one in a system call",
             FI_MAJOR(v), FI_MINOR(v), info->ep_attr->max_msg_size);
    fi_freeinfo(info);
    return AMPH_OK;
}

static void port_close(struct amph_port *base)
{
    struct amph_ofi_port *p = port_of(base);
    struct fid *fid[] = { p->ep ? &p->ep->fid : NULL, p->cq ? &p->cq->fid : NULL,
                          p->av ? &p->av->fid : NULL, p->domain ? &p->domain->fid : NULL,
                          p->fabric ? &p->fabric->fid : NULL };

    for (size_t i = 0; i < AMPH_COUNTOF(fid); i++)
        if (fid[i])
            fi_close(fid[i]);

    if (p->info)
        fi_freeinfo(p->info);

    free(p->addr);
    free(p->mem);
    free(p);
}

static int open_objects(struct amph_ofi_port *p)
{
    struct fi_cq_attr cq = { .size = 4 * BUFFERS,
                             .format = FI_CQ_FORMAT_MSG,
                             .wait_obj = FI_WAIT_NONE };
    struct fi_av_attr av = { .type = FI_AV_TABLE,
                             .count = p->max_peers < 1024 ? p->max_peers : 1024 };
    int ret;

    if ((ret = fi_fabric(p->info->fabric_attr, &p->fabric, NULL)) ||
        (ret = fi_domain(p->fabric, p->info, &p->domain, NULL)) ||
        (ret = fi_cq_open(p->domain, &cq, &p->cq, NULL)) ||
        (ret = fi_av_open(p->domain, &av, &p->av, NULL)) ||
        (ret = fi_endpoint(p->domain, p->info, &p->ep, NULL)) ||
        (ret = fi_ep_bind(p->ep, &p->cq->fid, FI_TRANSMIT | FI_RECV)) ||
        (ret = fi_ep_bind(p->ep, &p->av->fid, 0)))
        return ret;

    return fi_enable(p->ep);
}

/* Is fd the datagram socket bound to sa? */
static bool is_bound_to(int fd, const void *arg)
{
    const struct sockaddr_storage *sa = arg;
    struct sockaddr_storage own;
    struct stat sb;
    int type = 0;
    socklen_t len = sizeof type;
    uint8_t a[AMPH_ADDR_MAX_BYTES], b[AMPH_ADDR_MAX_BYTES];

    if (fstat(fd, &sb) != 0 || !S_ISSOCK(sb.st_mode) ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_DGRAM)
        return false;

    memset(&own, 0, sizeof own);
    len = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 || own.ss_family != sa->ss_family)
        return false;

    size_t n = amph_conduit_inet_put(&own, a);

    return n == amph_conduit_inet_put(sa, b) && memcmp(a, b, n) == 0;
}

static void use_socket(struct amph_ofi_port *p)
{
    int bytes = WANTED_QUEUE;
    socklen_t len = sizeof bytes;

    p->base.queue_bytes = 100000; /* of the usual 212,992 */
    if (p->fd < 0)
        return;

    fcntl(p->fd, F_SETFD, FD_CLOEXEC);
    if (setsockopt(p->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);

    if (getsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) == 0 && bytes >= 65536)
        p->base.queue_bytes = (uint64_t)bytes / 2;
}

static bool post(struct amph_ofi_port *p, struct buffer *b)
{
    return fi_recv(p->ep, b->mem, BUFFER_BYTES, NULL, FI_ADDR_UNSPEC, b) == 0;
}

static enum amph_status start(struct amph_ofi_port *p, const struct amph_port_config *cfg)
{
    struct sockaddr_storage sa;
    enum amph_status st = amph_conduit_inet_choose(cfg->conduit, cfg->loopback_only, cfg->interface,
                                                   &sa);

    if (st == AMPH_OK)
        st = get_info(&sa, &p->info);

    if (st != AMPH_OK)
        return st;

    size_t len = sizeof sa;
    int ret = open_objects(p);

    if (ret == 0)
        ret = fi_getname(&p->ep->fid, &sa, &len);

    if (ret) {
        amph_error("libfabric's provider udp cannot open an endpoint: %s; AMPHORA_UDP_PORT=socket "
                   "does without it",
                   fi_strerror(-ret));
        return amph_status_from_fi(ret);
    }

    uint32_t max = p->info->ep_attr->max_msg_size < BUFFER_BYTES
                       ? (uint32_t)p->info->ep_attr->max_msg_size
                       : BUFFER_BYTES;

    if (sa.ss_family == AF_INET6 && max > V6_MAX)
        max = V6_MAX;

    p->base.datagram = max & ~7u;
    p->fd = amph_ofi_find_fd(is_bound_to, &sa);
    use_socket(p);
    p->base.addr_len = amph_conduit_inet_put_port(&sa, p->base.datagram, p->base.addr);

    for (unsigned i = 0; i < BUFFERS; i++) {
        p->buffer[i].mem = p->mem + (size_t)i * BUFFER_BYTES;
        if (!post(p, &p->buffer[i]))
            return AMPH_ERR_NOMEM;
    }

    return AMPH_OK;
}

static enum amph_status port_open(const struct amph_port_config *cfg, struct amph_port **port_p)
{
    struct amph_ofi_port *p = calloc(1, sizeof *p);

    if (!p)
        return AMPH_ERR_NOMEM;

    p->base.ops = &amph_conduit_port_ofi_ops;
    p->fd = -1;
    p->max_peers = cfg->max_peers;
    p->addr = malloc(cfg->max_peers * sizeof *p->addr);
    p->mem = malloc((size_t)BUFFERS * BUFFER_BYTES);
    for (uint32_t i = 0; p->addr && i < cfg->max_peers; i++)
        p->addr[i] = FI_ADDR_UNSPEC;

    enum amph_status st = p->addr && p->mem ? start(p, cfg) : AMPH_ERR_NOMEM;

    if (st != AMPH_OK) {
        port_close(&p->base);
        return st;
    }

    *port_p = &p->base;
    return AMPH_OK;
}

static enum amph_status port_add_peer(struct amph_port *base, uint32_t peer, const void *addr,
                                      size_t addr_len, uint32_t *datagram_p)
{
    struct amph_ofi_port *p = port_of(base);
    struct sockaddr_storage sa;
    uint32_t takes;

    if (peer >= p->max_peers)
        return AMPH_ERR_RANGE;
    if (amph_conduit_inet_get_port(addr, addr_len, &sa, &takes) != AMPH_OK)
        return AMPH_ERR_PROTO;
    if (p->addr[peer] != FI_ADDR_UNSPEC)
        return AMPH_ERR_STATE;

    if (fi_av_insert(p->av, &sa, 1, &p->addr[peer], 0, NULL) != 1) {
        p->addr[peer] = FI_ADDR_UNSPEC;
        return AMPH_ERR_PEER;
    }

    *datagram_p = takes < base->datagram ? takes : base->datagram;
    return AMPH_OK;
}

static void port_del_peer(struct amph_port *base, uint32_t peer)
{
    struct amph_ofi_port *p = port_of(base);

    if (peer >= p->max_peers || p->addr[peer] == FI_ADDR_UNSPEC)
        return;

    fi_av_remove(p->av, &p->addr[peer], 1, 0);
    p->addr[peer] = FI_ADDR_UNSPEC;
}

/* Sends the datagrams one by one with fi_inject, the provider's fastest way. */
static unsigned port_send(struct amph_port *base, const struct amph_port_out *v, unsigned n)
{
    struct amph_ofi_port *p = port_of(base);
    uint64_t text[BUFFER_BYTES / 8];

    for (unsigned i = 0; i < n; i++) {
        size_t len = 0;

        if (v[i].len_bytes > sizeof text || p->addr[v[i].peer] == FI_ADDR_UNSPEC)
            continue; /* as if it had been lost */

        for (unsigned k = 0; k < v[i].nparts; k++) {
            memcpy((uint8_t *)text + len, v[i].part[k].at, v[i].part[k].len_bytes);
            len += v[i].part[k].len_bytes;
        }

        ssize_t ret = fi_inject(p->ep, text, len, p->addr[v[i].peer]);
        if (ret == -FI_EAGAIN || ret == -FI_ENOBUFS)
            return i;
    }

    return n;
}

static unsigned port_recv(struct amph_port *base, struct amph_port_set **set_p)
{
    struct amph_ofi_port *p = port_of(base);
    struct amph_ofi_set *s = *set_p ? (struct amph_ofi_set *)*set_p : calloc(1, sizeof *s);

    if (!s)
        return 0;

    *set_p = &s->base;
    s->base.at = s->base.end = 0;

    while (s->base.end < AMPH_PORT_BATCH) {
        struct fi_cq_msg_entry e;
        ssize_t ret = fi_cq_read(p->cq, &e, 1);
        struct fi_cq_err_entry err = { 0 };

        if (ret == -FI_EAVAIL && fi_cq_readerr(p->cq, &err, 0) == 1 && err.op_context)
            post(p, err.op_context);

        if (ret != 1)
            break;

        struct buffer *b = e.op_context;
        if (!b || !(e.flags & FI_RECV))
            continue;

        if (e.len <= sizeof s->mem[0]) {
            memcpy(s->mem[s->base.end], b->mem, e.len);
            s->base.in[s->base.end] = (struct amph_port_in){ s->mem[s->base.end], e.len };
            s->base.end++;
        }

        post(p, b);
    }

    return s->base.end;
}

/* Datagrams are received into buffers that were posted before. */
static size_t port_peek(struct amph_port *base, void *head, size_t room)
{
    return 0;
}

static bool port_take(struct amph_port *base, const struct amph_port_in_parts *parts)
{
    return false;
}

static void port_free_set(struct amph_port *base, struct amph_port_set *set)
{
    free(set);
}

static uint32_t port_refused(struct amph_port *base)
{
    return UINT32_MAX; /* the provider does not report refusals */
}

static int port_fd(struct amph_port *base)
{
    return port_of(base)->fd;
}

static bool port_queued(struct amph_port *base)
{
    return false; /* a look would take completions */
}

/* Returns true if nothing is queued.  The provider may have received a datagram that has not
 * been read from its completion queue, so that queue must be empty too. */
static bool port_idle(struct amph_port *base)
{
    struct fi_cq_msg_entry none;
    return fi_cq_read(port_of(base)->cq, &none, 0) == -FI_EAGAIN;
}

const struct amph_port_ops amph_conduit_port_ofi_ops = {
    .name = "ofi",
    .probe = port_probe,
    .open = port_open,
    .close = port_close,
    .add_peer = port_add_peer,
    .del_peer = port_del_peer,
    .send = port_send,
    .recv = port_recv,
    .peek = port_peek,
    .take = port_take,
    .free_set = port_free_set,
    .queued = port_queued,
    .refused = port_refused,
    .fd = port_fd,
    .idle = port_idle,
};

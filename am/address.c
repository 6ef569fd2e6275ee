/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of endpoints, and the choice of the conduit for a peer.  Layer: am.
 * Thread rule: add_peer and del_peer take the send lock.
 *
 * Address bytes: version u16, flags u8, machine u64, host u64, smp address blob, network's name
 * blob, network's protocol u32, its provider's name blob, network's address blob.
 */
#include "am/address.h"
#include "am/am.h"
#include "base/auth.h"
#include "conduits/conduit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/log.h"
#include "base/wire.h"

enum {
    ADDRESS_VERSION = 3,
    FLAG_SMP = 1,
    FLAG_NARROW = 2 /* 32-bit pointers */
};

static uint64_t hash(uint64_t h, const void *bytes, size_t len_bytes)
{
    const uint8_t *p = bytes; /* FNV-1a */

    for (size_t i = 0; i < len_bytes; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);

    return h;
}

static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

uint64_t amph_am_host_id(const char *host_name)
{
    struct utsname u;

    if ((!host_name || !host_name[0]) && uname(&u) == 0)
        host_name = u.nodename;

    return host_name ? hash(hash_start, host_name, strlen(host_name)) : 0;
}

/* Returns a number that is equal in processes that can use shared memory with each other:
 * processes under one running kernel and in one process name space, which can map each other's
 * memory; in one network name space, because doorbells use abstract socket names; and of one
 * byte order, pointer width and processor (an emulated one counts as different), because the
 * rings hold words in the machine's representation and memory order. */
static uint64_t machine_id(void)
{
    static const char *const spaces[] = { "/proc/self/ns/pid", "/proc/self/ns/net" };
    const uint8_t kind[] = { AMPH_BIG_ENDIAN, amph_pointer_bytes() };
    char boot_id[64];
    struct stat ns;
    struct utsname u;
    uint64_t h = hash(hash_start, kind, sizeof kind);

    if (uname(&u) == 0)
        h = hash(h, u.machine, strlen(u.machine));

    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t n = read(fd, boot_id, sizeof boot_id);

        if (n > 0)
            h = hash(h, boot_id, (size_t)n);

        close(fd);
    }

    for (size_t i = 0; i < AMPH_COUNTOF(spaces); i++)
        if (stat(spaces[i], &ns) == 0)
            h = hash(h, &ns.st_ino, sizeof ns.st_ino);

    return h;
}

enum amph_status amph_am_address_make(struct amph_am_ep *ep)
{
    const struct amph_cx *smp = ep->cx[AMPH_CX_SMP];
    const struct amph_cx *net = ep->cx[AMPH_CX_NET];
    const char *provider = net && net->provider ? net->provider : "";
    struct amph_wr w;

    amph_wr_init(&w, ep->addr, sizeof ep->addr);
    amph_wr_u16(&w, ADDRESS_VERSION);
    amph_wr_u8(&w, (uint8_t)((ep->cfg.use_smp ? FLAG_SMP : 0) |
                             (amph_pointer_bytes() == 4 ? FLAG_NARROW : 0)));
    amph_wr_u64(&w, machine_id());
    amph_wr_u64(&w, ep->cfg.host_id);
    amph_wr_blob(&w, smp->addr, smp->addr_len);
    amph_wr_blob(&w, net ? net->ops->name : "", net ? strlen(net->ops->name) : 0);
    amph_wr_u32(&w, net ? net->protocol : 0);
    amph_wr_blob(&w, provider, strnlen(provider, AMPH_PROVIDER_MAX_BYTES));
    amph_wr_blob(&w, net ? net->addr : NULL, net ? net->addr_len : 0);
    ep->addr_len = amph_wr_len(&w);

    return w.bad ? AMPH_ERR_RANGE : AMPH_OK;
}

const void *amph_am_address(struct amph_am_ep *ep, size_t *len_bytes_p)
{
    *len_bytes_p = ep->addr_len;
    return ep->addr;
}

enum amph_status amph_am_address_parse(const void *bytes, size_t len_bytes,
                                       struct amph_address *addr_p)
{
    struct amph_rd r;

    amph_rd_init(&r, bytes, len_bytes);
    if (amph_rd_u16(&r) != ADDRESS_VERSION)
        return AMPH_ERR_PROTO;

    uint8_t flags = amph_rd_u8(&r);

    addr_p->smp_allowed = flags & FLAG_SMP;
    addr_p->narrow = flags & FLAG_NARROW;
    addr_p->machine = amph_rd_u64(&r);
    addr_p->host = amph_rd_u64(&r);
    addr_p->smp = amph_rd_blob(&r, &addr_p->smp_len);
    addr_p->net_name = amph_rd_blob(&r, &addr_p->net_name_len);
    addr_p->protocol = amph_rd_u32(&r);
    addr_p->provider = amph_rd_blob(&r, &addr_p->provider_len);
    addr_p->net = amph_rd_blob(&r, &addr_p->net_len);
    if (r.bad || amph_rd_left(&r) || addr_p->smp_len > AMPH_ADDR_MAX_BYTES ||
        addr_p->net_len > AMPH_ADDR_MAX_BYTES || addr_p->provider_len > AMPH_PROVIDER_MAX_BYTES)
        return AMPH_ERR_PROTO;

    return AMPH_OK;
}

/* Do both sides have the same network, by its name? */
static bool is_same_network(const struct amph_cx *net, const struct amph_address *to)
{
    return to->net_name_len == strlen(net->ops->name) &&
           memcmp(to->net_name, net->ops->name, to->net_name_len) == 0;
}

/* Returns the conduit by which both sides reach each other; both sides decide by the same facts.
 * NULL: no conduit; say_why has the reason. */
static struct amph_cx *choose(struct amph_am_ep *ep, const struct amph_address *to, bool self)
{
    struct amph_address mine = { 0 };
    struct amph_cx *smp = ep->cx[AMPH_CX_SMP];
    struct amph_cx *net = ep->cx[AMPH_CX_NET];

    if (self)
        return smp;
    if (amph_am_address_parse(ep->addr, ep->addr_len, &mine) == AMPH_OK && ep->cfg.use_smp &&
        to->smp_allowed && to->machine == mine.machine && to->host == mine.host)
        return smp;

    if (!net || !is_same_network(net, to) || to->protocol != net->protocol)
        return NULL;

    return to->narrow == mine.narrow || !ep->cx[AMPH_CX_EMULATED] ? net : ep->cx[AMPH_CX_EMULATED];
}

/* Writes why choose has found no conduit, or why the network's conduit has not taken the address. */
static void say_why(const struct amph_am_ep *ep, const struct amph_address *to,
                    struct amph_am_why *why)
{
    const struct amph_cx *net = ep->cx[AMPH_CX_NET];
    const char *peer = why->peer;
    const char *self = why->self;
    const char *provider = net && net->provider ? net->provider : "";

    if (!net || to->net_name_len == 0)
        snprintf(
            why->text, sizeof why->text,
            "%s is on another host than %s, or a process of another kind of machine (or shared "
            "memory is off, AMPHORA_SMP=0), and %s has no network; choose one, for instance "
            "AMPHORA_CONDUIT=tcp",
            peer, self, net ? peer : self);
    else if (!is_same_network(net, to))
        snprintf(why->text, sizeof why->text,
                 "%s uses the network '%.*s' and %s '%s'; give both the same AMPHORA_CONDUIT, and "
                 "the same FI_PROVIDER if it is set",
                 peer, (int)to->net_name_len, (const char *)to->net_name, self, net->ops->name);
    else if (to->protocol == net->protocol)
        snprintf(
            why->text, sizeof why->text,
            "%s has a network address of another kind than %s, as IPv4 and IPv6 are; give both "
            "one of the same kind (AMPHORA_INTERFACE)",
            peer, self);
    else if (to->provider_len == strnlen(provider, AMPH_PROVIDER_MAX_BYTES) &&
             memcmp(to->provider, provider, to->provider_len) == 0)
        snprintf(why->text, sizeof why->text,
                 "%s and %s have versions of Amphora whose messages over the network %s differ; "
                 "give both the same version",
                 peer, self, net->ops->name);
    else
        snprintf(why->text, sizeof why->text,
                 "%s runs the network %s on libfabric's provider %.*s and %s on its provider %s, "
                 "which do not reach each other; give both the same FI_PROVIDER",
                 peer, net->ops->name, (int)to->provider_len,
                 to->provider_len ? (const char *)to->provider : "", self,
                 *provider ? provider : "?");
}

/* Gives the reason to the caller; logs it if the caller has not asked for it. */
static void report_why(const struct amph_am_ep *ep, const struct amph_address *to, uint32_t peer,
                       struct amph_am_why *why)
{
    char name[32];
    struct amph_am_why own = { .peer = name, .self = "this process" };

    if (why) {
        say_why(ep, to, why);
        return;
    }

    snprintf(name, sizeof name, "peer %u", peer);
    say_why(ep, to, &own);
    amph_error("%s: %s", ep->cfg.name, own.text);
}

static bool is_own(const struct amph_am_ep *ep, const void *addr, size_t addr_len)
{
    return addr_len == ep->addr_len && memcmp(addr, ep->addr, addr_len) == 0;
}

static void activate(struct amph_am_ep *ep, struct amph_cx *cx)
{
    for (unsigned i = 0; i < ep->nactive; i++)
        if (ep->active[i].cx == cx)
            return;

    if (cx == ep->cx[AMPH_CX_EMULATED]) {
        amph_info(
            "%s: there are hosts of 32 and of 64 bits; put and get between them go by messages",
            ep->cfg.name);
        activate(ep, ep->cx[AMPH_CX_NET]);
    }

    ep->active[ep->nactive].cx = cx;
    ep->active[ep->nactive].progress = cx->ops->progress;
    ep->networked |= cx == ep->cx[AMPH_CX_NET];
    ep->windowed |= !cx->caps.self_flow;
    ep->flushes |= cx->ops->flush != amph_conduit_no_flush;
    __atomic_store_n(&ep->nactive, ep->nactive + 1, __ATOMIC_RELEASE);
}

/* Adds a peer that is reached over cx.  self: it is this process.  The caller holds the endpoint's lock. */
static enum amph_status add_by(struct amph_am_ep *ep, struct amph_cx *cx, uint32_t peer,
                               const struct amph_peer_spec *spec, bool self)
{
    struct amph_peer *p = &ep->peer[peer];
    enum amph_status st = p->cx ? AMPH_ERR_STATE : cx->ops->add_peer(cx, peer, spec);

    if (st != AMPH_OK)
        return st;

    *p = (struct amph_peer){ .send = cx->ops->am_send,
                             .cx = cx,
                             .windowed = !cx->caps.self_flow,
                             .window = AMPH_AM_WINDOW,
                             .credits = AMPH_AM_WINDOW };
    if (self)
        ep->self = peer;
    if (peer >= ep->peers_end)
        ep->peers_end = peer + 1;

    amph_ep_lost_forget(ep, peer);

    p->fast = ep->threaded || p->windowed || self ? NULL : p->send;
    activate(ep, cx);
    return AMPH_OK;
}

enum amph_status amph_am_add_peer(struct amph_am_ep *ep, uint32_t peer, const void *addr,
                                  size_t addr_len, uint32_t remote_index, uint32_t my_id,
                                  uint32_t peer_id, struct amph_am_why *why)
{
    struct amph_address to;

    if (why)
        why->text[0] = 0;

    if (peer >= ep->max_peers)
        return AMPH_ERR_RANGE;

    enum amph_status st = amph_am_address_parse(addr, addr_len, &to);

    if (st != AMPH_OK && why)
        snprintf(why->text, sizeof why->text, "the address of %s is malformed", why->peer);
    if (st != AMPH_OK)
        return st;

    bool self = is_own(ep, addr, addr_len);
    struct amph_cx *cx = choose(ep, &to, self);

    if (!cx) {
        report_why(ep, &to, peer, why);
        return AMPH_ERR_PEER;
    }

    bool by_smp = cx == ep->cx[AMPH_CX_SMP];
    const struct amph_peer_spec spec = {
        .addr = by_smp ? to.smp : to.net,
        .addr_len = by_smp ? to.smp_len : to.net_len,
        .remote_index = remote_index,
        .cookie_out = amph_cookie(ep->cfg.key, ep->cfg.domain, my_id, peer_id),
        .cookie_in = amph_cookie(ep->cfg.key, ep->cfg.domain, peer_id, my_id),
    };

    amph_ep_lock(ep);
    st = add_by(ep, cx, peer, &spec, self);
    amph_ep_unlock(ep);

    if (st == AMPH_ERR_PEER && !by_smp && to.net_len != ep->cx[AMPH_CX_NET]->addr_len)
        report_why(ep, &to, peer, why);

    return st;
}

void amph_am_del_peer(struct amph_am_ep *ep, uint32_t peer)
{
    if (peer >= ep->max_peers)
        return;

    amph_ep_lock(ep);

    struct amph_peer *p = &ep->peer[peer];
    struct amph_cx *cx = p->cx;

    *p = (struct amph_peer){ 0 };
    if (cx)
        cx->ops->del_peer(cx, peer);

    amph_ep_unlock(ep);
}

void amph_am_peer_gone(struct amph_am_ep *ep, uint32_t peer)
{
    struct amph_cx *cx = peer < ep->max_peers ? ep->peer[peer].cx : NULL;
    if (cx)
        cx->ops->peer_gone(cx, peer);
}

bool amph_am_peer_is_local(struct amph_am_ep *ep, uint32_t peer)
{
    return peer < ep->max_peers && ep->peer[peer].cx && ep->peer[peer].cx == ep->cx[AMPH_CX_SMP];
}

const char *amph_am_peer_conduit(struct amph_am_ep *ep, uint32_t peer)
{
    return peer < ep->max_peers && ep->peer[peer].cx ? ep->peer[peer].cx->ops->name : "none";
}

void amph_am_peer_failed(struct amph_am_ep *ep, uint32_t peer, enum amph_status st, const char *why)
{
    if (peer >= ep->max_peers || !ep->peer[peer].cx ||
        __atomic_exchange_n(&ep->peer[peer].dead, true, __ATOMIC_RELAXED))
        return;

    ep->peer[peer].fast = NULL;
    __atomic_store_n(&ep->peer[peer].send, NULL, __ATOMIC_RELAXED);

    if (ep->cfg.on_peer_error)
        ep->cfg.on_peer_error(ep, peer, st, why);
    else
        amph_fatal("%s: peer %u cannot be reached any more: %s", ep->cfg.name, peer, why);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links to servers: finds a server's address, connects, and greets it (wire/handshake.h), as a client or for one
 * purpose only.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 */
#include "am/am.h"
#include "base/auth.h"
#include "base/wire.h"
#include "iofwd/client/client.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "iofwd/client/data/stripe.h"

#define LOOKUP_NS (30 * AMPH_NS_PER_S)

static enum amph_status look_up(struct amph_fwd_client *cl, uint32_t server,
                                struct amph_fwd_server_addr *addr_p)
{
    void *value;
    size_t len;

    pthread_mutex_lock(&cl->boot_lock);

    enum amph_status st = amph_boot_lookup(cl->boot, server, FWD_CONTROL_KEY, LOOKUP_NS, &value,
                                           &len);

    pthread_mutex_unlock(&cl->boot_lock);
    if (st != AMPH_OK)
        return st;

    bool ok = amph_fwd_server_addr_parse(value, len, addr_p);

    free(value);
    return ok ? AMPH_OK : AMPH_ERR_PROTO;
}

bool amph_client_server_address(struct amph_fwd_client *cl, uint32_t server,
                                struct amph_fwd_server_addr *addr_p)
{
    return look_up(cl, server, addr_p) == AMPH_OK;
}

/* Until when a server must have answered: while the client is opened, its share of the whole time. */
static uint64_t deadline(const struct amph_fwd_client *cl)
{
    return cl->give_up_ns ? cl->give_up_ns : amph_now_ns() + FWD_CONTROL_TIMEOUT_NS;
}

static enum amph_status connect_to(const struct amph_fwd_client *cl, uint32_t server,
                                   const struct amph_fwd_server_addr *addr, uint64_t deadline_ns,
                                   int *fd_p)
{
    bool same_host = amph_client_host_of(cl, server) == amph_client_host_of(cl, cl->rank);

    return amph_fwd_control_connect(addr, same_host, deadline_ns, fd_p);
}

static enum amph_status connect_link(struct amph_fwd_client *cl, struct amph_client_link *link,
                                     uint64_t deadline_ns, int *fd_p)
{
    enum amph_status st = look_up(cl, link->server, &link->address);

    link->has_address = st == AMPH_OK;
    return st == AMPH_OK ? connect_to(cl, link->server, &link->address, deadline_ns, fd_p) : st;
}

/* Moves the connection to a high descriptor number, away from those that the program expects to
 * get. */
static int move_up(int fd)
{
    int up = fcntl(fd, F_DUPFD_CLOEXEC, AMPH_CLIENT_FDS_FROM);

    if (up < 0)
        return fd;

    close(fd);
    return up;
}

static void fill_hello(const struct amph_fwd_client *cl, const struct amph_client_link *link,
                       struct amph_fwd_hello *h)
{
    *h = (struct amph_fwd_hello){ .big_endian = AMPH_BIG_ENDIAN != amph_wire_swapped,
                                  .pointer_bytes = amph_pointer_bytes(),
                                  .page_bytes = (uint32_t)amph_page_bytes(),
                                  .rank = cl->hello_rank,
                                  .number = cl->number,
                                  .child = FWD_NUMBER_NONE,
                                  .pid = (uint32_t)getpid(),
                                  .index = link->server - cl->first };
}

/* Assigns a part of the transfer area to the link, if one is left. */
static void give_part(struct amph_fwd_client *cl, struct amph_client_link *link,
                      struct amph_fwd_hello *h)
{
    if (cl->parts_used >= cl->nparts)
        return;

    h->part_at = (uint64_t)cl->parts_used * cl->part_bytes;
    h->part_len = cl->part_bytes;
    h->area_key = cl->area_mem.key;
    h->area_key_len = cl->area_mem.key_len;
    link->part = cl->area + h->part_at;
    cl->parts_used++;
    atomic_store(&link->slots, cl->nslots == 64 ? ~UINT64_C(0) : (UINT64_C(1) << cl->nslots) - 1);
}

/* Takes back the last assigned part, after a link could not be opened. */
static void take_part_back(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    if (!link->part)
        return;

    link->part = NULL;
    cl->parts_used--;
    atomic_store(&link->slots, 0);
}

/* Returns the inherited control connection to this server, the first time only; else -1. */
static int inherited_control_fd(uint32_t server)
{
    struct amph_client_inherited *inh = &amph_client_state.inherited;

    for (uint32_t i = 0; inh->any && i < inh->n; i++)
        if (inh->server[i] == server && inh->control_fd[i] >= 0) {
            int fd = inh->control_fd[i];

            inh->control_fd[i] = -1;
            fcntl(fd, F_SETFD, FD_CLOEXEC); /* exec left it open for this image only */
            return fd;
        }

    return -1;
}

/* Greets the server on fd with what it needs to make this process its client.  FWD_HELLO_AGAIN: fd has
 * been the connection of this process's previous image. */
static enum amph_status greet_as_client(struct amph_fwd_client *cl, struct amph_client_link *link,
                                        uint8_t kind, int fd, uint64_t until_ns,
                                        struct amph_fwd_welcome *wc)
{
    uint8_t *buf = malloc(FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX);
    struct amph_fwd_hello h;

    if (!buf)
        return AMPH_ERR_NOMEM;

    fill_hello(cl, link, &h);
    h.kind = kind;
    h.addr = amph_am_address(cl->ep, &h.addr_len);
    give_part(cl, link, &h);

    enum amph_status st = amph_fwd_control_greet(fd, cl->job->key, &h, kind == FWD_HELLO_AGAIN,
                                                 until_ns, buf, wc);

    if (st == AMPH_OK && wc->server != link->server)
        st = AMPH_ERR_PROTO;

    /* the address is in buf */
    if (st == AMPH_OK && wc->index != FWD_INDEX_NONE)
        st = amph_am_add_peer(cl->ep, link->server - cl->first, wc->addr, wc->addr_len, wc->index,
                              wc->number, link->server, NULL);

    free(buf);
    return st;
}

/* Makes the link usable, whose control connection is control_fd from now on. */
static void set_ready(struct amph_fwd_client *cl, struct amph_client_link *link, int control_fd,
                      uint32_t number)
{
    cl->number = number;
    link->near = amph_am_peer_is_local(cl->ep, link->server - cl->first);
    link->cookie = amph_cookie(cl->job->key, 3, number, link->server);
    link->control_fd = control_fd;
    link->child_control_fd = -1;
    amph_am_watch_fd(cl->ep, control_fd);
    atomic_store_explicit(&link->state, AMPH_CLIENT_LINK_READY, memory_order_release);
}

enum amph_status amph_client_link_open(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    struct amph_fwd_welcome wc;
    int fd = inherited_control_fd(link->server);
    bool again = fd >= 0;
    uint64_t until = deadline(cl);
    enum amph_status st = again ? AMPH_OK : connect_link(cl, link, until, &fd);

    if (st != AMPH_OK)
        return st;

    st = greet_as_client(cl, link, again ? FWD_HELLO_AGAIN : FWD_HELLO_NEW, fd, until, &wc);
    if (st == AMPH_OK && wc.index == FWD_INDEX_NONE)
        st = AMPH_ERR_PROTO;

    if (st == AMPH_OK) {
        set_ready(cl, link, again ? fd : move_up(fd), wc.number);
        return AMPH_OK;
    }

    if (st == AMPH_ERR_FULL) /* the link may be tried again */
        take_part_back(cl, link);

    close(fd);
    return st;
}

/* Selects the servers that the client uses: `width` of those that the registrar named. */
static void take_servers(struct amph_fwd_client *cl, const struct amph_fwd_welcome *wc)
{
    uint32_t width = amph_client_stripe_width();

    cl->nservers = width < wc->nservers ? width : wc->nservers;
    memcpy(cl->servers, wc->servers, cl->nservers * sizeof cl->servers[0]);
}

/* Greets the server on fd without an endpoint; see amph_client_handshake. */
static enum amph_status greet(struct amph_fwd_client *cl, const struct amph_client_link *link,
                              uint8_t kind, uint32_t child, int fd, uint64_t until_ns,
                              struct amph_fwd_welcome *wc)
{
    const size_t bytes = FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX;
    struct amph_fwd_hello h;

    /* not by malloc: the handler of a signal may fork that has come in the midst of one */
    uint8_t *buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (buf == MAP_FAILED)
        return AMPH_ERR_NOMEM;

    fill_hello(cl, link, &h);
    h.kind = kind;
    h.child = child;

    enum amph_status st = amph_fwd_control_greet(fd, cl->job->key, &h, false, until_ns, buf, wc);

    munmap(buf, bytes);
    return st;
}

int amph_client_watch_server(struct amph_fwd_client *cl, uint32_t server, uint8_t *buf)
{
    struct amph_fwd_hello h = amph_fwd_watch_hello();
    struct amph_fwd_server_addr addr;
    struct amph_fwd_welcome wc;
    uint64_t until = deadline(cl);
    int fd = -1;

    if (look_up(cl, server, &addr) != AMPH_OK ||
        connect_to(cl, server, &addr, until, &fd) != AMPH_OK)
        return -1;
    if (amph_fwd_control_greet(fd, cl->job->key, &h, false, until, buf, &wc) == AMPH_OK)
        return fd;

    close(fd);
    return -1;
}

enum amph_status amph_client_handshake(struct amph_fwd_client *cl,
                                       const struct amph_client_link *link, uint8_t kind,
                                       uint32_t child, struct amph_fwd_welcome *wc, int *fd_p)
{
    struct amph_fwd_server_addr addr = link->address;
    uint64_t until = deadline(cl);
    enum amph_status st = link->has_address ? AMPH_OK : look_up(cl, link->server, &addr);

    if (st == AMPH_OK)
        st = connect_to(cl, link->server, &addr, until, fd_p);
    if (st != AMPH_OK)
        return st;

    st = greet(cl, link, kind, child, *fd_p, until, wc);
    if (st != AMPH_OK)
        close(*fd_p);

    return st;
}

enum amph_status amph_client_link_join(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    bool numbered = cl->number != FWD_NUMBER_NONE;
    struct amph_fwd_welcome wc;
    uint64_t until = deadline(cl);
    int fd;
    enum amph_status st = connect_link(cl, link, until, &fd);

    if (st != AMPH_OK)
        return st;

    st = numbered ? greet(cl, link, FWD_HELLO_JOIN, FWD_NUMBER_NONE, fd, until, &wc)
                  : greet_as_client(cl, link, FWD_HELLO_JOIN, fd, until, &wc);
    if (st == AMPH_OK &&
        (wc.nservers == 0 || wc.servers[0] < cl->first || wc.servers[0] - cl->first >= cl->nlinks))
        st = AMPH_ERR_PROTO;

    if (st == AMPH_OK && wc.index != FWD_INDEX_NONE) {
        set_ready(cl, link, move_up(fd), wc.number);
        take_servers(cl, &wc);
        return AMPH_OK;
    }

    if (!numbered)
        take_part_back(cl, link);

    close(fd);
    if (st != AMPH_OK)
        return st;

    if (!numbered)
        cl->number = wc.number;

    take_servers(cl, &wc);
    return AMPH_OK;
}

enum amph_status amph_client_make_memory(void *arg, size_t len_bytes, int *fd_p)
{
    struct amph_fwd_client *cl = arg;
    uint8_t *buf = malloc(FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX);
    enum amph_status st = buf ? AMPH_ERR_PEER : AMPH_ERR_NOMEM;

    for (uint32_t i = 0; buf && i < cl->nlinks && st != AMPH_OK; i++) {
        struct amph_client_link *link = &cl->link[i];
        struct amph_fwd_welcome wc = { .passed_fd = -1 };
        struct amph_fwd_hello h;
        uint64_t until = deadline(cl);
        int fd;

        if (amph_client_host_of(cl, link->server) != amph_client_host_of(cl, cl->rank) ||
            connect_link(cl, link, until, &fd) != AMPH_OK)
            continue;

        fill_hello(cl, link, &h);
        h.kind = FWD_HELLO_MEMORY;
        h.part_len = len_bytes;
        st = amph_fwd_control_greet(fd, cl->job->key, &h, false, until, buf, &wc);
        close(fd);

        if (st == AMPH_OK && wc.passed_fd < 0)
            st = AMPH_ERR_PROTO;

        if (st == AMPH_OK)
            *fd_p = wc.passed_fd;
    }

    free(buf);
    return st;
}

int amph_client_link_to(struct amph_fwd_client *cl, uint32_t server,
                        struct amph_client_link **link_p)
{
    if (server < cl->first || server - cl->first >= cl->nlinks)
        return EBADF;

    struct amph_client_link *link = &cl->link[server - cl->first];

    *link_p = link;

    uint32_t state = atomic_load_explicit(&link->state, memory_order_acquire);
    if (AMPH_LIKELY(state == AMPH_CLIENT_LINK_READY))
        return 0;
    if (state == AMPH_CLIENT_LINK_DEAD)
        return EIO;

    struct amph_client_sigguard g;
    enum amph_status st = AMPH_OK;

    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);

    if (atomic_load(&link->state) == AMPH_CLIENT_LINK_NONE) {
        st = amph_client_link_open(cl, link);
        if (st != AMPH_OK && st != AMPH_ERR_FULL)
            amph_client_link_dead(cl, link, amph_status_text(st));
    }

    state = atomic_load(&link->state);
    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(&g);
    if (st == AMPH_ERR_FULL)
        return ENFILE;

    return state == AMPH_CLIENT_LINK_READY ? 0 : EIO;
}

enum amph_status amph_client_link_child(struct amph_fwd_client *cl, struct amph_client_link *link,
                                        uint32_t *child_p)
{
    struct amph_fwd_welcome wc;
    int fd;
    enum amph_status st = amph_client_handshake(cl, link, FWD_HELLO_CHILD, *child_p, &wc, &fd);

    if (st != AMPH_OK)
        return st;

    *child_p = wc.number;
    link->child_control_fd = move_up(fd);
    return AMPH_OK;
}

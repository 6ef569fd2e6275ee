/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the file client of the process and its links to servers, and detects dead servers.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 */
#include "am/am.h"
#include "base/auth.h"
#include "base/wire.h"
#include "iofwd/client/client.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/marshal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "boot/control.h"
#include "boot/standing.h"
#include "iofwd/client/coalesce/coalesce.h"
#include "iofwd/client/versions.h"
#include "iofwd/client/recovery/failover.h"
#include "iofwd/client/attach/private_server.h"
#include "iofwd/client/data/passthrough.h"
#include "iofwd/client/lookups.h"
#include "iofwd/client/data/stripe.h"

#define LOOKUP_NS (30 * AMPH_NS_PER_S)
#define CLIENT_FDS 32 /* descriptors that opening a client needs at most */
#define SLOTS_MAX 64
#define AREA_MAX ((size_t)64 << 20) /* address space; pages are allocated on use */

static int host_fcntl(int fd, int command, void *arg)
{
    return fcntl(fd, command, arg);
}

static int host_openat2(int dir, const char *path, const struct open_how *how, size_t size)
{
    return (int)syscall(SYS_openat2, dir, path, how, size);
}

struct amph_client_state amph_client_state = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .layers.first = &amph_layer_forward,
    .host = { read, write, pread, pwrite, lseek, ftruncate, fsync, fdatasync, fstat, fstatat, statx,
              faccessat, readlinkat, host_openat2, close, host_fcntl, NULL },
    .fork.number_pipe = { -1, -1 },
    .private_server.fd = -1,
    .trace.fd = STDERR_FILENO,
    .files.lock = PTHREAD_MUTEX_INITIALIZER,
    .nonblocking.lock = PTHREAD_MUTEX_INITIALIZER,
    .nonblocking.work = PTHREAD_COND_INITIALIZER,
    .nonblocking.done = PTHREAD_COND_INITIALIZER,
};
_Thread_local struct amph_client_thread amph_client_thread;

/* ---- the handshake ---- */

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

/* The next of `left` servers gets half of the time until end_ns, and the last one all of it, so that
 * those that do not answer take no longer than a single one. */
static void give_share(struct amph_fwd_client *cl, uint64_t end_ns, uint32_t left)
{
    uint64_t now = amph_now_ns();
    uint64_t rest = end_ns > now ? end_ns - now : 0;

    cl->give_up_ns = now + (left > 1 ? rest / 2 : rest);
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

static enum amph_status open_link(struct amph_fwd_client *cl, struct amph_client_link *link)
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
    struct amph_fwd_hello h = { .kind = FWD_HELLO_WATCH,
                                .big_endian = AMPH_BIG_ENDIAN != amph_wire_swapped,
                                .pointer_bytes = sizeof(void *),
                                .rank = AMPH_RANK_NONE,
                                .number = FWD_NUMBER_NONE,
                                .child = FWD_NUMBER_NONE,
                                .pid = (uint32_t)getpid() };
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

/* Asks one server, as the registrar, for a client number and a list of servers.  A process that has no
 * number yet becomes its client at once, if the server is the first of that list. */
static enum amph_status ask_registrar(struct amph_fwd_client *cl, struct amph_client_link *link)
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

/* Creates shared memory for amph_shm_create if this process's limit of file sizes is too small for
 * it: a server on this host creates the object. */
static enum amph_status make_memory(void *arg, size_t len_bytes, int *fd_p)
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

/* Asks the registrar, which is server 0, or the next one if that is dead. */
static enum amph_status join_servers(struct amph_fwd_client *cl, uint64_t end_ns)
{
    enum amph_status st = AMPH_ERR_PEER;

    for (uint32_t i = 0; i < cl->nlinks && st != AMPH_OK && st != AMPH_ERR_FULL; i++) {
        give_share(cl, end_ns, cl->nlinks - i);
        st = ask_registrar(cl, &cl->link[i]);
    }

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
        st = open_link(cl, link);
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

/* ---- opening the client ---- */

/* Occupies all free small descriptor numbers while the client opens, so that the client's
 * descriptors get high ones.  If the limit of descriptors is low, leaves as many free as the client
 * needs. */
static int fill_small_fds(int fds[AMPH_CLIENT_FDS_FROM])
{
    struct rlimit may;
    int min = AMPH_CLIENT_FDS_FROM;
    int n = 0;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (getrlimit(RLIMIT_NOFILE, &may) == 0 && may.rlim_cur < AMPH_CLIENT_FDS_FROM + CLIENT_FDS)
        min = (int)may.rlim_cur - CLIENT_FDS;

    while (fd >= 0 && fd < min) {
        fds[n++] = fd;
        fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    }

    if (fd >= 0)
        close(fd);

    return n;
}

static enum amph_status open_area(struct amph_fwd_client *cl)
{
    struct amph_arena_part part;
    size_t page = amph_page_bytes();

    cl->piece = amph_env_size(AMPH_ENV_IOFWD_PIECE);
    cl->block = amph_env_size(AMPH_ENV_IOFWD_BLKSIZE);
    cl->nslots = (uint32_t)amph_env_int(AMPH_ENV_IOFWD_SLOTS);
    if (cl->nslots > SLOTS_MAX)
        cl->nslots = SLOTS_MAX;

    cl->nparts = cl->nlinks < AMPH_FWD_PARTS_MAX ? cl->nlinks : AMPH_FWD_PARTS_MAX;

    unsigned cores = amph_am_cores();

    cl->near_readers = cores + 1; /* one more than cores, so that no core idles between two */

    /* file systems serialise the writers of a file */
    cl->near_writers = cores > 2 ? cores - 1 : 1;
    cl->part_bytes = amph_area_part_bytes(page);
    while (cl->nparts > 1 && cl->nparts * cl->part_bytes > AREA_MAX)
        cl->nparts--;

    enum amph_status st = amph_arena_area(cl->part_bytes * cl->nparts, page, &part);
    if (st != AMPH_OK)
        return st;

    cl->area = part.base;
    if (part.len_bytes / cl->part_bytes < cl->nparts)
        cl->nparts = (uint32_t)(part.len_bytes / cl->part_bytes);

    return amph_am_mem_reg(cl->ep, part.base, part.len_bytes, part.fd, part.offset, &cl->area_mem);
}

static bool make_pends(struct amph_fwd_client *cl)
{
    uint8_t *mem = mmap(NULL, (size_t)AMPH_CLIENT_PENDING_MAX * AMPH_CLIENT_PENDING_BYTES,
                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mem == MAP_FAILED)
        return false;

    for (unsigned i = 0; i < AMPH_CLIENT_PENDING_MAX; i++)
        cl->pend[i].buf = mem + (size_t)i * AMPH_CLIENT_PENDING_BYTES;

    atomic_store(&cl->pends, ~UINT64_C(0));
    return true;
}

/* Sets the client's number and servers from the job description.  A process of no group asks the
 * registrar for them. */
static bool number_client(struct amph_fwd_client *cl)
{
    const struct amph_jobdesc *job = cl->job;

    cl->rank = amph_boot_self(cl->boot);
    cl->hello_rank = cl->rank == AMPH_RANK_NONE && job->nproc[AMPH_COMPUTE] == 0
                         ? amph_boot_foreign_rank()
                         : cl->rank;
    cl->first = amph_boot_first(cl->boot, AMPH_SERVER);
    cl->nlinks = job->nproc[AMPH_SERVER];
    cl->number = amph_client_state.inherited.any ? amph_client_state.inherited.number
                                                 : FWD_NUMBER_NONE;
    cl->failover = amph_client_failover_on();
    cl->pid = getpid();
    cl->link = calloc(cl->nlinks, sizeof *cl->link);
    if (!cl->link)
        return false;

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        cl->link[i].server = cl->first + i;
        cl->link[i].control_fd = cl->link[i].child_control_fd = -1;
    }

    if (cl->rank < job->nproc[AMPH_COMPUTE] && job->server_of) {
        uint32_t width = amph_client_stripe_width();
        uint32_t home = job->server_of[cl->rank] - cl->first;

        cl->nservers = width < cl->nlinks ? width : cl->nlinks;

        /* The default rule deals `width` servers to each client in turn.  Another rule names the
         * first one, and the others follow it. */
        if (home == cl->rank % cl->nlinks)
            home = (uint32_t)((uint64_t)cl->rank * cl->nservers % cl->nlinks);

        /* the ranks of an MPI program inside the job use different servers too */
        home += amph_boot_rank_inside(cl->boot) % cl->nlinks;
        for (uint32_t i = 0; i < cl->nservers; i++)
            cl->servers[i] = cl->first + (home + i) % cl->nlinks;
    }

    return true;
}

/* Skips a standing home server that is dead when the process attaches: it has none of the process's
 * files, so any other server can take its place. */
static void pass_over_home(struct amph_fwd_client *cl, enum amph_status why)
{
    uint32_t gone = cl->servers[0];

    if (cl->nservers > 1)
        memmove(cl->servers, cl->servers + 1, --cl->nservers * sizeof cl->servers[0]);
    else
        cl->servers[0] = cl->first + (gone - cl->first + 1) % cl->nlinks;

    amph_info("I/O server %" PRIu32
              " cannot be reached (%s): this process belongs to server %" PRIu32,
              amph_client_server_number(cl, gone), amph_status_text(why),
              amph_client_server_number(cl, cl->servers[0]));
}

/* Opens the client's first links: to its home server, and to servers with an inherited connection.
 */
static enum amph_status open_links(struct amph_fwd_client *cl)
{
    struct amph_client_inherited *inh = &amph_client_state.inherited;
    uint64_t end_ns = amph_now_ns() + FWD_CONTROL_TIMEOUT_NS;
    enum amph_status st = AMPH_OK;
    enum amph_status last = AMPH_ERR_PEER; /* the last refusal, if any server is alive */

    cl->give_up_ns = end_ns;
    for (uint32_t i = 0; inh->any && i < inh->n; i++) {
        if (inh->server[i] < cl->first || inh->server[i] - cl->first >= cl->nlinks)
            continue;

        struct amph_client_link *link = &cl->link[inh->server[i] - cl->first];
        enum amph_status one = open_link(cl, link);

        if (one != AMPH_OK)
            /* that server has ended meanwhile; the other links are usable */
            amph_client_link_dead(cl, link, amph_status_text(one));
    }

    inh->any = false;
    if (st == AMPH_OK && cl->nservers == 0)
        st = join_servers(cl, end_ns);

    for (uint32_t i = 0; i < cl->nlinks && st == AMPH_OK; i++) {
        struct amph_client_link *home = &cl->link[cl->servers[0] - cl->first];
        uint32_t state = atomic_load(&home->state);
        enum amph_status one = AMPH_OK;

        give_share(cl, end_ns, cl->nlinks - i);
        if (state == AMPH_CLIENT_LINK_NONE)
            one = open_link(cl, home);
        else if (state == AMPH_CLIENT_LINK_DEAD)
            one = AMPH_ERR_PEER;

        if (one == AMPH_OK || one == AMPH_ERR_FULL ||
            !(cl->failover || amph_client_is_standing(cl)))
            return one;

        if (one != AMPH_ERR_PEER)
            last = one;

        if (!cl->failover) {
            pass_over_home(cl, one);
            continue;
        }

        if (state == AMPH_CLIENT_LINK_NONE)
            amph_client_link_dead(cl, home, amph_status_text(one));

        amph_client_failover_rotate(cl);
    }

    return st == AMPH_OK ? last : st;
}

/* Reports why the client could not be opened.  opens: the failure was in reaching the servers. */
static void say_why(const struct amph_fwd_client *cl, bool opens, enum amph_status st)
{
    bool standing = amph_client_is_standing(cl);

    if (st == AMPH_ERR_FULL)
        amph_error("files cannot be forwarded: the I/O servers take no further process now; "
                   "calls give ENFILE");
    else if (st == AMPH_ERR_DENIED && opens)
        amph_error("files cannot be forwarded: the I/O servers do not take this process");
    else if (st == AMPH_ERR_DENIED)
        amph_error("files cannot be forwarded: the I/O servers serve one user, and this process "
                   "runs as another (%lu)",
                   (unsigned long)geteuid());

    else if (st == AMPH_ERR_NOSYS && opens)
        amph_error("files cannot be forwarded: this process and the I/O servers have no network in "
                   "common; calls give EIO");
    else if (st == AMPH_ERR_NOMEM)
        amph_error("files cannot be forwarded: %s; calls give ENOMEM", amph_status_text(st));

    /* the job continues without that server (-on-server-death) */
    else if (st == AMPH_ERR_PEER && cl->nservers && !standing)
        amph_error("files cannot be forwarded: I/O server %" PRIu32
                   ", to which this process belongs, has ended; its calls give EIO",
                   amph_client_server_number(cl, cl->servers[0]));
    else if (!opens && cl->boot)
        amph_error("files cannot be forwarded: %s", amph_status_text(st));
    else
        amph_error(
            "files cannot be forwarded: no connection to the I/O servers (%s); is %s running?",
            amph_status_text(st), standing ? "iofwd-server -daemon" : "amphora-run -servers");
}

static int errno_of_open(enum amph_status st)
{
    switch (st) {
    case AMPH_ERR_DENIED:
        return EACCES;
    case AMPH_ERR_NOMEM:
        return ENOMEM;
    case AMPH_ERR_FULL:
        return ENFILE;
    default:
        return EIO;
    }
}

/* Was it logged why amph_boot_attach failed?  An address file was missing, damaged or another user's. */
static bool is_logged(enum amph_status st)
{
    const char *path = amph_env_str(AMPH_ENV_JOB);

    if (!path[0])
        return false;

    return st == AMPH_ERR_NOENT ||
           (st == AMPH_ERR_PROTO && (amph_boot_standing_is(path) || !amph_boot_jobfile_is(path))) ||
           (st == AMPH_ERR_DENIED && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0);
}

static int open_client(struct amph_fwd_client **client_p)
{
    struct amph_fwd_client *cl = calloc(1, sizeof *cl);

    if (!cl) {
        amph_error("files cannot be forwarded: the client needs %zu bytes of memory%s; calls give "
                   "ENOMEM",
                   sizeof *cl, amph_limit_remedy(ENOMEM));
        return ENOMEM;
    }

    pthread_mutex_init(&cl->boot_lock, NULL);
    amph_thread_set_wait_mask(amph_client_wait_mask);

    enum amph_status st = AMPH_OK;

    if (!amph_fwd_join_mpmd(false)) {
        fflush(NULL);
        _exit(1); /* amph_fwd_join_mpmd has logged why */
    }

    if (amph_client_private_server_start() != 0) {
        free(cl);
        return EIO;
    }

    st = amph_boot_attach(&cl->boot);
    if (st != AMPH_OK && is_logged(st)) {
        free(cl);
        return st == AMPH_ERR_DENIED ? EACCES : EIO;
    }

    if (st == AMPH_OK) {
        cl->job = amph_boot_job(cl->boot);
        if (cl->job->nproc[AMPH_SERVER] == 0) {
            amph_boot_close(cl->boot);
            st = AMPH_ERR_NOENT;
        }
    }

    if (st == AMPH_ERR_NOENT) {
        free(cl);
        return ENOTCONN;
    }

    amph_client_versions_open();
    amph_client_coalesce_open();
    amph_client_attributes_open();
    amph_client_passthrough_open();
    amph_client_lookups_open();
    amph_client_closes_open();
    amph_client_trace_open();
    if (st == AMPH_OK && (!number_client(cl) || !make_pends(cl)))
        st = AMPH_ERR_NOMEM;

    if (st == AMPH_OK) {
        amph_shm_set_maker(make_memory, cl);
        st = amph_client_open_endpoint(cl);
    }

    if (st == AMPH_OK)
        st = open_area(cl);

    bool opens = st == AMPH_OK;

    if (opens)
        st = open_links(cl);

    cl->give_up_ns = 0;
    if (st != AMPH_OK) {
        say_why(cl, opens, st);
        amph_shm_set_maker(NULL, NULL);
        if (cl->ep)
            amph_am_close(cl->ep);

        if (cl->boot)
            amph_boot_close(cl->boot);

        free(cl->link);
        free(cl);
        return errno_of_open(st);
    }

    amph_client_clock_measure(cl);
    *client_p = cl;
    return 0;
}

int amph_fwd_process(struct amph_fwd_client **client_p)
{
    *client_p = atomic_load_explicit(&amph_client_state.client, memory_order_acquire);
    if (AMPH_LIKELY(*client_p != NULL))
        return 0;

    struct amph_client_sigguard g;
    int fds[AMPH_CLIENT_FDS_FROM];

    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);
    *client_p = atomic_load(&amph_client_state.client);
    if (amph_client_state.failed == EACCES && amph_client_state.failed_euid != geteuid())
        amph_client_state.failed = 0; /* the servers may accept the present user */

    if (!*client_p && !amph_client_state.failed) {
        int nfds = fill_small_fds(fds);

        (void)amph_fwd_inherited(); /* reads IOFWD_PRIVATE_CLIENT */
        amph_client_state.failed_euid = geteuid();
        amph_client_state.failed = amph_limit_stack_suffices("a client that forwards files",
                                                             AMPH_STACK_MIN_BYTES)
                                       ? open_client(client_p)
                                       : ENOMEM;
        for (int i = 0; i < nfds; i++)
            close(fds[i]);

        if (!amph_client_state.failed)
            atomic_store_explicit(&amph_client_state.client, *client_p, memory_order_release);
    }

    int err = *client_p ? 0 : amph_client_state.failed;

    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(&g);
    return err;
}

void amph_fwd_try_again(void)
{
    pthread_mutex_lock(&amph_client_state.lock);
    amph_client_state.failed = 0;
    pthread_mutex_unlock(&amph_client_state.lock);
}

struct amph_fwd_client *amph_fwd_process_if_open(void)
{
    return atomic_load_explicit(&amph_client_state.client, memory_order_acquire);
}

uint32_t amph_fwd_client_number(const struct amph_fwd_client *cl)
{
    return cl->number;
}

size_t amph_fwd_client_servers(const struct amph_fwd_client *cl, const uint32_t **servers_p)
{
    *servers_p = cl->servers;
    return cl->nservers;
}

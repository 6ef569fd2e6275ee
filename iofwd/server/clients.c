/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's clients and open files, and which client holds which file.
 *
 * Layer: iofwd.
 * Thread rule: progress thread only.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auth.h"
#include "base/os/arena.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "conduits/conduit.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/request_name.h"

/* A handle number: its slot in the low bits, random bits above them, and above those the
 * incarnation of the server. */
#define SLOT_BITS 20
#define SLOT_MASK ((UINT64_C(1) << SLOT_BITS) - 1)
#define INCARNATION_SHIFT 53
#define INCARNATION_MASK (UINT64_C(0xff) << INCARNATION_SHIFT)

/* ---- open files ---- */

struct amph_server_handle *amph_server_handle_find(struct amph_server *s, uint64_t number)
{
    amph_server_assert_owner(&s->progress.owner);

    uint64_t slot = number & SLOT_MASK;
    struct amph_server_handle *h = slot < s->progress.nslots ? s->progress.handle[slot] : NULL;

    return h && h->number == number && h->progress.nholders > 0 ? h : NULL;
}

bool amph_server_handle_is_stale(const struct amph_server *s, uint64_t number)
{
    return (number & AMPH_FWD_HANDLE_TOP) &&
           (number & INCARNATION_MASK) >> INCARNATION_SHIFT != s->incarnation;
}

static bool free_slot(struct amph_server *s, uint32_t *slot_p)
{
    for (uint32_t i = 0; i < s->progress.nslots; i++)
        if (!s->progress.handle[i]) {
            *slot_p = i;
            return true;
        }

    uint32_t more = s->progress.nslots ? s->progress.nslots * 2 : 64;
    struct amph_server_handle **bigger = more <= SLOT_MASK + 1
                                             ? realloc(s->progress.handle, more * sizeof *bigger)
                                             : NULL;

    if (!bigger)
        return false;

    memset(bigger + s->progress.nslots, 0, (more - s->progress.nslots) * sizeof *bigger);
    *slot_p = s->progress.nslots;
    s->progress.handle = bigger;
    s->progress.nslots = more;

    return true;
}

/* Returns random bits, drawn in blocks because each draw is a system call. */
static uint64_t draw_random(struct amph_server *s)
{
    if (s->progress.nentropy == 0) {
        amph_random(s->progress.entropy, sizeof s->progress.entropy);
        s->progress.nentropy = AMPH_COUNTOF(s->progress.entropy);
    }

    return s->progress.entropy[--s->progress.nentropy];
}

struct amph_server_handle *amph_server_handle_make(struct amph_server *s,
                                                   struct amph_server_peer *peer, int fd,
                                                   mode_t type)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_handle *h = calloc(1, sizeof *h);

    if (!h || !free_slot(s, &h->slot)) {
        free(h);
        return NULL;
    }

    uint64_t random = draw_random(s);

    /* never 0: AMPH_FWD_HANDLE_TOP is set */
    h->number = random & ~SLOT_MASK & ~INCARNATION_MASK;
    h->number &= ~(AMPH_FWD_HANDLE_WAITS | AMPH_FWD_HANDLE_DIRECTORY);
    h->number |= h->slot | AMPH_FWD_HANDLE_TOP | (uint64_t)s->incarnation << INCARNATION_SHIFT;
    if (type == S_IFDIR)
        h->number |= AMPH_FWD_HANDLE_DIRECTORY;
    else if (type != S_IFREG)
        h->number |= AMPH_FWD_HANDLE_WAITS;

    h->fd = fd;
    h->opener = peer->number;
    h->line = FWD_VERSIONS_LINE_NONE;
    h->progress.queue_tail = &h->progress.queue_head;
    s->progress.handle[h->slot] = h;

    if (amph_server_handle_hold(s, peer, h) != 0) {
        s->progress.handle[h->slot] = NULL;
        free(h);
        return NULL;
    }

    s->progress.nhandles++;
    amph_count_level(AMPH_COUNTER_SERVER_FILES, s->progress.nhandles);
    return h;
}

bool amph_server_handle_held_by(const struct amph_server_peer *peer,
                                const struct amph_server_handle *h)
{
    return h->slot / 64 < peer->nwords && (peer->holds[h->slot / 64] >> (h->slot % 64) & 1);
}

int amph_server_handle_hold(struct amph_server *s, struct amph_server_peer *peer,
                            struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    size_t word = h->slot / 64;

    if (amph_server_handle_held_by(peer, h))
        return 0;
    if (peer->nheld >= s->client_files)
        return EMFILE;

    if (word >= peer->nwords) {
        size_t more = (word + 8) & ~(size_t)7;
        uint64_t *bigger = realloc(peer->holds, more * sizeof *bigger);

        if (!bigger)
            return ENOMEM;

        memset(bigger + peer->nwords, 0, (more - peer->nwords) * sizeof *bigger);
        peer->holds = bigger;
        peer->nwords = more;
    }

    peer->holds[word] |= UINT64_C(1) << (h->slot % 64);
    peer->nheld++;
    h->progress.nholders++;
    amph_server_passthrough_holders(s, h);

    return 0;
}

void amph_server_handle_release(struct amph_server *s, struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    if (h->progress.nholders > 0 || h->progress.inflight > 0)
        return;

    s->progress.handle[h->slot] = NULL;
    s->progress.nhandles--;
    amph_count_level(AMPH_COUNTER_SERVER_FILES, s->progress.nhandles);
    s->progress.locks_changed = true;
    amph_server_append_end(h, h->progress.holder); /* closed in the middle of a call in pieces */
    if (!h->regular)
        amph_server_notify_drop_file(s, h);

    if (h->exec.map_kinds)
        close(h->exec.map_kinds - 1);

    close(h->fd);
    free(h);
}

void amph_server_handle_drop(struct amph_server *s, struct amph_server_peer *peer,
                             struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    if (!amph_server_handle_held_by(peer, h))
        return;

    amph_server_passthrough_drop(s, peer, h);
    amph_server_lock_closed(peer, h);
    h->progress.holder_died = h->progress.holder_died || peer->gone;
    amph_server_collective_fail(s, h, NULL, EIO);
    peer->holds[h->slot / 64] &= ~(UINT64_C(1) << (h->slot % 64));
    peer->nheld--;
    h->progress.nholders--;
    amph_server_passthrough_holders(s, h);
    amph_server_handle_release(s, h);
}

void amph_server_peer_keep_only(struct amph_server *s, struct amph_server_peer *peer,
                                const uint64_t *numbers, size_t n)
{
    for (uint32_t slot = 0; slot < s->progress.nslots && slot < peer->nwords * 64; slot++) {
        struct amph_server_handle *h = s->progress.handle[slot];
        bool keep = false;

        if (!h || !amph_server_handle_held_by(peer, h))
            continue;

        for (size_t i = 0; i < n && !keep; i++)
            keep = numbers[i] == h->number;

        if (keep)
            continue;

        amph_server_lock_left(peer, h);
        amph_server_handle_drop(s, peer, h);
    }

    amph_server_lock_await_closes(peer);

    for (size_t i = 0; i < n; i++) {
        struct amph_server_handle *h = amph_server_handle_find(s, numbers[i]);
        if (h)
            amph_server_handle_hold(s, peer, h);
    }
}

/* ---- clients ---- */

static struct amph_server_peer *find_by_number(struct amph_server *s, uint32_t number)
{
    for (uint32_t i = 0; i < s->max_peers; i++)
        if (s->progress.peer[i] && !s->progress.peer[i]->gone &&
            s->progress.peer[i]->number == number)
            return s->progress.peer[i];

    return NULL;
}

static struct amph_server_peer *make_peer(struct amph_server *s, uint32_t number, uint32_t rank)
{
    uint32_t index = 0;

    while (index < s->max_peers && s->progress.peer[index])
        index++;

    struct amph_server_peer *p = index < s->max_peers ? calloc(1, sizeof *p) : NULL;
    if (!p)
        return NULL;

    p->index = index;
    p->number = number;
    p->family = number;
    p->rank = rank;
    s->progress.peer[index] = p;
    s->progress.npeers++;
    amph_count_level(AMPH_COUNTER_SERVER_CLIENTS, s->progress.npeers);
    amph_server_watch_clients_changed(s);

    return p;
}

/* Chooses the number of a new client: the number that another server has issued, the rank of a
 * process of the job if it is free, or a new number. */
static uint32_t choose_number(struct amph_server *s, uint32_t rank, uint32_t given)
{
    uint32_t number = AMPH_RANK_NONE;

    if (given != FWD_NUMBER_NONE)
        number = given;
    else if (rank < s->job->nproc[AMPH_COMPUTE])
        number = rank;

    while (number == AMPH_RANK_NONE || find_by_number(s, number)) {
        uint32_t own = amph_server_number(s);
        number = FWD_NUMBER_GIVEN | own << FWD_NUMBER_SERVER_SHIFT |
                 (s->progress.next_number++ & ((1u << FWD_NUMBER_SERVER_SHIFT) - 1));
    }

    return number;
}

/* Lists a client's servers in order.  The first one comes from the mapping for processes of the
 * job, is rank mod S for processes of another parallel program, and is chosen in turn for others;
 * the rest follow it. */
static uint32_t list_servers(struct amph_server *s, uint32_t rank, uint32_t number,
                             uint32_t servers[AMPH_FWD_PARTS_MAX])
{
    uint32_t first = amph_boot_first(s->boot, AMPH_SERVER);
    uint32_t all = s->job->nproc[AMPH_SERVER];
    uint32_t home = (rank != AMPH_RANK_NONE ? rank : number & ~FWD_NUMBER_GIVEN) % all;
    uint32_t n = all < AMPH_FWD_PARTS_MAX ? all : AMPH_FWD_PARTS_MAX;

    if (rank < s->job->nproc[AMPH_COMPUTE] && s->job->server_of)
        home = s->job->server_of[rank] - first;

    for (uint32_t i = 0; i < n; i++)
        servers[i] = first + (home + i) % all;

    return n;
}

/* Reasons with another error for the client than EACCES. */
static const char no_addresses[] =
    "the server has no addresses for the client's transfer area; raise its limit (ulimit -v)";
static const char no_shared_memory[] = "the server cannot make that much shared memory";
static const char no_memory[] = "the server has no memory for another client";
static const char no_numbers[] =
    "it has as many clients as IOFWD_CLIENTS allows; start the servers "
    "with a larger IOFWD_CLIENTS, or more servers";
static const char no_network[] =
    "the server cannot reach the client's endpoint; a process that forbids others to trace it, or "
    "has fewer rights than the server, is reached over a network only (AMPHORA_SMP=0)";

static uint8_t frame_of_refusal(const char *why)
{
    static const struct {
        const char *why;
        uint8_t frame;
    } other[] = { { no_addresses, FWD_FRAME_NO_MEMORY },
                  { no_shared_memory, FWD_FRAME_NO_MEMORY },
                  { no_memory, FWD_FRAME_NO_MEMORY },
                  { no_numbers, FWD_FRAME_FULL },
                  { no_network, FWD_FRAME_UNREACHABLE } };

    for (size_t i = 0; i < AMPH_COUNTOF(other); i++)
        if (why == other[i].why)
            return other[i].frame;

    return FWD_FRAME_REFUSE;
}

static void refuse_as(struct amph_server_conn *c, uint8_t frame, const char *why)
{
    uint8_t out[FWD_FRAME_HEAD_BYTES + AMPH_AM_WHY_MAX_BYTES];
    size_t n = amph_fwd_frame_build(out, frame, why, strlen(why));
    ssize_t ignored = send(c->fd, out, n, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)ignored;
    shutdown(c->fd, SHUT_RDWR); /* the listener thread sees the end and frees the connection */
}

static void refuse(struct amph_server_conn *c, const char *why)
{
    refuse_as(c, frame_of_refusal(why), why);
}

/*
 * Imports memory of a client.  Its length is the client's own statement, and a shared-memory object may
 * be longer than its memory, so the sum of what is mapped is bounded: otherwise one client could take
 * the addresses that the server needs for others and for its threads.
 */
static enum amph_status import(struct amph_server *s, struct amph_server_peer *p, const void *key,
                               size_t key_len, struct amph_rmem *rmem)
{
    enum amph_status st = amph_am_mem_import(s->ep, p->index, key, key_len, rmem);

    if (st != AMPH_OK || !rmem->local)
        return st;

    uint64_t len = rmem->len_bytes;
    uint64_t half = s->mapped_limit / 2;

    if (p->mapped_bytes > half || len > half - p->mapped_bytes ||
        len > s->mapped_limit - s->progress.mapped_bytes) {
        amph_warn("client %" PRIu32 " (process %" PRIu32 ") offers %" PRIu64
                  " bytes of memory, which are not mapped: the server may map %" PRIu64
                  " of a client and %" PRIu64 " in all; raise its limit of addresses (ulimit -v)",
                  p->number, p->pid, len, half, s->mapped_limit);
        amph_am_mem_forget(s->ep, p->index, rmem);
        return AMPH_ERR_NOMEM;
    }

    p->mapped_bytes += len;
    s->progress.mapped_bytes += len;
    return AMPH_OK;
}

/* Gives back what import counted for memory that is no longer mapped. */
static void uncount_mapped(struct amph_server *s, struct amph_server_peer *p, uint64_t len_bytes)
{
    p->mapped_bytes -= len_bytes;
    s->progress.mapped_bytes -= len_bytes;
}

static const char *import_area(struct amph_server *s, struct amph_server_peer *p,
                               const struct amph_fwd_hello *h)
{
    p->has_area = false;
    if (h->area_key_len == 0)
        return NULL;

    enum amph_status st = import(s, p, h->area_key, h->area_key_len, &p->area);

    if (st == AMPH_ERR_NOMEM)
        return no_addresses;
    if (st != AMPH_OK)
        return "the server cannot reach the client's transfer area";
    if (h->part_at > p->area.len_bytes || h->part_len > p->area.len_bytes - h->part_at)
        return "the client's part lies outside its transfer area";

    p->part_at = h->part_at;
    p->part_len = h->part_len;
    p->has_area = true;

    return NULL;
}

int amph_server_peer_segment(struct amph_server *s, struct amph_server_peer *p, const void *key,
                             size_t key_len)
{
    if (p->queued > 0) /* workers may be using the segment that is mapped now */
        return EBUSY;

    if (p->has_segment) {
        uncount_mapped(s, p, p->segment.local ? p->segment.len_bytes : 0);
        amph_am_mem_forget(s->ep, p->index, &p->segment);
    }

    enum amph_status st = key_len ? import(s, p, key, key_len, &p->segment) : AMPH_ERR_PROTO;

    p->has_segment = st == AMPH_OK;
    if (st == AMPH_ERR_NOMEM)
        return ENOMEM;

    return p->has_segment ? 0 : EOPNOTSUPP;
}

/* Connects the endpoint with the client's and imports its area.  Returns NULL, or the reason of a
 * refusal, which is in unreachable if the two have no network in common. */
static const char *attach(struct amph_server *s, struct amph_server_peer *p,
                          const struct amph_fwd_hello *h, struct amph_am_why *unreachable)
{
    char self[32];

    if (h->pointer_bytes != 4 && h->pointer_bytes != 8)
        return "the client states an impossible pointer width";

    snprintf(self, sizeof self, "I/O server %" PRIu32, amph_server_number(s));
    unreachable->peer = "the client";
    unreachable->self = self;

    enum amph_status st = amph_am_add_peer(s->ep, p->index, h->addr, h->addr_len, h->index, s->self,
                                           p->number, unreachable);

    if (st != AMPH_OK)
        return unreachable->text[0] ? unreachable->text : no_network;

    p->attached = true;
    p->cookie_in = amph_cookie(s->job->key, 3, p->number, s->self);
    return import_area(s, p, h);
}

struct amph_server_peer *amph_server_peer_renew(struct amph_server *s, struct amph_server_peer *old)
{
    struct amph_server_peer *p = make_peer(s, old->number, old->rank);

    if (!p)
        return NULL;

    amph_server_passthrough_drop(s, old, NULL);
    p->family = old->family;
    p->holds = old->holds;
    p->nwords = old->nwords;
    p->nheld = old->nheld;
    p->calls = old->calls;
    p->errors = old->errors;
    p->bytes_in = old->bytes_in;
    p->bytes_out = old->bytes_out;
    p->latency = old->latency;
    p->conn = old->conn;
    amph_server_lock_renew(old, p);
    old->holds = NULL;
    old->nwords = 0;
    old->nheld = 0;
    old->conn = NULL;
    old->calls = 0; /* the new client has them now */
    amph_server_peer_free(s, old);

    return p;
}

static const char *inherit(struct amph_server *s, struct amph_server_peer *child,
                           uint32_t parent_number)
{
    struct amph_server_peer *parent = find_by_number(s, parent_number);

    if (!parent)
        return "the parent of the new client is not known";

    child->family = parent->family;
    for (uint32_t slot = 0; slot < s->progress.nslots && slot < parent->nwords * 64; slot++)
        if (s->progress.handle[slot] &&
            amph_server_handle_held_by(parent, s->progress.handle[slot]) &&
            amph_server_handle_hold(s, child, s->progress.handle[slot]) != 0)
            return "no memory for the new client's files";

    return NULL;
}

/* pass_fd: a descriptor that goes along, or -1. */
static bool welcome(struct amph_server *s, uint32_t number, uint32_t index, uint32_t rank,
                    const struct amph_server_event *event, int pass_fd)
{
    uint8_t out[FWD_FRAME_HEAD_BYTES + 1024];
    struct amph_fwd_welcome reply = { .number = number, .index = index, .server = s->self };

    reply.nservers = list_servers(s, rank, number, reply.servers);
    reply.addr = amph_am_address(s->ep, &reply.addr_len);

    size_t n = amph_fwd_welcome_build(out + FWD_FRAME_HEAD_BYTES, sizeof out - FWD_FRAME_HEAD_BYTES,
                                      &reply, s->job->key, event->nonce, event->hello.nonce);

    if (n == 0)
        return false;

    n = amph_fwd_frame_build(out, FWD_FRAME_WELCOME, out + FWD_FRAME_HEAD_BYTES, n);

    return amph_fwd_control_pass(event->conn->fd, out, n, pass_fd);
}

/* Is the other end of the connection a process of this host, to which descriptors can be passed? */
static bool is_of_this_host(const struct amph_server_conn *c)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;

    return getsockname(c->fd, (struct sockaddr *)&from, &len) == 0 && from.ss_family == AF_UNIX;
}

/* Makes a shared-memory object for a process of this host that may not (ulimit -f). */
static void make_memory(struct amph_server *s, const struct amph_server_event *event)
{
    const struct amph_fwd_hello *h = &event->hello;
    int fd = -1;

    if (!is_of_this_host(event->conn))
        return refuse(event->conn, "shared memory is made for processes of the server's host only");

    if (h->part_len == 0 || h->part_len > FWD_MEMORY_MAX_BYTES ||
        amph_shm_create("amphora-client", h->part_len, &fd) != AMPH_OK)
        return refuse(event->conn, no_shared_memory);

    if (!welcome(s, FWD_NUMBER_NONE, 0, h->rank, event, fd))
        shutdown(event->conn->fd, SHUT_RDWR);

    close(fd);
}

/* Makes a pipe for a client of this host, or says that it gets none. */
static void make_pipe(struct amph_server *s, const struct amph_server_event *event)
{
    struct amph_server_peer *p = find_by_number(s, event->hello.number);
    int fd = -1;
    uint32_t number = is_of_this_host(event->conn) ? amph_server_pipe_make(s, p, &fd)
                                                   : FWD_NUMBER_NONE;

    if (!welcome(s, number, 0, event->hello.rank, event, fd))
        shutdown(event->conn->fd, SHUT_RDWR);

    if (fd >= 0)
        close(fd);
}

static void add_notifier(struct amph_server *s, const struct amph_server_event *event)
{
    struct amph_server_peer *p = find_by_number(s, event->hello.number);
    uint64_t number = p && !event->conn->progress.notifier
                          ? amph_server_notifier_create(s, p, event->conn)
                          : 0;

    if (number == 0 || number > UINT32_MAX)
        refuse(event->conn, p ? "the client has too many notification connections"
                              : "the notification connection belongs to no client of this server");
    else if (!welcome(s, (uint32_t)number, 0, p->rank, event, -1))
        shutdown(event->conn->fd, SHUT_RDWR);
}

/* Does the JOIN of a process that gets this number make it a client of this server? */
static bool becomes_client(struct amph_server *s, const struct amph_fwd_hello *h, uint32_t number)
{
    uint32_t servers[AMPH_FWD_PARTS_MAX];

    return h->number == FWD_NUMBER_NONE && h->addr_len > 0 &&
           list_servers(s, h->rank, number, servers) > 0 && servers[0] == s->self;
}

/* Why this greeting cannot be taken now; NULL: it can. */
static const char *objection(struct amph_server *s, const struct amph_server_event *event)
{
    const struct amph_fwd_hello *h = &event->hello;
    bool has_client = event->conn->progress.peer;
    bool again = h->kind == FWD_HELLO_AGAIN;

    /* children of clients and what they execute have a number already */
    bool is_new = (h->kind == FWD_HELLO_JOIN || h->kind == FWD_HELLO_NEW) &&
                  h->number == FWD_NUMBER_NONE;

    if (!again && has_client)
        return "this connection has a client already";
    if (again && !has_client && !event->conn->progress.notifier)
        return "this connection has no client yet";
    if (is_new && atomic_load_explicit(&s->refuses_joins, memory_order_relaxed))
        return "it is being drained (iofwd-ctl drain) and takes no further clients; use other "
               "servers";

    return NULL;
}

/* Answers a greeting that asks for something else than to be a client.  Returns whether it is one. */
static bool answer_other(struct amph_server *s, const struct amph_server_event *event)
{
    uint8_t kind = event->hello.kind;

    if (kind == FWD_HELLO_NOTIFY || event->conn->progress.notifier)
        add_notifier(s, event);
    else if (kind == FWD_HELLO_MEMORY)
        make_memory(s, event);
    else if (kind == FWD_HELLO_PIPE)
        make_pipe(s, event);
    else
        return false;

    return true;
}

/* Chooses the number of a new client. */
static uint32_t number_for(struct amph_server *s, const struct amph_fwd_hello *h)
{
    switch (h->kind) {
    case FWD_HELLO_JOIN:
        return choose_number(s, AMPH_RANK_NONE, FWD_NUMBER_NONE);
    case FWD_HELLO_CHILD:
        return choose_number(s, h->rank, h->child);
    default:
        return choose_number(s, h->rank, h->number);
    }
}

/* Makes the process that has sent the greeting the client p. */
static void take_client(struct amph_server *s, const struct amph_server_event *event,
                        struct amph_server_peer *p)
{
    const struct amph_fwd_hello *h = &event->hello;
    struct amph_server_conn *c = event->conn;
    struct amph_am_why unreachable;

    p->conn = c;
    p->pid = h->pid;
    p->sender = event->sender;
    c->progress.peer = p;

    const char *why = h->kind == FWD_HELLO_CHILD ? inherit(s, p, h->number)
                                                 : attach(s, p, h, &unreachable);

    if (why) {
        amph_warn("client %" PRIu32 " (process %" PRIu32 ") is refused: %s", p->number, h->pid,
                  why);
        refuse_as(c, why == unreachable.text ? FWD_FRAME_UNREACHABLE : frame_of_refusal(why), why);
        return;
    }

    if (!welcome(s, p->number, p->index, p->rank, event, -1))
        shutdown(c->fd, SHUT_RDWR);
}

void amph_server_peer_hello(struct amph_server *s, const struct amph_server_event *event)
{
    amph_server_assert_owner(&s->progress.owner);

    const struct amph_fwd_hello *h = &event->hello;
    struct amph_server_conn *c = event->conn;

    amph_server_exec_finish(s, c);

    struct amph_server_peer *p = c->progress.peer;
    const char *why = objection(s, event);

    if (why) {
        refuse(c, why);
        return;
    }

    if (answer_other(s, event))
        return;

    uint32_t number = p ? FWD_NUMBER_NONE : number_for(s, h);

    if (h->kind == FWD_HELLO_JOIN && !becomes_client(s, h, number)) {
        if (!welcome(s, number, FWD_INDEX_NONE, h->rank, event, -1))
            shutdown(c->fd, SHUT_RDWR);

        return;
    }

    if (!p)
        p = make_peer(s, number, h->rank);
    else if (p->attached)
        p = amph_server_peer_renew(s, p);

    if (p)
        take_client(s, event, p);
    else
        refuse(c, s->progress.npeers < s->max_peers ? no_memory : no_numbers);
}

/* Keeps the counters of a client that leaves.  If its number is used again (a child of a child),
 * they are added to the same row. */
static void keep_counters(struct amph_server *s, const struct amph_server_peer *p)
{
    uint32_t i = 0;

    if (p->calls == 0 || !amph_env_bool(AMPH_ENV_STATS))
        return;

    while (i < s->progress.ndeparted && s->progress.departed[i].number != p->number)
        i++;

    if (i == s->progress.ndeparted) {
        struct amph_server_departed *more = i < AMPH_SERVER_DEPARTED_MAX
                                                ? realloc(s->progress.departed,
                                                          (i + 1) * sizeof *more)
                                                : NULL;

        if (!more)
            return;

        s->progress.departed = more;
        s->progress.departed[s->progress.ndeparted++] =
            (struct amph_server_departed){ .number = p->number };
    }

    s->progress.departed[i].calls += p->calls;
    s->progress.departed[i].errors += p->errors;
    s->progress.departed[i].bytes_in += p->bytes_in;
    s->progress.departed[i].bytes_out += p->bytes_out;
}

void amph_server_peer_free(struct amph_server *s, struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    amph_server_passthrough_drop(s, p, NULL);
    p->gone = true;
    s->progress.nleaving++;

    if (p->attached && p->queued)
        /* its queued requests may wait for a put or get */
        amph_am_peer_gone(s->ep, p->index);

    keep_counters(s, p);
    amph_server_flow_drop_peer(s, p);
    amph_server_notify_drop_peer(s, p);

    for (uint32_t slot = 0; slot < s->progress.nslots && slot < p->nwords * 64; slot++)
        if (s->progress.handle[slot])
            amph_server_handle_drop(s, p, s->progress.handle[slot]);

    free(p->holds);
    p->holds = NULL;
    p->nwords = 0;
    s->progress.npeers--;
    amph_count_level(AMPH_COUNTER_SERVER_CLIENTS, s->progress.npeers);
    amph_server_watch_clients_changed(s);
    if (p->queued == 0)
        amph_server_peer_end(s, p);
}

/* Frees a client.  Workers use its memory and mapped area until its last request has ended, so
 * request_free calls this last. */
void amph_server_peer_end(struct amph_server *s, struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    amph_server_refs_check(s);
    amph_server_refs_check_ended(p);
    if (p->attached)
        amph_am_del_peer(s->ep, p->index); /* unmaps its memory */

    uncount_mapped(s, p, p->mapped_bytes);
    amph_server_pipes_close(s, p);
    amph_server_receive_area_close(s, p);
    s->progress.peer[p->index] = NULL;
    s->progress.nleaving--;
    free(p);
}

/* Has the client closed its connection?  A client that leaves unread data resets the connection
 * instead. */
static bool is_disconnected(const struct amph_server_conn *c)
{
    char byte;
    ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

bool amph_server_peer_disconnecting(const struct amph_server *s, uint32_t pid)
{
    for (uint32_t i = 0; i < s->max_peers; i++) {
        const struct amph_server_peer *p = s->progress.peer[i];

        if (p && !p->gone && p->conn && (pid == 0 || p->pid == pid) && is_disconnected(p->conn))
            return true;
    }

    return false;
}

bool amph_server_peer_disconnect(struct amph_server *s, uint32_t index)
{
    amph_server_assert_owner(&s->progress.owner);

    const struct amph_server_peer *p = index < s->max_peers ? s->progress.peer[index] : NULL;

    return p && !p->gone && p->conn && shutdown(p->conn->fd, SHUT_RDWR) == 0;
}

void amph_server_peer_gone(struct amph_server *s, struct amph_server_conn *c)
{
    amph_server_assert_owner(&s->progress.owner);

    s->progress.locks_changed = true;
    if (!amph_server_exec_gone(s, c) && c->progress.peer)
        amph_server_peer_free(s, c->progress.peer);

    if (c->progress.notifier)
        amph_server_notifier_destroy(s, c->progress.notifier);

    close(c->fd);
    free(c);
}

static void print_client(const struct amph_server *s, uint32_t number, uint64_t calls,
                         uint64_t errors, uint64_t out, uint64_t in)
{
    bool given = number & FWD_NUMBER_GIVEN; /* a child or a command of a compute process */

    fprintf(stderr,
            "  client %s%" PRIu32 " of server %" PRIu32 ": %" PRIu64 " calls (%" PRIu64
            " gave errors), %" PRIu64 " bytes written, %" PRIu64 " bytes read\n",
            given ? "+" : "", given ? number & ((1u << FWD_NUMBER_SERVER_SHIFT) - 1) : number,
            amph_server_number(s), calls, errors, out, in);
}

void amph_server_print_stats(struct amph_server *s)
{
    amph_server_passthrough_collect_all(s);
    fprintf(
        stderr,
        "iofwd server %" PRIu32 ": %" PRIu64 " calls, %" PRIu64 " bytes written, %" PRIu64
        " bytes read, %" PRIu64 " requests handed to workers, %" PRIu64
        " slices of large reads by further threads, %" PRIu64 " bytes that came by pipes, %" PRIu64
        " bytes that came by receive areas, %" PRIu64 " calls by passed descriptors, %" PRIu64
        " requests refused, %" PRIu64 " unauthenticated connections refused, %" PRIu64
        " refusals for want of resources, %" PRIu32 " clients and %" PRIu32
        " files open at the end\n",
        amph_server_number(s), amph_count_now(AMPH_COUNTER_SERVER_CALLS),
        amph_count_now(AMPH_COUNTER_SERVER_BYTES_WRITTEN),
        amph_count_now(AMPH_COUNTER_SERVER_BYTES_READ),
        amph_count_now(AMPH_COUNTER_SERVER_TO_WORKERS), amph_server_readers_slices(s),
        amph_count_now(AMPH_COUNTER_SERVER_BYTES_PIPED),
        amph_count_now(AMPH_COUNTER_SERVER_BYTES_RECEIVED),
        amph_count_now(AMPH_COUNTER_SERVER_CALLS_PASSED),
        amph_count_now(AMPH_COUNTER_SERVER_MALFORMED), amph_counters[AMPH_COUNTER_DROP_STRANGER],
        amph_counters[AMPH_COUNTER_IOFWD_REFUSED], s->progress.npeers, s->progress.nhandles);
    for (uint32_t i = 0; i < s->progress.ndeparted; i++)
        print_client(s, s->progress.departed[i].number, s->progress.departed[i].calls,
                     s->progress.departed[i].errors, s->progress.departed[i].bytes_out,
                     s->progress.departed[i].bytes_in);

    for (uint32_t i = 0; i < s->max_peers; i++) {
        const struct amph_server_peer *p = s->progress.peer ? s->progress.peer[i] : NULL;
        if (p && !p->gone && p->calls)
            print_client(s, p->number, p->calls, p->errors, p->bytes_out, p->bytes_in);
    }
}

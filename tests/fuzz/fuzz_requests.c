/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the I/O server behind its parser: requests of several clients, well formed but for
 * an occasional byte, and between them forks, execs, deaths, workers and transfers that finish in
 * any order.  Run by tests/fuzz/fuzz.sh.
 *
 * An input is a sequence of actions, each a byte and what it takes.  Endpoint and workers are
 * replaced: a request that is handed to a worker, and a transfer, wait here until an action
 * completes them, so an input always does the same.  Only the agents of record locks are the
 * server's own threads.  At the end all clients die, and nothing of theirs may be left: no open
 * file, reference, memory, descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "iofwd/server/flow.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/marshal.h"
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    SLOTS = 6,
    PEERS = 8,
    FILES = 12,
    AREA_BYTES = 1 << 16,
    STAGE_BYTES = 1 << 15,
    ACTIONS = 400,
    FDS = 512,
    END_ROUNDS = 4000,
    AGENTS_NS = 2000000
};

static struct amph_server *server;
static struct amph_server_exports exports;
static char root[200];
static uint8_t area[AREA_BYTES];

/* A connection to the server, and this end of it. */
static struct {
    struct amph_server_conn *conn;
    int other;
} slot[SLOTS];

/* What waits for an action that completes it. */
static struct amph_server_request *given;
static struct amph_op *moving[64];
static unsigned nmoving;
static bool no_room; /* messages and transfers find no room at present */
static pthread_cond_t done_cond = PTHREAD_COND_INITIALIZER; /* something has come to server->done */

static void expect(bool ok, const char *what)
{
    if (ok)
        return;

    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* ---- in place of the endpoint ---- */

void *amph_am_user(struct amph_am_ep *ep)
{
    return ep;
}

const void *amph_am_address(struct amph_am_ep *ep, size_t *len_bytes_p)
{
    *len_bytes_p = 4;
    return "here";
}

enum amph_status amph_am_add_peer(struct amph_am_ep *ep, uint32_t peer, const void *addr,
                                  size_t addr_len, uint32_t remote_index, uint32_t my_id,
                                  uint32_t peer_id, struct amph_am_why *why)
{
    return AMPH_OK;
}

void amph_am_del_peer(struct amph_am_ep *ep, uint32_t peer)
{
}

void amph_am_kick(struct amph_am_ep *ep)
{
}

unsigned amph_am_cores(void)
{
    return 1;
}

/* The file system here gives no EIO, so each EIO is the server's own and must say why. */
static void check_reply(const struct amph_am *am)
{
    struct amph_fwd_rep_head head;
    struct amph_rd r;
    bool explained = false;

    amph_rd_init(&r, am->payload, am->nbytes);
    if (!am->payload || !amph_fwd_get_rep_head(&r, &head) ||
        amph_fwd_errno_from_wire(head.error) != EIO)
        return;

    amph_rd_init(&r, amph_rd_bytes(&r, head.tags_len), head.tags_len);
    while (!r.bad && amph_rd_left(&r) > 0) {
        uint16_t tag = amph_rd_u16(&r);
        uint16_t len = amph_rd_u16(&r);

        explained = explained || (tag == FWD_TAG_REASON && len > 0);
        amph_rd_bytes(&r, len);
    }

    expect(explained, "a reply of EIO has a reason");
}

enum amph_status amph_am_reply(struct amph_token *token, const struct amph_am *am, unsigned flags,
                               struct amph_op *lc)
{
    check_reply(am);
    return AMPH_OK;
}

enum amph_status amph_am_request(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                 unsigned flags, struct amph_op *lc)
{
    check_reply(am);
    return no_room ? AMPH_AGAIN : AMPH_OK;
}

/* A key says whether the memory is mapped here, or lies behind a network. */
enum amph_status amph_am_mem_import(struct amph_am_ep *ep, uint32_t peer, const void *key,
                                    size_t key_len, struct amph_rmem *rmem)
{
    *rmem = (struct amph_rmem){ .len_bytes = AREA_BYTES,
                                .local = *(const char *)key == 'm' ? area : NULL };
    return AMPH_OK;
}

void amph_am_mem_forget(struct amph_am_ep *ep, uint32_t peer, struct amph_rmem *rmem)
{
}

static enum amph_status begin_move(struct amph_op *op)
{
    if (no_room || nmoving == AMPH_COUNTOF(moving))
        return AMPH_AGAIN;

    moving[nmoving++] = op;
    return AMPH_OK;
}

enum amph_status amph_am_get(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                             uint64_t offset, void *dst, size_t len, unsigned flags,
                             struct amph_op *op)
{
    expect(offset <= AREA_BYTES && len <= AREA_BYTES - offset,
           "a get stays inside the client's memory");
    memset(dst, 'g', len);
    return begin_move(op);
}

enum amph_status amph_am_put(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                             uint64_t offset, const void *src, size_t len, unsigned flags,
                             struct amph_op *lc, struct amph_op *op)
{
    expect(offset <= AREA_BYTES && len <= AREA_BYTES - offset,
           "a put stays inside the client's memory");
    return begin_move(lc ? lc : op);
}

/* To every other client, a reply arrives after the puts before it. */
bool amph_am_put_arrives_first(const struct amph_am_ep *ep, uint32_t peer)
{
    return peer % 2;
}

static void end_move(unsigned i, enum amph_status st)
{
    struct amph_op *op = moving[i];

    moving[i] = moving[--nmoving];
    op->done(op, st);
}

void amph_am_peer_gone(struct amph_am_ep *ep, uint32_t peer)
{
    for (unsigned i = nmoving; i-- > 0;)
        if (AMPH_CONTAINER_OF(moving[i], struct amph_server_request, progress.transfer)
                ->peer->index == peer)
            end_move(i, AMPH_ERR_PEER);
}

uint32_t amph_boot_first(const struct amph_boot *boot, enum amph_group group)
{
    return 0;
}

/* ---- in place of the workers ---- */

void amph_server_work_give(struct amph_server *s, struct amph_server_request *rq)
{
    rq->shared.next_running = given;
    given = rq;
}

/* Agents of record locks call it from their own threads. */
void amph_server_work_done(struct amph_server *s, struct amph_server_request *rq)
{
    pthread_mutex_lock(&s->shared.lock);
    rq->next = NULL;
    *s->shared.done_tail = rq;
    s->shared.done_tail = &rq->next;
    pthread_cond_signal(&done_cond);
    pthread_mutex_unlock(&s->shared.lock);
}

void amph_server_work_wake(struct amph_server *s, const struct amph_server_peer *p, uint64_t seq)
{
    for (struct amph_server_request *rq = given; rq; rq = rq->shared.next_running)
        if (rq->peer == p && rq->seq == seq)
            atomic_store(&rq->cancelled, true);
}

void amph_server_work_wake_all(struct amph_server *s, const struct amph_server_peer *p)
{
    for (struct amph_server_request *rq = given; rq; rq = rq->shared.next_running)
        if (rq->peer == p)
            atomic_store(&rq->cancelled, true);
}

void amph_server_let_wake_signal_in(bool in)
{
    sigset_t wake;

    sigemptyset(&wake);
    sigaddset(&wake, AMPH_SERVER_WAKE_SIGNAL);
    pthread_sigmask(in ? SIG_UNBLOCK : SIG_BLOCK, &wake, NULL);
}

/* Runs one request as a worker would.  Nothing may wait for long here, so what could is cancelled
 * or told not to. */
static void run_given(unsigned which)
{
    struct amph_server_request **at = &given;

    while (*at && (*at)->shared.next_running && which-- > 0)
        at = &(*at)->shared.next_running;

    struct amph_server_request *rq = *at;
    if (!rq)
        return;

    *at = rq->shared.next_running;

    if (rq->id == AMPH_FWD_OPEN)
        rq->u.open.flags |= O_NONBLOCK;

    if (rq->file && !rq->file->regular)
        atomic_store(&rq->cancelled, true);

    rq->shared.in_worker = true;
    if (atomic_load(&rq->cancelled) && rq->peer->gone)
        rq->exec.error = EINTR;
    else
        amph_server_request_run(rq);

    amph_server_work_done(server, rq);
}

/* What would act on the whole machine. */
int fuzz_mknodat(int dir, const char *name, mode_t mode, dev_t dev)
{
    return mkfifoat(dir, name, 0600);
}

int fuzz_syncfs(int fd)
{
    return 0;
}

/* ---- clients ---- */

static void say_hello(struct amph_server_conn *c, enum amph_fwd_hello_kind kind, uint32_t number)
{
    static const char key[2][2] = { "m", "n" };
    uint8_t how = next();
    struct amph_server_event news = { .kind = AMPH_SERVER_EVENT_HELLO,
                                      .conn = c,
                                      .hello = { .kind = kind,
                                                 .pointer_bytes = 8,
                                                 .rank = AMPH_RANK_NONE,
                                                 .number = number,
                                                 .child = FWD_NUMBER_NONE,
                                                 .pid = 1,
                                                 .addr = "here",
                                                 .addr_len = 4,
                                                 .area_key = key[how & 1],
                                                 .area_key_len = 1,
                                                 .part_at = 0,
                                                 .part_len = AREA_BYTES } };

    amph_server_peer_hello(server, &news);
}

static void connect_client(unsigned i, enum amph_fwd_hello_kind kind, uint32_t number)
{
    int pair[2];

    if (slot[i].conn ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return;

    struct amph_server_conn *c = calloc(1, sizeof *c);

    expect(c != NULL, "memory");
    c->fd = pair[0];
    c->server = server;
    slot[i].conn = c;
    slot[i].other = pair[1];
    say_hello(c, kind, number);
}

/* The client's end is closed, but the server has not been told yet. */
static void hang_up(unsigned i)
{
    if (slot[i].conn && slot[i].other >= 0)
        close(slot[i].other);

    slot[i].other = -1;
}

static void die(unsigned i)
{
    if (!slot[i].conn)
        return;

    hang_up(i);
    amph_server_peer_gone(server, slot[i].conn);
    slot[i].conn = NULL;
}

static struct amph_server_peer *peer_of(unsigned i)
{
    return slot[i].conn ? slot[i].conn->progress.peer : NULL;
}

static uint32_t number_of(unsigned i)
{
    return peer_of(i) ? peer_of(i)->number : FWD_NUMBER_NONE;
}

/* ---- requests ---- */

static uint64_t some_handle(void)
{
    uint8_t which = next();
    unsigned live = 0;

    for (uint32_t i = 0; i < server->progress.nslots; i++)
        live += server->progress.handle[i] != NULL;

    if (!live || which == 255)
        return AMPH_FWD_HANDLE_TOP | which;

    which = (uint8_t)(which % live);
    for (uint32_t i = 0; i < server->progress.nslots; i++)
        if (server->progress.handle[i] && which-- == 0)
            return server->progress.handle[i]->number;

    return 0;
}

static void put_name(struct amph_wr *w, bool absolute)
{
    static const char *const names[] = { "file",      "other", "fifo", "dir",
                                         "dir/inner", "link",  "",     "none" };
    char text[64];

    snprintf(text, sizeof text, "%s%s", absolute ? "/fwd/" : "",
             names[next() % AMPH_COUNTOF(names)]);
    amph_wr_blob(w, text, strlen(text) + 1);
}

static void put_set(struct amph_wr *w, enum amph_fwd_set set, const uint32_t *values, size_t n)
{
    uint32_t wire;

    amph_fwd_flags_to_wire(set, values[next() % n], &wire);
    amph_wr_u32(w, wire);
}

#define PUT_SET(w, set, ...) \
    put_set(w, set, (const uint32_t[]){ __VA_ARGS__ }, \
            sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

/* A part of a collective call, one row; returns the bytes of its data. */
static uint32_t put_part(struct amph_wr *w)
{
    uint8_t room[FWD_VIEW_BYTES + FWD_EXTENT_BYTES];
    uint8_t which = next();
    struct amph_fwd_extent row = {
        .at = which & 15, .len = 1 + (which >> 4), .stride = 16, .count = 1 + (which & 3)
    };
    struct amph_wr part;

    amph_wr_init(&part, room, sizeof room);
    amph_fwd_put_view(&part, &(struct amph_fwd_view){ .number = which & 1,
                                                      .processes = 1 + next() % 3,
                                                      .absent = which == 9 });
    amph_fwd_put_extent(&part, &row);
    amph_wr_blob(w, room, sizeof room);

    return row.len * row.count;
}

static void put_lock(struct amph_wr *w)
{
    uint8_t which = next();

    struct flock lock = { .l_type = (short)(which % 3),
                          .l_whence = SEEK_SET,
                          .l_start = which >> 6,
                          .l_len = 1 + (which >> 5) };

    amph_fwd_put_lock(w, &lock);
}

static void put_arg(struct amph_wr *w, uint8_t word, bool collective, uint32_t *collective_bytes_p)
{
    switch (word) {
    case FWD_IN_PATH: {
        bool absolute = next() & 1;

        amph_wr_u64(w, absolute ? 0 : some_handle());
        put_name(w, absolute);
        break;
    }
    case FWD_IN_FILE:
        amph_wr_u64(w, some_handle());
        break;
    case FWD_IN_OFLAGS:
    case FWD_IN_SFLAGS:
        PUT_SET(w, FWD_SET_OFLAGS, O_RDWR | O_CREAT, O_RDONLY, O_WRONLY | O_APPEND | O_CREAT,
                O_RDWR | O_NONBLOCK, O_WRONLY, O_PATH, O_RDONLY | O_DIRECTORY, O_RDWR | O_TRUNC);
        break;
    case FWD_IN_MODE:
        PUT_SET(w, FWD_SET_MODE, 0600 | S_IFIFO, 0700);
        break;
    case FWD_IN_ATFLAGS:
        PUT_SET(w, FWD_SET_ATFLAGS, 0, AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR);
        break;
    case FWD_IN_LOCKOP:
        PUT_SET(w, FWD_SET_LOCKOP, LOCK_EX, LOCK_SH, LOCK_UN, LOCK_EX | LOCK_NB);
        break;
    case FWD_IN_AMODE:
    case FWD_IN_RFLAGS:
    case FWD_IN_XFLAGS:
    case FWD_IN_FALLOC:
        amph_wr_u32(w, next());
        break;
    case FWD_IN_WHENCE:
        amph_wr_u8(w, next());
        break;
    case FWD_IN_OFF:
        amph_wr_u64(w, next() * 100u);
        break;
    case FWD_IN_LEN:
        amph_wr_u64(w, collective ? 4096 : next() % 8);
        break;
    case FWD_IN_UID:
    case FWD_IN_GID:
        amph_wr_u32(w, UINT32_MAX);
        break;
    case FWD_IN_DEV:
        amph_wr_u64(w, 0);
        break;
    case FWD_IN_TIMES:
        amph_fwd_put_times(w, NULL);
        break;
    case FWD_IN_LOCK:
        put_lock(w);
        break;
    case FWD_IN_TEXT:
        put_name(w, false);
        break;
    case FWD_IN_BLOB:
        if (collective)
            *collective_bytes_p = put_part(w);
        else
            amph_wr_blob(w, "a value.", 8);
        break;
    case FWD_OUT_STRING:
    case FWD_OUT_DIRENTS:
        amph_wr_u32(w, next() * 4u);
        break;
    default:
        break;
    }
}

static void put_data(struct amph_wr *w, enum amph_fwd_id id, uint32_t collective_bytes)
{
    static const uint8_t nothing[1024];
    uint8_t how = next();
    struct amph_fwd_bulk b = { .where = (how & 3) % 3,
                               .flags = how >> 2 & 7,
                               .op = next() % 3,
                               .len = next() * 4u,
                               .at = next() * 16u };

    if (b.len > 800)
        b.len *= 40; /* more than a buffer holds */

    if (amph_server_collective_is(id))
        b.len = collective_bytes;

    amph_fwd_put_bulk(w, &b);
    if (b.where == FWD_INLINE && amph_server_is_write(id))
        amph_wr_bytes(w, nothing, b.len < sizeof nothing ? b.len : sizeof nothing);
}

/* How many 64-bit words the body of a request for that service has. */
static unsigned special_words(uint16_t service)
{
    switch (service) {
    case FWD_SERVICE_HOLDER:
        return 6;
    case FWD_SERVICE_NOTIFICATIONS:
        return 2;
    case FWD_SERVICE_STATS:
        return 0;
    default:
        return 1;
    }
}

static void put_special(struct amph_wr *w, uint16_t service)
{
    unsigned n = special_words(service);

    for (unsigned i = 0; i < n; i++)
        amph_wr_u64(w, service == FWD_SERVICE_HOLD_ONLY ? some_handle() : next());
}

/* Gives the message of n bytes to the server, in memory that is exactly as long. */
static void deliver(const struct amph_server_peer *p, const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n);

    expect(copy != NULL, "memory");
    memcpy(copy, bytes, n);

    struct amph_am am = {
        .kind = AMPH_AM_MEDIUM, .handler = FWD_AM_REQUEST, .nbytes = (uint32_t)n, .payload = copy
    };

    amph_server_on_request(
        &(struct amph_token){ .ep = server->ep, .peer = p->index, .am = &am, .is_request = true },
        &am);
    free(copy);
}

static void request(unsigned i)
{
    static uint64_t seq;
    static uint8_t msg[FWD_MSG_MAX];
    const struct amph_server_peer *p = peer_of(i);
    uint8_t call = next();
    uint8_t wrong;
    uint32_t collective_bytes = 0;
    struct amph_wr w, head;

    if (!p || !p->attached)
        return;

    amph_wr_init(&w, msg, sizeof msg);

    struct amph_fwd_req_head h = {
        .magic = FWD_MAGIC, .version = FWD_VERSION, .client = p->number, .cookie = p->cookie_in
    };

    amph_fwd_put_req_head(&w, &h);
    if (call >= 240) {
        h.service = (uint16_t)(FWD_SERVICE_FIRST + call % (FWD_SERVICE_END - FWD_SERVICE_FIRST));
        put_special(&w, h.service);
    } else {
        enum amph_fwd_id id = (enum amph_fwd_id)(call % AMPH_FWD_NCALLS);
        const struct amph_fwd_call_desc *d = &amph_fwd_calls[id];

        h.service = d->service;
        for (unsigned k = 0; k < d->nargs; k++)
            put_arg(&w, d->arg[k].word, amph_server_collective_is(id), &collective_bytes);

        if (d->flags & FWD_CALL_BULK)
            put_data(&w, id, collective_bytes);
    }

    wrong = next(); /* now and then it is a byte too long, or too short */
    if (wrong == 1)
        amph_wr_u8(&w, 0);

    h.length = (uint32_t)(amph_wr_len(&w) - (wrong == 2 && amph_wr_len(&w) > FWD_REQ_HEAD_BYTES));
    h.seq = ++seq % 16;
    amph_wr_init(&head, msg, FWD_REQ_HEAD_BYTES);
    amph_fwd_put_req_head(&head, &h);
    deliver(p, msg, h.length);
}

/* ---- a server ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return at->level ? remove(path) : 0;
}

static void fill_root(void)
{
    char name[256];

    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    snprintf(name, sizeof name, "%s/dir", root);
    mkdir(name, 0700);
    snprintf(name, sizeof name, "%s/fifo", root);
    mkfifo(name, 0600);
    snprintf(name, sizeof name, "%s/file", root);

    int fd = open(name, O_RDWR | O_CREAT, 0600);

    expect(fd >= 0 && ftruncate(fd, 5000) == 0 && close(fd) == 0, "a file to begin with");
}

static void on_wake(int sig)
{
}

static void prepare(void)
{
    struct sigaction wake = { .sa_handler = on_wake };
    struct rlimit small = { 1 << 20, 1 << 20 };
    char spec[256];

    sigaction(AMPH_SERVER_WAKE_SIGNAL, &wake, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    snprintf(root, sizeof root, "%s/amphora-fuzz-XXXXXX",
             getenv("FUZZ_DIR") ? getenv("FUZZ_DIR") : "/tmp");
    expect(mkdtemp(root) != NULL, "a directory");
    snprintf(spec, sizeof spec, "/fwd=%s", root);
    expect(amph_server_exports_open(spec, &exports) == AMPH_OK, "an export");
}

static void open_server(uint8_t how)
{
    static struct amph_jobdesc job = { .nproc = { [AMPH_COMPUTE] = 0, [AMPH_SERVER] = 1 } };

    server = calloc(1, sizeof *server);
    expect(server != NULL, "memory");
    *server = (struct amph_server){ .job = &job,
                                    .exports = exports,
                                    .max_peers = PEERS,
                                    .client_files = FILES,
                                    .client_memory = how & 1 ? 6 << 20 : 300 << 10,
                                    .stage_bytes = STAGE_BYTES,
                                    .notify_fd = -1 };
    server->ep = (struct amph_am_ep *)server;
    server->progress.peer = calloc(PEERS, sizeof *server->progress.peer);
    server->progress.reply = malloc(AMPH_SERVER_OUT_BYTES);
    server->progress.unsent_tail = &server->progress.unsent;
    server->progress.transfers_tail = &server->progress.transfers;
    server->shared.done_tail = &server->shared.done;
    pthread_mutex_init(&server->shared.lock, NULL);
    expect(server->progress.peer && server->progress.reply &&
               amph_server_notify_open(server) == AMPH_OK,
           "a server");
}

static void close_server(void)
{
    while (server->progress.stage_free) {
        void *stage = server->progress.stage_free;

        server->progress.stage_free = *(void **)stage;
        free(stage);
    }

    amph_server_readers_stop(server);
    close(server->notify_fd);
    pthread_mutex_destroy(&server->shared.lock);
    free(server->progress.handle);
    free(server->progress.departed);
    free(server->progress.peer);
    free(server->progress.reply);
    free(server);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < FDS; fd++)
        n += fcntl(fd, F_GETFD) >= 0;

    return n;
}

/* Gives the agents of record locks a moment to answer; a lock that waits for another has no
 * answer. */
static void hear_agents(void)
{
    bool any = false;
    struct timespec until;

    for (uint32_t i = 0; i < PEERS; i++)
        any = any || (server->progress.peer[i] && server->progress.peer[i]->lock_agents);

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += AGENTS_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;

    pthread_mutex_lock(&server->shared.lock);
    while (any && !server->shared.done &&
           pthread_cond_timedwait(&done_cond, &server->shared.lock, &until) == 0)
        ;

    pthread_mutex_unlock(&server->shared.lock);
}

/* later: as if some time had gone by since the last time. */
static void progress(bool later)
{
    hear_agents();
    if (later)
        server->progress.locks_tried_ns = server->progress.leaving_woken_ns = 0;

    amph_server_flow_progress(server);
}

/* Everything that is under way comes to its end; agents of locks do so in their own time. */
static void end_all(void)
{
    const struct amph_server_request none = { .id = AMPH_FWD_OPEN };

    no_room = false;
    for (unsigned i = 0; i < SLOTS; i++)
        die(i);

    for (unsigned round = 0; round < END_ROUNDS &&
                             (server->progress.nleaving || amph_server_locks_releasing(&none));
         round++) {
        while (given)
            run_given(0);

        while (nmoving)
            end_move(0, AMPH_OK);

        progress(true);
        if (round > 2)
            nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
}

static void check_nothing_left(void)
{
    expect(!server->progress.nleaving && !server->progress.npeers, "no client is left");
    for (uint32_t i = 0; i < PEERS; i++)
        expect(!server->progress.peer[i], "no client's place is taken");

    for (uint32_t i = 0; i < server->progress.nslots; i++)
        expect(!server->progress.handle[i], "no file is left open");

    expect(!server->progress.nhandles, "files are counted right");
    expect(!server->progress.unsent && !server->progress.transfers && !server->progress.locks &&
               !server->shared.done && !server->progress.notifiers,
           "nothing waits");
}

/* Calls on a file have taken long, so the next ones go to workers. */
static void slow_down(unsigned i)
{
    if (i < server->progress.nslots && server->progress.handle[i])
        server->progress.handle[i]->progress.op_ns = server->progress.handle[i]->progress.kib_ns =
            AMPH_NS_PER_S;
}

static void act(uint8_t what)
{
    unsigned i = what >> 4 & 7;

    i = i < SLOTS ? i : 0;
    switch (what & 15) {
    case 0:
        connect_client(i, FWD_HELLO_NEW, FWD_NUMBER_NONE);
        break;
    case 1:
        die(i);
        break;
    case 2:
        connect_client(i, FWD_HELLO_CHILD, number_of(next() % SLOTS));
        break;
    case 3:
        connect_client(i, FWD_HELLO_NOTIFY, number_of(next() % SLOTS));
        break;
    case 4:
        if (slot[i].conn)
            say_hello(slot[i].conn, FWD_HELLO_AGAIN, FWD_NUMBER_NONE);
        break;
    case 5:
        run_given(i);
        break;
    case 6:
        if (nmoving)
            end_move(i % nmoving, what & 128 ? AMPH_ERR_PEER : AMPH_OK);
        break;
    case 7:
        no_room = what & 128;
        break;
    case 8:
        amph_server_notify_send(server);
        break;
    case 9:
        progress(what & 128);
        break;
    case 14:
        slow_down(i);
        break;
    case 15:
        hang_up(i);
        break;
    default:
        request(i);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!root[0])
        prepare();

    fill_root();
    input = bytes;
    input_left = len;

    unsigned before = descriptors();

    open_server(next());
    for (unsigned n = 0; n < ACTIONS && input_left; n++) {
        act(next());
        amph_server_refs_check(server);
    }

    end_all();
    check_nothing_left();
    close_server();
    expect(descriptors() == before, "every descriptor has been closed");

    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the server's end of the attach handshake: the listener and the clients that it makes.
 * Run by tests/fuzz/fuzz.sh.
 *
 * An input is a sequence of actions, each a byte and what it takes: connections come, send any bytes
 * or HELLOs whose proof is right, in pieces, and end; the progress thread takes the listener's events
 * at any moment between.  Both threads' work is done here in turn, so an input always does the same.
 * Each WELCOME must carry the server's proof.  At the end all connections are closed, and nothing may
 * be left: no client, event, memory, descriptor.
 */
#include "iofwd/server/listener.c"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

#include "iofwd/server/flow.h"
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    SLOTS = 8,
    PEERS = 6,
    COMPUTE = 3,
    ACTIONS = 300,
    FDS = 256,
    PIECE_MAX = 255,
    AREA_BYTES = 1 << 16,
    MAPPED_MAX = 1 << 20
};

static const uint8_t job_key[AMPH_KEY_BYTES] = "a key that both know";
static struct amph_server *server;
static struct amph_server_exports exports;
static uint8_t area[AREA_BYTES];

/* A connection, as its process sees it. */
static struct {
    struct amph_server_conn *conn;
    int end;
    uint8_t nonce[FWD_NONCE_BYTES]; /* of the last GREET */
    uint8_t in[4 * (FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX)];
    size_t have;
} slot[SLOTS];

static void expect(bool ok, const char *what)
{
    if (ok)
        return;

    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* ---- in place of the endpoint and the workers ---- */

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
    volatile uint8_t sum = 0;

    for (size_t i = 0; i < addr_len; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)addr)[i]);

    expect(peer < PEERS, "a peer's index is one of the endpoint's");
    snprintf(why->text, sizeof why->text, "%s",
             addr_len == 5 ? "they have no network in common" : "");
    return addr_len == 3 || addr_len == 5 ? AMPH_ERR_PEER : AMPH_OK;
}

void amph_am_del_peer(struct amph_am_ep *ep, uint32_t peer)
{
}

void amph_am_peer_gone(struct amph_am_ep *ep, uint32_t peer)
{
}

void amph_am_kick(struct amph_am_ep *ep)
{
}

enum amph_status amph_am_mem_import(struct amph_am_ep *ep, uint32_t peer, const void *key,
                                    size_t key_len, struct amph_rmem *rmem)
{
    if (key_len == 0 || *(const uint8_t *)key == 0)
        return AMPH_ERR_PROTO;

    /* some state more than a server has addresses for */
    *rmem = (struct amph_rmem){ .len_bytes = key_len & 1 ? AREA_BYTES : MAPPED_MAX / key_len,
                                .local = area };
    return AMPH_OK;
}

void amph_am_mem_forget(struct amph_am_ep *ep, uint32_t peer, struct amph_rmem *rmem)
{
}

uint32_t amph_boot_first(const struct amph_boot *boot, enum amph_group group)
{
    return group == AMPH_SERVER ? COMPUTE : 0;
}

void amph_server_work_give(struct amph_server *s, struct amph_server_request *rq)
{
    expect(false, "no client makes a request");
}

void amph_server_work_done(struct amph_server *s, struct amph_server_request *rq)
{
}

void amph_server_work_wake(struct amph_server *s, const struct amph_server_peer *p, uint64_t seq)
{
}

void amph_server_work_wake_all(struct amph_server *s, const struct amph_server_peer *p)
{
}

void amph_server_let_wake_signal_in(bool in)
{
}

/* ---- connections ---- */

static void start(unsigned i)
{
    int pair[2];

    if (slot[i].conn ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return;

    add_conn(server, pair[0], next() & 1);
    slot[i].conn = server->listener.conns;
    slot[i].end = pair[1];
    slot[i].have = 0;
    memset(slot[i].nonce, 0, sizeof slot[i].nonce);
}

/* Each item of an answer must parse. */
static void read_answer(const struct amph_fwd_frame_in *in)
{
    static struct amph_fwd_item item;
    struct amph_rd r;

    amph_rd_init(&r, in->body, in->len);
    amph_rd_u8(&r);
    amph_rd_u64(&r);
    while (amph_fwd_watch_next(&r, &item))
        expect(item.name[0] || item.kind == FWD_ITEM_ROW, "an item has a name");

    expect(!r.bad && amph_rd_left(&r) == 0, "an answer parses");
}

/* Takes what the server has sent: the nonce of each GREET. */
static void take_output(unsigned i)
{
    struct amph_fwd_frame_in in;
    size_t used;
    ssize_t n;

    if (!slot[i].conn)
        return;

    while (slot[i].have < sizeof slot[i].in &&
           (n = recv(slot[i].end, slot[i].in + slot[i].have, sizeof slot[i].in - slot[i].have,
                     MSG_DONTWAIT)) > 0)
        slot[i].have += (size_t)n;

    enum amph_status st;

    while ((st = amph_fwd_frame_parse(slot[i].in, slot[i].have, &in, &used)) == AMPH_OK) {
        if (in.type == FWD_FRAME_GREET && in.len == FWD_NONCE_BYTES)
            memcpy(slot[i].nonce, in.body, in.len);

        if (in.type == FWD_FRAME_ANSWER)
            read_answer(&in);

        expect(in.version == FWD_VERSION && in.type != FWD_FRAME_HELLO && in.type != FWD_FRAME_ASK,
               "a frame is one of a server's");
        slot[i].have -= used;
        memmove(slot[i].in, slot[i].in + used, slot[i].have);
    }

    expect(st == AMPH_AGAIN, "a server sends whole frames");
}

/* The listener finds the connection readable. */
static void readable(unsigned i)
{
    if (!slot[i].conn || read_conn(server, slot[i].conn))
        return;

    end_conn(server, slot[i].conn);
    slot[i].conn = NULL;
    close(slot[i].end);
}

static void send_bytes(unsigned i, const uint8_t *bytes, size_t len)
{
    if (slot[i].conn && len &&
        send(slot[i].end, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len)
        readable(i);
}

static void hang_up(unsigned i)
{
    if (!slot[i].conn)
        return;

    shutdown(slot[i].end, SHUT_WR);
    readable(i);
    expect(!slot[i].conn, "a connection that has ended is forgotten");
}

static void send_raw(unsigned i)
{
    size_t n = next();

    n = n < input_left ? n : input_left;
    send_bytes(i, input, n);
    input += n;
    input_left -= n;
}

static uint32_t some_number(void)
{
    uint8_t which = next();

    if (which >= 250)
        return which == 250 ? UINT32_MAX - 1 : FWD_NUMBER_NONE;

    for (uint32_t p = 0; p < PEERS; p++)
        if (server->progress.peer[p] && which-- == 0)
            return server->progress.peer[p]->number;

    return which;
}

static uint64_t some_length(void)
{
    static const uint64_t lengths[] = {
        0, 1, 4096, AREA_BYTES, AREA_BYTES + 1, FWD_MEMORY_MAX_BYTES + 1, UINT64_MAX, INT64_MAX
    };

    return lengths[next() % AMPH_COUNTOF(lengths)];
}

/* A HELLO with a right proof, unless one of its bytes is changed afterwards. */
static void send_hello(unsigned i)
{
    static uint8_t frame[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    static const uint8_t texts[FWD_AREA_KEY_MAX + AMPH_AM_ADDR_MAX_BYTES + 2] = { 'k', 'e', 'y' };
    struct amph_fwd_hello h = { .kind = next() % (FWD_HELLO_KINDS + 1),
                                .big_endian = next() & 1,
                                .pointer_bytes = next() & 1 ? 8 : next(),
                                .page_bytes = next() & 1 ? 4096 : next(),
                                .rank = next() & 1 ? AMPH_RANK_NONE : next(),
                                .pid = next() };

    h.number = some_number();
    h.child = some_number();
    h.index = next();
    h.addr = texts;
    h.addr_len = next() & 15 ? next() & 15 : AMPH_AM_ADDR_MAX_BYTES + (next() & 1);
    h.area_key = texts + (next() & 3);
    h.area_key_len = next() & 15 ? next() & 15 : FWD_AREA_KEY_MAX + (next() & 1);
    h.part_at = some_length();
    h.part_len = some_length();

    if (h.kind == FWD_HELLO_MEMORY && h.part_len == AREA_BYTES)
        h.part_len = FWD_MEMORY_MAX_BYTES;

    size_t n = amph_fwd_hello_build(frame + FWD_FRAME_HEAD_BYTES, FWD_FRAME_BODY_MAX, &h, job_key,
                                    slot[i].nonce);
    if (!slot[i].conn || n == 0)
        return;

    n = amph_fwd_frame_build(frame, FWD_FRAME_HELLO, frame + FWD_FRAME_HEAD_BYTES, n);

    uint8_t how = next();

    if (how >= 240)
        frame[(next() * 16u + how) % n] ^= (uint8_t)(1 << (how & 7));

    size_t first = how & 1 ? n : n * (how >> 4) / 16;

    send_bytes(i, frame, first);
    if (first < n)
        send_bytes(i, frame + first, n - first);
}

/* A watcher's query, of the right form or nearly. */
static void send_query(unsigned i)
{
    static const char *const texts[] = { "",
                                         "AMPHORA_LOG=error",
                                         "IOFWD_CLIENT_FILES=9",
                                         "IOFWD_CLIENT_MEMORY=x",
                                         "IOFWD_SERVER_MEMORY=0",
                                         "=",
                                         "IOFWD_PREFIX=/" };
    uint8_t frame[FWD_FRAME_HEAD_BYTES + 64];
    struct amph_wr w;
    uint8_t how = next();

    amph_wr_init(&w, frame + FWD_FRAME_HEAD_BYTES, sizeof frame - FWD_FRAME_HEAD_BYTES);
    amph_wr_u8(&w, how % (FWD_WATCH_COUNT + 1));
    amph_wr_u64(&w, how & 128 ? some_length() : next());

    const char *text = texts[next() % AMPH_COUNTOF(texts)];

    amph_wr_bytes(&w, text, strlen(text) + (how >> 6 & 1));
    send_bytes(i, frame,
               amph_fwd_frame_build(frame, FWD_FRAME_QUERY, frame + FWD_FRAME_HEAD_BYTES,
                                    amph_wr_len(&w)));
}

/* The files that a program keeps over exec, in a frame of the right form or nearly, and its next connection. */
static void send_keep(unsigned i)
{
    static const uint8_t none[FWD_NONCE_BYTES];
    uint8_t frame[FWD_FRAME_HEAD_BYTES + 64];
    struct amph_wr w;
    uint8_t how = next();
    unsigned to = next() % SLOTS;

    take_output(to);
    amph_wr_init(&w, frame + FWD_FRAME_HEAD_BYTES, sizeof frame - FWD_FRAME_HEAD_BYTES);
    amph_wr_bytes(&w, how & 1 ? none : slot[to].nonce, FWD_NONCE_BYTES);
    amph_wr_u32(&w, how & 8 ? FWD_KEEP_ALL : how >> 6);
    for (unsigned n = 0; n < (unsigned)(how >> 4 & 3); n++)
        amph_wr_u64(&w, next());

    send_bytes(
        i, frame,
        amph_fwd_frame_build(frame, FWD_FRAME_KEEP, frame + FWD_FRAME_HEAD_BYTES, amph_wr_len(&w)));
}

/* What a process does that follows the protocol: asks for a nonce and takes it. */
static void ask(unsigned i)
{
    uint8_t frame[FWD_FRAME_HEAD_BYTES];

    send_bytes(i, frame, amph_fwd_frame_build(frame, FWD_FRAME_ASK, NULL, 0));
    take_output(i);
}

/* The time in which a HELLO must come has passed for this connection. */
static void time_out(unsigned i)
{
    bool silent = slot[i].conn && !slot[i].conn->listener.greeted;

    if (slot[i].conn)
        slot[i].conn->listener.begin_ns = 0;

    close_silent(server);
    if (!silent)
        return;

    slot[i].conn = NULL;
    close(slot[i].end);
}

/* ---- the progress thread ---- */

/* What clients have mapped is counted, and within its limits. */
static void check_mapped(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < PEERS; i++) {
        const struct amph_server_peer *p = server->progress.peer[i];

        expect(!p || p->mapped_bytes <= MAPPED_MAX / 2, "a client has half of the addresses");
        expect(!p || !p->has_area || p->mapped_bytes >= p->part_len, "an area is counted");
        sum += p ? p->mapped_bytes : 0;
    }

    expect(sum == server->progress.mapped_bytes && sum <= MAPPED_MAX, "the sum of mapped memory");
}

static void take_events(unsigned most)
{
    struct amph_server_event *e;

    while (most-- > 0 && (e = server->shared.events) != NULL) {
        server->shared.events = e->next;
        if (!server->shared.events)
            server->shared.events_tail = &server->shared.events;

        if (e->kind == AMPH_SERVER_EVENT_HELLO)
            amph_server_peer_hello(server, e);
        else if (e->kind == AMPH_SERVER_EVENT_GONE)
            amph_server_peer_gone(server, e->conn);
        else if (e->kind == AMPH_SERVER_EVENT_QUERY)
            amph_server_watch_query(server, e);
        else if (e->kind == AMPH_SERVER_EVENT_KEEP)
            amph_server_exec_keep(server, e);

        free(e);
        check_mapped();
    }
}

static void on_report(void *arg, enum amph_server_says what)
{
    expect(strchr("SEBL", (char)what) != NULL, "a report is one of the list");
}

static bool on_reopen(void *arg)
{
    return true;
}

static void open_server(void)
{
    static const char *host_name[] = { "here" };
    static struct amph_proc procs[COMPUTE + 1];
    static struct amph_jobdesc job = { .nproc = { [AMPH_COMPUTE] = COMPUTE, [AMPH_SERVER] = 1 },
                                       .nhosts = 1,
                                       .host_name = host_name,
                                       .proc = procs,
                                       .plain = true };

    memcpy(job.key, job_key, sizeof job.key);
    server = calloc(1, sizeof *server);
    expect(server != NULL, "memory");
    *server = (struct amph_server){ .job = &job,
                                    .self = COMPUTE,
                                    .exports = exports,
                                    .max_peers = PEERS,
                                    .client_files = 8,
                                    .client_memory = 1 << 20,
                                    .mapped_limit = MAPPED_MAX,
                                    .stage_bytes = 1 << 15,
                                    .overseer = { .report = on_report, .reopen_log = on_reopen },
                                    .notify_fd = -1 };
    server->ep = (struct amph_am_ep *)server;
    server->progress.peer = calloc(PEERS, sizeof *server->progress.peer);
    server->progress.unsent_tail = &server->progress.unsent;
    server->progress.transfers_tail = &server->progress.transfers;
    server->shared.done_tail = &server->shared.done;
    server->shared.events_tail = &server->shared.events;
    pthread_mutex_init(&server->shared.lock, NULL);
    server->listener.unix_fd = server->listener.tcp_fd = server->listener.stop_fd =
        server->listener.first_fd = -1;
    server->listener.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    expect(server->progress.peer && server->listener.epoll_fd >= 0 &&
               amph_server_notify_open(server) == AMPH_OK,
           "a server");
}

static void close_server(void)
{
    for (unsigned i = 0; i < SLOTS; i++)
        hang_up(i);

    take_events(UINT32_MAX);
    for (unsigned round = 0; round < 100 && server->progress.nleaving; round++) {
        server->progress.leaving_woken_ns = 0;
        amph_server_flow_progress(server);
    }

    check_mapped();
    expect(!server->progress.mapped_bytes, "nothing is mapped");
    expect(!server->listener.conns && !server->listener.present, "no connection is left");
    expect(!server->progress.npeers && !server->progress.nleaving && !server->progress.notifiers,
           "no client is left");
    close(server->listener.epoll_fd);
    close(server->notify_fd);
    amph_server_readers_stop(server);
    pthread_mutex_destroy(&server->shared.lock);
    free(server->progress.departed);
    free(server->progress.handle);
    free(server->progress.peer);
    free(server);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < FDS; fd++)
        n += fcntl(fd, F_GETFD) >= 0;

    return n;
}

static void act(uint8_t what)
{
    unsigned i = what >> 3 & 7;

    switch (what & 7) {
    case 0:
        start(i);
        break;
    case 1:
        send_raw(i);
        break;
    case 2:
        take_output(i);
        break;
    case 3:
        ask(i);
        break;
    case 4:
        hang_up(i);
        break;
    case 5:
        time_out(i);
        break;
    case 6:
        take_events(what & 64 ? UINT32_MAX : 1);
        break;
    default:
        take_output(i);
        if ((what & 192) == 192)
            send_keep(i);
        else if (what & 64)
            send_query(i);
        else
            send_hello(i);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static bool prepared;

    if (!prepared) {
        signal(SIGPIPE, SIG_IGN);
        expect(amph_server_exports_open("/fwd=/tmp", &exports) == AMPH_OK, "an export");
        prepared = true;
    }

    input = bytes;
    input_left = len;

    unsigned before = descriptors();

    open_server();
    for (unsigned n = 0; n < ACTIONS && input_left; n++)
        act(next());

    close_server();
    expect(descriptors() == before, "every descriptor has been closed");
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the tcp conduit itself: several instances in one process talk over loopback. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "tests/conformance/unit_conduit_tcp.h"

const struct amph_conduit_ops *const *amph_ofi_conduits(void);

const struct amph_conduit_ops *ops;

const struct amph_conduit_ops *tcp(void)
{
    const struct amph_conduit_ops *const *list = amph_ofi_conduits();
    while (strcmp((*list)->name, "tcp") != 0)
        list++;

    return *list;
}

struct node node[MAX_NODES];
unsigned nnodes;
bool bursts;
unsigned threads_of;

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    struct node *n = up;

    __atomic_fetch_add(&n->got[lane], 1, __ATOMIC_RELAXED);
    n->from[peer]++;
    n->last = *am;
    n->last_peer = peer;
    memcpy(n->last_args, am->args, 4u * am->nargs);
    if (amph_ofi_kind_packs(am->kind))
        memcpy(n->last_payload, am->payload, am->nbytes);

    if (am->handler == 9 && (uint32_t)am->args[0] != n->order_next++)
        n->bad++;

    if (lane == AMPH_LANE_REQUEST && n->answer) {
        struct amph_am reply = {
            .kind = AMPH_AM_SHORT, .handler = 2, .nargs = am->nargs, .args = am->args
        };

        if (ops->am_send(n->cx, peer, AMPH_LANE_REPLY, &reply, NULL) != AMPH_OK)
            n->bad++;
    }
}

static void on_peer_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    struct node *n = up;

    /* LOST: transfers in flight failed before the end of the connection was seen */
    n->errors++;
    n->error_st = st;
    if ((st != AMPH_ERR_PEER && st != AMPH_ERR_LOST && st != AMPH_ERR_NOMEM) || !why || !why[0])
        n->bad++;
}

static const struct amph_upcalls upcalls = { on_am, on_peer_error };

void pump(void)
{
    for (unsigned i = 0; i < nnodes; i++)
        ops->progress(node[i].cx, ~0u, 64);
}

uint64_t cookie(unsigned from, unsigned to)
{
    return UINT64_C(0x1234567800000000) + from * 1000 + to;
}

void open_node(unsigned i, bool threaded)
{
    struct amph_cx_config cfg = { .name = "test",
                                  .max_peers = MAX_NODES,
                                  .loopback_only = true,
                                  .interface = "",
                                  .threaded = threaded || (threads_of >> i & 1),
                                  .bursts = bursts,
                                  .upcalls = &upcalls,
                                  .up = &node[i] };

    cr_assert_eq(ops->open(&cfg, &node[i].cx), AMPH_OK);
}

static void link_nodes(unsigned from, unsigned to)
{
    struct amph_peer_spec spec = { node[to].cx->addr, node[to].cx->addr_len, from, cookie(from, to),
                                   cookie(to, from) };

    cr_assert_eq(ops->add_peer(node[from].cx, to, &spec), AMPH_OK);
}

void start(unsigned n, bool threaded)
{
    ops = tcp();
    nnodes = n;

    for (unsigned i = 0; i < n; i++) {
        open_node(i, threaded);
        node[i].seg = mmap(NULL, SEG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0);
        cr_assert_eq(ops->mem_reg(node[i].cx, node[i].seg, SEG_BYTES, -1, 0, &node[i].mem),
                     AMPH_OK);
    }

    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < n; j++) {
            link_nodes(i, j);
            cr_assert_eq(ops->mem_import(node[i].cx, j, node[j].mem.key, node[j].mem.key_len,
                                         &node[i].rmem[j]),
                         AMPH_OK);
        }
}

void stop(void)
{
    for (unsigned i = 0; i < nnodes; i++) {
        cr_assert_eq(node[i].bad, 0);
        ops->mem_dereg(node[i].cx, &node[i].mem);
        ops->close(node[i].cx);
        munmap(node[i].seg, SEG_BYTES);
    }
}

void send_am(unsigned from, unsigned to, enum amph_lane lane, const struct amph_am *am,
             struct amph_op *lc)
{
    enum amph_status st;
    uint64_t end = amph_now_ns() + LIMIT_NS;

    while ((st = ops->am_send(node[from].cx, to, lane, am, lc)) == AMPH_AGAIN) {
        pump();
        cr_assert_lt(amph_now_ns(), end, "a message finds no room");
    }

    cr_assert_eq(st, AMPH_OK, "am_send says %s", amph_status_text(st));
}

void send_short(unsigned from, unsigned to, enum amph_lane lane, int32_t arg)
{
    struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1, .nargs = 1, .args = &arg };
    send_am(from, to, lane, &am, NULL);
}

/* ---- formats ---- */

/* What the kernel says of a connection over which n retransmissions went, the first after 0.2 s, and the
 * last ack_ms before now.  Each time doubles the one before it, up to 120 s. */
static struct tcp_info in_flight(unsigned n, uint32_t since_last_ms, uint32_t ack_ms)
{
    uint32_t rto_ms = n < 10 ? 200u << n : 120000;

    return (struct tcp_info){ .tcpi_state = TCP_ESTABLISHED,
                              .tcpi_unacked = 1,
                              .tcpi_retransmits = (uint8_t)n,
                              .tcpi_backoff = (uint8_t)n,
                              .tcpi_rto = rto_ms * 1000,
                              .tcpi_last_data_sent = since_last_ms,
                              .tcpi_last_ack_recv = ack_ms };
}

/* The same for probes of a full window, of which `unanswered` had no answer. */
static struct tcp_info probed(unsigned n, unsigned unanswered, uint32_t ack_ms)
{
    return (struct tcp_info){ .tcpi_state = TCP_ESTABLISHED,
                              .tcpi_probes = (uint8_t)unanswered,
                              .tcpi_backoff = (uint8_t)n,
                              .tcpi_rto = 200 * 1000,
                              .tcpi_last_ack_recv = ack_ms };
}

static bool silent(struct tcp_info ti)
{
    return amph_ofi_is_unanswered(&ti, 60000);
}

/* Retransmissions at 0.2, 0.6, 1.4, ... 25.4, 51 and 102.2 s. */
Test(tcp, silence_of_data_in_flight)
{
    cr_assert_not(silent(in_flight(8, 8500, 59500)));
    cr_assert(silent(in_flight(8, 9500, 60500)));
    cr_assert(silent(in_flight(9, 100, 102300)));

    /* idle for an hour before, then data without an answer yet */
    cr_assert_not(silent(in_flight(0, 100, 3600100)));
    cr_assert_not(silent(in_flight(1, 300, 3600500)));
    cr_assert_not(silent(in_flight(7, 25000, 3650400)));
    cr_assert(silent(in_flight(8, 9500, 3660500)));

    /* the receiver's window was withdrawn: each retransmission is answered, and not accepted */
    cr_assert_not(silent(in_flight(9, 100, 51300)));
    cr_assert_not(silent(in_flight(9, 60000, 60000)));
    cr_assert_not(silent(in_flight(9, 10000, 61200)));
    cr_assert_not(silent(in_flight(14, 100, 120100)));
    cr_assert_not(silent(in_flight(14, 119000, 119000)));
    cr_assert_not(silent(in_flight(14, 61000, 181000)), "one may be lost");
    cr_assert(silent(in_flight(14, 1000, 241000)));
}

/* Probes at the same times. */
Test(tcp, silence_of_a_full_window)
{
    cr_assert_not(silent(probed(0, 0, 3600000)), "nothing is in flight");
    cr_assert_not(silent(probed(8, 8, 59900)));
    cr_assert(silent(probed(8, 8, 60100)));

    /* a stopped receiver, whose kernel answers */
    cr_assert_not(silent(probed(9, 0, 102000)));
    cr_assert_not(silent(probed(12, 0, 119000)));
    cr_assert_not(silent(probed(12, 1, 121000)), "one probe may be lost");
    cr_assert(silent(probed(12, 2, 240100)));

    /* the window was full for an hour before there was data */
    cr_assert_not(silent(probed(1, 1, 3600200)));
    cr_assert_not(silent(probed(4, 4, 3603000)));
}

Test(tcp, addresses_are_portable_and_checked)
{
    static const uint8_t v4[] = { 1, 4, 0x1f, 0x90, 127, 0, 0, 1 };
    static const uint8_t bad[][8] = { { 2, 4, 0x1f, 0x90, 127, 0, 0, 1 },
                                      { 1, 5, 0x1f, 0x90, 127, 0, 0, 1 },
                                      { 1, 4, 0, 0, 127, 0, 0, 1 } };
    uint8_t blob[AMPH_ADDR_MAX_BYTES];
    struct sockaddr_storage sa;

    cr_assert_eq(amph_ofi_get_address(v4, sizeof v4, &sa), AMPH_OK);
    cr_assert_eq(ntohs(((struct sockaddr_in *)&sa)->sin_port), 8080);
    cr_assert_eq(ntohl(((struct sockaddr_in *)&sa)->sin_addr.s_addr), INADDR_LOOPBACK);
    cr_assert_eq(amph_ofi_put_address(&sa, blob), sizeof v4);
    cr_assert_arr_eq(blob, v4, sizeof v4);

    for (size_t len = 0; len < 40; len++)
        if (len != sizeof v4 && len != 20)
            cr_assert_eq(amph_ofi_get_address(v4, len, &sa), AMPH_ERR_PROTO);

    for (size_t i = 0; i < AMPH_COUNTOF(bad); i++)
        cr_assert_eq(amph_ofi_get_address(bad[i], 8, &sa), AMPH_ERR_PROTO);
}

Test(tcp, pools_keep_their_limit_and_reuse)
{
    struct amph_ofi_cx cx = { .need_reg = false };
    struct amph_ofi_pool pool;
    void *item[8];

    amph_ofi_pool_init(&pool, &cx, 100, 4, 8);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++) {
            item[i] = amph_ofi_pool_get(&pool);
            cr_assert_not_null(item[i]);
            memset(item[i], round, 100);
        }

        cr_assert_null(amph_ofi_pool_get(&pool));
        for (int i = 0; i < 8; i++)
            amph_ofi_pool_put(&pool, item[i], NULL);
    }

    amph_ofi_pool_fini(&pool);
}

Test(tcp, keys_are_checked)
{
    struct amph_rmem m;
    uint8_t key[64];

    start(1, false);
    cr_assert_eq(node[0].rmem[0].base, (uintptr_t)node[0].seg);
    for (size_t len = 0; len < node[0].mem.key_len; len++)
        cr_assert_eq(ops->mem_import(node[0].cx, 0, node[0].mem.key, len, &m), AMPH_ERR_PROTO);

    static const struct {
        size_t at;
        uint8_t value;
    } spoil[] = { { 0, 9 }, { 1, 1 }, { 2, 1 }, { 7, 1 }, { 32, 0x55 } };
    for (size_t i = 0; i < AMPH_COUNTOF(spoil); i++) {
        memcpy(key, node[0].mem.key, sizeof key);
        key[spoil[i].at] = spoil[i].value;
        cr_assert_eq(ops->mem_import(node[0].cx, 0, key, node[0].mem.key_len, &m), AMPH_ERR_PROTO,
                     "byte %zu", spoil[i].at);
    }

    memcpy(key, node[0].mem.key, sizeof key);
    memset(key + 16, 0xff, 8); /* a length that runs around the end of memory */
    cr_assert_eq(ops->mem_import(node[0].cx, 0, key, node[0].mem.key_len, &m), AMPH_ERR_PROTO);
    stop();
}

/* ---- messages ---- */

Test(tcp, messages_of_every_size_and_kind)
{
    static const uint32_t sizes[] = {
        0,    1,    7,    8,    63,   64,   95,   96,    97,    128,
        1000, 4000, 4031, 4032, 4064, 4065, 9000, 65408, 65535, 65536
    };
    static const uint8_t kinds[] = { AMPH_AM_SHORT, AMPH_AM_MEDIUM, AMPH_AM_LONG,
                                     AMPH_AM_LONG_PACKED, AMPH_AM_INTERNAL };
    uint8_t *data = malloc(OFI_MAX_MEDIUM);
    int32_t args[AMPH_AM_MAX_ARGS];

    start(2, false);
    for (unsigned i = 0; i < OFI_MAX_MEDIUM; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 8));

    for (int i = 0; i < AMPH_AM_MAX_ARGS; i++)
        args[i] = (int32_t)(0x81234567u * (unsigned)(i + 1));

    for (size_t k = 0; k < AMPH_COUNTOF(kinds); k++)
        for (size_t s = 0; s < AMPH_COUNTOF(sizes); s++)
            for (unsigned v = 0; v < 8; v++) {
                static const uint8_t nargs[] = { 0, 1, 15, 16 };
                struct counted lc = COUNTED;
                struct amph_am am = { .kind = kinds[k],
                                      .handler = (uint8_t)(200 + v),
                                      .nargs = nargs[v & 3],
                                      .flags = (uint8_t)(v * 33),
                                      .aux = (uint16_t)(40000 + s),
                                      .nbytes = kinds[k] == AMPH_AM_SHORT ? 0 : sizes[s],
                                      .dest = UINT64_C(0xfedcba9876543210) + s,
                                      .args = args,
                                      .payload = data };
                struct node *to = &node[1];
                uint64_t before = to->got[v & 1];

                send_am(0, 1, v & 1 ? AMPH_LANE_REPLY : AMPH_LANE_REQUEST, &am,
                        v & 4 ? &lc.op : NULL);
                PUMP_UNTIL(to->got[v & 1] > before && (!(v & 4) || lc.done));
                cr_assert(to->last_peer == 0 && to->last.kind == am.kind &&
                          to->last.handler == am.handler && to->last.flags == am.flags);
                cr_assert(to->last.aux == am.aux && to->last.nbytes == am.nbytes &&
                          to->last.dest == am.dest && to->last.nargs == am.nargs);
                cr_assert_arr_eq(to->last_args, args, 4u * am.nargs);

                if (amph_ofi_kind_packs(am.kind))
                    cr_assert(memcmp(to->last_payload, data, am.nbytes) == 0, "kind %u, %u bytes",
                              am.kind, am.nbytes);

                cr_assert_eq(lc.done, v & 4 ? 1 : 0);
                cr_assert_eq(lc.st, AMPH_OK);
            }

    free(data);
    stop();
}

Test(tcp, impossible_messages_are_refused)
{
    static int32_t args[20];
    static uint8_t data[OFI_MAX_MEDIUM + 1];

    start(1, false);

    struct amph_am am = { .kind = AMPH_AM_SHORT, .nargs = 17, .args = args };

    cr_assert_eq(ops->am_send(node[0].cx, 0, AMPH_LANE_REQUEST, &am, NULL), AMPH_ERR_ARG);
    am = (struct amph_am){ .kind = AMPH_AM_MEDIUM, .nbytes = OFI_MAX_MEDIUM + 1, .payload = data };
    cr_assert_eq(ops->am_send(node[0].cx, 0, AMPH_LANE_REQUEST, &am, NULL), AMPH_ERR_ARG);
    am = (struct amph_am){ .kind = 5 };
    cr_assert_eq(ops->am_send(node[0].cx, 0, AMPH_LANE_REQUEST, &am, NULL), AMPH_ERR_ARG);
    am = (struct amph_am){ .kind = AMPH_AM_SHORT };
    cr_assert_eq(ops->am_send(node[0].cx, MAX_NODES, AMPH_LANE_REQUEST, &am, NULL), AMPH_ERR_RANGE);
    cr_assert_eq(ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL), AMPH_ERR_STATE);

    struct amph_peer_spec spec = { node[0].cx->addr, node[0].cx->addr_len, 0, 0, 0 };

    cr_assert_eq(ops->add_peer(node[0].cx, 0, &spec), AMPH_ERR_STATE);
    cr_assert_eq(ops->add_peer(node[0].cx, MAX_NODES, &spec), AMPH_ERR_RANGE);
    spec.addr_len = 3;
    cr_assert_eq(ops->add_peer(node[0].cx, 1, &spec), AMPH_ERR_PEER);
    stop();
}

/* Whatever a peer writes that is no message is dropped and counted, and nothing else happens. */
Test(tcp, hostile_messages_are_dropped)
{
    /* clang-format off */
    static const struct { size_t at; uint8_t value; size_t len; bool cookie; } hostile[] = {
        { 0, 0xff, 32, true },  { 16, 13, 32, true },  { 19, 0xff, 32, true },  { 31, OFI_WIRE_VERSION + 1, 32, false }, { 26, 9, 32, false },
        { 27, 2, 32, false },   { 29, 17, 32, false }, { 29, 4, 32, false },    { 20, 8, 32, false }, { 23, 0xff, 32, false },
        { 20, 0, 40, false },   { 0, 0, 8, false },    { 31, 1, 16, false },    { 31, 1, 31, false }, { 20, 1, 48, false },
    };

    /* clang-format on */
    uint64_t raw[16];

    start(2, false);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[0] == 1);

    for (size_t i = 0; i < AMPH_COUNTOF(hostile); i++) {
        struct amph_am am = { .kind = AMPH_AM_MEDIUM };
        uint64_t cookies = amph_counters[AMPH_COUNTER_DROP_COOKIE];
        uint64_t malformed = amph_counters[AMPH_COUNTER_DROP_MALFORMED];

        memset(raw, 0, sizeof raw);
        amph_ofi_put_head(raw, &am, AMPH_LANE_REQUEST, 0, cookie(0, 1));
        if (hostile[i].len >= 32)
            ((uint8_t *)raw)[hostile[i].at] = hostile[i].value;

        struct amph_ofi_cx *cx = amph_ofi_of(node[0].cx);

        cr_assert_eq(fi_inject(cx->ep, raw, hostile[i].len, cx->peer[1].addr), 0);
        PUMP_UNTIL(amph_counters[AMPH_COUNTER_DROP_COOKIE] +
                       amph_counters[AMPH_COUNTER_DROP_MALFORMED] >
                   cookies + malformed);
        cr_assert_eq(amph_counters[AMPH_COUNTER_DROP_COOKIE] - cookies, hostile[i].cookie ? 1 : 0,
                     "case %zu", i);
    }

    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[0] == 2);
    cr_assert_eq(node[1].got[1], 0);
    stop();
}

/* Strangers that speak the provider's own protocol, badly: what they cause is dropped, and peers'
 * messages arrive once and in order. */
Test(tcp, unauthenticated_connections_do_no_harm)
{
    uint8_t junk[168];
    int fd[40];
    int32_t seq = 0;

    start(2, false);
    for (size_t k = 0; k < AMPH_COUNTOF(fd); k++) {
        memset(junk, 0, sizeof junk);
        junk[0] = 3;
        junk[3] = (uint8_t)(k % 3 ? 8 : k);
        for (size_t i = 104; i < sizeof junk; i++)
            junk[i] = (uint8_t)(k * 57 + i * i);

        struct sockaddr_storage sa;

        cr_assert_eq(amph_ofi_get_address(node[1].cx->addr, node[1].cx->addr_len, &sa), AMPH_OK);
        fd[k] = socket(AF_INET, SOCK_STREAM, 0);
        cr_assert_eq(connect(fd[k], (struct sockaddr *)&sa, sizeof(struct sockaddr_in)), 0);
        cr_assert_eq(send(fd[k], junk, k % 4 ? sizeof junk : k, MSG_NOSIGNAL),
                     k % 4 ? (ssize_t)sizeof junk : (ssize_t)k);

        for (int i = 0; i < 200; i++, seq++) {
            struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 9, .nargs = 1, .args = &seq };

            send_am(0, 1, AMPH_LANE_REQUEST, &am, NULL);
            pump();
        }

        if (k % 2)
            close(fd[k]);
    }

    PUMP_UNTIL(node[1].got[0] == (uint64_t)seq);
    for (size_t k = 0; k < AMPH_COUNTOF(fd); k += 2)
        close(fd[k]);

    for (int i = 0; i < 1000; i++)
        pump();

    cr_assert_eq(node[1].got[0], (uint64_t)seq);
    stop();
}

static unsigned open_files(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;

    return n;
}

/* A connection to node 0's port by no instance. */
static int unauthenticated(void)
{
    const struct sockaddr_storage *sa = &amph_ofi_of(node[0].cx)->listen_addr;
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(connect(fd, (const struct sockaddr *)sa, (socklen_t)amph_ofi_sockaddr_len(sa)), 0);
    return fd;
}

/* Connections that close after some bytes, or say nothing, take no descriptors; they are counted,
 * and members are served meanwhile. */
Test(tcp, unauthenticated_connections_use_few_descriptors)
{
    enum {
        STRANGERS = 120,
        SILENT = 200,
        KEPT = 64
    };

    static const uint8_t bytes[64] = { 3, 0 };
    int silent[SILENT];

    start(2, false);
    send_short(1, 0, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[0].got[AMPH_LANE_REQUEST] == 1);

    unsigned before = open_files();
    uint64_t dropped = amph_counters[AMPH_COUNTER_DROP_STRANGER];

    for (unsigned k = 0; k < STRANGERS; k++) {
        int fd = unauthenticated();

        cr_assert_eq(send(fd, bytes, 1 + k % 24, MSG_NOSIGNAL), (ssize_t)(1 + k % 24));
        if (k % 2)
            shutdown(fd, SHUT_WR);

        errno = EAGAIN; /* as after any call that found nothing to do */
        pump();
        close(fd);
        errno = EAGAIN;
        pump();
        send_short(1, 0, AMPH_LANE_REQUEST, 1);
    }

    PUMP_UNTIL(node[0].got[AMPH_LANE_REQUEST] == 1 + STRANGERS);
    for (unsigned k = 0; k < 1000; k++)
        pump();

    unsigned after = open_files();

    cr_assert_leq(after, before, "%u descriptors, %u before", after, before);
    PUMP_UNTIL(amph_counters[AMPH_COUNTER_DROP_STRANGER] - dropped == STRANGERS);

    for (unsigned k = 0; k < SILENT; k++) {
        silent[k] = unauthenticated();
        cr_assert_eq(send(silent[k], bytes, k % 12, MSG_NOSIGNAL), (ssize_t)(k % 12));
        errno = EAGAIN;
        pump();
    }

    for (unsigned k = 0; k < 1000; k++)
        pump();

    after = open_files() - SILENT; /* our own ends */
    cr_assert_leq(after, before + KEPT, "%u descriptors, %u before", after, before);
    for (unsigned k = 0; k < SILENT; k++)
        close(silent[k]);

    for (unsigned k = 0; k < 1000; k++) {
        errno = EAGAIN;
        pump();
    }

    after = open_files();
    cr_assert_leq(after, before, "%u descriptors at the end, %u before", after, before);
    stop();
}

/* The descriptors that are left are not used for unauthenticated peers: the process still opens files, and members that
 * are connected are served. */
Test(tcp, unauthenticated_connections_leave_descriptors)
{
    enum {
        LIMIT = 256,
        STRANGERS = 250
    };

    const struct rlimit few = { LIMIT, LIMIT };

    /* as libfabric's: a head of 32 bytes; version, port and process */
    uint8_t greeting[40] = { 3, 0, 0, 8, [24] = 1 };
    int pipes[2];

    start(2, false);
    send_short(1, 0, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[0].got[AMPH_LANE_REQUEST] == 1);

    cr_assert_eq(pipe(pipes), 0);

    pid_t pid = fork();

    if (pid == 0) {
        static int fd[STRANGERS];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned k = 0; k < STRANGERS; k++) {
            fd[k] = unauthenticated();
            greeting[34] = (uint8_t)(k + 1);
            send(fd[k], greeting, sizeof greeting, MSG_NOSIGNAL);
        }

        cr_assert_eq(write(pipes[1], "", 1), 1);
        pause();
    }

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);

    struct pollfd pfd = { .fd = pipes[0], .events = POLLIN };

    PUMP_UNTIL(poll(&pfd, 1, 0) == 1);
    for (unsigned k = 0; k < 1000; k++)
        pump();

    for (unsigned k = 0; k < 30; k++)
        cr_assert_geq(dup(pipes[0]), 0, "descriptor %u: %s", k, strerror(errno));

    send_short(1, 0, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[0].got[AMPH_LANE_REQUEST] == 2);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    stop();
}

Test(tcp, the_other_byte_order)
{
    static const int32_t args[] = { 0x01020304, -2, 3 };
    static const uint8_t data[] = "opaque bytes";

    amph_wire_swapped = true;
    start(2, false);

    struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                          .handler = 130,
                          .nargs = 3,
                          .aux = 0x1234,
                          .nbytes = sizeof data,
                          .args = args,
                          .payload = data };

    send_am(0, 1, AMPH_LANE_REQUEST, &am, NULL);
    PUMP_UNTIL(node[1].got[0] == 1);
    cr_assert(node[1].last.aux == 0x1234 && node[1].last.nbytes == sizeof data &&
              node[1].last_peer == 0);
    cr_assert_arr_eq(node[1].last_args, args, sizeof args);
    cr_assert_arr_eq(node[1].last_payload, data, sizeof data);

    struct counted rc = COUNTED;

    cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], 8, data, sizeof data, NULL, &rc.op),
                 AMPH_OK);
    PUMP_UNTIL(rc.done == 1);
    cr_assert_arr_eq(node[1].seg + 8, data, sizeof data);
    stop();
}

Test(tcp, requests_wait_while_only_replies_are_wanted)
{
    start(2, false);
    for (int32_t i = 0; i < 100; i++) {
        struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 9, .nargs = 1, .args = &i };

        send_am(0, 1, AMPH_LANE_REQUEST, &am, NULL);
        node[1].got[0] = node[1].from[0] = 0;
        node[1].order_next = 0;

        if (i == 0) { /* connected: from now on node 1 takes replies only */
            PUMP_UNTIL(node[1].got[0] == 1);
            node[1].order_next = 0;
        }
    }

    send_short(0, 1, AMPH_LANE_REPLY, 7);
    node[1].order_next = 1;
    node[1].got[0] = 0;

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (node[1].got[1] == 0) {
        ops->progress(node[0].cx, ~0u, 64);
        ops->progress(node[1].cx, 1u << AMPH_LANE_REPLY, 64);
        cr_assert_lt(amph_now_ns(), end);
    }

    cr_assert_eq(node[1].got[0], 0);
    cr_assert_eq(ops->arm(node[1].cx, AMPH_ARM_FD, 0), AMPH_AGAIN, "kept requests are work");
    PUMP_UNTIL(node[1].got[0] == 99);
    stop();
}

Test(tcp, a_flood_with_replies_arrives_in_order)
{
    start(2, false);
    node[1].answer = true;

    for (int32_t i = 0; i < 20000; i++) {
        struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 9, .nargs = 1, .args = &i };

        send_am(0, 1, AMPH_LANE_REQUEST, &am, NULL);
        if (i % 64 == 0)
            pump();
    }

    PUMP_UNTIL(node[0].got[1] == 20000);
    stop();
}

/* All connect to all at the same moment, themselves included. */
Test(tcp, simultaneous_connections)
{
    start(8, false);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned d = 0; d < 8; d++)
            for (unsigned i = 0; i < 8; i++)
                send_short(i, (i + d) % 8, AMPH_LANE_REQUEST, 1);

    for (unsigned i = 0; i < 8; i++)
        for (unsigned j = 0; j < 8; j++)
            PUMP_UNTIL(node[i].from[j] == 3);

    stop();
}

/* Both ends of a connection inside the host have Reno, whatever the system's congestion control is. */
Test(tcp, connections_inside_the_host_are_not_paced)
{
    unsigned ends = 0;

    start(2, false);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].from[0] == 1);

    for (int fd = 0; fd < 1024; fd++) {
        char name[16] = "";
        socklen_t len = sizeof name;
        struct sockaddr_storage peer;
        socklen_t peer_len = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 ||
            getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) != 0)
            continue;

        cr_assert_eq(strcmp(name, "reno"), 0, "descriptor %d has %s", fd, name);
        ends++;
    }

    cr_assert_geq(ends, 2);
    stop();
}

/* More senders of large messages than there are receive buffers: none is forgotten. */
Test(tcp, many_senders_to_one)
{
    static uint8_t data[OFI_MAX_MEDIUM];

    start(MAX_NODES, false);
    for (unsigned i = 1; i < MAX_NODES; i++) {
        send_short(i, 0, AMPH_LANE_REQUEST, 1);
        PUMP_UNTIL(node[0].from[i] == 1);
    }

    for (unsigned round = 0; round < 12; round++)
        for (unsigned i = 1; i < MAX_NODES; i++) {
            struct amph_am am = { .kind = AMPH_AM_MEDIUM, .nbytes = sizeof data, .payload = data };
            enum amph_status st = ops->am_send(node[i].cx, 0, AMPH_LANE_REQUEST, &am, NULL);

            cr_assert_eq(st, AMPH_OK);
        }

    for (unsigned i = 1; i < MAX_NODES; i++)
        PUMP_UNTIL(node[0].from[i] == 13);

    stop();
}

Test(tcp, a_forgotten_peer_is_not_heard_and_can_come_back)
{
    start(2, false);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[0] == 1);
    ops->del_peer(node[1].cx, 0);

    uint64_t dropped = amph_counters[AMPH_COUNTER_DROP_COOKIE];

    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(amph_counters[AMPH_COUNTER_DROP_COOKIE] == dropped + 1);
    cr_assert_eq(node[1].got[0], 1);
    link_nodes(1, 0);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    send_short(1, 0, AMPH_LANE_REPLY, 1);
    PUMP_UNTIL(node[1].got[0] == 2 && node[0].got[1] == 1);
    stop();
}

/* ---- one-sided ---- */

Test(tcp, puts_and_gets)
{
    static const size_t sizes[] = { 0,    1,    8,     127,   128,     129,
                                    4096, 4097, 65536, 65537, 1 << 20, 3 << 20 };
    uint8_t *src = malloc(3 << 20);
    uint8_t *dst = malloc(3 << 20);

    start(2, false);
    for (size_t i = 0; i < 3 << 20; i++)
        src[i] = (uint8_t)(i * 7 + (i >> 9));

    for (size_t s = 0; s < AMPH_COUNTOF(sizes); s++)
        for (unsigned v = 1; v < 4; v++) { /* lc, rc, both */
            struct counted lc = COUNTED;
            struct counted rc = COUNTED;
            struct counted got = COUNTED;
            enum amph_status st;
            memset(node[1].seg, 0, SEG_BYTES);
            do {
                pump();
                st = ops->put(node[0].cx, 1, &node[0].rmem[1], 77, src, sizes[s],
                              v & 1 ? &lc.op : NULL, v & 2 ? &rc.op : NULL);
            } while (st == AMPH_AGAIN);
            cr_assert_eq(st, AMPH_OK);
            PUMP_UNTIL((!(v & 1) || lc.done) && (!(v & 2) || rc.done));
            cr_assert(lc.done <= 1 && rc.done <= 1 && lc.st == AMPH_OK && rc.st == AMPH_OK);
            if (v & 2)
                cr_assert(memcmp(node[1].seg + 77, src, sizes[s]) == 0, "%zu bytes", sizes[s]);
            memset(dst, 0, sizes[s]);
            cr_assert_eq(ops->get(node[0].cx, 1, &node[0].rmem[1], 77, dst, sizes[s], &got.op),
                         AMPH_OK);
            PUMP_UNTIL(got.done == 1);
            cr_assert(got.st == AMPH_OK && memcmp(dst, src, sizes[s]) == 0, "%zu bytes", sizes[s]);
            cr_assert(node[1].seg[76] == 0 && node[1].seg[77 + sizes[s]] == 0);
        }

    free(src);
    free(dst);
    stop();
}

Test(tcp, a_put_arrives_before_a_later_message)
{
    start(2, false);
    cr_assert(node[0].cx->caps.put_then_am, "the tcp providers promise this order");

    uint8_t *src = malloc(1 << 20);
    struct amph_am am = { .kind = AMPH_AM_LONG, .nbytes = 1 << 20, .dest = 1 };

    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[0] == 1);

    for (int i = 1; i < 50; i++) {
        struct counted lc = COUNTED;

        memset(src, i, 1 << 20);
        cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], 0, src, 1 << 20, &lc.op, NULL),
                     AMPH_OK);
        send_am(0, 1, AMPH_LANE_REQUEST, &am, NULL);
        PUMP_UNTIL(node[1].got[0] == (uint64_t)i + 1);
        cr_assert(node[1].seg[0] == i && node[1].seg[(1 << 20) - 1] == i &&
                  memcmp(node[1].seg, node[1].seg + 1, (1 << 20) - 1) == 0);
        PUMP_UNTIL(lc.done == 1);
    }

    free(src);
    stop();
}

Test(tcp, close_gives_operations_back)
{
    struct counted rc[8];

    start(2, false);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[0] == 1);

    for (size_t i = 0; i < AMPH_COUNTOF(rc); i++) {
        rc[i] = (struct counted)COUNTED;
        cr_assert_eq(
            ops->put(node[0].cx, 1, &node[0].rmem[1], 0, node[0].seg, SEG_BYTES, NULL, &rc[i].op),
            AMPH_OK);
    }

    ops->mem_dereg(node[0].cx, &node[0].mem);
    ops->close(node[0].cx); /* its target made no progress */
    for (size_t i = 0; i < AMPH_COUNTOF(rc); i++)
        cr_assert(rc[i].done == 1 && rc[i].st == AMPH_ERR_STATE);

    ops->mem_dereg(node[1].cx, &node[1].mem);
    ops->close(node[1].cx);
}

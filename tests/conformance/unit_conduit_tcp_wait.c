/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the tcp conduit: waiting, several threads, and peers that die. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/os/clock.h"
#include "tests/conformance/unit_conduit_tcp.h"

/* ---- waiting ---- */

Test(tcp, an_idle_instance_sleeps_and_a_message_wakes_it)
{
    start(2, false);
    cr_assert(node[1].cx->caps.fd_blocks);

    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = { .events = EPOLLIN };

    cr_assert_eq(epoll_ctl(ep, EPOLL_CTL_ADD, ops->wait_fd(node[1].cx), &ev), 0);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[0] == 1);

    for (int i = 0; i < 20; i++) {
        while (ops->progress(node[1].cx, ~0u, 64) ||
               ops->arm(node[1].cx, AMPH_ARM_FD, 0) != AMPH_OK)
            continue;

        cr_assert_eq(epoll_wait(ep, &ev, 1, 10), 0, "readable although nothing came");
        ops->arm(node[1].cx, AMPH_ARM_OFF, 0);
        cr_assert_eq(ops->arm(node[1].cx, AMPH_ARM_FD, 0), AMPH_OK);
        send_short(0, 1, AMPH_LANE_REQUEST, 1);
        cr_assert_eq(epoll_wait(ep, &ev, 1, 5000), 1, "a message does not wake");
        ops->arm(node[1].cx, AMPH_ARM_OFF, 0);
        PUMP_UNTIL(node[1].got[0] == (uint64_t)i + 2);
    }

    close(ep);
    stop();
}

struct sender {
    unsigned puts;
    struct counted rc;
};

static void *send_thread(void *arg)
{
    struct sender *s = arg;

    for (int32_t i = 0; i < 5000; i++) {
        struct amph_am am = { .kind = i % 7 ? AMPH_AM_SHORT : AMPH_AM_MEDIUM,
                              .handler = 9,
                              .nargs = 1,
                              .args = &i,
                              .nbytes = i % 7 ? 0 : 5000,
                              .payload = node[0].seg };

        while (ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL) == AMPH_AGAIN)
            sched_yield();

        if (i % 16 == 0) {
            while (ops->put(node[0].cx, 1, &node[0].rmem[1], 0, node[0].seg, 10000, NULL,
                            &s->rc.op) == AMPH_AGAIN)
                sched_yield();

            s->puts++;
        }
    }

    return NULL;
}

/* One thread sends while another makes progress and sleeps. */
Test(tcp, both_sides_at_once)
{
    struct sender s = { 0, COUNTED };
    pthread_t thread;

    start(2, true);

    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = { .events = EPOLLIN };

    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(epoll_ctl(ep, EPOLL_CTL_ADD, ops->wait_fd(node[i].cx), &ev), 0);

    cr_assert_eq(pthread_create(&thread, NULL, send_thread, &s), 0);

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (node[1].got[0] < 5000 ||
           __atomic_load_n(&s.rc.done, __ATOMIC_ACQUIRE) < (5000 + 15) / 16) {
        pump();

        bool sleep = true;

        for (unsigned i = 0; i < 2; i++)
            sleep = ops->arm(node[i].cx, AMPH_ARM_FD, 0) == AMPH_OK && sleep;

        if (sleep)
            epoll_wait(ep, &ev, 1, 100);

        for (unsigned i = 0; i < 2; i++)
            ops->arm(node[i].cx, AMPH_ARM_OFF, 0);

        cr_assert_lt(amph_now_ns(), end);
    }

    pthread_join(thread, NULL);
    cr_assert_eq(s.rc.done, s.puts);
    close(ep);
    stop();
}

/* ---- death ---- */

/* A child with one instance; its address and key come back through shared memory. */
struct child {
    pid_t pid;
    volatile bool ready;
    uint8_t addr[AMPH_ADDR_MAX_BYTES], key[AMPH_KEY_BLOB_MAX_BYTES];
    size_t addr_len, key_len;
};

static void child_main(struct child *c, const uint8_t *addr, size_t addr_len)
{
    struct amph_mem mem;
    struct amph_peer_spec spec = { addr, addr_len, 1, cookie(1, 0), cookie(0, 1) };

    open_node(1, false);

    void *seg = mmap(NULL, SEG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (ops->mem_reg(node[1].cx, seg, SEG_BYTES, -1, 0, &mem) != AMPH_OK ||
        ops->add_peer(node[1].cx, 0, &spec) != AMPH_OK)
        _exit(1);

    memcpy(c->addr, node[1].cx->addr, c->addr_len = node[1].cx->addr_len);
    memcpy(c->key, mem.key, c->key_len = mem.key_len);
    c->ready = true;
    node[1].answer = true;
    for (uint64_t end = amph_now_ns() + LIMIT_NS; amph_now_ns() < end;)
        ops->progress(node[1].cx, ~0u, 64);

    _exit(1);
}

static struct child *start_child(void)
{
    struct child *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                           0);
    struct sockaddr_storage sa;
    int reserved;

    ops = tcp();

    struct amph_cx_config cfg = { .loopback_only = true, .interface = "" };

    cr_assert_eq(amph_ofi_reserve_address("tcp", &cfg, &sa, &reserved),
                 AMPH_OK); /* libfabric does not survive a fork: the child starts first */
    close(reserved);

    uint8_t addr[AMPH_ADDR_MAX_BYTES];
    size_t addr_len = amph_ofi_put_address(&sa, addr);
    pid_t pid = fork();

    if (pid == 0)
        child_main(c, addr, addr_len);

    cr_assert_gt(pid, 0);
    c->pid = pid;

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (!c->ready) {
        cr_assert_lt(amph_now_ns(), end);
        usleep(1000);
    }

    open_node(0, false);
    nnodes = 1;

    struct amph_peer_spec spec = { c->addr, c->addr_len, 0, cookie(0, 1), cookie(1, 0) };

    cr_assert_eq(ops->add_peer(node[0].cx, 1, &spec), AMPH_OK);
    cr_assert_eq(ops->mem_import(node[0].cx, 1, c->key, c->key_len, &node[0].rmem[1]), AMPH_OK);
    return c;
}

static void kill_child(struct child *c)
{
    kill(c->pid, SIGKILL);
    cr_assert_eq(waitpid(c->pid, NULL, 0), c->pid);
}

static void connect_child(void)
{
    struct amph_am am = { .kind = AMPH_AM_SHORT };
    send_am(0, 1, AMPH_LANE_REQUEST, &am, NULL);
}

/* Sends messages to the peer until its death is noticed. */
static void send_until_dead(void)
{
    uint64_t end = amph_now_ns() + LIMIT_NS;
    struct amph_am am = { .kind = AMPH_AM_SHORT };

    while (node[0].errors == 0) {
        ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL);
        pump();
        cr_assert_lt(amph_now_ns(), end, "the death of a peer is not noticed");
    }
}

static void expect_death(struct child *c)
{
    struct amph_am am = { .kind = AMPH_AM_SHORT };

    send_until_dead();

    for (int i = 0; i < 100; i++)
        pump();

    cr_assert_eq(node[0].errors, 1, "a death is told once");
    cr_assert_eq(ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL), AMPH_ERR_PEER);
    cr_assert_eq(node[0].bad, 0);
    ops->close(node[0].cx);
    munmap(c, sizeof *c);
}

Test(tcp, death_before_the_first_message)
{
    struct child *c = start_child();

    kill_child(c);
    expect_death(c);
}

Test(tcp, death_of_a_connected_peer)
{
    struct child *c = start_child();

    connect_child();
    kill_child(c);
    expect_death(c);
}

Test(tcp, death_with_transfers_in_flight)
{
    static uint8_t buf[SEG_BYTES];
    struct counted put[4];
    struct counted get = COUNTED;
    struct counted lc = COUNTED;
    struct child *c = start_child();

    connect_child();
    kill(c->pid, SIGSTOP);

    for (size_t i = 0; i < AMPH_COUNTOF(put); i++) {
        put[i] = (struct counted)COUNTED;
        cr_assert_eq(
            ops->put(node[0].cx, 1, &node[0].rmem[1], 0, buf, sizeof buf, NULL, &put[i].op),
            AMPH_OK);
    }

    cr_assert_eq(ops->get(node[0].cx, 1, &node[0].rmem[1], 0, buf, 100, &get.op), AMPH_OK);

    struct amph_am am = { .kind = AMPH_AM_MEDIUM, .nbytes = OFI_MAX_MEDIUM, .payload = buf };

    cr_assert_eq(ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, &lc.op), AMPH_OK);
    kill_child(c);
    PUMP_UNTIL(put[0].done && put[1].done && put[2].done && put[3].done && get.done && lc.done);
    for (size_t i = 0; i < AMPH_COUNTOF(put); i++)
        cr_assert(put[i].done == 1 && put[i].st == AMPH_ERR_PEER);

    cr_assert(get.st == AMPH_ERR_PEER && lc.st == AMPH_ERR_PEER);
    expect_death(c);
}

/* Puts in a pack that was sent, and in one that was not, while no other put is in flight: nothing but the next
 * message finds that the peer is dead. */
Test(tcp, death_with_packs_of_puts)
{
    enum {
        PUTS = 80 /* of which 64 fill a pack */
    };
    static struct counted rc[PUTS] = { COUNTED };
    static uint64_t value = 7;

    bursts = true;

    struct child *c = start_child();
    struct amph_ofi_cx *cx = amph_ofi_of(node[0].cx);

    connect_child();
    cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], 0, &value, 8, NULL, &rc[0].op), AMPH_OK);
    PUMP_UNTIL(rc[0].done == 1);
    kill(c->pid, SIGSTOP);
    cx->peer[1].unacked = 1; /* as if a put were in flight */
    __atomic_store_n(&cx->pusher.set, true, __ATOMIC_SEQ_CST);

    for (size_t i = 0; i < PUTS; i++) {
        rc[i] = (struct counted)COUNTED;
        cr_assert_eq(ops->put(node[0].cx, 1, &node[0].rmem[1], i * 8, &value, 8, NULL, &rc[i].op),
                     AMPH_OK);
    }

    cr_assert(cx->pack.held && ops->counts(node[0].cx, 1).sent == 1);
    kill_child(c);

    send_until_dead();

    for (size_t i = 0; i < PUTS; i++)
        cr_assert(rc[i].done == 1 && rc[i].st == AMPH_ERR_PEER, "put %zu", i);

    expect_death(c);
}

/* Takes all memory that malloc has, smaller pieces after larger ones. */
static void **take_memory(void)
{
    void **all = NULL;
    void **piece;

    for (size_t len = 1 << 20; len >= 2 * sizeof(void *); len /= 2)
        while ((piece = malloc(len)) != NULL) {
            *piece = all;
            all = piece;
        }

    return all;
}

static void give_memory(void **all)
{
    while (all) {
        void **next = *all;

        free(all);
        all = next;
    }
}

/* Nothing else would ever say so: without memory a send is refused as if the peer were slow. */
Test(tcp, without_memory_all_peers_fail)
{
    static const uint8_t payload[1000];
    const struct amph_am am = {
        .kind = AMPH_AM_MEDIUM, .handler = 1, .nbytes = sizeof payload, .payload = payload
    };
    struct rlimit before;

#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("malloc of AddressSanitizer ends a process that has no memory");
#endif

    start(2, false);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[0] == 1);

    cr_assert_eq(getrlimit(RLIMIT_DATA, &before), 0);

    const struct rlimit none = { 1, before.rlim_max }; /* Linux takes 0 for the hard limit */
    const uint64_t end = amph_now_ns() + LIMIT_NS;
    enum amph_status st = AMPH_AGAIN;

    setrlimit(RLIMIT_DATA, &none);

    void **memory = take_memory();

    while (st == AMPH_AGAIN && !node[0].errors && amph_now_ns() < end) {
        st = ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL);
        ops->progress(node[0].cx, ~0u, 64);
    }

    setrlimit(RLIMIT_DATA, &before);
    give_memory(memory);
    cr_assert_eq(st, AMPH_AGAIN);
    cr_assert_eq(node[0].errors, 2, "both peers");
    cr_assert_eq(node[0].error_st, AMPH_ERR_NOMEM);
    cr_assert_eq(node[0].bad, 0);
    stop();
}

/* A peer that does not look for long is slow, not dead: it is probed less and less often. */
Test(tcp, a_slow_peer_is_probed_seldom)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1 };
    const struct timespec nap = { 0, (long)AMPH_NS_PER_MS };
    struct tcp_info ti;
    socklen_t len = sizeof ti;

    start(2, false);

    int listener = amph_ofi_of(node[1].cx)->listen_fd;

    cr_assert_geq(listener, 0);
    for (uint64_t end = amph_now_ns() + 3 * AMPH_NS_PER_S; amph_now_ns() < end;) {
        cr_assert_eq(ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL), AMPH_AGAIN);
        ops->progress(node[0].cx, ~0u, 64);
        nanosleep(&nap, NULL);
    }

    /* connections that wait to be accepted: libfabric's, and probes after 0.1, 0.3, 0.7, 1.5 s */
    cr_assert_eq(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &ti, &len), 0);
    cr_assert_leq(ti.tcpi_unacked, 7, "%u connections", ti.tcpi_unacked);
    send_short(0, 1, AMPH_LANE_REQUEST, 1);
    PUMP_UNTIL(node[1].got[AMPH_LANE_REQUEST] == 1);
    stop();
}

/* ---- small operations that are sent together ---- */

enum {
    BURST = 20,
    BURST_PEERS = 11 /* more than connections over which operations are kept back */
};

/* Starts BURST puts of 8 bytes to each of n peers in turn, without progress. */
static void start_burst(unsigned n, uint64_t *src, struct counted *rc)
{
    for (unsigned i = 0; i < BURST * n; i++) {
        unsigned to = 1 + i % n;

        src[i] = i + 1;
        rc[i] = (struct counted)COUNTED;
        cr_assert_eq(
            ops->put(node[0].cx, to, &node[0].rmem[to], i / n * 8, &src[i], 8, NULL, &rc[i].op),
            AMPH_OK);
    }
}

static bool burst_arrived(unsigned n, const uint64_t *src)
{
    for (unsigned i = 0; i < BURST * n; i++) {
        const uint64_t *seg = (const uint64_t *)(const void *)node[1 + i % n].seg;

        if (__atomic_load_n(&seg[i / n], __ATOMIC_RELAXED) != src[i])
            return false;
    }

    return true;
}

static bool burst_done(unsigned n, const struct counted *rc)
{
    return counted_all(rc, (size_t)BURST * n, AMPH_OK);
}

static unsigned kept_back(const struct amph_ofi_cx *cx)
{
    unsigned n = 0;

    for (unsigned i = 0; i < OFI_CORKED_MAX; i++)
        n += cx->cork[OFI_CORK_SEND].fd_plus_1[i] != 0;

    return n;
}

static void connect_all(unsigned n)
{
    start(n + 1, false);
    for (unsigned i = 1; i <= n; i++) {
        send_short(0, i, AMPH_LANE_REQUEST, 1);
        PUMP_UNTIL(node[i].got[0] == 1);
    }
}

Test(tcp, a_burst_of_puts_arrives_although_its_sender_makes_no_progress)
{
    uint64_t src[BURST];
    struct counted rc[BURST];

    connect_all(1);
    start_burst(1, src, rc);
    cr_assert_eq(kept_back(amph_ofi_of(node[0].cx)), 1);

    uint64_t end = amph_now_ns() + LIMIT_NS;

    while (!burst_arrived(1, src) && amph_now_ns() < end)
        ops->progress(node[1].cx, 3, 64);

    cr_assert(burst_arrived(1, src));
    PUMP_UNTIL(burst_done(1, rc));
    cr_assert_eq(kept_back(amph_ofi_of(node[0].cx)), 0);
    stop();
}

Test(tcp, bursts_to_more_peers_than_are_kept_back)
{
    static uint64_t src[BURST * BURST_PEERS];
    static struct counted rc[BURST * BURST_PEERS];

    connect_all(BURST_PEERS);
    start_burst(BURST_PEERS, src, rc);
    cr_assert_eq(kept_back(amph_ofi_of(node[0].cx)), OFI_CORKED_MAX);
    PUMP_UNTIL(burst_done(BURST_PEERS, rc));
    cr_assert(burst_arrived(BURST_PEERS, src));
    cr_assert_eq(kept_back(amph_ofi_of(node[0].cx)), 0);
    stop();
}

static void send_with_more(bool more)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 1, .more = more };

    send_am(0, 1, AMPH_LANE_REQUEST, &am, NULL);
}

/* Messages after which more is sent are kept back until that is sent, or until their sender makes progress. */
Test(tcp, a_message_with_more_after_it_waits_for_that)
{
    connect_all(1);

    const uint64_t before = node[1].from[0];

    send_with_more(true);
    send_with_more(true);
    cr_assert_eq(kept_back(amph_ofi_of(node[0].cx)), 1);
    send_with_more(false);

    for (uint64_t end = amph_now_ns() + LIMIT_NS;
         node[1].from[0] < before + 3 && amph_now_ns() < end;)
        ops->progress(node[1].cx, 3, 64);

    cr_assert_eq(node[1].from[0], before + 3);

    send_with_more(true);
    PUMP_UNTIL(node[1].from[0] == before + 4);
    cr_assert_eq(kept_back(amph_ofi_of(node[0].cx)), 0);
    stop();
}

/* Node 0 hears short messages of node 1 only, so that it reads their connection without asking the provider's set
 * (look.c). */
static void heat(void)
{
    const uint64_t before = node[0].from[1];

    for (unsigned i = 1; i <= 20; i++) {
        send_short(1, 0, AMPH_LANE_REQUEST, 1);
        PUMP_UNTIL(node[0].from[1] == before + i);
    }
}

static void send_bytes(unsigned from, uint32_t nbytes)
{
    static uint8_t data[OFI_MAX_MEDIUM];
    const struct amph_am am = { .kind = AMPH_AM_MEDIUM, .nbytes = nbytes, .payload = data };

    for (uint32_t i = 0; i < nbytes; i++)
        data[i] = (uint8_t)(i * 7 + nbytes);

    send_am(from, 0, AMPH_LANE_REQUEST, &am, NULL);
}

/* What comes over a connection that is read directly: messages of all sizes, alone and together, the data of puts
 * and gets, other connections' messages. */
Test(tcp, a_connection_that_is_read_directly)
{
    static uint8_t buf[SEG_BYTES];
    static const uint32_t sizes[] = {
        8, 1000, 2048, 4096, 8900, 9000, 9100, 20000, OFI_MAX_MEDIUM
    };
    uint64_t others = 0;

    start(3, false);
    memset(buf, 5, sizeof buf);

    for (size_t i = 0; i < AMPH_COUNTOF(sizes); i++) {
        struct counted put = COUNTED;
        struct counted get = COUNTED;
        uint64_t before;

        heat();
        before = node[0].from[1];
        send_bytes(1, sizes[i]);
        PUMP_UNTIL(node[0].from[1] == before + 1);
        for (uint32_t at = 0; at < sizes[i]; at++)
            cr_assert_eq(node[0].last_payload[at], (uint8_t)(at * 7 + sizes[i]));

        heat();
        before = node[0].from[1];
        for (unsigned k = 0; k < 50; k++) {
            send_bytes(1, sizes[i]);
            send_short(1, 0, AMPH_LANE_REQUEST, 1);
        }

        PUMP_UNTIL(node[0].from[1] == before + 100);

        heat();
        node[0].seg[sizes[i]] = 0;
        memset(node[0].seg, 0, sizes[i]);
        cr_assert_eq(ops->put(node[1].cx, 0, &node[1].rmem[0], 0, buf, sizes[i], NULL, &put.op),
                     AMPH_OK);
        PUMP_UNTIL(put.done == 1);
        cr_assert(node[0].seg[sizes[i] - 1] == 5 && node[0].seg[sizes[i]] == 0);

        heat();
        memset(node[1].seg, (int)i + 1, sizes[i]);
        cr_assert_eq(ops->get(node[0].cx, 1, &node[0].rmem[1], 0, buf, sizes[i], &get.op), AMPH_OK);
        PUMP_UNTIL(get.done == 1);
        cr_assert(buf[0] == i + 1 && buf[sizes[i] - 1] == i + 1);
        memset(buf, 5, sizeof buf);

        heat();
        send_short(2, 0, AMPH_LANE_REQUEST, 1);
        others++;
        PUMP_UNTIL(node[0].from[2] == others);
    }

    stop();
}

Test(tcp, the_end_of_a_connection_that_is_read_directly)
{
    const uint64_t end = amph_now_ns() + LIMIT_NS;

    start(2, false);
    heat();
    ops->mem_dereg(node[1].cx, &node[1].mem);
    ops->close(node[1].cx);
    nnodes = 1;

    while (node[0].errors == 0) {
        const struct amph_am am = { .kind = AMPH_AM_SHORT };

        ops->am_send(node[0].cx, 1, AMPH_LANE_REQUEST, &am, NULL);
        pump();
        cr_assert_lt(amph_now_ns(), end, "the end of a peer is not noticed");
    }

    stop();
}

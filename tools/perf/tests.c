/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of amphora-perf: tests, and their targets.
 *
 * Layer: tools.
 */
#include <string.h>

#include "base/settings/env.h"
#include "conduits/conduit.h"
#include "tools/perf/perf.h"

static const uint32_t none[] = { 0, PERF_END };
static const uint32_t word[] = { 8, PERF_END };
static const uint32_t messages[] = { 8, 1u << 10, 4u << 10, 64u << 10, PERF_END };
static const uint32_t spread[] = { 8,          64,       512,      4u << 10, 32u << 10,
                                   256u << 10, 1u << 20, 4u << 20, PERF_END };
static const uint32_t pieces[] = { 8, 64, 512, 4u << 10, 64u << 10, PERF_END };
static const uint32_t blocks[] = { 8, 4u << 10, 1u << 20, PERF_END };
static const uint32_t calls[] = { 1u << 20, PERF_END };

/* clang-format off */
#define PAIR .kind = PERF_PAIR, .procs = { 2 }
#define PAIR_LIMIT .kind = PERF_PAIR, .machine = true, .procs = { 2 }
#define JOB_ALL(...) .kind = PERF_JOB_ALL, .procs = { __VA_ARGS__ }
#define JOB_ALL_LIMIT(...) .kind = PERF_JOB_ALL, .machine = true, .procs = { __VA_ARGS__ }
#define JOB_ALL_PLAIN(...) .kind = PERF_JOB_ALL, .plain = true, .procs = { __VA_ARGS__ }
#define JOB_ALL_PLAIN_LIMIT(...) .kind = PERF_JOB_ALL, .machine = true, .plain = true, .procs = { __VA_ARGS__ }
#define JOB_ALL_ONCE(...) .kind = PERF_JOB_ALL, .once = true, .procs = { __VA_ARGS__ }
#define SERVED_ONCE(...) .kind = PERF_SERVED, .once = true, .procs = { __VA_ARGS__ }
#define FILE_ONE .kind = PERF_FILE, .procs = { 1 }
#define FILE_LIMIT .kind = PERF_FILE, .machine = true, .procs = { 1 }

/* After these, a row goes on with the members behind procs. */
const struct perf_test perf_tests[] = {
    { "line1_rtt", "us", PAIR_LIMIT, none, perf_line1, NULL, NULL,
      "limit: round trip of one cache line that two spinning processes write in turn" },
    { "line2_rtt", "us", PAIR_LIMIT, none, perf_line2, NULL, NULL,
      "limit: round trip over two cache lines; each process spins on the one that only the other writes" },
    { "tcp_rtt", "us", PAIR_LIMIT, messages, perf_tcp_rtt, NULL, NULL,
      "limit: echo over a TCP connection on loopback, both sides spinning on a non-blocking socket with TCP_NODELAY" },
    { "tcp_put", "us", PAIR_LIMIT, messages, perf_tcp_put, NULL, NULL,
      "limit: the same with an answer of 8 bytes" },
    { "tcp_stream", "MB/s", PAIR_LIMIT, spread, perf_tcp_stream, NULL, NULL,
      "limit: writes of this size one after the other into a TCP connection on loopback, up to the reader's answer" },
    { "udp_rtt", "us", PAIR_LIMIT, messages, perf_udp_rtt, NULL, NULL,
      "limit: echo of a datagram (up to 65504 bytes) over a pair of UDP sockets on loopback, both sides spinning" },
    { "udp_stream", "MB/s", PAIR_LIMIT, spread, perf_udp_stream, NULL, NULL,
      "limit: the same bytes in UDP datagrams of up to 65504 bytes on loopback, 1 MiB of them under way, none lost, "
      "many in a system call" },
    { "memcpy", "MB/s", PAIR_LIMIT, spread, perf_memcpy, NULL, NULL, "limit: memcpy between two private buffers of one process" },

    { "line_rate", "M/s", PAIR_LIMIT, none, perf_line_rate, NULL, NULL,
      "limit: cache lines that one process writes and another reads, one after the other through a ring of 32" },
    { "store_rate", "M/s", PAIR_LIMIT, none, perf_store_rate, NULL, NULL,
      "limit: copies of 8 bytes by a load and a store from private to shared memory" },
    { "tcp_rate", "M/s", PAIR_LIMIT, word, perf_tcp_rate, NULL, NULL,
      "limit: writes of this size and 32 bytes more, one after the other into a TCP connection on loopback" },

    { "am_short_rtt", "us", PAIR, none, perf_am_short_rtt, "line2_rtt", "tcp_rtt",
      "round trip of a short request without arguments and its short reply; both sides poll" },
    { "am_barrier_rtt", "us", PAIR, none, perf_am_barrier_rtt, "line2_rtt", "tcp_rtt",
      "the same while the other process waits in a barrier" },
    { "am_event_rtt", "us", PAIR, none, perf_am_event_rtt, "line2_rtt", "tcp_rtt",
      "the same while the other process waits for the event of a barrier" },
    { "am_coll_rtt", "us", PAIR, none, perf_am_coll_rtt, "line2_rtt", "tcp_rtt",
      "the same while the other process waits in a reduction" },
    { "am_block_rtt", "us", PAIR, none, perf_am_block_rtt, "line2_rtt", "tcp_rtt",
      "the same while the other process waits in GASNET_BLOCKUNTIL" },
    { "am_medium_barrier_rtt", "us", PAIR, messages, perf_am_medium_barrier_rtt, "line2_rtt", "tcp_rtt",
      "round trip of a medium request and a medium reply while the other process waits in a barrier" },
    { "am_longest", "ms", PAIR, none, perf_am_longest_ms, NULL, NULL,
      "the longest of 20000 round trips of short requests that are answered by requests" },
    { "am_medium_rtt", "us", PAIR, messages, perf_am_medium_rtt, "line2_rtt", "tcp_rtt",
      "round trip of a medium request and a medium reply that carries the same payload back" },
    { "am_long_rtt", "us", PAIR, messages, perf_am_long_rtt, "line2_rtt", "tcp_rtt",
      "round trip of a long request and a long reply, each with the payload into the other's segment" },
    { "am_short_flood", "M/s", PAIR, none, perf_am_short_flood, "line_rate", "tcp_rate",
      "short requests one after the other, in millions a second, until the receiver has handled them all" },
    { "am_medium_flood", "MB/s", PAIR, messages, perf_am_medium_flood, "memcpy", "tcp_stream",
      "medium requests one after the other until the receiver has handled them all" },
    { "am_long_flood", "MB/s", PAIR, messages, perf_am_long_flood, "memcpy", "tcp_stream",
      "long requests one after the other until the receiver has handled them all" },
    { "am_medium_rate", "M/s", PAIR, word, perf_am_medium_rate, "line_rate", "tcp_rate",
      "the same flood of medium requests, in millions a second" },
    { "am_inject", "us", PAIR, none, perf_am_inject, NULL, NULL,
      "time of the call that sends a medium request of 8 bytes while there is room: bursts of 16 to a process that does not poll" },
    { "am_depth", "1", PAIR, none, perf_am_depth, NULL, NULL,
      "how many such requests a process that does not poll can be sent before one with IMMEDIATE is refused (at most a million)" },

    { "seldom_short", "1", PAIR, none, perf_seldom_short, NULL, NULL,
      "short requests that one poll handles, of a process that computes for 500 us between its polls, while another sends them" },
    { "seldom_medium", "1", PAIR, messages, perf_seldom_medium, NULL, NULL, "the same with medium requests" },
    { "seldom_long", "1", PAIR, messages, perf_seldom_long, NULL, NULL, "the same with long requests" },
    { "seldom_put", "MB/s", PAIR, pieces, perf_seldom_put, "memcpy", "tcp_stream",
      "puts in windows of 64, each window waited for, with such a process" },
    { "seldom_get", "MB/s", PAIR, pieces, perf_seldom_get, "memcpy", "tcp_stream", "the same with gets" },

    { "np_medium_rtt", "us", PAIR, messages, perf_np_medium_rtt, "line2_rtt", "tcp_rtt",
      "round trip of negotiated-payload mediums: both payloads are copied into buffers of the library's" },
    { "np_medium_rate", "M/s", PAIR, word, perf_np_medium_rate, "line_rate", "tcp_rate",
      "prepared medium requests one after the other until the receiver has handled them all, in millions a second" },
    { "np_medium_flood", "MB/s", PAIR, messages, perf_np_medium_flood, "memcpy", "tcp_stream",
      "the same; the payload is copied into the library's buffer, which on smp is in the ring itself" },
    { "np_client_flood", "MB/s", PAIR, messages, perf_np_client_flood, "memcpy", "tcp_stream",
      "the same from the client's own buffer" },
    { "np_long_flood", "MB/s", PAIR, messages, perf_np_long_flood, "memcpy", "tcp_stream",
      "prepared long requests: the payload is copied into the library's buffer and put into the peer's segment" },

    { "put_nbi_rate", "M/s", PAIR, word, perf_put_nbi_rate, "store_rate", "tcp_rate",
      "NBI puts of this size, each to its own place, in windows of 64 that are waited for, in millions a second" },
    { "get_nbi_rate", "M/s", PAIR, word, perf_get_nbi_rate, "store_rate", "tcp_rate", "the same with NBI gets" },
    { "put_nb_rate", "M/s", PAIR, word, perf_put_nb_rate, "store_rate", "tcp_rate", "the same with puts that have events" },
    { "put_lat", "us", PAIR, word, perf_put_lat, NULL, "tcp_put", "blocking put into the peer's segment, up to remote completion" },
    { "get_lat", "us", PAIR, word, perf_get_lat, NULL, "tcp_put", "blocking get from the peer's segment" },
    { "put_bw", "MB/s", PAIR, spread, perf_put_bw, "memcpy", "tcp_stream",
      "puts in windows of NBI operations (64, or as many as make 8 MiB), each window waited for" },
    { "get_bw", "MB/s", PAIR, spread, perf_get_bw, "memcpy", "tcp_stream",
      "gets in windows of NBI operations (64, or as many as make 8 MiB), each window waited for" },

    { "local_fadd", "ns", PAIR_LIMIT, none, perf_local_fadd, NULL, NULL,
      "limit: fetch-and-add by the CPU while the other process makes them on the same line" },
    { "fadd_contended", "ns", PAIR, none, perf_fadd_contended, "local_fadd", NULL,
      "gex_AD fetch-and-add of both processes on a word of rank 0" },
    { "fadd_lat", "us", PAIR, none, perf_fadd_lat, NULL, "tcp_rtt", "gex_AD fetch-and-add on the peer's word, waited for" },
    { "fcas_lat", "us", PAIR, none, perf_fcas_lat, NULL, "tcp_rtt", "gex_AD compare-and-swap on the peer's word, waited for" },
    { "add_rate", "M/s", PAIR, none, perf_add_rate, NULL, NULL, "gex_AD additions in windows of 64 NBI operations" },
    { "strided_put", "MB/s", PAIR, pieces, perf_strided_put, "memcpy", "tcp_stream",
      "gex_VIS_StridedPut of 64 KiB in pieces of this size at the target, solid here, blocking" },
    { "strided_get", "MB/s", PAIR, pieces, perf_strided_get, "memcpy", "tcp_stream",
      "gex_VIS_StridedGet of 64 KiB in pieces of this size at the target, solid here, blocking" },
    { "indexed_put", "MB/s", PAIR, pieces, perf_indexed_put, "memcpy", "tcp_stream",
      "gex_VIS_IndexedPut of 64 KiB in pieces of this size at the target, solid here, blocking" },
    { "indexed_get", "MB/s", PAIR, pieces, perf_indexed_get, "memcpy", "tcp_stream",
      "gex_VIS_IndexedGet of 64 KiB in pieces of this size at the target, solid here, blocking" },
    { "vector_put", "MB/s", PAIR, pieces, perf_vector_put, "memcpy", "tcp_stream",
      "gex_VIS_VectorPut of 64 KiB in pieces of this size at the target, solid here, blocking" },
    { "vector_get", "MB/s", PAIR, pieces, perf_vector_get, "memcpy", "tcp_stream",
      "gex_VIS_VectorGet of 64 KiB in pieces of this size at the target, solid here, blocking" },

    { "yield_all", "us", JOB_ALL_LIMIT(2, 4, 8), none, perf_yield_all, NULL, NULL,
      "limit: every process writes a word and yields its core until all others have written theirs" },
    { "tcp_all", "us", JOB_ALL_LIMIT(2, 4, 8), none, perf_tcp_all, NULL, NULL,
      "limit: every process sends 64 bytes to the first, which then sends them to all, over TCP on loopback; each yields its core until its own have come" },
    { "udp_all", "us", JOB_ALL_LIMIT(2, 4, 8), none, perf_udp_all, NULL, NULL, "limit: the same over UDP" },
    { "barrier", "us", JOB_ALL(2, 8), none, perf_barrier, "yield_all", "tcp_all", "one anonymous barrier of all processes" },
    { "named_barrier", "us", JOB_ALL(2, 4, 8), none, perf_named_barrier, "yield_all", "tcp_all", "one named barrier of all processes" },
    { "named_barrier_longest", "ms", JOB_ALL(2), none, perf_named_barrier_longest_ms, NULL, NULL,
      "the longest of 20000 named barriers of all processes" },
    { "yield_ring", "us", JOB_ALL_PLAIN_LIMIT(2, 4, 8), none, perf_yield_ring, NULL, NULL,
      "limit: every process writes a word of the next one and yields its core until its own was written; normal priority" },
    { "tcp_ring", "us", JOB_ALL_PLAIN_LIMIT(2, 4, 8), none, perf_tcp_ring, NULL, NULL,
      "limit: the same with 64 bytes over TCP on loopback in place of the word, and one more look for a message before" },
    { "udp_ring", "us", JOB_ALL_PLAIN_LIMIT(2, 4, 8), none, perf_udp_ring, NULL, NULL, "limit: the same over UDP" },
    { "tcp_ring_10", "us", JOB_ALL_PLAIN_LIMIT(2, 4, 8), none, perf_tcp_ring_10, NULL, NULL,
      "limit: tcp_ring of processes that look for a message 10 times before each one they send" },
    { "udp_ring_10", "us", JOB_ALL_PLAIN_LIMIT(2, 4, 8), none, perf_udp_ring_10, NULL, NULL, "limit: the same over UDP" },
    { "poll_1", "us", JOB_ALL_PLAIN(2, 4, 8), none, perf_poll_1, "yield_ring", "tcp_ring",
      "every process polls once, sends a message to the next and polls until one has come; normal priority" },
    { "poll_10", "us", JOB_ALL_PLAIN(2, 4, 8), none, perf_poll_10, "yield_ring", "tcp_ring_10", "the same with 10 polls before each message" },
    { "poll_100", "us", JOB_ALL_PLAIN(2, 4, 8), none, perf_poll_100, "yield_ring", "tcp_ring", "the same with 100 polls" },
    { "poll_1000", "us", JOB_ALL_PLAIN(2, 4, 8), none, perf_poll_1000, "yield_ring", "tcp_ring", "the same with 1000 polls" },
    { "coll_barrier2", "us", PAIR, none, perf_coll_barrier, "line2_rtt", "tcp_rtt",
      "gex_Coll_BarrierNB of two processes, waited for" },
    { "coll_barrier", "us", JOB_ALL(2, 8), none, perf_coll_barrier, "yield_all", "tcp_all",
      "gex_Coll_BarrierNB of all processes, waited for" },
    { "coll_broadcast", "us", JOB_ALL(2, 8), blocks, perf_coll_broadcast, NULL, NULL,
      "broadcast, waited for; roots take turns" },
    { "coll_reduce", "us", JOB_ALL(2, 8), blocks, perf_coll_reduce, NULL, NULL,
      "sums of 8-byte integers to one process, waited for; roots take turns" },
    { "coll_reduce_all", "us", JOB_ALL(2, 8), blocks, perf_coll_reduce_all, NULL, NULL,
      "sums of 8-byte integers to all processes, waited for" },
    { "coll_scan", "us", JOB_ALL(2, 8), blocks, perf_coll_scan, NULL, NULL,
      "sums of 8-byte integers up to each process, by an operator of the client's" },
    { "coll_scatter", "us", JOB_ALL(2, 8), blocks, perf_coll_scatter, NULL, NULL,
      "a block of this size from one process to each; roots take turns" },
    { "coll_gather", "us", JOB_ALL(2, 8), blocks, perf_coll_gather, NULL, NULL,
      "a block of this size from each process to one; roots take turns" },
    { "coll_gather_all", "us", JOB_ALL(2, 8), blocks, perf_coll_gather_all, NULL, NULL,
      "a block of this size from each process to all" },
    { "coll_exchange", "us", JOB_ALL(2, 8), blocks, perf_coll_exchange, NULL, NULL,
      "a block of this size from each process to each" },
    { "root_broadcast", "us", JOB_ALL(2, 8), blocks, perf_root_broadcast, NULL, NULL,
      "broadcast, waited for; process 0 is the root of all" },
    { "root_reduce", "us", JOB_ALL(2, 8), blocks, perf_root_reduce, NULL, NULL,
      "sums of 8-byte integers to process 0, waited for" },
    { "root_scatter", "us", JOB_ALL(2, 8), blocks, perf_root_scatter, NULL, NULL,
      "a block of this size from process 0 to each" },
    { "root_gather", "us", JOB_ALL(2, 8), blocks, perf_root_gather, NULL, NULL,
      "a block of this size from each process to process 0" },
    { "team_barrier", "us", JOB_ALL(4, 8), none, perf_team_barrier, NULL, NULL,
      "gex_Coll_BarrierNB of a team of every other process, and of the team of the others at the same time" },
    { "team_reduce_all", "us", JOB_ALL(4, 8), blocks, perf_team_reduce_all, NULL, NULL,
      "sums to all of such a team, both at the same time" },
    { "idle_wait", "ms", JOB_ALL_ONCE(2), none, perf_idle_wait, NULL, NULL,
      "CPU time, of the process and all its threads, that a wait of 5 s for a message takes" },
    { "memory_start", "MiB", SERVED_ONCE(64), none, perf_memory_start, NULL, NULL,
      "largest Pss of a process (smaps_rollup) without its segment, transfer area included, after attach and one barrier" },
    { "memory_all", "MiB", SERVED_ONCE(64), none, perf_memory_all, NULL, NULL,
      "the same after every process has sent a medium request and a put to every other" },

    { "direct_fresh", "MB/s", FILE_LIMIT, calls, perf_direct_fresh, NULL, NULL,
      "limit: writes of this size, 64 MiB in all or 20000 calls, into an empty file of a memory file system" },
    { "direct_write", "MB/s", FILE_LIMIT, calls, perf_direct_write, NULL, NULL,
      "limit: the same over the 64 MiB that are there already" },
    { "direct_read", "MB/s", FILE_LIMIT, calls, perf_direct_read, NULL, NULL, "limit: reads of this size, 64 MiB in all" },
    { "tcp_write", "MB/s", FILE_LIMIT, calls, perf_tcp_write, NULL, NULL,
      "limit: direct_write by a child that receives the data over TCP on loopback and does nothing else; each call is answered" },
    { "tcp_read", "MB/s", FILE_LIMIT, calls, perf_tcp_read, NULL, NULL,
      "limit: direct_read by such a child, which sends the data" },
    { "fwd_fresh", "MB/s", FILE_ONE, calls, perf_fwd_fresh, "direct_fresh", "direct_fresh",
      "writes into the same file forwarded to an I/O server, empty before" },
    { "fwd_write", "MB/s", FILE_ONE, calls, perf_fwd_write, "direct_write", "tcp_write",
      "writes into the same file forwarded to an I/O server, over the 64 MiB that are there already" },
    { "fwd_read", "MB/s", FILE_ONE, calls, perf_fwd_read, "direct_read", "tcp_read",
      "reads of the same file forwarded to an I/O server" },
    { "start_preload", "us", FILE_ONE, none, perf_start_preload, NULL, NULL,
      "what the preload library adds to the run of a program (/bin/true) that touches no forwarded path" },
    { "first_call", "us", FILE_ONE, none, perf_first_call, NULL, NULL,
      "the first forwarded call (stat) of a new program, the connection to its server on the same host included" },
};
/* clang-format on */
const size_t perf_test_count = AMPH_COUNTOF(perf_tests);

/* clang-format off */
static const struct perf_target targets[] = {
    { "am_short_rtt", "smp", 0, 2, true, false, 1.5 },     { "am_short_rtt", "tcp", 0, 2, true, false, 1.35 },
    { "am_medium_rate", "smp", 8, 2, false, true, 4 },     { "am_long_flood", "smp", 4u << 10, 2, false, true, 12000 },
    { "put_nbi_rate", "smp", 8, 2, false, true, 150 },
    { "put_lat", "smp", 8, 2, false, false, 0.008 },       { "get_lat", "smp", 8, 2, false, false, 0.008 },
    { "put_bw", "smp", 1u << 20, 2, true, true, 0.9 },     { "get_bw", "smp", 1u << 20, 2, true, true, 0.9 },
    { "am_short_rtt", "udp", 0, 2, true, false, 1.5 },     { "put_bw", "udp", 1u << 20, 2, true, true, 0.8 },
    { "put_bw", "udp", 1u << 20, 2, false, true, 4000 },
    { "put_bw", "tcp", 1u << 20, 2, true, true, 0.85 },    { "get_bw", "tcp", 1u << 20, 2, true, true, 0.85 },
    { "barrier", "smp", 0, 8, false, false, 20 },          { "barrier", "tcp", 0, 8, false, false, 200 },
    { "coll_barrier2", "smp", 0, 2, true, false, 1.0 }, { "fadd_contended", "smp", 0, 2, true, false, 1.3 },
    { "coll_broadcast", "smp", 8, 8, false, false, 60 }, { "coll_broadcast", "tcp", 8, 8, false, false, 500 },
    { "coll_reduce", "smp", 8, 8, false, false, 60 }, { "coll_reduce", "tcp", 8, 8, false, false, 500 },
    { "coll_reduce_all", "smp", 8, 8, false, false, 60 }, { "coll_reduce_all", "tcp", 8, 8, false, false, 500 },
    { "coll_scan", "smp", 8, 8, false, false, 60 }, { "coll_scan", "tcp", 8, 8, false, false, 500 },
    { "coll_scatter", "smp", 8, 8, false, false, 60 }, { "coll_scatter", "tcp", 8, 8, false, false, 500 },
    { "coll_gather", "smp", 8, 8, false, false, 60 }, { "coll_gather", "tcp", 8, 8, false, false, 500 },
    { "coll_gather_all", "smp", 8, 8, false, false, 60 }, { "coll_gather_all", "tcp", 8, 8, false, false, 500 },
    { "coll_exchange", "smp", 8, 8, false, false, 60 }, { "coll_exchange", "tcp", 8, 8, false, false, 500 },
    { "idle_wait", NULL, 0, 0, false, false, 50 },         { "memory_start", NULL, 0, 0, false, false, 8 },
    { "memory_all", NULL, 0, 0, false, false, 8 },         { "fwd_fresh", "smp", 1u << 20, 0, true, true, 0.68 },
    { "fwd_write", "smp", 1u << 20, 0, true, true, 0.68 }, { "fwd_read", "smp", 1u << 20, 0, true, true, 0.68 },
    { "start_preload", NULL, 0, 0, false, false, 1000 },   { "first_call", "smp", 0, 0, false, false, 3000 },
};
/* clang-format on */

const struct perf_test *perf_find(const char *name, size_t len)
{
    for (size_t i = 0; i < perf_test_count; i++)
        if (strlen(perf_tests[i].name) == len && strncmp(perf_tests[i].name, name, len) == 0)
            return &perf_tests[i];

    return NULL;
}

const struct perf_target *perf_target_of(const struct perf_test *t, const char *conduit,
                                         uint32_t bytes, unsigned procs)
{
    if (amph_conduit_is_datagram(conduit) && amph_env_int(AMPH_ENV_UDP_LOSS))
        return NULL; /* the targets are those of a wire that loses nothing on purpose */

    for (size_t i = 0; i < AMPH_COUNTOF(targets); i++) {
        const struct perf_target *g = &targets[i];
        if (strcmp(g->test, t->name) == 0 && (!g->conduit || strcmp(g->conduit, conduit) == 0) &&
            (!g->bytes || g->bytes == bytes) && (!g->procs || g->procs == procs))
            return g;
    }

    return NULL;
}

const struct perf_target *perf_target_else(const struct perf_target *g)
{
    const struct perf_target *next = g + 1;

    return next < targets + AMPH_COUNTOF(targets) && next->conduit && g->conduit &&
                   strcmp(next->test, g->test) == 0 && strcmp(next->conduit, g->conduit) == 0 &&
                   next->bytes == g->bytes && next->procs == g->procs
               ? next
               : NULL;
}

bool perf_selected(const struct perf_options *opt, const struct perf_test *t)
{
    if (!opt->tests)
        return true;

    size_t len = strlen(t->name);

    for (const char *at = opt->tests; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && strncmp(at, t->name, len) == 0)
            return true;

    return false;
}

unsigned perf_procs(const struct perf_options *opt, const struct perf_test *t, unsigned out[3])
{
    unsigned n = 0;

    if (opt->procs && t->kind != PERF_FILE) {
        out[0] = opt->procs;
        return 1;
    }

    while (n < 3 && t->procs[n])
        out[n] = t->procs[n], n++;

    return n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amphora-perf: measures Amphora in comparison with the machine's own limits.  This header has the
 * declarations that its files share.
 *
 * Layer: tools.
 *
 *   main.c    options, --list, starting the jobs
 *   tests.c   the tables of tests and of targets
 *   inside.c  the processes of a job: sample a test and its limit in turn
 *   report.c  medians, the table, JSON
 *   limits.c  the machine's limits: cache lines, memcpy
 *   links.c   the same: short messages over sockets, in a ring and through one process
 *   tcp.c     the machine's limits of TCP: echoes, a stream, a child that receives a file's data
 *   links.c   the machine's limits of messages between more than two processes
 *   udp.c     the machine's limit of datagrams
 *   loaded.c  waits beside competing processes (-loaded)
 *   state.h   what signal and message handlers read, and samplers keep
 *   am.c, polls.c, rma.c, vis.c, atomic.c, sync.c, coll.c, files.c   the measurements
 *   peer/     a benchmark of its own that other libraries can be built with, and compared by
 *
 * Thread rule: one thread.  A test and a limit are the same thing: a sampler, which every process
 * of the job calls together.
 */
#ifndef AMPH_TOOLS_PERF_H
#define AMPH_TOOLS_PERF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/os/clock.h"
#include "base/platform.h"

#define PERF_MAX_PROCS 1024
#define PERF_MAX_BYTES (4u << 20)
#define PERF_MAX_SAMPLES 101
#define PERF_RING 32u
#define PERF_PREFIX "/amphora-perf" /* the forwarded prefix of file tests; exists nowhere */
#define PERF_FILE_BYTES (64u << 20)

/* The calls that -loaded times. */
enum perf_loaded_call {
    PERF_LOADED_AM,
    PERF_LOADED_BARRIER,
    PERF_LOADED_READ,
    PERF_LOADED_CALLS
};

/* What a row of -loaded gives of a call's times. */
enum perf_loaded_statistic {
    PERF_LOADED_MEDIAN,
    PERF_LOADED_P99,
    PERF_LOADED_MEAN,
    PERF_LOADED_STATISTICS
};

/* A word with a cache line of its own. */
struct perf_line {
    _Alignas(64) _Atomic uint64_t word;
};

/* Memory that the processes of a job and the tool that started it share beside Amphora. */
struct perf_shared {
    _Alignas(128) _Atomic uint64_t line_a;
    _Alignas(128) _Atomic uint64_t line_b;
    struct perf_line ring[PERF_RING];     /* of the limit line_rate */
    struct perf_line own[PERF_MAX_PROCS]; /* of each process, of limits: a word, or its port */
    _Alignas(128) _Atomic uint32_t port;  /* of the TCP limit's listener; 0: not yet */
    _Atomic uint32_t udp_port[2];         /* of the sockets of the UDP limit */
    /* figures, targets met and not, tests without a figure */
    _Atomic uint32_t rows, met, missed, failed;
    double per_proc[PERF_MAX_PROCS];                             /* one number of each process */
    double loaded_us[PERF_LOADED_CALLS][PERF_LOADED_STATISTICS]; /* of the last job of -loaded */
};

enum perf_kind {
    PERF_PAIR,    /* a job of processes; ranks 0 and 1 measure, others wait */
    PERF_JOB_ALL, /* a job of processes; all take part */
    PERF_SERVED,  /* the same with an I/O server, so that every process has a transfer area */
    PERF_FILE,    /* one process and one I/O server, prefix forwarded */
};

struct perf_options {
    const char *conduits; /* "smp,tcp" */
    const char *tests;    /* "a,b" or NULL: all */
    const char *bytes;    /* "8,1K" or NULL: each test's own */
    unsigned procs;       /* 0: each test's own */
    unsigned repeat;
    unsigned deadline;  /* seconds that one sample may take */
    unsigned sample_ms; /* what one sample shall take, if it can be shortened */
    bool json, list;
    const char *inside; /* "PID:FD": this process is a member of a job that the tool started */
    const char *loaded; /* "0,8": waits beside as many competing processes, or NULL */
    const char *dir;    /* real directory of the file tests */
};

struct perf_run {
    const struct perf_options *opt;
    struct perf_shared *shared;
    const char *conduit;
    unsigned rank, procs;
    unsigned char *segment; /* own */
    unsigned char *remote;  /* the segment of the peer: rank 1 for rank 0, rank 0 for all others */
    unsigned char *buffer;  /* PERF_MAX_BYTES of private memory, page-aligned */
    unsigned char *scratch; /* the same, for data that nobody reads */
    int tcp_fd;             /* of the TCP limit, -1: none */
    bool tcp_tried;
    int udp_fd; /* of the UDP limit, -1: none */
    bool udp_tried;
    size_t
        used_bytes; /* a sampler that must take fewer bytes than requested stores its number here */
    char why[200];  /* a sampler that cannot measure says why */
};

/* Takes one sample with messages of `bytes`; collective.  The value counts on rank 0; NaN: cannot
 * measure, see run->why. */
typedef double (*perf_sampler)(struct perf_run *run, size_t bytes);

struct perf_test {
    const char *name;
    const char *unit;
    enum perf_kind kind;
    bool once;             /* too long for repeats */
    bool machine;          /* a limit of the machine: does not depend on the conduit */
    bool plain;            /* at normal priority, as clients are */
    unsigned procs[3];     /* job sizes; 0: no further one; -n overrides */
    const uint32_t *sizes; /* ended by PERF_END; -bytes overrides unless it has the one size 0 */
    perf_sampler sample;
    const char *limit_smp, *limit_net; /* the test it is compared with, or NULL */
    const char *what;
};
#define PERF_END UINT32_MAX

/* A target, for value/limit or for the value alone.  If two consecutive rows are for one test, one
 * of them must be met. */
struct perf_target {
    const char *test, *conduit; /* conduit NULL: any */
    uint32_t bytes;             /* 0: any */
    unsigned procs;             /* 0: any */
    bool is_ratio, at_least;
    double number;
};

extern const struct perf_test perf_tests[];
extern const size_t perf_test_count;
const struct perf_test *perf_find(const char *name, size_t len);
const struct perf_target *perf_target_of(const struct perf_test *t, const char *conduit,
                                         uint32_t bytes, unsigned procs);
/* the other way to meet it, or NULL */
const struct perf_target *perf_target_else(const struct perf_target *g);
bool perf_selected(const struct perf_options *opt, const struct perf_test *t);
/* The job sizes of t under these options; returns how many. */
unsigned perf_procs(const struct perf_options *opt, const struct perf_test *t, unsigned out[3]);

/* Opens the memory that perf_options.inside names.  Returns NULL on failure. */
struct perf_shared *perf_shared_open(const char *inside);
int perf_inside(const struct perf_options *opt);

/* ---- report.c ---- */

struct perf_series {
    double value[PERF_MAX_SAMPLES];
    unsigned count;
};

struct perf_row {
    const struct perf_test *test;
    const char *conduit;
    unsigned procs;
    uint32_t bytes;
    const struct perf_series *values;
    const char *limit; /* NULL: none */
    const struct perf_series *limits;
};

void perf_report_head(const struct perf_options *opt);
void perf_report_row(const struct perf_options *opt, struct perf_shared *shared,
                     const struct perf_row *row);
double perf_median(const struct perf_series *s);

/* ---- loaded.c ---- */

/* run: starts the job of one sample, with as many processes (1: with an I/O server, too) and with
 * AMPHORA_WAIT=wait; false: it failed, and has said why. */
struct perf_loaded {
    const struct perf_options *opt;
    const struct perf_shared *shared;
    bool (*run)(struct perf_loaded *l, const char *conduit, unsigned procs, const char *wait);
};

bool perf_loaded_list(
    const char *list); /* Returns false after a message if it is not a list of numbers. */
void perf_loaded_head(const struct perf_options *opt);
bool perf_loaded_conduit(struct perf_loaded *l, const char *conduit);
int perf_loaded_inside(const struct perf_options *opt);

/* ---- inside a job ---- */

/* Joins the job and fills in run.  Returns false after a message. */
bool perf_join(struct perf_run *run, size_t segment_bytes);

void perf_sync(struct perf_run *run); /* a barrier */
uint64_t perf_sample_ns(const struct perf_run *run);
/* Collective: the number of rounds of which a sample consists, the same in all processes, so that it
 * takes about twice perf_sample_ns.
 * us: what a round takes rank 0. */
uint64_t perf_agree_rounds(struct perf_run *run, double us);
void perf_no_value(struct perf_run *run, const char *fmt, ...) AMPH_PRINTF(2, 3);
/* requests of floods; in signal handlers too */
void perf_am_state(unsigned long long *sent_p, unsigned long long *taken_p);
void perf_am_register(void *ep); /* handlers of am.c and polls.c; ep is a gex_EP_t */
void perf_polls_register(void *ep);
void perf_am_serve(struct perf_run *run);   /* rank 1: polls until rank 0 calls perf_am_release */
void perf_am_release(struct perf_run *run); /* rank 0 */
void perf_am_ping(void);                    /* rank 0: one round trip, waited for */
void perf_am_serve_waiting(void);           /* as perf_am_serve, in one wait */
void perf_am_wake(struct perf_run *run);    /* rank 1: one short request to rank 0 */
void perf_am_await(struct perf_run *run);   /* rank 0: blocks until it has come */
void perf_am_to_all(struct perf_run *run);  /* a medium request to every other process */

/* Counts the operations of a sample that are made one after the other, in batches.  The batches grow,
 * so that reading the clock costs little even if an operation takes a few nanoseconds only. */
struct perf_batches {
    uint64_t start_ns, end_ns;
    uint64_t n; /* operations so far */
    unsigned batch;
};

/* Begins the next batch, of b->batch operations; b is zero at first.  false: the sample has taken
 * sample_ns. */
static inline bool perf_batches_next(struct perf_batches *b, uint64_t sample_ns)
{
    if (b->batch == 0) {
        b->batch = 10;
        b->start_ns = amph_now_ns();
        return true;
    }

    b->end_ns = amph_now_ns();
    b->n += b->batch;
    if (b->n < 1000000)
        b->batch *= 2;

    return b->end_ns - b->start_ns < sample_ns;
}

/* Returns the microseconds of one operation. */
static inline double perf_batches_us(const struct perf_batches *b)
{
    return (double)(b->end_ns - b->start_ns) / (double)b->n / 1e3;
}

/* The samplers, by file. */
double perf_line1(struct perf_run *run, size_t bytes);
double perf_line2(struct perf_run *run, size_t bytes);
double perf_tcp_rtt(struct perf_run *run, size_t bytes);
double perf_tcp_put(struct perf_run *run, size_t bytes);
double perf_tcp_stream(struct perf_run *run, size_t bytes);
double perf_tcp_rate(struct perf_run *run, size_t bytes);
double perf_line_rate(struct perf_run *run, size_t bytes);
double perf_store_rate(struct perf_run *run, size_t bytes);
double perf_memcpy(struct perf_run *run, size_t bytes);
void perf_tcp_close(struct perf_run *run);
/* Moves `total` bytes, a multiple of `bytes`, in calls of `bytes` between run->buffer and the file, which a
 * child at the other end of a TCP connection reads or writes.  MB/s; NaN: failed, see run->why. */
double perf_tcp_file(struct perf_run *run, const char *path, size_t bytes, size_t total,
                     bool reading);
double perf_udp_rtt(struct perf_run *run, size_t bytes);
double perf_udp_stream(struct perf_run *run, size_t bytes);
void perf_udp_close(struct perf_run *run);

double perf_am_short_rtt(struct perf_run *run, size_t bytes);
double perf_am_barrier_rtt(struct perf_run *run, size_t bytes);
double perf_am_event_rtt(struct perf_run *run, size_t bytes);
double perf_am_coll_rtt(struct perf_run *run, size_t bytes);
double perf_am_block_rtt(struct perf_run *run, size_t bytes);
double perf_am_medium_barrier_rtt(struct perf_run *run, size_t bytes);
double perf_am_longest_ms(struct perf_run *run, size_t bytes);
double perf_am_medium_rtt(struct perf_run *run, size_t bytes);
double perf_am_long_rtt(struct perf_run *run, size_t bytes);
double perf_am_short_flood(struct perf_run *run, size_t bytes);
double perf_am_medium_flood(struct perf_run *run, size_t bytes);
double perf_am_long_flood(struct perf_run *run, size_t bytes);
double perf_am_medium_rate(struct perf_run *run, size_t bytes);
double perf_np_medium_rtt(struct perf_run *run, size_t bytes);
double perf_np_medium_rate(struct perf_run *run, size_t bytes);
double perf_np_medium_flood(struct perf_run *run, size_t bytes);
double perf_np_client_flood(struct perf_run *run, size_t bytes);
double perf_np_long_flood(struct perf_run *run, size_t bytes);
double perf_am_inject(struct perf_run *run, size_t bytes);
double perf_am_depth(struct perf_run *run, size_t bytes);
double perf_seldom_short(struct perf_run *run, size_t bytes);
double perf_seldom_medium(struct perf_run *run, size_t bytes);
double perf_seldom_long(struct perf_run *run, size_t bytes);
double perf_seldom_put(struct perf_run *run, size_t bytes);
double perf_seldom_get(struct perf_run *run, size_t bytes);

double perf_put_lat(struct perf_run *run, size_t bytes);
double perf_local_fadd(struct perf_run *run, size_t bytes);
double perf_fadd_contended(struct perf_run *run, size_t bytes);
double perf_fadd_lat(struct perf_run *run, size_t bytes);
double perf_fcas_lat(struct perf_run *run, size_t bytes);
double perf_add_rate(struct perf_run *run, size_t bytes);
double perf_strided_put(struct perf_run *run, size_t bytes);
double perf_strided_get(struct perf_run *run, size_t bytes);
double perf_indexed_put(struct perf_run *run, size_t bytes);
double perf_indexed_get(struct perf_run *run, size_t bytes);
double perf_vector_put(struct perf_run *run, size_t bytes);
double perf_vector_get(struct perf_run *run, size_t bytes);
double perf_get_lat(struct perf_run *run, size_t bytes);
double perf_put_bw(struct perf_run *run, size_t bytes);
double perf_get_bw(struct perf_run *run, size_t bytes);
double perf_put_nbi_rate(struct perf_run *run, size_t bytes);
double perf_get_nbi_rate(struct perf_run *run, size_t bytes);
double perf_put_nb_rate(struct perf_run *run, size_t bytes);

double perf_poll_1(struct perf_run *run, size_t bytes);
double perf_poll_10(struct perf_run *run, size_t bytes);
double perf_poll_100(struct perf_run *run, size_t bytes);
double perf_poll_1000(struct perf_run *run, size_t bytes);
double perf_yield_ring(struct perf_run *run, size_t bytes);
double perf_yield_all(struct perf_run *run, size_t bytes);
double perf_tcp_ring(struct perf_run *run, size_t bytes);
double perf_tcp_ring_10(struct perf_run *run, size_t bytes);
double perf_udp_ring(struct perf_run *run, size_t bytes);
double perf_udp_ring_10(struct perf_run *run, size_t bytes);
double perf_tcp_all(struct perf_run *run, size_t bytes);
double perf_udp_all(struct perf_run *run, size_t bytes);

double perf_barrier(struct perf_run *run, size_t bytes);
double perf_named_barrier(struct perf_run *run, size_t bytes);
double perf_named_barrier_longest_ms(struct perf_run *run, size_t bytes);
double perf_idle_wait(struct perf_run *run, size_t bytes);
double perf_memory_start(struct perf_run *run, size_t bytes);
double perf_memory_all(struct perf_run *run, size_t bytes);

double perf_coll_barrier(struct perf_run *run, size_t bytes);
double perf_coll_broadcast(struct perf_run *run, size_t bytes);
double perf_root_broadcast(struct perf_run *run, size_t bytes);
double perf_coll_reduce(struct perf_run *run, size_t bytes);
double perf_root_reduce(struct perf_run *run, size_t bytes);
double perf_coll_reduce_all(struct perf_run *run, size_t bytes);
double perf_coll_scan(struct perf_run *run, size_t bytes);
double perf_coll_scatter(struct perf_run *run, size_t bytes);
double perf_root_scatter(struct perf_run *run, size_t bytes);
double perf_coll_gather(struct perf_run *run, size_t bytes);
double perf_root_gather(struct perf_run *run, size_t bytes);
double perf_coll_gather_all(struct perf_run *run, size_t bytes);
double perf_coll_exchange(struct perf_run *run, size_t bytes);
double perf_team_barrier(struct perf_run *run, size_t bytes);
double perf_team_reduce_all(struct perf_run *run, size_t bytes);

double perf_direct_fresh(struct perf_run *run, size_t bytes);
double perf_direct_write(struct perf_run *run, size_t bytes);
double perf_direct_read(struct perf_run *run, size_t bytes);
double perf_tcp_write(struct perf_run *run, size_t bytes);
double perf_tcp_read(struct perf_run *run, size_t bytes);
double perf_fwd_fresh(struct perf_run *run, size_t bytes);
double perf_fwd_write(struct perf_run *run, size_t bytes);
double perf_fwd_read(struct perf_run *run, size_t bytes);
double perf_start_plain(struct perf_run *run, size_t bytes);
double perf_start_preload(struct perf_run *run, size_t bytes);
double perf_first_call(struct perf_run *run, size_t bytes);
/* The hidden helper program of perf_first_call: makes one forwarded call and prints how long it
 * took. */
int perf_first_call_child(void);

#endif

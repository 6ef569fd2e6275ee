/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable-datagram protocol of the udp conduit.
 * Layer: conduits (udp).  Thread rule: that of conduit.h.  If cfg.threaded is set, the lock of struct
 * amph_rdp serialises both sides.  It is not held in upcalls, in done functions or while the port
 * receives.
 *
 * The user of the protocol supplies clock and wire: the conduit a real clock and a datagram port, the
 * simulator (tests/conformance/udp_sim.c) virtual ones.  Peers, lanes, messages and operations are
 * those of conduit.h.
 *
 *   rdp_wire.h, rdp_wire.c  packet format            rdp_ack.c   acknowledgement, loss detection
 *   rdp_auth.c              MACs of packets          rdp_cc.c    congestion control
 *   rdp_conn.c              sessions, time-outs      rdp_rma.c   put and get
 *   rdp_send.c              segments, sending        rdp_pool.c  memory pools
 *   rdp_recv.c              receiving, ordering, delivery
 *   rdp_units.c             small puts and gets that travel together
 *   udp.h, udp.c            the conduit              wait.c      sleeping
 *   port.c, port_sock.c     datagram ports           guard.c     retransmission by a thread
 *
 * The room includes base/, boot/ and conduits/ only.  It has no writable globals.
 */
#ifndef AMPH_CONDUITS_UDP_RDP_H
#define AMPH_CONDUITS_UDP_RDP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "conduits/memkey.h"
#include "conduits/port.h"
#include "conduits/udp/rdp_wire.h"

#define RDP_MAX_MEDIUM 65536u
#define RDP_MSG_HEAD_MAX (sizeof(struct amph_rdp_msg) + 4u * AMPH_AM_MAX_ARGS)
/* Window of a lane, in bytes, before the receiver has advertised more.  Both sides use this value. */
#define RDP_WINDOW_INITIAL (256u << 10)
#define RDP_SEG_COST 256u            /* of each segment in the window, in addition to its body */
#define RDP_PN_WINDOW 2048u          /* packets older than this before the newest are ignored */
#define RDP_RECORDS_MAX 65536u       /* packets in flight to one peer */
#define RDP_QUEUE_BYTES (512u << 10) /* unsent bytes of a lane; beyond it AMPH_AGAIN */
/* Largest difference of numbers between the oldest and the newest segment in flight of an RMA lane. */
#define RDP_RMA_SPAN 32768u
#define RDP_OPS_MAX 256u     /* gets of one peer that are answered at the same time */
#define RDP_UNIT_BYTES 4096u /* puts and gets up to this may travel with others */
#define RDP_GET_LISTS 256u   /* of gets in flight, by their numbers; a power of two */
#define RDP_COPY_BYTES 2048u /* payloads up to this are copied even if lc is given */
#define RDP_NEVER UINT64_MAX
/* The acknowledgement of a short packet waits as long for a message that takes it along: less than the shortest
 * time-out. */
#define RDP_ACK_WAIT_NS (150 * AMPH_NS_PER_US)
/* A batch of packets is sent when it has this length: the kernel then copies what the hash has just
 * brought into the cache, and the receiver can begin. */
#define RDP_BATCH_BYTES (60u << 10)
#define RDP_PAGED_BYTES 16384u /* the kernel keeps longer datagrams in pages */
/* Size of a receive queue if it is not known. */
#define RDP_QUEUE_UNKNOWN (4u << 20)
#define RDP_GUARD_NS (20 * AMPH_NS_PER_MS) /* between rounds of the guard */
/* Time for which messages, puts and gets wait for further ones in a process that makes no progress, and the longest
 * one if it has sent them itself until then. */
#define RDP_CORK_NS (200 * AMPH_NS_PER_US)
#define RDP_CORK_MAX_NS AMPH_NS_PER_MS

/* ---- clock and wire ---- */

struct amph_rdp_env {
    void *ctx;
    uint64_t (*now)(void *ctx);
    /* Returns how many were accepted; fewer than n: no room now. */
    unsigned (*send)(void *ctx, const struct amph_port_out *v, unsigned n);
    /* As in conduits/port.h; only for amph_rdp_input_placed. */
    size_t (*peek)(void *ctx, void *head, size_t room);
    bool (*take)(void *ctx, const struct amph_port_in_parts *parts);
    /* Returns true if a datagram waits to be received; called by any thread.  NULL: not known. */
    bool (*queued)(void *ctx);
};

struct amph_rdp_config {
    struct amph_rdp_env env;
    const struct amph_upcalls *upcalls;
    void *up;
    uint32_t max_peers;
    bool threaded;
    uint32_t auth;        /* bits of enum amph_rdp_auth that this side accepts */
    uint32_t place_min;   /* shortest bulk that amph_rdp_input_placed places */
    uint32_t datagram;    /* longest datagram that this side receives */
    uint64_t queue_bytes; /* size of its receive queue; 0: unknown */
    uint64_t timeout_ns;  /* a peer that is silent for longer fails; 0: never */
    uint64_t memory;      /* limit for received messages that wait for delivery, of all peers */
};

/* ---- MACs (rdp_auth.c) ---- */

#define RDP_HASH_BLOCK 2048u /* block of the universal hash */
#define RDP_HASH_BLOCKS (RDP_DATAGRAM_MAX / RDP_HASH_BLOCK + 1)
#define RDP_HASH_SHORT \
    ((RDP_PLAIN_MAX + 31) / 32 * 4) /* words for the longest text without a bulk */
/* Allocated as far as it is needed: most peers of a large job exchange short messages only. */
struct amph_rdp_hash {
    uint64_t block[RDP_HASH_BLOCK / 8];   /* key for a block */
    uint64_t second[2 * RDP_HASH_BLOCKS]; /* key for the hashes of all blocks */
};

/* The keys of one direction. */
struct amph_rdp_keys {
    uint64_t prf[2];
    uint64_t word; /* in the place of a MAC if the network is trusted */
    bool trusted;
    bool clmul;                 /* the hash multiplies without carries */
    bool whole;                 /* all of hash is there; otherwise RDP_HASH_SHORT words */
    struct amph_rdp_hash *hash; /* made for the first packet of a session */
};

void amph_rdp_keys_hello(uint64_t cookie, struct amph_mac_key *k);
void amph_rdp_keys_session(uint64_t cookie, uint64_t nonce_sender, uint64_t nonce_receiver,
                           struct amph_rdp_keys *k);
void amph_rdp_keys_fini(struct amph_rdp_keys *k);
/* Makes the hash's keys, for packets with or without a bulk.  Returns false if memory has run out. */
bool amph_rdp_keys_want_hash(struct amph_rdp_keys *k, bool bulk);
/* SipHash-2-4 of nwords words under a key of 128 bits: a pseudorandom function. */
uint64_t amph_rdp_prf(const uint64_t key[2], const uint64_t *word, unsigned nwords);
/* The MAC of the bulk of a body, and that of the packet: its head, which contains the bulk's MAC, and
 * the first `split` bytes of its body (in parts).  Need the hash. */
uint64_t amph_rdp_bulk_mac(const struct amph_rdp_keys *k, const void *bulk, size_t len_bytes);
uint64_t amph_rdp_head_mac(const struct amph_rdp_keys *k, const uint8_t *head, size_t head_len,
                           const struct amph_mac_part *body, unsigned nbody);
uint64_t amph_rdp_hello_mac(const struct amph_mac_key *mac, const uint8_t *head, size_t head_len,
                            const struct amph_mac_part *body);
bool amph_rdp_hello_ok(const struct amph_mac_key *mac, const void *packet,
                       const struct amph_rdp_packet *p);
bool amph_rdp_head_ok(const struct amph_rdp_keys *k, const void *packet,
                      const struct amph_rdp_packet *p);
bool amph_rdp_bulk_ok(const struct amph_rdp_keys *k, const struct amph_rdp_packet *p);

/* ---- memory (rdp_pool.c) ---- */

enum {
    RDP_POOL_SMALL,
    RDP_POOL_MIDDLE,
    RDP_POOL_LARGE,
    RDP_NPOOLS
};

struct amph_rdp_chunk {
    struct amph_rdp_chunk *next;
};

struct amph_rdp_pool {
    struct amph_rdp_chunk *free[RDP_NPOOLS];
    unsigned nfree[RDP_NPOOLS];
    uint64_t in_use; /* bytes handed out */
};

/* Allocates len_bytes, aligned to 16, or returns NULL.  amph_rdp_pool_put frees it and needs the same
 * length. */
void *amph_rdp_pool_get(struct amph_rdp_pool *p, size_t len_bytes);
void amph_rdp_pool_put(struct amph_rdp_pool *p, void *at, size_t len_bytes);
void amph_rdp_pool_fini(struct amph_rdp_pool *p);

/* ---- sending ---- */

struct amph_rdp_conn;

/* A put at its origin, or the answer to a get at its target.  It is cut into segments in the order of
 * its lane's queue. */
struct amph_rdp_xfer {
    struct amph_rdp_xfer *next;
    struct amph_op *lc, *rc;
    uint8_t code; /* enum amph_rdp_rma_code */
    bool owned;   /* base is a private copy */
    enum amph_status st;
    uint64_t id, key, offset;
    const uint8_t *base;
    uint64_t len_bytes, cut;
    uint32_t chunk;
    uint32_t under_way; /* segments in flight */
    uint32_t holds;     /* further references */
};

/* A message whose payload is sent from the caller's memory, without a copy. */
struct amph_rdp_zcopy {
    struct amph_op *lc;
    uint32_t under_way;
    enum amph_status st;
};

enum amph_rdp_seg_state {
    RDP_SEG_QUEUED,
    RDP_SEG_OUT,
    RDP_SEG_LOST,
    RDP_SEG_DONE
};

struct amph_rdp_seg {
    /* in its lane's queue or, in flight, in its lane's list, oldest first */
    struct amph_rdp_seg *next, *prev;
    struct amph_rdp_seg *next_lost;
    struct amph_rdp_xfer *xfer;
    struct amph_rdp_zcopy *zcopy;
    uint64_t lseq, after;
    uint64_t last_pn; /* of the newest packet that carried it */
    uint8_t *head;    /* in the pool */
    uint32_t head_len, head_room;
    uint32_t lead;       /* bytes of head before its first payload */
    uint16_t nops;       /* puts in head; their operations are at its end */
    uint16_t nanswers;   /* answers to gets in head */
    const uint8_t *data; /* elsewhere */
    uint32_t data_len, body_len;
    uint32_t refs; /* by the records of packets that carried it, and by its lane */
    uint8_t lane, state, flags;
    bool in_lost;
};

/* The record of one transmission. */
enum amph_rdp_rec_state {
    RDP_REC_NONE,
    RDP_REC_OUT,
    RDP_REC_LOST
};

struct amph_rdp_rec {
    struct amph_rdp_seg *seg; /* NULL: a ping */
    uint64_t sent_ns, first_sent_ns, delivered, delivered_ns;
    uint32_t bytes;
    uint8_t state;
    bool app_limited;
};

struct amph_rdp_txlane {
    struct amph_rdp_seg *head, *tail;    /* not sent yet */
    struct amph_rdp_seg *out, *out_tail; /* sent, not acknowledged, by number */
    struct amph_rdp_xfer *xfers, **xfers_tail;
    uint64_t next_lseq; /* number of the next segment */
    uint64_t reserved;  /* PUT: first number after those of all queued puts */
    uint64_t sent_bytes, limit;
    uint64_t uncut_bytes; /* of transfers that have not been split yet */
    uint32_t queued_bytes;
};

/* ---- receiving ---- */

/* A received segment that waits for earlier ones, or for progress of its lane. */
struct amph_rdp_held {
    uint64_t after;
    uint32_t len_bytes, at;
    uint32_t window_bytes; /* of the whole segment, even if only its rest is held */
    uint8_t flags;
    uint64_t body[];
};

struct amph_rdp_rxlane {
    struct amph_rdp_held **ring; /* by number; NULL: not received */
    uint32_t ring_size, nheld;
    uint64_t expected;   /* number of the next segment to deliver */
    uint64_t used_bytes; /* of the window */
    uint64_t limit;      /* advertised to the sender */
    uint32_t window;
    uint64_t grow_ns; /* when growing the window was last considered */
    uint64_t grow_used;
    bool busy, ready;
    /* a message longer than one segment, incomplete */
    uint8_t *assembly;
    uint32_t assembled, assembly_len;
    struct amph_rdp_msg msg;
    int32_t args[AMPH_AM_MAX_ARGS];
};

/* Numbers received in an RMA lane. */
struct amph_rdp_seen {
    uint64_t floor; /* all below have been received */
    uint64_t *bits;
    uint32_t nbits;
};

/* ---- congestion (rdp_cc.c) ---- */

enum amph_rdp_cc_mode {
    RDP_CC_STARTUP,
    RDP_CC_DRAIN,
    RDP_CC_STEADY
};

struct amph_rdp_cc {
    uint64_t delivered, delivered_ns, first_sent_ns;
    uint64_t app_limited_until;
    uint64_t round_end;
    uint32_t round;
    uint64_t bw_round[3]; /* windowed maximum: value and round */
    uint64_t bw[3];       /* bytes a second */
    uint64_t min_rtt_ns, min_rtt_at;
    uint64_t drain_until; /* until then little is sent, to measure the shortest round trip */
    uint64_t full_bw, cycle_at, startup_cwnd;
    uint64_t cwnd, rate, hi;
    uint64_t pace_ns;
    uint64_t lost_round, delivered_round;
    /* bytes acknowledged beyond the path's rate: since epoch_ns, and the maximum of this and the
     * previous window of rounds */
    uint64_t epoch_ns, epoch_bytes, beyond[2];
    uint32_t beyond_round;
    uint64_t rtt_sum; /* of this round */
    uint32_t rtt_count;
    uint64_t sent_startup, lost_startup; /* before the path's rate was known */
    uint32_t loss_ppk;                   /* of 1024, smoothed */
    uint8_t mode, full_count, cycle;
};

/* ---- a peer ---- */

enum amph_rdp_state {
    RDP_CONN_HELLO, /* no session yet */
    RDP_CONN_UP,
    RDP_CONN_LEFT,   /* has sent BYE */
    RDP_CONN_FAILED, /* failed; on_peer_error has not been called yet */
    RDP_CONN_DEAD
};

struct amph_rdp_conn {
    uint32_t peer, remote_index;
    uint8_t state, reason;
    bool active;    /* in amph_rdp.active */
    bool gone;      /* removed; freed when the last upcall for it has returned */
    bool confirmed; /* a packet of this session has been received */
    uint16_t users;
    uint32_t hellos;
    struct amph_rdp_conn *next_active, *prev_active;
    uint64_t cookie_in, cookie_out, nonce, peer_nonce;
    struct amph_rdp_keys out, in;
    uint32_t datagram, body_max;
    uint64_t queue_cap; /* size of the peer's receive queue */

    /* sending */
    uint64_t next_pn, oldest_pn, largest_acked; /* packets [oldest_pn, next_pn) have records */
    uint64_t scan_pn;                           /* no record below this is OUT */
    struct amph_rdp_rec *rec;
    uint32_t nrec;
    uint64_t inflight, inflight_cost, out_packets;
    struct amph_rdp_seg *lost, *lost_tail;
    struct amph_rdp_txlane tx[RDP_NLANES];
    unsigned turn;
    uint64_t srtt_ns, rttvar_ns, last_sent_ns, last_heard_ns, waiting_since_ns, hello_ns;
    uint64_t last_wanted_ns; /* when the newest packet that needs an acknowledgement was sent */
    uint32_t pto_count, reorder, probes;
    uint64_t timer_ns;     /* earliest deadline of this peer, or RDP_NEVER */
    uint64_t loss_ns;      /* when the next packet counts as lost by its age, or RDP_NEVER */
    uint64_t send_ns;      /* when pacing allows the next packet, or RDP_NEVER */
    bool corked;           /* what is queued waits for more, see amph_rdp_push */
    uint8_t run, last_run; /* small puts and gets that followed each other, now and the last time */
    /* the time-out that waits until the receive queue has been drained, and r->handled_cost when it began to */
    uint64_t postponed_due_ns, postponed_cost;
    uint64_t refused_ns;
    uint64_t served;   /* its last turn in delivery */
    uint32_t ngets;    /* our gets in flight */
    uint32_t nanswers; /* the peer's gets being answered */
    struct amph_rdp_cc cc;

    /* receiving */
    uint64_t largest; /* number of the newest packet; valid once any_received */
    uint64_t largest_ns;
    uint64_t ack_ns; /* an acknowledgement is due by then, or RDP_NEVER */
    uint32_t ack_packets, ack_bytes;
    bool any_received;
    uint64_t received[RDP_PN_WINDOW / 64];
    uint32_t repeating; /* words that acknowledgements will still repeat, a bit for each */
    uint8_t repeats[RDP_PN_WINDOW / 64]; /* by how many; valid if the bit is set */
    struct amph_rdp_rxlane rx[AMPH_NLANES];
    struct amph_rdp_seen seen[2];
};

/* A get at its origin. */
struct amph_rdp_get {
    struct amph_rdp_get *next;
    struct amph_op *done;
    uint64_t id;
    uint32_t peer;
    uint8_t *dst;
    uint64_t len_bytes, got;
    enum amph_status st;
};

/* A completed operation, whose done function is called without the lock. */
struct amph_rdp_finished {
    struct amph_op *op;
    enum amph_status st;
};

#define RDP_OUT_BATCH 32
struct amph_rdp {
    struct amph_rdp_config cfg;
    pthread_mutex_t lock;
    struct amph_rdp_conn **conn; /* [max_peers] */
    struct amph_rdp_conn *active;
    struct amph_rdp_pool pool;
    uint64_t now;      /* the clock as the progress side last read it */
    uint64_t timer_ns; /* lower bound of the deadlines of all peers */
    uint64_t held_bytes;
    struct amph_mem_region *regions;
    struct amph_rdp_get *gets[RDP_GET_LISTS];
    uint64_t next_id;
    uint32_t nfailed;
    uint64_t turns;
    unsigned idle_looks;
    bool slept;      /* the process has slept since the clock was last read */
    uint32_t nready; /* lanes with something to deliver */
    uint32_t bulky;  /* datagrams during which another long one is expected: set to BULKY by a long
                        datagram, and one less with each short one */
    unsigned work;   /* requests of peers served since it was last reported */
    bool corked;     /* a peer may be; atomic */
    unsigned corks;  /* since the guard's last round */
    bool corks_often;
    /* time-outs wait until the receive queue has been drained */
    uint64_t drained_ns; /* what had arrived by then has been handled */
    bool drain_wanted;   /* a time-out waits for it; atomic */
    /* longest recent time from a time-out to its handling, and when it was noted */
    uint64_t late_ns, late_at_ns;
    uint64_t handled_cost; /* room in the receive queue that handled datagrams used, about */
    /* r->now in the guard's last round, and in how many rounds it has not changed */
    uint64_t guard_seen;
    unsigned guard_rounds;
    bool guarding; /* the guard handles deadlines */
    struct amph_rdp_finished *finished;
    uint32_t nfinished, finished_room;
    /* packets that are sent together */
    unsigned nout;
    size_t out_bytes; /* of packets with segments */
    struct amph_port_out out[RDP_OUT_BATCH];
    uint64_t head[RDP_OUT_BATCH][RDP_HEAD_MAX / 8 + 1];
    struct {
        struct amph_rdp_conn *c;
        uint64_t pn; /* 0: no record */
    } out_from[RDP_OUT_BATCH];
    uint64_t hello[RDP_OUT_BATCH][sizeof(struct amph_rdp_hello) / 8];
    uint64_t scan_ns; /* next scan of idle peers */
    bool closing;
};

/* ---- the interface (see conduit.h for what the calls mean) ---- */

enum amph_status amph_rdp_open(const struct amph_rdp_config *cfg, struct amph_rdp **r_p);
void amph_rdp_close(struct amph_rdp *r);
enum amph_status amph_rdp_add_peer(struct amph_rdp *r, uint32_t peer, uint32_t remote_index,
                                   uint64_t cookie_out, uint64_t cookie_in, uint32_t datagram);
void amph_rdp_del_peer(struct amph_rdp *r, uint32_t peer);
enum amph_status amph_rdp_am_send(struct amph_rdp *r, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am, struct amph_op *lc);
enum amph_status amph_rdp_put(struct amph_rdp *r, uint32_t peer, uint64_t key, uint64_t offset,
                              const void *src, size_t len_bytes, struct amph_op *lc,
                              struct amph_op *rc);
enum amph_status amph_rdp_get(struct amph_rdp *r, uint32_t peer, uint64_t key, uint64_t offset,
                              void *dst, size_t len_bytes, struct amph_op *done);
enum amph_status amph_rdp_mem_reg(struct amph_rdp *r, void *base, size_t len_bytes,
                                  struct amph_mem_region **region_p);
void amph_rdp_mem_dereg(struct amph_rdp *r, struct amph_mem_region *region);
/* Handles a received datagram.  lanes, budget: as in progress.  Returns the number of messages
 * delivered. */
unsigned amph_rdp_input(struct amph_rdp *r, const void *packet, size_t len_bytes, unsigned lanes,
                        unsigned budget);
enum amph_rdp_next {
    RDP_NEXT_NONE,     /* no datagram waits */
    RDP_NEXT_HANDLED,  /* it has been received and handled */
    RDP_NEXT_ELSEWHERE /* it still waits, for amph_rdp_input */
};
/* Receives the next datagram, its bulk directly into the memory where it belongs: that of a put, a
 * get or a long message.  *n_p: number of messages delivered. */
enum amph_rdp_next amph_rdp_input_placed(struct amph_rdp *r, unsigned lanes, unsigned budget,
                                         unsigned *n_p);
/* Returns true if a long datagram is likely to come next. */
static inline bool amph_rdp_is_bulky(const struct amph_rdp *r)
{
    return r->bulky > 0;
}
/* When the progress side last read the clock, a few looks ago at most.  For this side only. */
static inline uint64_t amph_rdp_looked_ns(const struct amph_rdp *r)
{
    return r->now;
}
/* Delivers messages that wait, and handles deadlines that have passed. */
unsigned amph_rdp_progress(struct amph_rdp *r, unsigned lanes, unsigned budget);
/* Does a time-out wait until the receive queue has been drained? */
static inline bool amph_rdp_wants_drain(const struct amph_rdp *r)
{
    return AMPH_UNLIKELY(__atomic_load_n(&r->drain_wanted, __ATOMIC_RELAXED));
}
/* The receive queue was found empty, and all that was in it at since_ns has been handled.  Needed only if
 * amph_rdp_wants_drain was true at since_ns. */
void amph_rdp_drained(struct amph_rdp *r, uint64_t since_ns);
/* After a batch of datagrams: sends what congestion and windows allow, completes operations. */
unsigned amph_rdp_after_input(struct amph_rdp *r);
/* Before a sleep: sends all acknowledgements.  *deadline_p: when amph_rdp_progress must be called.
 * Returns false if there is work. */
bool amph_rdp_quiesce(struct amph_rdp *r, uint64_t *deadline_p);
/* Has the process sent by itself what waited for more, between the last two rounds of amph_rdp_guard?  For the thread
 * that calls it. */
static inline bool amph_rdp_corks_often(const struct amph_rdp *r)
{
    return r->corks_often;
}
/* Called periodically from another thread: retransmits lost segments, and sends those that wait for
 * more.  asleep: the process sleeps until a datagram or a deadline wakes it.  Returns true if anything is
 * in flight. */
bool amph_rdp_guard(struct amph_rdp *r, bool asleep);
/* Does anything wait for more to be sent with it?  Then amph_rdp_guard is due in RDP_CORK_NS or a little later. */
static inline bool amph_rdp_is_corked(const struct amph_rdp *r)
{
    return __atomic_load_n(&r->corked, __ATOMIC_SEQ_CST);
}
/* Called now and then from that thread.  If the process makes no progress, sends an acknowledgement to
 * each peer that has received nothing for an eighth of the time-out: it computes, and is not dead.
 * Returns true if there is a connected peer. */
bool amph_rdp_keep_alive(struct amph_rdp *r);
/* Begins the end.  Returns true if nothing is in flight. */
bool amph_rdp_finish(struct amph_rdp *r);
void amph_rdp_send_goodbye(struct amph_rdp *r);
/* The wire reports that no process receives at the peer's port. */
void amph_rdp_refused(struct amph_rdp *r, uint32_t peer);

/* ---- between the files ---- */

/* What a datagram takes of a receive queue, whose size is half of what the kernel allows.  The kernel counts twice
 * the length of some short datagrams, but little more than that of a long one, which is in whole pages. */
static inline uint64_t amph_rdp_queue_cost(size_t bytes)
{
    return bytes > RDP_PAGED_BYTES ? (bytes + bytes / 32 + 1024) / 2 : bytes + RDP_SEG_COST;
}

static inline uint64_t amph_rdp_now(const struct amph_rdp *r)
{
    return r->cfg.env.now(r->cfg.env.ctx);
}

static inline void amph_rdp_lock(struct amph_rdp *r)
{
    if (r->cfg.threaded)
        pthread_mutex_lock(&r->lock);
}

static inline void amph_rdp_unlock(struct amph_rdp *r)
{
    if (r->cfg.threaded)
        pthread_mutex_unlock(&r->lock);
}

/* rdp_conn.c */
void amph_rdp_activate(struct amph_rdp *r, struct amph_rdp_conn *c);
void amph_rdp_note_deadline(struct amph_rdp *r, uint64_t at_ns);
void amph_rdp_send_hello(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_fail(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned reason);
void amph_rdp_finish_op(struct amph_rdp *r, struct amph_op *op, enum amph_status st);
unsigned amph_rdp_complete(struct amph_rdp *r); /* without the lock */
void amph_rdp_on_hello(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                       uint64_t now);
/* Drops a reference that was taken for an upcall. */
void amph_rdp_release_conn(struct amph_rdp *r, struct amph_rdp_conn *c);
/* Reads the clock into r->now and returns it.  The time since it was read last, in which the process was
 * stopped or did not poll, counts against silent peers up to a quarter of the time-out only: their
 * answers may have arrived and were not read. */
uint64_t amph_rdp_read_clock(struct amph_rdp *r);
void amph_rdp_due(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
/* A time-out of c was due at due_ns.  Returns true if its answer may have arrived and wait to be received. */
bool amph_rdp_postpones(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t due_ns, uint64_t now);
void amph_rdp_do_due(struct amph_rdp *r, uint64_t now); /* all deadlines that have passed */
void amph_rdp_scan(struct amph_rdp *r, uint64_t now);
enum {
    RDP_WHY_SILENT,
    RDP_WHY_REFUSED,
    RDP_WHY_UNREACHED, /* refused before the first answer */
    RDP_WHY_LEFT,
    RDP_WHY_MEMORY,
    RDP_WHY_MAC
};

/* rdp_send.c */
struct amph_rdp_seg *amph_rdp_seg_new(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                      size_t head_room);
void amph_rdp_seg_unref(struct amph_rdp *r, struct amph_rdp_seg *s);
void amph_rdp_seg_queue(struct amph_rdp_conn *c, struct amph_rdp_seg *s);
void amph_rdp_seg_arrived(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s);
void amph_rdp_seg_lost(struct amph_rdp_conn *c, struct amph_rdp_seg *s);
void amph_rdp_pump(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
/* Sends what is queued, or leaves it queued until it fills a batch, or until the next progress, if the
 * peer is busy with what was sent before: a system call for many packets costs little more than one for
 * a single packet. */
void amph_rdp_push(struct amph_rdp *r, struct amph_rdp_conn *c);
/* Leaves what is queued until the next progress. */
void amph_rdp_cork(struct amph_rdp *r, struct amph_rdp_conn *c);
/* Sends what has waited in vain for more. */
void amph_rdp_uncork(struct amph_rdp *r, uint64_t now);
void amph_rdp_send_ack(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_send_ping(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_send_bye(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_flush(struct amph_rdp *r);
/* Drops all segments and transfers of c; their operations complete with st. */
void amph_rdp_drop_all(struct amph_rdp *r, struct amph_rdp_conn *c, enum amph_status st);
bool amph_rdp_has_outgoing(const struct amph_rdp_conn *c);

/* rdp_ack.c */
void amph_rdp_note_packet(struct amph_rdp *r, struct amph_rdp_conn *c,
                          const struct amph_rdp_packet *p, size_t len_bytes, uint64_t now);
unsigned amph_rdp_make_ack(struct amph_rdp_conn *c, unsigned max_words, struct amph_rdp_ackblk *blk,
                           uint64_t words[], uint64_t now);
void amph_rdp_on_ack(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                     uint64_t now);
void amph_rdp_on_timer(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_rearm(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
struct amph_rdp_rec *amph_rdp_rec_new(struct amph_rdp_conn *c, uint64_t now, size_t bytes);

/* rdp_recv.c */
void amph_rdp_rx_fini(struct amph_rdp *r, struct amph_rdp_conn *c);
bool amph_rdp_seen_test(const struct amph_rdp_seen *s, uint64_t lseq);
/* Returns false if memory has run out or lseq is too far ahead. */
bool amph_rdp_seen_mark(struct amph_rdp_seen *s, uint64_t lseq);

/* rdp_rma.c */
/* Handles an RMA segment.  Returns false if it must be treated as not received. */
bool amph_rdp_on_rma(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p);
/* The memory into which the data of an RMA segment belongs, or NULL.  The segment's head is
 * authentic. */
uint8_t *amph_rdp_rma_dest(struct amph_rdp *r, struct amph_rdp_conn *c,
                           const struct amph_rdp_packet *p, uint32_t *len_bytes_p);
struct amph_rdp_seg *amph_rdp_xfer_cut(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane);
void amph_rdp_xfer_release(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_xfer *x);
void amph_rdp_gets_fail(struct amph_rdp *r, uint32_t peer, enum amph_status st);

/* rdp_units.c */
/* Adds a unit to the lane's last queued segment, or to a new one, which is queued, with room for others if `more`
 * may follow.  data: m->len_bytes to be copied, or NULL; op: of a put, or NULL.  NULL: no memory. */
struct amph_rdp_seg *amph_rdp_unit_add(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                       const struct amph_rdp_rma *m, const void *data,
                                       struct amph_op *op, bool more);
/* Completes the puts of a segment. */
void amph_rdp_units_done(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s,
                         enum amph_status st);
/* Voids a put that the target refuses, and completes it.  false: it is not in this segment. */
bool amph_rdp_unit_void(struct amph_rdp *r, struct amph_rdp_seg *s, uint64_t id);
/* Counts a put or get.  Does it follow others, or will others follow it soon? */
bool amph_rdp_is_one_of_many(struct amph_rdp_conn *c);
/* Sends what is queued, or leaves it queued if `more` may follow. */
void amph_rdp_unit_push(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane, bool more);

/* rdp_cc.c */
void amph_rdp_cc_init(struct amph_rdp_cc *cc, uint32_t datagram);
void amph_rdp_cc_sent(struct amph_rdp_conn *c, struct amph_rdp_rec *rec, uint64_t now, size_t bytes,
                      bool more);
/* newest: a copy of the record of the newest packet acknowledged.  rtt_ns 0: no sample. */
void amph_rdp_cc_acked(struct amph_rdp_conn *c, const struct amph_rdp_rec *newest,
                       uint64_t acked_bytes, uint64_t lost_bytes, uint64_t rtt_ns, uint64_t now);
/* Returns true if a packet of `bytes` may be sent now.  *when_p: if pacing delays it, when it may;
 * otherwise unchanged. */
bool amph_rdp_cc_may_send(const struct amph_rdp_conn *c, size_t bytes, uint64_t now,
                          uint64_t *when_p);

#endif

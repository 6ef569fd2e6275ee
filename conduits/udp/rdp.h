/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable-datagram protocol of the udp conduit.  Layer: conduits (udp).
 *
 * One module with a clock and a wire that its user gives: the conduit gives the machine's and a
 * datagram port, the simulator (tests/conformance/udp_sim.c) gives virtual ones.  Peers, lanes,
 * messages and operations mean what conduit.h says.
 *
 * Thread rule.  That of conduit.h; where cfg.threaded is set the module's own lock serialises both
 * sides and is not held in upcalls, done calls or while the port receives.
 *
 *   rdp_auth.c  codes of packets        rdp_conn.c  acquaintance, time-outs, end     rdp_recv.c
 *               what comes in, order, delivery
 *   rdp_wire.c  bytes                   rdp_send.c  segments, what goes out          rdp_rma.c
 *               put and get
 *   rdp_pool.c  memory, tables          rdp_ack.c   acknowledgement, loss            rdp_cc.c
 *               how much may be under way
 */
#ifndef AMPH_CONDUITS_UDP_RDP_H
#define AMPH_CONDUITS_UDP_RDP_H

#include <pthread.h>

#include "base/clock.h"
#include "base/counters.h"
#include "conduits/port.h"
#include "conduits/udp/rdp_wire.h"

#define RDP_MAX_MEDIUM 65536u
#define RDP_MSG_HEAD_MAX (sizeof(struct amph_rdp_msg) + 4u * AMPH_AM_MAX_ARGS)
#define RDP_WINDOW_FIRST \
    (256u << 10) /* bytes of a lane before the receiver has said more; both sides know it */
#define RDP_WINDOW_LEAST (128u << 10)
#define RDP_SEG_COST 256u            /* that a segment counts in the window beside its body */
#define RDP_PN_WINDOW 2048u          /* packets that may come late by */
#define RDP_RECORDS_MAX 65536u       /* packets under way to one peer */
#define RDP_QUEUE_BYTES (512u << 10) /* of a lane that wait for their turn; then AMPH_AGAIN */
#define RDP_RMA_SPAN \
    32768u /* numbers between the oldest segment of an RMA lane that is under way and the newest */
#define RDP_OPS_MAX 256u     /* gets of a peer that are answered at once */
#define RDP_COPY_BYTES 2048u /* payloads up to this are copied although their owner would wait */
#define RDP_NEVER UINT64_MAX

/* ---- clock and wire ---- */

struct amph_rdp_env {
    void *ctx;
    uint64_t (*now)(void *ctx);
    /* taken; fewer than n: no room now */
    unsigned (*send)(void *ctx, const struct amph_port_out *v, unsigned n);
};

struct amph_rdp_config {
    struct amph_rdp_env env;
    const struct amph_upcalls *upcalls;
    void *up;
    uint32_t max_peers;
    bool threaded;
    uint32_t datagram;    /* longest that we take */
    uint64_t queue_bytes; /* that may wait for us; 0: not known */
    uint64_t timeout_ns;  /* silence after which a peer is given up; 0: never */
    uint64_t memory;      /* bytes of received messages that may wait, all peers together */
};

/* ---- codes (rdp_auth.c) ---- */

#define RDP_HASH_BLOCK 2048u /* bytes that one block of the universal hash covers */
struct amph_rdp_hash {
    uint64_t key[RDP_HASH_BLOCK / 8];
};

/* The keys of one direction. */
struct amph_rdp_keys {
    struct amph_mac_key mac;
    struct amph_rdp_hash *hash; /* made when a long body is first sent or received */
};

void amph_rdp_keys_hello(uint64_t cookie, struct amph_mac_key *k);
void amph_rdp_keys_session(uint64_t cookie, uint64_t nonce_sender, uint64_t nonce_receiver,
                           struct amph_rdp_keys *k);
void amph_rdp_keys_fini(struct amph_rdp_keys *k);
bool amph_rdp_keys_want_hash(struct amph_rdp_keys *k);
/* The code of a packet: its head and the first split bytes of its body (in parts), and the rest of
 * it.  hash NULL: a HELLO. */
uint64_t amph_rdp_mac(const struct amph_mac_key *mac, const struct amph_rdp_hash *hash,
                      const uint8_t *head, size_t head_len, const struct amph_mac_part *body,
                      unsigned nbody, const void *bulk, size_t bulk_len);
bool amph_rdp_mac_ok(const struct amph_mac_key *mac, const struct amph_rdp_hash *hash,
                     const void *packet, const struct amph_rdp_packet *p);

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

/* At least len_bytes, aligned to 16; NULL: memory has run out.  Give it back with the same
 * length. */
void *amph_rdp_pool_get(struct amph_rdp_pool *p, size_t len_bytes);
void amph_rdp_pool_put(struct amph_rdp_pool *p, void *at, size_t len_bytes);
void amph_rdp_pool_fini(struct amph_rdp_pool *p);

/* ---- what goes out ---- */

struct amph_rdp_conn;

/* A put under way at its origin, or the answer to a get at its target: cut into segments in the
 * order of its lane's queue. */
struct amph_rdp_xfer {
    struct amph_rdp_xfer *next;
    struct amph_op *lc, *rc;
    uint8_t code; /* enum amph_rdp_rma_code */
    bool owned;   /* base is a copy of ours */
    enum amph_status st;
    uint64_t id, key, offset;
    const uint8_t *base;
    uint64_t len_bytes, cut;
    uint32_t chunk;
    uint32_t under_way; /* segments */
    uint32_t holds;     /* reasons besides these to keep it */
};

/* A message whose payload is sent from where it lies. */
struct amph_rdp_lent {
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
    /* in its lane's queue; under way: in its lane's list, oldest first */
    struct amph_rdp_seg *next, *prev;
    struct amph_rdp_seg *next_lost;
    struct amph_rdp_xfer *xfer;
    struct amph_rdp_lent *lent;
    uint64_t lseq, after;
    uint64_t last_pn; /* of the newest packet that carried it */
    uint8_t *head;    /* in the pool */
    uint32_t head_len, head_room;
    const uint8_t *data; /* elsewhere */
    uint32_t data_len, body_len;
    uint32_t refs; /* records of packets that carried it, and the lane's own one */
    uint8_t lane, state, flags;
    bool in_lost;
};

/* One transmission. */
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
    struct amph_rdp_seg *head, *tail;    /* never sent yet */
    struct amph_rdp_seg *out, *out_tail; /* sent, not acknowledged, by number */
    struct amph_rdp_xfer *xfers, **xfers_tail;
    uint64_t next_lseq; /* of the next segment that is cut */
    uint64_t reserved;  /* PUT: numbers that all queued puts will have used up */
    uint64_t sent_bytes, limit;
    uint32_t queued_bytes;
};

/* ---- what comes in ---- */

/* A segment that waits for those before it, or for progress of its lane. */
struct amph_rdp_held {
    uint64_t after;
    uint32_t len_bytes, at;
    uint32_t window_bytes; /* of the whole segment, also where only the rest of it is held */
    uint8_t flags;
    uint64_t body[];
};

struct amph_rdp_rxlane {
    struct amph_rdp_held **ring; /* by number; NULL: none */
    uint32_t ring_size, nheld;
    uint64_t expected;   /* number of the next segment to deliver */
    uint64_t used_bytes; /* of the window */
    uint64_t limit;      /* that we have told */
    uint32_t window;
    uint64_t grow_ns; /* when the window was last looked at */
    uint64_t grow_used;
    bool busy, ready;
    /* a long message of which parts have come */
    uint8_t *assembly;
    uint32_t assembled, assembly_len;
    struct amph_rdp_msg msg;
    int32_t args[AMPH_AM_MAX_ARGS];
};

/* Numbers that have come in an RMA lane. */
struct amph_rdp_seen {
    uint64_t floor; /* all below have */
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
    uint64_t drain_until; /* looking for the shortest round trip with little under way */
    uint64_t full_bw, cycle_at, startup_cwnd;
    uint64_t cwnd, rate, hi;
    uint64_t pace_ns;
    uint64_t lost_round, delivered_round;
    uint64_t rtt_sum; /* of this round */
    uint32_t rtt_count;
    uint64_t sent_startup, lost_startup; /* before the path's rate was known */
    uint32_t loss_ppk;                   /* of 1024, smoothed */
    uint8_t mode, full_count, cycle;
};

/* ---- a peer ---- */

enum amph_rdp_state {
    RDP_CONN_HELLO, /* not yet acquainted */
    RDP_CONN_UP,
    RDP_CONN_LEFT,   /* has said goodbye */
    RDP_CONN_FAILED, /* given up; upcall still to come */
    RDP_CONN_DEAD
};

struct amph_rdp_conn {
    uint32_t peer, remote_index;
    uint8_t state, reason;
    bool active;    /* in rdp.active */
    bool gone;      /* forgotten; freed when no upcall is under way that began with it */
    bool confirmed; /* a packet of this acquaintance has come */
    uint16_t users;
    uint32_t hellos;
    struct amph_rdp_conn *next_active, *prev_active;
    uint64_t cookie_in, cookie_out, nonce, peer_nonce;
    struct amph_rdp_keys out, in;
    uint32_t datagram, body_most;
    uint64_t queue_cap; /* bytes that may wait for the peer in its kernel */

    /* sending */
    uint64_t next_pn, least_pn, largest_acked; /* packets [least_pn, next_pn) have records */
    uint64_t scan_pn;                          /* none below this is OUT */
    struct amph_rdp_rec *rec;
    uint32_t nrec;
    uint64_t inflight, inflight_cost, out_packets;
    struct amph_rdp_seg *lost, *lost_tail;
    struct amph_rdp_txlane tx[RDP_NLANES];
    unsigned turn;
    uint64_t srtt_ns, rttvar_ns, last_sent_ns, last_heard_ns, waiting_since_ns, hello_ns;
    uint64_t last_wanted_ns; /* when the newest packet that is to be acknowledged was sent */
    uint32_t pto_count, reorder, probes;
    uint64_t timer_ns; /* of all that is to be done for it; RDP_NEVER */
    uint64_t loss_ns;  /* when the next packet counts as lost by its age, or RDP_NEVER */
    uint64_t send_ns;  /* when pacing allows the next packet, or RDP_NEVER */
    uint64_t refused_ns;
    uint64_t served;   /* its last turn in delivery */
    uint32_t ngets;    /* of ours under way */
    uint32_t nanswers; /* of the peer's */
    struct amph_rdp_cc cc;

    /* receiving */
    uint64_t largest; /* number of the newest packet; valid once any_come */
    uint64_t largest_ns;
    uint64_t ack_ns; /* an acknowledgement is due by then, or RDP_NEVER */
    uint32_t ack_packets, ack_bytes;
    bool any_come;
    uint64_t come[RDP_PN_WINDOW / 64];
    uint8_t fresh[RDP_PN_WINDOW / 64]; /* acknowledgements that shall still repeat this word */
    struct amph_rdp_rxlane rx[AMPH_NLANES];
    struct amph_rdp_seen seen[2];
};

struct amph_rdp_region {
    struct amph_rdp_region *next;
    uint64_t key;
    uint8_t *base;
    uint64_t len_bytes;
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

/* An operation to give back when the lock is not held. */
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
    uint64_t now;      /* when the clock was last read on the progress side */
    uint64_t timer_ns; /* no timer of any peer is earlier */
    uint64_t held_bytes;
    struct amph_rdp_region *regions;
    struct amph_rdp_get *gets;
    uint64_t next_id;
    uint32_t nfailed;
    uint64_t turns;
    unsigned idle_looks;
    bool slept;      /* the time may have leapt since the last look */
    uint32_t nready; /* lanes with something to deliver */
    unsigned work;   /* done for others since it was last reported */
    struct amph_rdp_finished *finished;
    uint32_t nfinished, finished_room;
    /* packets that go out together */
    unsigned nout;
    struct amph_port_out out[RDP_OUT_BATCH];
    uint64_t head[RDP_OUT_BATCH][RDP_HEAD_MAX / 8 + 1];
    struct {
        struct amph_rdp_conn *c;
        uint64_t pn; /* 0: no record */
    } out_from[RDP_OUT_BATCH];
    uint64_t hello[RDP_OUT_BATCH][sizeof(struct amph_rdp_hello) / 8];
    uint64_t scan_ns; /* next look at idle peers */
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
                                  struct amph_rdp_region **region_p);
void amph_rdp_mem_dereg(struct amph_rdp *r, struct amph_rdp_region *region);
/* A datagram has come.  lanes, budget: as in progress; gives the messages delivered. */
unsigned amph_rdp_input(struct amph_rdp *r, const void *packet, size_t len_bytes, unsigned lanes,
                        unsigned budget);
/* Delivers what waits, does what is due. */
unsigned amph_rdp_progress(struct amph_rdp *r, unsigned lanes, unsigned budget);
/* After a batch of datagrams: sends what may now be sent, gives operations back. */
unsigned amph_rdp_after_input(struct amph_rdp *r);
/* Before a sleep: all acknowledgements out; *deadline_p: when amph_rdp_progress must be called.
 * false: there is work. */
bool amph_rdp_settle(struct amph_rdp *r, uint64_t *deadline_p);
/* From another thread, now and then: sends again what is lost; true: something is under way. */
bool amph_rdp_guard(struct amph_rdp *r);
/* Says goodbye to all; true: nothing is under way any more. */
bool amph_rdp_finish(struct amph_rdp *r);
void amph_rdp_send_goodbye(struct amph_rdp *r);
/* The wire says that nobody is there. */
void amph_rdp_refused(struct amph_rdp *r, uint32_t peer);

/* ---- between the files ---- */

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
void amph_rdp_release_conn(struct amph_rdp *r,
                           struct amph_rdp_conn *c); /* an upcall for it is over */
void amph_rdp_due(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_scan(struct amph_rdp *r, uint64_t now);
enum {
    RDP_WHY_SILENT,
    RDP_WHY_REFUSED,
    RDP_WHY_LEFT,
    RDP_WHY_MEMORY
};

/* rdp_send.c */
struct amph_rdp_seg *amph_rdp_seg_new(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane,
                                      size_t head_room);
void amph_rdp_seg_unref(struct amph_rdp *r, struct amph_rdp_seg *s);
void amph_rdp_seg_queue(struct amph_rdp_conn *c, struct amph_rdp_seg *s);
void amph_rdp_seg_arrived(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_seg *s);
void amph_rdp_seg_lost(struct amph_rdp_conn *c, struct amph_rdp_seg *s);
void amph_rdp_pump(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_send_ack(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_send_ping(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_send_bye(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_flush(struct amph_rdp *r);
/* everything that waits to be sent or acknowledged */
void amph_rdp_drop_all(struct amph_rdp *r, struct amph_rdp_conn *c, enum amph_status st);
bool amph_rdp_has_outgoing(const struct amph_rdp_conn *c);

/* rdp_ack.c */
void amph_rdp_note_packet(struct amph_rdp *r, struct amph_rdp_conn *c,
                          const struct amph_rdp_packet *p, size_t len_bytes, uint64_t now);
unsigned amph_rdp_make_ack(struct amph_rdp_conn *c, unsigned most_words,
                           struct amph_rdp_ackblk *blk, uint64_t words[], uint64_t now);
void amph_rdp_on_ack(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p,
                     uint64_t now);
void amph_rdp_on_timer(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
void amph_rdp_rearm(struct amph_rdp *r, struct amph_rdp_conn *c, uint64_t now);
struct amph_rdp_rec *amph_rdp_rec_new(struct amph_rdp_conn *c, uint64_t now, size_t bytes);

/* rdp_recv.c */
void amph_rdp_rx_fini(struct amph_rdp *r, struct amph_rdp_conn *c);
bool amph_rdp_seen_test(const struct amph_rdp_seen *s, uint64_t lseq);
/* false: memory has run out, or it lies too far ahead */
bool amph_rdp_seen_mark(struct amph_rdp_seen *s, uint64_t lseq);

/* rdp_rma.c */
/* false: as if it had not come */
bool amph_rdp_on_rma(struct amph_rdp *r, struct amph_rdp_conn *c, const struct amph_rdp_packet *p);
struct amph_rdp_seg *amph_rdp_xfer_cut(struct amph_rdp *r, struct amph_rdp_conn *c, unsigned lane);
void amph_rdp_xfer_release(struct amph_rdp *r, struct amph_rdp_conn *c, struct amph_rdp_xfer *x);
void amph_rdp_gets_fail(struct amph_rdp *r, uint32_t peer, enum amph_status st);

/* rdp_cc.c */
void amph_rdp_cc_init(struct amph_rdp_cc *cc, uint32_t datagram);
void amph_rdp_cc_sent(struct amph_rdp_conn *c, struct amph_rdp_rec *rec, uint64_t now, size_t bytes,
                      bool more);
/* newest: a copy of the newest packet's record that was acknowledged; rtt_ns 0: no sample. */
void amph_rdp_cc_acked(struct amph_rdp_conn *c, const struct amph_rdp_rec *newest,
                       uint64_t acked_bytes, uint64_t lost_bytes, uint64_t rtt_ns, uint64_t now);
/* May a packet of `bytes` go out?  *when_p: when, if pacing holds it back (else RDP_NEVER). */
bool amph_rdp_cc_may_send(const struct amph_rdp_conn *c, size_t bytes, uint64_t now,
                          uint64_t *when_p);

#endif

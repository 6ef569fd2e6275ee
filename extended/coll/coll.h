/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal interface of the collectives: the state that a team keeps for them, and the file map.
 *
 *   team.c                     a team's state; progress and waiting
 *   yield.c                    whether a member that waits should yield its core
 *   share.c                    the memory that the processes of a neighbourhood share
 *   barrier.c                  barriers
 *   op.c                       the queue of a team's operations, and the stages of each kind
 *   choice.c                   which algorithm applies
 *   local.c                    the stage inside a neighbourhood, through shared memory
 *   tree.c, chain.c, flat.c,
 *   star.c                     the stage between neighbourhoods, by messages
 *   mail.c                     these messages
 *   direct.c                   large data, which is put to its destination
 *   fold.c                     the operators
 *   gex.c, gasnet1/coll.c      the calls of the two APIs
 *
 * A team executes its collectives one after the other, in the order of the calls, which is the same
 * at all members.  A large collective is executed in segments of AMPH_COLL_SEGMENT bytes.  Messages
 * name a segment by its number.  Other members may be ahead: small data for a segment that this
 * process has not reached is stored; large data is sent only after the receiver has asked for it.
 * Every AMPH_COLL_FLOW operations all members synchronise, which bounds the data that must be
 * stored.
 *
 * Layer: extended.
 * Thread rule: `locked` of a team guards its queue and stages (held for one step; progress only
 * tries to take it); `mail_lock` of the process guards the data that handlers use.  Order:
 * list_lock, locked, mail_lock.  A client with one thread takes no locks.  Handlers only store what
 * has arrived; operators run in progress.
 */
#ifndef AMPH_EXTENDED_COLL_H
#define AMPH_EXTENDED_COLL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "amphora/coll1.h"
#include "base/copy.h"
#include "extended/coll/barrier.h"
#include "extended/coll/share.h"
#include "extended/event.h"
#include "extended/gex.h"

#define AMPH_COLL_SEGMENT ((size_t)1 << 20)
/* Data up to a team's limit, between these two, is sent without a request (coll/mail.c). */
#define AMPH_COLL_EAGER 8192u
#define AMPH_COLL_EAGER_MAX 32768u
#define AMPH_COLL_DIRECT 65537u /* requested data of this size and more is put to its destination */
enum {
    AMPH_COLL_FLOW = 32,
    AMPH_COLL_INLINE = 512
};

/* An operator: right = left (+) right, element by element. */
typedef void (*amph_fold_fn)(const void *left, void *right, size_t count, const void *cdata);
struct amph_fold {
    amph_fold_fn fn;
    const void *cdata;
    size_t elem_bytes;
    bool commutes;
    bool owned; /* cdata must be freed after the operation */
    /* elements are numbers of 4 or 8 bytes, converted between hosts of different byte orders; else
     * they are bytes */
    bool typed;
};

static inline void amph_fold(const struct amph_fold *f, const void *left, void *right,
                             size_t len_bytes)
{
    if (len_bytes)
        f->fn(left, right, len_bytes / f->elem_bytes, f->cdata);
}

/* Have two blocks of that length no byte in common? */
static inline bool amph_coll_apart(const void *a, const void *b, size_t len_bytes)
{
    const uintptr_t x = (uintptr_t)a;
    const uintptr_t y = (uintptr_t)b;

    return x < y ? y - x >= len_bytes : x - y >= len_bytes;
}

/* Copies a block, if it is not in its place already. */
static inline void amph_coll_copy(void *dst, const void *src, size_t len_bytes)
{
    if (!len_bytes || dst == src)
        return;

    if (amph_coll_apart(dst, src, len_bytes))
        amph_copy(dst, src, len_bytes);
    else
        memmove(dst, src, len_bytes);
}

/* Folds data that is in the byte order of messages (coll/fold.c). */
void amph_coll_fold_wire(const struct amph_fold *f, const void *left, void *right,
                         size_t len_bytes);
/* Does the byte order of messages differ from that of this process? */
bool amph_coll_fold_swaps(const struct amph_fold *f);
/* Converts between the two byte orders; dst may be src. */
void amph_coll_fold_swap(const struct amph_fold *f, void *dst, const void *src, size_t len_bytes);

/* Returns the operator of a built-in type and operation, or NULL.  *bytes_p: size of the type, or
 * 0. */
amph_fold_fn amph_coll_fold_builtin(uint32_t dt, uint32_t op, size_t *bytes_p);

/* ---- messages of the segment that is under way (coll/mail.c) ---- */

struct amph_mail_in {
    uint8_t *buf;
    uint32_t len, left;   /* left: bytes still to come (an empty message counts as 1) */
    uint32_t from;        /* rank */
    uint32_t max_put;     /* bytes of a put that the receiver wants; 0: it takes no puts */
    uint64_t pieces;      /* bit i: piece i has arrived; for the first 64 pieces */
    bool open, ready_due; /* ready_due: READY must still be sent to the sender */
};

struct amph_mail_out {
    const uint8_t *buf;
    uint32_t len, ready; /* total bytes; bytes that may be sent by now */
    uint32_t sent, to, port;
    bool ready_seen, over; /* the receiver has sent READY; everything has been sent */
    uint32_t in_flight;    /* messages and puts that still read buf; atomic */
    struct amph_op op;     /* of all of these */
    /* coll/direct.c */
    uint32_t put;             /* bytes put so far, those that were not announced yet included */
    uint32_t max_put;         /* bytes of one put; 0: the data goes by messages */
    struct amph_rmem put_mem; /* the receiver's memory */
    uint64_t put_at;          /* offset of the data in it */
};

struct amph_coll_early;
struct amph_am_mem;
struct amph_mail {
    bool on;
    uint32_t seq;
    uint32_t piece; /* payload of a message */
    uint32_t nin, nout, max_in, max_out, first_out;
    struct amph_mail_in *in;
    struct amph_mail_out *out;
    struct amph_coll_early *early; /* messages for later segments */
    struct amph_am_mem *area;      /* memory to which senders may put; NULL: none was needed yet */
    uint32_t nareas;
};

/* ---- stages ---- */

struct amph_local_mode;
struct amph_local {
    const struct amph_local_mode *mode;
    const uint8_t *src;
    uint8_t *dst;
    uint32_t root;
    uint32_t piece, pieces, posted, folded, read;
    size_t len, stride;
    uint64_t first;            /* cell of piece 0 */
    enum amph_share_size size; /* of the cells */
    bool split;
};

struct amph_coll_op;
struct amph_net;
typedef bool (*amph_net_step_fn)(struct amph_coll_op *op);
struct amph_net {
    amph_net_step_fn step;
    uint32_t count, me, root; /* number of participants; numbers of this one and of the root */
    const uint8_t *src;
    uint8_t *dst, *acc, *scratch;
    uint8_t *swapped; /* copy of src in the byte order of messages; NULL: src has that order */
    size_t len;
    uint32_t round, phase;
    uint32_t piece; /* bytes of a message */
    size_t folded;  /* bytes */
    bool sent;
    bool result_in_dst; /* an operand is received where the result is to be (coll/tree.c) */
};

enum amph_coll_kind {
    AMPH_COLL_SYNC,
    AMPH_COLL_BROADCAST,
    AMPH_COLL_REDUCE,
    AMPH_COLL_REDUCE_ALL,
    AMPH_COLL_SCAN,
    AMPH_COLL_SCATTER,
    AMPH_COLL_GATHER,
    AMPH_COLL_GATHER_ALL,
    AMPH_COLL_EXCHANGE,
    AMPH_COLL_KINDS
};

/* One collective. */
struct amph_coll_op {
    struct amph_coll *coll;
    struct amph_coll_op *next;
    enum amph_coll_kind kind;
    struct amph_gex_op *event; /* to be completed; NULL: none */
    uint32_t root;             /* rank */
    uint8_t *dst;
    const uint8_t *src;
    size_t block;             /* bytes of one member, or for each pair of members */
    size_t segment, off, len; /* length of segments; offset and length of the current one */
    uint32_t seq;             /* the current segment's number */
    struct amph_fold fold;
    bool flat; /* every member communicates by messages */
    bool begun;
    /* the current segment */
    uint32_t stage;
    uint32_t participant; /* the slot of this neighbourhood's participant */
    uint8_t *scratch;     /* for the whole operation; NULL: none, or `small` is used */
    size_t scratch_bytes;
    /* from here on not cleared at the start */
    struct amph_net net;
    _Alignas(16) uint8_t small[AMPH_COLL_INLINE];
};

/* The state of a team. */
struct amph_coll {
    struct amph_team *team;
    struct amph_coll *next, *same_hash;
    uint32_t locked, active; /* active: number of barriers and operations in progress; relaxed */
    /* Neighbourhoods.  If nlocal is 1 at all members, each member is a neighbourhood. */
    uint32_t nlocal, self; /* number of members in this neighbourhood; slot of this process */
    uint32_t *local;       /* [nlocal] ranks */
    uint32_t *nbrhd_index; /* [nlocal] indices in the process's neighbourhood */
    uint32_t count, mine;  /* number of neighbourhoods; number of this one */
    uint32_t *nbrhd;       /* [size] neighbourhood of each rank */
    uint32_t *first;       /* [count] lowest rank of each neighbourhood */
    bool in_blocks;        /* the ranks of each neighbourhood are consecutive */
    size_t part_bytes;     /* of a large cell, for each other member here */
    /* participants that share no memory outnumber cores: barriers and small data between
     * neighbourhoods go through one of them (coll/barrier.c, coll/star.c) */
    bool star;
    uint32_t eager; /* bytes that are sent without a request */
    struct amph_share_slot slot;
    uint64_t cell, min_done; /* the next free cell; the last cell that no member reads any more */
    struct amph_barrier barrier[AMPH_BARRIERS];
    /* operations */
    uint32_t seq, since; /* next segment's number; operations since the members last synchronised */
    struct amph_coll_op *head, *tail, *spare;
    uint32_t nspare;
    struct amph_local l;
    struct amph_mail mail;
};

/* The state of the process. */
enum {
    AMPH_COLL_HASH = 64
};

struct amph_colls {
    uint32_t active;   /* sum over teams; relaxed */
    uint32_t finished; /* number of completed operations */
    bool no_areas;     /* memory could not be registered; large data comes in messages */
    bool no_room;      /* a send found no room; no message will report that there is room again */
    /* The order in which processes of one core run (coll/yield.c); not for several threads.
     * posts: parts that this process has given to operations inside its neighbourhood */
    struct {
        uint32_t posts, posts_at_yield;
        uint32_t early;   /* turns that came too early, since the last nap */
        uint32_t in_time; /* other turns in a row */
        uint32_t naps;    /* since turns were last in time */
    } order;
    uint32_t list_lock, mail_lock;
    struct amph_coll *all, *hash[AMPH_COLL_HASH];
    struct amph_coll_early
        *unclaimed; /* messages for teams that this process has not created yet */
    size_t early_bytes;
    struct amph_share share;
    struct {
        void *buf[4];
        uint32_t count;
    } pool;
    gasnet_coll_fn_entry_t *operators; /* [noperators] given to gasnet_coll_init */
    size_t noperators;
};

static inline struct amph_colls *amph_colls(void)
{
    return amph_gex()->colls;
}

static inline bool amph_coll_spin_try(uint32_t *lock)
{
    return !amph_gex()->threaded || !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
}

void amph_coll_spin_lock(uint32_t *lock);
static inline void amph_coll_spin_unlock(uint32_t *lock)
{
    if (amph_gex()->threaded)
        __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* Notes that this process has given its part to an operation inside its neighbourhood. */
static inline void amph_coll_note_post(void)
{
    if (!amph_gex()->threaded)
        amph_colls()->order.posts++;
}

/* Changes the number of operations in progress. */
static inline void amph_coll_count(struct amph_coll *c, uint32_t change)
{
    struct amph_colls *all = amph_colls();

    if (amph_gex()->threaded) {
        __atomic_add_fetch(&c->active, change, __ATOMIC_RELAXED);
        __atomic_add_fetch(&all->active, change, __ATOMIC_RELAXED);
        __atomic_add_fetch(&all->finished, change >> 31, __ATOMIC_RELAXED);
    } else {
        c->active += change;
        all->active += change;
        all->finished += change >> 31;
    }
}

/* Returns the number that am/ uses for a rank of the team. */
static inline uint32_t amph_coll_peer(const struct amph_coll *c, uint32_t rank)
{
    return amph_gex_team_member(c->team, rank);
}

/* Wakes a member of this process's neighbourhood if it sleeps, and returns whether it does. */
bool amph_coll_wake(const struct amph_coll *c, uint32_t member);

/* ---- coll/op.c ---- */

/* The arguments of a collective; the other fields of an operation are derived from them. */
struct amph_coll_args {
    enum amph_coll_kind kind;
    uint32_t root;
    void *dst;
    const void *src;
    size_t block;
    const struct amph_fold *fold;
    bool sync_first, sync_last; /* synchronise all members before and after (ALLSYNC) */
    bool src_leaf;              /* the caller wants local completion as a leaf event */
};

gex_Event_t amph_coll_start(struct amph_team *team, const struct amph_coll_args *args);
/* Makes progress on the first operation.  The team is locked. */
void amph_coll_run(struct amph_coll *c);

/* ---- coll/mail.c ---- */

enum amph_status amph_coll_mail_open(struct amph_gex *g);
/* Makes the team known to handlers, and delivers the messages that arrived before. */
void amph_coll_mail_add_team(struct amph_coll *c);
void amph_coll_mail_remove_team(struct amph_coll *c);
/* Returns the team with this id, or NULL.  mail_lock is held. */
struct amph_coll *amph_coll_mail_team(uint64_t id);
/* Stores a message for a team that does not exist yet.  mail_lock is held. */
void amph_coll_mail_keep(struct amph_token *token, const struct amph_am *am);

/* Begins a segment with nin ports and up to nout outgoing messages. */
void amph_coll_mail_begin(struct amph_coll *c, uint32_t seq, uint32_t nin, uint32_t nout,
                          uint32_t piece);
/* Opens a port: len bytes from rank `from` are to be stored in buf. */
void amph_coll_mail_in(struct amph_coll *c, uint32_t port, uint32_t from, void *buf, size_t len);
/* The same for a receiver that uses the first pieces (amph_coll_mail_prefix) while others are still arriving.
 * count: number of participants of the chain along which the data travels. */
void amph_coll_mail_in_pieces(struct amph_coll *c, uint32_t port, uint32_t from, void *buf,
                              size_t len, uint32_t count);
/* Ports for data of len bytes each will be opened in these bytes. */
void amph_coll_mail_area(struct amph_coll *c, void *base, size_t bytes, size_t len);
/* Adds a message to a port of rank `to`.  ready: the bytes that may be sent now.  Returns its
 * number. */
uint32_t amph_coll_mail_out(struct amph_coll *c, uint32_t to, uint32_t port, const void *buf,
                            size_t len, size_t ready);
static inline void amph_coll_mail_more(struct amph_coll *c, uint32_t out, size_t ready)
{
    c->mail.out[out].ready = (uint32_t)ready;
}

static inline bool amph_coll_mail_got(const struct amph_coll *c, uint32_t port)
{
    return c->mail.in[port].open && __atomic_load_n(&c->mail.in[port].left, __ATOMIC_ACQUIRE) == 0;
}

/* Returns how many contiguous bytes from the beginning have arrived (within the first 64
 * pieces). */
size_t amph_coll_mail_prefix(const struct amph_coll *c, uint32_t port);
/* Sends what can be sent.  true: everything has been sent. */
bool amph_coll_mail_pump(struct amph_coll *c);
void amph_coll_mail_end(struct amph_coll *c);
/* Sends an immediate request of a collective.  lc: as in amph_am_request.  false: no room now. */
bool amph_coll_mail_send(struct amph_coll *c, uint32_t to, const struct amph_am *am,
                         struct amph_op *lc);
/* Handles the status of a send to `to` that was not OK: ends the process, unless there was no room. */
void amph_coll_mail_failed(struct amph_coll *c, uint32_t to, enum amph_status st);

/* ---- coll/direct.c ---- */

/* The bytes of READY that name the receiver's memory. */
#define AMPH_COLL_OFFER_BYTES 256
/* Makes memory ready for puts, unless it is part of memory that is. */
void amph_coll_direct_area(struct amph_coll *c, void *base, size_t bytes);
/* Can rank `from` put data to this process, so that it arrives before a message? */
bool amph_coll_direct_from(const struct amph_coll *c, uint32_t from);
/* Writes what names the port's memory.  Returns the number of bytes; 0: there is no such memory. */
size_t amph_coll_direct_offer(const struct amph_coll *c, const struct amph_mail_in *in,
                              uint8_t offer[AMPH_COLL_OFFER_BYTES]);
/* Stores what the receiver has offered.  false: it is malformed.  mail_lock is held. */
bool amph_coll_direct_accept(struct amph_mail_out *out, uint32_t peer, const void *offer,
                             size_t bytes);
/* Puts what can be put, and announces it.  true: everything has been sent. */
bool amph_coll_direct_send(struct amph_coll *c, struct amph_mail_out *out);
/* Ends the segment: nothing is put to this process any more. */
void amph_coll_direct_end(struct amph_coll *c);

/* ---- coll/local.c ---- */

enum amph_local_kind {
    AMPH_LOCAL_BROADCAST,
    AMPH_LOCAL_REDUCE,
    AMPH_LOCAL_REDUCE_ALL,
    AMPH_LOCAL_SCAN,
    AMPH_LOCAL_SCATTER,
    AMPH_LOCAL_GATHER,
    AMPH_LOCAL_GATHER_ALL,
    AMPH_LOCAL_EXCHANGE,
    AMPH_LOCAL_KINDS
};

/* Begins a stage inside the neighbourhood.  root: a slot in it; len: bytes of a block; stride:
 * distance between blocks. */
void amph_coll_local_begin(struct amph_coll_op *op, enum amph_local_kind kind, uint32_t root,
                           const void *src, void *dst, size_t len, size_t stride);
/* The bytes up to which a block for each member (all_post: for each pair) takes less time here than
 * by messages.  All members must be able to post their blocks before one reads; each further cell
 * costs a turn of every member where processes outnumber cores.  The answer is the same at all
 * members. */
size_t amph_coll_local_max_block(const struct amph_coll *c, bool all_post);
/* Makes progress.  true: the stage is done. */
bool amph_coll_local_step(struct amph_coll_op *op);

/* Can the stage go on, here or at a member that waits for room, only when this member has done its
 * part?  Where only the root posts, the member that has not posted for the longest time counts as
 * the next root.  In a stage of several pieces, or split, all members have something to do. */
bool amph_coll_local_awaits(const struct amph_coll_op *op, uint32_t member);

/* ---- coll/yield.c ---- */

/* For a wait that would yield now, because processes outnumber cores: if nobody needs this core,
 * waits a little without yielding.  true: something completed. */
bool amph_coll_keep_core(struct amph_colls *all, struct amph_waiter *w);
/* For a wait that may have yielded: wakes processes whose naps end with that. */
void amph_coll_after_yield(struct amph_colls *all);

/* ---- coll/choice.c ---- */

/* A row of the table of algorithms between participants. */
struct amph_coll_choice {
    enum amph_coll_kind kind;
    size_t max_bytes; /* maximum size of a segment */
    size_t max_total; /* maximum size of a segment times the number of participants */
    void (*begin)(struct amph_coll_op *op);
    size_t scratch_blocks; /* scratch memory in segments, or AMPH_SCRATCH_... */
    bool star;             /* only for teams that have coll->star */
    uint32_t max_count;    /* maximum number of participants; 0: any */
};
#define AMPH_SCRATCH_LOG ((size_t)-1)   /* a segment for each round of doubling, and one more */
#define AMPH_SCRATCH_ALL ((size_t)-2)   /* a segment for each participant */
#define AMPH_SCRATCH_PAIRS ((size_t)-3) /* two segments for each pair of participants */
/* Returns the row for a segment of len bytes.  piece: payload of a message. */
const struct amph_coll_choice *amph_coll_choose(const struct amph_coll_op *op, uint32_t count,
                                                size_t len, uint32_t piece);
size_t amph_coll_scratch(const struct amph_coll_choice *choice, uint32_t count, size_t len);

/* ---- coll/tree.c, coll/chain.c, coll/flat.c, coll/star.c: each begin sets op->net.step ---- */
void amph_coll_tree_broadcast(struct amph_coll_op *op);
void amph_coll_tree_reduce(struct amph_coll_op *op);
void amph_coll_double_reduce_all(struct amph_coll_op *op);
void amph_coll_double_scan(struct amph_coll_op *op);
void amph_coll_chain_broadcast(struct amph_coll_op *op);
void amph_coll_chain_reduce(struct amph_coll_op *op);
void amph_coll_chain_reduce_all(struct amph_coll_op *op);
void amph_coll_chain_scan(struct amph_coll_op *op);
void amph_coll_flat_scatter(struct amph_coll_op *op);
void amph_coll_flat_gather(struct amph_coll_op *op);
void amph_coll_flat_gather_all(struct amph_coll_op *op);
void amph_coll_flat_exchange(struct amph_coll_op *op);
void amph_coll_spread_gather_all(struct amph_coll_op *op);
void amph_coll_bruck_gather_all(struct amph_coll_op *op);
void amph_coll_star_broadcast(struct amph_coll_op *op);
void amph_coll_star_reduce(struct amph_coll_op *op);
void amph_coll_star_reduce_all(struct amph_coll_op *op);
void amph_coll_star_gather_all(struct amph_coll_op *op);
void amph_coll_star_exchange(struct amph_coll_op *op);

/* Returns the rank of participant i in op's stage between neighbourhoods. */
uint32_t amph_coll_net_rank(const struct amph_coll_op *op, uint32_t i);

/* ---- coll/team.c ---- */

/* For init.c.  open creates the state of the process; join, called when the neighbours are known,
 * maps their shared memory (NULL: none) and creates the first team. */
enum amph_status amph_coll_open(struct amph_gex *g);
enum amph_status amph_coll_join(struct amph_gex *g, int32_t leader_pid, int32_t fd, bool own_fd);

/* Returns temporary memory; amph_coll_pool_put returns it to the pool. */
void *amph_coll_pool_get(size_t bytes);
void amph_coll_pool_put(void *buf, size_t bytes);

#endif

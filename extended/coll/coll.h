/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of collectives: what a team keeps for them, and how their files fit together.  Layer:
 * extended.
 *
 *   coll/team.c    a team's state; progress and waiting
 *   coll/share.c   the memory that the processes of a neighbourhood share
 *   barrier.c      barriers
 *   coll/op.c      the queue of a team's operations and how each kind is made of stages;
 *                  coll/choice.c: which algorithm
 *   coll/local.c   the stage inside a neighbourhood, through shared memory
 *   coll/tree.c, coll/chain.c, coll/flat.c   the stage between neighbourhoods, through messages
 *   coll/mail.c    those messages
 *   coll/fold.c    the operators
 *   coll/gex.c, gasnet1/coll.c   the calls of the two APIs
 *
 * A team executes its collectives one after the other, in the order of the calls, which is the same
 * at all members; a large one in segments of AMPH_COLL_SEGMENT bytes.  Each segment has a number
 * that names it in messages.  Other members may be ahead: what they send for a segment that this
 * process has not reached is kept (small data) or not sent yet (large data waits for a word of the
 * receiver).  Every AMPH_COLL_FLOW operations the members meet, which bounds what has to be kept.
 *
 * Thread rule: `locked` of a team guards its queue and stages (taken for the length of a step,
 * tried by progress); `mail_lock` of the process guards what handlers touch.  Order: list_lock,
 * locked, mail_lock.  A client with one thread takes none.  Handlers only store what has come;
 * operators run in progress.
 */
#ifndef AMPH_EXTENDED_COLL_H
#define AMPH_EXTENDED_COLL_H

#include "amphora/coll1.h"
#include "extended/coll/barrier.h"
#include "extended/coll/share.h"
#include "extended/event.h"
#include "extended/gex.h"

#define AMPH_COLL_SEGMENT ((size_t)1 << 20)
#define AMPH_COLL_EAGER 8192u /* data up to this is sent unasked */
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
    bool owned; /* cdata is to be freed after the operation */
    /* elements are numbers of 4 or 8 bytes, on which hosts of either byte order agree; else they
     * are bytes */
    bool typed;
};

static inline void amph_fold(const struct amph_fold *f, const void *left, void *right,
                             size_t len_bytes)
{
    if (len_bytes)
        f->fn(left, right, len_bytes / f->elem_bytes, f->cdata);
}

/* The same on data that is in the order in which it travels (coll/fold.c). */
void amph_coll_fold_travelling(const struct amph_fold *f, const void *left, void *right,
                               size_t len_bytes);
/* Is that order another than this process's own? */
bool amph_coll_fold_turns(const struct amph_fold *f);
/* From one order to the other; dst may be src. */
void amph_coll_fold_turn(const struct amph_fold *f, void *dst, const void *src, size_t len_bytes);

/* The operator of a built-in type and operation, or NULL; *bytes_p: of the type, or 0. */
amph_fold_fn amph_coll_fold_builtin(uint32_t dt, uint32_t op, size_t *bytes_p);

/* ---- messages of the segment that is under way (coll/mail.c) ---- */

struct amph_mail_in {
    uint8_t *buf;
    uint32_t len, left; /* left: bytes still to come (an empty message counts as 1) */
    uint32_t from;      /* rank */
    uint64_t pieces;    /* bit i: piece i is there; of the first 64 */
    bool open, tell;    /* tell: the sender is still to hear that it may send */
};

struct amph_mail_out {
    const uint8_t *buf;
    uint32_t len, ready; /* bytes in all; bytes that may be sent by now */
    uint32_t sent, to, port;
    bool told, over; /* the receiver waits for it; all has been sent */
};

struct amph_letter;
struct amph_mail {
    bool on;
    uint32_t seq;
    uint32_t piece; /* bytes of a message's payload */
    uint32_t nin, nout, most_in, most_out, first_out;
    struct amph_mail_in *in;
    struct amph_mail_out *out;
    struct amph_letter *early; /* for segments to come */
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
    uint64_t first; /* cell of piece 0 */
    bool small;     /* the data fits into small cells */
    bool split;
};

struct amph_coll_op;
struct amph_net;
typedef bool (*amph_net_step_fn)(struct amph_coll_op *op);
struct amph_net {
    amph_net_step_fn step;
    uint32_t count, me, root; /* participants, the own place, the root's */
    const uint8_t *src;
    uint8_t *dst, *acc, *scratch;
    uint8_t *turned; /* room for src in the order in which it travels; NULL: that is the own */
    size_t len;
    uint32_t round, phase;
    uint32_t piece; /* bytes of a message */
    size_t folded;  /* bytes */
    bool sent;
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
    struct amph_gex_op *event; /* NULL: nobody waits */
    uint32_t root;             /* rank */
    uint8_t *dst;
    const uint8_t *src;
    size_t block;             /* bytes that a member brings or gets (from or for one other) */
    size_t segment, off, len; /* segments are this long; the current one */
    uint32_t seq;             /* of the current segment */
    struct amph_fold fold;
    bool flat; /* every member takes part by messages */
    bool begun;
    /* the current segment */
    uint32_t stage;
    struct amph_net net;
    uint8_t *scratch; /* of the whole operation; NULL: none, or small */
    size_t scratch_bytes;
    _Alignas(16) uint8_t small[AMPH_COLL_INLINE];
};

/* What a team keeps. */
struct amph_coll {
    struct amph_team *team;
    struct amph_coll *next, *same_hash;
    uint32_t locked, active; /* active: barriers and operations under way; relaxed */
    /* Neighbourhoods.  nlocal 1 everywhere: each member is one. */
    uint32_t nlocal, self; /* members in the own one; the own place among them */
    uint32_t *local;       /* [nlocal] ranks */
    uint32_t *place;       /* [nlocal] their places in the process's neighbourhood */
    uint32_t count, mine;  /* neighbourhoods, the own one */
    uint32_t *nbrhd;       /* [size] that of each rank */
    uint32_t *first;       /* [count] lowest rank of each */
    bool in_blocks;        /* the ranks of each follow each other */
    struct amph_share_slot slot;
    uint64_t cell, least_done; /* the next free cell; all members are done with cells up to this */
    struct amph_barrier barrier[AMPH_BARRIERS];
    /* operations */
    uint32_t seq, since; /* the next segment's number; operations since the members last met */
    struct amph_coll_op *head, *tail, *spare;
    uint32_t nspare;
    struct amph_local l;
    struct amph_mail mail;
};

/* Of the process. */
enum {
    AMPH_COLL_HASH = 64
};

struct amph_colls {
    uint32_t active;   /* sum over teams; relaxed */
    uint32_t finished; /* counts what was completed */
    bool no_room;      /* a send found no room lately: no message will say when there is */
    uint32_t list_lock, mail_lock;
    struct amph_coll *all, *hash[AMPH_COLL_HASH];
    struct amph_letter *strange; /* for teams that this process has not made yet */
    size_t early_bytes;
    struct amph_share share;
    struct {
        void *buf[4];
        uint32_t count;
    } pool;
    gasnet_coll_fn_entry_t *operators; /* [noperators] of gasnet_coll_init */
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

/* How many are under way changes. */
void amph_coll_count(struct amph_coll *c, uint32_t change);

/* Am's number for a rank of the team. */
static inline uint32_t amph_coll_peer(const struct amph_coll *c, uint32_t rank)
{
    return amph_gex_team_member(c->team, rank);
}

/* Wakes a member of this process's neighbourhood, after a fence that orders what was written for
 * it. */
void amph_coll_wake(const struct amph_coll *c, uint32_t member);

/* ---- coll/op.c ---- */

/* What a call wants; the rest of the fields of an operation follow from it. */
struct amph_coll_args {
    enum amph_coll_kind kind;
    uint32_t root;
    void *dst;
    const void *src;
    size_t block;
    const struct amph_fold *fold;
    bool meet_first, meet_last; /* all members before, after (ALLSYNC) */
    bool src_leaf;              /* local completion is asked for as a leaf */
};

gex_Event_t amph_coll_start(struct amph_team *team, const struct amph_coll_args *args);
/* Moves the first operation on.  locked. */
void amph_coll_run(struct amph_coll *c);

/* ---- coll/mail.c ---- */

enum amph_status amph_coll_mail_open(struct amph_gex *g);
/* Makes the team known to handlers, and takes in what came before. */
void amph_coll_mail_add_team(struct amph_coll *c);
void amph_coll_mail_remove_team(struct amph_coll *c);
/* The team with this id, or NULL.  mail_lock. */
struct amph_coll *amph_coll_mail_team(uint64_t id);
/* Keeps a message for a team that is not there yet.  mail_lock. */
void amph_coll_mail_keep(struct amph_token *token, const struct amph_am *am);

/* Begins a segment: nin ports, room for nout messages out. */
void amph_coll_mail_begin(struct amph_coll *c, uint32_t seq, uint32_t nin, uint32_t nout,
                          uint32_t piece);
/* Opens port: len bytes from rank are to land in buf. */
void amph_coll_mail_in(struct amph_coll *c, uint32_t port, uint32_t from, void *buf, size_t len);
/* Adds a message to rank's port; ready: how many of its bytes may be sent now.  Returns its
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

/* Bytes from the beginning that are there (of the first 64 pieces). */
size_t amph_coll_mail_prefix(const struct amph_coll *c, uint32_t port);
/* Sends what can be sent; true: all has been. */
bool amph_coll_mail_pump(struct amph_coll *c);
void amph_coll_mail_end(struct amph_coll *c);

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

/* Begins a stage over the own neighbourhood; root: a place in it; len: bytes of a block; stride:
 * from block to block. */
void amph_coll_local_begin(struct amph_coll_op *op, enum amph_local_kind kind, uint32_t root,
                           const void *src, void *dst, size_t len, size_t stride);
/* true: done. */
bool amph_coll_local_step(struct amph_coll_op *op);

/* ---- coll/choice.c ---- */

/* A row of the table: which algorithm carries segments of a kind between participants. */
struct amph_coll_choice {
    enum amph_coll_kind kind;
    size_t most_bytes; /* of a segment */
    size_t most_total; /* of a segment times the participants */
    void (*begin)(struct amph_coll_op *op);
    size_t scratch_blocks; /* segments of scratch, or one of these */
};
#define AMPH_SCRATCH_LOG ((size_t)-1) /* one for each round of doubling, and one more */
#define AMPH_SCRATCH_ALL ((size_t)-2) /* one for each participant */
/* piece: bytes of a message. */
const struct amph_coll_choice *amph_coll_choose(const struct amph_coll_op *op, uint32_t count,
                                                size_t len, uint32_t piece);
size_t amph_coll_scratch(const struct amph_coll_choice *choice, uint32_t count, size_t len);

/* ---- coll/tree.c, coll/chain.c, coll/flat.c: each begin sets op->net.step ---- */
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
void amph_coll_bruck_gather_all(struct amph_coll_op *op);

/* The rank of participant i of op's stage between neighbourhoods. */
uint32_t amph_coll_net_rank(const struct amph_coll_op *op, uint32_t i);

/* ---- coll/team.c ---- */

/* For init.c: the state of the process; then, when neighbours are known, their shared memory (NULL:
 * none) and the first team. */
enum amph_status amph_coll_open(struct amph_gex *g);
enum amph_status amph_coll_join(struct amph_gex *g, int32_t leader_pid, int32_t fd, bool own_fd);

/* A piece of memory for a while; amph_coll_pool_put takes it back. */
void *amph_coll_pool_get(size_t bytes);
void amph_coll_pool_put(void *buf, size_t bytes);

#endif

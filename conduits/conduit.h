/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conduit interface: how bytes get from one process to another.  Layer: conduits.
 *
 * A conduit is one const table of operations (struct amph_conduit_ops) and a block of facts (struct
 * amph_conduit_caps).  An instance (struct amph_cx) belongs to one active-message endpoint; a
 * process may open several instances of one conduit.
 *
 * Words.  Peer: a process as this instance numbers it, 0..max_peers-1.  Lane: requests and replies
 * travel in separate lanes, so that a full request lane never holds up a reply.  Op: an operation
 * in flight, memory of the caller, given back by on_complete.
 *
 * Thread rule.  Calls come in two sides.  Send side: am_send, am_prepare, am_commit, put, get,
 * atomic, flush.  Progress side: progress, arm.  The caller serialises each side by itself.  Where
 * cfg.threaded is set the two sides may run at the same time in two threads; else never.  Upcalls
 * are made only from inside progress, on its thread, and may make send-side calls (not progress).
 * All other operations are called with both sides quiet, except add_peer, del_peer, mem_reg,
 * mem_dereg and mem_import, which are called with the send side serialised and may be called from
 * upcalls.
 *
 * Blocking.  No operation blocks, except arm with AMPH_ARM_SLEEP.  AMPH_AGAIN is the only answer to
 * lack of room: the caller makes progress and calls again; nothing has been taken.  Queueing and
 * credits are am/'s business.
 *
 * Trust.  What a peer sends is checked here for its cookie and its lengths; a message that fails is
 * dropped and counted (DROP_COOKIE, DROP_MALFORMED).  The meaning of handler, args and addresses is
 * checked by am/.
 */
#ifndef AMPH_CONDUITS_CONDUIT_H
#define AMPH_CONDUITS_CONDUIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auth.h"
#include "base/status.h"

#define AMPH_AM_MAX_ARGS 16
#define AMPH_AM_MIN_MAX_MEDIUM \
    65408 /* every conduit carries at least this many payload bytes in one medium */
#define AMPH_ADDR_MAX_BYTES 128    /* address blob of an instance */
#define AMPH_KEY_BLOB_MAX_BYTES 64 /* exported key of registered memory */

enum amph_lane {
    AMPH_LANE_REQUEST = 0,
    AMPH_LANE_REPLY = 1,
    AMPH_NLANES = 2
};

enum amph_am_kind {
    AMPH_AM_SHORT,
    AMPH_AM_MEDIUM,      /* payload is given to the handler where the conduit holds it */
    AMPH_AM_LONG,        /* payload is already at dest (put before, or written through a mapping) */
    AMPH_AM_LONG_PACKED, /* payload travels in the message; am/ checks dest and copies it there */
    /* credit returns, emulated RMA; `handler` then holds a code: below 128 of am/, from 128 of
     * emulate.c */
    AMPH_AM_INTERNAL,
    AMPH_AM_CANCEL /* am_commit only: nothing is sent, the room is given back */
};

/* One active message, sent or received.  Received: args and payload lie in the conduit's memory
 * until on_am returns. */
struct amph_am {
    uint8_t kind; /* enum amph_am_kind */
    uint8_t handler;
    uint8_t nargs;       /* 0..16 */
    uint8_t flags;       /* am/'s own, carried unchanged */
    uint16_t aux;        /* am/'s own (credits given back), carried unchanged */
    uint32_t nbytes;     /* payload bytes; LONG: bytes that lie at dest */
    uint64_t dest;       /* LONG, LONG_PACKED: address in the target */
    const int32_t *args; /* nargs words in host order */
    const void *payload; /* MEDIUM, LONG_PACKED, INTERNAL */
};

/* An operation in flight.  Embed it; AMPH_CONTAINER_OF finds the rest.  done runs exactly once,
 * inside progress, or inside the starting call if the operation is finished at once.  The conduit
 * does not touch the op after it has called done, so done may free it or start another operation
 * with it.
 *
 * Two ops of one call (lc and rc of a put) come to their end independently: in either order, and in
 * two threads at once where cfg.threaded is set, since one may run in the starting call and the
 * other in progress.  Memory that both embed or refer to may be freed only after both have run; a
 * count of the callbacks still to come is the way to know.
 *
 * Ops of different calls come to their end in no particular order. */
struct amph_op {
    void (*done)(struct amph_op *op, enum amph_status st);
};

/* Memory of this process that peers may reach. */
struct amph_mem {
    void *base;
    size_t len_bytes;
    uint8_t key[AMPH_KEY_BLOB_MAX_BYTES]; /* for mem_import by peers, portable bytes */
    size_t key_len;
    void *impl; /* the conduit's */
};

/* Memory of a peer, imported. */
struct amph_rmem {
    uint64_t base; /* its address in the peer */
    uint64_t len_bytes;
    void *local;    /* where it is mapped in this process (smp), or NULL */
    uint64_t rkey;  /* the conduit's */
    uint64_t rbase; /* what the conduit adds offsets to (0 or base) */
};

/* Facts of a conduit that its users need. */
struct amph_conduit_caps {
    uint32_t max_medium;   /* payload bytes of one medium or packed long, with 16 args */
    uint32_t inject_bytes; /* payloads up to this leave without a copy that lasts */
    /* lanes are bounded by the conduit itself (AMPH_AGAIN means the peer is slow): no credits
     * needed */
    bool self_flow;
    /* put and get work without the target's help; else registry.c lays emulate.c over it */
    bool native_rma;
    /* a put followed by an am_send to the same peer arrives in that order */
    bool put_then_am;
    bool maps_memory; /* mem_import gives rmem.local */
    bool can_sleep;   /* arm(AMPH_ARM_SLEEP) works */
    /* wait_fd really sleeps; false: the caller must wake by time (reported by amphora-info) */
    bool fd_blocks;
    bool mixed_order; /* peers of other byte order can be reached */
    bool mixed_width; /* put and get work between hosts of 32 and of 64 bits */
    /* put and get sources must lie in registered memory (or go through a bounce buffer) */
    bool need_local_reg;
};

/* Upcalls into am/.  `up` is cfg.up. */
struct amph_upcalls {
    /* A message has come from peer.  `am` and what it points to are the conduit's and end with the
     * call. */
    void (*on_am)(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am);
    /* peer cannot be reached any more; said once a peer.  Its operations in flight are completed
     * with AMPH_ERR_PEER. */
    void (*on_peer_error)(void *up, uint32_t peer, enum amph_status st, const char *why);
};

struct amph_cx_config {
    const char *name;      /* of the endpoint, for messages ("am", "iofwd") */
    uint32_t max_peers;    /* peer numbers are below this */
    bool threaded;         /* see the thread rule */
    bool loopback_only;    /* the job lies on one machine: listen on the loopback interface */
    const char *interface; /* AMPHORA_INTERFACE or "" */
    const struct amph_upcalls *upcalls;
    void *up;
};

/* How to reach a peer. */
struct amph_peer_spec {
    const void *addr; /* address blob that the peer's instance gave (copied) */
    size_t addr_len;
    uint32_t remote_index; /* the number under which the peer knows this instance */
    uint64_t cookie_out;   /* put into each message to the peer */
    uint64_t cookie_in;    /* expected in each message from the peer */
};

enum amph_arm {
    AMPH_ARM_OFF, /* awake again: senders need not ring */
    /* about to sleep on wait_fd: AMPH_OK (sleep; every later message makes it readable) or
     * AMPH_AGAIN (there is work) */
    AMPH_ARM_FD,
    AMPH_ARM_SLEEP /* sleep here, until a message comes or timeout_ns has passed; only where caps.can_sleep */
};

/* An instance.  Conduits embed this as the first member of their own structure. */
struct amph_cx {
    const struct amph_conduit_ops *ops;
    struct amph_conduit_caps caps;
    struct amph_cx_config cfg;
    /* this instance's address, portable bytes, for peers' add_peer */
    uint8_t addr[AMPH_ADDR_MAX_BYTES];
    size_t addr_len;
};

/* put and get take any local memory; atomic is for conduits that have it (amph_conduit_no_atomic
 * otherwise). */
struct amph_conduit_ops {
    const char *name;    /* "smp", "tcp", ... as in AMPHORA_CONDUIT */
    const char *summary; /* one line for amphora-info */
    bool one_host; /* reaches processes of this host only; such a conduit is always built in */

    /* Can this conduit work on this machine?  AMPH_OK, or a status and one sentence in why (why_len
     * bytes).  Any time, no instance. */
    enum amph_status (*probe)(char *why, size_t why_len);
    /* Makes an instance.  Outputs set only on success; the instance is the caller's until close. */
    enum amph_status (*open)(const struct amph_cx_config *cfg, struct amph_cx **cx_p);
    /* Ends the instance; ops still in flight are completed with AMPH_ERR_STATE first.  Leaves
     * nothing behind. */
    void (*close)(struct amph_cx *cx);
    /* Makes peer number `peer` reachable; local, connects lazily.  AMPH_ERR_RANGE, AMPH_ERR_STATE
     * (number in use), AMPH_ERR_PEER. */
    enum amph_status (*add_peer)(struct amph_cx *cx, uint32_t peer,
                                 const struct amph_peer_spec *spec);
    /* Forgets the peer; its number can be used again.  Messages of it that still arrive are
     * dropped. */
    void (*del_peer)(struct amph_cx *cx, uint32_t peer);
    /* The caller knows that the peer is dead, so puts and gets that wait for a word of it end with
     * AMPH_ERR_PEER.  Without any lock, not from inside a handler.  amph_conduit_no_peer_gone: the
     * network itself ends them. */
    void (*peer_gone)(struct amph_cx *cx, uint32_t peer);

    /* Makes memory reachable for peers.  fd >= 0: it is offset `fd_offset` of that shared-memory
     * object (smp needs this). mem is filled in; it stays the caller's. */
    enum amph_status (*mem_reg)(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                uint64_t fd_offset, struct amph_mem *mem);
    void (*mem_dereg)(struct amph_cx *cx, struct amph_mem *mem);
    /* Makes a peer's memory usable from its key; the key is not trusted.  AMPH_ERR_PROTO,
     * AMPH_ERR_PEER.  key NULL: gives up what was imported as *rmem (the answer says nothing
     * then). */
    enum amph_status (*mem_import)(struct amph_cx *cx, uint32_t peer, const void *key,
                                   size_t key_len, struct amph_rmem *rmem);

    /* Sends am to peer.  lc NULL: the payload has been copied or sent on return.  lc given: the
     * payload stays untouched until lc->done.  Checks nargs and nbytes (AMPH_ERR_ARG).  AMPH_AGAIN:
     * nothing taken, lc not called. */
    enum amph_status (*am_send)(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                const struct amph_am *am, struct amph_op *lc);
    /* Optional pair (negotiated payload).  prepare: room for *len_bytes_p payload bytes in a medium
     * to peer, aligned to 16, into which the caller may write until it commits; several may be
     * prepared at a time.  Length 0 only asks whether a message would find room now.  commit sends
     * am, whose payload is what prepare gave and whose nbytes may be less than was asked for, or
     * (kind AMPH_AM_CANCEL) gives the room back.  AMPH_AGAIN: nothing taken, for commit: still
     * prepared.  With any other answer of commit the room is gone. */
    enum amph_status (*am_prepare)(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                   size_t *len_bytes_p, void **buf_p);
    enum amph_status (*am_commit)(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am);

    /* Writes len_bytes from src to offset of rmem.  lc (may be NULL): src may be used again.  rc
     * (may be NULL): the data is visible in the target.  src stays the conduit's until lc or rc,
     * whichever comes first (see struct amph_op for their order). Bounds are the caller's
     * business. */
    enum amph_status (*put)(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                            uint64_t offset, const void *src, size_t len_bytes, struct amph_op *lc,
                            struct amph_op *rc);
    /* Reads len_bytes at offset of rmem to dst; done: dst is filled. */
    enum amph_status (*get)(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                            uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done);
    /* Optional, reserved for remote atomics (fetch-and-op of 4 or 8 bytes at offset). */
    enum amph_status (*atomic)(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                               uint64_t offset, unsigned opcode, unsigned type, uint64_t operand1,
                               uint64_t operand2, uint64_t *result, struct amph_op *done);
    /* Pushes out what was held back to be sent together. */
    void (*flush)(struct amph_cx *cx);

    /* Receives and completes: at most `budget` messages.  lanes: bit mask of 1 << enum amph_lane; a
     * caller that waits inside a reply asks for the reply lane only.  Returns the number of
     * messages and completions handled. */
    unsigned (*progress)(struct amph_cx *cx, unsigned lanes, unsigned budget);
    /* A descriptor that epoll may wait for after arm(AMPH_ARM_FD), or -1. */
    int (*wait_fd)(struct amph_cx *cx);
    /* See enum amph_arm. */
    enum amph_status (*arm)(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns);
};

/* Named stubs for operations that a conduit does not have; tables hold no NULL.  All answer
 * AMPH_ERR_NOSYS. */
enum amph_status amph_conduit_no_prepare(struct amph_cx *, uint32_t, enum amph_lane, size_t *,
                                         void **);
enum amph_status amph_conduit_no_commit(struct amph_cx *, uint32_t, enum amph_lane,
                                        const struct amph_am *);
enum amph_status amph_conduit_no_atomic(struct amph_cx *, uint32_t, const struct amph_rmem *,
                                        uint64_t, unsigned, unsigned, uint64_t, uint64_t,
                                        uint64_t *, struct amph_op *);
void amph_conduit_no_flush(struct amph_cx *);
void amph_conduit_no_peer_gone(struct amph_cx *, uint32_t peer);

/* ---- registry.c ---- */

/* All conduits this build knows, best first, NULL at the end; what needs libfabric is loaded when
 * first asked for. */
const struct amph_conduit_ops *const *amph_conduit_list(void);

/* The conduit called name, or NULL. */
const struct amph_conduit_ops *amph_conduit_find(const char *name);

/* The network conduit for a job: AMPHORA_CONDUIT's, or for auto the first that probes well.
 * one_host: "smp" then needs no network (*ops_p = NULL).  An impossible choice is logged in one
 * sentence. */
enum amph_status amph_conduit_choose(bool one_host, const struct amph_conduit_ops **ops_p);

/* The same for a program that was built for a conduit (NULL: none in particular), which counts
 * where AMPHORA_CONDUIT is not set. */
enum amph_status amph_conduit_choose_for(const char *built, bool one_host,
                                         const struct amph_conduit_ops **ops_p);

/* The word of AMPHORA_CONDUIT that counts for such a program: the setting or, if that is not set,
 * the conduit that the program was built for. */
const char *amph_conduit_effective_name(const char *built);

/* Reports whether the conduit called name reaches processes of one host only (smp).  Loads
 * nothing. */
bool amph_conduit_is_one_host(const char *name);

/* Reports whether name, a word of AMPHORA_CONDUIT, names a network: neither auto nor a conduit that
 * reaches one host only.  Loads nothing. */
bool amph_conduit_is_network(const char *name);

/* Reports whether AMPHORA_CONDUIT is set and names a network. */
bool amph_conduit_network_is_named(void);

/* The network that is taken if none is named and a network is needed. */
const char *amph_conduit_default_network(void);

/* Opens an instance; lays emulate.c over it where put/get are missing or AMPHORA_RMA=emulate. */
enum amph_status amph_conduit_open(const struct amph_conduit_ops *ops,
                                   const struct amph_cx_config *cfg, struct amph_cx **cx_p);

/* The libfabric module's entry: symbol "amph_ofi_conduits" of type amph_conduit_module_fn gives its
 * table. */
typedef const struct amph_conduit_ops *const *(*amph_conduit_module_fn)(void);

/* A data symbol of that module, or NULL where there is no module. */
const void *amph_conduit_module_symbol(const char *name);

/* The conduits that are always built in. */
extern const struct amph_conduit_ops amph_smp_ops;
extern const struct amph_conduit_ops amph_udp_ops;

#endif

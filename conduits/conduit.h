/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conduit interface: how bytes get from one process to another.
 * Layer: conduits.  Thread rule: below.  The map of the files is in conduits/README.md.
 *
 * A conduit is one const table of operations (struct amph_conduit_ops) and a block of facts (struct
 * amph_conduit_caps).  An instance (struct amph_cx) belongs to one active-message endpoint; a
 * process may open several instances of one conduit.
 *
 * Terms.  Peer: a process, by its number in this instance, 0..max_peers-1.  Lane: requests and
 * replies travel in separate lanes, so that a full request lane never delays a reply.  Op: an
 * operation in flight, in the caller's memory; its done function ends it.
 *
 * Thread rule.  Calls come in two sides.  Send side: am_send, am_prepare, am_commit, put, get,
 * atomic, flush.  Progress side: progress, tick, arm.  The caller serialises each side.  If cfg.threaded
 * is set, the two sides may run at the same time in two threads.  Upcalls are made only from inside
 * progress, on its thread, and may make send-side calls (not progress); the done functions of what a
 * peer has not answered also from inside del_peer and close.  add_peer, del_peer,
 * mem_reg, mem_dereg and mem_import belong to the send side and may be called from upcalls.  All
 * other operations are called while neither side is active.
 *
 * Blocking.  No operation blocks, except arm with AMPH_ARM_SLEEP.  Lack of room is always reported
 * as AMPH_AGAIN and has no side effect: the caller makes progress and calls again.  am/ does the
 * queueing and counts credits.
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

/* Every conduit carries at least this many payload bytes in one medium. */
#define AMPH_AM_MIN_MAX_MEDIUM 65408
#define AMPH_ADDR_MAX_BYTES 128    /* address blob of an instance */
#define AMPH_PROVIDER_MAX_BYTES 32 /* of its provider's name, peers are told this much */
#define AMPH_KEY_BLOB_MAX_BYTES 64 /* exported key of registered memory */

enum amph_lane {
    AMPH_LANE_REQUEST = 0,
    AMPH_LANE_REPLY = 1,
    AMPH_NLANES = 2
};

enum amph_am_kind {
    AMPH_AM_SHORT,
    AMPH_AM_MEDIUM,      /* the handler gets the payload in the conduit's memory */
    AMPH_AM_LONG,        /* the payload is already at dest, by a put or through a mapping */
    AMPH_AM_LONG_PACKED, /* the message holds the payload; am/ checks dest and copies it there */
    /* credit returns and emulated RMA; `handler` holds a code, of emulate.c from
     * AMPH_EMULATE_FIRST on, of am/ below (224 to 239: ofi/pack.c) */
    AMPH_AM_INTERNAL,
    AMPH_AM_CANCEL /* am_commit only: sends nothing and releases the room */
};

/* One active message, sent or received.  The args and payload of a received message are in the
 * conduit's memory and are valid until on_am returns. */
struct amph_am {
    uint8_t kind; /* enum amph_am_kind */
    uint8_t handler;
    uint8_t nargs;       /* 0..16 */
    uint8_t flags;       /* for am/, carried unchanged */
    uint16_t aux;        /* for am/ (returned credits), carried unchanged */
    uint32_t nbytes;     /* payload bytes; LONG: bytes at dest */
    uint64_t dest;       /* LONG, LONG_PACKED: address in the target */
    const int32_t *args; /* nargs words in host order */
    const void *payload; /* MEDIUM, LONG_PACKED, INTERNAL */
    /* not carried: the sender sends more to this peer at once, so that this may be kept back until then */
    bool more;
};

/* An operation in flight.  The caller embeds it in its own structure (AMPH_CONTAINER_OF).  done runs
 * exactly once, inside progress, or inside the starting call if the operation completes at once.
 * The conduit does not touch the op after it has called done, so done may free it or start another
 * operation with it.
 *
 * The two ops of a put (lc and rc) complete independently, in either order.  If cfg.threaded is set
 * they may complete in two threads at once, one in the starting call and one in progress.  Memory
 * that both refer to may be freed only after both have run; the caller needs a count of them.
 *
 * Ops of different calls complete in no particular order. */
struct amph_op {
    void (*done)(struct amph_op *op, enum amph_status st);
};

/* Memory of this process that peers can access. */
struct amph_mem {
    void *base;
    size_t len_bytes;
    uint8_t key[AMPH_KEY_BLOB_MAX_BYTES]; /* for mem_import by peers, portable bytes */
    size_t key_len;
    void *impl; /* the conduit's */
};

/* Memory of a peer, imported. */
struct amph_rmem {
    uint64_t base; /* its address in the peer's process */
    uint64_t len_bytes;
    void *local;    /* its mapping in this process (smp), or NULL */
    uint64_t rkey;  /* the conduit's */
    uint64_t rbase; /* what the conduit adds offsets to (0 or base) */
};

/* Properties of a conduit that its users depend on. */
struct amph_conduit_caps {
    uint32_t max_medium;   /* payload bytes of one medium or packed long, with 16 args */
    uint32_t inject_bytes; /* payloads up to this are sent before am_send returns */
    /* the conduit itself bounds its lanes (AMPH_AGAIN means that the peer is slow), so am/ counts no
     * credits */
    bool self_flow;
    /* put and get work without the target's help; otherwise registry.c wraps it in emulate.c */
    bool native_rma;
    /* a put followed by an am_send to the same peer arrives in that order */
    bool put_then_am;
    /* am_send sends large payloads from the caller's memory if there is an lc, which does not wait for the peer's
     * answer */
    bool sends_in_place;
    bool maps_memory; /* mem_import gives rmem.local */
    bool can_sleep;   /* arm(AMPH_ARM_SLEEP) works */
    /* wait_fd becomes readable for every message; false: the caller must poll by timer (reported by
     * amphora-info) */
    bool fd_blocks;
    bool mixed_order; /* peers of other byte order can be reached */
    bool mixed_width; /* put and get work between hosts of 32 and of 64 bits */
    /* put reads its source, registered or not, by the kernel alone: if the source is gone, the put fails */
    bool puts_in_place;
};

/* Upcalls into am/.  `up` is cfg.up. */
struct amph_upcalls {
    /* A message from peer has arrived.  `am` and the memory it points to belong to the conduit and
     * are valid during the call. */
    void (*on_am)(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am);
    /* peer cannot be reached any more (AMPH_ERR_PEER), or it may be alive but an operation in flight was
     * lost (AMPH_ERR_LOST), or this process has no memory for what it sends (AMPH_ERR_NOMEM); called once for a
     * peer.  Its operations in flight complete with
     * AMPH_ERR_PEER.  A conduit without self_flow need not report lost messages: am/ finds them. */
    void (*on_peer_error)(void *up, uint32_t peer, enum amph_status st, const char *why);
};

struct amph_cx_config {
    const char *name;   /* of the endpoint, for messages ("am", "iofwd") */
    uint32_t max_peers; /* peer numbers are below this */
    bool threaded;      /* see the thread rule */
    bool bursts;        /* messages may be kept back for a moment, to be sent with others */
    bool loopback_only; /* the job runs on one machine: listen on the loopback interface */
    uint32_t incoming;  /* connections from peers for which open must find descriptors, or fail */
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
    AMPH_ARM_OFF, /* awake again: senders need not wake this process */
    /* about to sleep on wait_fd: AMPH_OK (every later message makes it readable) or AMPH_AGAIN
     * (there is work, do not sleep) */
    AMPH_ARM_FD,
    /* sleep in this call until a message arrives or timeout_ns has passed; needs caps.can_sleep */
    AMPH_ARM_SLEEP
};

/* An instance.  Conduits embed this as the first member of their own structure. */
struct amph_cx {
    const struct amph_conduit_ops *ops;
    struct amph_conduit_caps caps;
    struct amph_cx_config cfg;
    /* Instances of one conduit reach each other only if this number is equal: the protocol of what the
     * conduit runs on.  0: the conduit has one protocol only. */
    uint32_t protocol;
    const char *provider; /* the name of what the conduit runs on, for messages, or NULL */
    /* this instance's address, portable bytes, for peers' add_peer */
    uint8_t addr[AMPH_ADDR_MAX_BYTES];
    size_t addr_len;
};

/* Messages to and from a peer; the numbers wrap around. */
struct amph_cx_counts {
    uint32_t sent, received;
};

/* The operations of a conduit.  Optional ones are the amph_conduit_no_* stubs, never NULL. */
struct amph_conduit_ops {
    const char *name;    /* "smp", "tcp", ... as in AMPHORA_CONDUIT */
    const char *summary; /* one line for amphora-info */

    /* Checks if this conduit can work on this machine.  Returns AMPH_OK, or a status with one
     * sentence in why (why_len bytes).  May be called at any time, without an instance. */
    enum amph_status (*probe)(char *why, size_t why_len);
    /* Makes an instance, which belongs to the caller until close.  Sets *cx_p only on success. */
    enum amph_status (*open)(const struct amph_cx_config *cfg, struct amph_cx **cx_p);
    /* Frees the instance.  Ops in flight complete with AMPH_ERR_STATE first.  No descriptor,
     * mapping or file remains. */
    void (*close)(struct amph_cx *cx);
    /* Makes peer number `peer` reachable.  Local: the connection is made when it is needed.
     * AMPH_ERR_RANGE, AMPH_ERR_STATE (number in use), AMPH_ERR_PEER. */
    enum amph_status (*add_peer)(struct amph_cx *cx, uint32_t peer,
                                 const struct amph_peer_spec *spec);
    /* Removes the peer, whose number can be used again.  Messages from it that arrive later are
     * dropped. */
    void (*del_peer)(struct amph_cx *cx, uint32_t peer);
    /* The caller knows that the peer is dead: puts and gets that wait for an answer from it
     * complete with AMPH_ERR_PEER.  Called without any lock, not from inside a handler.
     * amph_conduit_no_peer_gone: the network itself reports them. */
    void (*peer_gone)(struct amph_cx *cx, uint32_t peer);

    /* Lets peers access memory.  fd >= 0: the memory is at `fd_offset` of that shared-memory object
     * (smp needs one).  Fills in *mem, which belongs to the caller. */
    enum amph_status (*mem_reg)(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                uint64_t fd_offset, struct amph_mem *mem);
    void (*mem_dereg)(struct amph_cx *cx, struct amph_mem *mem);
    /* Makes a peer's memory usable by its key, which is checked.  AMPH_ERR_PROTO, AMPH_ERR_PEER.
     * key NULL: releases the memory that was imported as *rmem and returns AMPH_OK. */
    enum amph_status (*mem_import)(struct amph_cx *cx, uint32_t peer, const void *key,
                                   size_t key_len, struct amph_rmem *rmem);

    /* Sends am to peer.  lc NULL: the payload has been copied or sent on return.  Otherwise the
     * caller must not change it before lc->done.  Checks nargs and nbytes (AMPH_ERR_ARG).
     * AMPH_AGAIN: nothing was sent, lc is not called. */
    enum amph_status (*am_send)(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                const struct amph_am *am, struct amph_op *lc);
    /* Optional pair (negotiated payload).  prepare returns room for *len_bytes_p payload bytes of a
     * medium to peer, aligned to 16, which the caller may write until it commits.  Several may be
     * prepared at a time.  Length 0 only checks if a message would find room now.  commit sends am,
     * whose payload is the prepared room and whose nbytes may be less than its length, or (kind
     * AMPH_AM_CANCEL) releases the room.  AMPH_AGAIN from prepare: no room; from commit: the room
     * stays prepared.  After any other status of commit the room is released. */
    enum amph_status (*am_prepare)(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                   size_t *len_bytes_p, void **buf_p);
    enum amph_status (*am_commit)(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am);

    /* Writes len_bytes from src to offset of rmem.  lc (may be NULL) completes when src may be used
     * again, rc (may be NULL) when the data is visible in the target.  src must not change until lc
     * or rc, whichever is first (see struct amph_op for their order).  The caller has checked the
     * bounds. */
    enum amph_status (*put)(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                            uint64_t offset, const void *src, size_t len_bytes, struct amph_op *lc,
                            struct amph_op *rc);
    /* Reads len_bytes at offset of rmem to dst.  done completes when dst is filled. */
    enum amph_status (*get)(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                            uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done);
    /* Optional, reserved for remote atomics (fetch-and-op of 4 or 8 bytes at offset). */
    enum amph_status (*atomic)(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                               uint64_t offset, unsigned opcode, unsigned type, uint64_t operand1,
                               uint64_t operand2, uint64_t *result, struct amph_op *done);
    /* Sends messages that were held back to be sent together. */
    void (*flush)(struct amph_cx *cx);
    /* Optional: the messages that this instance has exchanged with peer by itself, in am_send and
     * on_am of another instance (emulate.c).  am/ looks for lost ones among them (am/lost.c). */
    struct amph_cx_counts (*counts)(struct amph_cx *cx, uint32_t peer);

    /* Receives at most `budget` messages, and completes operations.  lanes: bit mask of 1 << enum
     * amph_lane; a caller that waits inside a reply passes the reply lane only.  Returns the number
     * of messages and completions handled. */
    unsigned (*progress)(struct amph_cx *cx, unsigned lanes, unsigned budget);
    /* Checks for failures that no event announces (hosts that have vanished), not more often than the
     * conduit needs; progress reports them.  Called a few times a second while a wait or poll finds nothing.
     * now_ns: amph_now_ns.  amph_conduit_no_tick: nothing to look for. */
    void (*tick)(struct amph_cx *cx, uint64_t now_ns);
    /* Returns a descriptor to poll after arm(AMPH_ARM_FD), or -1. */
    int (*wait_fd)(struct amph_cx *cx);
    /* See enum amph_arm. */
    enum amph_status (*arm)(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns);
};

/* Stubs for operations that a conduit does not have.  Those with a status return AMPH_ERR_NOSYS. */
enum amph_status amph_conduit_no_prepare(struct amph_cx *, uint32_t, enum amph_lane, size_t *,
                                         void **);
enum amph_status amph_conduit_no_commit(struct amph_cx *, uint32_t, enum amph_lane,
                                        const struct amph_am *);
enum amph_status amph_conduit_no_atomic(struct amph_cx *, uint32_t, const struct amph_rmem *,
                                        uint64_t, unsigned, unsigned, uint64_t, uint64_t,
                                        uint64_t *, struct amph_op *);
void amph_conduit_no_flush(struct amph_cx *);
struct amph_cx_counts amph_conduit_no_counts(struct amph_cx *, uint32_t peer);
void amph_conduit_no_peer_gone(struct amph_cx *, uint32_t peer);
void amph_conduit_no_tick(struct amph_cx *, uint64_t now_ns);

/* ---- registry.c ---- */

/* All conduits of this build, best first, NULL at the end.  The first call loads the module of those
 * that need libfabric. */
const struct amph_conduit_ops *const *amph_conduit_list(void);

/* The conduit called name, or NULL. */
const struct amph_conduit_ops *amph_conduit_find(const char *name);

/* Chooses the network conduit of a job: the one that AMPHORA_CONDUIT names or, for auto, the first
 * whose probe succeeds.  one_host: all processes are on one host, which needs no network unless one
 * is named (*ops_p = NULL).  A choice that is not possible is logged in one sentence. */
enum amph_status amph_conduit_choose(bool one_host, const struct amph_conduit_ops **ops_p);

/* The same for a program that was built for a conduit (NULL: none), which is the choice if
 * AMPHORA_CONDUIT is not set. */
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

/* Reports whether the conduit called name sends datagrams, which the wire may lose (udp).  Loads
 * nothing. */
bool amph_conduit_is_datagram(const char *name);

/* How a program that was built for a conduit becomes a job without a launcher. */
enum amph_self_start {
    AMPH_SELF_START_NONE,
    AMPH_SELF_START_SETTING, /* GASNET_PSHM_NODES gives the number of processes */
    AMPH_SELF_START_ARGUMENT /* its first argument does */
};

/* Returns how programs that were built for the conduit called name do it.  Loads nothing. */
enum amph_self_start amph_conduit_self_start(const char *name);

/* The network that is taken if none is named and a network is needed. */
const char *amph_conduit_default_network(void);

/* Opens an instance.  Wraps it in emulate.c if it lacks put and get, or for AMPHORA_RMA=emulate. */
enum amph_status amph_conduit_open(const struct amph_conduit_ops *ops,
                                   const struct amph_cx_config *cfg, struct amph_cx **cx_p);

/* The entry of the libfabric module: its symbol "amph_ofi_conduits" has this type and returns the
 * module's conduits, NULL at the end. */
typedef const struct amph_conduit_ops *const *(*amph_conduit_module_fn)(void);

/* A data symbol of that module, or NULL if there is no module. */
const void *amph_conduit_module_symbol(const char *name);

/* The conduits that are always built in. */
extern const struct amph_conduit_ops amph_smp_ops;
extern const struct amph_conduit_ops amph_udp_ops;

#endif

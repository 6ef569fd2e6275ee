/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal structures of the libfabric conduits.
 * Layer: conduits (ofi).  Thread rule: that of conduit.h; fields that both sides use say so.
 *
 *   ofi_wire.h  message format                     rx.c        receive buffers and messages
 *   module.c    the module's table of conduits     progress.c  completions
 *   provider.c  choice of the provider             wait.c      sleeping
 *   open.c      opening, closing, peers            quiesce.c   the end before closing
 *   addr.c      addresses                          liveness.c  detection of dead peers
 *   send.c      messages, put and get              greeting.c  unauthenticated connections
 *   mem.c       registered memory and its keys     imports.c   corrections inside libfabric
 *   reg.c       registrations                      port.c      datagram port of the udp conduit
 *   pool.c      pools of operations and buffers    silence.c   detection of hosts that vanish
 *   absent.c    providers that are not installed   cork.c      small operations that are sent together
 *   look.c      is anything ready?                 pusher.c    the thread that sends them if the process computes
 *   pack.c      small puts or gets in one message          shortage.c  is there no memory for what is to be sent?
 *
 * Includes base/, boot/, conduits/ and libfabric's headers.  Writable globals: `state` in greeting.c and
 * look.c, `once`, `swapped` and `now` in cork.c, the pthread_once_t and `interfaces` of imports.c, and
 * `absent` in absent.c.
 *
 * One set of code serves every conduit that runs on a FI_EP_RDM endpoint; a conduit is a row
 * (struct amph_ofi_family) that lists the providers it accepts, best first.
 */
#ifndef AMPH_CONDUITS_OFI_OFI_H
#define AMPH_CONDUITS_OFI_OFI_H

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/os/clock.h"
#include "conduits/conduit.h"
#include "conduits/ofi/ofi_wire.h"

/* How an instance sleeps until the provider has something to do. */
enum amph_ofi_wait {
    /* on the provider's own epoll set, which wait.c finds among the process's descriptors: needs
     * no provider thread, and the set does not stay readable */
    OFI_WAIT_INNER,
    OFI_WAIT_CQ /* on the completion queue's descriptor, after fi_trywait */
};

struct amph_ofi_provider {
    const char *name; /* as in fabric_attr->prov_name */
    enum amph_ofi_wait wait;
    bool mixed_order; /* reaches peers of the other byte order */
    bool cq_sleeps;   /* OFI_WAIT_CQ works too, if the set is not found */
    bool needs_kicks; /* see amph_ofi_rx_kick */
    /* each message needs its own receive buffer, because the provider mixes up shared ones */
    bool own_buffers;
    /* bytes of its header in front of the data of a put: of all, and of each remote part; 0: not known */
    uint8_t put_head_bytes, put_part_bytes;
    /* used instead of a card, to run the code for cards on a machine without one; see
     * stand_in_wanted */
    bool stand_in;
    /* any provider that requires registered memory and does not use the kernel's network stack */
    bool any;
};

struct amph_ofi_family {
    const char *conduit;                      /* "tcp" */
    const struct amph_ofi_provider *provider; /* best first; name NULL ends */
    /* this side chooses the TCP port; otherwise the provider chooses and reports its address */
    bool own_port;
    /* checks cheaply if any of them could work here; NULL: libfabric is asked */
    bool (*present)(char *why, size_t why_len);
};

extern const struct amph_ofi_family amph_ofi_family_tcp, amph_ofi_family_verbs;

/* The first member of every structure that libfabric returns as op_context. */
enum amph_ofi_ctx_kind {
    OFI_CTX_OP,
    OFI_CTX_RX
};

struct amph_ofi_ctx {
    struct fi_context2 fi; /* used by the provider while in flight */
    enum amph_ofi_ctx_kind what;
};

/* ---- reg.c: registered memory ---- */

struct amph_ofi_reg {
    struct amph_ofi_reg *next; /* in the table */
    struct fid_mr *mr;
    void *desc;
    uintptr_t base;
    size_t len_bytes;
    uint64_t access; /* FI_* */
    uint32_t refs, magic;
    bool listed;
};

#define OFI_ACCESS_ALL (FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OFI_ACCESS_LOCAL (FI_READ | FI_WRITE | FI_SEND | FI_RECV)

struct amph_ofi_cx;
/* Registers memory; the caller holds the only reference.  Returns 0 or a negative libfabric
 * code. */
int amph_ofi_reg_make(struct amph_ofi_cx *cx, void *base, size_t len_bytes, uint64_t access,
                      struct amph_ofi_reg **reg_p);
/* Adds a registration to the table that amph_ofi_reg_find searches. */
void amph_ofi_reg_list(struct amph_ofi_cx *cx, struct amph_ofi_reg *reg);
/* Returns a registration in the table that covers the bytes and allows access, with another reference,
 * or NULL. */
struct amph_ofi_reg *amph_ofi_reg_find(struct amph_ofi_cx *cx, const void *addr, size_t len_bytes,
                                       uint64_t access);
/* The same; if none is found, registers the pages until the last reference is dropped. */
int amph_ofi_reg_user(struct amph_ofi_cx *cx, const void *addr, size_t len_bytes, uint64_t access,
                      struct amph_ofi_reg **reg_p);
void amph_ofi_reg_put(struct amph_ofi_cx *cx, struct amph_ofi_reg *reg);
/* Returns the registration with that key to which peers may write, with another reference, or NULL. */
struct amph_ofi_reg *amph_ofi_reg_of_key(struct amph_ofi_cx *cx, uint64_t key);
void *amph_ofi_desc_checked(const struct amph_ofi_reg *reg, const void *addr, size_t len_bytes);
uint64_t amph_ofi_remote_checked(const struct amph_ofi_cx *cx, const struct amph_rmem *rmem,
                                 uint64_t offset);

/* ---- pool.c: items that the send side allocates and either side frees, without a lock ---- */

struct amph_ofi_item {
    struct amph_ofi_item *next;
    struct amph_ofi_reg *reg; /* that contains the item, or NULL */
};

struct amph_ofi_pool {
    struct amph_ofi_cx *cx;     /* slabs are registered if this instance needs registered memory */
    struct amph_ofi_item *free; /* send side only */
    /* atomic list: either side pushes, the send side takes all at once */
    struct amph_ofi_item *returned;
    struct amph_ofi_slab *slabs;
    size_t item_bytes, per_slab, made, limit;
};

void amph_ofi_pool_init(struct amph_ofi_pool *pool, struct amph_ofi_cx *cx, size_t item_bytes,
                        size_t per_slab, size_t limit);
/* Does the next amph_ofi_pool_get return an item?  Send side. */
bool amph_ofi_pool_has_item(struct amph_ofi_pool *pool);
/* Returns an item, or NULL if the limit is reached or memory has run out.  Send side.  New items
 * are zero after their struct amph_ofi_item, whose reg is valid. */
void *amph_ofi_pool_get(struct amph_ofi_pool *pool);
/* reg: the value that amph_ofi_pool_get returned in the item */
void amph_ofi_pool_put(struct amph_ofi_pool *pool, void *item, struct amph_ofi_reg *reg);
/* both sides quiet */
void amph_ofi_pool_each(struct amph_ofi_pool *pool, void (*fn)(void *item, void *arg), void *arg);
/* while neither side is active and nothing is in flight; before the domain is closed */
void amph_ofi_pool_unregister(struct amph_ofi_pool *pool);
void amph_ofi_pool_fini(struct amph_ofi_pool *pool);

/* ---- one operation in flight ---- */

struct amph_ofi_op {
    struct amph_ofi_item item; /* while in the pool */
    struct amph_ofi_ctx ctx;
    struct amph_op *lc, *rc;
    struct amph_ofi_pool *bounce_pool;
    void *bounce;
    struct amph_ofi_reg *bounce_reg;
    struct amph_ofi_reg *user_reg; /* of the client's memory while in flight, or NULL */
    void *heap;                    /* a copy of what could not be registered, or NULL */
    void *get_to; /* destination to which the bounce buffer of a get is copied, or NULL */
    size_t get_bytes;
    uint32_t peer;
    bool busy;
    bool unacked; /* counted by its peer's `unacked` */
    /* Header and arguments of a message whose payload is sent in place; the last word is the
     * payload's padding. */
    uint64_t head[(sizeof(struct amph_ofi_hdr) + OFI_ARGS_MAX_BYTES) / 8 + 1];
};
#define OFI_HEAD_PAD (sizeof(struct amph_ofi_hdr) + OFI_ARGS_MAX_BYTES)

enum {
    OFI_BOUNCE_SMALL,
    OFI_BOUNCE_LARGE,
    OFI_NBOUNCE
};
#define OFI_BOUNCE_SMALL_BYTES 4096u
#define OFI_INJECT_MAX_BYTES 512u

/* ---- receive buffers ---- */

#define OFI_RX_BUF_BYTES (256u * 1024)
#define OFI_RX_BUFS 4u
#define OFI_RX_OWN_BUFS 24u /* of one message each */
#define OFI_RX_RETIRED 32u

/* The provider writes messages one after the other.  They may complete in another order, and the
 * provider may release the buffer before the last one is complete.  So the buffer is used again
 * only when as many bytes have been handled as were received. */
struct amph_ofi_rxbuf {
    struct amph_ofi_ctx ctx;
    struct amph_ofi_rxbuf *next; /* in rx_all */
    struct amph_ofi_reg *reg;
    uint8_t *mem;
    size_t len_bytes, got_bytes, done_bytes, end_bytes;
    bool kicker;   /* see amph_ofi_rx_kick */
    bool released; /* the provider takes no more messages into it; end_bytes holds */
    bool damaged;  /* a message failed in it: its bytes are never accounted for */
};

/* A request that came while only replies were wanted; the message follows. */
struct amph_ofi_deferred {
    struct amph_ofi_deferred *next;
    size_t len_bytes;
    uint64_t msg[];
};

/* ---- a peer and an instance ---- */

enum amph_ofi_peer_state {
    OFI_PEER_NONE,
    OFI_PEER_UP,
    OFI_PEER_REFUSED, /* its address accepts no connection; the upcall is still to be made */
    OFI_PEER_SILENT,  /* its host has not answered for a while; the upcall is still to be made */
    OFI_PEER_STARVED, /* there is no memory for what is sent to it; the upcall is still to be made */
    OFI_PEER_DEAD     /* the upcall has been made */
};
#define OFI_NAME_KEPT_BYTES \
    20 /* of an IP address in portable form; longer names are inserted at once */
struct amph_ofi_peer {
    /* send side; FI_ADDR_UNSPEC: not in libfabric's table yet (an entry costs several times the
     * size of this struct) */
    fi_addr_t addr;
    uint64_t cookie_in, cookie_out;
    uint64_t again_ns;  /* send side: time since which it has accepted nothing, or 0 */
    uint32_t unheard_s; /* send side: since which its address has answered no probe, or 0 */
    uint32_t remote_index;
    uint8_t name_len;
    uint8_t name[OFI_NAME_KEPT_BYTES];
    uint8_t state; /* enum amph_ofi_peer_state; atomic */
    /* pack.c */
    uint8_t answers;                   /* to packs, not sent yet; atomic */
    uint32_t unacked;                  /* puts, gets and packs that are not answered yet */
    struct amph_cx_counts pack_counts; /* atomic */
};

#define OFI_BATCH 16
#define OFI_LARGE_BYTES 8192u /* the tcp providers read one larger message a call */
#define OFI_MAX_OPS 1024

/* What one side has sent that the kernel may keep back (cork.c).  Atomic: the progress side pushes both. */
enum amph_ofi_cork_side {
    OFI_CORK_SEND,
    OFI_CORK_PROGRESS,
    OFI_NCORKS
};
#define OFI_CORKED_MAX 8u /* connections at a time; over others everything is sent at once */
struct amph_ofi_burst {
    int fd;
    unsigned count; /* packets since the last push */
};

struct amph_ofi_cork {
    unsigned sent;                 /* packets since the last push; atomic */
    int fd_plus_1[OFI_CORKED_MAX]; /* of connections that have something kept back; atomic */
    /* send side only: the connections that it has used since the last push */
    struct amph_ofi_burst burst[OFI_CORKED_MAX];
    unsigned nbursts;
};

/* Small puts, or gets, that travel in one message (pack.c). */
struct amph_ofi_pack;
struct amph_ofi_pack_answer;
struct amph_ofi_packs {
    /* read by each call */
    bool on;
    bool held;                    /* this process has left a pack open, as far as it knows */
    bool in_progress;             /* what upcalls put or get is not packed */
    unsigned nanswers;            /* atomic */
    struct amph_ofi_pack *failed; /* could not be sent; progress completes them */

    uint32_t last_peer; /* of the last put or get */
    uint32_t run;       /* puts and gets since nothing was unanswered */
    uint32_t last_run;  /* those of the time before */
    /* of the next three, because the pusher sends packs, too, and of the answers */
    pthread_mutex_t lock;
    struct amph_ofi_pack *open;
    bool stuck;       /* it found no room: the process itself tries again */
    uint32_t seen_id; /* the last one at the pusher's last look, or when its timer was set */
    struct amph_ofi_pack_answer *answers, **answers_tail;
    struct amph_ofi_pack *in_flight, **tail; /* oldest first */
    struct amph_ofi_pack *unused;
    unsigned made;
    uint32_t last_id;
};

/* The thread that pushes what the send side has kept back (pusher.c). */
struct amph_ofi_pusher {
    int fd;            /* its timer; -1: none was needed yet */
    bool set;          /* the timer is set; atomic */
    bool late;         /* for packs, which may wait for longer than messages; atomic */
    uint64_t pack_ns;  /* how long the timer runs for a pack; atomic */
    bool runs;         /* the thread does; atomic */
    bool stop;         /* it has to end; atomic */
    bool has_thread;   /* `thread` has to be joined */
    uint64_t retry_ns; /* when to try again to start it; 0: it could be started */
    pthread_t thread;
};

struct amph_ofi_cx {
    struct amph_cx base;
    const struct amph_ofi_family *family;
    const struct amph_ofi_provider *prov;
    /* the registration rules in force: the provider's, and those that AMPHORA_MR_DEBUG adds */
    uint64_t mr_mode;
    bool need_reg; /* FI_MR_LOCAL is among them */
    bool mr_debug;
    pthread_mutex_t reg_lock;
    struct amph_ofi_reg *regs; /* under reg_lock */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct amph_ofi_peer *peer; /* [cfg.max_peers] */
    uint32_t npeers;            /* that are in use */
    size_t inject_bytes;
    struct sockaddr_storage listen_addr;

    /* send side; the progress side returns items */
    struct amph_ofi_pool ops;
    struct amph_ofi_pool bounce[OFI_NBOUNCE];
    int probe_fd; /* see liveness.c; -1: no probe in flight */
    struct amph_ofi_peer *probe_peer;
    uint64_t probe_ns;    /* when the last probe began */
    uint64_t patience_ns; /* see liveness.c; 0: the least */
    int said_unreachable; /* atomic: a sentence about the network has been printed */
    int failed; /* atomic: a peer's state is REFUSED, SILENT or STARVED, progress must report it */

    /* shortage.c; atomic */
    uint64_t short_look_ns; /* when malloc was asked last */
    uint64_t short_ns;      /* since when it has had nothing to give, or 0 */

    uint64_t silence_ns; /* after which a host counts as dead; 0: never */

    bool corks; /* small operations may be kept back (cork.c) */
    struct amph_ofi_cork cork[OFI_NCORKS];
    struct amph_ofi_pusher pusher;
    struct amph_ofi_packs pack;

    /* progress side */
    uint64_t look_ns;     /* when silence.c looks at the connections again */
    uint64_t progress_ns; /* when progress was last called */
    unsigned calls;       /* of progress that found something */
    struct fi_cq_data_entry ev[OFI_BATCH];
    unsigned ev_at, ev_end;
    bool ev_error; /* an error is next in the queue */
    bool ev_large; /* the batch has a large message, behind which the provider may have more */
    struct amph_ofi_rxbuf *rx_all;
    bool rx_starved; /* reposting found no room; progress tries again */
    struct amph_ofi_deferred *deferred, **deferred_tail;
    struct amph_ofi_rxbuf *rx_retired[OFI_RX_RETIRED]; /* damaged ones, oldest overwritten first */
    unsigned rx_nretired;
    struct amph_ofi_rxbuf *kicker;
    bool kicker_posted;
    uint32_t kicks; /* still to be given, see amph_ofi_rx_kick */
    /* atomic: nothing can be in the completion queue that progress has not seen */
    int cq_empty;

    /* waiting */
    enum amph_ofi_wait wait;
    int wait_fd;   /* the descriptor that callers wait for, or -1 */
    int listen_fd; /* the provider's listening socket if it is guarded (greeting.c), or -1 */
    bool listened; /* it had such a socket, at listen_addr */
    int inner_fd;  /* the provider's (never closed by us), or -1 */
    bool looks;    /* the set is looked at before the provider is called (look.c) */
    /* threaded: written by the send side if it may have completed something while armed */
    int notify_fd;
    int armed;              /* atomic */
    bool woken_by_provider; /* progress side: the last sleep was ended by the provider */
    bool stirred;           /* progress side: the provider had something to do */
    bool ready;             /* the last look has found something for the provider */
    unsigned empty_looks;   /* since the provider was last called */
    /* not threaded: the completion queue may have something that was not in the last batch */
    bool cq_unread;
};

/* Records that something may have been added to the completion queue.  Either side. */
static inline void amph_ofi_cq_touched(struct amph_ofi_cx *cx)
{
    __atomic_store_n(&cx->cq_empty, 0, __ATOMIC_RELEASE);
    if (cx->looks)
        cx->cq_unread = true;
}

static inline struct amph_ofi_cx *amph_ofi_of(struct amph_cx *cx)
{
    return (struct amph_ofi_cx *)cx;
}

/* Returns the descriptor that libfabric takes with a local buffer. */
static inline void *amph_ofi_desc(const struct amph_ofi_cx *cx, const struct amph_ofi_reg *reg,
                                  const void *addr, size_t len_bytes)
{
    if (AMPH_UNLIKELY(cx->mr_debug))
        return amph_ofi_desc_checked(reg, addr, len_bytes);

    return reg ? reg->desc : NULL;
}

/* Returns the address by which the provider names an offset in a peer's memory. */
static inline uint64_t amph_ofi_remote(const struct amph_ofi_cx *cx, const struct amph_rmem *rmem,
                                       uint64_t offset)
{
    return AMPH_UNLIKELY(cx->mr_debug) ? amph_ofi_remote_checked(cx, rmem, offset)
                                       : rmem->rbase + offset;
}

/* cork.c: what libfabric sends between begin and end for an operation of that size may be kept back. */
void amph_ofi_cork_open(struct amph_ofi_cx *cx);
void amph_ofi_cork_begin(struct amph_ofi_cx *cx, enum amph_ofi_cork_side side, size_t len_bytes);
void amph_ofi_cork_end(void);
void amph_ofi_cork_push(struct amph_ofi_cork *cork);
/* The same for a message, after which the process may not call for a long time. */
void amph_ofi_cork_begin_message(struct amph_ofi_cx *cx, const struct amph_am *am,
                                 size_t len_bytes);
void amph_ofi_cork_end_message(struct amph_ofi_cx *cx);
/* Pushes what the send side has kept back. */
static inline void amph_ofi_cork_push_sent(struct amph_ofi_cx *cx)
{
    struct amph_ofi_cork *cork = &cx->cork[OFI_CORK_SEND];

    if (AMPH_UNLIKELY(__atomic_load_n(&cork->sent, __ATOMIC_RELAXED)))
        amph_ofi_cork_push(cork);
}

/* The bounce buffers for that many bytes. */
static inline struct amph_ofi_pool *amph_ofi_bounce_pool(struct amph_ofi_cx *cx, size_t len_bytes)
{
    return &cx->bounce[len_bytes <= OFI_BOUNCE_SMALL_BYTES ? OFI_BOUNCE_SMALL : OFI_BOUNCE_LARGE];
}

/* pack.c */
void amph_ofi_pack_open(struct amph_ofi_cx *cx);
void amph_ofi_pack_close(struct amph_ofi_cx *cx);
/* Adds a put to a pack, or sends an open one before it.  AMPH_OK: it is in a pack; AMPH_AGAIN: no room;
 * AMPH_ERR_NOSYS: it is to be sent by itself. */
enum amph_status amph_ofi_pack_put(struct amph_ofi_cx *cx, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, const void *src,
                                   size_t len_bytes, struct amph_op *lc, struct amph_op *rc);
/* The same with a get. */
enum amph_status amph_ofi_pack_get(struct amph_ofi_cx *cx, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, void *dst,
                                   size_t len_bytes, struct amph_op *done);
/* Sends the open pack.  false: it is to that peer, and there is no room now. */
bool amph_ofi_pack_send(struct amph_ofi_cx *cx, uint32_t peer);
/* What the pusher's thread has found. */
enum amph_ofi_pack_found {
    OFI_PACK_NONE,
    OFI_PACK_ACTIVE, /* the process has opened packs since the last look, and sends them as a rule */
    OFI_PACK_SENT    /* a pack that was open at the last look; without room, the process sends it */
};
/* Sends the open pack from that thread if it was open at the last look. */
enum amph_ofi_pack_found amph_ofi_pack_push(struct amph_ofi_cx *cx);
/* Sends answers as far as there is room.  Send side. */
void amph_ofi_pack_answer(struct amph_ofi_cx *cx);
/* At the beginning of a progress call.  Returns how many packs it has completed. */
unsigned amph_ofi_pack_progress(struct amph_ofi_cx *cx);
/* Handles a message of pack.c.  Returns false for any other. */
bool amph_ofi_pack_take(struct amph_ofi_cx *cx, uint32_t peer, enum amph_lane lane,
                        const struct amph_am *am);
/* Completes the puts and gets that a peer has not answered, and drops the answers to it. */
void amph_ofi_pack_fail(struct amph_ofi_cx *cx, uint32_t peer, enum amph_status st);
/* Operations of the conduit. */
struct amph_cx_counts amph_ofi_counts(struct amph_cx *cx, uint32_t peer);
void amph_ofi_peer_gone(struct amph_cx *cx, uint32_t peer);

/* Before anything else is sent to a peer.  false: no room now. */
static inline bool amph_ofi_pack_first(struct amph_ofi_cx *cx, uint32_t peer)
{
    return AMPH_LIKELY(!cx->pack.held) || amph_ofi_pack_send(cx, peer);
}

static inline bool amph_ofi_pack_waits(const struct amph_ofi_cx *cx)
{
    return cx->pack.held || cx->pack.failed ||
           __atomic_load_n(&cx->pack.nanswers, __ATOMIC_RELAXED);
}

/* Counts a put or get that the peer answers; op->unacked is set. */
static inline void amph_ofi_rma_begun(struct amph_ofi_cx *cx, uint32_t peer)
{
    cx->peer[peer].unacked++;
    cx->pack.last_peer = peer;
}

static inline void amph_ofi_rma_ended(struct amph_ofi_cx *cx, uint32_t peer)
{
    cx->peer[peer].unacked -= cx->peer[peer].unacked > 0; /* 0: the peer was replaced meanwhile */
}

/* look.c: looks before the provider is called, if cx->looks. */
void amph_ofi_look_open(struct amph_ofi_cx *cx);
void amph_ofi_look_close(struct amph_ofi_cx *cx);
/* Is anything ready?  Then the provider finds it by its next call of epoll_wait, before amph_ofi_look_end. */
bool amph_ofi_look(void);
void amph_ofi_look_end(void);
/* Has something been received that the provider has not taken yet? */
bool amph_ofi_look_holds(void);

/* pusher.c */
void amph_ofi_pusher_close(struct amph_ofi_cx *cx);
/* Can the thread be had?  Send side. */
bool amph_ofi_can_push_soon(struct amph_ofi_cx *cx);
/* What the kernel keeps back is sent within OFI_PUSH_NS, also if the process computes; a pack of puts (`pack`)
 * too, or within 2 * OFI_PUSH_LATE_NS if the process has sent packs until then.  false: that cannot be had; what
 * the kernel keeps back has been pushed.  Send side. */
bool amph_ofi_push_soon(struct amph_ofi_cx *cx, bool pack);
#define OFI_PUSH_NS (200 * AMPH_NS_PER_US)
#define OFI_PUSH_LATE_NS (4 * OFI_PUSH_NS)

/* imports.c: starts libfabric.  Called before any other libfabric function. */
void amph_ofi_prepare(void);
/* Makes libfabric call fn instead of `name`.  Returns false if its import is not found. */
bool amph_ofi_swap_import(const char *name, void *fn);
/* Between these two libfabric sees one list of this host's interfaces, and asks the kernel only once. */
void amph_ofi_interfaces_hold(void);
void amph_ofi_interfaces_release(void);
/* Makes the kernel check a TCP connection that is idle; accepted sockets inherit it from their listener. */
void amph_ofi_keep_alive(int fd);
/* A connection that libfabric has accepted: prepares it as those that libfabric makes. */
void amph_ofi_accepted(int fd);
/* Returns true if the kernel lists a device in that directory. */
bool amph_ofi_has_devices(const char *tree);

/* absent.c: between these two libfabric does not search for providers that are not installed.  Returns whether that can
 * be told here. */
bool amph_ofi_absent_begin(void);
void amph_ofi_absent_end(void);

/* greeting.c: limits and counts unauthenticated connections to a listening socket, until unguard.  peers:
 * how many may be connecting at a time. */
void amph_ofi_guard(int listener, uint32_t peers);
/* Reports whether the descriptors that are open now leave room for that number of connections. */
bool amph_ofi_has_room(uint32_t connections);
void amph_ofi_unguard(int listener);
/* recv, for libfabric. */
ssize_t amph_ofi_guarded_recv(int fd, void *buf, size_t len, int flags);

/* provider.c */
enum amph_status amph_ofi_probe(const struct amph_ofi_family *family, char *why, size_t why_len);
/* What an instance on info publishes as its struct amph_cx's protocol. */
uint32_t amph_ofi_protocol(const struct fi_info *info);
/* Finds the first provider of family that meets the requirements, for the address src (may be
 * NULL).  The caller frees the info. */
enum amph_status amph_ofi_find_provider(const struct amph_ofi_family *family, bool threaded,
                                        const struct sockaddr_storage *src,
                                        const struct amph_ofi_provider **prov_p,
                                        struct fi_info **info_p);

/* addr.c */
size_t amph_ofi_sockaddr_len(const struct sockaddr_storage *sa);
/* Chooses the address to listen on and reserves a port with a socket that never listens.  The
 * caller closes *fd_p once the provider listens. conduit: its name, for messages. */
enum amph_status amph_ofi_reserve_address(const char *conduit, const struct amph_cx_config *cfg,
                                          struct sockaddr_storage *sa_p, int *fd_p);
/* Stores the address of an enabled instance: in portable form if it is an IP address, else in
 * the provider's form. */
enum amph_status amph_ofi_own_address(struct amph_ofi_cx *cx);
size_t amph_ofi_put_address(const struct sockaddr_storage *sa, uint8_t *blob);
enum amph_status amph_ofi_get_address(const void *blob, size_t len_bytes,
                                      struct sockaddr_storage *sa_p);
/* Stores a peer's address.  AMPH_ERR_PEER: it is malformed.  The first send to the peer inserts it into
 * libfabric's table, so that a process pays only for peers it sends to. */
enum amph_status amph_ofi_set_address(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                                      const void *blob, size_t len_bytes);
bool amph_ofi_insert_address(struct amph_ofi_cx *cx, struct amph_ofi_peer *p);

/* open.c */
enum amph_status amph_ofi_open(const struct amph_ofi_family *family,
                               const struct amph_conduit_ops *ops, const struct amph_cx_config *cfg,
                               struct amph_cx **cx_p);
void amph_ofi_close(struct amph_cx *cx);
enum amph_status amph_ofi_add_peer(struct amph_cx *cx, uint32_t peer,
                                   const struct amph_peer_spec *spec);
void amph_ofi_del_peer(struct amph_cx *cx, uint32_t peer);

/* mem.c */
enum amph_status amph_ofi_mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                  uint64_t fd_offset, struct amph_mem *mem);
void amph_ofi_mem_dereg(struct amph_cx *cx, struct amph_mem *mem);
enum amph_status amph_ofi_mem_import(struct amph_cx *cx, uint32_t peer, const void *key,
                                     size_t key_len, struct amph_rmem *rmem);

/* send.c */
/* As amph_ofi_am_send, but sends no open pack first. */
enum amph_status amph_ofi_send_now(struct amph_ofi_cx *cx, uint32_t peer, enum amph_lane lane,
                                   const struct amph_am *am, struct amph_op *lc);
enum amph_status amph_ofi_am_send(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am, struct amph_op *lc);
enum amph_status amph_ofi_put(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, const void *src, size_t len_bytes,
                              struct amph_op *lc, struct amph_op *rc);
enum amph_status amph_ofi_get(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done);
void amph_ofi_op_finish(struct amph_ofi_cx *cx, struct amph_ofi_op *op, enum amph_status st);

/* liveness.c: called if p accepts nothing.  Returns OFI_PEER_REFUSED if its process has ended,
 * OFI_PEER_SILENT if its host answers nothing, else OFI_PEER_UP. */
enum amph_ofi_peer_state amph_ofi_peer_liveness(struct amph_ofi_cx *cx, struct amph_ofi_peer *p);

/* shortage.c: something could not be sent or posted, perhaps for want of memory.  If there has been none for some
 * seconds, all peers fail.  Either side. */
void amph_ofi_note_no_room(struct amph_ofi_cx *cx);

/* silence.c: an operation of the conduit. */
void amph_ofi_tick(struct amph_cx *cx, uint64_t now_ns);
/* Has the other kernel answered nothing for the limit, although something was in flight all the time?
 * ti: of a connection that is established. */
struct tcp_info;
bool amph_ofi_is_unanswered(const struct tcp_info *ti, uint64_t limit_ms);

/* rx.c */
enum amph_status amph_ofi_rx_start(struct amph_ofi_cx *cx);
void amph_ofi_rx_cancel(struct amph_ofi_cx *cx); /* cancels the posted buffers */
void amph_ofi_rx_stop(struct amph_ofi_cx *cx);   /* after the endpoint is closed */
void amph_ofi_rx_message(struct amph_ofi_cx *cx, struct amph_ofi_rxbuf *rb,
                         const struct fi_cq_data_entry *e, unsigned lanes);
void amph_ofi_rx_error(struct amph_ofi_cx *cx, struct amph_ofi_rxbuf *rb,
                       const struct fi_cq_err_entry *err);
unsigned amph_ofi_rx_deferred(struct amph_ofi_cx *cx, unsigned budget);
void amph_ofi_rx_repost(struct amph_ofi_cx *cx);
void amph_ofi_rx_kick(struct amph_ofi_cx *cx);

/* quiesce.c: before the endpoint is closed, with its wait object still there. */
void amph_ofi_quiesce(struct amph_ofi_cx *cx);

/* progress.c */
/* Gives a peer that is up the state REFUSED or SILENT, which progress reports.  Either side. */
void amph_ofi_fail_peer(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                        enum amph_ofi_peer_state state);
unsigned amph_ofi_progress(struct amph_cx *cx, unsigned lanes, unsigned budget);
/* Returns true if there are completions to handle. */
bool amph_ofi_fill_batch(struct amph_ofi_cx *cx);

/* wait.c */
/* Returns the first descriptor of this process that test accepts, or -1.  Allocates nothing. */
int amph_ofi_find_fd(bool (*test)(int fd, const void *arg), const void *arg);
enum amph_status amph_ofi_wait_open(struct amph_ofi_cx *cx); /* after the endpoint is enabled */
void amph_ofi_wait_close(struct amph_ofi_cx *cx);
/* Closes the connections to the provider's listening socket that are still open.  For close, after fi_close of
 * the provider's objects: a connection that was accepted, but has not been passed on to the endpoint
 * at that moment, is in none of its lists, and libfabric 1.17 leaves its descriptor open. */
void amph_ofi_close_accepted(struct amph_ofi_cx *cx);
int amph_ofi_wait_fd(struct amph_cx *cx);
enum amph_status amph_ofi_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns);
void amph_ofi_notify(struct amph_ofi_cx *cx);

#endif

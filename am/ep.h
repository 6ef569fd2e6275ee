/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of an active-message endpoint, shared by the files of am/ and by nobody else.  Layer:
 * am.
 *
 * Thread rule.  Without cfg.threaded no lock is touched.  With it: `send_lock` (a mutex, held for
 * one conduit call) guards the conduits' send side; `poll_owner` (tried, never waited for) is the
 * poll lock: its owner makes progress and runs handlers.  Lock order: poll lock, then send lock.
 * Credits are atomic: senders take, the poll lock's owner gives.
 */
#ifndef AMPH_AM_EP_H
#define AMPH_AM_EP_H

#include <pthread.h>

#include "am/am.h"
#include "base/counters.h"

/* EMULATED: put and get over the network's messages, for peers that its own do not reach. */
enum {
    AMPH_CX_SMP = 0,
    AMPH_CX_NET = 1,
    AMPH_CX_EMULATED = 2,
    AMPH_NCX = 3
};

#define AMPH_AM_WINDOW 64u /* unanswered requests to one peer, where the conduit keeps no bounds */
#define AMPH_AM_BUDGET \
    32u /* messages taken in one progress call; bounds the replies that can be put off */
#define AMPH_AM_WATCH_MAX 32u
#define AMPH_AM_PACKED_BYTES (16u << 10) /* longs up to this travel in one message */
#define AMPH_AM_LONG_BYTES (1u << 30)
#define AMPH_AM_INTERNAL_CREDITS 1 /* code of an AMPH_AM_INTERNAL that only brings aux */

typedef enum amph_status (*amph_am_send_fn)(struct amph_cx *, uint32_t, enum amph_lane,
                                            const struct amph_am *, struct amph_op *);

struct amph_peer {
    amph_am_send_fn fast; /* send, where neither locks nor credits are needed; else NULL */
    struct amph_cx *cx;   /* NULL: not added */
    amph_am_send_fn send; /* NULL: not added, or dead */
    bool windowed;        /* the conduit keeps no bounds: credits count */
    bool has_segment;
    bool dead;
    uint32_t credits; /* requests that may still be sent */
    uint32_t owed;    /* requests taken since credits were last given back */
    struct amph_rmem segment;
    /* any memory of this process can be copied by the kernel (vm.c); 0: not */
    int32_t vm_pid;
};

/* What delivery looks at, four handlers in a cache line. */
struct amph_hot {
    void *fn;
    uint32_t counts; /* bit n: n arguments are expected */
    uint16_t accept; /* bit kind + 8 * lane: such messages are expected */
    bool client_form;
};

static inline unsigned amph_accept_bit(unsigned kind, unsigned lane)
{
    return 1u << (kind + 8 * lane);
}

/* A reply (or a message of our own) that found no room. */
struct amph_deferred {
    struct amph_deferred *next;
    uint32_t peer;
    bool put_first; /* a long whose data still has to be put */
    struct amph_am am;
    int32_t args[AMPH_AM_MAX_ARGS];
    struct amph_bounce *payload; /* owned; NULL: none */
};

/* A copy of a payload that frees itself when its operation is done. */
struct amph_bounce {
    struct amph_op op;
    uint8_t bytes[];
};

/* A further set of handlers and a segment, which messages name in their flags. */
struct amph_am_context {
    struct amph_hot hot[256];
    struct amph_am_entry entry[256];
    uint8_t *segment_base;
    uint64_t segment_bytes;
};

struct amph_am_ep {
    /* read by each message */
    struct amph_peer *peer;
    uint32_t max_peers;
    /* windowed, flushes: some conduit counts credits, needs flush */
    bool threaded, windowed, flushes;
    unsigned nactive;
    struct {
        unsigned (*progress)(struct amph_cx *, unsigned, unsigned);
        struct amph_cx *cx;
    } active[AMPH_NCX];     /* conduits that have peers */
    const void *poll_owner; /* NULL: nobody polls */
    struct amph_deferred *deferred, **deferred_end;
    uint8_t *segment_base;
    uint64_t segment_bytes;
    /* [0] is not used: its state stands in this structure */
    struct amph_am_context *context[AMPH_AM_CONTEXTS];
    struct amph_carry *carry; /* carry.c; NULL: not opened */
    unsigned idle_polls;
    pthread_mutex_t send_lock;

    /* waiting */
    uint32_t happened; /* kicks, and (threaded) polls that did something; a futex */
    unsigned sleepers; /* threads that sleep or are about to */
    bool sleeping;     /* one thread sleeps on the descriptors; others on the futex */
    bool armed;        /* conduits ring for messages; poll lock */
    int kick_fd;
    unsigned nwatch;
    int watch[AMPH_AM_WATCH_MAX];
    void (*tick)(struct amph_am_ep *ep);
    void (*refused)(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                    const char *why);
    const struct amph_rmem *(*segment_of)(struct amph_am_ep *ep, uint32_t peer, unsigned context);
    bool in_tick;

    struct amph_am_config cfg;
    struct amph_cx *cx[AMPH_NCX];
    uint8_t addr[AMPH_AM_ADDR_MAX_BYTES];
    size_t addr_len;
    struct amph_hot hot[256];
    struct amph_am_entry entry[256];
};

/* A thread's own mark, for poll_owner. */
static inline const void *amph_am_self_mark(void)
{
    return (const void *)(uintptr_t)pthread_self();
}

static inline void amph_ep_lock(struct amph_am_ep *ep)
{
    if (AMPH_UNLIKELY(ep->threaded))
        pthread_mutex_lock(&ep->send_lock);
}

static inline void amph_ep_unlock(struct amph_am_ep *ep)
{
    if (AMPH_UNLIKELY(ep->threaded))
        pthread_mutex_unlock(&ep->send_lock);
}

/* Is this thread inside a handler or done callback of ep? */
static inline bool amph_ep_in_handler(const struct amph_am_ep *ep)
{
    const void *owner = __atomic_load_n(&ep->poll_owner, __ATOMIC_RELAXED);
    return owner && (!ep->threaded || owner == amph_am_self_mark());
}

/* ---- send.c ---- */

/* Sends one message now: AMPH_AGAIN where there is no room or no credit.  Takes the send lock. */
enum amph_status amph_ep_send(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                              const struct amph_am *am, struct amph_op *lc);

/* The same by another function than the peer's own: the commit of a prepared one. */
enum amph_status amph_ep_send_by(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                                 const struct amph_am *am, amph_am_send_fn fn, struct amph_op *lc);

/* The same for a request, waiting for room by polling. */
enum amph_status amph_ep_send_wait(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                   amph_am_send_fn fn, unsigned flags, struct amph_op *lc);

/* Puts a message of the reply lane off, with a copy of its payload.  Poll lock held. */
enum amph_status amph_ep_defer(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                               bool put_first);

/* Sends what was put off, as far as there is room.  Poll lock held.  Returns how many went out. */
unsigned amph_ep_flush_deferred(struct amph_am_ep *ep);
void amph_ep_drop_deferred(struct amph_am_ep *ep);

/* A copy of len_bytes in a bounce buffer (aborts the process where there is no memory: the caller
 * cannot wait). */
struct amph_bounce *amph_bounce_make(const void *src, size_t len_bytes);

/* Gives credits back by a message of its own where half the window is owed.  Poll lock held. */
void amph_ep_return_credits(struct amph_am_ep *ep, uint32_t peer);

/* ---- longs.c ---- */

enum amph_status amph_ep_long_request(struct amph_am_ep *ep, uint32_t peer,
                                      const struct amph_am *am, unsigned flags, struct amph_op *lc);
enum amph_status amph_ep_long_reply(struct amph_token *token, const struct amph_am *am,
                                    unsigned flags, struct amph_op *lc);
/* One put with the send lock taken; AMPH_AGAIN where there is no room. */
enum amph_status amph_ep_put_now(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                                 uint64_t offset, const void *src, size_t len_bytes,
                                 struct amph_op *lc, struct amph_op *rc);

/* The segment that a long to context `to` of peer writes to; NULL: none is known. */
const struct amph_rmem *amph_ep_segment_of(struct amph_am_ep *ep, uint32_t peer, unsigned to);

/* ---- carry.c ---- */

/* Memory that cannot be mapped: its key, and whether a key is such a one.  dereg: false: not such
 * memory. */
enum amph_status amph_carry_reg(struct amph_am_ep *ep, void *base, size_t len_bytes,
                                struct amph_mem *mem);
bool amph_carry_dereg(struct amph_am_ep *ep, struct amph_mem *mem);
bool amph_carry_is_key(const void *key, size_t key_len);
enum amph_status amph_carry_import(struct amph_am_ep *ep, const void *key, size_t key_len,
                                   struct amph_rmem *rmem);

/* As amph_am_put and _get; AMPH_AGAIN also from handlers where one message does not do. */
enum amph_status amph_carry_put(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                                uint64_t offset, const void *src, size_t len_bytes, unsigned flags,
                                struct amph_op *lc, struct amph_op *rc);
enum amph_status amph_carry_get(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                                uint64_t offset, void *dst, size_t len_bytes, unsigned flags,
                                struct amph_op *done);
/* Puts in the reply lane, ahead of what is sent there later; src is free on return.  From handlers;
 * poll lock held. */
void amph_carry_reply(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                      uint64_t offset, const void *src, size_t len_bytes);
void amph_carry_close(struct amph_am_ep *ep);

/* Is memory of a peer that is not mapped carried by messages? */
static inline bool amph_ep_carries(const struct amph_am_ep *ep, uint32_t peer)
{
    return ep->peer[peer].cx && ep->peer[peer].cx == ep->cx[AMPH_CX_SMP] && ep->carry;
}

/* Has some peer put and get by messages over the network? */
static inline bool amph_ep_emulates(const struct amph_am_ep *ep)
{
    for (unsigned i = 0; i < ep->nactive; i++)
        if (ep->active[i].cx == ep->cx[AMPH_CX_EMULATED])
            return true;

    return false;
}

/* ---- vm.c ---- */

/* A transfer from or to any address of a peer with vm_pid; false: it was not possible, whatever
 * part of it was done. */
bool amph_vm_put(struct amph_am_ep *ep, uint32_t peer, uint64_t addr, const void *src,
                 size_t len_bytes);
bool amph_vm_get(struct amph_am_ep *ep, uint32_t peer, uint64_t addr, void *dst, size_t len_bytes);

/* ---- deliver.c ---- */

extern const struct amph_upcalls amph_am_upcalls;

/* ---- dispatch.c ---- */

typedef void (*amph_call_short_fn)(void *fn, struct amph_token *token, const int32_t *a);
typedef void (*amph_call_data_fn)(void *fn, struct amph_token *token, void *buf, size_t nbytes,
                                  const int32_t *a);
extern const amph_call_short_fn amph_call_short[AMPH_AM_MAX_ARGS + 1] AMPH_HIDDEN;
extern const amph_call_data_fn amph_call_data[AMPH_AM_MAX_ARGS + 1] AMPH_HIDDEN;

/* ---- poll.c ---- */

/* The poll lock: tried, never waited for.  false also from inside a handler. */
static inline bool amph_ep_enter(struct amph_am_ep *ep)
{
    const void *nobody = NULL;

    if (AMPH_UNLIKELY(ep->threaded))
        return __atomic_compare_exchange_n(&ep->poll_owner, &nobody, amph_am_self_mark(), false,
                                           __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);

    if (ep->poll_owner)
        return false;

    ep->poll_owner = ep;
    return true;
}

static inline void amph_ep_leave(struct amph_am_ep *ep)
{
    __atomic_store_n(&ep->poll_owner, NULL, __ATOMIC_RELEASE);
}

/* One round of progress, with nothing around it.  0 also when another thread, or this one from a
 * handler, is polling. */
unsigned amph_ep_poll_once(struct amph_am_ep *ep);
void amph_ep_tick(struct amph_am_ep *ep);

/* ---- waiting.c ---- */

/* One round of waiting for room, which no message announces: polls, then relaxes, yields, naps.
 * rounds starts at 0. */
void amph_ep_room_wait(struct amph_am_ep *ep, unsigned *rounds);
/* Takes the wait mode from the environment unless it was set. */
void amph_ep_wait_setup(void);
/* Wakes threads that wait on what a poll may have done.  threaded only. */
void amph_ep_announce(struct amph_am_ep *ep);

#endif

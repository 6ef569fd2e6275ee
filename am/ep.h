/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The structure of an active-message endpoint, for the files of am/ only.
 * Layer: am; internal.
 *
 * Thread rule.  Without cfg.threaded no lock is used.  With it, `send_lock` (a mutex, held for one
 * conduit call) guards the conduits' send side, and `poll_owner` is the poll lock: it is tried,
 * never waited for, and its owner makes progress and runs handlers.  Lock order: poll lock, then
 * send lock. Credits are atomic: senders decrement them, the owner of the poll lock increments
 * them.
 */
#ifndef AMPH_AM_EP_H
#define AMPH_AM_EP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "am/am.h"
#include "base/settings/counters.h"

/* EMULATED: put and get by network messages, for peers that the network's own put and get do not
 * reach. */
enum {
    AMPH_CX_SMP = 0,
    AMPH_CX_NET = 1,
    AMPH_CX_EMULATED = 2,
    AMPH_NCX = 3
};

/* Unanswered requests to one peer, if the conduit does not bound its lanes: at first, and at most, once the sender
 * has said that it needed more. */
#define AMPH_AM_WINDOW 64u
#define AMPH_AM_WINDOW_MAX 256u
/* In aux, above the credits: a request has waited for a credit since the last message. */
#define AMPH_AM_WANTS_MORE 0x8000u
#define AMPH_AM_BUDGET 32u /* messages handled in one progress call; bounds the deferred replies */
#define AMPH_AM_WATCH_MAX 32u
#define AMPH_AM_PACKED_BYTES (16u << 10) /* longs up to this travel in one message */
#define AMPH_AM_LONG_BYTES (1u << 30)
#define AMPH_EP_NUMBERS 3 /* arguments of questions and answers about lost messages */

/* Codes of an AMPH_AM_INTERNAL. */
enum {
    AMPH_AM_INTERNAL_CREDITS = 1, /* only brings aux */
    AMPH_AM_INTERNAL_ASK,         /* messages sent, received; 0 (lost.c) */
    AMPH_AM_INTERNAL_ANSWER       /* messages sent, received; the first number of the question */
};

typedef enum amph_status (*amph_am_send_fn)(struct amph_cx *, uint32_t, enum amph_lane,
                                            const struct amph_am *, struct amph_op *);

enum amph_late {
    AMPH_LATE_NO,
    AMPH_LATE_SEEN,  /* the last put that was waited for */
    AMPH_LATE_COPIES /* payloads have been copied since */
};

struct amph_peer {
    amph_am_send_fn fast; /* send, if neither locks nor credits are needed; else NULL */
    struct amph_cx *cx;   /* NULL: not added */
    amph_am_send_fn send; /* NULL: not added, or dead */
    bool windowed;        /* the conduit does not bound its lanes: credits are counted */
    bool has_segment;
    bool dead;
    uint8_t late;     /* enum amph_late: whether puts of longs take long (longs.c) */
    bool wants_more;  /* a request has waited for a credit */
    uint16_t window;  /* credits that the peer has been given, used or not */
    uint32_t credits; /* requests that may still be sent */
    uint32_t owed;    /* requests received since credits were last returned */
    /* messages of both lanes, of a windowed peer, without questions and answers (lost.c) */
    uint32_t sent, received;
    struct amph_rmem segment;
    /* process whose memory the kernel can copy (vm.c), or 0 */
    int32_t vm_pid;
};

/* The part of a handler's entry that delivery needs; four fit in a cache line. */
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

/* A deferred reply or internal message, for which there was no room. */
struct amph_deferred {
    struct amph_deferred *next;
    uint32_t peer;
    bool put_first; /* a long whose data has not been put yet */
    struct amph_am am;
    int32_t args[AMPH_AM_MAX_ARGS];
    struct amph_bounce *payload; /* owned; NULL: none */
};

/* A copy of a payload that frees itself when its operation is done. */
struct amph_bounce {
    struct amph_op op;
    uint8_t bytes[];
};

/* A context from 1 on: handlers and a segment, which messages name in their flags. */
struct amph_am_context {
    struct amph_hot hot[256];
    struct amph_am_entry entry[256];
    uint8_t *segment_base;
    uint64_t segment_bytes;
};

/* How polls look at networks where processes outnumber cores (poll.c).  Atomic. */
struct amph_rest {
    uint64_t found_ns; /* the last message */
    uint64_t yield_ns; /* the last yield, or the first look after something was sent */
    uint64_t until_ns; /* not looked at before; 0: the next poll looks */
    unsigned looks;    /* that have found nothing since the later of both */
    unsigned soon;     /* yields left that come soon, because an answer may be awaited */
    bool sent;         /* something, since the last look */
};

struct amph_am_ep {
    /* read by each message */
    struct amph_peer *peer;
    uint32_t max_peers;
    /* windowed, flushes, networked: some active conduit counts credits, needs flush, is a network */
    bool threaded, windowed, flushes, networked;
    unsigned nactive;
    struct {
        unsigned (*progress)(struct amph_cx *, unsigned, unsigned);
        struct amph_cx *cx;
    } active[AMPH_NCX];     /* conduits that have peers */
    const void *poll_owner; /* NULL: no thread polls */
    struct amph_deferred *deferred, **deferred_end;
    uint8_t *segment_base;
    uint64_t segment_bytes;
    /* [0] is not used: context 0 is part of this structure */
    struct amph_am_context *context[AMPH_AM_CONTEXTS];
    struct amph_carry *carry; /* carry.c; NULL: not opened */
    unsigned idle_polls;      /* without a message; where it begins: am/poll.c */
    struct amph_rest rest;
    uint32_t copied_bytes;    /* payloads of longs, copied, whose puts are in flight */
    uint32_t self;            /* the peer that is this endpoint; UINT32_MAX: not added */
    uint32_t peers_end;       /* peers that were ever added have smaller numbers */
    struct amph_audit *audit; /* lost.c; NULL: no conduit counts credits */
    uint64_t look_at_ns;      /* lost.c: when peers are looked at again */
    uint32_t *own_messages;   /* sent to itself and not handled yet */
    uint32_t own_counter;     /* what own_messages is until amph_am_count_own */
    pthread_mutex_t send_lock;

    /* waiting */
    uint32_t happened; /* kicks, and (threaded) polls that did something; a futex */
    unsigned sleepers; /* threads that sleep or are about to */
    bool sleeping;     /* one thread sleeps on the descriptors; others on the futex */
    bool armed;        /* conduits are armed; poll lock */
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

/* The value of poll_owner for the calling thread. */
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

/* Returns true if this thread is inside a handler or done function of ep. */
static inline bool amph_ep_in_handler(const struct amph_am_ep *ep)
{
    const void *owner = __atomic_load_n(&ep->poll_owner, __ATOMIC_RELAXED);
    return owner && (!ep->threaded || owner == amph_am_self_mark());
}

/* A process that has sent something looks at its networks in the next poll: an answer may come, and conduits
 * send there what they have kept back.  Without networks it soon yields a core that it shares. */
static inline void amph_ep_end_rest(struct amph_am_ep *ep)
{
    if (!ep->networked) {
        if (amph_am_oversubscribed())
            __atomic_store_n(&ep->idle_polls, 0, __ATOMIC_RELAXED);

        return;
    }

    __atomic_store_n(&ep->rest.until_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ep->rest.sent, true, __ATOMIC_RELAXED);
}

/* ---- send.c ---- */

/* Sends one message now.  AMPH_AGAIN: there is no room or no credit.  Takes the send lock. */
enum amph_status amph_ep_send(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                              const struct amph_am *am, struct amph_op *lc);

/* The same by another function: the commit of a prepared message. */
enum amph_status amph_ep_send_by(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                                 const struct amph_am *am, amph_am_send_fn fn, struct amph_op *lc);

/* The same for a request, waiting for room by polling. */
enum amph_status amph_ep_send_wait(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                   amph_am_send_fn fn, unsigned flags, struct amph_op *lc);

/* Defers a message of the reply lane, with a copy of its payload.  Poll lock held. */
enum amph_status amph_ep_defer(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                               bool put_first);

/* Sends deferred messages as far as there is room.  Poll lock held.  Returns how many were sent. */
unsigned amph_ep_flush_deferred(struct amph_am_ep *ep);
void amph_ep_drop_deferred(struct amph_am_ep *ep);

/* Copies len_bytes to a new bounce buffer.  Without memory the process ends, because the caller
 * cannot wait. */
struct amph_bounce *amph_am_bounce_make(const void *src, size_t len_bytes);

/* Returns credits by a separate message, when half the window is owed.  Poll lock held. */
void amph_ep_return_credits(struct amph_am_ep *ep, uint32_t peer);

/* ---- longs.c ---- */

enum amph_status amph_ep_long_request(struct amph_am_ep *ep, uint32_t peer,
                                      const struct amph_am *am, unsigned flags, struct amph_op *lc);
enum amph_status amph_ep_long_reply(struct amph_token *token, const struct amph_am *am,
                                    unsigned flags, struct amph_op *lc);
/* Makes one put under the send lock.  AMPH_AGAIN: no room. */
enum amph_status amph_ep_put_now(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                                 uint64_t offset, const void *src, size_t len_bytes,
                                 struct amph_op *lc, struct amph_op *rc);

/* Returns the segment to which a long for context `to` of peer writes; NULL: not known. */
const struct amph_rmem *amph_ep_segment_of(struct amph_am_ep *ep, uint32_t peer, unsigned to);

/* ---- carry.c ---- */

/* Register memory that cannot be mapped, and import its keys. amph_am_carry_dereg returns false
 * for other memory. */
enum amph_status amph_am_carry_reg(struct amph_am_ep *ep, void *base, size_t len_bytes,
                                   struct amph_mem *mem);
bool amph_am_carry_dereg(struct amph_am_ep *ep, struct amph_mem *mem);
bool amph_am_carry_is_key(const void *key, size_t key_len);
enum amph_status amph_am_carry_import(struct amph_am_ep *ep, const void *key, size_t key_len,
                                      struct amph_rmem *rmem);

/* As amph_am_put and amph_am_get.  AMPH_AGAIN also in handlers if one message is not enough. */
enum amph_status amph_am_carry_put(struct amph_am_ep *ep, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, const void *src,
                                   size_t len_bytes, unsigned flags, struct amph_op *lc,
                                   struct amph_op *rc);
enum amph_status amph_am_carry_get(struct amph_am_ep *ep, uint32_t peer,
                                   const struct amph_rmem *rmem, uint64_t offset, void *dst,
                                   size_t len_bytes, unsigned flags, struct amph_op *done);
/* Puts by messages of the reply lane, in order with later ones; src may be reused on return.  From
 * handlers; poll lock held. */
void amph_am_carry_reply(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                         uint64_t offset, const void *src, size_t len_bytes);
void amph_am_carry_close(struct amph_am_ep *ep);

/* Returns true if put and get to unmapped memory of the peer are messages. */
static inline bool amph_ep_carries(const struct amph_am_ep *ep, uint32_t peer)
{
    return ep->peer[peer].cx && ep->peer[peer].cx == ep->cx[AMPH_CX_SMP] && ep->carry;
}

/* Returns true if put and get to some peer are messages over the network. */
static inline bool amph_ep_emulates(const struct amph_am_ep *ep)
{
    for (unsigned i = 0; i < ep->nactive; i++)
        if (ep->active[i].cx == ep->cx[AMPH_CX_EMULATED])
            return true;

    return false;
}

/* ---- lost.c ---- */

/* When the endpoint opens a conduit that counts credits. */
enum amph_status amph_ep_lost_open(struct amph_am_ep *ep);
void amph_ep_lost_close(struct amph_am_ep *ep);
/* The peer's numbers begin again at 0. */
void amph_ep_lost_forget(struct amph_am_ep *ep, uint32_t peer);
/* Asks silent peers for their numbers.  From ticks; tries the poll lock. */
void amph_ep_lost_tick(struct amph_am_ep *ep);
/* Handles a question or an answer; returns false for any other internal message.  Poll lock held. */
bool amph_ep_lost_take(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am);

/* ---- vm.c ---- */

/* A transfer from or to any address of a peer with vm_pid.  Returns false if it failed; a part
 * may have been copied. */
bool amph_am_vm_put(struct amph_am_ep *ep, uint32_t peer, uint64_t addr, const void *src,
                    size_t len_bytes);
bool amph_am_vm_get(struct amph_am_ep *ep, uint32_t peer, uint64_t addr, void *dst,
                    size_t len_bytes);

/* ---- deliver.c ---- */

extern const struct amph_upcalls amph_am_upcalls;

/* ---- dispatch.c ---- */

typedef void (*amph_call_short_fn)(void *fn, struct amph_token *token, const int32_t *a);
typedef void (*amph_call_data_fn)(void *fn, struct amph_token *token, void *buf, size_t nbytes,
                                  const int32_t *a);
extern const amph_call_short_fn amph_am_call_short[AMPH_AM_MAX_ARGS + 1] AMPH_HIDDEN;
extern const amph_call_data_fn amph_am_call_data[AMPH_AM_MAX_ARGS + 1] AMPH_HIDDEN;

/* ---- poll.c ---- */

/* Tries to take the poll lock.  Returns false also inside a handler. */
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

/* One round of progress.  Returns 0 also if another thread is polling, or inside a handler. */
unsigned amph_ep_poll_once(struct amph_am_ep *ep);
void amph_ep_tick(struct amph_am_ep *ep);

/* ---- waiting.c ---- */

/* One round of waiting for room, which no message announces: polls, then spins, yields or sleeps.
 * *rounds starts at 0. */
void amph_ep_room_wait(struct amph_am_ep *ep, unsigned *rounds);
/* Takes the wait mode from the environment unless it was set. */
void amph_ep_wait_setup(void);
/* Wakes waiting threads after a poll that handled something.  threaded only. */
void amph_ep_announce(struct amph_am_ep *ep);

#endif

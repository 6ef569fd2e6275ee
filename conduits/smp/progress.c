/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving over shared memory.  Layer: conduits (smp).  Thread rule: progress side.  An upcall may call progress again for the
 * reply lane (a reply that waits for room), so each message is accounted for before and after its upcall, never across it.
 *
 * Which rings a poll looks at: those whose watch bit is set.  A sender sets its bit when it finds it off; the owner turns it off when
 * many are on and this one has been idle for long.  The race between the two is covered by a look at every peer now and then, and always
 * before sleeping.
 */
#include <string.h>

#include "base/counters.h"
#include "base/log.h"
#include "conduits/smp/smp.h"

#define PER_VISIT 16u        /* messages taken from one ring before the next is looked at */
#define FULL_LOOK_POLLS 512u /* every so many polls all peers are looked at */
#define COOL_POLLS 4096u     /* a watched peer that was idle this long may be dropped */
#define COOL_ABOVE 16u       /* watched peers up to this number are never dropped */

/* Tells the sender how far the ring is free, in one line, seldom. */
static inline void publish(struct smp_in *in, bool idle)
{
    if (in->published == in->consumed || (!idle && in->consumed - in->published < SMP_SLOTS / 4 &&
                                          in->bulk_consumed - in->bulk_published < SMP_BULK_BYTES / 4))
        return;
    in->published = in->consumed;
    in->bulk_published = in->bulk_consumed;
    __atomic_store_n(&in->ring->bulk_consumed, in->bulk_consumed, __ATOMIC_RELEASE);
    __atomic_store_n(&in->ring->consumed, in->consumed, __ATOMIC_RELEASE);
}

/* The peer broke the framing: what follows in its rings has no meaning any more. */
static void fail_peer(struct smp_cx *s, uint32_t peer, const char *why)
{
    amph_count(DROP_MALFORMED);
    s->peer[peer].failed = true;
    s->base.cfg.upcalls->on_peer_error(s->base.cfg.up, peer, AMPH_ERR_PROTO, why);
}

/* Reads a full slot into am, each field once, everything checked; false: it is malformed. */
static inline bool read_slot(struct smp_in *in, const struct smp_slot *slot, struct amph_am *am, uint32_t *bulk_end_p)
{
    am->kind = slot->kind;
    am->handler = slot->handler;
    am->nargs = slot->nargs;
    am->flags = slot->flags;
    am->aux = slot->aux;
    am->nbytes = slot->nbytes;
    am->dest = slot->dest;
    am->args = (const int32_t *)slot->rest;
    am->payload = NULL;
    *bulk_end_p = in->bulk_consumed;
    if (AMPH_UNLIKELY(am->nargs > AMPH_AM_MAX_ARGS || am->kind > AMPH_AM_INTERNAL))
        return false;
    if (am->kind == AMPH_AM_SHORT || am->kind == AMPH_AM_LONG || am->nbytes == 0)
        return true;
    uint32_t at = smp_payload_at(am->nargs);
    if (slot->inlined) {
        am->payload = slot->rest + at;
        return am->nbytes <= SMP_REST_BYTES - at;
    }
    uint32_t bulk = slot->bulk, end = slot->bulk_end, offset = bulk & (SMP_BULK_BYTES - 1);
    uint32_t len = (uint32_t)amph_align_up(am->nbytes, AMPH_CACHE_LINE);
    *bulk_end_p = end;
    am->payload = in->bulk + offset;
    /* In one piece, not behind what is free, not more than the ring ahead. */
    return am->nbytes <= SMP_MAX_MEDIUM && offset % AMPH_CACHE_LINE == 0 && offset + len <= SMP_BULK_BYTES && end - bulk == len &&
           end - in->bulk_consumed <= 2 * SMP_BULK_BYTES;
}

static inline bool slot_full(const struct smp_peer *p, const struct smp_in *in)
{
    const struct smp_slot *slot = &in->ring->slot[in->consumed % SMP_SLOTS];
    return __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE) == smp_word(p->seed_in, in->consumed);
}

static unsigned drain(struct smp_cx *s, uint32_t peer, enum amph_lane lane, unsigned budget)
{
    struct smp_peer *p = &s->peer[peer];
    struct smp_in *in = &p->in[lane];
    unsigned n = 0;
    while (n < budget && slot_full(p, in)) {
        struct amph_am am;
        uint32_t bulk_end;
        if (AMPH_UNLIKELY(!read_slot(in, &in->ring->slot[in->consumed % SMP_SLOTS], &am, &bulk_end))) {
            fail_peer(s, peer, "it wrote a malformed message into shared memory");
            return n;
        }
        s->base.cfg.upcalls->on_am(s->base.cfg.up, peer, lane, &am);
        if (AMPH_UNLIKELY(!p->up)) /* the upcall dropped the peer */
            return n + 1;
        in->consumed++;
        in->bulk_consumed = bulk_end;
        n++;
        publish(in, false);
    }
    if (n < budget)
        publish(in, true);
    return n;
}

static inline unsigned visit(struct smp_cx *s, uint32_t peer, unsigned lanes, unsigned budget)
{
    struct smp_peer *p = &s->peer[peer];
    unsigned n = 0;
    if (AMPH_UNLIKELY(!p->up || p->failed))
        return 0;
    if (budget > PER_VISIT)
        budget = PER_VISIT;
    /* Replies first: they free what requests wait for. */
    if ((lanes & (1u << AMPH_LANE_REPLY)))
        n += drain(s, peer, AMPH_LANE_REPLY, budget);
    if ((lanes & (1u << AMPH_LANE_REQUEST)) && p->up && !p->failed)
        n += drain(s, peer, AMPH_LANE_REQUEST, budget);
    return n;
}

/* After a visit: is the peer worth a look in every poll? */
static inline void judge(struct smp_cx *s, uint32_t peer, unsigned found)
{
    struct smp_peer *p = &s->peer[peer];
    if (found || s->watched_count <= COOL_ABOVE) {
        p->idle_polls = 0;
        return;
    }
    if (++p->idle_polls < COOL_POLLS)
        return;
    p->idle_polls = 0;
    __atomic_fetch_and(&s->region->watched[peer / 64], ~(UINT64_C(1) << (peer % 64)), __ATOMIC_SEQ_CST);
}

static unsigned look_at_all(struct smp_cx *s, unsigned lanes, unsigned budget)
{
    unsigned n = 0;
    for (uint32_t peer = 0; peer < s->npeers && n < budget; peer++)
        n += visit(s, peer, lanes, budget - n);
    return n;
}

unsigned smp_progress(struct amph_cx *cx, unsigned lanes, unsigned budget)
{
    struct smp_cx *s = smp_of(cx);
    unsigned n = 0, watched = 0;
    if (AMPH_UNLIKELY(++s->polls % FULL_LOOK_POLLS == 0))
        return look_at_all(s, lanes, budget);
    uint32_t words = smp_watch_words(s->npeers);
    for (uint32_t w = 0; w < words && n < budget; w++) {
        uint64_t bits = __atomic_load_n(&s->region->watched[w], __ATOMIC_RELAXED);
        while (bits && n < budget) {
            uint32_t peer = 64 * w + (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            if (AMPH_UNLIKELY(peer >= s->npeers)) /* a bit that no peer of ours set */
                break;
            unsigned found = visit(s, peer, lanes, budget - n);
            n += found;
            watched++;
            judge(s, peer, found);
        }
    }
    s->watched_count = watched;
    return n;
}

bool smp_has_work(struct smp_cx *s)
{
    for (uint32_t peer = 0; peer < s->npeers; peer++) {
        const struct smp_peer *p = &s->peer[peer];
        for (unsigned lane = 0; p->up && !p->failed && lane < AMPH_NLANES; lane++)
            if (slot_full(p, &p->in[lane]))
                return true;
    }
    return false;
}

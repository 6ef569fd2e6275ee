/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending over shared memory.
 * Layer: conduits (smp).  Thread rule: send side.
 *
 * A message costs the sender one store to a line that the receiver will fetch, and two loads of
 * lines that stay in its own cache (the receiver's sleep word and watch bit) as long as nothing
 * changes there.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/platform.h"
#include "base/status.h"
#include "conduits/smp/smp.h"

#define BULK_GROUP_BYTES (16u << 10)

/* The position up to which the receiver has released the bulk.  Until it has consumed the first message
 * after bulk_at was moved to the front, it reports the position before the move; the bytes between
 * were free then. */
static uint32_t bulk_consumed(struct amph_smp_out *out, uint32_t seed)
{
    uint32_t n = amph_smp_number(__atomic_load_n(out->bulk_consumed_there, __ATOMIC_ACQUIRE), seed);

    if (n == out->moved_from)
        return out->moved_to;

    out->moved_from = out->moved_to = n;
    return n;
}

/* All bulk is free: the next allocation is at the front. */
static void move_to_front(struct amph_smp_out *out)
{
    uint32_t front = amph_align_up(out->bulk_at, SMP_BULK_BYTES);

    out->moved_from = out->bulk_at;
    out->moved_to = out->bulk_at = out->bulk_consumed = out->bulk_released = front;
}

/* Reclaims bulk of canceled preparations.  It is normally released by the message of a later payload.
 * If there is no room and no such message is in flight, it is reclaimed here: the receiver has
 * released all bulk that messages named, and has consumed every message that used more than it
 * released, so all bulk up to bulk_at is free. */
static void reclaim_canceled(struct amph_smp_out *out, uint32_t seed)
{
    uint32_t consumed = amph_smp_number(__atomic_load_n(out->consumed, __ATOMIC_ACQUIRE), seed);
    if (!out->held && out->bulk_consumed == out->bulk_released &&
        consumed - out->publish_seq <= INT32_MAX)
        out->bulk_at = out->bulk_released;
}

uint32_t amph_smp_bulk_end(struct amph_smp_out *out, uint32_t seed)
{
    uint32_t consumed = amph_smp_consumed(out, seed);

    bulk_consumed(out, seed); /* has the receiver learnt of the last move to the front? */
    if (consumed - out->publish_seq <= INT32_MAX)
        out->bulk_at = out->bulk_released;

    return out->bulk_at == out->moved_to ? out->moved_from : out->bulk_at;
}

/*
 * Allocates nbytes of contiguous bulk.  The receiver's line is read once for each group of pages, or
 * if the known room is used up.  If all bulk is free then, the allocation starts at the front again,
 * so that pairs with little traffic touch few pages.
 */
bool amph_smp_bulk_take(struct amph_smp_out *out, uint32_t seed, uint32_t nbytes, uint32_t *at_p)
{
    uint32_t len = (uint32_t)amph_align_up(nbytes, AMPH_CACHE_LINE);
    uint32_t at = out->bulk_at;
    uint32_t offset = at & (SMP_BULK_BYTES - 1);
    bool within = (offset & (BULK_GROUP_BYTES - 1)) + len <= BULK_GROUP_BYTES &&
                  at + len - out->bulk_consumed <= SMP_BULK_BYTES;

    if (!within || !(offset & (BULK_GROUP_BYTES - 1))) {
        out->bulk_consumed = bulk_consumed(out, seed);
        if (offset && out->bulk_consumed == at) {
            move_to_front(out);
            at = out->bulk_at;
        } else if (offset + len > SMP_BULK_BYTES) {
            at += SMP_BULK_BYTES - offset; /* this message's bulk_end moves the receiver too */
        }

        if (at + len - out->bulk_consumed > SMP_BULK_BYTES) {
            reclaim_canceled(out, seed);
            return false;
        }
    }

    out->batch = NULL; /* its bytes may be taken once it has been consumed */
    out->last_from = out->bulk_at;
    out->last_at = *at_p = at;
    out->bulk_at = at + len;

    return true;
}

/* The receiver sleeps, does not watch this ring, or needs a fence.  Makes the message visible first,
 * then sets the watch bit and wakes the receiver. */
static __attribute__((noinline)) void notify_receiver(struct amph_smp_cx *s,
                                                      struct amph_smp_peer *p)
{
    struct amph_smp_region *to = p->region;

    if (!s->fence.works || __atomic_load_n(&to->full_fence, __ATOMIC_RELAXED))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);

    if (!(__atomic_load_n(p->watched_word, __ATOMIC_RELAXED) & p->watched_bit))
        __atomic_fetch_or(p->watched_word, p->watched_bit, __ATOMIC_SEQ_CST);

    if (__atomic_load_n(&to->sleep, __ATOMIC_RELAXED) != SMP_AWAKE)
        amph_smp_wake(s, p);
}

static inline void after_send(struct amph_smp_cx *s, struct amph_smp_peer *p)
{
    amph_fence_light();

    uint64_t sleep_and_fence = __atomic_load_n((const uint64_t *)(const void *)&p->region->sleep,
                                               __ATOMIC_RELAXED);

    if (AMPH_UNLIKELY(sleep_and_fence || !s->fence.works ||
                      !(__atomic_load_n(p->watched_word, __ATOMIC_RELAXED) & p->watched_bit)))
        notify_receiver(s, p);
}

static inline bool carries_payload(unsigned kind)
{
    return kind == AMPH_AM_MEDIUM || kind == AMPH_AM_LONG_PACKED || kind == AMPH_AM_INTERNAL;
}

/* Copies a payload of one word without a call of memcpy. */
static inline void copy_small(uint8_t *to, const void *from, uint32_t nbytes)
{
    if (nbytes == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, nbytes);
}

static inline void place_in_line(struct amph_smp_slot *slot, const struct amph_am *am)
{
    slot->where = SMP_INLINE;
    if (am->nbytes && carries_payload(am->kind))
        copy_small(slot->rest + amph_smp_payload_at(am->nargs), am->payload, am->nbytes);
}

/* Copies the payload into the slot or the bulk.  Returns false if there is no room. */
static inline bool place_payload(struct amph_smp_out *out, uint32_t seed,
                                 struct amph_smp_slot *slot, const struct amph_am *am)
{
    if (amph_smp_fits_in_line(am)) {
        place_in_line(slot, am);
        return true;
    }

    uint32_t bulk;

    if (!amph_smp_bulk_take(out, seed, am->nbytes, &bulk))
        return false;

    memcpy(out->bulk + (bulk & (SMP_BULK_BYTES - 1)), am->payload, am->nbytes);
    amph_smp_put_bulk(out, slot, bulk);
    return true;
}

/* Writes all but the payload. */
static inline void write_slot(struct amph_smp_slot *slot, const struct amph_am *am)
{
    memcpy(&slot->kind, am, 4); /* kind, handler, nargs, flags */
    slot->aux = am->aux;

    if (am->kind != AMPH_AM_SHORT) {
        slot->nbytes = am->nbytes;
        slot->dest = am->dest;
    }

    for (unsigned i = 0; i < am->nargs; i++)
        memcpy(slot->rest + 4 * i, &am->args[i], 4);
}

void amph_smp_slot_fill(struct amph_smp_slot *slot, const struct amph_am *am)
{
    place_in_line(slot, am);
    write_slot(slot, am);
}

static inline void fill_slot(struct amph_smp_cx *s, struct amph_smp_peer *p,
                             struct amph_smp_out *out, struct amph_smp_slot *slot,
                             const struct amph_am *am)
{
    write_slot(slot, am);
    __atomic_store_n(&slot->word, amph_smp_word(p->seed_out, out->produced), __ATOMIC_RELEASE);
    out->produced++;
    after_send(s, p);
}

void amph_smp_slot_send(struct amph_smp_cx *s, struct amph_smp_peer *p, struct amph_smp_out *out,
                        const struct amph_am *am)
{
    fill_slot(s, p, out, &out->ring->slot[out->produced % SMP_SLOTS], am);
}

static void complete(struct amph_op *lc)
{
    if (lc)
        lc->done(lc, AMPH_OK);
}

/* Sends any kind of message, with all checks. */
static __attribute__((noinline)) enum amph_status send_any(struct amph_cx *cx, uint32_t peer,
                                                           enum amph_lane lane,
                                                           const struct amph_am *am,
                                                           struct amph_op *lc)
{
    struct amph_smp_cx *s = amph_smp_of(cx);

    if (AMPH_UNLIKELY(peer >= cx->cfg.max_peers || !s->peer[peer].up))
        return AMPH_ERR_RANGE;
    if (AMPH_UNLIKELY(am->nargs > AMPH_AM_MAX_ARGS ||
                      (carries_payload(am->kind) && am->nbytes > SMP_MAX_MEDIUM)))
        return AMPH_ERR_ARG;

    struct amph_smp_peer *p = &s->peer[peer];
    struct amph_smp_out *out = &p->out[lane];

    if (AMPH_UNLIKELY(!amph_smp_have_slot(out, p->seed_out))) {
        if (!amph_smp_batch_add(s, p, out, am))
            return AMPH_AGAIN;

        complete(lc);
        return AMPH_OK;
    }

    struct amph_smp_slot *slot = &out->ring->slot[out->produced % SMP_SLOTS];
    if (am->kind != AMPH_AM_SHORT && AMPH_UNLIKELY(!place_payload(out, p->seed_out, slot, am)))
        return AMPH_AGAIN;

    fill_slot(s, p, out, slot, am);
    complete(lc);

    return AMPH_OK;
}

enum amph_status amph_smp_am_send(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am, struct amph_op *lc)
{
    struct amph_smp_cx *s = amph_smp_of(cx);
    struct amph_smp_peer *p = &s->peer[peer];

    if (AMPH_UNLIKELY(peer >= cx->cfg.max_peers || !p->up || am->kind != AMPH_AM_SHORT ||
                      am->nargs > AMPH_AM_MAX_ARGS || lc))
        return send_any(cx, peer, lane, am, lc);

    struct amph_smp_out *out = &p->out[lane];
    if (AMPH_UNLIKELY(out->produced == out->limit))
        return send_any(cx, peer, lane, am, lc);

    fill_slot(s, p, out, &out->ring->slot[out->produced % SMP_SLOTS], am);
    return AMPH_OK;
}

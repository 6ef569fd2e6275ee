/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive side of a peer: its sessions, and reading payloads of slots.
 * Layer: conduits (smp).  Thread rule: progress side; amph_smp_request_update is for the send side.
 *
 * A session is one sender instance under one cookie.  A new session starts at slot 0 of the rings of
 * its peer number, possibly before the owner has added the peer.  Its seed distinguishes its words
 * from stale ones.  An instance that is removed and added again continues where it stopped; each side
 * keeps its own position, so either may remove the other without informing it.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/platform.h"
#include "conduits/smp/smp.h"

void amph_smp_request_update(struct amph_smp_cx *s, uint32_t peer, bool up, uint32_t seed)
{
    pthread_mutex_lock(&s->update_lock);

    struct amph_smp_request_update *update = &s->update[peer];

    update->forget |= !up;
    update->up = up;
    update->seed = seed;

    if (!update->listed) {
        update->listed = true;
        update->next = s->first_update;
        __atomic_store_n(&s->first_update, peer, __ATOMIC_RELAXED);
    }

    pthread_mutex_unlock(&s->update_lock);

    /* One thread, outside of progress: applied at once, so that it is in force on return. */
    if (!s->base.cfg.threaded && !s->in_progress)
        amph_smp_apply_updates(s);
}

void amph_smp_publish(const struct amph_smp_source *src, struct amph_smp_in *in)
{
    in->published = in->consumed;
    in->bulk_published = in->bulk_consumed;
    /* The sender reads the two words on their own, so each is ordered behind the reads of what it releases. */
    __atomic_store_n(in->bulk_consumed_word, amph_smp_mark(src->seed, in->bulk_consumed),
                     __ATOMIC_RELEASE);
    __atomic_store_n(in->consumed_word, amph_smp_mark(src->seed, in->consumed), __ATOMIC_RELEASE);
}

bool amph_smp_read_payload(struct amph_smp_in *in, const struct amph_smp_slot *slot,
                           struct amph_am *am, uint32_t *bulk_end_p)
{
    const volatile struct amph_smp_slot *from = slot;
    uint16_t where = from->where;

    if (where == SMP_INLINE) {
        uint32_t at = amph_smp_payload_at(am->nargs);

        am->payload = slot->rest + at;
        return am->nbytes <= SMP_REST_BYTES - at;
    }

    uint32_t bulk = from->bulk;
    uint32_t end = from->bulk_end;
    uint32_t offset = bulk & (SMP_BULK_BYTES - 1);
    uint32_t len = (uint32_t)amph_align_up(am->nbytes, AMPH_CACHE_LINE);

    am->payload = in->bulk + offset;

    /* Contiguous, and at most one lap ahead.  The end is not that of this payload if an earlier
     * payload is still prepared. */
    if (am->nbytes > SMP_MAX_MEDIUM || offset % AMPH_CACHE_LINE != 0 ||
        offset + len > SMP_BULK_BYTES || end % AMPH_CACHE_LINE != 0 ||
        end - in->bulk_consumed > 2 * SMP_BULK_BYTES)
        return false;

    in->publish_now = where == SMP_IN_BULK_PUBLISH;
    *bulk_end_p = end;
    return true;
}

/* Discards messages that were not delivered; at most one lap, in case the sender is still writing. */
static void forget(struct amph_smp_source *src)
{
    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        struct amph_smp_in *in = &src->in[lane];

        for (unsigned n = 0; n < SMP_SLOTS && amph_smp_slot_full(in); n++) {
            const struct amph_smp_slot *slot = &in->ring->slot[in->consumed % SMP_SLOTS];
            struct amph_am am;
            uint32_t bulk_end;

            if (!amph_smp_read_slot(in, slot, &am, &bulk_end) && am.kind == SMP_KIND_BATCH)
                amph_smp_batch_take(in, slot, &bulk_end);

            in->batch_count = 0;
            amph_smp_advance(src, in, bulk_end);
        }

        amph_smp_publish(src, in);
    }

    src->up = false;
}

static void clear_word(uint32_t *word, uint32_t seen)
{
    __atomic_compare_exchange_n(word, &seen, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void clear_mark(uint64_t *mark, uint32_t seed)
{
    uint64_t seen = __atomic_load_n(mark, __ATOMIC_RELAXED);
    if (seen >> 32 != seed)
        __atomic_compare_exchange_n(mark, &seen, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Clears stale words of earlier sessions.  Keeps what the new session may have written already: that
 * is in its first lap, since it cannot pass it before its messages are consumed. */
static void clear_rest(struct amph_smp_ring *ring, struct amph_smp_positions *at, unsigned lane,
                       uint32_t seed)
{
    for (uint32_t i = 0; i < SMP_SLOTS; i++) {
        uint32_t word = __atomic_load_n(&ring->slot[i].word, __ATOMIC_RELAXED);
        if (word != 0 && word != amph_smp_word(seed, i))
            clear_word(&ring->slot[i].word, word);
    }

    clear_mark(&at->out[lane].produced, seed);
    clear_mark(&at->out[lane].bulk_at, seed);
}

static void begin(struct amph_smp_cx *s, uint32_t peer, uint32_t seed)
{
    struct amph_smp_source *src = &s->source[peer];
    struct amph_smp_pair *here = amph_smp_pair_of(s->region, s->base.cfg.max_peers, peer);
    struct amph_smp_positions *at = amph_smp_positions_of(s->region, s->base.cfg.max_peers, peer);
    bool first = !src->known;

    src->up = src->known = true;
    if (peer >= s->nsources)
        s->nsources = peer + 1;

    if (!first && src->seed == seed)
        return; /* the same instance again: continue */

    src->seed = seed;
    for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
        src->in[lane] = (struct amph_smp_in){
            .ring = &here->ring[lane],
            .bulk = here->bulk[lane],
            .consumed_word = &at->in[lane].consumed,
            .bulk_consumed_word = &at->in[lane].bulk_consumed,
            .expect = amph_smp_word(seed, 0),
            .next = &here->ring[lane].slot[0].word,
        };
        if (!first)
            clear_rest(&here->ring[lane], at, lane, seed);
    }
}

void amph_smp_apply_updates(struct amph_smp_cx *s)
{
    pthread_mutex_lock(&s->update_lock);
    while (s->first_update != UINT32_MAX) {
        uint32_t peer = s->first_update;
        struct amph_smp_request_update update = s->update[peer];

        s->update[peer].listed = s->update[peer].forget = false;
        __atomic_store_n(&s->first_update, update.next, __ATOMIC_RELAXED);
        if (update.forget && s->source[peer].up)
            forget(&s->source[peer]);

        if (update.up)
            begin(s, peer, update.seed);
    }

    pthread_mutex_unlock(&s->update_lock);
}

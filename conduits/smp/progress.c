/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving over shared memory.
 * Layer: conduits (smp).  Thread rule: progress side.
 *
 * A poll checks the rings whose watch bit is set.  A sender sets its bit if it is clear; the owner
 * clears it if many are set and this source has been idle for long.  A sender may miss that the bit
 * was cleared, so every source is polled from time to time, and always before sleeping.
 *
 * A malformed message is dropped and counted.  It cannot break the framing, because all slots have
 * one size; its writer can only harm its own messages.
 */
#include <string.h>

#include "base/platform.h"
#include "base/settings/counters.h"
#include "conduits/smp/smp.h"

#define SOURCE_BUDGET 32u    /* messages handled from one source before the next is polled */
#define FULL_SCAN_POLLS 512u /* interval, in polls, at which all sources are polled */
#define UNWATCH_POLLS 4096u  /* idle polls after which a source may become unwatched */
#define RETRY_LOOKS 4u
#define WATCHED_SCAN_POLLS \
    16u /* interval, in polls, at which all watched sources are polled even if one is busy */
#define UNWATCH_ABOVE 16u /* up to this number of watched sources, all stay watched */

/* After a message: publishes the consumed position lazily, at the latest every SMP_SLOTS / 4 messages,
 * so that the sender never stalls on slots that are already free. */
static inline void publish(const struct amph_smp_source *src, struct amph_smp_in *in,
                           uint32_t bulk_before)
{
    bool due = in->consumed - in->published >= SMP_SLOTS / 4;

    if (AMPH_UNLIKELY(in->bulk_consumed != bulk_before || in->publish_now)) {
        due |= in->publish_now || in->bulk_consumed - in->bulk_published >= SMP_BULK_BYTES / 4;
        in->publish_now = false;
    }

    if (AMPH_UNLIKELY(due))
        amph_smp_publish(src, in);
}

/* Copies the arguments, because their writer may still change them.  The first cache line holds eight. */
static inline void take_args(const struct amph_smp_slot *slot, struct amph_am *am, int32_t *args)
{
    am->args = args;
    if (am->nargs == 0)
        return;

    memcpy(args, slot->rest, 32);
    if (AMPH_UNLIKELY(am->nargs > 8))
        memcpy(args + 8, slot->rest + 32, 32);
}

/* Handles the message of a slot.  Returns false if it is malformed or a batch. */
static inline bool deliver(struct amph_smp_cx *s, uint32_t peer, enum amph_lane lane,
                           const struct amph_smp_slot *slot, struct amph_am *am,
                           uint32_t *bulk_end_p)
{
    const struct amph_cx_config *cfg = &s->base.cfg;
    int32_t args[AMPH_AM_MAX_ARGS];

    if (AMPH_UNLIKELY(!amph_smp_read_slot(&s->source[peer].in[lane], slot, am, bulk_end_p)))
        return false;

    take_args(slot, am, args);
    cfg->upcalls->on_am(cfg->up, peer, lane, am);
    return true;
}

/* Handles messages of a batch, and returns their number.  Some are left (batch_next < batch_count) if the
 * budget is used up, or a source is to be removed, perhaps this one. */
static __attribute__((noinline)) unsigned drain_batch(struct amph_smp_cx *s, uint32_t peer,
                                                      enum amph_lane lane,
                                                      const struct amph_smp_slot *slot,
                                                      unsigned budget, uint32_t *bulk_end_p)
{
    struct amph_smp_in *in = &s->source[peer].in[lane];
    const struct amph_smp_batch *batch = amph_smp_batch_take(in, slot, bulk_end_p);
    unsigned n = 0;

    if (!batch) {
        in->batch_next = in->batch_count = 0;
        amph_count(DROP_MALFORMED);
        return 1;
    }

    while (in->batch_next < in->batch_count && n < budget && !(n && amph_smp_has_updates(s))) {
        struct amph_am am;
        uint32_t ignored;

        if (!deliver(s, peer, lane, &batch->message[in->batch_next], &am, &ignored))
            amph_count(DROP_MALFORMED);

        in->batch_next++;
        n++;
    }

    if (in->batch_next == in->batch_count)
        in->batch_next = in->batch_count = 0;

    in->publish_now = true;
    return n;
}

/* Handles messages of a lane that has at least one. */
static unsigned drain(struct amph_smp_cx *s, uint32_t peer, enum amph_lane lane, unsigned budget)
{
    struct amph_smp_source *src = &s->source[peer];
    struct amph_smp_in *in = &src->in[lane];
    unsigned n = 0;

    do {
        const struct amph_smp_slot *slot = (const struct amph_smp_slot *)(const void *)in->next;
        struct amph_am am;
        uint32_t bulk_end;
        uint32_t bulk_before = in->bulk_consumed;

        if (AMPH_LIKELY(deliver(s, peer, lane, slot, &am, &bulk_end))) {
            n++;
        } else if (am.kind == SMP_KIND_BATCH) {
            n += drain_batch(s, peer, lane, slot, budget - n, &bulk_end);
            if (in->batch_next < in->batch_count)
                return n;
        } else {
            amph_count(DROP_MALFORMED);
            n++;
        }

        amph_smp_advance(src, in, bulk_end);
        publish(src, in, bulk_before);
        if (AMPH_UNLIKELY(amph_smp_has_updates(s))) /* perhaps the removal of this peer */
            return n;
    } while (n < budget && amph_smp_slot_full(in));

    /* The bulk position is published when the lane becomes idle, so that the sender starts again at
     * the front of the bulk. */
    if (AMPH_UNLIKELY(in->bulk_consumed != in->bulk_published) && !amph_smp_slot_full(in))
        amph_smp_publish(src, in);

    return n;
}

static inline unsigned poll_source(struct amph_smp_cx *s, uint32_t peer, unsigned lanes,
                                   unsigned budget)
{
    struct amph_smp_source *src = &s->source[peer];
    unsigned n = 0;

    if (AMPH_UNLIKELY(!src->up))
        return 0;

    src->touched = true;
    if (budget > SOURCE_BUDGET)
        budget = SOURCE_BUDGET;

    /* Replies first: requests wait for them. */
    if (lanes & (1u << AMPH_LANE_REPLY) && amph_smp_slot_full(&src->in[AMPH_LANE_REPLY]))
        n = drain(s, peer, AMPH_LANE_REPLY, budget);

    if (lanes & (1u << AMPH_LANE_REQUEST) && amph_smp_slot_full(&src->in[AMPH_LANE_REQUEST]) &&
        n < budget && !amph_smp_has_updates(s))
        n += drain(s, peer, AMPH_LANE_REQUEST, budget - n);

    return n;
}

/* After a poll of a source: decides if it stays watched. */
static inline void update_watch(struct amph_smp_cx *s, uint32_t peer, unsigned found)
{
    struct amph_smp_source *src = &s->source[peer];

    if (AMPH_LIKELY(found || s->watched_count <= UNWATCH_ABOVE)) {
        src->idle_polls = 0;
        if (found) {
            s->others_active |= s->last_active != peer;
            s->last_active = peer;
        }
    } else if (++src->idle_polls >= UNWATCH_POLLS) {
        src->idle_polls = 0;
        __atomic_fetch_and(&s->region->watched[peer / 64], ~(UINT64_C(1) << (peer % 64)),
                           __ATOMIC_SEQ_CST);
    }
}

/* Counts a word that is neither empty nor of this session: it comes from a sender with another cookie
 * or is garbage. */
static void count_stale_words(const struct amph_smp_source *src, struct amph_smp_in *in)
{
    uint32_t word = __atomic_load_n(&in->ring->slot[in->consumed % SMP_SLOTS].word,
                                    __ATOMIC_RELAXED);
    uint32_t before = in->consumed >= SMP_SLOTS ? amph_smp_word(src->seed, in->consumed - SMP_SLOTS)
                                                : 0;

    if (word == 0 || word == in->expect || word == before || word == in->counted_word)
        return;

    in->counted_word = word;
    amph_count(DROP_COOKIE);
}

/* Polls all sources that have been polled before.  The others are watched as soon as they send, and
 * polling them would allocate their pages. */
static unsigned poll_all(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    unsigned n = 0;

    for (uint32_t peer = 0; peer < s->nsources && n < budget && !amph_smp_has_updates(s); peer++) {
        struct amph_smp_source *src = &s->source[peer];

        if (!src->up || !src->touched)
            continue;

        n += poll_source(s, peer, lanes, budget - n);
        for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
            count_stale_words(src, &src->in[lane]);
    }

    return n;
}

/* Polls the watched sources in [from, to).  If the budget is used up, the next poll continues there. */
static inline unsigned poll_watched(struct amph_smp_cx *s, uint32_t from, uint32_t to,
                                    unsigned lanes, unsigned budget, unsigned *watched_p)
{
    unsigned n = 0;

    for (uint32_t first = from & ~63u; first < to; first += 64) {
        uint64_t bits = __atomic_load_n(&s->region->watched[first / 64], __ATOMIC_RELAXED);

        if (first < from)
            bits &= ~UINT64_C(0) << (from - first);

        if (to - first < 64)
            bits &= (UINT64_C(1) << (to - first)) - 1;

        for (; bits; bits &= bits - 1) {
            uint32_t peer = first + (uint32_t)__builtin_ctzll(bits);
            unsigned found = poll_source(s, peer, lanes, budget - n);

            n += found;
            ++*watched_p;
            update_watch(s, peer, found);

            if (AMPH_UNLIKELY(n >= budget || amph_smp_has_updates(s))) {
                s->next_visit = peer + 1;
                return n;
            }
        }
    }

    return n;
}

/* Nothing was found: polls the last active source a few more times, which costs less than another
 * call. */
static inline unsigned poll_last_again(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    if (s->last_active >= s->nsources)
        return 0;

    struct amph_smp_source *src = &s->source[s->last_active];

    for (unsigned i = 0; src->up && i < RETRY_LOOKS; i++)
        for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
            if (lanes & (1u << lane) && amph_smp_slot_full(&src->in[lane]))
                return poll_source(s, s->last_active, lanes, budget);

    return 0;
}

/* Polls the last active source if it has a message and no other source was active recently.  A
 * source that sends much gets no further turn here: its messages may be costly, and the others
 * would wait for WATCHED_SCAN_POLLS times as long. */
static inline unsigned poll_last_active(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    if (s->last_active >= s->nsources || s->others_active || s->next_visit)
        return 0;

    unsigned n = poll_source(s, s->last_active, lanes, budget);

    s->others_active = n > 1; /* the next poll checks all sources */
    return n;
}

static inline unsigned poll_sources(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    unsigned n = 0;
    unsigned watched = 0;
    uint32_t start = s->next_visit;

    s->next_visit = 0;
    if (AMPH_UNLIKELY(s->polls % FULL_SCAN_POLLS == 0)) {
        n = poll_all(s, lanes, budget);
        amph_smp_relax_fence(s);
    } else if (AMPH_LIKELY(start == 0)) {
        s->others_active = false;
        n = poll_watched(s, 0, s->nsources, lanes, budget, &watched);
        s->watched_count = watched;
        if (n == 0)
            n = poll_last_again(s, lanes, budget);
    } else {
        /* Starts at the source where the last poll's budget ended; then polls the others. */
        n = poll_watched(s, start, s->nsources, lanes, budget, &watched);
        if (n < budget && !amph_smp_has_updates(s))
            n += poll_watched(s, 0, start, lanes, budget - n, &watched);
    }

    return n;
}

unsigned amph_smp_progress(struct amph_cx *cx, unsigned lanes, unsigned budget)
{
    struct amph_smp_cx *s = amph_smp_of(cx);
    unsigned n = 0;

    if (AMPH_UNLIKELY(amph_smp_has_updates(s)))
        amph_smp_apply_updates(s);

    s->in_progress = true;
    if (AMPH_LIKELY(++s->polls % WATCHED_SCAN_POLLS))
        n = poll_last_active(s, lanes, budget);

    if (n == 0)
        n = poll_sources(s, lanes, budget);

    s->in_progress = false;
    if (AMPH_UNLIKELY(amph_smp_has_updates(s)))
        amph_smp_apply_updates(s);

    return n;
}

bool amph_smp_has_work(struct amph_smp_cx *s)
{
    for (uint32_t peer = 0; peer < s->nsources; peer++) {
        const struct amph_smp_source *src = &s->source[peer];
        uint64_t *word = &s->region->watched[peer / 64];
        uint64_t bit = UINT64_C(1) << (peer % 64);
        bool on = __atomic_load_n(word, __ATOMIC_RELAXED) & bit;

        if (!src->up || !(src->touched || on))
            continue;

        for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
            if (amph_smp_slot_full(&src->in[lane])) {
                if (!on)
                    __atomic_fetch_or(word, bit, __ATOMIC_RELAXED); /* the next poll must find it */

                return true;
            }
    }

    return false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving over shared memory.  Layer: conduits (smp).  Thread rule: progress side.
 *
 * Which rings a poll looks at: those whose watch bit is set.  A sender sets its bit when it finds
 * it off; the owner turns it off when many are on and this one has been idle for long.  The race
 * between the two is covered by a look at every source now and then, and always before sleeping.
 *
 * A malformed message is dropped and counted.  It cannot break the framing, for slots have one
 * size; its writer can only harm its own messages.
 */
#include <string.h>

#include "base/counters.h"
#include "conduits/smp/smp.h"

#define PER_VISIT 16u        /* messages taken from one source before the next is looked at */
#define FULL_LOOK_POLLS 512u /* every so many polls all sources are looked at */
#define COOL_POLLS 4096u     /* a watched source that was idle this long may be dropped */
#define LINGER_LOOKS 4u
#define ALL_POLLS \
    16u /* at least every so many polls all watched sources are looked at, whoever speaks */
#define COOL_ABOVE 16u /* watched sources up to this number are never dropped */

/* After a message: tells the sender how far the ring is free, in one line, seldom: never are so
 * many slots untold that the sender has none. */
static inline void publish(const struct amph_smp_source *src, struct amph_smp_in *in,
                           uint32_t bulk_before)
{
    bool due = in->consumed - in->published >= SMP_SLOTS / 4;

    if (AMPH_UNLIKELY(in->bulk_consumed != bulk_before || in->tell)) {
        due |= in->tell || in->bulk_consumed - in->bulk_published >= SMP_BULK_BYTES / 4;
        in->tell = false;
    }

    if (AMPH_UNLIKELY(due))
        amph_smp_publish(src, in);
}

/* The arguments are copied, eight of them from the first line, for their writer may still change
 * them. */
static inline void take_args(const struct amph_smp_slot *slot, struct amph_am *am, int32_t *args)
{
    am->args = args;
    if (am->nargs == 0)
        return;

    memcpy(args, slot->rest, 32);
    if (AMPH_UNLIKELY(am->nargs > 8))
        memcpy(args + 8, slot->rest + 32, 32);
}

/* Takes messages of a lane that has one. */
static unsigned drain(struct amph_smp_cx *s, uint32_t peer, enum amph_lane lane, unsigned budget)
{
    struct amph_smp_source *src = &s->source[peer];
    struct amph_smp_in *in = &src->in[lane];
    const struct amph_cx_config *cfg = &s->base.cfg;
    unsigned n = 0;

    do {
        struct amph_am am;
        int32_t args[AMPH_AM_MAX_ARGS];
        uint32_t bulk_end;
        uint32_t bulk_before = in->bulk_consumed;
        const struct amph_smp_slot *slot = (const struct amph_smp_slot *)(const void *)in->next;

        if (AMPH_LIKELY(amph_smp_read_slot(in, slot, &am, &bulk_end))) {
            take_args(slot, &am, args);
            cfg->upcalls->on_am(cfg->up, peer, lane, &am);
        } else {
            amph_count(DROP_MALFORMED);
        }

        amph_smp_advance(src, in, bulk_end);
        n++;
        publish(src, in, bulk_before);
        if (AMPH_UNLIKELY(amph_smp_has_pending(s))) /* maybe to forget this very peer */
            return n;
    } while (n < budget && amph_smp_slot_full(in));

    /* Bulk is told when it falls quiet, so that the sender starts again at its front. */
    if (AMPH_UNLIKELY(in->bulk_consumed != in->bulk_published) && !amph_smp_slot_full(in))
        amph_smp_publish(src, in);

    return n;
}

static inline unsigned visit(struct amph_smp_cx *s, uint32_t peer, unsigned lanes, unsigned budget)
{
    struct amph_smp_source *src = &s->source[peer];
    unsigned n = 0;

    if (AMPH_UNLIKELY(!src->up))
        return 0;

    src->warm = true;
    if (budget > PER_VISIT)
        budget = PER_VISIT;

    /* Replies first: they free what requests wait for. */
    if (lanes & (1u << AMPH_LANE_REPLY) && amph_smp_slot_full(&src->in[AMPH_LANE_REPLY]))
        n = drain(s, peer, AMPH_LANE_REPLY, budget);

    if (lanes & (1u << AMPH_LANE_REQUEST) && amph_smp_slot_full(&src->in[AMPH_LANE_REQUEST]) &&
        n < budget && !amph_smp_has_pending(s))
        n += drain(s, peer, AMPH_LANE_REQUEST, budget - n);

    return n;
}

/* After a visit: is the source worth a look in every poll? */
static inline void judge(struct amph_smp_cx *s, uint32_t peer, unsigned found)
{
    struct amph_smp_source *src = &s->source[peer];

    if (AMPH_LIKELY(found || s->watched_count <= COOL_ABOVE)) {
        src->idle_polls = 0;
        if (found) {
            s->others_speak |= s->last_found != peer;
            s->last_found = peer;
        }
    } else if (++src->idle_polls >= COOL_POLLS) {
        src->idle_polls = 0;
        __atomic_fetch_and(&s->region->watched[peer / 64], ~(UINT64_C(1) << (peer % 64)),
                           __ATOMIC_SEQ_CST);
    }
}

/* Counts a word that neither this session nor emptiness explains: a sender with another cookie, or
 * garbage. */
static void count_strangers(const struct amph_smp_source *src, struct amph_smp_in *in)
{
    uint32_t word = __atomic_load_n(&in->ring->slot[in->consumed % SMP_SLOTS].word,
                                    __ATOMIC_RELAXED);
    uint32_t before = in->consumed >= SMP_SLOTS ? amph_smp_word(src->seed, in->consumed - SMP_SLOTS)
                                                : 0;

    if (word == 0 || word == in->expect || word == before || word == in->stray)
        return;

    in->stray = word;
    amph_count(DROP_COOKIE);
}

/* Sources that were never looked at have their bits as the sender left them, and their pages are
 * not there yet. */
static unsigned look_at_all(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    unsigned n = 0;

    for (uint32_t peer = 0; peer < s->nsources && n < budget && !amph_smp_has_pending(s); peer++) {
        struct amph_smp_source *src = &s->source[peer];

        if (!src->up || !src->warm)
            continue;

        n += visit(s, peer, lanes, budget - n);
        for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
            count_strangers(src, &src->in[lane]);
    }

    return n;
}

/* Visits the watched sources among [from, to); tells where it stopped if the budget was used up. */
static inline unsigned look_at_watched(struct amph_smp_cx *s, uint32_t from, uint32_t to,
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
            unsigned found = visit(s, peer, lanes, budget - n);

            n += found;
            ++*watched_p;
            judge(s, peer, found);

            if (AMPH_UNLIKELY(n >= budget || amph_smp_has_pending(s))) {
                s->next_visit = peer + 1;
                return n;
            }
        }
    }

    return n;
}

/* Nothing was there: looks a little longer at the source that spoke last, since that costs less
 * than coming back. */
static inline unsigned linger(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    if (s->last_found >= s->nsources)
        return 0;

    struct amph_smp_source *src = &s->source[s->last_found];

    for (unsigned i = 0; src->up && i < LINGER_LOOKS; i++)
        for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
            if (lanes & (1u << lane) && amph_smp_slot_full(&src->in[lane]))
                return visit(s, s->last_found, lanes, budget);

    return 0;
}

/* The source that spoke last, if it has something and nobody else was heard lately.  One that has
 * much to say has had its turn: what it sends may be costly, and others would wait for ALL_POLLS
 * times as much. */
static inline unsigned same_again(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    if (s->last_found >= s->nsources || s->others_speak || s->next_visit)
        return 0;

    unsigned n = visit(s, s->last_found, lanes, budget);

    s->others_speak = n > 1; /* the next poll looks at all */
    return n;
}

static inline unsigned look(struct amph_smp_cx *s, unsigned lanes, unsigned budget)
{
    unsigned n = 0;
    unsigned watched = 0;
    uint32_t start = s->next_visit;

    s->next_visit = 0;
    if (AMPH_UNLIKELY(s->polls % FULL_LOOK_POLLS == 0)) {
        n = look_at_all(s, lanes, budget);
        amph_smp_relax_fence(s);
    } else if (AMPH_LIKELY(start == 0)) {
        s->others_speak = false;
        n = look_at_watched(s, 0, s->nsources, lanes, budget, &watched);
        s->watched_count = watched;
        if (n == 0)
            n = linger(s, lanes, budget);
    } else {
        /* Where the last poll's budget ended, then the others. */
        n = look_at_watched(s, start, s->nsources, lanes, budget, &watched);
        if (n < budget && !amph_smp_has_pending(s))
            n += look_at_watched(s, 0, start, lanes, budget - n, &watched);
    }

    return n;
}

unsigned amph_smp_progress(struct amph_cx *cx, unsigned lanes, unsigned budget)
{
    struct amph_smp_cx *s = amph_smp_of(cx);
    unsigned n = 0;

    if (AMPH_UNLIKELY(amph_smp_has_pending(s)))
        amph_smp_publish_pending(s);

    s->in_progress = true;
    if (AMPH_LIKELY(++s->polls % ALL_POLLS))
        n = same_again(s, lanes, budget);

    if (n == 0)
        n = look(s, lanes, budget);

    s->in_progress = false;
    if (AMPH_UNLIKELY(amph_smp_has_pending(s)))
        amph_smp_publish_pending(s);

    return n;
}

bool amph_smp_has_work(struct amph_smp_cx *s)
{
    for (uint32_t peer = 0; peer < s->nsources; peer++) {
        const struct amph_smp_source *src = &s->source[peer];
        uint64_t *word = &s->region->watched[peer / 64];
        uint64_t bit = UINT64_C(1) << (peer % 64);
        bool on = __atomic_load_n(word, __ATOMIC_RELAXED) & bit;

        if (!src->up || !(src->warm || on))
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

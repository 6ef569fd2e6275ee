/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Size and number of the pieces of large calls set themselves.  Which is best depends on where the
 * two processes run (whether their cores share a cache), on the network's round trip and bandwidth,
 * and on the file system, and it changes when one of them moves.  None of that can be asked for;
 * all of it shows in the rate of a whole call.  So one way is in use, and now and then a call takes
 * another, its rival.
 *
 * What other work does to a call is often more than what the way does, and lasts: so a rival is
 * held against the very call before it, and one that wins goes on taking every other call until its
 * wins lead by enough or are used up.  Layer: iofwd.
 */
#include "iofwd/client/tuning.h"

#include "base/clock.h"
#include "base/platform.h"

#define KIB ((size_t)1 << 10)
#define TRY_EVERY 16u  /* calls, once each way has been tried */
#define TRY_SLOWER 3u  /* doublings of that while every rival loses */
#define LEAD_FIRST 2u  /* after the first win; each further one adds 1, each defeat takes 1 */
#define LEAD_NEEDED 6u /* to take the place of the way in use */

/* To a server of the same host: the best guess first. */
static const struct amph_client_route near_ways[] = {
    { 128 * KIB, 4, false }, { 128 * KIB, 8, true }, { 64 * KIB, 4, false },
    { 256 * KIB, 4, false }, { 256 * KIB, 4, true }, { 64 * KIB, 8, true },
};

/* Over a network: what is under way together (piece * depth) covers round trip times bandwidth, or
 * it does not; more than that only fills caches and socket buffers. */
static const struct amph_client_route far_ways[] = {
    { 128 * KIB, 4, false }, { 256 * KIB, 4, false }, { 128 * KIB, 8, false },
    { 256 * KIB, 8, false }, { 64 * KIB, 8, false },
};

static const struct amph_client_route *ways_of(bool near, unsigned *n_p)
{
    *n_p = near ? AMPH_COUNTOF(near_ways) : AMPH_COUNTOF(far_ways);
    return near ? near_ways : far_ways;
}

unsigned amph_client_tuning_choose(struct amph_client_tuning *pace, bool near,
                                   struct amph_client_route *way_p)
{
    unsigned n;
    const struct amph_client_route *ways = ways_of(near, &n);
    unsigned call = atomic_fetch_add_explicit(&pace->calls, 1, memory_order_relaxed);
    unsigned best = atomic_load_explicit(&pace->best, memory_order_relaxed);
    unsigned way = best;
    bool early = call < 2 * n && call % 2 == 1;
    unsigned quiet = atomic_load_explicit(&pace->lost, memory_order_relaxed) / n;
    unsigned every = TRY_EVERY << (quiet < TRY_SLOWER ? quiet : TRY_SLOWER);
    bool timed = atomic_load_explicit(&pace->rate, memory_order_relaxed) != 0;

    if (timed && atomic_load_explicit(&pace->lead, memory_order_relaxed))
        way = atomic_load_explicit(&pace->rival, memory_order_relaxed);
    else if (timed && (early || call % every == every - 1)) {
        way = (atomic_load_explicit(&pace->rival, memory_order_relaxed) + 1) % n;
        if (way == best)
            way = (way + 1) % n;

        atomic_store_explicit(&pace->rival, (uint8_t)way, memory_order_relaxed);
    }

    *way_p = ways[way % n];
    return way % n;
}

void amph_client_tuning_peek(const struct amph_client_tuning *pace, bool near,
                             struct amph_client_route *way_p)
{
    unsigned n;
    const struct amph_client_route *ways = ways_of(near, &n);

    *way_p = ways[atomic_load_explicit(&pace->best, memory_order_relaxed) % n];
}

/* A rival has been timed: what its lead is now. */
static unsigned lead_after(unsigned lead, bool won)
{
    if (won)
        return lead ? lead + 1 : LEAD_FIRST;

    return lead ? lead - 1 : 0;
}

void amph_client_tuning_record(struct amph_client_tuning *pace, unsigned way, uint64_t bytes,
                               uint64_t ns)
{
    uint64_t rate = bytes * AMPH_NS_PER_US / (ns + 1) + 1;
    uint64_t before = atomic_load_explicit(&pace->rate, memory_order_relaxed);

    if (way == atomic_load_explicit(&pace->best, memory_order_relaxed)) {
        atomic_store_explicit(&pace->rate, (uint32_t)(rate < UINT32_MAX ? rate : UINT32_MAX),
                              memory_order_relaxed);
        return;
    }

    if (!before)
        return; /* another thread's rival has been held against it */

    atomic_store_explicit(&pace->rate, 0, memory_order_relaxed);

    unsigned lead = lead_after(atomic_load_explicit(&pace->lead, memory_order_relaxed),
                               rate > before + before / 32);

    if (lead >= LEAD_NEEDED) {
        atomic_store_explicit(&pace->best, (uint8_t)way, memory_order_relaxed);
        atomic_store_explicit(&pace->lost, 0, memory_order_relaxed);
        lead = 0;
    } else if (lead == 0 && atomic_load_explicit(&pace->lost, memory_order_relaxed) < UINT8_MAX) {
        atomic_fetch_add_explicit(&pace->lost, 1, memory_order_relaxed);
    }

    atomic_store_explicit(&pace->lead, (uint8_t)lead, memory_order_relaxed);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tunes size and number of the pieces of large calls by A/B sampling.  The best combination depends
 * on where the two processes run (whether their cores share a cache), on the network and on the
 * file system, and changes when a process migrates.  None of this can be queried, but all of it
 * shows in the rate of a whole call.  So one combination is in use, and about one call in 16 uses
 * another one, the candidate.
 *
 * Other load often changes the rate more than the combination does, for longer than one call.
 * Therefore a candidate is compared with the call directly before it.  A candidate that wins is
 * used for every other call until its net wins reach LEAD_NEEDED, when it replaces the combination
 * in use, or 0.
 *
 * Layer: iofwd.  Thread rule: see client/data/tuning.h.
 */
#include <stdatomic.h>

#include "iofwd/client/data/tuning.h"

#include "base/os/clock.h"
#include "base/platform.h"

#define KIB ((size_t)1 << 10)
#define TRY_EVERY 16u  /* calls between samples, after each combination was tried once */
#define TRY_SLOWER 3u  /* maximum number of times that this doubles while all candidates lose */
#define LEAD_FIRST 2u  /* after the first win; a further win adds 1, a loss subtracts 1 */
#define LEAD_NEEDED 6u /* to replace the combination in use */

/* To a server of the same host; the default is first. */
static const struct amph_client_route near_ways[] = {
    { 128 * KIB, 4, false }, { 128 * KIB, 8, true }, { 64 * KIB, 4, false },
    { 256 * KIB, 4, false }, { 256 * KIB, 4, true }, { 64 * KIB, 8, true },
};

/* Over a network: the bytes in flight (piece * depth) should cover round trip times bandwidth; more
 * only fills caches and socket buffers. */
static const struct amph_client_route far_ways[] = {
    { 128 * KIB, 4, false }, { 256 * KIB, 4, false }, { 128 * KIB, 8, false },
    { 256 * KIB, 8, false }, { 64 * KIB, 8, false },  { 256 * KIB, 2, false },
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
        way = atomic_load_explicit(&pace->candidate, memory_order_relaxed);
    else if (timed && (early || call % every == every - 1)) {
        way = (atomic_load_explicit(&pace->candidate, memory_order_relaxed) + 1) % n;
        if (way == best)
            way = (way + 1) % n;

        atomic_store_explicit(&pace->candidate, (uint8_t)way, memory_order_relaxed);
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

/* Returns the net wins of the candidate after one more sample. */
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
        return; /* another thread's candidate was compared with that call */

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

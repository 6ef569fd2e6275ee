/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls at an offset that processes share, counted so that another server can take over; see
 * recovery/record.h.  Layer: iofwd.
 *
 * A process may be stopped or starved with its call under way while its server dies.  Who moves the
 * file waits a while for it, then gives all calls up that are under way, and a new round begins: a
 * call of an earlier round counts as not answered, whatever comes for it.
 */
#include <fcntl.h>
#include <time.h>

#include "base/clock.h"
#include "iofwd/client/recovery/record.h"

#define NOTES_MOST_NS (1 * AMPH_NS_PER_S)
#define NOTES_NAP_NS (AMPH_NS_PER_MS / 4)

/* amph_client_shared.flights: the round in the upper half; the calls under way; of these, those
 * whose server has died */
#define ROUND_SHIFT 32
#define UNDER_WAY (UINT64_C(1) << 16)
#define STRANDED UINT64_C(1)

static uint32_t round_of(uint64_t flights)
{
    return (uint32_t)(flights >> ROUND_SHIFT);
}

static bool all_stranded(uint64_t flights)
{
    return (uint16_t)(flights / UNDER_WAY) <= (uint16_t)flights;
}

/* Counts, unless the call has been given up. */
static bool count(struct amph_client_inflight *f, uint64_t change)
{
    uint64_t now = atomic_load(&f->shared->flights);

    do
        if (round_of(now) != f->round)
            return false;
    while (!atomic_compare_exchange_weak(&f->shared->flights, &now, now + change));
    return true;
}

void amph_client_inflight_begin(struct amph_client_inflight *f, struct amph_client_shared *s)
{
    amph_client_told = (struct amph_client_told){ .calls = 0 };

    bool goes_on = f->stranded && count(f, -STRANDED);

    f->stranded = false;
    f->seat = s ? amph_client_location_now(s) : NULL;
    if (goes_on || !s)
        return;

    f->shared = s;
    f->round = round_of(atomic_fetch_add(&s->flights, UNDER_WAY));
}

bool amph_client_inflight_is_abandoned(const struct amph_client_inflight *f)
{
    return f->shared && round_of(atomic_load(&f->shared->flights)) != f->round;
}

void amph_client_inflight_strand(struct amph_client_inflight *f)
{
    f->stranded = f->shared && count(f, STRANDED);
}

void amph_client_inflight_end(struct amph_client_inflight *f)
{
    struct amph_client_shared *s = f->shared;

    if (!s || amph_client_inflight_is_abandoned(f))
        return;

    uint32_t most = atomic_load(&f->seat->moves);

    atomic_fetch_add(&f->seat->answered, amph_client_told.calls);
    while (most < amph_client_told.moves &&
           !atomic_compare_exchange_weak(&f->seat->moves, &most, amph_client_told.moves))
        ;

    count(f, -UNDER_WAY - (f->stranded ? STRANDED : 0));
}

void amph_client_inflight_wait(struct amph_client_shared *s)
{
    const struct timespec nap = { 0, NOTES_NAP_NS };
    uint64_t now;
    uint64_t end = amph_now_ns() + NOTES_MOST_NS;

    while (!all_stranded(now = atomic_load(&s->flights))) {
        if (amph_now_ns() < end)
            nanosleep(&nap, NULL);
        else if (atomic_compare_exchange_strong(&s->flights, &now,
                                                (uint64_t)(round_of(now) + 1) << ROUND_SHIFT))
            return;
    }
}

bool amph_client_inflight_tangled(struct amph_client_shared *s)
{
    const struct amph_client_location *seat = amph_client_location_now(s);
    return !(atomic_load(&s->oflags) & (O_APPEND | O_DIRECTORY)) &&
           atomic_load(&seat->moves) > atomic_load(&seat->answered);
}

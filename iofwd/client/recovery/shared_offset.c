/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts calls in flight at an offset that processes share, so that another server can continue
 * exactly at the right offset; see recovery/record.h.
 *
 * Layer: iofwd.  Thread rule: any thread of any of the processes; the counts are atomic.
 *
 * A process may be stopped or starved with a call in flight while the server dies.  The mover waits
 * a while for it, then abandons all calls in flight and begins a new round.  A call of an earlier
 * round counts as unanswered even if its reply arrives.
 *
 * A call that has its reply commits before it records the effect.  It and the mover decide by one
 * exchange of the counts: the call is abandoned and cannot commit, or it commits and the mover may no
 * longer abandon it, since the program will get its result.  If the record is then not completed, the
 * offset is unknown and the file is lost.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/os/clock.h"
#include "iofwd/client/recovery/record.h"
#include "iofwd/client/state.h"

#define RECORDED_MAX_NS (1 * AMPH_NS_PER_S)
#define RECORDED_NAP_NS (AMPH_NS_PER_MS / 4)

/* amph_client_shared.flights, 16 bits each: the round, and of the calls in flight how many record
 * their effect, how many there are, and how many of these had a server that died */
#define ROUND_SHIFT 48
#define COMMITTING (UINT64_C(1) << 32)
#define IN_FLIGHT (UINT64_C(1) << 16)
#define STRANDED UINT64_C(1)

static uint32_t round_of(uint64_t flights)
{
    return (uint32_t)(flights >> ROUND_SHIFT);
}

static bool all_stranded(uint64_t flights)
{
    return (uint16_t)(flights / IN_FLIGHT) <= (uint16_t)flights;
}

static bool any_committing(uint64_t flights)
{
    return (uint16_t)(flights / COMMITTING) != 0;
}

/* Changes the counts.  Returns false if the call was abandoned. */
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
    struct amph_client_location *seat = s ? amph_client_location_now(s) : NULL;

    /* a repetition where the file was before, after another part of it was lost: what was answered
     * there counts */
    if (!f->stranded || f->seat != seat)
        amph_client_thread.offset_moves = (struct amph_client_moves){ .calls = 0 };

    bool goes_on = f->stranded && count(f, -STRANDED);

    f->stranded = false;
    f->seat = seat;
    if (goes_on || !s)
        return;

    f->shared = s;
    f->round = round_of(atomic_fetch_add(&s->flights, IN_FLIGHT));
}

bool amph_client_inflight_is_abandoned(const struct amph_client_inflight *f)
{
    return f->shared && round_of(atomic_load(&f->shared->flights)) != f->round;
}

bool amph_client_inflight_commit(struct amph_client_inflight *f)
{
    if (f->shared && !f->committing)
        f->committing = count(f, COMMITTING);

    return !f->shared || f->committing;
}

void amph_client_inflight_strand(struct amph_client_inflight *f)
{
    f->stranded = f->shared && count(f, STRANDED);
}

void amph_client_inflight_end(struct amph_client_inflight *f)
{
    struct amph_client_shared *s = f->shared;

    if (!s || !amph_client_inflight_commit(f))
        return;

    uint32_t max = atomic_load(&f->seat->moves);

    atomic_fetch_add(&f->seat->answered, amph_client_thread.offset_moves.calls);
    while (
        max < amph_client_thread.offset_moves.moves &&
        !atomic_compare_exchange_weak(&f->seat->moves, &max, amph_client_thread.offset_moves.moves))
        ;

    count(f, -COMMITTING - IN_FLIGHT - (f->stranded ? STRANDED : 0));
}

bool amph_client_inflight_wait(struct amph_client_shared *s)
{
    const struct timespec nap = { 0, RECORDED_NAP_NS };
    uint64_t flights;
    uint64_t abandon_ns = amph_now_ns() + RECORDED_MAX_NS;
    uint64_t lose_ns = abandon_ns + RECORDED_MAX_NS;

    while (!all_stranded(flights = atomic_load(&s->flights))) {
        bool committing = any_committing(flights);
        uint64_t next_round = (uint64_t)(round_of(flights) + 1) << ROUND_SHIFT;

        if (amph_now_ns() < (committing ? lose_ns : abandon_ns))
            nanosleep(&nap, NULL);
        else if (committing)
            return false;
        else if (atomic_compare_exchange_strong(&s->flights, &flights, next_round))
            return true;
    }

    return true;
}

bool amph_client_inflight_tangled(struct amph_client_shared *s)
{
    const struct amph_client_location *seat = amph_client_location_now(s);
    return !(atomic_load(&s->oflags) & (O_APPEND | O_DIRECTORY)) &&
           atomic_load(&seat->moves) > atomic_load(&seat->answered);
}

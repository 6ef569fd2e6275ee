/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers, the library's own meetings, clock.  Two families: upc_barrier and its halves are
 * GASNet's named barrier; the library's meetings are collectives of the team, so that one may
 * happen while the program is between upc_notify and upc_wait.  Layer: upc-bridge.
 */
#include <sched.h>
#include <time.h>

#include "upc-bridge/upc.h"

/* ---- upc_notify, upc_wait, upc_barrier: UPC 1.3, 6.6.1 ---- */

static struct {
    int id, flags; /* of the last notify */
    bool open;     /* between notify and wait */
} phase;

static void notify(int id, int flags)
{
    if (phase.open)
        amph_upc_fail("upc_notify was called twice without upc_wait between");

    phase.id = id;
    phase.flags = flags;
    phase.open = true;
    upc_fence();
    gasnet_barrier_notify(id, flags);
}

static void finish(void)
{
    if (!phase.open)
        amph_upc_fail("upc_wait was called without upc_notify before it");

    if (gasnet_barrier_wait(phase.id, phase.flags) != GASNET_OK) {
        if (phase.flags)
            amph_upc_fail("upc_barrier: the values of the other threads differ from each other");

        amph_upc_fail("upc_barrier: this thread's value is %d, another's is not", phase.id);
    }

    phase.open = false;
    upc_fence();
}

void upc_notify(void)
{
    notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
}

void upc_notify_value(int value)
{
    notify(value, 0);
}

void upc_wait(void)
{
    finish();
}

void upc_wait_value(int value)
{
    int id;

    if (phase.open && phase.flags == 0 && phase.id != value)
        amph_upc_fail("upc_wait: its value is %d, that of upc_notify was %d", value, phase.id);

    finish();
    if (phase.flags && gasnet_barrier_result(&id) == GASNET_OK && id != value)
        amph_upc_fail("upc_wait: its value is %d, another thread's is %d", value, id);
}

void upc_barrier(void)
{
    notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    finish();
}

void upc_barrier_value(int value)
{
    notify(value, 0);
    finish();
}

void amph_upc_end_barrier(void)
{
    if (!phase.open)
        notify(0, GASNET_BARRIERFLAG_ANONYMOUS);

    finish();
}

/* ---- the library's own ---- */

void amph_upc_meet(void)
{
    upc_fence();
    gex_Event_Wait(gex_Coll_BarrierNB(upc_self.tm, 0));
    upc_fence();
}

void amph_upc_report(uint32_t root, void *buf, size_t nbytes)
{
    gex_Event_Wait(gex_Coll_BroadcastNB(upc_self.tm, root, buf, buf, nbytes, 0));
}

uint64_t amph_upc_max(uint64_t value)
{
    uint64_t result = 0;

    gex_Event_Wait(gex_Coll_ReduceToAllNB(upc_self.tm, &result, &value, GEX_DT_U64, sizeof value, 1,
                                          GEX_OP_MAX, NULL, NULL, 0));
    return result;
}

void amph_upc_sums(uint64_t *value, size_t n)
{
    uint64_t result[4];

    gex_Event_Wait(gex_Coll_ReduceToAllNB(upc_self.tm, result, value, GEX_DT_U64, sizeof *value, n,
                                          GEX_OP_ADD, NULL, NULL, 0));
    for (size_t i = 0; i < n; i++)
        value[i] = result[i];
}

void amph_upc_enter(upc_flag_t flags, const char *call)
{
    if (phase.open)
        amph_upc_fail("%s was called between upc_notify and upc_wait", call);

    if (!(flags & UPC_IN_NOSYNC) || (flags & (UPC_IN_ALLSYNC | UPC_IN_MYSYNC)))
        amph_upc_meet();
}

void amph_upc_leave(upc_flag_t flags)
{
    if (!(flags & UPC_OUT_NOSYNC) || (flags & (UPC_OUT_ALLSYNC | UPC_OUT_MYSYNC)))
        amph_upc_meet();
}

/* ---- progress ---- */

void upc_poll(void)
{
    gasnet_AMPoll();
    if ((upc_self.looks & 1023) == 0)
        sched_yield();
}

/* ---- clock: RL 7.5; a tick is a nanosecond ---- */

upc_tick_t upc_ticks_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (upc_tick_t)ts.tv_sec * 1000000000u + (upc_tick_t)ts.tv_nsec;
}

uint64_t upc_ticks_to_ns(upc_tick_t ticks)
{
    return ticks;
}

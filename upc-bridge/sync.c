/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers and the clock.
 *
 * upc_barrier, upc_notify and upc_wait use GASNet's named barrier.  The library's own barrier
 * (amph_upc_sync) is a collective of the team, so that it may be used while the program is between
 * upc_notify and upc_wait.
 *
 * Layer: upc-bridge.  Thread rule: one thread.
 */
#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "upc-bridge/upc.h"

/* ---- upc_notify, upc_wait, upc_barrier: UPC 1.3, 6.6.1 ---- */

static void notify(int id, int flags)
{
    if (amph_upc.barrier.open)
        amph_upc_fail("upc_notify was called twice without upc_wait between");

    amph_upc.barrier.id = id;
    amph_upc.barrier.flags = flags;
    amph_upc.barrier.open = true;
    upc_fence();
    gasnet_barrier_notify(id, flags);
}

static void finish(void)
{
    if (!amph_upc.barrier.open)
        amph_upc_fail("upc_wait was called without upc_notify before it");

    if (gasnet_barrier_wait(amph_upc.barrier.id, amph_upc.barrier.flags) != GASNET_OK) {
        if (amph_upc.barrier.flags)
            amph_upc_fail("upc_barrier: the values of the other threads differ from each other");

        amph_upc_fail("upc_barrier: this thread's value is %d, another thread's value differs",
                      amph_upc.barrier.id);
    }

    amph_upc.barrier.open = false;
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

    if (amph_upc.barrier.open && amph_upc.barrier.flags == 0 && amph_upc.barrier.id != value)
        amph_upc_fail("upc_wait: its value is %d, that of upc_notify was %d", value,
                      amph_upc.barrier.id);

    finish();
    if (amph_upc.barrier.flags && gasnet_barrier_result(&id) == GASNET_OK && id != value)
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
    if (!amph_upc.barrier.open)
        notify(0, GASNET_BARRIERFLAG_ANONYMOUS);

    finish();
}

/* ---- the library's own ---- */

void amph_upc_sync(void)
{
    upc_fence();
    gex_Event_Wait(gex_Coll_BarrierNB(upc_self.tm, 0));
    upc_fence();
}

void amph_upc_broadcast(uint32_t root, void *buf, size_t nbytes)
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
    if (amph_upc.barrier.open)
        amph_upc_fail("%s was called between upc_notify and upc_wait", call);

    if (!(flags & UPC_IN_NOSYNC) || (flags & (UPC_IN_ALLSYNC | UPC_IN_MYSYNC)))
        amph_upc_sync();
}

void amph_upc_leave(upc_flag_t flags)
{
    if (!(flags & UPC_OUT_NOSYNC) || (flags & (UPC_OUT_ALLSYNC | UPC_OUT_MYSYNC)))
        amph_upc_sync();
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

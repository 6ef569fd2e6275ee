/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out that there is no memory for what is to be sent or received.
 * Layer: conduits (ofi).  Thread rule: either side.
 *
 * If the tcp providers find no memory they return EAGAIN, as while a connection is being made, and say nothing.
 * The caller tries again for ever.  So after an attempt without room malloc is asked for as much as a provider
 * takes at a time.  If it has had nothing to give for SHORTAGE_NS, no peer can be reached any more.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/os/clock.h"
#include "conduits/ofi/ofi.h"

#define CHUNK_BYTES ((size_t)256 << 10) /* the providers' pools grow by half of that */
#define LOOK_NS (100 * AMPH_NS_PER_MS)
#define SHORTAGE_NS (3 * AMPH_NS_PER_S)
#define FORGET_NS (2 * AMPH_NS_PER_S) /* without a look, after which a shortage begins again */

static bool malloc_fails(void)
{
    void *volatile memory = malloc(CHUNK_BYTES); /* else the compiler leaves both calls out */
    bool fails = !memory;

    free(memory);
    return fails;
}

/* Has there been no memory for SHORTAGE_NS?  last_ns: when the look before this one was. */
static bool lasts(struct amph_ofi_cx *cx, uint64_t last_ns, uint64_t now_ns)
{
    if (!malloc_fails()) {
        __atomic_store_n(&cx->short_ns, 0, __ATOMIC_RELAXED);
        return false;
    }

    const uint64_t since_ns = __atomic_load_n(&cx->short_ns, __ATOMIC_RELAXED);

    if (!since_ns || now_ns - last_ns > FORGET_NS) {
        __atomic_store_n(&cx->short_ns, now_ns, __ATOMIC_RELAXED);
        return false;
    }

    return now_ns - since_ns >= SHORTAGE_NS;
}

void amph_ofi_note_no_room(struct amph_ofi_cx *cx)
{
    const uint64_t now_ns = amph_now_ns();
    uint64_t last_ns = __atomic_load_n(&cx->short_look_ns, __ATOMIC_RELAXED);

    if (now_ns - last_ns < LOOK_NS ||
        !__atomic_compare_exchange_n(&cx->short_look_ns, &last_ns, now_ns, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;

    if (lasts(cx, last_ns, now_ns))
        for (uint32_t i = 0; i < cx->base.cfg.max_peers; i++)
            amph_ofi_fail_peer(cx, &cx->peer[i], OFI_PEER_STARVED);
}

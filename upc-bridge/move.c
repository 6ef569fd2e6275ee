/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that move data.  UPC RL 7.4.2.
 *
 * Each thread fetches the pieces that it receives (gather and permute: stores the pieces that it
 * has), all in flight at the same time.  Broadcast is the team's collective.
 *
 * Layer: upc-bridge.  Thread rule: one thread; all functions are collective.
 */
#include <stddef.h>
#include <stdint.h>

#include "upc-bridge/upc.h"

static struct upc_wide at(uint32_t thread, uint64_t addr)
{
    return (struct upc_wide){ addr, thread, 0 };
}

static uint32_t me(void)
{
    return (uint32_t)upc_self.mythread;
}

void amphora_upc_all_broadcast(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                               upc_flag_t flags)
{
    /* The data comes from a thread that has entered this call, and only the caller's memory is
     * written.  So MYSYNC needs no barrier. */
    upc_flag_t in = flags & UPC_IN_MYSYNC ? UPC_IN_NOSYNC : flags;
    upc_flag_t out = flags & UPC_OUT_MYSYNC ? UPC_OUT_NOSYNC : flags;

    amph_upc_enter(in, "upc_all_broadcast");
    if (nbytes)
        gex_Event_Wait(gex_Coll_BroadcastNB(upc_self.tm, src.thread, amph_upc_mine(dst.addr),
                                            amph_upc_mine(src.addr), nbytes, 0));

    amph_upc_leave(out);
}

void amphora_upc_all_scatter(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                             upc_flag_t flags)
{
    amph_upc_enter(flags, "upc_all_scatter");
    amphora_upc_memcpy(at(me(), dst.addr), at(src.thread, src.addr + me() * nbytes), nbytes);
    amph_upc_leave(flags);
}

void amphora_upc_all_gather(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                            upc_flag_t flags)
{
    amph_upc_enter(flags, "upc_all_gather");
    amphora_upc_memcpy(at(dst.thread, dst.addr + me() * nbytes), at(me(), src.addr), nbytes);
    amph_upc_leave(flags);
}

/* Fetches a piece of every thread, at src.addr + skip, to dst, in the order of the threads.  Each
 * thread begins with the one after it, so that not all access one thread at a time. */
static void collect(uint64_t dst, uint64_t src, size_t nbytes)
{
    uint32_t threads = (uint32_t)upc_self.threads;

    for (uint32_t i = 1; i <= threads; i++) {
        uint32_t t = (me() + i) % threads;
        amphora_upc_memget_nbi(amph_upc_mine(dst + t * nbytes), at(t, src), nbytes);
    }

    upc_synci();
}

void amphora_upc_all_gather_all(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                                upc_flag_t flags)
{
    amph_upc_enter(flags, "upc_all_gather_all");
    collect(dst.addr, src.addr, nbytes);
    amph_upc_leave(flags);
}

void amphora_upc_all_exchange(struct upc_wide dst, struct upc_wide src, size_t nbytes,
                              upc_flag_t flags)
{
    amph_upc_enter(flags, "upc_all_exchange");
    collect(dst.addr, src.addr + me() * nbytes, nbytes);
    amph_upc_leave(flags);
}

void amphora_upc_all_permute(struct upc_wide dst, struct upc_wide src, struct upc_wide perm,
                             size_t nbytes, upc_flag_t flags)
{
    int to;

    amph_upc_enter(flags, "upc_all_permute");
    to = *(volatile int *)amph_upc_mine(perm.addr);

    if (to < 0 || to >= upc_self.threads)
        amph_upc_fail("upc_all_permute: perm[%d] is %d; there are %d threads", upc_self.mythread,
                      to, upc_self.threads);

    amphora_upc_memcpy(at((uint32_t)to, dst.addr), at(me(), src.addr), nbytes);
    amph_upc_leave(flags);
}

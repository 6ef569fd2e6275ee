/* SPDX-License-Identifier: BSD-3-Clause */
/* The asymmetric fence; see fence.h.  Layer: base.  Thread rule: see fence.h. */
#include "base/os/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/clock.h"

/* Heavy fences that follow each other in less than this are quick: if all callers do the same, a fifth of the time may
 * go to them. */
#define QUICK_NS (500 * AMPH_NS_PER_US)
#define QUICK_NS_A_CALLER (100 * AMPH_NS_PER_US)

enum {
    QUICK_MAX = 4 /* quick ones in a row after which the others are asked for full fences */
};

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

void amph_fence_join(struct amph_fence *f)
{
    *f = (struct amph_fence){ .works = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 };
    f->asks = !f->works;
}

bool amph_fence_needs_heavy(struct amph_fence *f, uint32_t callers)
{
    const uint64_t all_ns = callers * QUICK_NS_A_CALLER;
    const bool asked = f->asks;

    if (!f->works)
        return false;

    const uint64_t now_ns = amph_now_ns();
    const bool quick = now_ns - f->last_ns < (all_ns > QUICK_NS ? all_ns : QUICK_NS);

    f->last_ns = now_ns;
    f->quick = quick ? f->quick + 1 : 0;
    f->asks = quick && (asked || f->quick >= QUICK_MAX);

    return !asked || !f->asks;
}

void amph_fence_heavy(void)
{
    membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

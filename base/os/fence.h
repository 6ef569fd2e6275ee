/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An asymmetric fence, for two sides that each write a word and then read the other's, so that at least one of them
 * must see what the other has written: a message and a receiver that falls asleep, say.  The frequent side makes
 * light fences, which cost nothing; the rare side makes a heavy one, which is a fence of all processes that take
 * part (membarrier).
 *
 * A heavy fence interrupts each core that runs such a process: it takes 1 us without one, 20 us with one on a virtual
 * machine.  If heavy fences follow each other quickly, the rare side asks the other one for full fences instead, by a
 * word that the light side reads after its light fence.  A process that cannot take part asks for them always, and
 * makes full fences itself.
 *
 * Layer: base.  Thread rule: one thread at a time calls for the same struct; light and heavy: any thread.
 */
#ifndef AMPH_OS_FENCE_H
#define AMPH_OS_FENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The rare side of a process. */
struct amph_fence {
    bool works;     /* this process makes heavy fences, and those of others reach it */
    bool asks;      /* it asks the others for full fences */
    uint32_t quick; /* heavy fences in quick succession */
    uint64_t last_ns;
};

/* Makes this process take part, if the kernel allows it. */
void amph_fence_join(struct amph_fence *f);

/* To be called when a heavy fence is due.  callers: processes that may do so as often.  Sets f->asks, which the caller
 * then publishes.  true: amph_fence_heavy must follow; false: the others make full fences already, and a full fence is
 * enough here. */
bool amph_fence_needs_heavy(struct amph_fence *f, uint32_t callers);
void amph_fence_heavy(void);

static inline void amph_fence_light(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#endif

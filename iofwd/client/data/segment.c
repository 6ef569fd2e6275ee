/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers in the program's segment: the server accesses them in place, so the client makes no copy.
 * The segment is announced to a server at the first large call that uses it.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os/arena.h"
#include "base/platform.h"
#include "iofwd/client/internal.h"

/* Registers the segment with the endpoint; amph_client_state.lock is held. */
static bool have_segment(struct amph_fwd_client *cl, uint32_t which)
{
    struct amph_arena_part part;
    uint32_t now;

    if (cl->segment_which == which)
        return true;
    if (!amph_arena_segment_now(&part, &now) || now != which)
        return false;

    if (cl->segment_which)
        amph_am_mem_dereg(cl->ep, &cl->segment_mem);

    cl->segment_which = 0;
    if (amph_am_mem_reg(cl->ep, part.base, part.len_bytes, part.fd, part.offset,
                        &cl->segment_mem) != AMPH_OK)
        return false;

    cl->segment_which = which;
    return true;
}

static void announce_segment(struct amph_fwd_client *cl, struct amph_client_link *link,
                             uint32_t which)
{
    size_t got;
    struct amph_client_sigguard g;
    uint8_t key[sizeof cl->segment_mem.key];

    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);

    bool ok = have_segment(cl, which);
    size_t len = ok ? cl->segment_mem.key_len : 0;

    memcpy(key, cl->segment_mem.key, len);
    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(&g);

    int err = ok ? amph_client_special(cl, link, FWD_SERVICE_SEGMENT, key, len, NULL, 0, &got)
                 : EOPNOTSUPP;

    if (err == EBUSY) /* the server still uses the previous segment */
        return;

    atomic_store_explicit(&link->segment_refused, err ? which : 0, memory_order_relaxed);
    atomic_store_explicit(&link->segment_which, err ? 0 : which, memory_order_release);
}

bool amph_client_segment_holds(struct amph_fwd_client *cl, struct amph_client_link *link,
                               const void *data, size_t len, uint64_t *at_p)
{
    uint32_t which;

    if (!amph_arena_in_segment(data, len, at_p, &which))
        return false;

    if (AMPH_UNLIKELY(atomic_load_explicit(&link->segment_which, memory_order_acquire) != which) &&
        atomic_load_explicit(&link->segment_refused, memory_order_relaxed) != which)
        announce_segment(cl, link, which);

    return atomic_load_explicit(&link->segment_which, memory_order_acquire) == which;
}

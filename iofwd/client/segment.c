/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers that lie in the program's own segment: the server reaches them in place, so no copy is made on the client's side.
 * The segment is made known to a server at the first large call from it.  Layer: iofwd.  Thread rule: see client/internal.h.
 */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "iofwd/client/internal.h"

/* Registers the segment with the endpoint; fwd_state.lock is held. */
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
    if (amph_am_mem_reg(cl->ep, part.base, part.len_bytes, part.fd, part.offset, &cl->segment_mem) != AMPH_OK)
        return false;
    cl->segment_which = which;
    return true;
}

static void tell_server(struct amph_fwd_client *cl, struct fwd_link *link, uint32_t which)
{
    size_t got;
    struct fwd_guard g;
    uint8_t key[sizeof cl->segment_mem.key];
    fwd_guard_enter(&g);
    pthread_mutex_lock(&fwd_state.lock);
    bool ok = have_segment(cl, which);
    size_t len = ok ? cl->segment_mem.key_len : 0;
    memcpy(key, cl->segment_mem.key, len);
    pthread_mutex_unlock(&fwd_state.lock);
    fwd_guard_leave(&g);
    int err = ok ? fwd_client_special(cl, link, FWD_SERVICE_SEGMENT, key, len, NULL, 0, &got) : EOPNOTSUPP;
    if (err == EBUSY) /* the server still works on the segment before this one */
        return;
    atomic_store_explicit(&link->segment_refused, err ? which : 0, memory_order_relaxed);
    atomic_store_explicit(&link->segment_which, err ? 0 : which, memory_order_release);
}

bool fwd_segment_holds(struct amph_fwd_client *cl, struct fwd_link *link, const void *data, size_t len, uint64_t *at_p)
{
    uint32_t which;
    if (!amph_arena_in_segment(data, len, at_p, &which))
        return false;
    if (AMPH_UNLIKELY(atomic_load_explicit(&link->segment_which, memory_order_acquire) != which) &&
        atomic_load_explicit(&link->segment_refused, memory_order_relaxed) != which)
        tell_server(cl, link, which);
    return atomic_load_explicit(&link->segment_which, memory_order_acquire) == which;
}

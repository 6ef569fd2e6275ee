/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of layers that an intercepted call passes.
 *
 * Layer: iofwd.  Thread rule: see client.h; the list is constant once calls run.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "iofwd/client/internal.h"

static bool is_small(const struct amph_fwd_client *cl, mode_t mode, uint64_t block)
{
    return S_ISREG(mode) && block < cl->block;
}

void amph_client_raise_block_size(const struct amph_fwd_client *cl, struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    struct stat *st = amph_fwd_client_pointer(desc, &call->u, FWD_OUT_STATBUF);
    struct statx *stx = amph_fwd_client_pointer(desc, &call->u, FWD_OUT_STATXBUF);

    if (st && is_small(cl, st->st_mode, (uint64_t)st->st_blksize))
        st->st_blksize = (blksize_t)cl->block;

    if (stx && is_small(cl, stx->stx_mode, stx->stx_blksize))
        stx->stx_blksize = (uint32_t)cl->block;
}

static int forward_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    if (!call->client)
        return amph_layer_pass(self->next, call);

    int err = amph_client_call(call->client, call->id, &call->u);

    if (!err)
        amph_client_raise_block_size(call->client, call);

    return err;
}

const struct amph_layer amph_layer_forward = { .name = "forward",
                                               .rank = 40,
                                               .call = forward_call };

void amph_layer_add(const struct amph_layer *layer)
{
    const struct amph_layer **at = &amph_client_state.layers.first;
    unsigned n = amph_client_state.layers.nadded;
    struct amph_layer *added = &amph_client_state.layers.added[n];

    for (unsigned i = 0; i < n; i++)
        if (amph_client_state.layers.added[i].call == layer->call)
            return;

    assert(n < AMPH_CLIENT_LAYERS_MAX && layer->rank < amph_layer_forward.rank);
    while ((*at)->rank <= layer->rank)
        at = &((struct amph_layer *)*at)->next;

    *added = *layer;
    added->next = *at;
    *at = added;
    amph_client_state.layers.nadded++;
}

int amph_layer_enter(struct amph_fwd_call *call)
{
    int saved = errno; /* some programs read errno after calls that succeed */
    const struct amph_layer *first = amph_client_state.layers.first;
    int err = first->call(first, call);

    errno = saved;
    return err;
}

int amph_layer_pass(const struct amph_layer *layer, struct amph_fwd_call *call)
{
    return layer ? layer->call(layer, call) : ENOSYS;
}

void amph_layer_event(enum amph_layer_event event)
{
    for (const struct amph_layer *l = amph_client_state.layers.first; l; l = l->next)
        if (l->event)
            l->event(l, event);
}

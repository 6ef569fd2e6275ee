/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of layers that an intercepted call passes.
 *
 * Layer: iofwd.  Thread rule: see client.h; the list is constant once calls run.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "iofwd/client/internal.h"

static bool is_small(const struct amph_fwd_client *cl, mode_t mode, uint64_t block)
{
    return S_ISREG(mode) && block < cl->block;
}

/* Raises st_blksize of regular files to a size that suits forwarding; each smaller call would cost
 * a round trip. */
static void tell_block(const struct amph_fwd_client *cl, struct amph_fwd_call *call)
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
        tell_block(call->client, call);

    return err;
}

static struct amph_layer forward = { .name = "forward", .rank = 40, .call = forward_call };
static const struct amph_layer *layers = &forward;

void amph_layer_add(struct amph_layer *layer)
{
    const struct amph_layer **at = &layers;

    while (*at && (*at)->rank <= layer->rank)
        at = &((struct amph_layer *)*at)->next;

    layer->next = *at;
    *at = layer;
}

int amph_layer_enter(struct amph_fwd_call *call)
{
    int saved = errno; /* some programs read errno after calls that succeed */
    int err = layers->call(layers, call);

    errno = saved;
    return err;
}

int amph_layer_pass(const struct amph_layer *layer, struct amph_fwd_call *call)
{
    return layer ? layer->call(layer, call) : ENOSYS;
}

void amph_layer_event(enum amph_layer_event event)
{
    for (const struct amph_layer *l = layers; l; l = l->next)
        if (l->event)
            l->event(l, event);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of layers that a caught call passes.  Layer: iofwd.  Thread rule: see client.h; the list is only read once calls run.
 */
#include <errno.h>
#include <stddef.h>

#include "iofwd/client_int.h"

static int forward_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    return call->client ? fwd_client_call(call->client, call->id, &call->u) : amph_layer_pass(self->next, call);
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
    int saved = errno; /* programs look at it after calls that succeed, too */
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

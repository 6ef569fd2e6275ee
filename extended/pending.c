/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operations that wait for a reply; see extended/pending.h.  Layer: extended. */
#include "am/am.h"
#include "base/status.h"
#include "extended/pending.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    SLOTS = 4096
};

struct amph_handles {
    pthread_mutex_t lock;
    uint32_t next;
    struct {
        struct amph_op *op; /* NULL: free */
        enum amph_pending_kind kind;
    } slot[SLOTS];
};

static void lock(struct amph_gex *g)
{
    if (g->threaded)
        pthread_mutex_lock(&g->handles->lock);
}

static void unlock(struct amph_gex *g)
{
    if (g->threaded)
        pthread_mutex_unlock(&g->handles->lock);
}

/* Takes a free slot.  Returns SLOTS if no slot is free. */
static uint32_t reserve(struct amph_gex *g, enum amph_pending_kind kind, struct amph_op *op)
{
    struct amph_handles *h = g->handles;
    uint32_t found = SLOTS;

    lock(g);
    for (uint32_t i = 0; i < SLOTS && found == SLOTS; i++) {
        if (!h->slot[h->next].op) {
            found = h->next;
            h->slot[found].op = op;
            h->slot[found].kind = kind;
        }

        h->next = (h->next + 1) % SLOTS;
    }

    unlock(g);
    return found;
}

uint32_t amph_gex_pending_take(struct amph_gex *g, enum amph_pending_kind kind, struct amph_op *op)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    uint32_t slot;

    while ((slot = reserve(g, kind, op)) == SLOTS)
        amph_gex_wait_step(&w);

    return slot;
}

struct amph_op *amph_gex_pending_release(struct amph_gex *g, enum amph_pending_kind kind,
                                         uint32_t slot)
{
    struct amph_op *op = NULL;

    if (slot >= SLOTS)
        return NULL;

    lock(g);
    if (g->handles->slot[slot].kind == kind) {
        op = g->handles->slot[slot].op;
        g->handles->slot[slot].op = NULL;
    }

    unlock(g);
    return op;
}

enum amph_status amph_gex_pending_open(struct amph_gex *g)
{
    g->handles = calloc(1, sizeof *g->handles);
    if (!g->handles)
        return AMPH_ERR_NOMEM;

    pthread_mutex_init(&g->handles->lock, NULL);
    return AMPH_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operations that wait for a reply; see extended/pending.h.  Layer: extended. */
#include "extended/pending.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    PLACES = 4096
};

struct amph_handles {
    pthread_mutex_t lock;
    uint32_t next;
    struct {
        struct amph_op *op; /* NULL: free */
        enum amph_pending_kind kind;
    } place[PLACES];
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

static uint32_t reserve(struct amph_gex *g, enum amph_pending_kind kind, struct amph_op *op)
{
    struct amph_handles *h = g->handles;
    uint32_t found = PLACES;

    lock(g);
    for (uint32_t i = 0; i < PLACES && found == PLACES; i++, h->next = (h->next + 1) % PLACES)
        if (!h->place[h->next].op) {
            found = h->next;
            h->place[found].op = op;
            h->place[found].kind = kind;
        }

    unlock(g);
    return found;
}

uint32_t amph_pending_take(struct amph_gex *g, enum amph_pending_kind kind, struct amph_op *op)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    uint32_t place;

    while ((place = reserve(g, kind, op)) == PLACES)
        amph_gex_wait_step(&w);

    return place;
}

struct amph_op *amph_pending_release(struct amph_gex *g, enum amph_pending_kind kind,
                                     uint32_t place)
{
    struct amph_op *op = NULL;

    if (place >= PLACES)
        return NULL;

    lock(g);
    if (g->handles->place[place].kind == kind) {
        op = g->handles->place[place].op;
        g->handles->place[place].op = NULL;
    }

    unlock(g);
    return op;
}

enum amph_status amph_pending_open(struct amph_gex *g)
{
    g->handles = calloc(1, sizeof *g->handles);
    if (!g->handles)
        return AMPH_ERR_NOMEM;

    pthread_mutex_init(&g->handles->lock, NULL);
    return AMPH_OK;
}

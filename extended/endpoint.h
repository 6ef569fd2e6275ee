/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files about endpoints, bound segments and memory kinds share.  Layer: extended.
 *
 * Thread rule: amph_bounds.lock guards the tables of endpoints and of what is known of others'
 * segments, while they are written; readers take none: a row is written before its length, and
 * endpoints must be idle while theirs changes (GASNet-EX spec).
 */
#ifndef AMPH_EXTENDED_ENDPOINT_H
#define AMPH_EXTENDED_ENDPOINT_H

#include <pthread.h>

#include "amphora/endpoint.h"
#include "base/wire.h"
#include "extended/gex.h"

struct amph_asked; /* ep_query.c: a question that is under way */

struct amph_bounds {
    pthread_mutex_t lock;
    struct amphora_mk *host; /* what GEX_MK_HOST stands for */
    struct amph_asked *asked;
    uint64_t next_id;
};

/* A memory kind; there is only host memory. */
struct amphora_mk {
    struct amphora_client *client;
    gex_Flags_t flags;
    const void *cdata;
    uint32_t segments; /* that use it; atomic */
};

/* Bytes in which a segment is told to others: base, length, key. */
enum {
    AMPH_BOUND_BYTES = 8 + 8 + 4 + (int)sizeof((struct amph_am_mem *)0)->key
};

/* Writes what ep has bound (length 0: nothing). */
void amph_bound_write(struct amph_wr *w, const struct amphora_ep *ep);
/* Takes in what peer says of its endpoint `index`.  A length of 0 is no news.  AMPH_ERR_PROTO,
 * AMPH_ERR_RANGE, or what importing says.  Not to be called with the lock held. */
enum amph_status amph_bound_learn(struct amph_gex *g, uint32_t peer, gex_EP_Index_t index,
                                  struct amph_rd *r);
/* The own process knows what it has bound: sets or (segment NULL) clears it. */
enum amph_status amph_bound_own(struct amph_gex *g, struct amphora_ep *ep,
                                const struct amphora_segment *seg);

/* The kind behind a gex_MK_t, or NULL. */
struct amphora_mk *amph_mk_of(gex_MK_t kind);

enum amph_status amph_bounds_open(struct amph_gex *g); /* ep.c */
enum amph_status amph_query_open(struct amph_gex *g);  /* ep_query.c: registers its handlers */
/* ep_thread.c: starts the progress thread unless it is deferred */
void amph_progress_open(struct amph_gex *g);
void amph_progress_stop(void);                       /* ends it */
bool amph_progress_wanted(const struct amph_gex *g); /* is there to be one? */

#endif

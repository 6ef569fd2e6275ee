/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations shared by the files about endpoints, bound segments and memory kinds.
 *
 * Layer: extended.
 *
 * Thread rule: amph_bounds.lock guards writes to the tables of endpoints and of peers' segments.
 * Readers take no lock: a row is written before its length, and an endpoint must be idle while its
 * binding changes (GASNet-EX spec).
 */
#ifndef AMPH_EXTENDED_ENDPOINT_H
#define AMPH_EXTENDED_ENDPOINT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "amphora/endpoint.h"
#include "base/wire.h"
#include "extended/gex.h"

struct amph_asked; /* query.c: a query in flight */

struct amph_bounds {
    pthread_mutex_t lock;
    struct amphora_mk *host; /* the kind behind GEX_MK_HOST */
    struct amph_asked *asked;
    uint64_t next_id;
};

/* A memory kind; only host memory is supported. */
struct amphora_mk {
    struct amphora_client *client;
    gex_Flags_t flags;
    const void *cdata;
    uint32_t segments; /* number of segments that use it; atomic */
};

/* Bytes of an encoded segment: base, length, key. */
enum {
    AMPH_BOUND_BYTES = 8 + 8 + 4 + (int)sizeof((struct amph_am_mem *)0)->key
};

/* Encodes the segment bound to ep (length 0: none). */
void amph_gex_bound_write(struct amph_wr *w, const struct amphora_ep *ep);
/* Decodes and stores the segment bound to peer's endpoint `index`; a length of 0 changes nothing.
 * Errors: AMPH_ERR_PROTO, AMPH_ERR_RANGE, or those of amph_am_mem_import.  The caller must not hold
 * the lock. */
enum amph_status amph_gex_bound_learn(struct amph_gex *g, uint32_t peer, gex_EP_Index_t index,
                                      struct amph_rd *r);
/* Sets or, with seg NULL, clears the segment of this process's endpoint in the tables. */
enum amph_status amph_gex_bound_own(struct amph_gex *g, struct amphora_ep *ep,
                                    const struct amphora_segment *seg);

/* The kind behind a gex_MK_t, or NULL. */
struct amphora_mk *amph_gex_mk_of(gex_MK_t kind);

enum amph_status amph_gex_bounds_open(struct amph_gex *g); /* ep.c */
enum amph_status amph_gex_query_open(struct amph_gex *g);  /* query.c: registers its handlers */
/* thread.c: starts the progress thread unless it is deferred */
void amph_gex_progress_open(struct amph_gex *g);
void amph_gex_progress_stop(void);                       /* ends it */
bool amph_gex_progress_wanted(const struct amph_gex *g); /* do the settings ask for one? */

#endif

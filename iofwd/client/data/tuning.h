/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tuning of large calls: piece size, depth and kind of copy; see client/data/tuning.c.
 *
 * Layer: iofwd.  Thread rule: any thread.  The values affect speed only, so concurrent threads may
 * overwrite each other's samples.
 */
#ifndef AMPH_IOFWD_CLIENT_PACE_H
#define AMPH_IOFWD_CLIENT_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMPH_CLIENT_TUNING_MIN ((size_t)512 << 10) /* minimum of calls that are timed */
#define AMPH_CLIENT_TUNING_LARGE \
    ((size_t)4 << 20) /* calls of this size or more exceed the caches and are tuned separately */

/* One combination of parameters. */
struct amph_client_route {
    size_t piece;   /* bytes */
    unsigned depth; /* pieces in flight */
    bool stream;    /* copies with stores that bypass the cache */
};

/* Tuning state of one class of calls at one server. */
struct amph_client_tuning {
    /* of the last call with the combination in use, bytes per microsecond; 0: none since a
     * candidate */
    _Atomic uint32_t rate;
    _Atomic uint32_t calls;
    _Atomic uint8_t best, candidate, lead,
        lost; /* lead: net wins of the candidate; lost: candidates in a row that lost */
};

/* The tuning of a link: [writes, reads][below AMPH_CLIENT_TUNING_LARGE, others]. */
typedef struct amph_client_tuning amph_client_tunings_t[2][2];

/* Chooses the combination for the next call.  Returns its number, for amph_client_tuning_record. */
unsigned amph_client_tuning_choose(struct amph_client_tuning *pace, bool near,
                                   struct amph_client_route *way_p);
/* Stores the combination in use, for a call that is not timed. */
void amph_client_tuning_peek(const struct amph_client_tuning *pace, bool near,
                             struct amph_client_route *way_p);
/* Adds a sample: a call with combination number `way` has transferred all its bytes in ns. */
void amph_client_tuning_record(struct amph_client_tuning *pace, unsigned way, uint64_t bytes,
                               uint64_t ns);

#endif

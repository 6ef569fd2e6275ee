/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the data of large calls travels; see client/tuning.c.  Layer: iofwd.  Thread rule: any
 * thread; what is noted is a matter of speed only, so threads may overwrite each other's notes.
 */
#ifndef AMPH_IOFWD_CLIENT_PACE_H
#define AMPH_IOFWD_CLIENT_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMPH_CLIENT_TUNING_MIN ((size_t)512 << 10) /* calls from here on are timed */
#define AMPH_CLIENT_TUNING_LARGE \
    ((size_t)4 << 20) /* and from here on are a class of their own: they leave the caches */

/* One way for data to travel. */
struct amph_client_route {
    size_t piece;   /* bytes */
    unsigned depth; /* pieces under way */
    bool stream;    /* past the caches of the core that copies */
};

/* What is known of one kind of calls at one server. */
struct amph_client_tuning {
    /* of the last call of the way in use, bytes a microsecond; 0: none since a rival's */
    _Atomic uint32_t rate;
    _Atomic uint32_t calls;
    _Atomic uint8_t best, rival, lead, lost; /* lead: of the rival; lost: rivals in a row */
};

/* The pace of a link: [writes, reads][below, from AMPH_CLIENT_TUNING_LARGE on]. */
typedef struct amph_client_tuning amph_client_tunings_t[2][2];

/* The way for the next call; way_p gets it, the result is its number, for
 * amph_client_tuning_record. */
unsigned amph_client_tuning_choose(struct amph_client_tuning *pace, bool near,
                                   struct amph_client_route *way_p);
/* The way in use, for a call that is not timed. */
void amph_client_tuning_peek(const struct amph_client_tuning *pace, bool near,
                             struct amph_client_route *way_p);
/* A call that was to travel by way number `way` has moved all its bytes in that time. */
void amph_client_tuning_record(struct amph_client_tuning *pace, unsigned way, uint64_t bytes,
                               uint64_t ns);

#endif

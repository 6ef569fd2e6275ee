/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the data of large calls travels; see client/tuning.c.  Layer: iofwd.  Thread rule: any thread; what is noted is a matter of speed
 * only, so threads may overwrite each other's notes.
 */
#ifndef AMPH_IOFWD_CLIENT_PACE_H
#define AMPH_IOFWD_CLIENT_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FWD_PACE_LEAST ((size_t)512 << 10)  /* calls from here on are timed */
#define FWD_PACE_LARGE ((size_t)4 << 20)    /* and from here on are a class of their own: they leave the caches */

/* One way for data to travel. */
struct fwd_way {
    size_t piece;    /* bytes */
    unsigned depth;  /* pieces under way */
    bool stream;     /* past the caches of the core that copies */
};

/* What is known of one kind of calls at one server. */
struct fwd_pace {
    _Atomic uint32_t rate;  /* of the last call of the way in use, bytes a microsecond; 0: none since a rival's */
    _Atomic uint32_t calls;
    _Atomic uint8_t best, rival, lead, lost; /* lead: of the rival; lost: rivals in a row */
};

/* The pace of a link: [writes, reads][below, from FWD_PACE_LARGE on]. */
typedef struct fwd_pace fwd_paces_t[2][2];

/* The way for the next call; way_p gets it, the result is its number, for fwd_pace_judge. */
unsigned fwd_pace_choose(struct fwd_pace *pace, bool near, struct fwd_way *way_p);
/* The way in use, for a call that is not timed. */
void fwd_pace_peek(const struct fwd_pace *pace, bool near, struct fwd_way *way_p);
/* A call that was to travel by way number `way` has moved all its bytes in that time. */
void fwd_pace_judge(struct fwd_pace *pace, unsigned way, uint64_t bytes, uint64_t ns);

#endif

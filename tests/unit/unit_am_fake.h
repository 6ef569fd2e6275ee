/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network conduit for unit tests of am/: instances of one process, connected by queues whose room
 * the test sets. Thread rule: one thread.
 */
#ifndef UNIT_AM_FAKE_H
#define UNIT_AM_FAKE_H

#include "am/am.h"

/* Facts and knobs of all instances; fake_reset sets the defaults. */
extern struct fake {
    unsigned room[AMPH_NLANES]; /* messages a queue holds */
    bool self_flow, put_then_am;
    uint32_t protocol; /* of instances that are opened from now on, and their provider's name */
    const char *provider;
    unsigned put_again;                  /* number of puts that still find no room */
    bool put_late;                       /* puts complete in the next progress, not at once */
    unsigned sent[AMPH_AM_INTERNAL + 1]; /* messages by kind */
    unsigned puts;
} fake;

extern const struct amph_conduit_ops fake_ops;

void fake_reset(void);

/* Puts a message into the queue of instance number `to` (in order of opening) as if peer had sent
 * it. */
void fake_inject(unsigned to, uint32_t peer, enum amph_lane lane, const struct amph_am *am);

/* Drops the first message of a lane in the queue of instance `to`, as a connection that is reset does. */
void fake_lose(unsigned to, enum amph_lane lane);

/* Tells instance `to` that a peer cannot be reached. */
void fake_fail_peer(unsigned to, uint32_t peer);

#endif

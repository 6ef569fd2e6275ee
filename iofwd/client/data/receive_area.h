/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive areas: memory of a server on another host, into which the client puts the data of large writes
 * before it sends their requests (server/receive_areas.c).  Their slots have the numbers of the slots of the
 * client's transfer area, from which the data is put if it cannot be put from the program's memory.
 *
 * Layer: iofwd.  Thread rule: any thread with signals blocked; a slot belongs to the call that holds it.
 */
#ifndef AMPH_IOFWD_CLIENT_RECEIVE_AREA_H
#define AMPH_IOFWD_CLIENT_RECEIVE_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conduits/conduit.h"

struct amph_client_link;
struct amph_fwd_client;

#define AMPH_CLIENT_RECEIVE_SLOTS 8 /* maximum; a piece may be large */

enum amph_client_receive_state {
    AMPH_CLIENT_RECEIVE_NONE,
    AMPH_CLIENT_RECEIVE_ASKED, /* a thread asks the server for it */
    AMPH_CLIENT_RECEIVE_READY,
    AMPH_CLIENT_RECEIVE_REFUSED
};

/* The put to a slot.  In the link, because it may end after its call: a server that has died answers
 * nothing, and then the call does not wait for it. */
struct amph_client_receive_put {
    struct amph_op op;
    _Atomic bool in_flight;
};

/* The receive area at one server. */
struct amph_client_receive_area {
    _Atomic uint32_t state; /* enum amph_client_receive_state */
    _Atomic uint32_t calls; /* large writes so far; the first ones ask for no area */
    uint32_t nslots;
    bool in_place; /* data is put from the program's memory, without a copy */
    struct amph_rmem memory;
    struct amph_client_receive_put put[AMPH_CLIENT_RECEIVE_SLOTS];
};

/* Returns how many slots the server's receive area has: the data of slots with lower numbers can be put there.
 * 0: the server has none for this client.  Asks the server at a later large write. */
unsigned amph_client_receive_area_slots(struct amph_fwd_client *cl, struct amph_client_link *link);

/* Starts the put of data to the slot with this number.  The data stays until amph_client_receive_area_wait.  A
 * request that is sent afterwards arrives after the data.  0, or EIO: the server is dead. */
int amph_client_receive_area_put(struct amph_fwd_client *cl, struct amph_client_link *link,
                                 unsigned slot, const void *data, size_t len_bytes);

/* Waits until the data of the slot may be changed, after the answer to its request; not if the server is dead. */
void amph_client_receive_area_wait(struct amph_fwd_client *cl, struct amph_client_link *link,
                                   unsigned slot);

#endif

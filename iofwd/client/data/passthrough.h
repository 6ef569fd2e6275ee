/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passthrough, the client's side (wire/passthrough.h): the layer `passthrough` makes the calls that move file
 * data itself, on files whose descriptors the servers of this host have passed to it.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_PASSTHROUGH_H
#define AMPH_IOFWD_CLIENT_PASSTHROUGH_H

#include <stdbool.h>

/* Adds the layer, if IOFWD_PASSTHROUGH allows it.  Before the first call. */
void amph_client_passthrough_open(void);

/* The process is about to have tasks with descriptor tables of their own.  Their calls go to the servers, so those
 * at the offsets of all tasks do from now on. */
void amph_client_passthrough_tables(void);

/* Closes the descriptors that no call is using; the process gets no more.  Returns whether there were any.
 * Signals are blocked. */
bool amph_client_passthrough_give_up(void);

/* Is fd a descriptor that a server has passed? */
bool amph_client_passthrough_owns(int fd);

#endif

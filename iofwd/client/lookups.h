/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `lookups`: calls that only look up a name (stat, statx, access, readlink) are made by the client
 * itself, below directories whose descriptors a server of this host has passed to it (wire/passthrough.h).
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_LOOKUPS_H
#define AMPH_IOFWD_CLIENT_LOOKUPS_H

#include <stdbool.h>

/* Adds the layer, if IOFWD_PASSTHROUGH allows it.  Before the first call. */
void amph_client_lookups_open(void);

/* Closes these descriptors; the process gets no more.  Returns whether there were any.  Signals are blocked. */
bool amph_client_lookups_give_up(void);

/* Has a server passed a directory to this process, or to the one that has forked it?  It is held open there. */
bool amph_client_lookups_any(void);

/* Is fd a directory's descriptor that a server has passed? */
bool amph_client_lookups_own(int fd);

#endif

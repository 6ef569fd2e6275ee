/* SPDX-License-Identifier: BSD-3-Clause */
/* The next server takes over from one that has died; see recovery/failover.c.  Layer: iofwd.
 * Thread rule: see client/internal.h. */
#ifndef AMPH_IOFWD_CLIENT_FAILOVER_H
#define AMPH_IOFWD_CLIENT_FAILOVER_H

#include "iofwd/client/internal.h"

/* Is AMPHORA_ON_SERVER_DEATH=failover? */
bool amph_client_failover_on(void);

/* A call as amph_client_once makes it, at the server that is now the right one, again where that is
 * safe. */
int amph_client_failover_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args);

/* The first server of the client that is there: 0, or EIO where none is.  With
 * amph_client_state.lock held: by the client's opening. */
void amph_client_failover_rotate(struct amph_fwd_client *cl);

/* A file that came with a descriptor from the image before: it is taken care of like one that was
 * opened here, where that image or its parents did so.  Gives the place where the file is open
 * now. */
struct amph_fwd_ref amph_client_failover_adopt(struct amph_fwd_client *cl,
                                               const struct amph_fwd_file *file);
/* the process goes on as another program: its locks go along */
void amph_client_failover_exec(void);
bool amph_client_failover_owns(int fd); /* a descriptor of ours */

/* Around fork, with amph_client_state.lock held: the child will share the open files; undo: it did
 * not come. */
void amph_client_failover_fork(bool undo);
void amph_client_failover_child(void); /* record locks are not inherited */

#endif

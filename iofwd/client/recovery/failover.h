/* SPDX-License-Identifier: BSD-3-Clause */
/* Failover: another server takes the place of one that has died; see recovery/failover.c.
 * Layer: iofwd.  Thread rule: see client/internal.h. */
#ifndef AMPH_IOFWD_CLIENT_FAILOVER_H
#define AMPH_IOFWD_CLIENT_FAILOVER_H

#include <stdbool.h>

#include "iofwd/client/internal.h"

/* Returns whether AMPHORA_ON_SERVER_DEATH=failover. */
bool amph_client_failover_on(void);

/* Executes a call like amph_client_once, at the server that now has its file, and repeats it if
 * that server dies and the call may be repeated. */
int amph_client_failover_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args);

/* Returns whether a server that has a part of the file is known to be dead. */
bool amph_client_file_has_dead(const struct amph_fwd_client *cl, const struct amph_fwd_file *file);

/* Makes cl->servers[0] the client's first server that is not known to be dead. */
void amph_client_failover_rotate(struct amph_fwd_client *cl);

/* Gives a recovery record to a file inherited over exec, if the previous image had one.  Returns
 * the server and handle where the file is open now. */
struct amph_fwd_ref amph_client_failover_adopt(struct amph_fwd_client *cl,
                                               const struct amph_fwd_file *file);
/* Before exec: stores the process's locks for the new image. */
void amph_client_failover_exec(void);
/* Makes the table of records, whose descriptor is to be in each descriptor table of the process. */
void amph_client_records_open(void);
bool amph_client_failover_owns(int fd); /* fd is the table's descriptor */

/* Before fork, with amph_client_state.lock held: counts the child as a process that shares the open
 * files.  undo: fork failed. */
void amph_client_failover_fork(bool undo);
void amph_client_failover_child(
    void); /* in the child: drops its record locks, which are not inherited */

#endif

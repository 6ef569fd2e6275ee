/* SPDX-License-Identifier: BSD-3-Clause */
/* A private server of the process; see client/attach/private_server.c.  Layer: iofwd.  Thread rule: under
 * amph_client_state.lock. */
#ifndef AMPH_IOFWD_CLIENT_OWN_H
#define AMPH_IOFWD_CLIENT_OWN_H

#include <stdbool.h>

/* Starts it if IOFWD_SERVER_HOST (or amph_client_private_server_ask) asks for one and the process
 * belongs to no job.  0, or EIO: the cause was logged. */
int amph_client_private_server_start(void);

/* Overrides the settings before the client opens; NULL: the setting applies.  Texts are copied.
 * ENOMEM. */
int amph_client_private_server_ask(const char *host, const char *path, const char *prefixes);

/* Returns whether fd is the pipe whose end tells the server that its owner has ended. */
bool amph_client_private_server_is(int fd);

#endif

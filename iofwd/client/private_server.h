/* SPDX-License-Identifier: BSD-3-Clause */
/* A server of the process's own; see client/private_server.c.  Layer: iofwd.  Thread rule: under
 * amph_client_state.lock. */
#ifndef AMPH_IOFWD_CLIENT_OWN_H
#define AMPH_IOFWD_CLIENT_OWN_H

#include <stdbool.h>

/* Starts it where IOFWD_SERVER_HOST (or amph_client_private_server_ask) says so and the process
 * belongs to no job.  0, or EIO: the cause was logged. */
int amph_client_private_server_start(void);

/* In place of the settings, before the client is opened; NULL: as the setting says.  Texts are
 * copied.  ENOMEM. */
int amph_client_private_server_ask(const char *host, const char *path, const char *prefixes);

/* Is fd the pipe that tells the server that its owner lives? */
bool amph_client_private_server_is(int fd);

#endif

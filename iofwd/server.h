/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O server: executes the file calls of its clients.  Layer: iofwd.
 * Thread rule: one thread runs a server; the server starts threads of its own.
 */
#ifndef AMPH_IOFWD_SERVER_H
#define AMPH_IOFWD_SERVER_H

#include "base/status.h"

struct fwd_server;

/* Joins the job as a member of the server group and opens all that a server needs: exports (IOFWD_PREFIX), endpoint, door.  Every
 * mistake is logged in one sentence. */
enum amph_status fwd_server_open(struct fwd_server **server_p);

/* Serves until the job has no more clients (or is being ended).  Gives the exit code. */
int fwd_server_run(struct fwd_server *server);

/* Closes all files and leaves the job. */
void fwd_server_close(struct fwd_server *server);

#endif

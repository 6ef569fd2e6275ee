/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O server: executes the file calls of its clients.  Layer: iofwd.
 * Thread rule: one thread runs a server; the server starts threads of its own.
 */
#ifndef AMPH_IOFWD_SERVER_H
#define AMPH_IOFWD_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct amph_server;

/* Opens all that a server needs: exports (IOFWD_PREFIX), endpoint, door.  boot: a place that the
 * caller has taken, the server's from now on; NULL: joins the job as a member of the server group.
 * Every mistake is logged in one sentence. */
struct amph_boot;
enum amph_status amph_server_open(struct amph_boot *boot, struct amph_server **server_p);

/* Serves until the job has no more clients (or is being ended).  Gives the exit code. */
int amph_server_run(struct amph_server *server);

/* Before it runs: it takes the place of one that has died, the `before`th, gives its clients other
 * numbers, and says EIO of the files that were open there. */
void amph_server_set_incarnation(struct amph_server *server, unsigned before);

/* Closes all files and leaves the job. */
void amph_server_close(struct amph_server *server);

/*
 * Servers that belong to no job (boot/standing.h): one process each, and one that watches over
 * them.  Ends at SIGTERM or SIGINT: the address file goes first, then the servers.
 */
struct amph_server_daemon {
    uint32_t nservers;
    const char *address_file; /* NULL with own */
    const char *log;          /* NULL: standard error as it is */
    const char *pid_file;     /* or NULL */
    /* clients of other hosts may come, over this network; NULL: only those of this host */
    const char *conduit;
    bool foreground; /* does not leave its terminal */
    bool
        own; /* one process's own: the address file's text goes to standard output, and when standard input ends, the
                                 servers end after their last client */
};

/* Gives the exit code, in the calling process (which may be the one that only waits for the servers
 * to be ready). */
int amph_server_daemon_run(const struct amph_server_daemon *d);

#endif

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

/* Opens what a server needs: exports (IOFWD_PREFIX), endpoint, listening sockets.  boot: a joined
 * job, which the server takes over; NULL: joins the job as a member of the server group.  Logs each
 * error in one sentence. */
struct amph_boot;
enum amph_status amph_server_open(struct amph_boot *boot, struct amph_server **server_p);

/* Serves until the job has no more clients or is being ended.  Returns the exit code. */
int amph_server_run(struct amph_server *server);

/* To be called before amph_server_run.  The server replaces one that has died, the `before`th in
 * this slot: it numbers its clients differently, and reports EIO for its predecessors' handles. */
void amph_server_set_incarnation(struct amph_server *server, unsigned before);

/* What a server reports to the process that watches over its set. */
enum amph_server_says {
    AMPH_SERVER_SAYS_STOP = 'S',  /* iofwd-ctl has asked for the end of the set */
    AMPH_SERVER_SAYS_EMPTY = 'E', /* it is drained and has no client */
    AMPH_SERVER_SAYS_BUSY = 'B',  /* it is drained and has clients */
    AMPH_SERVER_SAYS_LOG = 'L'    /* the log file is to be opened again */
};

/* How a server of a standing set reaches that process. */
struct amph_server_overseer {
    void (*report)(void *arg, enum amph_server_says what); /* NULL: the server belongs to a job */
    bool (*reopen_log)(void *arg);                         /* in the server; logs its error */
    void *arg;
};

/* To be called before amph_server_run. */
void amph_server_set_overseer(struct amph_server *server,
                              const struct amph_server_overseer *overseer);

/* The set is being drained: the server takes no further clients.  Thread that runs the server. */
void amph_server_refuse_joins(struct amph_server *server);

/* Closes all files and leaves the job. */
void amph_server_close(struct amph_server *server);

/*
 * Standing servers, which belong to no job (boot/standing.h): one process each, and a process that
 * watches them.  SIGTERM or SIGINT ends them: first the address file is removed, then the servers
 * end.
 */
struct amph_server_daemon {
    uint32_t nservers;
    const char *address_file; /* NULL with `own` */
    const char *log;          /* NULL: standard error */
    const char *pid_file;     /* or NULL */
    /* network for clients of other hosts; NULL: only clients of this host */
    const char *conduit;
    bool foreground; /* stays in the foreground */
    /* The servers of one process: the text of the address file goes to standard output, and after
     * the end of standard input the servers end with their last client. */
    bool own;
};

/* Returns the exit code in the calling process, which may be a process that only waits until the
 * servers are ready. */
int amph_server_daemon_run(const struct amph_server_daemon *d);

#endif

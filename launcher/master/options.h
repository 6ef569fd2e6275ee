/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of amphora-run.  Layer: launcher.  Thread rule: one thread. */
#ifndef AMPH_LAUNCHER_OPTIONS_H
#define AMPH_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/os/topo.h"

struct amph_options {
    uint32_t ncompute, nservers;
    char *conduit;     /* a word of AMPHORA_CONDUIT, or NULL: not given */
    const char *hosts; /* host file, or NULL */
    char *host_list;   /* contents of a host file, from -host, or NULL; allocated */
    /* -N: processes are distributed block-wise over this number of hosts; 0: each takes the next
     * slot */
    uint32_t nhosts;
    const char *server_hosts; /* host file of the servers; NULL: the last slots of `hosts` */
    const char *ssh;          /* command that starts agents on other hosts, or NULL: not given */
    /* IOFWD_PREFIX as given (joined where -iofwd was repeated), or NULL; allocated */
    char *prefixes;
    const char *of_servers; /* the last option given that is about servers, or NULL */
    const char *map; /* name of a mapping row, or a list of servers */
    enum amph_bind bind;
    bool label, verbose, progress;
    bool records;                /* calls are recorded: -record */
    bool pretend;                /* names without an address are pretended hosts of this machine */
    bool servers_given;          /* -servers was given */
    const char *on_server_death; /* end, eio or failover */
    double timeout_s;            /* 0: none */
    double grace_s;              /* from the first SIGTERM to SIGKILL */
    const char *server_program;  /* or NULL: iofwd-server */
    bool server_given;           /* by the user */
    char **program;              /* PROGRAM ARGS, NULL-terminated */
};

enum amph_options_result {
    AMPH_OPTIONS_RUN,
    AMPH_OPTIONS_DONE,
    AMPH_OPTIONS_WRONG
};

/* Reads argv.  DONE: help or version was printed.  WRONG: a message was printed. */
enum amph_options_result amph_launch_options_read(struct amph_options *o, int argc, char **argv);

#endif

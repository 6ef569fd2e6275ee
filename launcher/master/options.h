/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of amphora-run.  Layer: launcher.  Thread rule: one thread. */
#ifndef AMPH_LAUNCHER_OPTIONS_H
#define AMPH_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/topo.h"

struct amph_options {
    uint32_t ncompute, nservers;
    char *conduit;     /* a word of AMPHORA_CONDUIT, or NULL: not given */
    const char *hosts; /* host file, or NULL */
    char *host_list;   /* its contents as given by -host, or NULL; allocated */
    /* over so many of them the processes are dealt out in runs; 0: each takes the next place */
    uint32_t nhosts;
    const char *server_hosts; /* host file of the servers, or NULL: the end of the one above */
    const char *ssh;          /* how other hosts are reached, or NULL: not given */
    /* IOFWD_PREFIX as given (joined where -iofwd was repeated), or NULL; allocated */
    char *prefixes;
    const char *map; /* name of a mapping row, or a list of servers */
    enum amph_bind bind;
    bool label, verbose;
    bool pretend;                /* names that stand for nothing are pretended hosts */
    bool servers_given;          /* nservers was said */
    const char *on_server_death; /* end, eio or failover */
    double timeout_s;            /* 0: none */
    double grace_s;              /* from a first SIGTERM to the end of what ignores it */
    const char *server_program;  /* or NULL: iofwd-server */
    bool server_given;           /* by the user */
    char **program;              /* PROGRAM ARGS, NULL-terminated */
};

enum amph_options_result {
    AMPH_OPTIONS_RUN,
    AMPH_OPTIONS_DONE,
    AMPH_OPTIONS_WRONG
};

/* Reads argv.  DONE: help or version was printed.  WRONG: one sentence was printed. */
enum amph_options_result amph_options_read(struct amph_options *o, int argc, char **argv);

#endif

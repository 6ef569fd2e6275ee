/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The netlist: which place is on which host, and who serves whom.  Layer: launcher.  Thread rule: one thread.
 *
 * The first C places are compute processes', the last S servers'.
 */
#ifndef AMPH_LAUNCHER_NETLIST_H
#define AMPH_LAUNCHER_NETLIST_H

#include "boot/boot.h"
#include "launcher/options.h"

/* A host file's contents: places in order, as indices into hosts. */
struct amph_netlist {
    char **host;
    uint32_t nhosts;
    uint32_t *place;
    uint32_t nplaces;
    uint32_t again_line; /* first line that names a host again after another one; 0: none */
};

/* Reads text in the form of a host file; `name` is for messages.  AMPH_ERR_ARG after a sentence. */
enum amph_status amph_netlist_parse(struct amph_netlist *list, const char *name, const char *text);
void amph_netlist_free(struct amph_netlist *list);

/* Fills job's nproc, hosts, proc[].host and server_of from the options (host file or this machine).  AMPH_ERR_ARG after a sentence;
 * free with amph_jobdesc_free. */
enum amph_status amph_netlist_job(const struct amph_options *o, struct amph_jobdesc *job);

/* Fills server_of by a rule (mod, block, near) or a list of server numbers; AMPH_ERR_ARG after a sentence. */
enum amph_status amph_map_servers(struct amph_jobdesc *job, const char *rule);

/* Refuses each host name that stands for another machine, in a sentence. */
enum amph_status amph_hosts_check(const struct amph_jobdesc *job);

#endif

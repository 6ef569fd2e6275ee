/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host files: which slot is on which host, and which server serves which compute process.
 *
 * The first C slots are for the compute processes, the last S slots for the servers.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_HOSTFILE_H
#define AMPH_LAUNCHER_HOSTFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/boot.h"
#include "launcher/master/options.h"

/* Files whose path may be given for one host, or for all hosts of a machine type. */
enum amph_path {
    AMPH_PATH_PROGRAM,
    AMPH_PATH_SERVER,
    AMPH_PATH_RUN,
    AMPH_NPATHS
};

struct amph_paths {
    char *name; /* machine type, as uname -m prints it; NULL: these are the paths of one host */
    char *path[AMPH_NPATHS]; /* or NULL */
};

/* Properties of the job's hosts, except their names. */
struct amph_hostset {
    bool *remote;             /* [nhosts of the job]: reached by ssh, not this machine */
    struct amph_paths *paths; /* [nhosts of the job] */
    struct amph_paths *kinds;
    uint32_t nkinds;
};

/* The contents of a host file. */
struct amph_hostfile {
    char **host;
    struct amph_paths *paths; /* of each host */
    uint32_t nhosts;
    struct amph_paths *kinds; /* of each machine type */
    uint32_t nkinds;
    uint32_t *slot; /* index of the host of each slot, in the order of the file */
    uint32_t nslots;
    uint32_t again_line; /* first line that repeats a host after another host; 0: none */
};

/* Parses the text of a host file; `name` is for messages.  AMPH_ERR_ARG after a message. */
enum amph_status amph_hostfile_parse(struct amph_hostfile *list, const char *name,
                                     const char *text);
void amph_hostfile_free(struct amph_hostfile *list);

/* Fills in job's nproc, hosts, proc[].host, several_machines and server_of, and *hosts_p, from the
 * options (host files or this machine).  AMPH_ERR_ARG after a message.  Free with
 * amph_boot_jobdesc_free and amph_hostset_free. */
enum amph_status amph_hostfile_job(const struct amph_options *o, struct amph_jobdesc *job,
                                   struct amph_hostset *hosts_p);
/* Returns the path that the host file gives for a host, in the host's line or in that of its
 * machine type; NULL if it gives none.  machine: the type as uname -m prints it, or NULL if it
 * is not known yet; not needed if the host is this machine.  The string belongs to the set. */
const char *amph_hostset_path(const struct amph_hostset *hosts, uint32_t host, const char *machine,
                              enum amph_path which);
void amph_hostset_free(struct amph_hostset *hosts, uint32_t nhosts);

/* Fills in server_of by a rule (mod, block, near) or a list of server numbers.  AMPH_ERR_ARG
 * after a message. */
enum amph_status amph_launch_map_servers(struct amph_jobdesc *job, const char *rule);

/* Determines which of the job's hosts are not this machine.  A name without an address is another
 * host if the user gave a command to reach hosts (ssh_given), or if other names of the list are
 * other hosts.  Otherwise it is a pretended host of this machine if its form or `pretend` allows
 * that; if not, AMPH_ERR_NOENT after a message. */
enum amph_status amph_hosts_find(const struct amph_jobdesc *job, bool ssh_given, bool pretend,
                                 bool *remote);

#endif

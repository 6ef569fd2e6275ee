/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host file: which place is on which host, and who serves whom.  Layer: launcher.  Thread rule:
 * one thread.
 *
 * The first C places are compute processes', the last S servers'.
 */
#ifndef AMPH_LAUNCHER_HOSTFILE_H
#define AMPH_LAUNCHER_HOSTFILE_H

#include "boot/boot.h"
#include "launcher/master/options.h"

/* Files that a host, or all machines of a kind, have under paths of their own. */
enum amph_path {
    AMPH_PATH_PROGRAM,
    AMPH_PATH_SERVER,
    AMPH_PATH_RUN,
    AMPH_NPATHS
};

struct amph_paths {
    char *name;              /* of the machine's kind, as uname -m gives it; NULL: of one host */
    char *path[AMPH_NPATHS]; /* or NULL */
};

/* What the host file says of the job's hosts beside their names. */
struct amph_hostset {
    bool *remote;             /* [nhosts of the job]: reached by ssh, not this machine */
    struct amph_paths *paths; /* [nhosts of the job] */
    struct amph_paths *kinds;
    uint32_t nkinds;
};

/* A host file's contents: places in order, as indices into hosts. */
struct amph_hostfile {
    char **host;
    struct amph_paths *paths; /* of each host */
    uint32_t nhosts;
    struct amph_paths *kinds; /* of kinds of machines */
    uint32_t nkinds;
    uint32_t *place;
    uint32_t nplaces;
    uint32_t again_line; /* first line that names a host again after another one; 0: none */
};

/* Reads text in the form of a host file; `name` is for messages.  AMPH_ERR_ARG after a sentence. */
enum amph_status amph_hostfile_parse(struct amph_hostfile *list, const char *name, const char *text);
void amph_hostfile_free(struct amph_hostfile *list);

/* Fills job's nproc, hosts, proc[].host, several_machines and server_of, and *hosts_p, from the
 * options (host files or this machine). AMPH_ERR_ARG after a sentence; free with amph_jobdesc_free
 * and amph_hostset_free. */
enum amph_status amph_hostfile_job(const struct amph_options *o, struct amph_jobdesc *job,
                                  struct amph_hostset *hosts_p);
/* What the host file gives for a host: in its own line, or in that of its kind (as uname -m says;
 * NULL: not known yet, or, where the host is this machine, found out).  NULL: nothing.  The
 * set's. */
const char *amph_hostset_path(const struct amph_hostset *hosts, uint32_t host, const char *machine,
                              enum amph_path which);
void amph_hostset_free(struct amph_hostset *hosts, uint32_t nhosts);

/* Fills server_of by a rule (mod, block, near) or a list of server numbers; AMPH_ERR_ARG after a
 * sentence. */
enum amph_status amph_map_servers(struct amph_jobdesc *job, const char *rule);

/* Which of the job's hosts are not this machine?  ssh_given: the user named a way to reach others,
 * so that a name which stands for no address is one of those, as it is where others of the list are
 * reached by ssh.  Else it is a pretended host of this machine, if its form or `pretend` says so,
 * and refused with a sentence (AMPH_ERR_NOENT) if not. */
enum amph_status amph_hosts_find(const struct amph_jobdesc *job, bool ssh_given, bool pretend,
                                 bool *remote);

#endif

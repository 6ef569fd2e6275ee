/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measurements with servers elsewhere: standing ones, or a job's on other hosts.  Only the process
 * that takes the measurements reaches the servers' files, so it creates and removes the directories.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"
#include "tools/nbmrw/state.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "iofwd.h"

void nbmrw_remove_dir(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);

    if (d)
        closedir(d);

    rmdir(dir);
}

bool nbmrw_make_dir(const char *parent, size_t len, char *dir, size_t size)
{
    snprintf(dir, size, "%.*s/nbmrw.XXXXXX", (int)len, parent);
    if (mkdtemp(dir))
        return true;

    fprintf(stderr, "nbmrw: no directory can be made in %.*s: %s\n", (int)len, parent,
            strerror(errno));
    return false;
}

/* Sets the number of servers.  Returns false after a sentence if a width is larger. */
static bool count_servers(struct options *o)
{
    int error = iofwd_init();

    /* the count below is that of the widest rule */
    if (error == 0 && iofwd_set_stripe("f.*", NBMRW_STREAMS_MAX, 0) != 0)
        error = errno;

    if (error != 0) {
        fprintf(stderr, "nbmrw: the servers of %s are not reached: %s\n",
                o->address_file ? o->address_file : o->hosts, strerror(error));
        return false;
    }

    o->servers = (unsigned)iofwd_servers(NULL, 0);
    for (unsigned w = 0; o->widths_given && w < o->nwidths; w++)
        if (o->widths[w] > o->servers) {
            fprintf(stderr,
                    "nbmrw: a file cannot be shared by %u servers (--widths): %s has %u servers\n",
                    o->widths[w], o->address_file ? o->address_file : o->hosts, o->servers);
            return false;
        }

    return true;
}

int nbmrw_measure_elsewhere(struct options *o)
{
    char *direct = nbmrw_state.direct_dir;
    char *forwarded = nbmrw_state.forwarded_dir;
    const char *parent = o->hosts ? NBMRW_PREFIX : o->prefix;
    int code = 1;

    /* iofwd-run sets this to the prefixes of the address file */
    if (!parent)
        parent = amph_env_str(AMPH_ENV_IOFWD_PREFIX);

    if (!parent || !count_servers(o))
        return 1;

    size_t len = o->prefix ? strlen(parent) : strcspn(parent, ":=");

    if (!nbmrw_make_dir(parent, len, forwarded, NBMRW_DIR_MAX))
        return 1;

    o->forwarded_dir = forwarded;
    o->direct_dir = direct;
    if (!o->dir_given || nbmrw_make_dir(o->dir, strlen(o->dir), direct, NBMRW_DIR_MAX))
        code = nbmrw_measure(o);

    nbmrw_remove_dir(forwarded);
    if (direct[0])
        nbmrw_remove_dir(direct);

    return code;
}

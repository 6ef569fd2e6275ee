/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwarded files as /proc and /dev name them: by the number of a descriptor, of this process or of
 * another one. Layer: iofwd (preload).  Thread rule: any thread, and signal handlers.
 */
#ifndef AMPH_IOFWD_PROCFS_H
#define AMPH_IOFWD_PROCFS_H

#include <limits.h>
#include <stdbool.h>

#include "iofwd/interpose/entry/client.h"

struct amph_ip_numbered {
    enum {
        AMPH_IP_NUMBERED_OWN,
        AMPH_IP_NUMBERED_OTHER,
        AMPH_IP_NUMBERED_CWD
    } what;
    int fd;           /* OWN: a forwarded one; OTHER: of the other process */
    bool alias;       /* by a link to it */
    const char *rest; /* what comes behind, relative to it; "": nothing */
    char link[64];    /* OTHER: the path as far as that */
};

/* Is path /dev/fd/N, /dev/stdin, /proc/self/fd/N, /proc/PID/task/TID/fd/N, /proc/self/cwd or what
 * lies below one?  Only if it leads to a forwarded file, or, where the descriptor is another
 * process's, may. */
bool amph_ip_numbered(const char *path, struct amph_ip_numbered *n);

/* false: path is none, as is seen quickly. */
static inline bool amph_ip_may_be_numbered(const char *path)
{
    return path[0] == '/' && (path[1] == 'd' || path[1] == 'p' || path[1] == '/' || path[1] == '.');
}

/* The file of another process's descriptor, with a reference; NULL: it is no forwarded one.
 * ENOENT: the server has it no more. */
int amph_ip_file_of_other(const struct amph_ip_numbered *n, struct amph_fd_file **of_p);

/* A name that could be one in a directory of descriptors. */
static inline bool amph_ip_is_number(const char *path)
{
    if (AMPH_LIKELY(path[0] < '0' || path[0] > '9'))
        return false;

    while (*path >= '0' && *path <= '9')
        path++;

    return !*path;
}

#endif

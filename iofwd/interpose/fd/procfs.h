/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwarded files by their names in /proc and /dev: the number of a descriptor of this process or of
 * another one.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#ifndef AMPH_IOFWD_PROCFS_H
#define AMPH_IOFWD_PROCFS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/platform.h"
#include "iofwd/interpose/attach/client.h"

struct amph_ip_numbered {
    enum {
        AMPH_IP_NUMBERED_OWN,
        AMPH_IP_NUMBERED_NEAR,
        AMPH_IP_NUMBERED_OTHER,
        AMPH_IP_NUMBERED_CWD
    } what;
    int fd; /* OWN: a forwarded one; NEAR: a local one (amph_ip_near_has); OTHER: of the other process */
    bool alias;       /* named by a link such as /dev/stdin */
    const char *rest; /* the rest of the path, relative to it; "": nothing */
    char link[64];    /* OTHER: the path up to the descriptor */
};

/* Returns whether path is /dev/fd/N, /dev/stdin, /proc/self/fd/N, /proc/PID/task/TID/fd/N,
 * /proc/self/cwd, or a path below one of these.  Returns true only if the descriptor is forwarded,
 * or of a file that this process has opened by itself (near.h), or belongs to another process (or to a thread with
 * another descriptor table) and may be forwarded. */
bool amph_ip_numbered(const char *path, struct amph_ip_numbered *n);

/* A quick check before amph_ip_numbered; false: path is certainly not such a name. */
static inline bool amph_ip_may_be_numbered(const char *path)
{
    if (path[0] != '/')
        return false;

    if (path[1] == 'p' || path[1] == '/' || path[1] == '.')
        return true;

    /* of /dev the names fd, stdin, stdout and stderr; /dev/null costs nothing more */
    return path[1] == 'd' && path[2] == 'e' && path[3] == 'v' && path[4] == '/' &&
           (path[5] == 'f' || path[5] == 's' || path[5] == '/' || path[5] == '.');
}

/* Reads the link of a descriptor that is not forwarded.  The kernel names a file that a process has opened by itself
 * (path/near.h) by its path on this host, and the program gets its name below the prefix. */
ssize_t amph_ip_readlink_numbered(int dir, const char *path, char *buf, size_t cap_bytes);

/* Gets the open file of another process's descriptor with a reference; NULL: it is not forwarded.
 * ENOENT: the server no longer has it. */
int amph_ip_file_of_other(const struct amph_ip_numbered *n, struct amph_fd_file **of_p);

/* Is path a decimal number, as the names in a directory of descriptors are? */
static inline bool amph_ip_is_number(const char *path)
{
    if (AMPH_LIKELY(path[0] < '0' || path[0] > '9'))
        return false;

    while (*path >= '0' && *path <= '9')
        path++;

    return !*path;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a path leads: to the C library or to a server, and in what form.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; a amph_ip_resolved belongs to the call that
 * made it.
 */
#ifndef AMPH_IOFWD_WHERE_H
#define AMPH_IOFWD_WHERE_H

#include <limits.h>
#include <stdbool.h>

#include "iofwd/interpose/entry/client.h"

/* /proc/self/fd/N and its like are links that lead to an open file, /dev/stdin is a link to such a
 * link. */
enum amph_ip_naming {
    AMPH_IP_BY_NAME,
    AMPH_IP_BY_NUMBER,
    AMPH_IP_BY_ALIAS
};

struct amph_ip_resolved {
    bool local;
    enum amph_ip_naming by; /* how the path has named dir, if path is "" */
    /* local: for the C library, with dirfd; forwarded: absolute, or relative to dir ("": dir
     * itself) */
    const char *path;
    int dirfd;
    struct amph_fd_file *dir; /* forwarded: a reference is held; or NULL */
    const char *base;         /* dir's name when it was opened, "" if not known */
    char buf[PATH_MAX + 2];
};

/* Finds out where (dir, path) leads, dir as for openat.  If it is forwarded, the client is open
 * (core.h) and amph_ip_resolve_end must follow.  empty_ok: AT_EMPTY_PATH was given.  false: errno
 * says why, and there is nothing to end. */
bool amph_ip_resolve(struct amph_ip_resolved *w, int dir, const char *path, bool empty_ok);

/* Ends a forwarded call: 0, or -1 with errno = err. */
int amph_ip_resolve_end(struct amph_ip_resolved *w, int err);

/* The two arguments that stand for a path in the client's calls. */
#define AMPH_IP_AT(w) ((w)->dir ? &(w)->dir->file : NULL), (w)->path

/* The server refused w with err, EACCES, and that because a link on the path has an absolute target
 * outside of the prefixes, which is this host's as on a mount: the real path, into out.  itself: a
 * link at the end was not to be followed. */
bool amph_ip_leads_out(const struct amph_ip_resolved *w, int err, bool itself, char out[PATH_MAX]);

/* The kernel does not find a local path; if a symbolic link on it leads below a prefix, the path
 * there, into out.  dir as for openat. */
bool amph_ip_link_leads_in(int dir, const char *path, char out[PATH_MAX]);

/* The name of a local directory, or of the kernel's working directory (AT_FDCWD); false: it has
 * none. */
bool amph_ip_name_of_local(int dir, char name[PATH_MAX]);

/* The same, and w, which was forwarded, has become that path of this host, and is ended. */
bool amph_ip_went_out(struct amph_ip_resolved *w, int err, bool itself);

/* The absolute form of what w names, into buf; false if it is not known or does not fit. */
bool amph_ip_resolve_absolute(const struct amph_ip_resolved *w, char *buf, size_t cap_bytes);

#endif

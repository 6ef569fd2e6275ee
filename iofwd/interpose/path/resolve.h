/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a path leads: to the C library or to a server, and in what form.  Layer: iofwd (preload).
 * Thread rule: any thread; a fwd_where belongs to the call that made it.
 */
#ifndef AMPH_IOFWD_WHERE_H
#define AMPH_IOFWD_WHERE_H

#include <limits.h>
#include <stdbool.h>

#include "iofwd/interpose/entry/client.h"

/* /proc/self/fd/N and its like are links that lead to an open file, /dev/stdin is a link to such a link. */
enum fwd_naming { FWD_BY_NAME, FWD_BY_NUMBER, FWD_BY_ALIAS };

struct fwd_where {
    bool local;
    enum fwd_naming by; /* how the path has named dir, if path is "" */
    const char *path;      /* local: for the C library, with dirfd; forwarded: absolute, or relative to dir ("": dir itself) */
    int dirfd;
    struct fwd_ofile *dir; /* forwarded: a reference is held; or NULL */
    const char *base;      /* dir's name when it was opened, "" if not known */
    char buf[PATH_MAX + 2];
};

/* Finds out where (dir, path) leads, dir as for openat.  If it is forwarded, the client is open (core.h) and
 * fwd_where_end must follow.  empty_ok: AT_EMPTY_PATH was given.  false: errno says why, and there is nothing to end. */
bool fwd_where_find(struct fwd_where *w, int dir, const char *path, bool empty_ok);

/* Ends a forwarded call: 0, or -1 with errno = err. */
int fwd_where_end(struct fwd_where *w, int err);

/* The two arguments that stand for a path in the client's calls. */
#define FWD_AT(w) ((w)->dir ? &(w)->dir->file : NULL), (w)->path

/* The server refused w with err, EACCES, and that because a link on the path has an absolute target outside of the prefixes, which is
 * this host's as on a mount: the real path, into out.  itself: a link at the end was not to be followed. */
bool fwd_leads_out(const struct fwd_where *w, int err, bool itself, char out[PATH_MAX]);

/* The kernel does not find a local path; if a symbolic link on it leads below a prefix, the path there, into out.  dir as for openat. */
bool fwd_link_leads_in(int dir, const char *path, char out[PATH_MAX]);

/* The name of a local directory, or of the kernel's working directory (AT_FDCWD); false: it has none. */
bool fwd_name_of_local(int dir, char name[PATH_MAX]);

/* The same, and w, which was forwarded, has become that path of this host, and is ended. */
bool fwd_went_out(struct fwd_where *w, int err, bool itself);

/* The absolute form of what w names, into buf; false if it is not known or does not fit. */
bool fwd_where_absolute(const struct fwd_where *w, char *buf, size_t cap_bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolves a path: is it local or forwarded, and how is it named there?
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; an amph_ip_resolved belongs to the call that
 * made it.
 */
#ifndef AMPH_IOFWD_WHERE_H
#define AMPH_IOFWD_WHERE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "iofwd/interpose/attach/client.h"

/* How a path named a file by its descriptor: /proc/self/fd/N and the like are links that lead to an
 * open file, /dev/stdin is a link to such a link. */
enum amph_ip_naming {
    AMPH_IP_BY_NAME,
    AMPH_IP_BY_NUMBER,
    AMPH_IP_BY_ALIAS
};

struct amph_ip_resolved {
    bool local;
    bool numbered; /* local: the path is the name of a descriptor, perhaps of another process */
    bool alias;    /* it is a link to such a name, as /dev/stdin */
    enum amph_ip_naming by; /* how the path named dir, if path is "" */
    /* local: for the C library, with dirfd; forwarded: absolute, or relative to dir ("": dir
     * itself), one of whose descriptors is dirfd */
    const char *path;
    int dirfd;
    struct amph_fd_file *dir; /* forwarded: holds a reference; or NULL */
    const char *base;         /* dir's name when it was opened, "" if unknown */
    char buf[PATH_MAX + 2];
};

/* Resolves (dir, path), dir as for openat.  If the result is forwarded, the client is open
 * (attach/client.h) and the caller must call amph_ip_resolve_end.  empty_ok: AT_EMPTY_PATH was
 * given.  Returns false with errno on error; then there is nothing to end. */
bool amph_ip_resolve(struct amph_ip_resolved *w, int dir, const char *path, bool empty_ok);

/* The same, but does not open the client: for calls that the process may be able to make by itself (near.h).  If it
 * cannot, amph_ip_resolve_enter must follow; it returns false with errno on error, and has ended w then. */
bool amph_ip_resolve_near(struct amph_ip_resolved *w, int dir, const char *path, bool empty_ok);
bool amph_ip_resolve_enter(struct amph_ip_resolved *w);

/* Ends a forwarded call.  Returns 0, or -1 with errno = err. */
int amph_ip_resolve_end(struct amph_ip_resolved *w, int err);

/* The two arguments of the client's calls that name a file. */
#define AMPH_IP_AT(w) ((w)->dir ? &(w)->dir->file : NULL), (w)->path

/* The server refused w with err = EACCES.  Did it do so because a link on the path has an absolute
 * target outside of the prefixes, which as on a mount means this host's tree?  Then writes the real
 * path to out and returns true.  itself: a link at the end was not to be followed. */
bool amph_ip_leads_out(const struct amph_ip_resolved *w, int err, bool itself, char out[PATH_MAX]);

/* The kernel does not find a local path.  If a symbolic link on it leads below a prefix, writes the
 * path there to out.  dir as for openat. */
bool amph_ip_link_leads_in(int dir, const char *path, char out[PATH_MAX]);

/* Writes the name of a local directory or of the kernel's working directory (AT_FDCWD).  false: it
 * has none. */
bool amph_ip_name_of_local(int dir, char name[PATH_MAX]);

/* The same, but ends the forwarded w and makes it that local path. */
bool amph_ip_went_out(struct amph_ip_resolved *w, int err, bool itself);

/* Writes the absolute path of w to buf.  false: unknown, or too long. */
bool amph_ip_resolve_absolute(const struct amph_ip_resolved *w, char *buf, size_t cap_bytes);

#endif

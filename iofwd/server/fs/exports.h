/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's exports, and the resolution of paths below them.  Nothing outside of the exports can
 * be reached.
 *
 * IOFWD_PREFIX=/a:/b=/srv/b names the exports: the name that clients use and, after =, the server's
 * directory if it is another one.  The kernel confines each lookup (openat2 with RESOLVE_BENEATH
 * and RESOLVE_NO_MAGICLINKS).  If it refuses because a symbolic link is absolute or leads up, the
 * path is walked component by component: a link whose target is below an export is followed, any
 * other one gives EACCES.
 *
 * Exports nest like mount points.  With the exports /a and /a/b, the entry b of the directory of /a
 * is hidden: neither "..", nor a link, nor a path below /a leads to it.  The name of an export, and
 * the directories that lead to it, cannot be removed or renamed.
 *
 * Layer: iofwd.
 * Thread rule: exports are opened once and do not change afterwards; all other functions may be
 * called by any thread.
 */
#ifndef AMPH_IOFWD_EXPORTS_H
#define AMPH_IOFWD_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct amph_server_export {
    char *name; /* the name that clients use, without trailing slash ("" for the root) */
    size_t name_len;
    char *dir; /* the directory on this host, with all links resolved */
    size_t dir_len;
    int fd;           /* O_PATH descriptor of dir */
    bool readonly;    /* changes fail with EROFS */
    bool outer;       /* its name contains the names of other exports */
    uint64_t ns_ewma; /* average time of a call by path; kept by the progress thread */
};

struct amph_server_exports {
    struct amph_server_export *item;
    size_t n;
};

/* Opens all exports of spec.  Logs a syntax error or a missing directory in one sentence. */
enum amph_status amph_server_exports_open(const char *spec, struct amph_server_exports *ex);
/* Makes the exports of names, PATH[:PATH]..., read-only.  Logs a name that is no export in one
 * sentence. */
enum amph_status amph_server_exports_protect(struct amph_server_exports *ex, const char *names);
/* Warns of read-only exports whose files can be changed under the name of another export. */
void amph_server_exports_warn(const struct amph_server_exports *ex);
void amph_server_exports_close(struct amph_server_exports *ex);

/* Returns the export with the longest name above path (own: with the longest directory, for paths
 * of this host), and the rest of path. */
const struct amph_server_export *amph_server_export_of(const struct amph_server_exports *ex,
                                                       const char *path, bool own,
                                                       const char **rest_p);
/* Returns another export whose name is at, a path below e without links and dots; with above, also
 * one whose name is below at. */
const struct amph_server_export *amph_server_export_at(const struct amph_server_exports *ex,
                                                       const struct amph_server_export *e,
                                                       const char *at, bool above);
/* Returns the export that contains the name of e, and stores the path of e in it; NULL: none. */
const struct amph_server_export *amph_server_export_around(const struct amph_server_exports *ex,
                                                           const struct amph_server_export *e,
                                                           const char **at_p);

/* ---- resolve.c ---- */

/* A path below an export: where the lookup starts, and what remains to be looked up. */
struct amph_server_path {
    const struct amph_server_exports *all;
    const struct amph_server_export *export;
    int base; /* descriptor of the export, or of the directory that rel starts from */
    /* relative; may point into buf.  "": base itself, see amph_server_path_reopen */
    const char *rel;
    bool walked;        /* only the last component of rel may be a link */
    const char *reason; /* text for an EACCES that the confinement caused */
    char buf[4096 + 256];
};

/* Prepares pl: finds the export of an absolute path; a relative path starts at dir_fd, which is in
 * dir_export.  Returns 0, EACCES (below no export), ENOENT (empty path) or ENAMETOOLONG. */
int amph_server_path_find(const struct amph_server_exports *ex,
                          const struct amph_server_export *dir_export, int dir_fd, const char *path,
                          struct amph_server_path *pl);

/* Makes pl name the open file dir_fd itself, which need not be a directory. */
void amph_server_path_reopen(struct amph_server_path *pl);

/* Opens the path with the flags and mode of open; O_CLOEXEC is added.  Returns a descriptor or a
 * negative errno.  -EXDEV: links lead into another export, which is read-only, and the flags ask
 * for more than reading.  Then nothing has been opened, pl names the path in that export, and a
 * second call opens it. */
int amph_server_path_open(struct amph_server_path *pl, int flags, mode_t mode);

/* beneath.c: opens rel below base like openat2 with RESOLVE_BENEATH and `resolve`.  -EXDEV: the
 * path may lead outside (without openat2 also: it contains a link or "..", and the caller must walk
 * it). */
int amph_server_open_beneath(int base, const char *rel, int flags, mode_t mode, uint64_t resolve);
/* Makes amph_server_open_beneath work without openat2, as on kernels before 5.6.  For tests. */
void amph_server_open_by_parts(bool always);

/* Opens the directory that contains the last component of the path, and returns that component in
 * *last_p ("." for an export itself).  Returns a descriptor, which amph_server_path_put_parent
 * closes, or a negative errno. */
int amph_server_path_parent(struct amph_server_path *pl, const char **last_p);
void amph_server_path_put_parent(struct amph_server_path *pl, int fd);

/* Is the path that amph_server_path_parent has found the name of another export?  With above: or of
 * a directory that leads to one? */
bool amph_server_path_is_export(const struct amph_server_path *pl, bool above);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server exports, and finding places under it without ever leaving it.  Layer: iofwd. Thread
 * rule: exports are made once and then read-only; everything else is callable from any thread.
 *
 * IOFWD_PREFIX=/a:/b=/srv/b names exports: the name that clients use, and after = the server's
 * directory (else the same). The kernel confines every look-up (openat2 with RESOLVE_BENEATH and
 * RESOLVE_NO_MAGICLINKS).  Where it refuses because a symbolic link is absolute or climbs, the path
 * is walked by hand: a link whose target lies under an export is followed, any other answers
 * EACCES.
 *
 * Exports lie in each other as mounts do: under /a and /a/b nobody comes by /a, ".." or links to
 * what the directory of /a has as b; the places where others begin, and what leads to them, keep
 * their names.
 */
#ifndef AMPH_IOFWD_EXPORTS_H
#define AMPH_IOFWD_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct amph_server_export {
    char *name; /* as clients say it, without trailing slash ("" for the root) */
    size_t name_len;
    char *dir; /* on this host, with all links resolved */
    size_t dir_len;
    int fd;           /* O_PATH of dir */
    bool readonly;    /* nothing in it may be changed: EROFS */
    bool outer;       /* the names of others lie below its name */
    uint64_t ns_ewma; /* time of a call by path; the server's progress thread keeps it */
};

struct amph_server_exports {
    struct amph_server_export *item;
    size_t n;
};

/* Opens all exports of spec; a mistake or a missing directory is logged in one sentence. */
enum amph_status amph_server_exports_open(const char *spec, struct amph_server_exports *ex);
/* Makes the exports with these names, PATH[:PATH]..., read-only; a name that is no export is logged
 * in one sentence. */
enum amph_status amph_server_exports_protect(struct amph_server_exports *ex, const char *names);
/* Warns of read-only exports whose files can be changed by the name of another export. */
void amph_server_exports_warn(const struct amph_server_exports *ex);
void amph_server_exports_close(struct amph_server_exports *ex);

/* A path under an export: where a look-up starts and what is left to look up. */
struct amph_server_path {
    const struct amph_server_exports *all;
    const struct amph_server_export *export;
    int base; /* descriptor of the export, or of the directory that rel starts from */
    /* never absolute; may point into buf; "": base itself, of which amph_server_path_reopen
     * says so */
    const char *rel;
    bool walked;        /* rel has no links left but perhaps its last part */
    const char *reason; /* of an EACCES that confinement decided */
    char buf[4096 + 256];
};

/* Finds the export of an absolute path, or takes dir_fd (of dir_export) and a relative one.  0,
 * EACCES (under no export), ENOENT (empty), ENAMETOOLONG. */
int amph_server_path_find(const struct amph_server_exports *ex,
                          const struct amph_server_export *dir_export, int dir_fd, const char *path,
                          struct amph_server_path *pl);

/* Makes the place the open file that a look-up was to start from, which need be no directory. */
void amph_server_path_reopen(struct amph_server_path *pl);

/* Opens the place with open flags (O_CLOEXEC is added), mode as given.  Gives a descriptor or a
 * negative errno; -EXDEV: links lead into another export, which is read-only, and the flags are not
 * those of a reader.  Nothing has been opened then, the place lies there now, and another call
 * opens it. */
int amph_server_path_open(struct amph_server_path *pl, int flags, mode_t mode);

/* beneath.c: opens rel, which lies below base, as openat2 with RESOLVE_BENEATH and `resolve` does;
 * -EXDEV: it may lie outside (without openat2 also: there is a link or ".." on the way, which the
 * caller has to walk). */
int amph_server_open_beneath(int base, const char *rel, int flags, mode_t mode, uint64_t resolve);
/* Without openat2, as on kernels before 5.6; for tests. */
void amph_server_open_by_parts(bool always);

/* The directory that holds the place, and its last part there ("." for an export itself).  Gives a
 * descriptor, to be given back with amph_server_path_put_parent, or a negative errno. */
int amph_server_path_parent(struct amph_server_path *pl, const char **last_p);
void amph_server_path_put_parent(struct amph_server_path *pl, int fd);

/* Does the place that amph_server_path_parent has found bear the name of another export, or, with
 * above, lead to one? */
bool amph_server_path_is_export(const struct amph_server_path *pl, bool above);

#endif

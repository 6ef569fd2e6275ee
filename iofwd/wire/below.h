/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Look-ups below a directory that a process has open, in place of its server (client/lookups.c,
 * interpose/path/near.c).  A link must not be followed, since it may lead out of the export, where only the server
 * can say what it means.  So the directory on the way is looked up first, without links and below the base; the
 * call itself is then one system call relative to the base, as the program would make it without forwarding.
 *
 * Layer: iofwd.  Uses the C library only.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_BELOW_H
#define AMPH_IOFWD_BELOW_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/platform.h"

/* The C library's functions that the preload library does not catch. */
struct amph_fwd_host_calls {
    ssize_t (*read)(int fd, void *buf, size_t len);
    ssize_t (*write)(int fd, const void *data, size_t len);
    ssize_t (*pread)(int fd, void *buf, size_t len, off_t off);
    ssize_t (*pwrite)(int fd, const void *data, size_t len, off_t off);
    off_t (*lseek)(int fd, off_t off, int whence);
    int (*ftruncate)(int fd, off_t length);
    int (*fsync)(int fd);
    int (*fdatasync)(int fd);
    int (*fstat)(int fd, struct stat *st);
    int (*fstatat)(int dir, const char *path, struct stat *st, int flags);
    int (*statx)(int dir, const char *path, int flags, unsigned mask, struct statx *stx);
    int (*faccessat)(int dir, const char *path, int amode, int flags);
    ssize_t (*readlinkat)(int dir, const char *path, char *target, size_t len);
    int (*openat2)(int dir, const char *path, const struct open_how *how, size_t size);
    int (*close)(int fd);
    int (*fcntl)(int fd, int command, void *arg);
    /* Does the process hold record locks on this file, which the close of any of its descriptors would drop?  It
     * asks only about those that its own calls on local files may have set.  NULL: it makes none. */
    bool (*holds_locks)(int fd);
};

/* ---- directories on the way ---- */

#define FWD_PLAIN_DIRECTORIES 64u
#define FWD_PLAIN_BYTES 160u /* longer paths are not remembered */

/* Which base, and which state of it.  Equal keys mean that what was found once still holds, for as long as the
 * caller believes in it. */
struct amph_fwd_plain_key {
    uint64_t base;
    uint32_t generation, names;
};

/* A directory that has been reached from a base without links. */
struct amph_fwd_plain {
    _Atomic bool busy AMPH_ALIGN_LINE; /* a thread uses it */
    bool known;
    struct amph_fwd_plain_key key;
    uint64_t looked_ns;
    size_t len;
    char path[FWD_PLAIN_BYTES];
};

struct amph_fwd_plains {
    struct amph_fwd_plain item[FWD_PLAIN_DIRECTORIES];
};

#define FWD_BELOW_ASK (-1) /* only the server can answer */

/* May a part of the path be ".."?  Then a missing part says nothing: in the name of a directory that was removed it
 * leads to those that were above it. */
static inline bool amph_fwd_below_climbs(const char *path)
{
    return strstr(path, "..");
}

/* The way to the directory of the path's last component.  0: the kernel reaches it without following a link; ENOENT:
 * there is no such directory; FWD_BELOW_ASK.  rel: the path below base_fd.  What was found is remembered for
 * max_age_ns, unless key is NULL. */
int amph_fwd_below_way(struct amph_fwd_plains *plains, const struct amph_fwd_host_calls *host,
                       int base_fd, const char *rel, const struct amph_fwd_plain_key *key,
                       uint64_t max_age_ns);

/* ---- look-ups, where amph_fwd_below_way returns 0 ---- */

/* The flags of a call that does not follow a link.  An empty path means base_fd itself. */
static inline int amph_fwd_below_itself(const char *rel)
{
    return AT_SYMLINK_NOFOLLOW | (rel[0] ? 0 : AT_EMPTY_PATH);
}

/* Return 0, ENOENT or FWD_BELOW_ASK; of a file that is no link, readlink returns EINVAL. */
int amph_fwd_below_stat(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                        int flags, struct stat *st);
int amph_fwd_below_statx(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                         int flags, unsigned mask, struct statx *stx);
int amph_fwd_below_access(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                          int amode, int flags);
int amph_fwd_below_readlink(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                            char *target, size_t cap_bytes, size_t *len_p);

#endif

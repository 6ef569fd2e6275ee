/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that the process opens by itself, because its servers run on the same host for the same user, with the
 * same view of its files, and export directories that it can open too: regular files, directories, what a name says
 * (stat, access, readlink), and changes of names (unlink, rename, mkdir).  The servers, and the library that talks
 * to them, are not needed for these calls.
 *
 * A regular file that is opened this way is a local one for the interposer.  A directory is a forwarded one whose
 * descriptor is not a placeholder but the directory itself (struct amph_fd_file, near); it gets a handle at its
 * server when a call needs that (amph_ip_near_reach).
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#ifndef AMPH_IOFWD_INTERPOSE_NEAR_H
#define AMPH_IOFWD_INTERPOSE_NEAR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "iofwd/interpose/path/resolve.h"

/* Looks whether the settings allow it; constructor.  env: nothing keeps the list. */
void amph_ip_near_start(char **env);

/* Each makes a call on the forwarded path w; *err_p: 0 or the errno value that the program gets.  false: the server
 * has to make the call, and nothing has happened. */
bool amph_ip_near_stat(const struct amph_ip_resolved *w, int flags, struct stat *st, int *err_p);
/* The same for a path that is given as to fstatat.  Only of simple ones, which do not climb, it answers true. */
bool amph_ip_near_stat_simple(int dir, const char *path, int flags, struct stat *st, int *err_p);
bool amph_ip_near_statx(const struct amph_ip_resolved *w, int flags, unsigned mask,
                        struct statx *stx, int *err_p);
bool amph_ip_near_access(const struct amph_ip_resolved *w, int amode, int flags, int *err_p);
bool amph_ip_near_readlink(const struct amph_ip_resolved *w, char *target, size_t cap_bytes,
                           size_t *len_p, int *err_p);
/* The value of an attribute; name NULL: the names of all.  The kernel writes to the program's memory, or refuses it
 * (EFAULT). */
bool amph_ip_near_xattr(const struct amph_ip_resolved *w, int flags, const char *name, void *value,
                        size_t cap_bytes, ssize_t *len_p, int *err_p);

/* inotify_add_watch for a path that may be forwarded: EOPNOTSUPP if this process cannot open it by itself. */
int amph_ip_near_watch(int notes, const char *path, uint32_t mask);

/* A file that has been opened.  The descriptor is the program's. */
struct amph_ip_near_opened {
    int fd;
    bool directory;
    bool readonly; /* below an export that must not be changed */
};

bool amph_ip_near_open(const struct amph_ip_resolved *w, int flags, mode_t mode,
                       struct amph_ip_near_opened *o, int *err_p);

/* Each changes names; as the calls above. */
bool amph_ip_near_unlink(const struct amph_ip_resolved *w, int flags, int *err_p);
bool amph_ip_near_mkdir(const struct amph_ip_resolved *w, mode_t mode, int *err_p);
bool amph_ip_near_rename(const struct amph_ip_resolved *from, const struct amph_ip_resolved *to,
                         unsigned flags, int *err_p);
bool amph_ip_near_symlink(const char *target, const struct amph_ip_resolved *w, int *err_p);
bool amph_ip_near_link(const struct amph_ip_resolved *from, const struct amph_ip_resolved *to,
                       int flags, int *err_p);
/* The old name is for the kernel: a descriptor of a file that this process has opened by itself.  false: no name can be
 * given there, *err_p is EROFS or EXDEV. */
bool amph_ip_near_link_file(int from_dir, const char *from, const struct amph_ip_resolved *to,
                            int flags, int *err_p);

/* Each changes attributes of what a name leads to, or with AT_SYMLINK_NOFOLLOW of a link itself. */
bool amph_ip_near_chmod(const struct amph_ip_resolved *w, mode_t mode, int flags, int *err_p);
bool amph_ip_near_chown(const struct amph_ip_resolved *w, uid_t uid, gid_t gid, int flags,
                        int *err_p);
bool amph_ip_near_utimens(const struct amph_ip_resolved *w, const struct timespec *times, int flags,
                          int *err_p);

/* Opens the file behind fd, which amph_ip_near_has, at its server, for reading.  Returns the descriptor of the
 * forwarded file; -1: the file has no name any more, or fd leads to another one. */
int amph_ip_near_lead(int fd);

/* Does this process hold record locks on the file, which a close of fd would drop?  false also if it has opened no file
 * by itself. */
bool amph_ip_near_holds_locks(int fd);

/* Opens by this process the file that a server has open, which has these attributes there.  access: O_RDWR or
 * O_RDONLY.  -1: that cannot be.  The caller closes the descriptor. */
int amph_ip_near_same(const struct amph_fwd_file *file, const struct stat *st, int access);

/* A new entry of the table for a directory that was opened with these flags; NULL: no memory. */
struct amph_fd_file *amph_ip_near_file(int flags, bool readonly);

/* The name below a prefix of the file whose path on this host is real.  false: it is below no export. */
bool amph_ip_near_name_of(const char *real, char name[PATH_MAX]);

/* The name below a prefix of the directory behind fd.  false: it has none. */
bool amph_ip_near_name(int fd, char name[PATH_MAX]);

/* Is the directory behind fd below the export of this name, below a prefix? */
bool amph_ip_near_is_in(int fd, const char *known);

/* Lists the directories and files that a program would inherit which this one starts.
 * false: there are none. */
bool amph_ip_near_list(char *text, size_t cap_bytes);
/* Enters them in the tables; constructor.  A number of nothing below an export is left out. */
void amph_ip_near_inherit_all(const char *text);
/* The same for one.  Returns whether it is a directory of the table now. */
bool amph_ip_near_inherit(int fd);

/* Around a fork, whose child must not find the lock of amph_ip_near_reach held. */
void amph_ip_near_fork_lock(bool take);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that the process reads by itself, because its servers run on the same host for the same user, with the
 * same view of its files, and export directories that it can open too: regular files that are opened only to be
 * read, directories, and what a name says (stat, access, readlink).  The servers, and the library that talks to
 * them, are not needed for these calls.
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
#include <sys/stat.h>

#include "iofwd/interpose/path/resolve.h"

/* Looks whether the settings allow it; constructor.  env: nothing keeps the list. */
void amph_ip_near_start(char **env);

/* Each makes a call on the forwarded path w; *err_p: 0 or the errno value that the program gets.  false: the server
 * has to make the call, and nothing has happened. */
bool amph_ip_near_stat(const struct amph_ip_resolved *w, int flags, struct stat *st, int *err_p);
bool amph_ip_near_statx(const struct amph_ip_resolved *w, int flags, unsigned mask,
                        struct statx *stx, int *err_p);
bool amph_ip_near_access(const struct amph_ip_resolved *w, int amode, int flags, int *err_p);
bool amph_ip_near_readlink(const struct amph_ip_resolved *w, char *target, size_t cap_bytes,
                           size_t *len_p, int *err_p);
/* The value of an attribute; name NULL: the names of all.  The kernel writes to the program's memory, or refuses it
 * (EFAULT). */
bool amph_ip_near_xattr(const struct amph_ip_resolved *w, const char *name, void *value,
                        size_t cap_bytes, ssize_t *len_p, int *err_p);

/* A file that has been opened.  The descriptor is the program's. */
struct amph_ip_near_opened {
    int fd;
    bool directory;
    bool readonly; /* below an export that must not be changed */
};

bool amph_ip_near_open(const struct amph_ip_resolved *w, int flags, struct amph_ip_near_opened *o,
                       int *err_p);

/* Opens the file behind fd, which amph_ip_near_has, at its server, for reading.  Returns the descriptor of the
 * forwarded file; -1: the file has no name any more, or fd leads to another one. */
int amph_ip_near_lead(int fd);

/* A new entry of the table for a directory that was opened with these flags; NULL: no memory. */
struct amph_fd_file *amph_ip_near_file(int flags, bool readonly);

/* The name below a prefix of the directory behind fd.  false: it has none. */
bool amph_ip_near_name(int fd, char name[PATH_MAX]);

/* Lists the directories that a program would inherit which this one starts.  false: there are none. */
bool amph_ip_near_tell(char *text, size_t cap_bytes);
/* Enters them in the table; constructor.  A number that is no directory below an export is left out. */
void amph_ip_near_inherit_all(const char *text);
bool amph_ip_near_inherit(int fd);

/* Around a fork, whose child must not find the lock of amph_ip_near_reach held. */
void amph_ip_near_fork_lock(bool take);

#endif

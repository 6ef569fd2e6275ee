/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: files of other users than this process's (allow_other, iofwd-run -mount as root).
 *
 * The servers make a file as their own user.  It is then given to the user whose program has made it, as on
 * a local disk.  Servers that may not do that, because they do not run as root, keep it.
 *
 * Another client may exchange a new name for a file that it must not own.  Therefore regular files are given
 * by the descriptor that has made them, and others only if they are what was made: empty and of the type.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/mount/mount.h"

#define SOME_ENTRIES_BYTES 1024 /* room for more than "." and ".." */

bool amph_mount_is_of_other(fuse_req_t req)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);

    return ctx->uid != geteuid() || ctx->gid != getegid();
}

/* The group of a new file in this directory; -1: the directory has given it. */
static gid_t group_in(fuse_req_t req, const struct amph_fwd_file *dir)
{
    struct stat st;

    if (amph_fwd_fstat(amph_mount.cl, dir, &st) != 0 || st.st_mode & S_ISGID)
        return (gid_t)-1;

    return fuse_req_ctx(req)->gid;
}

void amph_mount_give_file(fuse_req_t req, const struct amph_fwd_file *dir,
                          const struct amph_fwd_file *file, mode_t mode)
{
    const mode_t rights = mode & (S_ISUID | S_ISGID);
    struct stat st;

    if (!amph_mount_is_of_other(req) ||
        amph_fwd_chown(amph_mount.cl, file, "", fuse_req_ctx(req)->uid, group_in(req, dir), 0) != 0)
        return;

    /* a change of the owner takes them away */
    if (rights && amph_fwd_fstat(amph_mount.cl, file, &st) == 0)
        amph_fwd_chmod(amph_mount.cl, file, "", (st.st_mode & 07777) | rights, 0);
}

static bool is_empty(const struct amph_fwd_file *file)
{
    struct amph_fwd_file dir;
    _Alignas(struct dirent64) char block[SOME_ENTRIES_BYTES];
    size_t end = 0;
    size_t n = 0;

    if (amph_fwd_open(amph_mount.cl, file, ".", O_RDONLY | O_DIRECTORY, 0, &dir) != 0)
        return false;

    bool empty = amph_fwd_getdents(amph_mount.cl, &dir, &end, block, sizeof block, &n) == 0;

    for (size_t at = 0; empty && at < n;) {
        const struct dirent64 *d = (const struct dirent64 *)(const void *)(block + at);

        empty = strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0;
        at += d->d_reclen;
    }

    amph_fwd_close(amph_mount.cl, &dir);
    return empty;
}

void amph_mount_give_name(fuse_req_t req, const struct amph_fwd_file *dir, const char *name,
                          mode_t type)
{
    struct amph_fwd_file file;
    struct stat st;

    if (!amph_mount_is_of_other(req) ||
        amph_fwd_open(amph_mount.cl, dir, name, O_PATH | O_NOFOLLOW, 0, &file) != 0)
        return;

    if (amph_fwd_fstat(amph_mount.cl, &file, &st) == 0 && (st.st_mode & S_IFMT) == type &&
        (!S_ISDIR(type) || is_empty(&file)))
        amph_mount_give_file(req, dir, &file, 0);

    amph_fwd_close(amph_mount.cl, &file);
}

void amph_mount_end_rights(fuse_ino_t ino, const struct amph_fwd_file *file)
{
    struct stat st;
    mode_t rights = S_ISUID;

    /* a mount of one user is the servers', which do it */
    if (!amph_mount.o.allow_other || !amph_mount_thread.ends_rights ||
        amph_fwd_fstat(amph_mount.cl, file, &st) != 0)
        return;

    if (st.st_mode & S_IXGRP)
        rights |= S_ISGID;
    if (!(st.st_mode & rights))
        return;

    amph_fwd_chmod(amph_mount.cl, file, "", st.st_mode & 07777 & ~rights, 0);
    fuse_lowlevel_notify_inval_inode(amph_mount.session, ino, -1, 0); /* the mode that it knows */
}

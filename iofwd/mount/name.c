/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: calls on names and attributes.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "iofwd/mount/mount.h"

/* Gets the directory in which a call names a file. */
static int directory(fuse_ino_t parent, struct amph_mount_handle **dir_p)
{
    return amph_mount_node_pin(amph_mount_node_of(parent), dir_p);
}

/* Replies with the file that is now at name. */
static void reply_found(fuse_req_t req, fuse_ino_t parent, const struct amph_mount_handle *dir,
                        const char *name)
{
    struct fuse_entry_param e;
    struct stat st;
    int err = amph_fwd_stat(amph_mount.cl, &dir->file, name, AT_SYMLINK_NOFOLLOW, &st);

    if (!err)
        err = amph_mount_node_found(amph_mount_node_of(parent), name, &st, &e);

    if (err)
        fuse_reply_err(req, err);
    else if (fuse_reply_entry(req, &e) != 0)
        amph_mount_node_forget(amph_mount_node_of(e.ino), 1);
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct amph_mount_handle *dir;
    int err = directory(parent, &dir);

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    reply_found(req, parent, dir, name);
    amph_mount_handle_put(dir);
}

static void do_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
    amph_mount_node_forget_later(amph_mount_node_of(ino), nlookup);
    fuse_reply_none(req);
}

static void do_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        amph_mount_node_forget_later(amph_mount_node_of(forgets[i].ino), forgets[i].nlookup);

    fuse_reply_none(req);
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;
    int err = amph_mount_node_stat(amph_mount_node_of(ino), &st);

    if (err)
        fuse_reply_err(req, err);
    else
        fuse_reply_attr(req, &st, amph_mount.timeout_s);
}

static void fill_times(const struct stat *attr, int to_set, struct timespec times[2])
{
    times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
    times[1] = (struct timespec){ .tv_nsec = UTIME_OMIT };

    if (to_set & FUSE_SET_ATTR_ATIME_NOW)
        times[0].tv_nsec = UTIME_NOW;
    else if (to_set & FUSE_SET_ATTR_ATIME)
        times[0] = attr->st_atim;

    if (to_set & FUSE_SET_ATTR_MTIME_NOW)
        times[1].tv_nsec = UTIME_NOW;
    else if (to_set & FUSE_SET_ATTR_MTIME)
        times[1] = attr->st_mtim;
}

static int set_size(const struct amph_fwd_file *file, struct fuse_file_info *fi, off_t size)
{
    if (!fi)
        return amph_fwd_truncate(amph_mount.cl, file, "", size);

    struct amph_mount_open *open = (struct amph_mount_open *)(uintptr_t)fi->fh;

    return amph_fwd_ftruncate(amph_mount.cl, &open->handle->file, size);
}

static int set_attributes(fuse_ino_t ino, const struct amph_fwd_file *file, const struct stat *attr,
                          int to_set, struct fuse_file_info *fi)
{
    const int owner = FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;
    const int times = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |
                      FUSE_SET_ATTR_MTIME_NOW;
    struct amph_fwd_client *cl = amph_mount.cl;
    int err = 0;

    if (to_set & owner)
        err = amph_fwd_chown(cl, file, "", to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1,
                             to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1, 0);

    if (!err && (to_set & FUSE_SET_ATTR_SIZE)) {
        amph_mount_end_rights(ino, file);
        err = set_size(file, fi, attr->st_size);
    }

    if (!err && (to_set & FUSE_SET_ATTR_MODE))
        err = amph_fwd_chmod(cl, file, "", attr->st_mode & 07777, 0);

    if (!err && (to_set & times)) {
        struct timespec at[2];

        fill_times(attr, to_set, at);
        err = amph_fwd_utimens(cl, file, "", at, 0);
    }

    return err;
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
    struct amph_mount_node *node = amph_mount_node_of(ino);
    struct amph_mount_handle *handle;
    struct stat st;
    int err = amph_mount_node_pin(node, &handle);

    if (!err) {
        err = set_attributes(ino, &handle->file, attr, to_set, fi);
        if (!err)
            err = amph_fwd_fstat(amph_mount.cl, &handle->file, &st);

        amph_mount_handle_put(handle);
    }

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    amph_mount_node_report(node, &st);
    fuse_reply_attr(req, &st, amph_mount.timeout_s);
}

static void do_readlink(fuse_req_t req, fuse_ino_t ino)
{
    char target[PATH_MAX + 1];
    struct amph_mount_at at;
    size_t len = 0;
    int err = amph_mount_node_at(amph_mount_node_of(ino), &at);

    if (!err) {
        err = amph_fwd_readlink(amph_mount.cl, &at.dir->file, at.name, target, sizeof target - 1,
                                &len);
        amph_mount_at_put(&at);
    }

    if (err) {
        fuse_reply_err(req, err == ENOENT ? ESTALE : err);
        return;
    }

    target[len] = 0;
    fuse_reply_readlink(req, target);
}

static mode_t new_mode(fuse_req_t req, mode_t mode)
{
    return amph_fwd_new_mode(mode, fuse_req_ctx(req)->umask);
}

/* A regular file of another user. */
static int make_file(fuse_req_t req, const struct amph_mount_handle *dir, const char *name,
                     mode_t mode)
{
    struct amph_fwd_file file;
    int err = amph_fwd_open(amph_mount.cl, &dir->file, name,
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, new_mode(req, mode), &file);

    if (err)
        return err;

    amph_mount_give_file(req, &dir->file, &file, mode);
    amph_fwd_close(amph_mount.cl, &file);
    return 0;
}

static void do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
    struct amph_mount_handle *dir;
    int err = directory(parent, &dir);

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    if (S_ISREG(mode) && amph_mount_is_of_other(req)) {
        err = make_file(req, dir, name, mode);
    } else {
        err = amph_fwd_mknod(amph_mount.cl, &dir->file, name, new_mode(req, mode), dev);
        if (!err)
            amph_mount_give_name(req, &dir->file, name, mode & S_IFMT);
    }

    if (err)
        fuse_reply_err(req, err);
    else
        reply_found(req, parent, dir, name);

    amph_mount_handle_put(dir);
}

static void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct amph_mount_handle *dir;
    int err = directory(parent, &dir);

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    err = amph_fwd_mkdir(amph_mount.cl, &dir->file, name, new_mode(req, mode));
    if (!err)
        amph_mount_give_name(req, &dir->file, name, S_IFDIR);

    if (err)
        fuse_reply_err(req, err);
    else
        reply_found(req, parent, dir, name);

    amph_mount_handle_put(dir);
}

static void do_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    struct amph_mount_handle *dir;
    int err = directory(parent, &dir);

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    err = amph_fwd_symlink(amph_mount.cl, target, &dir->file, name);
    if (!err)
        amph_mount_give_name(req, &dir->file, name, S_IFLNK);

    if (err)
        fuse_reply_err(req, err);
    else
        reply_found(req, parent, dir, name);

    amph_mount_handle_put(dir);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, int flags)
{
    struct amph_mount_handle *dir;
    int err = directory(parent, &dir);

    if (!err) {
        err = amph_fwd_unlink(amph_mount.cl, &dir->file, name, flags);
        amph_mount_handle_put(dir);
    }

    fuse_reply_err(req, err);
}

static void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, 0);
}

static void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, AT_REMOVEDIR);
}

/* Records the new name of a node after a rename. */
static void note_moved(fuse_ino_t parent, const struct amph_mount_handle *dir, const char *name)
{
    struct stat st;

    if (amph_fwd_stat(amph_mount.cl, &dir->file, name, AT_SYMLINK_NOFOLLOW, &st) == 0)
        amph_mount_node_moved(amph_mount_node_of(parent), name, &st);
}

static void do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
                      const char *newname, unsigned flags)
{
    struct amph_mount_handle *from = NULL;
    struct amph_mount_handle *to = NULL;
    int err = directory(parent, &from);

    if (!err)
        err = directory(newparent, &to);

    if (!err)
        err = amph_fwd_rename(amph_mount.cl, &from->file, name, &to->file, newname, flags);

    if (!err) {
        note_moved(newparent, to, newname);
        if (flags & RENAME_EXCHANGE)
            note_moved(parent, from, name);
    }

    fuse_reply_err(req, err);
    amph_mount_handle_put(from);
    amph_mount_handle_put(to);
}

static void do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
    struct amph_mount_handle *dir = NULL;
    struct amph_mount_handle *handle = NULL;
    int err = amph_mount_node_pin(amph_mount_node_of(ino), &handle);

    if (!err)
        err = directory(newparent, &dir);

    if (!err)
        err = amph_fwd_link(amph_mount.cl, &handle->file, "", &dir->file, newname, 0);

    if (err)
        fuse_reply_err(req, err);
    else
        reply_found(req, newparent, dir, newname);

    amph_mount_handle_put(dir);
    amph_mount_handle_put(handle);
}

static void do_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
    struct amph_mount_at at;
    int err = amph_mount_node_at(amph_mount_node_of(ino), &at);

    if (!err) {
        err = amph_fwd_access(amph_mount.cl, &at.dir->file, at.name, mask, 0);
        amph_mount_at_put(&at);
    }

    fuse_reply_err(req, err == ENOENT ? ESTALE : err);
}

static void do_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct amph_mount_handle *handle;
    struct statfs fs;
    int err = amph_mount_node_pin(amph_mount_node_of(ino ? ino : FUSE_ROOT_ID), &handle);

    if (!err) {
        err = amph_fwd_fstatfs(amph_mount.cl, &handle->file, &fs);
        amph_mount_handle_put(handle);
    }

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    struct statvfs vfs = { .f_bsize = (unsigned long)fs.f_bsize,
                           .f_frsize = (unsigned long)(fs.f_frsize ? fs.f_frsize : fs.f_bsize),
                           .f_blocks = fs.f_blocks,
                           .f_bfree = fs.f_bfree,
                           .f_bavail = fs.f_bavail,
                           .f_files = fs.f_files,
                           .f_ffree = fs.f_ffree,
                           .f_favail = fs.f_ffree,
                           .f_namemax = (unsigned long)fs.f_namelen };

    fuse_reply_statfs(req, &vfs);
}

void amph_mount_name_calls(struct fuse_lowlevel_ops *ops)
{
    ops->lookup = do_lookup;
    ops->forget = do_forget;
    ops->forget_multi = do_forget_multi;
    ops->getattr = do_getattr;
    ops->setattr = do_setattr;
    ops->readlink = do_readlink;
    ops->mknod = do_mknod;
    ops->mkdir = do_mkdir;
    ops->unlink = do_unlink;
    ops->rmdir = do_rmdir;
    ops->symlink = do_symlink;
    ops->rename = do_rename;
    ops->link = do_link;
    ops->access = do_access;
    ops->statfs = do_statfs;
}

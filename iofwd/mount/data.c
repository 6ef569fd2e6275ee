/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: calls on open files.  Writes go to the server before they are answered; the kernel
 * keeps no written data back, except in mappings.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "iofwd/mount/mount.h"

static struct amph_mount_open *open_of(const struct fuse_file_info *fi)
{
    return (struct amph_mount_open *)(uintptr_t)fi->fh;
}

/* ---- open and close ---- */

/* Returns the flags for the server: without those that the kernel handles itself. */
static int server_flags(int flags)
{
    return flags & ~(O_DIRECT | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | O_CREAT | O_EXCL);
}

/* Makes the record of an open file, which takes over handle. */
static int make_open(struct amph_mount_node *node, struct amph_mount_handle *handle, int flags,
                     struct fuse_file_info *fi)
{
    struct amph_mount_open *open = calloc(1, sizeof *open);

    if (!open) {
        amph_mount_handle_put(handle);
        return ENOMEM;
    }

    open->node = node;
    open->handle = handle;
    open->append = flags & O_APPEND;
    amph_mount_node_add_open(open);
    fi->fh = (uintptr_t)open;

    /* The server chooses the offset of appended data.  So the kernel must not store appended
     * data in its pages, at the offset where it assumes the end of the file. */
    fi->direct_io = (flags & O_DIRECT) || (open->append && (flags & O_ACCMODE) != O_RDONLY);
    return 0;
}

static void free_open(struct amph_mount_open *open)
{
    amph_mount_node_remove_open(open);
    amph_mount_handle_put(open->handle);
    amph_mount_handle_put(open->unappending);
    free(open);
}

/* Opens the file that the kernel knows as node.  ESTALE: its name now leads to another file. */
static int open_node(struct amph_mount_node *node, int flags, struct amph_mount_handle **handle_p,
                     struct stat *st)
{
    struct amph_mount_at at;
    struct amph_fwd_file file;
    int err = amph_mount_node_at_name(node, &at);

    if (err)
        return err;

    bool by_name = at.name[0];
    bool truncates = by_name && (flags & O_TRUNC);

    /* truncated later, once it is known to be the right file */
    err = amph_fwd_open(amph_mount.cl, &at.dir->file, at.name,
                        (truncates ? flags & ~O_TRUNC : flags) | (by_name ? O_NOFOLLOW : 0), 0,
                        &file);
    amph_mount_at_put(&at);
    if (err)
        return by_name && (err == ENOENT || err == ELOOP) ? ESTALE : err;

    *handle_p = amph_mount_handle_make(&file);
    if (!*handle_p)
        return ENOMEM;

    err = amph_fwd_fstat(amph_mount.cl, &file, st);
    if (!err && !amph_mount_node_is(node, st))
        err = ESTALE;

    if (!err && truncates && !(err = amph_fwd_ftruncate(amph_mount.cl, &file, 0)))
        err = amph_fwd_fstat(amph_mount.cl, &file, st);

    if (err)
        amph_mount_handle_put(*handle_p);

    return err;
}

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct amph_mount_node *node = amph_mount_node_of(ino);
    struct amph_mount_handle *handle;
    struct stat st;
    int flags = server_flags(fi->flags);
    int err = open_node(node, flags, &handle, &st);

    if (err == ESTALE)
        amph_mount_node_missed(node);

    if (!err)
        amph_mount_end_rights(ino, &handle->file);

    if (!err)
        err = make_open(node, handle, fi->flags, fi);

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    bool same = amph_mount_node_report(node, &st);

    /* close-to-open: the kernel's cached pages are valid if the file has not changed */
    if (amph_mount.o.cache == AMPH_MOUNT_CACHE_ALWAYS)
        same = true;

    fi->keep_cache = same && amph_mount.o.cache != AMPH_MOUNT_CACHE_NONE;
    if (!same)
        fuse_lowlevel_notify_inval_inode(amph_mount.session, ino, -1, 0);

    if (fuse_reply_open(req, fi) != 0)
        free_open(open_of(fi));
}

/* Another user gets a file that it has made itself only.  Of one that another client has just made, the
 * kernel checks the permissions: after ESTALE it looks the name up again. */
static int create_file(fuse_req_t req, const struct amph_fwd_file *dir, const char *name,
                       mode_t mode, const struct fuse_file_info *fi, struct amph_fwd_file *file_p)
{
    bool other = amph_mount_is_of_other(req);
    bool alone = other || fi->flags & O_EXCL;
    int flags = server_flags(fi->flags) | O_CREAT | O_NOFOLLOW | (alone ? O_EXCL : 0);
    int err = amph_fwd_open(amph_mount.cl, dir, name, flags,
                            amph_fwd_new_mode(mode, fuse_req_ctx(req)->umask), file_p);

    if (err == EEXIST && !(fi->flags & O_EXCL))
        return ESTALE;
    if (!err)
        amph_mount_give_file(req, dir, file_p, mode);

    return err;
}

static void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    struct amph_mount_handle *dir;
    struct amph_fwd_file file;
    struct fuse_entry_param e;
    struct stat st;
    int err = amph_mount_node_pin(amph_mount_node_of(parent), &dir);

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    err = create_file(req, &dir->file, name, mode, fi, &file);
    amph_mount_handle_put(dir);
    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    struct amph_mount_handle *handle = amph_mount_handle_make(&file);

    err = handle ? amph_fwd_fstat(amph_mount.cl, &file, &st) : ENOMEM;
    if (!err)
        err = amph_mount_node_found(amph_mount_node_of(parent), name, &st, &e);

    if (err) {
        amph_mount_handle_put(handle);
        fuse_reply_err(req, err);
        return;
    }

    amph_mount_end_rights(e.ino, &file);
    err = make_open(amph_mount_node_of(e.ino), handle, fi->flags, fi);
    if (err) {
        amph_mount_node_forget(amph_mount_node_of(e.ino), 1);
        fuse_reply_err(req, err);
    } else if (fuse_reply_create(req, &e, fi) != 0) {
        free_open(open_of(fi));
        amph_mount_node_forget(amph_mount_node_of(e.ino), 1);
    }
}

static void do_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    amph_mount_lock_drop(amph_mount_node_of(ino), fi->lock_owner);
    fuse_reply_err(req, 0);
}

/* Of struct amph_mount_put_off. */
static void release_now(struct amph_mount_put_off *p)
{
    free_open((void *)((char *)p - offsetof(struct amph_mount_open, put_off)));
}

static void do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct amph_mount_open *open = open_of(fi);

    amph_mount_lock_release(open);
    if (fi->flock_release) /* another request may still use the handle, and close it later */
        amph_fwd_flock(amph_mount.cl, &open->handle->file, LOCK_UN);

    open->put_off.run = release_now;
    if (!amph_mount_put_off(&open->put_off))
        free_open(open);

    amph_mount_release_ended();
    fuse_reply_err(req, 0);
}

/* ---- data ---- */

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                    struct fuse_file_info *fi)
{
    struct amph_mount_thread *t = &amph_mount_thread;
    const struct amph_fwd_file *file = &open_of(fi)->handle->file;
    size_t done = 0;
    int err = 0;

    if (size > t->buf_bytes) {
        char *larger = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);

        if (!larger) {
            fuse_reply_err(req, ENOMEM);
            return;
        }

        free(t->buf);
        t->buf = larger;
        t->buf_bytes = size;
    }

    while (done < size) {
        size_t n = 0;

        err = amph_fwd_pread(amph_mount.cl, file, off + (off_t)done, t->buf + done, size - done,
                             &n);
        if (err || n == 0)
            break;

        done += n;
    }

    if (err && !done)
        fuse_reply_err(req, err);
    else
        fuse_reply_buf(req, t->buf, done);
}

/* Returns the file opened again without O_APPEND, for pages of mappings, whose offsets are
 * given. */
static int unappending(struct amph_mount_open *open, const struct amph_fwd_file **file_p)
{
    struct amph_fwd_file file;

    amph_mount_lock();

    struct amph_mount_handle *has = open->unappending;

    amph_mount_unlock();
    if (!has) {
        int err = amph_fwd_open(amph_mount.cl, &open->handle->file, "", O_WRONLY, 0, &file);

        if (err)
            return err;

        struct amph_mount_handle *mine = amph_mount_handle_make(&file);

        if (!mine)
            return ENOMEM;

        amph_mount_lock();
        has = open->unappending;
        if (!has)
            open->unappending = has = mine;

        amph_mount_unlock();
        if (has != mine)
            amph_mount_handle_put(mine);
    }

    *file_p = &has->file;
    return 0;
}

static void do_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
                     struct fuse_file_info *fi)
{
    struct amph_mount_open *open = open_of(fi);
    const struct amph_fwd_file *file = &open->handle->file;
    /* as the descriptor is now: F_SETFL may have changed it since it was opened */
    bool appends = !fi->writepage && (fi->flags & O_APPEND);
    struct amph_fwd_file appending;
    size_t done = 0;
    int err = open->append && !appends ? unappending(open, &file) : 0;

    if (appends && !open->append) {
        appending = *file;
        appending.rwf |= RWF_APPEND;
        file = &appending;
    }

    if (!err)
        amph_mount_end_rights(ino, file);

    while (!err && done < size) {
        size_t n = 0;

        err = amph_fwd_pwrite(amph_mount.cl, file, off + (off_t)done, buf + done, size - done, &n);
        if (!err && n == 0)
            err = EIO;

        done += err ? 0 : n;
    }

    if (err && !done)
        fuse_reply_err(req, err);
    else
        fuse_reply_write(req, done);
}

struct sync {
    struct amph_mount_waiting w;
    struct amph_mount_handle *handle;
    bool data_only;
};

static void run_sync(struct amph_mount_waiting *w)
{
    struct sync *sync = (struct sync *)w;
    const struct amph_fwd_file *file = &sync->handle->file;
    int err = sync->data_only ? amph_fwd_fdatasync(amph_mount.cl, file)
                              : amph_fwd_fsync(amph_mount.cl, file);

    amph_mount_waiting_end(w);
    fuse_reply_err(w->req, err);
    amph_mount_handle_put(sync->handle);
    free(sync);
}

/* Serves directories too: their records begin like those of files. */
static void do_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    struct sync *sync = calloc(1, sizeof *sync);

    if (!sync) {
        fuse_reply_err(req, ENOMEM);
        return;
    }

    sync->w.req = req;
    sync->w.run = run_sync;
    sync->handle = amph_mount_handle_get(open_of(fi)->handle);
    sync->data_only = datasync;

    int err = amph_mount_waiting_start(&sync->w, false);

    if (err) {
        amph_mount_handle_put(sync->handle);
        free(sync);
        fuse_reply_err(req, err);
    }
}

static void do_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t length,
                         struct fuse_file_info *fi)
{
    const struct amph_fwd_file *file = &open_of(fi)->handle->file;

    amph_mount_end_rights(ino, file);
    fuse_reply_err(req, amph_fwd_fallocate(amph_mount.cl, file, mode, off, length));
}

static void do_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence,
                     struct fuse_file_info *fi)
{
    off_t pos = 0;
    int err = amph_fwd_lseek(amph_mount.cl, &open_of(fi)->handle->file, off, whence, &pos);

    if (err)
        fuse_reply_err(req, err);
    else
        fuse_reply_lseek(req, pos);
}

/* Copies within this process: the data does not pass through the kernel and the program. */
static void do_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
                               struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
                               struct fuse_file_info *fi_out, size_t len, int flags)
{
    const struct amph_fwd_file *in = &open_of(fi_in)->handle->file;
    const struct amph_fwd_file *out = &open_of(fi_out)->handle->file;
    size_t room = len < AMPH_MOUNT_IO_BYTES ? len : AMPH_MOUNT_IO_BYTES;
    char *buf = malloc(room ? room : 1);
    size_t got = 0;
    size_t done = 0;
    int err = !buf ? ENOMEM : amph_fwd_pread(amph_mount.cl, in, off_in, buf, room, &got);

    if (got > 0)
        amph_mount_end_rights(ino_out, out);

    while (!err && done < got) {
        size_t n = 0;

        err = amph_fwd_pwrite(amph_mount.cl, out, off_out + (off_t)done, buf + done, got - done,
                              &n);
        done += err ? 0 : n;
    }

    free(buf);
    if (err && !done)
        fuse_reply_err(req, err);
    else
        fuse_reply_write(req, done);
}

void amph_mount_data_calls(struct fuse_lowlevel_ops *ops)
{
    ops->open = do_open;
    ops->create = do_create;
    ops->flush = do_flush;
    ops->release = do_release;
    ops->read = do_read;
    ops->write = do_write;
    ops->fsync = do_fsync;
    ops->fsyncdir = do_fsync;
    ops->fallocate = do_fallocate;
    ops->lseek = do_lseek;
    ops->copy_file_range = do_copy_file_range;
}

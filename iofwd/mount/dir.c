/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: reading directories.
 *
 * Layer: iofwd.  Thread rule: any thread of the session; one open directory is read by one thread
 * at a time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <linux/fuse.h>

#include "iofwd/mount/mount.h"

#define BLOCK_BYTES 32768

/* The record of an open directory; it begins like that of a file. */
struct dir {
    struct amph_mount_open open; /* first */
    pthread_mutex_t lock;
    off_t next; /* offset of the kernel's next request, unless it seeks */
    size_t at, len;
    bool last; /* the directory had no entry after those of the block */
    _Alignas(struct dirent64) char block[BLOCK_BYTES]; /* the server's */
};

static struct dir *dir_of(const struct fuse_file_info *fi)
{
    return (struct dir *)(uintptr_t)fi->fh;
}

static void free_dir(struct dir *dir)
{
    amph_mount_node_remove_open(&dir->open);
    amph_mount_handle_put(dir->open.handle);
    pthread_mutex_destroy(&dir->lock);
    free(dir);
}

static void do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct amph_mount_node *node = amph_mount_node_of(ino);
    struct amph_mount_handle *pinned;
    struct amph_fwd_file file;
    int err = amph_mount_node_pin(node, &pinned);

    if (!err) {
        err = amph_fwd_open(amph_mount.cl, &pinned->file, ".", O_RDONLY | O_DIRECTORY, 0, &file);
        amph_mount_handle_put(pinned);
    }

    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    struct dir *dir = malloc(sizeof *dir);
    struct amph_mount_handle *handle = amph_mount_handle_make(&file);

    if (!dir || !handle) {
        free(dir);
        amph_mount_handle_put(handle);
        fuse_reply_err(req, ENOMEM);
        return;
    }

    dir->open = (struct amph_mount_open){ .node = node, .handle = handle };
    dir->next = 0;
    dir->at = dir->len = 0;
    dir->last = false;
    pthread_mutex_init(&dir->lock, NULL);
    amph_mount_node_add_open(&dir->open);
    fi->fh = (uintptr_t)dir;
    if (amph_mount.o.cache == AMPH_MOUNT_CACHE_ALWAYS)
        fi->keep_cache = fi->cache_readdir = 1;

    if (fuse_reply_open(req, fi) != 0)
        free_dir(dir);
}

/* Of struct amph_mount_put_off. */
static void release_now(struct amph_mount_put_off *p)
{
    free_dir((void *)((char *)p - offsetof(struct dir, open.put_off)));
}

static void do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct dir *dir = dir_of(fi);

    dir->open.put_off.run = release_now;
    if (!amph_mount_put_off(&dir->open.put_off))
        free_dir(dir);

    fuse_reply_err(req, 0);
}

/* Seeks to offset off. 0 or an errno value. */
static int go_to(struct dir *dir, off_t off)
{
    off_t pos;

    if (off == dir->next && off != 0)
        return 0;
    if (off == 0 && dir->next == 0 && dir->len == 0)
        return 0;

    dir->at = dir->len = 0;
    dir->last = false;
    dir->next = off;
    return amph_fwd_lseek(amph_mount.cl, &dir->open.handle->file, off, SEEK_SET, &pos);
}

/* Returns the next entry; NULL at the end or on an error. */
static const struct dirent64 *look(struct dir *dir, int *err_p)
{
    *err_p = 0;
    if (dir->at < dir->len)
        return (const struct dirent64 *)(dir->block + dir->at);

    dir->at = dir->len = 0;
    if (dir->last) { /* a call after this end asks again */
        dir->last = false;
        return NULL;
    }

    size_t end = 0;

    *err_p = amph_fwd_getdents(amph_mount.cl, &dir->open.handle->file, &end, dir->block,
                               sizeof dir->block, &dir->len);
    if (*err_p)
        dir->len = 0;

    dir->last = dir->len > 0 && end;

    return dir->len ? (const struct dirent64 *)dir->block : NULL;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Adds one entry to the reply.  Returns its size, which is more than left if it does not fit; 0:
 * the entry is left out. */
static size_t put(fuse_req_t req, struct dir *dir, const struct dirent64 *d, char *to, size_t left,
                  bool plus)
{
    struct fuse_entry_param e = { .attr = { .st_ino = d->d_ino, .st_mode = DTTOIF(d->d_type) } };
    struct stat st;

    if (!plus)
        return fuse_add_direntry(req, to, left, d->d_name, &e.attr, d->d_off);

    size_t size = fuse_add_direntry_plus(req, NULL, 0, d->d_name, &e, d->d_off);

    if (size > left)
        return size;

    if (!is_dots(d->d_name)) {
        int err = amph_fwd_stat(amph_mount.cl, &dir->open.handle->file, d->d_name,
                                AT_SYMLINK_NOFOLLOW, &st);

        if (!err)
            err = amph_mount_node_found(dir->open.node, d->d_name, &st, &e);

        if (err == ENOENT) /* removed meanwhile */
            return 0;
    }

    return fuse_add_direntry_plus(req, to, left, d->d_name, &e, d->d_off);
}

/* The kernel has not received the entries: takes their lookups back. */
static void forget_entries(const char *buf, size_t len)
{
    size_t at = 0;

    while (at + FUSE_NAME_OFFSET_DIRENTPLUS <= len) {
        const struct fuse_direntplus *d = (const void *)(buf + at);

        if (d->entry_out.nodeid)
            amph_mount_node_forget(amph_mount_node_of(d->entry_out.nodeid), 1);

        at += FUSE_DIRENTPLUS_SIZE(d);
    }
}

static void read_entries(fuse_req_t req, size_t size, off_t off, struct dir *dir, bool plus)
{
    char *buf = malloc(size);
    size_t done = 0;
    const struct dirent64 *d;

    if (!buf) {
        fuse_reply_err(req, ENOMEM);
        return;
    }

    pthread_mutex_lock(&dir->lock);

    int err = go_to(dir, off);

    while (!err && (d = look(dir, &err)) != NULL) {
        size_t n = put(req, dir, d, buf + done, size - done, plus);

        if (n > size - done)
            break;

        done += n;
        dir->at += d->d_reclen;
        dir->next = d->d_off;
    }

    pthread_mutex_unlock(&dir->lock);
    if (err && !done)
        fuse_reply_err(req, err);
    else if (fuse_reply_buf(req, buf, done) != 0 && plus)
        forget_entries(buf, done);

    free(buf);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
    read_entries(req, size, off, dir_of(fi), false);
}

static void do_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                           struct fuse_file_info *fi)
{
    read_entries(req, size, off, dir_of(fi), true);
}

void amph_mount_dir_calls(struct fuse_lowlevel_ops *ops)
{
    ops->opendir = do_opendir;
    ops->releasedir = do_releasedir;
    ops->readdir = do_readdir;
    ops->readdirplus = do_readdirplus;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One file in one thread: forwarded to the job's I/O servers if its path is below a forwarded
 * prefix, else a local file.
 *
 * Layer: upc-bridge.  Thread rule: any thread; the rules of iofwd.h and POSIX apply.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amphora.h"
#include "upc-bridge/io/files.h"

/* Returns whether path is a PATH of the list PATH[=DIR]:PATH[=DIR]..., or below one. */
static bool below_prefix(const char *path, const char *list)
{
    while (list && *list) {
        size_t entry = strcspn(list, ":");
        size_t len = strcspn(list, ":=");

        while (len > 1 && list[len - 1] == '/')
            len--;

        if (len && strncmp(path, list, len) == 0 &&
            (path[len] == '/' || path[len] == 0 || len == 1))
            return true;

        list += entry + (list[entry] == ':');
    }

    return false;
}

static bool is_forwarded(const char *path)
{
    return path[0] == '/' && amphora_group_size(AMPHORA_SERVERS) > 0 &&
           below_prefix(path, gasnet_getenv("IOFWD_PREFIX"));
}

int amph_upc_raw_open(struct upc_file *f, int flags, mode_t mode)
{
    f->forwarded = NULL;
    f->fd = -1;
    if (is_forwarded(f->name))
        return iofwd_open(f->name, flags, mode, &f->forwarded);

    f->fd = open(f->name, flags | O_CLOEXEC, mode);
    return f->fd < 0 ? errno : 0;
}

int amph_upc_raw_close(struct upc_file *f)
{
    if (f->forwarded)
        return iofwd_close(f->forwarded);

    return close(f->fd) ? errno : 0;
}

int amph_upc_raw_sync(struct upc_file *f)
{
    int err;

    if (f->forwarded)
        err = iofwd_fsync(f->forwarded);
    else
        err = fsync(f->fd) ? errno : 0;

    /* A file that does not support fsync, such as a pipe, needs none. */
    return err == EINVAL || err == EROFS ? 0 : err;
}

int amph_upc_raw_size(struct upc_file *f, int64_t *size_p)
{
    struct stat st;
    int err;

    if (f->forwarded)
        err = iofwd_fstat(f->forwarded, &st);
    else
        err = fstat(f->fd, &st) ? errno : 0;

    if (!err)
        *size_p = st.st_size;

    return err;
}

int amph_upc_raw_set_size(struct upc_file *f, int64_t size)
{
    if (f->forwarded)
        return iofwd_ftruncate(f->forwarded, size);

    return ftruncate(f->fd, size) ? errno : 0;
}

int amph_upc_raw_allocate(struct upc_file *f, int64_t size)
{
    if (size == 0)
        return 0;

    return f->forwarded ? iofwd_fallocate(f->forwarded, 0, size) : posix_fallocate(f->fd, 0, size);
}

int amph_upc_raw_unlink(const char *name)
{
    if (is_forwarded(name))
        return iofwd_unlink(name);

    return unlink(name) ? errno : 0;
}

/* Makes one read or write call; it may transfer fewer bytes than len. */
static int move_once(struct upc_file *f, bool writing, void *buf, uint64_t len, int64_t offset,
                     size_t *n_p)
{
    ssize_t n;

    if (f->forwarded)
        return writing ? iofwd_pwrite(f->forwarded, buf, len, offset, n_p)
                       : iofwd_pread(f->forwarded, buf, len, offset, n_p);

    n = writing ? pwrite(f->fd, buf, len, offset) : pread(f->fd, buf, len, offset);
    *n_p = n < 0 ? 0 : (size_t)n;
    return n < 0 ? errno : 0;
}

int amph_upc_raw_move(struct upc_file *f, bool writing, void *buf, uint64_t len, int64_t offset,
                      uint64_t *done_p)
{
    int err = 0;
    size_t n;

    *done_p = 0;
    while (*done_p < len) {
        err = move_once(f, writing, (char *)buf + *done_p, len - *done_p, offset + (int64_t)*done_p,
                        &n);
        if (err == EINTR)
            continue;
        if (err || n == 0)
            break;

        *done_p += n;
    }

    if (!err && writing && *done_p < len)
        err = ENOSPC;

    return err;
}

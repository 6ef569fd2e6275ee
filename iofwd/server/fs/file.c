/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes the calls on open files.  Each function returns 0 or an errno value.
 *
 * Layer: iofwd.
 * Thread rule: one thread executes a request; close, hold and calls that take locks run in the
 * progress thread only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "iofwd/calls/server_calls.h"
#include "iofwd/wire/inode_flags.h"
#include "iofwd/server/internal.h"

static int outcome(long ret)
{
    return ret < 0 ? errno : 0;
}

static int count(ssize_t n, size_t *out)
{
    if (n < 0)
        return errno;

    *out = (size_t)n;
    return 0;
}

/* The same for a result that is minus an errno value on error. */
static int count_or_error(ssize_t n, size_t *out)
{
    *out = n < 0 ? 0 : (size_t)n;
    return n < 0 ? (int)-n : 0;
}

/* A system call that transfers file data. */
struct transfer {
    int fd;
    struct iovec data;
    off_t off;   /* if placed; else -1 */
    int rwf;     /* RWF_* of preadv2 and pwritev2, where off -1 means the file's offset */
    bool placed; /* at off, not at the file's offset */
    bool writes;
};

static ssize_t transfer_once(const struct transfer *t)
{
    if (t->rwf)
        return t->writes ? pwritev2(t->fd, &t->data, 1, t->off, t->rwf)
                         : preadv2(t->fd, &t->data, 1, t->off, t->rwf);
    if (t->writes)
        return t->placed ? pwrite(t->fd, t->data.iov_base, t->data.iov_len, t->off)
                         : write(t->fd, t->data.iov_base, t->data.iov_len);

    return t->placed ? pread(t->fd, t->data.iov_base, t->data.iov_len, t->off)
                     : read(t->fd, t->data.iov_base, t->data.iov_len);
}

/* Repeats a call that a signal of the server interrupted before it transferred anything. */
static ssize_t transfer_restarting(const struct transfer *t)
{
    ssize_t n;

    do
        n = transfer_once(t);
    while (n < 0 && errno == EINTR);

    return n;
}

/* A call on a pipe or terminal may block for ever: it ends when the client cancels it. */
static ssize_t transfer_until_cancelled(struct amph_server_request *rq, const struct transfer *t)
{
    ssize_t n;

    amph_server_let_wake_signal_in(true);
    do
        n = transfer_once(t);
    while (n < 0 && errno == EINTR && !atomic_load(&rq->cancelled));

    amph_server_let_wake_signal_in(false);
    return n;
}

/* Transfers data, past the page cache if that is wanted and possible.  On a regular file no signal
 * of the server interrupts a call, so an EINTR comes from the file system and goes to the client.
 */
static ssize_t transfer(struct amph_server_request *rq, struct amph_server_handle *h,
                        const struct transfer *t)
{
    ssize_t n;

    amph_server_direct_fit(h, t->data.iov_base, t->data.iov_len, t->off);
    if (h->regular)
        n = transfer_once(t);
    else if (rq->shared.in_worker)
        n = transfer_until_cancelled(rq, t);
    else
        n = transfer_restarting(t);

    if (n < 0 && errno == EINVAL && amph_server_direct_disable(h))
        n = transfer_once(t);

    return n;
}

int amph_server_do_close(struct amph_server_request *rq, struct amph_server_args_close *a)
{
    if (!amph_server_handle_held_by(rq->peer, a->file))
        return EBADF;

    amph_server_handle_drop(rq->server, rq->peer, a->file);
    return 0;
}

int amph_server_do_hold(struct amph_server_request *rq, struct amph_server_args_hold *a)
{
    return amph_server_handle_hold(rq->server, rq->peer, a->file);
}

static int read_at_offset(struct amph_server_request *rq, struct amph_server_args_read *a)
{
    const struct transfer t = {
        .fd = a->file->fd, .data = { a->buf, a->buf_cap }, .off = -1, .rwf = rq->bulk.rwf
    };

    return count(transfer(rq, a->file, &t), &a->buf_len);
}

static int write_at_offset(struct amph_server_request *rq, struct amph_server_args_write *a)
{
    const struct transfer t = { .fd = a->file->fd,
                                .data = { (void *)a->data, a->data_len },
                                .off = -1,
                                .rwf = rq->bulk.rwf,
                                .writes = true };

    return count(transfer(rq, a->file, &t), &a->done);
}

/* Counts the calls that moved the offset and reports the count in the reply: after a failover,
 * clients need to know which calls this server executed, and in which order. */
static int moved(struct amph_server_request *rq, struct amph_server_handle *h, bool whole, int err)
{
    if (!err && h->regular /* a FIFO has no offset, and its calls run beside each other */ &&
        (whole || (rq->bulk.flags & FWD_PIECE_FIRST)))
        h->exec.offset_moves++;

    rq->exec.report_moves = !err && (whole || (rq->bulk.flags & FWD_PIECE_TELL));
    rq->exec.offset_moves = h->exec.offset_moves;
    return err;
}

static int do_read(struct amph_server_request *rq, struct amph_server_args_read *a)
{
    /* a pipe or terminal returns what it has; a second piece would wait for more */
    if (!a->file->regular && !(rq->bulk.flags & FWD_PIECE_FIRST)) {
        a->buf_len = 0;
        return 0;
    }

    if (a->file->fifo)
        return amph_server_fifo_read(rq, a->file, a->buf, a->buf_cap, &a->buf_len);

    ssize_t n;
    if (amph_server_readers_read(rq, a->file, a->buf, a->buf_cap, -1, &n))
        return count_or_error(n, &a->buf_len);

    return read_at_offset(rq, a);
}

int amph_server_do_read(struct amph_server_request *rq, struct amph_server_args_read *a)
{
    return moved(rq, a->file, false, do_read(rq, a));
}

static int do_write(struct amph_server_request *rq, struct amph_server_args_write *a)
{
    int err;

    if (amph_server_pipe_write(rq, a->file, NULL, &a->data, &a->done, &err))
        return err;
    if (a->file->fifo)
        return amph_server_fifo_write(rq, a->file, a->data, a->data_len, &a->done);
    if (a->file->exec.append_buffer)
        return amph_server_append(rq, a->file, a->data, a->data_len, &a->done);

    return write_at_offset(rq, a);
}

int amph_server_do_write(struct amph_server_request *rq, struct amph_server_args_write *a)
{
    return moved(rq, a->file, false, do_write(rq, a));
}

int amph_server_do_pread(struct amph_server_request *rq, struct amph_server_args_pread *a)
{
    ssize_t n;

    if (a->off >= 0 && amph_server_readers_read(rq, a->file, a->buf, a->buf_cap, a->off, &n))
        return count_or_error(n, &a->buf_len);

    const struct transfer t = { .fd = a->file->fd,
                                .data = { a->buf, a->buf_cap },
                                .off = a->off,
                                .rwf = rq->bulk.rwf,
                                .placed = true };

    return count(transfer(rq, a->file, &t), &a->buf_len);
}

int amph_server_do_pwrite(struct amph_server_request *rq, struct amph_server_args_pwrite *a)
{
    if (a->file->exec.append &&
        (rq->bulk.flags & FWD_PIECE_SPREAD)) /* on Linux pwrite appends to an O_APPEND file */
        return EOPNOTSUPP;

    int err;

    if (amph_server_pipe_write(rq, a->file, &a->off, &a->data, &a->done, &err))
        return err;
    if (a->file->exec.append_buffer)
        return amph_server_append(rq, a->file, a->data, a->data_len, &a->done);

    const struct transfer t = { .fd = a->file->fd,
                                .data = { (void *)a->data, a->data_len },
                                .off = a->off,
                                .rwf = rq->bulk.rwf,
                                .placed = true,
                                .writes = true };

    return count(transfer(rq, a->file, &t), &a->done);
}

int amph_server_do_pwritej(struct amph_server_request *rq, struct amph_server_args_pwritej *a)
{
    return amph_server_collective_run(rq);
}

int amph_server_do_preadj(struct amph_server_request *rq, struct amph_server_args_preadj *a)
{
    return amph_server_collective_run(rq);
}

int amph_server_do_lseek(struct amph_server_request *rq, struct amph_server_args_lseek *a)
{
    a->pos = lseek(a->file->fd, a->off, a->whence);
    return moved(rq, a->file, true, outcome(a->pos));
}

/* For a call that several servers execute together: reserves the next bytes and moves the offset
 * past them.  EOPNOTSUPP: this server must execute the call alone. */
int amph_server_do_takeread(struct amph_server_request *rq, struct amph_server_args_takeread *a)
{
    struct stat st;
    int flags = fcntl(a->file->fd, F_GETFL);

    if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY)
        return EBADF;
    if (!a->file->regular || fstat(a->file->fd, &st) != 0 ||
        (a->pos = lseek(a->file->fd, 0, SEEK_CUR)) < 0)
        return EOPNOTSUPP;

    a->count = a->pos < st.st_size ? (size_t)(st.st_size - a->pos) : 0;
    if (a->want < a->count)
        a->count = a->want;

    return moved(rq, a->file, true,
                 outcome(lseek(a->file->fd, a->pos + (off_t)a->count, SEEK_SET)));
}

int amph_server_do_takewrite(struct amph_server_request *rq, struct amph_server_args_takewrite *a)
{
    int flags = fcntl(a->file->fd, F_GETFL);

    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return EBADF;
    if (!a->file->regular || (flags & O_APPEND) || (a->pos = lseek(a->file->fd, 0, SEEK_CUR)) < 0 ||
        lseek(a->file->fd, (off_t)((uint64_t)a->pos + a->want), SEEK_SET) < 0)
        return EOPNOTSUPP;

    return moved(rq, a->file, true, 0);
}

int amph_server_do_fstat(struct amph_server_request *rq, struct amph_server_args_fstat *a)
{
    return outcome(fstat(a->file->fd, &a->st));
}

int amph_server_do_fstatx(struct amph_server_request *rq, struct amph_server_args_fstatx *a)
{
    return outcome(statx(a->file->fd, "", AT_EMPTY_PATH, (unsigned)a->mask, &a->stx));
}

/* ---- inode flags (FS_IOC_GETFLAGS and similar), each a few words of 32 bits ---- */

static int marks_ioctl(const struct amph_server_handle *h, bool set, size_t which,
                       uint32_t word[FWD_INODE_FLAGS_MAX], size_t *n_p)
{
    static const unsigned long requests[][2] = {
        /* get, set */
        [FWD_INODE_FLAGS_FLAGS] = { FS_IOC_GETFLAGS, FS_IOC_SETFLAGS },
        [FWD_INODE_FLAGS_VERSION] = { FS_IOC_GETVERSION, FS_IOC_SETVERSION },
        [FWD_INODE_FLAGS_EXTENDED] = { FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR },
        [FWD_INODE_FLAGS_UNREAD] = { FIONREAD },
    };
    struct fsxattr x = { .fsx_xflags = word[0],
                         .fsx_extsize = word[1],
                         .fsx_nextents = word[2],
                         .fsx_projid = word[3],
                         .fsx_cowextsize = word[4] };
    int one = (int)word[0];
    int r;

    *n_p = which == FWD_INODE_FLAGS_EXTENDED ? FWD_INODE_FLAGS_MAX : 1;
    if (which == FWD_INODE_FLAGS_PIPE_SIZE)
        r = one = fcntl(h->fd, set ? F_SETPIPE_SZ : F_GETPIPE_SZ, one);
    else if (which < AMPH_COUNTOF(requests) && requests[which][set])
        r = ioctl(h->fd, requests[which][set],
                  which == FWD_INODE_FLAGS_EXTENDED ? (void *)&x : &one);
    else
        return ENOTTY;

    if (which == FWD_INODE_FLAGS_EXTENDED)
        memcpy(word,
               (uint32_t[]){ x.fsx_xflags, x.fsx_extsize, x.fsx_nextents, x.fsx_projid,
                             x.fsx_cowextsize },
               FWD_INODE_FLAGS_MAX * sizeof *word);
    else
        word[0] = (uint32_t)one;

    return outcome(r);
}

int amph_server_do_getmarks(struct amph_server_request *rq, struct amph_server_args_getmarks *a)
{
    uint32_t word[FWD_INODE_FLAGS_MAX] = { 0 };
    size_t n;
    int err = marks_ioctl(a->file, false, a->which, word, &n);

    if (!err && a->marks_cap < n * FWD_INODE_FLAG_BYTES)
        return ERANGE;

    a->marks_len = err ? 0 : n * FWD_INODE_FLAG_BYTES;
    for (size_t i = 0; i < n && !err; i++)
        amph_fwd_inode_flag_put(a->marks, i, word[i]);

    return err;
}

int amph_server_do_setmarks(struct amph_server_request *rq, struct amph_server_args_setmarks *a)
{
    uint32_t word[FWD_INODE_FLAGS_MAX] = { 0 };
    size_t n;

    for (size_t i = 0; i < FWD_INODE_FLAGS_MAX && i < a->marks_len / FWD_INODE_FLAG_BYTES; i++)
        word[i] = amph_fwd_inode_flag_get(a->marks, i);

    return marks_ioctl(a->file, true, a->which, word, &n);
}

int amph_server_do_fchmod(struct amph_server_request *rq, struct amph_server_args_fchmod *a)
{
    return outcome(fchmod(a->file->fd, a->mode & 07777));
}

int amph_server_do_fchown(struct amph_server_request *rq, struct amph_server_args_fchown *a)
{
    return outcome(fchown(a->file->fd, a->uid, a->gid));
}

int amph_server_do_futimens(struct amph_server_request *rq, struct amph_server_args_futimens *a)
{
    return outcome(futimens(a->file->fd, a->times));
}

int amph_server_do_ftruncate(struct amph_server_request *rq, struct amph_server_args_ftruncate *a)
{
    long ret;

    do
        ret = ftruncate(a->file->fd, a->length);
    while (ret < 0 && errno == EINTR);

    return outcome(ret);
}

int amph_server_do_fsync(struct amph_server_request *rq, struct amph_server_args_fsync *a)
{
    return outcome(fsync(a->file->fd));
}

int amph_server_do_fdatasync(struct amph_server_request *rq, struct amph_server_args_fdatasync *a)
{
    return outcome(fdatasync(a->file->fd));
}

int amph_server_do_syncfs(struct amph_server_request *rq, struct amph_server_args_syncfs *a)
{
    return outcome(syncfs(a->file->fd));
}

/* The longest entry of getdents64: its head, a name with its NUL, padding. */
#define ENTRY_MAX (offsetof(struct dirent64, d_name) + NAME_MAX + 1 + 7)

/* Reads only as many whole entries as fit the client's buffer, so that the directory's offset
 * (telldir) stays correct. Where any entry would have fitted, it looks whether there is another one, so that the
 * client need not ask for it. */
int amph_server_do_getdents(struct amph_server_request *rq, struct amph_server_args_getdents *a)
{
    char *at = a->entries;
    int err = count(syscall(SYS_getdents64, a->file->fd, at, a->entries_cap), &a->entries_len);

    a->end = !err && a->entries_len == 0;
    while (!err && !a->end && a->entries_cap - a->entries_len >= ENTRY_MAX) {
        long n = syscall(SYS_getdents64, a->file->fd, at + a->entries_len,
                         a->entries_cap - a->entries_len);

        if (n < 0)
            break; /* the next call reports it */

        a->end = n == 0;
        a->entries_len += (size_t)n;
    }

    return err;
}

/* Fills the server's page cache, which serves every client's later reads of the range. */
int amph_server_do_readahead(struct amph_server_request *rq, struct amph_server_args_readahead *a)
{
    long ret;

    do
        ret = readahead(a->file->fd, a->off, a->len);
    while (ret < 0 && errno == EINTR);

    return outcome(ret);
}

/* Bytes that one request copies: a client that ends has its worker for no longer. */
#define COPY_MAX ((size_t)16 << 20)

static bool is_direct(const struct amph_server_handle *h)
{
    int flags = fcntl(h->fd, F_GETFL);

    return flags >= 0 && (flags & O_DIRECT);
}

/* An offset of -1 is the open file's own.  EXDEV: the client must read and write. */
int amph_server_do_copyrange(struct amph_server_request *rq, struct amph_server_args_copyrange *a)
{
    off_t from_at = a->from_at;
    off_t at = a->at;
    size_t len = a->len < COPY_MAX ? a->len : COPY_MAX;

    if (from_at < -1 || at < -1)
        return EINVAL;
    if (is_direct(a->from) || is_direct(a->file))
        return EXDEV;

    int err = count(copy_file_range(a->from->fd, from_at < 0 ? NULL : &from_at, a->file->fd,
                                    at < 0 ? NULL : &at, len, 0),
                    &a->done);

    if (!err) {
        rq->exec.copied_bytes = a->done;
        rq->exec.copied_from = a->from;
    }

    return err == ENOSYS || err == EOPNOTSUPP ? EXDEV : err;
}

int amph_server_do_fstatfs(struct amph_server_request *rq, struct amph_server_args_fstatfs *a)
{
    int err = outcome(fstatfs(a->file->fd, &a->fs));

    if (a->file->export && a->file->export->readonly)
        a->fs.f_flags |= ST_RDONLY;

    return err;
}

int amph_server_do_fallocate(struct amph_server_request *rq, struct amph_server_args_fallocate *a)
{
    long ret;

    do
        ret = fallocate(a->file->fd, a->how, a->off, a->length);
    while (ret < 0 && errno == EINTR);

    return outcome(ret);
}

int amph_server_do_getflags(struct amph_server_request *rq, struct amph_server_args_getflags *a)
{
    a->flags = fcntl(a->file->fd, F_GETFL);
    if (a->flags < 0)
        return errno;

    a->flags = amph_server_direct_flags(a->file, (a->flags & ~O_NONBLOCK) |
                                                     (a->file->exec.nonblock ? O_NONBLOCK : 0));
    return 0;
}

int amph_server_do_setflags(struct amph_server_request *rq, struct amph_server_args_setflags *a)
{
    if (fcntl(a->file->fd, F_SETFL, a->flags | (a->file->fifo ? O_NONBLOCK : 0)) < 0)
        return errno;

    a->file->exec.nonblock = a->flags & O_NONBLOCK;
    a->file->exec.append = a->flags & O_APPEND;
    amph_server_direct_open(a->file, a->flags);

    return 0;
}

/* Returns the present name of an open file in the clients' name space; ENOENT if it was removed or
 * is now outside of the export. */
int amph_server_do_nameof(struct amph_server_request *rq, struct amph_server_args_nameof *a)
{
    static const char gone[] = " (deleted)";
    const struct amph_server_export *e = a->file->export;
    char link[40], path[PATH_MAX];
    struct stat here, there;

    snprintf(link, sizeof link, "/proc/self/fd/%d", a->file->fd);

    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return errno;

    path[n] = 0;
    if (!e || strncmp(path, e->dir, e->dir_len) != 0 ||
        (path[e->dir_len] && path[e->dir_len] != '/'))
        return ENOENT;

    if (n >= (ssize_t)sizeof gone - 1 && strcmp(path + n - (sizeof gone - 1), gone) == 0 &&
        (fstat(a->file->fd, &here) != 0 || lstat(path, &there) != 0 ||
         here.st_ino != there.st_ino || here.st_dev != there.st_dev))
        return ENOENT;

    const char *rest = path + e->dir_len;

    a->name_len = e->name_len + strlen(rest);
    if (a->name_len > a->name_cap)
        return ERANGE;

    memcpy(a->name, e->name, e->name_len);
    memcpy((char *)a->name + e->name_len, rest, strlen(rest));
    return 0;
}

/* ---- locks: of the open file description at the server ---- */

static int set_lock(struct amph_server_request *rq, struct amph_server_handle *h,
                    const struct flock *lock)
{
    struct flock l = *lock;

    l.l_pid = 0;
    if (l.l_type == F_UNLCK)
        rq->exec.released_lock = true;

    if (fcntl(h->fd, F_OFD_SETLK, &l) == 0)
        return 0;

    return errno == EACCES ? EAGAIN : errno;
}

int amph_server_do_setlock(struct amph_server_request *rq, struct amph_server_args_setlock *a)
{
    return set_lock(rq, a->file, &a->lock);
}

int amph_server_do_waitlock(struct amph_server_request *rq, struct amph_server_args_waitlock *a)
{
    int err = set_lock(rq, a->file, &a->lock);

    rq->exec.retry = err == EAGAIN;
    return err;
}

int amph_server_do_getlock(struct amph_server_request *rq, struct amph_server_args_getlock *a)
{
    a->got = a->lock;
    a->got.l_pid = 0;
    if (fcntl(a->file->fd, F_OFD_GETLK, &a->got) < 0)
        return errno;

    (void)amph_server_lock_owner(a->file->fd, &a->got);
    if (a->got.l_type == F_UNLCK) {
        a->got = a->lock;
        a->got.l_type = F_UNLCK;
    }

    return 0;
}

int amph_server_do_flock(struct amph_server_request *rq, struct amph_server_args_flock *a)
{
    if (a->op & LOCK_UN)
        rq->exec.released_lock = true;

    if (flock(a->file->fd, a->op | (a->op & LOCK_UN ? 0 : LOCK_NB)) == 0)
        return 0;

    rq->exec.retry = errno == EWOULDBLOCK && !(a->op & LOCK_NB);
    return errno;
}

/* ---- extended attributes ---- */

int amph_server_do_fgetxattr(struct amph_server_request *rq, struct amph_server_args_fgetxattr *a)
{
    return count(fgetxattr(a->file->fd, a->name, a->value, a->value_cap), &a->value_len);
}

int amph_server_do_fsetxattr(struct amph_server_request *rq, struct amph_server_args_fsetxattr *a)
{
    return outcome(fsetxattr(a->file->fd, a->name, a->value, a->value_len, a->how));
}

int amph_server_do_fremovexattr(struct amph_server_request *rq,
                                struct amph_server_args_fremovexattr *a)
{
    return outcome(fremovexattr(a->file->fd, a->name));
}

int amph_server_do_flistxattr(struct amph_server_request *rq, struct amph_server_args_flistxattr *a)
{
    return count(flistxattr(a->file->fd, a->names, a->names_cap), &a->names_len);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file calls on open files, executed.  Layer: iofwd.  Thread rule: a request runs in one
 * thread; close, hold and what takes locks only in the progress thread.  Each gives 0 or an errno
 * value.
 */
#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

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

/* The same of what gives minus an errno value. */
static int count_or_error(ssize_t n, size_t *out)
{
    *out = n < 0 ? 0 : (size_t)n;
    return n < 0 ? (int)-n : 0;
}

/* Our own signals are no business of the client; a call that was interrupted before it did anything
 * is made again. */
#define RETRY(expr) \
    ({ \
        ssize_t n_; \
        while ((n_ = (expr)) < 0 && errno == EINTR) \
            ; \
        n_; \
    })

/* Of a pipe or terminal a call may wait for ever: it ends where the client does not want it any
 * more. */
#define WAIT(expr) \
    ({ \
        amph_server_let_wake_signal_in(true); \
        ssize_t w_; \
        while ((w_ = (expr)) < 0 && errno == EINTR && !atomic_load(&rq->cancelled)) \
            ; \
        amph_server_let_wake_signal_in(false); \
        w_; \
    })

/* A call that moves data, past the page cache where that is wanted and possible.  No signal of ours
 * interrupts one on a regular file: it is the file system that says EINTR then, and the client is
 * told. */
#define MOVE(expr, data, len, off) \
    ({ \
        amph_server_direct_fit(a->file, data, len, off); \
        ssize_t m_ = a->file->regular ? (expr) : !rq->shared.in_worker ? RETRY(expr) : WAIT(expr); \
        if (m_ < 0 && errno == EINVAL && amph_server_direct_disable(a->file)) \
            m_ = (expr); \
        m_; \
    })

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

/* With RWF_*; off -1: at the offset. */
static int read_by(struct amph_server_request *rq, const struct amph_server_args_pread *a,
                   off_t off, size_t *done_p)
{
    struct iovec v = { a->buf, a->buf_cap };
    return count(MOVE(preadv2(a->file->fd, &v, 1, off, rq->bulk.rwf), a->buf, a->buf_cap, off),
                 done_p);
}

static int write_by(struct amph_server_request *rq, const struct amph_server_args_pwrite *a,
                    off_t off, size_t *done_p)
{
    struct iovec v = { (void *)a->data, a->data_len };
    return count(MOVE(pwritev2(a->file->fd, &v, 1, off, rq->bulk.rwf), a->data, a->data_len, off),
                 done_p);
}

/* A call at the offset has done something: who takes over from this server must know what has been
 * done, and in which order. */
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
    /* A pipe or terminal gives what is there; a second piece would wait for more. */
    if (!a->file->regular && !(rq->bulk.flags & FWD_PIECE_FIRST)) {
        a->buf_len = 0;
        return 0;
    }

    if (a->file->fifo)
        return amph_server_fifo_read(rq, a->file, a->buf, a->buf_cap, &a->buf_len);

    ssize_t n;
    if (amph_server_readers_read(rq, a->file, a->buf, a->buf_cap, -1, &n))
        return count_or_error(n, &a->buf_len);

    if (rq->bulk.rwf)
        return read_by(rq,
                       &(struct amph_server_args_pread){
                           .file = a->file, .buf = a->buf, .buf_cap = a->buf_cap },
                       -1, &a->buf_len);

    return count(MOVE(read(a->file->fd, a->buf, a->buf_cap), a->buf, a->buf_cap, -1), &a->buf_len);
}

int amph_server_do_read(struct amph_server_request *rq, struct amph_server_args_read *a)
{
    return moved(rq, a->file, false, do_read(rq, a));
}

static int do_write(struct amph_server_request *rq, struct amph_server_args_write *a)
{
    if (a->file->fifo)
        return amph_server_fifo_write(rq, a->file, a->data, a->data_len, &a->done);
    if (a->file->exec.append_buffer)
        return amph_server_append(rq, a->file, a->data, a->data_len, &a->done);

    if (rq->bulk.rwf)
        return write_by(rq,
                        &(struct amph_server_args_pwrite){
                            .file = a->file, .data = a->data, .data_len = a->data_len },
                        -1, &a->done);

    return count(MOVE(write(a->file->fd, a->data, a->data_len), a->data, a->data_len, -1),
                 &a->done);
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
    if (rq->bulk.rwf)
        return read_by(rq, a, a->off, &a->buf_len);

    return count(MOVE(pread(a->file->fd, a->buf, a->buf_cap, a->off), a->buf, a->buf_cap, a->off),
                 &a->buf_len);
}

int amph_server_do_pwrite(struct amph_server_request *rq, struct amph_server_args_pwrite *a)
{
    if (a->file->exec.append &&
        (rq->bulk.flags & FWD_PIECE_SPREAD)) /* to Linux pwrite appends, too */
        return EOPNOTSUPP;
    if (a->file->exec.append_buffer)
        return amph_server_append(rq, a->file, a->data, a->data_len, &a->done);
    if (rq->bulk.rwf)
        return write_by(rq, a, a->off, &a->done);

    return count(
        MOVE(pwrite(a->file->fd, a->data, a->data_len, a->off), a->data, a->data_len, a->off),
        &a->done);
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

/* For a call that several servers do together: gives out the next bytes and moves the offset past
 * them.  EOPNOTSUPP: the call is to be done by this server alone. */
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

    return outcome(lseek(a->file->fd, a->pos + (off_t)a->count, SEEK_SET));
}

int amph_server_do_takewrite(struct amph_server_request *rq, struct amph_server_args_takewrite *a)
{
    int flags = fcntl(a->file->fd, F_GETFL);

    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return EBADF;
    if (!a->file->regular || (flags & O_APPEND) || (a->pos = lseek(a->file->fd, 0, SEEK_CUR)) < 0 ||
        lseek(a->file->fd, (off_t)((uint64_t)a->pos + a->want), SEEK_SET) < 0)
        return EOPNOTSUPP;

    return 0;
}

int amph_server_do_fstat(struct amph_server_request *rq, struct amph_server_args_fstat *a)
{
    return outcome(fstat(a->file->fd, &a->st));
}

int amph_server_do_fstatx(struct amph_server_request *rq, struct amph_server_args_fstatx *a)
{
    return outcome(statx(a->file->fd, "", AT_EMPTY_PATH, (unsigned)a->mask, &a->stx));
}

/* ---- marks of a file (FS_IOC_GETFLAGS and its like), each a few words of 32 bits ---- */

static int marks_ioctl(const struct amph_server_handle *h, bool set, size_t which,
                       uint32_t word[FWD_INODE_FLAGS_MAX], size_t *n_p)
{
    static const unsigned long requests[][2] = {
        /* to get, to set */
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
    return outcome(RETRY(ftruncate(a->file->fd, a->length)));
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

/* Only as many whole entries as the client has room for are taken, so that the directory's position
 * (telldir) stays right. */
int amph_server_do_getdents(struct amph_server_request *rq, struct amph_server_args_getdents *a)
{
    return count(syscall(SYS_getdents64, a->file->fd, a->entries, a->entries_cap), &a->entries_len);
}

/* Fills the server's page cache, which serves every client's later reads of the range. */
int amph_server_do_readahead(struct amph_server_request *rq, struct amph_server_args_readahead *a)
{
    return outcome(RETRY(readahead(a->file->fd, a->off, a->len)));
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
    return outcome(RETRY(fallocate(a->file->fd, a->how, a->off, a->length)));
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

/* The name that an open file has now, as clients say it; ENOENT where it has none any more, or lies
 * outside by now. */
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying between descriptors of which at least one is forwarded.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/interpose/fd/file_size_limit.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/wire/file.h"

#define COPY_PIECE ((size_t)1 << 20)

/* Offsets are passed as the caller gave them: NULL means the descriptor's own offset. */
static ssize_t any_read(int fd, void *buf, size_t len, const off_t *at)
{
    if (amph_ip_fd(fd))
        return at ? amph_do_pread(fd, buf, len, *at) : amph_do_read(fd, buf, len);

    return at ? libc_pread64(fd, buf, len, *at) : libc_read(fd, buf, len);
}

static ssize_t any_write(int fd, const void *buf, size_t len, const off_t *at)
{
    if (amph_ip_fd(fd))
        return at ? amph_do_pwrite(fd, buf, len, *at) : amph_do_write(fd, buf, len);

    return at ? libc_pwrite64(fd, buf, len, *at) : libc_write(fd, buf, len);
}

static off_t any_seek(int fd, off_t off, int whence)
{
    return amph_ip_fd(fd) ? amph_do_lseek(fd, off, whence) : libc_lseek64(fd, off, whence);
}

/* Copies one piece from in to out.  If in is read at its own offset, that offset is set back by
 * what could not be written. */
static ssize_t copy_piece(int in, const off_t *in_off, int out, const off_t *out_off, size_t len)
{
    void *buf = __atomic_exchange_n(&amph_ip_fds.copy_buffer, NULL, __ATOMIC_ACQ_REL);

    if (!buf && !(buf = amph_ip_borrow(COPY_PIECE)))
        return amph_ip_fail(ENOMEM);

    ssize_t got = any_read(in, buf, len < COPY_PIECE ? len : COPY_PIECE, in_off);
    ssize_t put = got;

    if (got > 0) {
        put = any_write(out, buf, (size_t)got, out_off);

        int err = errno;
        off_t back = (put < 0 ? 0 : put) - got;

        if (back && !in_off)
            (void)any_seek(in, back, SEEK_CUR);

        errno = err;
    }

    void *other = __atomic_exchange_n(&amph_ip_fds.copy_buffer, buf, __ATOMIC_ACQ_REL);

    if (other)
        amph_ip_give_back(other, COPY_PIECE);

    return put;
}

/* Returns whether in and out are one file and the two ranges overlap. */
static bool overlaps(int in, const off_t *in_off, const struct stat *a, int out,
                     const off_t *out_off, const struct stat *b, size_t len)
{
    if (a->st_ino != b->st_ino || a->st_dev != b->st_dev || amph_ip_fd(in) != amph_ip_fd(out))
        return false;

    off_t from = in_off ? *in_off : amph_do_lseek(in, 0, SEEK_CUR);
    off_t to = out_off ? *out_off : amph_do_lseek(out, 0, SEEK_CUR);

    if (from >= a->st_size)
        return false;

    if ((off_t)len > a->st_size - from)
        len = (size_t)(a->st_size - from);

    return from < to + (off_t)len && to < from + (off_t)len;
}

/* Returns whether the caller's offsets can be read and written.  NULL: the descriptor's own offset
 * is used. */
static bool are_offsets_accessible(const off_t *in_off, const off_t *out_off)
{
    return (!in_off || amph_ip_can_read(in_off, sizeof *in_off)) &&
           (!out_off || amph_ip_can_read(out_off, sizeof *out_off));
}

/* Returns whether a file can have len bytes from this offset on. */
static bool is_valid_offset(const off_t *off, size_t len)
{
    return len <= SSIZE_MAX && (!off || (*off >= 0 && *off <= INT64_MAX - (off_t)len));
}

/* Advances the caller's offsets by the n bytes that were copied; n below 0: an error, which is
 * returned. */
static ssize_t advance_offsets(off_t *in_off, off_t *out_off, ssize_t n)
{
    off_t *offset[] = { in_off, out_off };
    bool moved = true;

    for (int i = 0; i < 2 && n > 0; i++) {
        if (offset[i] && amph_ip_can_write(offset[i], sizeof *offset[i]))
            *offset[i] += n;
        else
            moved = moved && !offset[i];
    }

    return moved ? n : amph_ip_fail(EFAULT);
}

/* Returns whether offset plus length exceeds the largest offset.  The kernel checks this before the
 * offset itself. */
static bool passes_end(const off_t *off, size_t len)
{
    return off && (uint64_t)*off + len < (uint64_t)*off;
}

/* The two files of a copy. */
struct ends {
    int in, out;
    int in_flags, out_flags;
    off_t *in_off, *out_off; /* NULL: the file's own offset */
    struct stat from, to;
};

/* Returns 0, or the errno value with which copy_file_range fails for these files and this length. */
static int copy_refused(const struct ends *e, size_t len)
{
    bool writable = amph_ip_may_write(e->out_flags) && !(e->out_flags & O_APPEND);

    if (S_ISDIR(e->from.st_mode) || S_ISDIR(e->to.st_mode))
        return EISDIR;
    if (!S_ISREG(e->from.st_mode) || !S_ISREG(e->to.st_mode))
        return EINVAL;
    if (!amph_ip_may_read(e->in_flags) || !writable)
        return EBADF;
    if (passes_end(e->in_off, len) || passes_end(e->out_off, len))
        return EOVERFLOW;
    if ((e->in_off && *e->in_off < 0) || (e->out_off && *e->out_off < 0))
        return EINVAL;

    return 0;
}

/* Has copies made by the server of both files, which are regular ones and open at one server.  false: the copy must be
 * made here. */
static bool copied_at_server(const struct ends *e, size_t len, ssize_t *n_p)
{
    struct amph_fd_file *from, *to;
    size_t done = 0;

    /* what the process maps, and a limit on the file's size, are known here only */
    if (!amph_ip_fd(e->in) || !amph_ip_fd(e->out) || amph_ip_is_limited() ||
        (e->in_off && *e->in_off < 0) || (e->out_off && *e->out_off < 0) ||
        amph_ip_file_begin(e->in, &from) != 0)
        return false;

    if (amph_ip_file_begin(e->out, &to) != 0) {
        amph_fdtab_put(from);
        return false;
    }

    bool able = amph_ip_client.fwd.read == amph_ip_client.direct->read &&
                amph_fwd_file_type(&from->file) == S_IFREG &&
                amph_fwd_file_type(&to->file) == S_IFREG && from->file.nparts == 1 &&
                to->file.nparts == 1 && from->file.part[0].server == to->file.part[0].server;
    off_t at = e->out_off ? *e->out_off : -1;
    off_t from_at = e->in_off ? *e->in_off : -1;
    int err = able ? amph_ip_client.fwd.copyrange(amph_ip_client.client, &to->file, &from->file, at,
                                                  from_at, len, &done)
                   : EXDEV;

    amph_fdtab_put(from);
    amph_fdtab_put(to);
    if (err == EXDEV)
        return false;

    *n_p = err ? amph_ip_fail(err) : (ssize_t)done;
    return true;
}

ssize_t amph_do_copy_file_range(int in, off_t *in_off, int out, off_t *out_off, size_t len,
                                unsigned flags)
{
    struct ends e = { .in = in, .out = out, .in_off = in_off, .out_off = out_off };
    size_t one = 1;
    ssize_t n;

    if (!flags && are_offsets_accessible(in_off, out_off) && copied_at_server(&e, len, &n))
        return advance_offsets(in_off, out_off, n);

    e.in_flags = amph_ip_fd_flags(in);
    e.out_flags = e.in_flags < 0 ? -1 : amph_ip_fd_flags(out);
    if (e.out_flags < 0)
        return -1;
    if (!are_offsets_accessible(in_off, out_off))
        return amph_ip_fail(EFAULT);
    if (flags)
        return amph_ip_fail(EINVAL);
    if (amph_ip_fd_stat(in, &e.from) != 0 || amph_ip_fd_stat(out, &e.to) != 0)
        return -1;

    int err = copy_refused(&e, len);

    if (err)
        return amph_ip_fail(err);

    /* the limit is checked even if there is nothing to copy */
    if (amph_ip_fd(out) && !amph_ip_within_limit(out, &one, out_off ? *out_off : -1, false))
        return -1;
    if (overlaps(in, in_off, &e.from, out, out_off, &e.to, len))
        return amph_ip_fail(EINVAL);
    if (in_off && *in_off >= e.from.st_size)
        return 0;

    return advance_offsets(in_off, out_off, copy_piece(in, in_off, out, out_off, len));
}

/* Sends pieces while in has data and out accepts it.  After a short write it tries the rest, too,
 * as the kernel does; a file size limit then raises its signal. */
static ssize_t send_all(int in, const off_t *in_off, int out, const off_t *out_off, size_t len)
{
    ssize_t sent = 0;
    ssize_t n = 0;
    off_t from = in_off ? *in_off : 0;
    off_t to = out_off ? *out_off : 0;
    int saved = errno;

    do {
        n = copy_piece(in, in_off ? &from : NULL, out, out_off ? &to : NULL, len - (size_t)sent);
        sent += n > 0 ? n : 0;
        from += n;
        to += n;
    } while (n > 0 && (size_t)sent < len);

    errno = sent ? saved : errno;
    return sent ? sent : n;
}

/* Sends from a file to itself, with one offset: the kernel reads and writes at the offset before
 * the call. */
static ssize_t send_to_itself(int fd, size_t len)
{
    off_t at = amph_do_lseek(fd, 0, SEEK_CUR);
    ssize_t n = at < 0 ? -1 : send_all(fd, &at, fd, &at, len);

    return n > 0 && amph_do_lseek(fd, at + n, SEEK_SET) < 0 ? -1 : n;
}

/* ---- into pipes: as the kernel moves as much as there is room for and waits only where there is
 * none, so that a program may fill a pipe that it reads itself ---- */

/* Returns whether fd is ready; wait: waits until it is. */
static int await(int fd, short events, bool wait)
{
    struct pollfd p = { .fd = fd, .events = events };

    if (amph_do_poll(&p, 1, wait ? -1 : 0) < 0)
        return -1;

    if ((events & POLLOUT) && (p.revents & POLLERR)) {
        raise(SIGPIPE);
        return amph_ip_fail(EPIPE);
    }

    return p.revents ? 0 : amph_ip_fail(EAGAIN);
}

static size_t pipe_size(int fd)
{
    int size = amph_ip_fd(fd) ? amph_do_fcntl(fd, F_GETPIPE_SZ, NULL)
                              : libc_fcntl64(fd, F_GETPIPE_SZ, NULL);
    return size < PIPE_BUF ? PIPE_BUF : (size_t)size;
}

static size_t pipe_holds(int fd)
{
    int n = 0;

    (void)(amph_ip_fd(fd) ? amph_do_ioctl(fd, FIONREAD, &n) : libc_ioctl(fd, FIONREAD, &n));
    return (size_t)n;
}

/* Copies from a forwarded file to a local pipe, page by page as the kernel does: the pipe accepts
 * whole pages. */
static ssize_t give_pages(int in, const off_t *in_off, int out, size_t len, bool wait)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = pipe_size(out);
    size_t held = pipe_holds(out);
    size_t room = held < size ? size - held : 0;
    off_t at = in_off ? *in_off : amph_do_lseek(in, 0, SEEK_CUR);
    int err = errno;

    if (at < 0 || (await(out, POLLOUT, false) != 0 && (errno != EAGAIN || !wait)))
        return -1;

    if (room < page)
        room = page;
    else if (room > COPY_PIECE)
        room = COPY_PIECE;

    char *pages = amph_ip_borrow(COPY_PIECE + page);
    if (!pages)
        return amph_ip_fail(ENOMEM);

    struct iovec v = { .iov_base = pages + (size_t)at % page };
    ssize_t n = amph_do_pread(in, v.iov_base, len < room ? len : room, at);

    v.iov_len = n > 0 ? (size_t)n : 0;
    if (n > 0 && (n = vmsplice(out, &v, 1, wait ? 0 : SPLICE_F_NONBLOCK)) > 0 && !in_off)
        amph_do_lseek(in, at + n, SEEK_SET);

    err = n < 0 ? errno : err;
    amph_ip_give_back(pages, COPY_PIECE + page);
    errno = err;

    return n;
}

/* placed: data that was read from in can be read again.  Only an empty pipe accepts its whole size
 * for certain; any pipe with room accepts PIPE_BUF. */
static ssize_t into_pipe(int in, const off_t *in_off, bool placed, int out, size_t len, bool wait)
{
    if (placed && !amph_ip_fd(out))
        return give_pages(in, in_off, out, len, wait);
    if (await(out, POLLOUT, wait) != 0)
        return -1;

    size_t room = pipe_holds(out) ? PIPE_BUF : pipe_size(out);

    return copy_piece(in, in_off, out, NULL, len < room ? len : room);
}

/* The source of a sendfile. */
struct source {
    mode_t mode; /* 0: unknown */
    bool file;   /* regular file, directory or block device */
    bool seeks;  /* it has an offset that can be changed */
};

static struct source source_of(int in)
{
    struct stat st = { .st_mode = 0 };
    bool known = amph_ip_fd_stat(in, &st) == 0;
    struct source s = { .mode = st.st_mode };

    s.file = known && (S_ISREG(s.mode) || S_ISDIR(s.mode) || S_ISBLK(s.mode));
    s.seeks = s.file || (S_ISCHR(s.mode) && any_seek(in, 0, SEEK_CUR) >= 0);
    return s;
}

/* Moves up to len > 0 bytes of a sendfile; returns like sendfile. */
static ssize_t send_piece(const struct source *s, int in, const off_t *off, int out, size_t len,
                          bool to_pipe, bool wait)
{
    if (to_pipe)
        return into_pipe(in, off, s->file, out, len, wait);
    if (s->file)
        return send_all(in, off, out, NULL, len);

    return copy_piece(in, off, out, NULL, len);
}

ssize_t amph_do_sendfile(int out, int in, off_t *off, size_t len)
{
    int in_flags = amph_ip_fd_flags(in);
    struct stat to = { .st_mode = 0 };

    if (!are_offsets_accessible(off, NULL))
        return amph_ip_fail(EFAULT);

    /* errors of the source come first */
    if (in_flags < 0 || !amph_ip_may_read(in_flags))
        return amph_ip_fail(EBADF);

    struct source s = source_of(in);

    if (off && !s.seeks)
        return amph_ip_fail(ESPIPE);
    if (!is_valid_offset(off, len))
        return amph_ip_fail(EINVAL);

    int out_flags = amph_ip_fd_flags(out);

    if (out_flags < 0 || !amph_ip_may_write(out_flags) || amph_ip_fd_stat(out, &to) != 0)
        return amph_ip_fail(EBADF);

    bool to_pipe = S_ISFIFO(to.st_mode);

    if (S_ISDIR(s.mode) || S_ISFIFO(s.mode))
        return amph_ip_fail(EINVAL);
    if (!to_pipe && (!s.seeks || (out_flags & O_APPEND)))
        return amph_ip_fail(EINVAL);
    if (!off && amph_fdtab_same(in, out))
        return send_to_itself(in, len);

    bool wait = !(out_flags & O_NONBLOCK);
    ssize_t n = len > 0 ? send_piece(&s, in, off, out, len, to_pipe, wait) : 0;

    /* like the kernel, which stores the offset in any case */
    if (n == 0 && off && !amph_ip_can_write(off, sizeof *off))
        return amph_ip_fail(EFAULT);

    return advance_offsets(off, NULL, n);
}

#define SPLICE_FLAGS (SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

/* Bytes that are read from a pipe at a time, a pipe's default size: what was read from a pipe cannot
 * be put back. */
#define PIPE_READ_MAX ((size_t)65536)

/* Returns 0, or the errno value with which splice fails for these files and this length. */
static int splice_refused(const struct ends *e, size_t len)
{
    bool from_pipe = S_ISFIFO(e->from.st_mode);
    bool to_pipe = S_ISFIFO(e->to.st_mode);

    if ((from_pipe && e->in_off) || (to_pipe && e->out_off))
        return ESPIPE;
    if (!are_offsets_accessible(e->in_off, e->out_off))
        return EFAULT;
    if (!amph_ip_may_read(e->in_flags) || !amph_ip_may_write(e->out_flags))
        return EBADF;

    /* one side must be a pipe */
    if (!from_pipe && !to_pipe)
        return EINVAL;
    if (S_ISDIR(e->from.st_mode) || (!to_pipe && (e->out_flags & O_APPEND)))
        return EINVAL;

    bool same = amph_ip_fd(e->in) == amph_ip_fd(e->out) && e->from.st_ino == e->to.st_ino &&
                e->from.st_dev == e->to.st_dev;

    if (same || !is_valid_offset(e->in_off, len) || !is_valid_offset(e->out_off, len))
        return EINVAL;

    return 0;
}

/* May splice wait?  Not if the caller or one of the pipes says otherwise. */
static bool splice_waits(const struct ends *e, unsigned flags)
{
    int pipes = (S_ISFIFO(e->from.st_mode) ? e->in_flags : 0) |
                (S_ISFIFO(e->to.st_mode) ? e->out_flags : 0);

    return !(flags & SPLICE_F_NONBLOCK) && !(pipes & O_NONBLOCK);
}

ssize_t amph_do_splice(int in, off_t *in_off, int out, off_t *out_off, size_t len, unsigned flags)
{
    struct ends e = { .in = in, .out = out, .in_off = in_off, .out_off = out_off };

    if (len == 0)
        return 0;
    if (flags & ~(unsigned)SPLICE_FLAGS)
        return amph_ip_fail(EINVAL);

    e.in_flags = amph_ip_fd_flags(in);
    e.out_flags = e.in_flags < 0 ? -1 : amph_ip_fd_flags(out);
    if (e.out_flags < 0 || amph_ip_fd_stat(in, &e.from) != 0 || amph_ip_fd_stat(out, &e.to) != 0)
        return -1;

    int err = splice_refused(&e, len);

    if (err)
        return amph_ip_fail(err);

    bool file = S_ISREG(e.from.st_mode) || S_ISBLK(e.from.st_mode);
    bool wait = splice_waits(&e, flags);
    ssize_t n;

    if (!wait && !file && await(in, POLLIN, false) != 0)
        return -1;

    if (S_ISFIFO(e.to.st_mode))
        n = into_pipe(in, in_off, file, out, len, wait);
    else
        n = copy_piece(in, NULL, out, out_off, len < PIPE_READ_MAX ? len : PIPE_READ_MAX);

    return advance_offsets(in_off, out_off, n);
}

/* Always fails: a server's FIFO and a local pipe share no pages. */
ssize_t amph_do_tee(int in, int out, size_t len, unsigned flags)
{
    if (flags & ~(unsigned)SPLICE_FLAGS)
        return amph_ip_fail(EINVAL);
    if (len == 0)
        return 0;

    int in_flags = amph_ip_fd_flags(in);
    int out_flags = in_flags < 0 ? -1 : amph_ip_fd_flags(out);

    if (out_flags < 0)
        return -1;

    bool allowed = amph_ip_may_read(in_flags) && amph_ip_may_write(out_flags);

    return amph_ip_fail(allowed ? EINVAL : EBADF);
}

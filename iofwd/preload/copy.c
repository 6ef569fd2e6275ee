/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying between descriptors of which at least one is forwarded.  Layer: iofwd (preload).  Thread rule: any thread.
 */
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "iofwd/preload/any.h"
#include "iofwd/preload/fsize.h"
#include "iofwd/preload/reach.h"

#define COPY_PIECE ((size_t)1 << 20)

static ssize_t any_read(int fd, void *buf, size_t len, off_t off)
{
    if (fwd_fd(fd))
        return off == -1 ? x_read(fd, buf, len) : x_pread(fd, buf, len, off);
    return off == -1 ? real_read(fd, buf, len) : real_pread64(fd, buf, len, off);
}

static ssize_t any_write(int fd, const void *buf, size_t len, off_t off)
{
    if (fwd_fd(fd))
        return off == -1 ? x_write(fd, buf, len) : x_pwrite(fd, buf, len, off);
    return off == -1 ? real_write(fd, buf, len) : real_pwrite64(fd, buf, len, off);
}

/* One piece from in to out; what could not be written is given back to an input that is read at its own offset. */
static ssize_t copy_piece(int in, off_t in_off, int out, off_t out_off, size_t len)
{
    static void *spare;
    void *buf = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQ_REL);
    if (!buf && !(buf = fwd_borrow(COPY_PIECE)))
        return fwd_fail(ENOMEM);
    ssize_t got = any_read(in, buf, len < COPY_PIECE ? len : COPY_PIECE, in_off), put = got;
    if (got > 0) {
        put = any_write(out, buf, (size_t)got, out_off);
        int err = errno;
        off_t back = (put < 0 ? 0 : put) - got;
        if (back && in_off == -1)
            (void)(fwd_fd(in) ? x_lseek(in, back, SEEK_CUR) : real_lseek64(in, back, SEEK_CUR));
        errno = err;
    }
    void *other = __atomic_exchange_n(&spare, buf, __ATOMIC_ACQ_REL);
    if (other)
        munmap(other, COPY_PIECE);
    return put;
}

/* One file, and the two ranges touch? */
static bool overlaps(int in, const off_t *in_off, const struct stat *a, int out, const off_t *out_off, const struct stat *b, size_t len)
{
    if (a->st_ino != b->st_ino || a->st_dev != b->st_dev || fwd_fd(in) != fwd_fd(out))
        return false;
    off_t from = in_off ? *in_off : x_lseek(in, 0, SEEK_CUR), to = out_off ? *out_off : x_lseek(out, 0, SEEK_CUR);
    if (from >= a->st_size)
        return false;
    if ((off_t)len > a->st_size - from)
        len = (size_t)(a->st_size - from);
    return from < to + (off_t)len && to < from + (off_t)len;
}

/* Places in files that the caller keeps: NULL where it uses the descriptor's own. */
static bool have_places(const off_t *in_off, const off_t *out_off)
{
    return (!in_off || fwd_can_read(in_off, sizeof *in_off)) && (!out_off || fwd_can_read(out_off, sizeof *out_off));
}

/* n bytes, or an error, have been copied. */
static ssize_t move_places(off_t *in_off, off_t *out_off, ssize_t n)
{
    off_t *place[] = { in_off, out_off };
    bool moved = true;
    for (int i = 0; i < 2 && n > 0; i++) {
        if (place[i] && fwd_can_write(place[i], sizeof *place[i]))
            *place[i] += n;
        else
            moved = moved && !place[i];
    }
    return moved ? n : fwd_fail(EFAULT);
}

ssize_t x_copy_file_range(int in, off_t *in_off, int out, off_t *out_off, size_t len, unsigned flags)
{
    struct stat a, b;
    size_t one = 1;
    int in_flags = fwd_any_flags(in), out_flags = in_flags < 0 ? -1 : fwd_any_flags(out);
    if (out_flags < 0)
        return -1;
    if (!have_places(in_off, out_off))
        return fwd_fail(EFAULT);
    if (flags)
        return fwd_fail(EINVAL);
    if (fwd_any_stat(in, &a) != 0 || fwd_any_stat(out, &b) != 0)
        return -1;
    if (S_ISDIR(a.st_mode) || S_ISDIR(b.st_mode))
        return fwd_fail(EISDIR);
    if (!S_ISREG(a.st_mode) || !S_ISREG(b.st_mode))
        return fwd_fail(EINVAL);
    if (!fwd_may_read(in_flags) || !fwd_may_write(out_flags) || (out_flags & O_APPEND))
        return fwd_fail(EBADF);
    if (fwd_fd(out) && !fwd_within_limit(out, &one, out_off ? *out_off : -1, false)) /* also where there is nothing to copy */
        return -1;
    if (overlaps(in, in_off, &a, out, out_off, &b, len))
        return fwd_fail(EINVAL);
    return move_places(in_off, out_off, copy_piece(in, in_off ? *in_off : -1, out, out_off ? *out_off : -1, len));
}

/* As long as there is something and it can be written: the kernel tries to write the rest, too, and tells by signals of limits then. */
static ssize_t send_all(int in, off_t in_off, int out, off_t out_off, size_t len)
{
    ssize_t sent = 0, n = 0;
    int saved = errno;
    do {
        n = copy_piece(in, in_off == -1 ? -1 : in_off + sent, out, out_off == -1 ? -1 : out_off + sent, len - (size_t)sent);
        sent += n > 0 ? n : 0;
    } while (n > 0 && (size_t)sent < len);
    errno = sent ? saved : errno;
    return sent ? sent : n;
}

/* From a file to itself at its one offset: the kernel reads and writes at the place where that is before. */
static ssize_t send_to_itself(int fd, size_t len)
{
    off_t at = x_lseek(fd, 0, SEEK_CUR);
    if (at < 0 && errno == ESPIPE)
        errno = EINVAL;
    ssize_t n = at < 0 ? -1 : send_all(fd, at, fd, at, len);
    return n > 0 && x_lseek(fd, at + n, SEEK_SET) < 0 ? -1 : n;
}

ssize_t x_sendfile(int out, int in, off_t *off, size_t len)
{
    int in_flags = fwd_any_flags(in), out_flags;
    struct stat st = { .st_mode = 0 };
    if (!have_places(off, NULL))
        return fwd_fail(EFAULT);
    if (in_flags < 0 || !fwd_may_read(in_flags)) /* what is wrong with the source comes first */
        return fwd_fail(EBADF);
    bool placed = fwd_any_stat(in, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode));
    if (off && (!placed || *off < 0))
        return fwd_fail(placed ? EINVAL : ESPIPE);
    out_flags = fwd_any_flags(out);
    if (out_flags < 0 || !fwd_may_write(out_flags))
        return fwd_fail(EBADF);
    if ((out_flags & O_APPEND) || S_ISDIR(st.st_mode))
        return fwd_fail(EINVAL);
    if (!off && fdtab_same(in, out))
        return send_to_itself(in, len);
    ssize_t n = S_ISREG(st.st_mode) ? send_all(in, off ? *off : -1, out, -1, len) : copy_piece(in, off ? *off : -1, out, -1, len);
    if (n == 0 && off && !fwd_can_write(off, sizeof *off)) /* as the kernel, which puts it back in any case */
        return fwd_fail(EFAULT);
    return move_places(off, NULL, n);
}

/* One side is a pipe, as the kernel wants it. */
ssize_t x_splice(int in, off_t *in_off, int out, off_t *out_off, size_t len, unsigned flags)
{
    struct stat a, b;
    int in_flags = fwd_any_flags(in), out_flags = in_flags < 0 ? -1 : fwd_any_flags(out);
    if (len == 0)
        return 0;
    if (out_flags < 0 || fwd_any_stat(in, &a) != 0 || fwd_any_stat(out, &b) != 0)
        return -1;
    if (!fwd_may_read(in_flags) || !fwd_may_write(out_flags))
        return fwd_fail(EBADF);
    if ((S_ISFIFO(a.st_mode) && in_off) || (S_ISFIFO(b.st_mode) && out_off))
        return fwd_fail(ESPIPE);
    if (!have_places(in_off, out_off))
        return fwd_fail(EFAULT);
    if ((!S_ISFIFO(a.st_mode) && !S_ISFIFO(b.st_mode)) || S_ISDIR(a.st_mode) || (out_flags & O_APPEND))
        return fwd_fail(EINVAL);
    /* what has left the pipe cannot go back, so no more is taken than a pipe takes at once */
    return move_places(in_off, out_off, copy_piece(in, in_off ? *in_off : -1, out, out_off ? *out_off : -1, len < 65536 ? len : 65536));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data of forwarded files: reading, writing, sizes.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; read and write also in signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/interpose/fd/file_size_limit.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/wire/file.h"

#define CALL_BYTES_MAX ((size_t)0x7ffff000) /* what Linux transfers in one call */

/* ---- memory that the program does not have: EFAULT where nothing of a buffer is there, else the
 * call ends where it does ---- */

/* Reads from a FIFO into a buffer that does not exist.  If the FIFO has data, the read fails;
 * otherwise it waits first. */
static ssize_t read_fifo_nowhere(int fd, int flags)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int n = amph_do_poll(&p, 1, flags & O_NONBLOCK ? 0 : -1);

    if (n <= 0)
        return n < 0 ? -1 : amph_ip_fail(EAGAIN);

    return p.revents & POLLIN ? amph_ip_fail(EFAULT) : 0;
}

/* Reads into a buffer that does not exist, which is allowed at the end of a file.  off -1: at the
 * offset. */
static ssize_t read_nowhere(int fd, bool wild, off_t off)
{
    struct stat st;
    int flags = amph_ip_fd_flags(fd);

    if (flags < 0 || !amph_ip_may_read(flags))
        return flags < 0 ? -1 : amph_ip_fail(EBADF);
    if (!wild && off == -1 && amph_ip_waits(fd))
        return read_fifo_nowhere(fd, flags);
    if (!wild && amph_do_fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        return amph_ip_fail(EISDIR);
    if (!wild && S_ISREG(st.st_mode) &&
        (off == -1 ? amph_do_lseek(fd, 0, SEEK_CUR) : off) >= st.st_size)
        return 0;

    return amph_ip_fail(EFAULT);
}

static ssize_t write_nothing(int fd, off_t off)
{
    int flags = amph_ip_fd_flags(fd);
    size_t one = 1;

    if (flags < 0 || !amph_ip_may_write(flags))
        return flags < 0 ? -1 : amph_ip_fail(EBADF);

    return amph_ip_within_limit(fd, &one, off, false) ? amph_ip_fail(EFAULT) : -1;
}

/* Returns how many bytes of a buffer exist, at most what Linux transfers in one call.  Returns 0
 * for len > 0 if the first byte does not exist. */
static inline size_t there(const void *buf, size_t len, bool write)
{
    size_t max = len < CALL_BYTES_MAX ? len : CALL_BYTES_MAX;

    if (AMPH_LIKELY(amph_ip_mem_known((uintptr_t)buf, max, write)))
        return max;

    return amph_ip_is_wild(buf, len) ? 0 : amph_ip_mem_ask(buf, max, write);
}

/* A pipe accepts a page of the program's data as a whole, or nothing of it. */
#define FIFO_PAGE ((size_t)4096)

static size_t whole_pieces(int fd, size_t have, size_t len)
{
    return AMPH_LIKELY(have == len) || len > CALL_BYTES_MAX || !amph_ip_waits(fd)
               ? have
               : have - have % FIFO_PAGE;
}

ssize_t amph_do_read(int fd, void *buf, size_t len)
{
    struct amph_fd_file *of;
    size_t done = 0;
    size_t room = there(buf, len, true);

    if (AMPH_UNLIKELY(room == 0 && len))
        return read_nowhere(fd, amph_ip_is_wild(buf, len), -1);
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_client.fwd.read(amph_ip_client.client, &of->file, buf, room, &done);

    return amph_ip_file_end(of, err) ? -1 : (ssize_t)done;
}

/* Ends a transfer with its result.  signals: a pipe that has no reader is answered by SIGPIPE, as by
 * the kernel. */
static ssize_t transfer_end(struct amph_fd_file *of, int err, size_t done, bool signals)
{
    if (amph_ip_file_end(of, err) == 0)
        return (ssize_t)done;

    if (err == EPIPE && signals) {
        raise(SIGPIPE);
        errno = EPIPE;
    }

    return -1;
}

ssize_t amph_do_write(int fd, const void *buf, size_t len)
{
    struct amph_fd_file *of;
    size_t done = 0;
    size_t have = whole_pieces(fd, there(buf, len, false), len);

    if (AMPH_UNLIKELY(have == 0 && len))
        return write_nothing(fd, -1);
    if (!amph_ip_within_limit(fd, &have, -1, false) || amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_client.fwd.write(amph_ip_client.client, &of->file, buf, have, &done);

    return transfer_end(of, err, done, true);
}

ssize_t amph_do_pread(int fd, void *buf, size_t len, off_t off)
{
    struct amph_fd_file *of;
    size_t done = 0;
    size_t room = there(buf, len, true);

    if (off < 0)
        return amph_ip_fail(EINVAL);
    if (AMPH_UNLIKELY(room == 0 && len))
        return read_nowhere(fd, amph_ip_is_wild(buf, len), off);
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_client.fwd.pread(amph_ip_client.client, &of->file, off, buf, room, &done);

    return amph_ip_file_end(of, err) ? -1 : (ssize_t)done;
}

ssize_t amph_do_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    struct amph_fd_file *of;
    size_t done = 0;
    size_t have = there(buf, len, false);

    if (off < 0)
        return amph_ip_fail(EINVAL);
    if (AMPH_UNLIKELY(have == 0 && len))
        return write_nothing(fd, off);
    if (!amph_ip_within_limit(fd, &have, off, false) || amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_client.fwd.pwrite(amph_ip_client.client, &of->file, off, buf, have, &done);

    return transfer_end(of, err, done, true);
}

off_t amph_do_lseek(int fd, off_t off, int whence)
{
    struct amph_fd_file *of;
    off_t at = 0;

    if (amph_fdtab_is_near(fd))
        return amph_ip_kernel_lseek(fd, off, whence);
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_client.fwd.lseek(amph_ip_client.client, &of->file, off, whence, &at);

    if (err == EINVAL && (whence < SEEK_SET || whence > SEEK_HOLE) &&
        (amph_do_fcntl(fd, F_GETFL, NULL) & O_PATH))
        err = EBADF; /* the kernel checks this first */

    return amph_ip_file_end(of, err) ? -1 : at;
}

/* ---- scattered buffers: one call at the server, since readv and writev are one call ---- */

/* Returns the number of bytes of the call, up to the first that does not exist.  *asked_p: bytes
 * that it asked for. */
static int iov_total(const struct iovec *iov, int count, bool write, size_t *asked_p,
                     size_t *total_p)
{
    size_t asked = 0;
    size_t total = 0;

    if (count < 0 || count > IOV_MAX)
        return amph_ip_fail(EINVAL);
    if (!amph_ip_can_read(iov, (size_t)count * sizeof *iov))
        return amph_ip_fail(EFAULT);

    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len > (size_t)SSIZE_MAX)
            return amph_ip_fail(EINVAL);
        if (amph_ip_is_wild(iov[i].iov_base, iov[i].iov_len))
            return amph_ip_fail(EFAULT);

        size_t len = iov[i].iov_len < CALL_BYTES_MAX - asked ? iov[i].iov_len
                                                             : CALL_BYTES_MAX - asked;

        if (total == asked)
            total += amph_ip_mem(iov[i].iov_base, len, write);

        asked += len;
    }

    *asked_p = asked;
    *total_p = total;
    return 0;
}

void *amph_ip_borrow(size_t len)
{
    /* signal handlers may */
    void *p = amph_ip_kernel_mmap(NULL, len ? len : 1, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void amph_ip_give_back(void *memory, size_t len)
{
    int saved = errno;

    amph_ip_mem_forget();
    amph_ip_kernel_munmap(memory, len ? len : 1);
    errno = saved;
}

/* New memory costs two system calls, a page fault for each of its pages, and all that is known of the program's
 * memory (amph_ip_mem_forget): several times as much as a small call. */
void *amph_ip_scratch_take(size_t len)
{
    if (len > AMPH_IP_SCRATCH_BYTES)
        return amph_ip_borrow(len);

    for (size_t i = 0; i < AMPH_IP_SCRATCH_SLOTS; i++) {
        void *memory = __atomic_exchange_n(&amph_ip_fds.scratch[i], NULL, __ATOMIC_ACQ_REL);

        if (memory)
            return memory;
    }

    return amph_ip_borrow(AMPH_IP_SCRATCH_BYTES);
}

void amph_ip_scratch_return(void *memory, size_t len)
{
    if (len > AMPH_IP_SCRATCH_BYTES) {
        amph_ip_give_back(memory, len);
        return;
    }

    for (size_t i = 0; i < AMPH_IP_SCRATCH_SLOTS; i++) {
        void *none = NULL;

        if (__atomic_compare_exchange_n(&amph_ip_fds.scratch[i], &none, memory, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
    }

    amph_ip_give_back(memory, AMPH_IP_SCRATCH_BYTES);
}

/* Executes preadv2 or pwritev2 with flags. */
static ssize_t with_flags(int fd, bool write, void *buf, size_t len, off_t off, int flags)
{
    struct amph_fd_file *of;
    size_t done = 0;

    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    struct amph_fwd_client *c = amph_ip_client.client;
    struct amph_fwd_file file = of->file;

    file.rwf = (uint32_t)flags & AMPH_FWD_RWF_SENT;

    int err;

    if (write && off == -1)
        err = amph_ip_client.fwd.write(c, &file, buf, len, &done);
    else if (write)
        err = amph_ip_client.fwd.pwrite(c, &file, off, buf, len, &done);
    else if (off == -1)
        err = amph_ip_client.fwd.read(c, &file, buf, len, &done);
    else
        err = amph_ip_client.fwd.pread(c, &file, off, buf, len, &done);

    return transfer_end(of, err, done, write && !(flags & AMPH_FWD_RWF_NOSIGNAL));
}

static ssize_t read_at(int fd, void *buf, size_t len, off_t off, int flags)
{
    if (flags)
        return with_flags(fd, false, buf, there(buf, len, true), off, flags);

    return off == -1 ? amph_do_read(fd, buf, len) : amph_do_pread(fd, buf, len, off);
}

static ssize_t write_at(int fd, const void *buf, size_t len, off_t off, int flags)
{
    size_t have = flags ? there(buf, len, false) : len;

    if (flags)
        return amph_ip_within_limit(fd, &have, off, flags & RWF_APPEND)
                   ? with_flags(fd, true, (void *)buf, have, off, flags)
                   : -1;

    return off == -1 ? amph_do_write(fd, buf, len) : amph_do_pwrite(fd, buf, len, off);
}

off_t amph_ip_not_negative(off_t off)
{
    return off < 0 ? -2 : off;
}

static bool has_no_offset(int fd)
{
    struct stat st;
    return amph_do_fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Fails for flags that no kernel knows.  Errors of the descriptor have precedence over them. */
static int wrong_flags(int fd, off_t off, bool write)
{
    int have = amph_ip_fd_flags(fd);

    if (have >= 0 && off >= 0 && has_no_offset(fd))
        return amph_ip_fail(ESPIPE);

    if (have < 0)
        return -1;

    bool allowed = write ? amph_ip_may_write(have) : amph_ip_may_read(have);

    return amph_ip_fail(allowed ? EOPNOTSUPP : EBADF);
}

ssize_t amph_do_preadv(int fd, const struct iovec *iov, int count, off_t off, int flags)
{
    size_t asked, total;

    if (off < -1)
        return amph_ip_fail(EINVAL);
    if (iov_total(iov, count, true, &asked, &total) != 0)
        return -1;

    if (asked == 0) {
        int have = amph_ip_fd_flags(fd);
        if (have >= 0 && off >= 0 && has_no_offset(fd))
            return amph_ip_fail(ESPIPE);

        if (have < 0)
            return -1;

        return amph_ip_may_read(have) ? 0 : amph_ip_fail(EBADF);
    }

    if (flags & ~AMPH_FWD_RWF_KNOWN)
        return wrong_flags(fd, off, false);
    if (total == 0)
        return read_nowhere(fd, false, off);
    if (count == 1)
        return read_at(fd, iov[0].iov_base, iov[0].iov_len, off, flags);

    char *whole = amph_ip_scratch_take(total);
    if (!whole)
        return amph_ip_fail(ENOMEM);

    ssize_t got = read_at(fd, whole, total, off, flags);
    size_t at = 0;

    for (int i = 0; i < count && got > 0 && at < (size_t)got; i++) {
        size_t n = iov[i].iov_len < (size_t)got - at ? iov[i].iov_len : (size_t)got - at;

        memcpy(iov[i].iov_base, whole + at, n);
        at += n;
    }

    amph_ip_scratch_return(whole, total);
    return got;
}

ssize_t amph_do_pwritev(int fd, const struct iovec *iov, int count, off_t off, int flags)
{
    size_t asked, total;
    size_t at = 0;

    if (off < -1)
        return amph_ip_fail(EINVAL);
    if (iov_total(iov, count, false, &asked, &total) != 0)
        return -1;
    if (asked && (flags & ~AMPH_FWD_RWF_KNOWN))
        return wrong_flags(fd, off, true);
    if (asked && total == 0)
        return write_nothing(fd, off);
    if (count == 1)
        return write_at(fd, iov[0].iov_base, iov[0].iov_len, off, flags);

    char *whole = amph_ip_scratch_take(total);
    if (!whole)
        return amph_ip_fail(ENOMEM);

    for (int i = 0; i < count && at < total; i++) {
        size_t n = iov[i].iov_len < total - at ? iov[i].iov_len : total - at;

        memcpy(whole + at, iov[i].iov_base, n);
        at += n;
    }

    ssize_t n = write_at(fd, whole, total, off, asked ? flags : 0);

    amph_ip_scratch_return(whole, total);
    return n;
}

int amph_do_vdprintf(int fd, const char *format, va_list ap)
{
    char *text = NULL;
    int len = vasprintf(&text, format, ap);
    int at = 0;

    while (len > 0 && at < len) {
        ssize_t n = amph_do_write(fd, text + at, (size_t)(len - at));

        if (n <= 0) {
            len = -1;
            break;
        }

        at += (int)n;
    }

    if (text)
        free(text);

    return len;
}

/* ---- the rest of what is done by descriptor ---- */

int amph_do_fsync(int fd)
{
    struct amph_fd_file *of;

    if (amph_fdtab_is_near(fd))
        return amph_ip_kernel_fsync(fd);
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_maps_flush(of);

    return amph_ip_file_end(of,
                            err ? err : amph_ip_client.fwd.fsync(amph_ip_client.client, &of->file));
}

int amph_do_fdatasync(int fd)
{
    struct amph_fd_file *of;

    if (amph_fdtab_is_near(fd))
        return amph_ip_kernel_fdatasync(fd);
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_maps_flush(of);

    return amph_ip_file_end(
        of, err ? err : amph_ip_client.fwd.fdatasync(amph_ip_client.client, &of->file));
}

int amph_do_syncfs(int fd)
{
    struct amph_fd_file *of;
    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(of, amph_ip_client.fwd.syncfs(amph_ip_client.client, &of->file));
}

int amph_do_ftruncate(int fd, off_t length)
{
    struct amph_fd_file *of;

    if (length < 0)
        return amph_ip_fail(EINVAL);
    if (AMPH_UNLIKELY(amph_ip_is_limited()) && !amph_ip_may_grow(fd, NULL, length))
        return -1;

    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(
                     of, amph_ip_client.fwd.ftruncate(amph_ip_client.client, &of->file, length));
}

int amph_do_fallocate(int fd, int how, off_t off, off_t length)
{
    struct amph_fd_file *of;

    if (off < 0 || length <= 0)
        return amph_ip_fail(EINVAL);
    if (AMPH_UNLIKELY(amph_ip_is_limited()) && (how == 0 || how == FALLOC_FL_ZERO_RANGE) &&
        length <= INT64_MAX - off && !amph_ip_may_grow(fd, NULL, off + length))
        return -1;

    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(of, amph_ip_client.fwd.fallocate(amph_ip_client.client, &of->file,
                                                                   how, off, length));
}

/* Returns the error, as posix_fallocate does, and leaves errno alone.  If the file system cannot
 * allocate, a byte is touched in each block, as the C library does. */
int amph_do_posix_fallocate(int fd, off_t off, off_t length)
{
    struct stat st;
    int saved = errno;
    int err = 0;

    if (amph_do_fallocate(fd, 0, off, length) != 0)
        err = errno;

    if (err == EOPNOTSUPP && (err = amph_do_fstat(fd, &st) ? errno : 0) == 0) {
        /* st_blksize may be larger than the blocks are */
        off_t step = st.st_blksize > 0 && st.st_blksize < 4096 ? st.st_blksize : 4096;

        if (st.st_size < off + length && amph_do_ftruncate(fd, off + length) != 0)
            err = errno;

        for (off_t at = off; !err && at < off + length; at += step) {
            char c = 0;

            if (at < st.st_size ? amph_do_pread(fd, &c, 1, at) < 0 ||
                                      (c == 0 && amph_do_pwrite(fd, &c, 1, at) != 1)
                                : amph_do_pwrite(fd, &c, 1, at) != 1)
                err = errno;
        }
    }

    errno = saved;
    return err;
}

int amph_do_sync_file_range(int fd, off_t off, off_t len, unsigned flags)
{
    struct stat st;

    if (amph_ip_fd_flags(fd) < 0)
        return -1;
    if (flags & ~7U || off < 0 || len < 0 || len > INT64_MAX - off)
        return amph_ip_fail(EINVAL);
    if (amph_ip_fd_stat(fd, &st) != 0)
        return -1;
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode) && !S_ISDIR(st.st_mode))
        return amph_ip_fail(ESPIPE);

    return amph_do_fdatasync(fd); /* does more than was asked for */
}

/* Advice has no effect on forwarded files; only the errors of the call are reported. */
int amph_do_posix_fadvise(int fd, off_t len, int advice)
{
    mode_t type;
    int saved = errno;
    int err = 0;

    /* without a question to the server: cat and cp call this for each file */
    if (amph_ip_is_path_only(fd))
        err = EBADF;
    else if (amph_ip_fd_type(fd, &type) != 0)
        err = errno;
    else if (type == S_IFIFO)
        err = ESPIPE;
    else if (len < 0 || advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE)
        err = EINVAL;

    errno = saved;
    return err;
}

ssize_t amph_do_readahead(int fd, off_t off, size_t len)
{
    struct amph_fd_file *of;

    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = amph_ip_client.fwd.readahead(amph_ip_client.client, &of->file, off, len);

    return amph_ip_file_end(of, err);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's asynchronous input and output with requests of forwarded files; see libaio.h.
 *
 * The program gets the end of a request from the kernel: by io_getevents, from the ring that the kernel maps into its
 * memory (QEMU), or by an eventfd.  So each request of a forwarded file is executed here, and then given to the kernel
 * as a write to /dev/null of as many bytes as were moved.  The event has the address, the data and the result of the
 * request, and comes by the way that the program has chosen.
 *
 * The address of an event is that of the program's own struct iocb, so the write to /dev/null is described in it
 * for the time of the system call.  A thread that gets an event meanwhile (amph_ip_events) waits for its end.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include "iofwd/interpose/fd/libaio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/platform.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/libc/libc_real.h"

/* Any address that leaves room for the longest write: /dev/null does not look at the memory. */
#define SOME_ADDRESS 65536

/* Bounds a wait for another thread's system call, which takes microseconds, in case that thread is interrupted by
 * the handler that waits. */
#define YIELDS_MAX 1000000

/* Returns a descriptor of /dev/null, which is kept; -1: there is none in the caller's table. */
static int null_device(void)
{
    int *kept = &amph_ip_fds.libaio.null_plus_one;
    int fd = __atomic_load_n(kept, __ATOMIC_ACQUIRE) - 1;

    if (fd >= 0)
        return amph_fdtab_class(fd) == FDTAB_OWN ? fd : -1;

    fd = amph_ip_own(amph_ip_kernel_openat(AT_FDCWD, "/dev/null", O_WRONLY | O_CLOEXEC, 0));

    int none = 0;

    if (fd < 0 ||
        __atomic_compare_exchange_n(kept, &none, fd + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return fd;

    amph_fdtab_mark(fd, FDTAB_UNKNOWN); /* another thread was faster */
    amph_ip_kernel_close(fd);
    return null_device();
}

/* ---- execution ---- */

/* Writes what a call that has written `done` bytes has left.  The kernel ends a request early only after an error,
 * which the program then gets for this request. */
static bool write_rest(int fd, const struct iovec *iov, int count, size_t done, off_t off)
{
    for (int i = 0; i < count; i++) {
        const char *base = iov[i].iov_base;
        size_t at = done < iov[i].iov_len ? done : iov[i].iov_len;

        done -= at;
        while (at < iov[i].iov_len) {
            ssize_t n = amph_do_pwrite(fd, base + at, iov[i].iov_len - at, off + (off_t)at);

            if (n == 0)
                errno = EIO;
            if (n <= 0)
                return false;

            at += (size_t)n;
        }

        off += (off_t)iov[i].iov_len;
    }

    return true;
}

static ssize_t write_all(int fd, const struct iovec *iov, int count, off_t off, int flags)
{
    ssize_t n = amph_do_pwritev(fd, iov, count, off, flags);

    if (n < 0)
        return -1;

    ssize_t total = 0;

    for (int i = 0; i < count; i++)
        total += (ssize_t)iov[i].iov_len;

    return n == total || write_rest(fd, iov, count, (size_t)n, off) ? total : -1;
}

/* A regular file or directory is always ready.  Returns the events, as the number that the program gets as result. */
static ssize_t poll_ready(const struct iocb *rq)
{
    const ssize_t ready = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
    ssize_t events = (uint16_t)rq->aio_buf & ready;
    struct stat st;

    if (rq->aio_buf >> 16 || rq->aio_offset || rq->aio_nbytes || rq->aio_rw_flags)
        return amph_ip_fail(EINVAL);
    if (amph_ip_fd_stat((int)rq->aio_fildes, &st) != 0)
        return -1;

    /* any other kind of file would need a wait at the server, and so would an event that no file has */
    return (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && events ? events : amph_ip_fail(EINVAL);
}

/* Executes a request.  Returns the bytes moved, or the events, or -1 with errno. */
static ssize_t execute(const struct iocb *rq)
{
    int fd = (int)rq->aio_fildes;
    off_t off = rq->aio_offset;
    int flags = (int)rq->aio_rw_flags;
    struct iovec one = { (void *)(uintptr_t)rq->aio_buf, (size_t)rq->aio_nbytes };
    const struct iovec *many = (const struct iovec *)(uintptr_t)rq->aio_buf;
    bool too_many = rq->aio_nbytes > INT32_MAX;

    switch (rq->aio_lio_opcode) {
    case IOCB_CMD_FSYNC:
        return amph_do_fsync(fd);
    case IOCB_CMD_FDSYNC:
        return amph_do_fdatasync(fd);
    case IOCB_CMD_PREAD:
        return off < 0 ? amph_ip_fail(EINVAL) : amph_do_preadv(fd, &one, 1, off, flags);
    case IOCB_CMD_PWRITE:
        return off < 0 ? amph_ip_fail(EINVAL) : write_all(fd, &one, 1, off, flags);
    case IOCB_CMD_PREADV:
        return off < 0 || too_many ? amph_ip_fail(EINVAL)
                                   : amph_do_preadv(fd, many, (int)rq->aio_nbytes, off, flags);
    case IOCB_CMD_PWRITEV:
        return off < 0 || too_many ? amph_ip_fail(EINVAL)
                                   : write_all(fd, many, (int)rq->aio_nbytes, off, flags);
    case IOCB_CMD_POLL:
        return poll_ready(rq);
    default:
        return amph_ip_fail(EINVAL);
    }
}

/* ---- appends ---- */

/* If the kernel has no room for the event of a request, the program submits it again.  That does no harm to a file,
 * unless the request appends; so what was appended is remembered. */

static bool appends(const struct iocb *rq)
{
    bool writes = rq->aio_lio_opcode == IOCB_CMD_PWRITE || rq->aio_lio_opcode == IOCB_CMD_PWRITEV;
    int how = writes ? amph_ip_fd_flags((int)rq->aio_fildes) : 0;

    return writes && (rq->aio_rw_flags & RWF_APPEND || (how > 0 && how & O_APPEND));
}

static void lock_kept(void)
{
    while (__atomic_exchange_n(&amph_ip_fds.libaio.keeping, true, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock_kept(void)
{
    __atomic_store_n(&amph_ip_fds.libaio.keeping, false, __ATOMIC_RELEASE);
}

static void keep(const struct iocb *rq, ssize_t n)
{
    lock_kept();

    unsigned i = amph_ip_fds.libaio.next++ % AMPH_IP_LIBAIO_KEPT;

    amph_ip_fds.libaio.kept[i].at = rq;
    amph_ip_fds.libaio.kept[i].request = *rq;
    amph_ip_fds.libaio.kept[i].n = n;
    unlock_kept();
}

/* Has the request been executed before?  *n_p: its result, which is forgotten. */
static bool take_kept(const struct iocb *rq, ssize_t *n_p)
{
    bool found = false;

    lock_kept();
    for (unsigned i = 0; i < AMPH_IP_LIBAIO_KEPT && !found; i++) {
        struct iocb *was = &amph_ip_fds.libaio.kept[i].request;

        was->aio_key = rq->aio_key; /* which the kernel writes */
        found = amph_ip_fds.libaio.kept[i].at == rq && memcmp(was, rq, sizeof *rq) == 0;
        if (found) {
            *n_p = amph_ip_fds.libaio.kept[i].n;
            amph_ip_fds.libaio.kept[i].at = NULL;
        }
    }

    unlock_kept();
    return found;
}

/* ---- its event ---- */

/* Has the kernel make the event of a request that has moved n bytes.  Returns io_submit's result. */
static long submit_event(long context, struct iocb **at, ssize_t n, int null)
{
    struct iocb *rq = *at;
    struct iocb kept = *rq;

    __atomic_fetch_add(&amph_ip_fds.libaio.changed, 1, __ATOMIC_SEQ_CST);
    rq->aio_lio_opcode = IOCB_CMD_PWRITE;
    rq->aio_fildes = (uint32_t)null;
    rq->aio_buf = SOME_ADDRESS;
    rq->aio_nbytes = (uint64_t)n;
    rq->aio_offset = 0;
    rq->aio_rw_flags = 0;

    long result = libc_syscall(SYS_io_submit, context, 1, (long)at, 0, 0, 0);

    kept.aio_key = rq->aio_key; /* which the kernel writes */
    *rq = kept;
    __atomic_fetch_sub(&amph_ip_fds.libaio.changed, 1, __ATOMIC_SEQ_CST);
    return result;
}

long amph_ip_events(long result)
{
    int saved = errno;

    for (int i = 0; i < YIELDS_MAX; i++) {
        if (__atomic_load_n(&amph_ip_fds.libaio.changed, __ATOMIC_SEQ_CST) <= 0)
            break;

        sched_yield();
    }

    errno = saved;

    return result;
}

void amph_ip_libaio_forked(void)
{
    amph_ip_fds.libaio.changed = 0;
    amph_ip_fds.libaio.keeping = false;
}

/* ---- io_submit ---- */

/* Returns how many of the `count` requests precede the first one whose descriptor is forwarded.  The search ends at
 * unreadable memory, because the kernel stops there as well. */
static long locals(long count, struct iocb *const *list)
{
    if (!amph_ip_state.on || amph_ip_inside)
        return count;

    for (long i = 0; i < count; i++) {
        if (!amph_ip_can_read(&list[i], sizeof list[i]))
            return count;
        if (!amph_ip_can_read(list[i], sizeof *list[i]))
            return count;
        if (amph_ip_fd((int)list[i]->aio_fildes))
            return i;
    }

    return count;
}

static long submit_forwarded(long context, struct iocb **at)
{
    int null = null_device();

    if (null < 0)
        return amph_ip_fail(EINVAL);

    bool once = appends(*at);
    ssize_t n;

    if (!once || !take_kept(*at, &n))
        n = execute(*at);
    if (n < 0)
        return -1;

    long result = submit_event(context, at, n, null);

    if (once && result < 0 && errno == EAGAIN)
        keep(*at, n);

    return result;
}

long amph_ip_submit(const long *a)
{
    struct iocb **list = (struct iocb **)a[2];
    long count = a[1];
    long done = 0;

    do {
        long n = locals(count - done, list + done);
        long wanted = n;
        long result;

        if (n > 0 || done == count) {
            result = libc_syscall(SYS_io_submit, a[0], n, (long)(list + done), 0, 0, 0);
        } else if (n < 0) {
            result = libc_syscall(SYS_io_submit, a[0], count, a[2], 0, 0, 0);
        } else {
            wanted = 1;
            result = submit_forwarded(a[0], list + done);
        }

        if (result < 0)
            return done ? done : result;

        done += result;
        if (result < wanted)
            return done;
    } while (done < count);

    return done;
}

/* libaio's functions make the system calls by their own instructions, and return errors as negative
 * numbers.  A function of another library with such a name gets its call. */
int amph_do_io_submit(void *context, long count, void **list)
{
    int (*next)(void *, long, void **) = (int (*)(void *, long, void **))amph_ip_next_unless(
        "io_submit", "LIBAIO_0.1");

    if (next)
        return next(context, count, list);

    long result = amph_ip_submit((long[]){ (long)context, count, (long)list, 0, 0, 0 });

    return (int)(result < 0 ? -errno : result);
}

int amph_do_io_getevents(void *context, long min, long count, void *events, void *limit)
{
    return (int)amph_ip_events(libc_io_getevents(context, min, count, events, limit));
}

int amph_do_io_pgetevents(void *context, long min, long count, void *events, void *limit,
                          void *mask)
{
    return (int)amph_ip_events(libc_io_pgetevents(context, min, count, events, limit, mask));
}

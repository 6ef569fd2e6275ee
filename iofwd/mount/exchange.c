/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: reads requests from the kernel and writes replies, as libfuse does by itself, and
 * adds a flag to the first reply that libfuse 3.14 has no name for, FUSE_HANDLE_KILLPRIV_V2.  It
 * promises that the server removes set-uid bits and file capabilities from a file that is written,
 * which the server's kernel does.  Without the flag the kernel asks for security.capability before
 * each write, which doubles the cost of a small write.
 *
 * Each request says whose it is, for records, and for abandon.c.
 *
 * Layer: iofwd.  Thread rule: any thread of the session; the first request and its reply come before
 * all others.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/fuse.h>

#include "iofwd/mount/mount.h"

#define WRITE_ENDS_RIGHTS (1 << 2) /* FUSE_WRITE_KILL_SUIDGID, which had another name */

/* The thread that reads a request works on it until it reads the next one. */
static void note_request(int fd, const struct fuse_in_header *head, size_t len)
{
    const struct fuse_interrupt_in *interrupt = (const void *)(head + 1);

    if (len < sizeof *head)
        return;

    const struct fuse_write_in *w = (const void *)(head + 1);

    amph_mount_thread.ends_rights = head->opcode == FUSE_WRITE && len >= sizeof *head + sizeof *w &&
                                    w->write_flags & WRITE_ENDS_RIGHTS;
    if (head->opcode == FUSE_RELEASE)
        atomic_fetch_add(&amph_mount.releases.begun, 1);

    amph_fwd_set_caller((struct amph_fwd_caller){ (pid_t)head->pid, -1 });
    if (head->opcode != FUSE_INTERRUPT) {
        struct amph_mount_request *r = amph_mount_request_of_thread(NULL);

        if (r) /* else it cannot be abandoned */
            amph_mount_request_begin(r, head->unique, (pid_t)head->pid, fd);
    } else if (len >= sizeof *head + sizeof *interrupt) {
        amph_mount_suspect(interrupt->unique);
    }
}

/* Reads one request after the one before it has been executed. */
static ssize_t read_next(int fd, void *buf, size_t len)
{
    amph_mount_request_end(amph_mount_thread.request);

    ssize_t n = read(fd, buf, len);

    note_request(fd, buf, n > 0 ? (size_t)n : 0);
    return n;
}

#ifdef FUSE_HANDLE_KILLPRIV_V2

static ssize_t read_request(int fd, void *buf, size_t len, void *unused)
{
    ssize_t n = read_next(fd, buf, len);
    const struct fuse_in_header *head = buf;
    const struct fuse_init_in *init = (const void *)(head + 1);
    const size_t min = sizeof *head + offsetof(struct fuse_init_in, flags) + sizeof init->flags;

    if (n >= (ssize_t)min &&
        !atomic_load_explicit(&amph_mount.init_answered, memory_order_relaxed) &&
        head->opcode == FUSE_INIT)
        amph_mount.killpriv_offered = init->flags & FUSE_HANDLE_KILLPRIV_V2 &&
                                      !amph_mount.o.allow_other;

    return n;
}

static ssize_t write_reply(int fd, struct iovec *iov, int count, void *unused)
{
    const size_t min = offsetof(struct fuse_init_out, flags) + sizeof(uint32_t);

    if (!atomic_load_explicit(&amph_mount.init_answered, memory_order_relaxed)) {
        atomic_store(&amph_mount.init_answered, true);
        if (amph_mount.killpriv_offered && count == 2 && iov[1].iov_len >= min)
            ((struct fuse_init_out *)iov[1].iov_base)->flags |= FUSE_HANDLE_KILLPRIV_V2;
    }

    return writev(fd, iov, count);
}

#else

static ssize_t read_request(int fd, void *buf, size_t len, void *unused)
{
    return read_next(fd, buf, len);
}

static ssize_t write_reply(int fd, struct iovec *iov, int count, void *unused)
{
    return writev(fd, iov, count);
}

#endif

int amph_mount_exchange_begin(struct fuse_session *session)
{
    static const struct fuse_custom_io io = { .read = read_request, .writev = write_reply };
    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

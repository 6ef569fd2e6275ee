/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: reads requests from the kernel and writes replies, as libfuse does by itself, and
 * adds a flag to the first reply that libfuse 3.14 has no name for, FUSE_HANDLE_KILLPRIV_V2.  It
 * promises that the server removes set-uid bits and file capabilities from a file that is written,
 * truncated or given away.  Without the flag the kernel asks for security.capability before each
 * write, which doubles the cost of a small write.  The server's kernel keeps the promise, but for
 * the set-uid bits of a file that it changes in the name of root: the requests of those who would
 * lose them say so, and owner.c then takes them away.
 *
 * Each request says whose it is, for records, and for abandon.c.
 *
 * Layer: iofwd.  Thread rule: any thread of the session; the first request and its reply come before
 * all others.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/fuse.h>

#include "iofwd/mount/mount.h"

/* Flags of requests that had other names, or none, in older headers. */
#define WRITE_ENDS_RIGHTS (1u << 2)    /* FUSE_WRITE_KILL_SUIDGID */
#define OPEN_ENDS_RIGHTS (1u << 0)     /* FUSE_OPEN_KILL_SUIDGID */
#define SETATTR_ENDS_RIGHTS (1u << 11) /* FATTR_KILL_SUIDGID */

#define NOWHERE SIZE_MAX

/* Where a request has the word that says whether it ends set-user-id, and the flag there. */
struct rights_flag {
    size_t at; /* NOWHERE: the kernel does not say it */
    uint32_t flag;
};

/* clang-format off */
static const struct rights_flag rights_flags[] = {
    [FUSE_WRITE]           = { offsetof(struct fuse_write_in, write_flags), WRITE_ENDS_RIGHTS },
    [FUSE_OPEN]            = { sizeof(uint32_t), OPEN_ENDS_RIGHTS },
    [FUSE_CREATE]          = { 3 * sizeof(uint32_t), OPEN_ENDS_RIGHTS },
    [FUSE_SETATTR]         = { offsetof(struct fuse_setattr_in, valid), SETATTR_ENDS_RIGHTS },
    [FUSE_FALLOCATE]       = { NOWHERE, 1 },
    [FUSE_COPY_FILE_RANGE] = { NOWHERE, 1 },
};
/* clang-format on */

/* Does the request take set-user-id and set-group-id from its file?  Where the kernel does not say that, it does if
 * its user is not root. */
static bool ends_rights(const struct fuse_in_header *head, size_t len)
{
    const size_t n = sizeof rights_flags / sizeof rights_flags[0];
    const struct rights_flag *f = head->opcode < n ? &rights_flags[head->opcode] : NULL;
    uint32_t word;

    if (!f || !f->flag)
        return false;
    if (f->at == NOWHERE)
        return amph_mount.killpriv_offered && head->uid != 0;
    if (len < sizeof *head + f->at + sizeof word)
        return false;

    memcpy(&word, (const char *)(head + 1) + f->at, sizeof word);
    return word & f->flag;
}

/* The thread that reads a request works on it until it reads the next one. */
static void note_request(int fd, const struct fuse_in_header *head, size_t len)
{
    const struct fuse_interrupt_in *interrupt = (const void *)(head + 1);

    if (len < sizeof *head)
        return;

    amph_mount_thread.ends_rights = ends_rights(head, len);
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
        amph_mount.killpriv_offered = init->flags & FUSE_HANDLE_KILLPRIV_V2;

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

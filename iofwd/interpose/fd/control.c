/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fcntl and ioctl of forwarded descriptors: a row for each command that is known.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/wire/inode_requests.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/near_versions.h"

#ifndef F_DUPFD_QUERY
/* Are both descriptors of one open file?  The placeholders answer it. */
#define F_DUPFD_QUERY (1024 + 3)
#endif

/* ---- fcntl; the client is entered ---- */

static int get_flags(int fd, struct amph_fd_file *of, int command, void *arg)
{
    int flags;
    int err = amph_ip_client.fwd.getflags(amph_ip_client.client, &of->file, &flags);

    /* O_LARGEFILE, which the kernel adds by itself, is among the placeholder's flags */
    if (!err && !(flags & O_PATH))
        flags |= amph_ip_kernel_fcntl(fd, F_GETFL, NULL) & ~O_ACCMODE;

    return err ? amph_ip_fail(err) : flags;
}

static int set_flags(int fd, struct amph_fd_file *of, int command, void *arg)
{
    return amph_ip_result(
        amph_ip_client.fwd.setflags(amph_ip_client.client, &of->file, (int)(long)arg));
}

static int record_lock(int fd, struct amph_fd_file *of, int command, void *lock)
{
    return amph_ip_record_lock(of, command, lock);
}

/* Sets or tests a lock of the open file, which belongs to no process. */
static int file_lock(int fd, struct amph_fd_file *of, int command, void *arg)
{
    struct amph_fwd_client *c = amph_ip_client.client;
    struct flock got;
    struct flock *lock = arg;

    if (lock->l_pid)
        return amph_ip_fail(EINVAL);

    if (command != F_OFD_GETLK)
        return amph_ip_result(command == F_OFD_SETLK
                                  ? amph_ip_client.fwd.setlock(c, &of->file, lock)
                                  : amph_ip_client.fwd.waitlock(c, &of->file, lock));

    int err = amph_ip_client.fwd.getlock(c, &of->file, lock, &got);

    if (!err)
        *lock = got;

    return amph_ip_result(err);
}

static int get_lease(int fd, struct amph_fd_file *of, int command, void *arg)
{
    return F_UNLCK;
}

/* Refuses leases and directory notices: a server cannot send the signal to a process of this
 * host. */
static int set_lease(int fd, struct amph_fd_file *of, int command, void *arg)
{
    return command == F_SETLEASE && (long)arg == F_UNLCK ? amph_ip_fail(EAGAIN)
                                                         : amph_ip_fail(EOPNOTSUPP);
}

/* Sets or gets the size of a FIFO; a server returns EBADF for other files.  The size is rounded up,
 * and the call returns the result. */
static int pipe_size(int fd, struct amph_fd_file *of, int command, void *arg)
{
    char word[FWD_INODE_FLAG_BYTES];
    size_t len = sizeof word;

    amph_fwd_inode_flag_put(word, 0, (uint32_t)(long)arg);

    int err = command == F_SETPIPE_SZ
                  ? amph_ip_client.fwd.setmarks(amph_ip_client.client, &of->file,
                                                FWD_INODE_FLAGS_PIPE_SIZE, word, len)
                  : 0;

    if (!err)
        err = amph_ip_client.fwd.getmarks(amph_ip_client.client, &of->file,
                                          FWD_INODE_FLAGS_PIPE_SIZE, word, sizeof word, &len);

    return err ? amph_ip_fail(err) : (int)amph_fwd_inode_flag_get(word, 0);
}

/* What a command does with its argument. */
enum lock_use {
    NO_LOCK,
    TAKES_LOCK,
    ANSWERS_LOCK
};

static const struct command {
    int command;
    enum lock_use use;
    /* NULL: the command is about the descriptor, not about the file */
    int (*run)(int fd, struct amph_fd_file *of, int command, void *arg);
} commands[] = {
    { F_GETFD, NO_LOCK, NULL },
    { F_SETFD, NO_LOCK, NULL },
    { F_GETOWN, NO_LOCK, NULL },
    { F_SETOWN, NO_LOCK, NULL },
    { F_GETOWN_EX, NO_LOCK, NULL },
    { F_SETOWN_EX, NO_LOCK, NULL },
    { F_GETSIG, NO_LOCK, NULL },
    { F_SETSIG, NO_LOCK, NULL },
    { F_GET_RW_HINT, NO_LOCK, NULL },
    { F_SET_RW_HINT, NO_LOCK, NULL },
    { F_DUPFD_QUERY, NO_LOCK, NULL },
    { F_GETFL, NO_LOCK, get_flags },
    { F_SETFL, NO_LOCK, set_flags },
    { F_GETLK, ANSWERS_LOCK, record_lock },
    { F_SETLK, TAKES_LOCK, record_lock },
    { F_SETLKW, TAKES_LOCK, record_lock },
    { F_OFD_GETLK, ANSWERS_LOCK, file_lock },
    { F_OFD_SETLK, TAKES_LOCK, file_lock },
    { F_OFD_SETLKW, TAKES_LOCK, file_lock },
    { F_GETLEASE, NO_LOCK, get_lease },
    { F_SETLEASE, NO_LOCK, set_lease },
    { F_NOTIFY, NO_LOCK, set_lease },
    { F_SETPIPE_SZ, NO_LOCK, pipe_size },
    { F_GETPIPE_SZ, NO_LOCK, pipe_size },
};

static const struct command *command_of(int command)
{
    for (size_t i = 0; i < AMPH_COUNTOF(commands); i++)
        if (commands[i].command == command)
            return &commands[i];

    return NULL;
}

static int fcntl_remote(int fd, struct amph_fd_file *of, const struct command *c, void *arg)
{
    struct flock copy;
    struct flock *lock = arg;

    if (!c)
        return amph_ip_fail(EINVAL);
    if (c->use != NO_LOCK && !amph_ip_can_read(lock, sizeof *lock))
        return amph_ip_fail(EFAULT);
    if (c->use != ANSWERS_LOCK || amph_ip_can_write(lock, sizeof *lock))
        return c->run(fd, of, c->command, arg);

    copy = *lock;
    return c->run(fd, of, c->command, &copy) ? -1 : amph_ip_fail(EFAULT);
}

int amph_do_fcntl(int fd, int command, void *arg)
{
    struct amph_fd_file *of;
    bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;

    if (amph_ip_inside) {
        int result = libc_fcntl64(fd, command, arg);
        return copies ? amph_ip_own(result) : result;
    }

    if (amph_ip_epoll(fd)) {
        int result = amph_ip_kernel_fcntl(fd, command, arg);
        return copies ? amph_ip_epoll_copied(fd, amph_ip_note_local(result)) : result;
    }

    if (amph_ip_hidden(fd) || amph_ip_is_cwd(fd))
        return amph_ip_fail(EBADF); /* the program does not know it */

    if (amph_ip_near_has(fd)) {
        int result = libc_fcntl64(fd, command, arg);
        return copies ? amph_ip_near_copied(fd, amph_ip_note_local(result)) : result;
    }

    const struct command *c = command_of(amph_ip_kernel_command(command));
    /* the answer of the placeholder, or of the directory itself, is the right one */
    if (c && (!c->run || (c->run == get_flags && amph_fdtab_is_near(fd))))
        return amph_ip_kernel_fcntl(fd, command, arg);
    if (command != F_GETFL && !copies && amph_ip_is_path_only(fd))
        return amph_ip_fail(EBADF); /* has precedence over all other errors */

    int err = amph_ip_file_get(fd, &of);
    if (err)
        return amph_ip_fail(err);
    if (copies) {
        int copy = amph_ip_kernel_fcntl(fd, command, arg);

        if (copy < 0 && amph_ip_client_made_room())
            copy = amph_ip_kernel_fcntl(fd, command, arg);

        return amph_ip_enter_copy(copy, of);
    }

    err = amph_ip_client_enter();
    if (!err)
        err = amph_ip_file_reach(of, fd);

    int result = err ? amph_ip_fail(err) : fcntl_remote(fd, of, c, arg);
    int saved = errno;

    amph_fdtab_put(of);
    errno = saved;
    return result;
}

/* ---- ioctl ---- */

/* Reads or sets those flags of the file. */
static int marks(int fd, size_t which, bool sets, void *arg)
{
    union amph_fwd_inode_value value = { 0 };
    char room[FWD_INODE_VALUE_BYTES];
    struct amph_fd_file *of;
    size_t bytes = amph_fwd_inode_value_bytes(which);
    size_t len = 0;
    int err;

    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;
    if (amph_ip_mem(arg, bytes, !sets) != bytes)
        return amph_ip_file_end(of, EFAULT);

    if (sets) {
        memcpy(&value, arg, bytes);
        len = amph_fwd_inode_value_put(room, which, &value);
        err = amph_ip_client.fwd.setmarks(amph_ip_client.client, &of->file, which, room, len);
        return amph_ip_file_end(of, err);
    }

    err = amph_ip_client.fwd.getmarks(amph_ip_client.client, &of->file, which, room, sizeof room,
                                      &len);
    if (!err) {
        amph_fwd_inode_value_get(&value, room, len);
        memcpy(arg, &value, bytes);
    }

    return amph_ip_file_end(of, err);
}

struct request {
    unsigned long request;
    int (*run)(int fd, const struct request *r, void *arg);
    bool value; /* of set_cloexec */
};

static int set_cloexec(int fd, const struct request *r, void *arg)
{
    return amph_ip_kernel_fcntl(fd, F_SETFD, (void *)(long)(r->value ? FD_CLOEXEC : 0));
}

static int give_int(int *to, int n)
{
    if (!amph_ip_can_write(to, sizeof *to))
        return amph_ip_fail(EFAULT);

    *to = n;
    return 0;
}

static int block_size(int fd, const struct request *r, void *arg)
{
    struct statfs fs;
    return amph_do_fstatfs(fd, &fs) != 0 ? -1 : give_int(arg, (int)fs.f_bsize);
}

static int bytes_left(int fd, const struct request *r, void *arg)
{
    struct stat st;

    if (amph_ip_waits(fd))
        return marks(fd, FWD_INODE_FLAGS_UNREAD, false, arg);

    if (amph_do_fstat(fd, &st) != 0)
        return -1;
    if (!S_ISREG(st.st_mode))
        return amph_ip_fail(ENOTTY);

    off_t at = amph_do_lseek(fd, 0, SEEK_CUR);

    if (at < 0)
        return -1;

    return give_int(arg, (int)(st.st_size - at)); /* negative if the offset is behind the end */
}

static int set_nonblock(int fd, const struct request *r, void *arg)
{
    int flags = amph_do_fcntl(fd, F_GETFL, NULL);

    if (flags < 0 || !amph_ip_can_read(arg, sizeof(int)))
        return flags < 0 ? -1 : amph_ip_fail(EFAULT);

    return amph_do_fcntl(
        fd, F_SETFL, (void *)(long)(*(const int *)arg ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

/* Forwarded files send no signals.  The kernel refuses only to switch them on. */
static int set_async(int fd, const struct request *r, void *arg)
{
    if (!amph_ip_can_read(arg, sizeof(int)))
        return amph_ip_fail(EFAULT);

    return *(const int *)arg ? amph_ip_fail(ENOTTY) : 0;
}

static int no_clone(int fd, const struct request *r, void *arg)
{
    return amph_ip_fail(EOPNOTSUPP);
}

/* clang-format off */
static const struct request requests[] = {
    { FIOCLEX, set_cloexec, true },
    { FIONCLEX, set_cloexec, false },
    { FICLONE, no_clone, false },
    { FICLONERANGE, no_clone, false },
    { FIDEDUPERANGE, no_clone, false },
    { FIGETBSZ, block_size, false },
    { FIOASYNC, set_async, false },
    { FIONBIO, set_nonblock, false },
    { FIONREAD, bytes_left, false },
};
/* clang-format on */

int amph_do_ioctl(int fd, unsigned long request, void *arg)
{
    int carried = amph_ip_fd(fd) ? 0 : amph_ip_ioctl_carried(request, arg);

    if (carried)
        return amph_ip_fail(carried);
    if (amph_ip_is_path_only(fd))
        return amph_ip_fail(EBADF);

    const struct amph_fwd_inode_request *r = amph_fwd_inode_request_find(request);

    if (r)
        return marks(fd, r->which, r->sets, arg);

    for (size_t i = 0; i < AMPH_COUNTOF(requests); i++)
        if (requests[i].request == request)
            return requests[i].run(fd, &requests[i], arg);

    return amph_ip_fail(ENOTTY);
}

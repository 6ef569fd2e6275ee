/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fcntl and ioctl of forwarded descriptors: a row for each command that is known.  Layer: iofwd (preload).  Thread rule: any thread.
 */
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>

#include "iofwd/wire/inode_flags.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/entry/targets.h"

#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (1024 + 3) /* is it the same open file? the placeholders know */
#endif

/* ---- fcntl; the client is entered ---- */

static int get_flags(int fd, struct fwd_ofile *of, int command, void *arg)
{
    int flags, err = fwd_core.getflags(fwd_core.client, &of->file, &flags);
    if (!err && !(flags & O_PATH)) /* what the kernel adds by itself, O_LARGEFILE, stands in the placeholder's */
        flags |= fwd_kernel_fcntl(fd, F_GETFL, NULL) & ~O_ACCMODE;
    return err ? fwd_fail(err) : flags;
}

static int set_flags(int fd, struct fwd_ofile *of, int command, void *arg)
{
    return fwd_result(fwd_core.setflags(fwd_core.client, &of->file, (int)(long)arg));
}

static int record_lock(int fd, struct fwd_ofile *of, int command, void *lock)
{
    return fwd_record_lock(of, command, lock);
}

/* A lock of the open file; it belongs to no process. */
static int file_lock(int fd, struct fwd_ofile *of, int command, void *arg)
{
    struct amph_fwd_client *c = fwd_core.client;
    struct flock got, *lock = arg;
    if (lock->l_pid)
        return fwd_fail(EINVAL);
    if (command != F_OFD_GETLK)
        return fwd_result(command == F_OFD_SETLK ? fwd_core.setlock(c, &of->file, lock) : fwd_core.waitlock(c, &of->file, lock));
    int err = fwd_core.getlock(c, &of->file, lock, &got);
    if (!err)
        *lock = got;
    return fwd_result(err);
}

static int get_lease(int fd, struct fwd_ofile *of, int command, void *arg)
{
    return F_UNLCK;
}

/* And directory notices: a server has nobody to send the signal to. */
static int set_lease(int fd, struct fwd_ofile *of, int command, void *arg)
{
    return command == F_SETLEASE && (long)arg == F_UNLCK ? fwd_fail(EAGAIN) : fwd_fail(EOPNOTSUPP);
}

/* Of a FIFO; a server says EBADF of all else.  What is set is rounded up, and the call gives what it has become. */
static int pipe_size(int fd, struct fwd_ofile *of, int command, void *arg)
{
    char word[FWD_MARK_BYTES];
    size_t len = sizeof word;
    fwd_mark_put(word, 0, (uint32_t)(long)arg);
    int err = command == F_SETPIPE_SZ ? fwd_core.setmarks(fwd_core.client, &of->file, FWD_MARKS_PIPE_SIZE, word, len) : 0;
    if (!err)
        err = fwd_core.getmarks(fwd_core.client, &of->file, FWD_MARKS_PIPE_SIZE, word, sizeof word, &len);
    return err ? fwd_fail(err) : (int)fwd_mark_get(word, 0);
}

enum lock_use { NO_LOCK, TAKES_LOCK, ANSWERS_LOCK }; /* what the command does with arg */

static const struct command {
    int command;
    enum lock_use use;
    int (*run)(int fd, struct fwd_ofile *of, int command, void *arg); /* NULL: it is about the descriptor, not about the file */
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

static int fcntl_remote(int fd, struct fwd_ofile *of, const struct command *c, void *arg)
{
    struct flock copy, *lock = arg;
    if (!c)
        return fwd_fail(EINVAL);
    if (c->use != NO_LOCK && !fwd_can_read(lock, sizeof *lock))
        return fwd_fail(EFAULT);
    if (c->use != ANSWERS_LOCK || fwd_can_write(lock, sizeof *lock))
        return c->run(fd, of, c->command, arg);
    copy = *lock;
    return c->run(fd, of, c->command, &copy) ? -1 : fwd_fail(EFAULT);
}

/* That a descriptor stands for a path only comes before whatever else is wrong with a command. */
static int fcntl_checked(int fd, struct fwd_ofile *of, const struct command *c, void *arg)
{
    int flags, result = fcntl_remote(fd, of, c, arg), err = errno;
    if (result >= 0 || (err != EINVAL && err != EOPNOTSUPP))
        return result;
    bool path_only = fwd_core.getflags(fwd_core.client, &of->file, &flags) == 0 && (flags & O_PATH);
    return fwd_fail(path_only ? EBADF : err);
}

int x_fcntl(int fd, int command, void *arg)
{
    struct fwd_ofile *of;
    bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (fwd_inside) {
        int result = real_fcntl64(fd, command, arg);
        return copies ? fwd_own(result) : result;
    }
    if (fwd_epoll(fd)) {
        int result = fwd_kernel_fcntl(fd, command, arg);
        return copies ? fwd_epoll_copied(fd, fwd_note_local(result)) : result;
    }
    if (fd == fwd_cwd_fd && command == F_SETFD)
        return fwd_fail(EBADF);
    const struct command *c = command_of(command);
    if (c && !c->run)
        return fwd_kernel_fcntl(fd, command, arg); /* the placeholder knows */
    int err = fwd_file_get(fd, &of);
    if (err)
        return fwd_fail(err);
    if (copies)
        return fwd_enter_copy(fwd_kernel_fcntl(fd, command, arg), of);
    err = fwd_core_enter();
    int result = err ? fwd_fail(err) : fcntl_checked(fd, of, c, arg);
    int saved = errno;
    fdtab_put(of);
    errno = saved;
    return result;
}

/* ---- ioctl ---- */

struct request {
    unsigned long request;
    int (*run)(int fd, const struct request *r, void *arg);
    size_t which; /* of a file's marks */
    bool value;   /* marks are set; FD_CLOEXEC is set */
};

/* place: an int, whatever its name in the number says, or a struct fsxattr, which begins with words. */
static int marks(int fd, const struct request *m, void *place)
{
    uint32_t *arg = place;
    char room[FWD_MARKS_MOST * FWD_MARK_BYTES];
    struct fwd_ofile *of;
    size_t n = m->which == FWD_MARKS_EXTENDED ? FWD_MARKS_MOST : 1, len = n * FWD_MARK_BYTES;
    size_t bytes = m->which == FWD_MARKS_EXTENDED ? sizeof(struct fsxattr) : sizeof(int);
    if (fwd_file_begin(fd, &of) != 0)
        return -1;
    if (fwd_reach(arg, bytes, !m->value) != bytes)
        return fwd_file_end(of, EFAULT);
    for (size_t i = 0; i < n && m->value; i++)
        fwd_mark_put(room, i, arg[i]);
    int err = m->value ? fwd_core.setmarks(fwd_core.client, &of->file, m->which, room, len)
                     : fwd_core.getmarks(fwd_core.client, &of->file, m->which, room, sizeof room, &len);
    if (!err && !m->value) {
        memset(arg, 0, bytes);
        for (size_t i = 0; i < len / FWD_MARK_BYTES; i++)
            arg[i] = fwd_mark_get(room, i);
    }
    return fwd_file_end(of, err);
}

static int set_cloexec(int fd, const struct request *r, void *arg)
{
    return fwd_kernel_fcntl(fd, F_SETFD, (void *)(long)(r->value ? FD_CLOEXEC : 0));
}

static int give_int(int *to, int n)
{
    if (!fwd_can_write(to, sizeof *to))
        return fwd_fail(EFAULT);
    *to = n;
    return 0;
}

static int block_size(int fd, const struct request *r, void *arg)
{
    struct statfs fs;
    return x_fstatfs(fd, &fs) != 0 ? -1 : give_int(arg, (int)fs.f_bsize);
}

static int bytes_left(int fd, const struct request *r, void *arg)
{
    struct stat st;
    if (fwd_waits(fd))
        return marks(fd, &(struct request){ .which = FWD_MARKS_UNREAD }, arg);
    off_t at = x_lseek(fd, 0, SEEK_CUR);
    if (at < 0 || x_fstat(fd, &st) != 0)
        return -1;
    off_t left = st.st_size > at ? st.st_size - at : 0;
    return give_int(arg, left > INT_MAX ? INT_MAX : (int)left);
}

static int set_nonblock(int fd, const struct request *r, void *arg)
{
    int flags = x_fcntl(fd, F_GETFL, NULL);
    if (flags < 0 || !fwd_can_read(arg, sizeof(int)))
        return flags < 0 ? -1 : fwd_fail(EFAULT);
    return x_fcntl(fd, F_SETFL, (void *)(long)(*(const int *)arg ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

static int no_clone(int fd, const struct request *r, void *arg)
{
    return fwd_fail(EOPNOTSUPP);
}

static const struct request requests[] = {
    { FS_IOC_GETFLAGS, marks, FWD_MARKS_FLAGS, false },
    { FS_IOC_SETFLAGS, marks, FWD_MARKS_FLAGS, true },
    { FS_IOC32_GETFLAGS, marks, FWD_MARKS_FLAGS, false },
    { FS_IOC32_SETFLAGS, marks, FWD_MARKS_FLAGS, true },
    { FS_IOC_GETVERSION, marks, FWD_MARKS_VERSION, false },
    { FS_IOC_SETVERSION, marks, FWD_MARKS_VERSION, true },
    { FS_IOC_FSGETXATTR, marks, FWD_MARKS_EXTENDED, false },
    { FS_IOC_FSSETXATTR, marks, FWD_MARKS_EXTENDED, true },
    { FIOCLEX, set_cloexec, 0, true },
    { FIONCLEX, set_cloexec, 0, false },
    { FICLONE, no_clone, 0, false },
    { FICLONERANGE, no_clone, 0, false },
    { FIDEDUPERANGE, no_clone, 0, false },
    { FIGETBSZ, block_size, 0, false },
    { FIONBIO, set_nonblock, 0, false },
    { FIONREAD, bytes_left, 0, false },
};

int x_ioctl(int fd, unsigned long request, void *arg)
{
    for (size_t i = 0; i < AMPH_COUNTOF(requests); i++)
        if (requests[i].request == request)
            return requests[i].run(fd, &requests[i], arg);
    return fwd_fail(ENOTTY);
}

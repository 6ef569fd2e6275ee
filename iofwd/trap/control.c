/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: fcntl and ioctl of forwarded files: a row for each command that is known.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "iofwd/wire/inode_requests.h"

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

#ifndef F_LINUX_SPECIFIC_BASE
#define F_LINUX_SPECIFIC_BASE 1024
#endif
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (F_LINUX_SPECIFIC_BASE + 3) /* Linux 6.10 */
#endif
#ifndef F_GET_RW_HINT
#define F_GET_RW_HINT (F_LINUX_SPECIFIC_BASE + 11)
#define F_SET_RW_HINT (F_LINUX_SPECIFIC_BASE + 12)
#endif

/* A command is carried out with the file and a descriptor of the supervisor to its placeholder. */
struct target {
    struct amph_trap_file *file;
    int own_fd;
};

/* ---- fcntl ---- */

static int get_flags(struct amph_trap_call *c, const struct target *t)
{
    int flags = 0;
    int err = amph_fwd_getflags(CL, &t->file->file, &flags);

    /* O_LARGEFILE, which the kernel adds by itself, is among the placeholder's flags */
    if (!err && !(flags & O_PATH))
        flags |= fcntl(t->own_fd, F_GETFL) & ~O_ACCMODE;

    if (t->file->direct)
        flags |= O_DIRECT;

    c->value = flags;
    return err;
}

/* O_DIRECT is asked of the server, whose file system may refuse it, and then taken back: the buffers of
 * this process are not aligned as the program's are. */
static int set_flags(struct amph_trap_call *c, const struct target *t)
{
    int flags = I(2) & ~O_CLOEXEC;
    bool direct = flags & O_DIRECT;
    int err = 0;

    if (direct && !t->file->direct)
        err = amph_fwd_setflags(CL, &t->file->file, flags);

    if (!err)
        err = amph_fwd_setflags(CL, &t->file->file, flags & ~O_DIRECT);

    if (!err)
        t->file->direct = direct;

    return err;
}

static int lock(struct amph_trap_call *c, const struct target *t)
{
    return amph_trap_lock(c, t->file, I(1), A(2));
}

static int get_lease(struct amph_trap_call *c, const struct target *t)
{
    c->value = F_UNLCK;
    return 0;
}

/* Refuses leases and directory notices: no server can send the signal. */
static int set_lease(struct amph_trap_call *c, const struct target *t)
{
    return I(1) == F_SETLEASE && I(2) == F_UNLCK ? EAGAIN : EOPNOTSUPP;
}

/* The size is rounded up, and the call returns the result. */
static int pipe_size(struct amph_trap_call *c, const struct target *t)
{
    char word[FWD_INODE_FLAG_BYTES];
    size_t len = sizeof word;
    int err = 0;

    amph_fwd_inode_flag_put(word, 0, (uint32_t)A(2));
    if (I(1) == F_SETPIPE_SZ)
        err = amph_fwd_setmarks(CL, &t->file->file, FWD_INODE_FLAGS_PIPE_SIZE, word, len);

    if (!err)
        err = amph_fwd_getmarks(CL, &t->file->file, FWD_INODE_FLAGS_PIPE_SIZE, word, sizeof word,
                                &len);

    c->value = err ? 0 : (int)amph_fwd_inode_flag_get(word, 0);
    return err;
}

/* The kernel carries out what concerns the placeholder alone. */
static int leave_to_kernel(struct amph_trap_call *c, const struct target *t)
{
    return AMPH_TRAP_CONTINUE;
}

static const struct command {
    int command;
    bool of_descriptor; /* possible with O_PATH */
    int (*run)(struct amph_trap_call *c, const struct target *t);
} commands[] = {
    { F_DUPFD_QUERY, true, leave_to_kernel },
    { F_GETOWN, false, leave_to_kernel },
    { F_SETOWN, false, leave_to_kernel },
    { F_GETOWN_EX, false, leave_to_kernel },
    { F_SETOWN_EX, false, leave_to_kernel },
    { F_GETSIG, false, leave_to_kernel },
    { F_SETSIG, false, leave_to_kernel },
    { F_GET_RW_HINT, false, leave_to_kernel },
    { F_SET_RW_HINT, false, leave_to_kernel },
    { F_GETFL, true, get_flags },
    { F_SETFL, false, set_flags },
    { F_GETLK, false, lock },
    { F_SETLK, false, lock },
    { F_SETLKW, false, lock },
    { F_OFD_GETLK, false, lock },
    { F_OFD_SETLK, false, lock },
    { F_OFD_SETLKW, false, lock },
    { F_GETLEASE, false, get_lease },
    { F_SETLEASE, false, set_lease },
    { F_NOTIFY, false, set_lease },
    { F_GETPIPE_SZ, false, pipe_size },
    { F_SETPIPE_SZ, false, pipe_size },
};

static const struct command *command_of(int command)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (commands[i].command == command)
            return &commands[i];

    return NULL;
}

int amph_trap_do_fcntl(struct amph_trap_call *c)
{
    struct target t;
    int command = I(1);

    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return amph_trap_copy_above(c, I(2), command == F_DUPFD_CLOEXEC);

    if (command == F_GETFD || command == F_SETFD)
        return AMPH_TRAP_CONTINUE; /* of every descriptor, so the file need not be found */

    int err = amph_trap_file_of(c, I(0), &t.file, &t.own_fd);

    if (err || !t.file)
        return err ? err : AMPH_TRAP_CONTINUE;

    const struct command *found = command_of(command);

    if ((t.file->flags & O_PATH) && !(found && found->of_descriptor))
        err = EBADF; /* has precedence over all other errors */
    else
        err = found ? found->run(c, &t) : EINVAL;

    close(t.own_fd);
    return amph_trap_done(t.file, err);
}

/* ---- ioctl ---- */

struct request {
    unsigned request;
    int (*run)(struct amph_trap_call *c, const struct amph_trap_file *file);
};

/* Reads or sets the flags of the file's inode that `which` names. */
static int marks(struct amph_trap_call *c, const struct amph_trap_file *file, size_t which,
                 bool sets)
{
    union amph_fwd_inode_value value = { 0 };
    char room[FWD_INODE_VALUE_BYTES];
    size_t len = 0;
    size_t bytes = amph_fwd_inode_value_bytes(which);

    if (sets) {
        int err = amph_trap_get(c, &value, A(2), bytes);

        len = amph_fwd_inode_value_put(room, which, &value);
        return err ? err : amph_fwd_setmarks(CL, &file->file, which, room, len);
    }

    int err = amph_fwd_getmarks(CL, &file->file, which, room, sizeof room, &len);

    if (err)
        return err;

    amph_fwd_inode_value_get(&value, room, len);
    return amph_trap_put(c, A(2), &value, bytes);
}

/* Close-on-exec is a property of the placeholder. */
static int close_on_exec(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    return AMPH_TRAP_CONTINUE;
}

static int give_int(struct amph_trap_call *c, int n)
{
    return amph_trap_put(c, A(2), &n, sizeof n);
}

static int block_size(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    struct statfs fs;
    int err = amph_fwd_fstatfs(CL, &file->file, &fs);

    return err ? err : give_int(c, (int)fs.f_bsize);
}

static int bytes_left(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    struct stat st;
    off_t at = 0;

    if (amph_fwd_file_waits(&file->file))
        return marks(c, file, FWD_INODE_FLAGS_UNREAD, false);

    int err = amph_fwd_fstat(CL, &file->file, &st);

    if (!err && !S_ISREG(st.st_mode))
        err = ENOTTY;

    if (!err)
        err = amph_fwd_lseek(CL, &file->file, 0, SEEK_CUR, &at);

    return err ? err : give_int(c, (int)(st.st_size - at)); /* negative behind the end */
}

static int set_nonblock(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    int on;
    int flags = 0;
    int err = amph_trap_get(c, &on, A(2), sizeof on);

    if (!err)
        err = amph_fwd_getflags(CL, &file->file, &flags);

    if (err)
        return err;

    return amph_fwd_setflags(CL, &file->file, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

/* Forwarded files send no signals.  The kernel refuses only to switch them on. */
static int set_async(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    int on;
    int err = amph_trap_get(c, &on, A(2), sizeof on);

    return !err && on ? ENOTTY : err;
}

static int no_clone(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    return EOPNOTSUPP;
}

/* clang-format off */
static const struct request requests[] = {
    { FIOCLEX, close_on_exec },
    { FIONCLEX, close_on_exec },
    { FICLONE, no_clone },
    { FICLONERANGE, no_clone },
    { FIDEDUPERANGE, no_clone },
    { FIGETBSZ, block_size },
    { FIOASYNC, set_async },
    { FIONBIO, set_nonblock },
    { FIONREAD, bytes_left },
};
/* clang-format on */

int amph_trap_do_ioctl(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    if (file->flags & O_PATH)
        return amph_trap_done(file, EBADF);

    const struct amph_fwd_inode_request *r = amph_fwd_inode_request_find((unsigned)A(1));

    if (r)
        return amph_trap_done(file, marks(c, file, r->which, r->sets));

    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (requests[i].request == (unsigned)A(1))
            return amph_trap_done(file, requests[i].run(c, file));

    return amph_trap_done(file, ENOTTY);
}

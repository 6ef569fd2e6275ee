/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: copies of descriptors, their end, and calls on two open files.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

/* ---- closing ---- */

/* Descriptor fd of the caller is about to be closed by the kernel. */
static int before_close(struct amph_trap_call *c, int fd)
{
    struct amph_trap_file *file;
    int err = amph_trap_file_of(c, fd, &file, NULL);

    if (!err && c->process)
        amph_trap_process_freed(c->process, fd);

    if (!err && file) {
        amph_trap_lock_drop(file, amph_trap_process_pid(c->process));
        amph_trap_file_put(file);
    }

    return err;
}

int amph_trap_do_close(struct amph_trap_call *c)
{
    int err = before_close(c, I(0));

    return err ? err : AMPH_TRAP_CONTINUE;
}

int amph_trap_do_close_range(struct amph_trap_call *c)
{
    unsigned first = (unsigned)A(0);
    unsigned last = (unsigned)A(1);
    unsigned begin = (unsigned)amph_trap.first_fd;
    unsigned end = (unsigned)amph_trap.last_fd;
    int err = 0;

    if (A(2) & CLOSE_RANGE_CLOEXEC)
        return AMPH_TRAP_CONTINUE;

    for (unsigned fd = first; fd < AMPH_TRAP_STD && fd <= last && !err; fd++)
        err = before_close(c, (int)fd);

    if (first < begin)
        first = begin;

    for (unsigned fd = first; fd <= end && fd <= last && !err; fd++)
        err = before_close(c, (int)fd);

    return err ? err : AMPH_TRAP_CONTINUE;
}

/* ---- copying descriptors ---- */

/* fcntl(fd, F_DUPFD, min) and dup. */
static int copy_above(struct amph_trap_call *c, int min, bool cloexec)
{
    struct amph_trap_file *file;
    int own_fd;
    int err = amph_trap_file_of(c, I(0), &file, &own_fd);

    if (err || !file)
        return err ? err : AMPH_TRAP_CONTINUE;

    err = min < 0 ? EINVAL : amph_trap_process_place(c, own_fd, min, cloexec);
    close(own_fd);
    amph_trap_file_put(file);
    return err;
}

int amph_trap_do_dup(struct amph_trap_call *c)
{
    return copy_above(c, 0, false);
}

static int refuse_number(int fd)
{
    amph_trap_say("a forwarded file cannot become descriptor %d under -trap: IOFWD_TRAP_FDS=3-%d "
                  "makes that possible, and all calls on descriptors slower",
                  fd, amph_trap.last_fd);
    return EBADF;
}

/* A copy of an invalid descriptor closes nothing. */
static bool is_open(struct amph_trap_call *c, int fd)
{
    if (amph_trap_process_of(c, NULL) != 0)
        return false;

    int own_fd = amph_trap_fd_of(c->process, fd);

    if (own_fd >= 0)
        close(own_fd);

    return own_fd >= 0;
}

static int copy_to(struct amph_trap_call *c, int from, int to, int flags)
{
    struct amph_trap_file *file;
    int own_fd;

    if (from == to)
        return AMPH_TRAP_CONTINUE;

    int err = amph_trap_file_of(c, from, &file, &own_fd);

    if (err)
        return err;

    bool std = to >= 0 && to < AMPH_TRAP_STD;
    bool in_range = to >= amph_trap.first_fd && to < amph_trap.last_fd;

    if (file && to >= 0 && !std && !in_range)
        err = refuse_number(to);

    if (file && to < 0)
        err = EBADF;

    if (!err && (file || ((std || in_range) && is_open(c, from))))
        err = before_close(c, to);

    if (!err && file) {
        if (std)
            atomic_store(&amph_trap.std_used, true);

        err = amph_trap_reply_fd(c, own_fd, to, flags & O_CLOEXEC);
    } else if (!err) {
        err = AMPH_TRAP_CONTINUE;
    }

    if (file) {
        close(own_fd);
        amph_trap_file_put(file);
    }

    return err;
}

int amph_trap_do_dup2(struct amph_trap_call *c)
{
    return copy_to(c, I(0), I(1), 0);
}

int amph_trap_do_dup3(struct amph_trap_call *c)
{
    return copy_to(c, I(0), I(1), I(2));
}

static int get_flags(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    int flags = 0;
    int err = amph_fwd_getflags(CL, &file->file, &flags);

    c->value = flags;
    return err;
}

int amph_trap_do_fcntl(struct amph_trap_call *c)
{
    static const int locks[] = {
        F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
    };
    static const int kernels[] = { F_GETFD, F_SETFD, F_GETOWN, F_SETOWN, F_GETSIG, F_SETSIG };
    struct amph_trap_file *file;
    int command = I(1);

    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return copy_above(c, I(2), command == F_DUPFD_CLOEXEC);

    for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (command == kernels[i])
            return AMPH_TRAP_CONTINUE;

    int err = amph_trap_file_of(c, I(0), &file, NULL);

    if (err || !file)
        return err ? err : AMPH_TRAP_CONTINUE;

    err = EINVAL;
    for (unsigned i = 0; i < sizeof locks / sizeof *locks; i++)
        if (command == locks[i])
            err = amph_trap_lock(c, file, command, A(2));

    if (command == F_GETFL)
        err = get_flags(c, file);
    else if (command == F_SETFL)
        err = amph_fwd_setflags(CL, &file->file, I(2) & ~(O_DIRECT | O_CLOEXEC));

    amph_trap_file_put(file);
    return err;
}

/* ---- two files ---- */

struct two {
    struct amph_trap_file *in, *out;
};

/* True: one of them at least is forwarded; else the result. */
static bool has_two(struct amph_trap_call *c, int in, int out, struct two *two, int *ret_p)
{
    two->out = NULL;
    *ret_p = amph_trap_file_of(c, in, &two->in, NULL);
    if (!*ret_p)
        *ret_p = amph_trap_file_of(c, out, &two->out, NULL);

    if (!*ret_p && !two->in && !two->out)
        *ret_p = AMPH_TRAP_CONTINUE;

    return !*ret_p;
}

static void end_two(struct two *two)
{
    amph_trap_file_put(two->in);
    amph_trap_file_put(two->out);
}

/* The offset that the program has in memory, or -1: the file's. */
static int get_offset(struct amph_trap_call *c, uint64_t at, off_t *off_p)
{
    *off_p = -1;
    return at ? amph_trap_get(c, off_p, at, sizeof *off_p) : 0;
}

static int put_offset(struct amph_trap_call *c, uint64_t at, off_t off)
{
    return at ? amph_trap_put(c, at, &off, sizeof off) : 0;
}

/* One piece.  off below 0: the file's own offset.  own_fd: of a local file. */
static int take(const struct amph_trap_file *file, int own_fd, off_t off, char *buf, size_t len,
                size_t *n_p)
{
    if (file && off >= 0)
        return amph_fwd_pread(CL, &file->file, off, buf, len, n_p);

    if (file)
        return amph_fwd_read(CL, &file->file, buf, len, n_p);

    ssize_t n = off >= 0 ? pread(own_fd, buf, len, off) : read(own_fd, buf, len);

    *n_p = n > 0 ? (size_t)n : 0;
    return n < 0 ? errno : 0;
}

static int give(const struct amph_trap_file *file, int own_fd, off_t off, const char *buf,
                size_t len, size_t *n_p)
{
    if (file && off >= 0)
        return amph_fwd_pwrite(CL, &file->file, off, buf, len, n_p);

    if (file)
        return amph_fwd_write(CL, &file->file, buf, len, n_p);

    ssize_t n = off >= 0 ? pwrite(own_fd, buf, len, off) : write(own_fd, buf, len);

    *n_p = n > 0 ? (size_t)n : 0;
    return n < 0 ? errno : 0;
}

/* Goes back over what was read and not written. */
static void step_back(const struct amph_trap_file *file, int own_fd, off_t off, size_t n)
{
    off_t pos;

    if (off >= 0 || !n)
        return;

    if (file)
        amph_fwd_lseek(CL, &file->file, -(off_t)n, SEEK_CUR, &pos);
    else
        lseek(own_fd, -(off_t)n, SEEK_CUR);
}

/* Copies one piece and returns how much that was; programs ask again for the rest. */
static int copy(struct amph_trap_call *c, struct two *two, int in, int out, off_t off_in,
                off_t off_out, size_t len, size_t *n_p)
{
    char *buf = amph_trap_buffer();
    size_t got = 0;
    int own_in = two->in ? -1 : amph_trap_fd_of(c->process, in);
    int own_out = two->out ? -1 : amph_trap_fd_of(c->process, out);
    int err = !buf ? ENOMEM : 0;

    *n_p = 0;
    if ((!two->in && own_in < 0) || (!two->out && own_out < 0))
        err = EBADF;

    if (!err)
        err = take(two->in, own_in, off_in, buf, len < AMPH_TRAP_BUFFER ? len : AMPH_TRAP_BUFFER,
                   &got);

    while (!err && *n_p < got) {
        size_t n = 0;

        err = give(two->out, own_out, off_out < 0 ? -1 : off_out + (off_t)*n_p, buf + *n_p,
                   got - *n_p, &n);
        *n_p += n;
        if (!err && !n)
            break;
    }

    step_back(two->in, own_in, off_in, got - *n_p);
    if (own_in >= 0)
        close(own_in);

    if (own_out >= 0)
        close(own_out);

    return *n_p ? 0 : err;
}

int amph_trap_do_sendfile(struct amph_trap_call *c)
{
    struct two two;
    off_t off;
    size_t n = 0;
    int err;

    if (has_two(c, I(1), I(0), &two, &err)) {
        err = get_offset(c, A(2), &off);
        if (!err)
            err = copy(c, &two, I(1), I(0), off, -1, A(3), &n);

        if (!err)
            err = put_offset(c, A(2), off + (off_t)n);

        c->value = (int64_t)n;
    }

    end_two(&two);
    return err;
}

int amph_trap_do_copy_file_range(struct amph_trap_call *c)
{
    struct two two;
    off_t off_in, off_out;
    size_t n = 0;
    int err;

    if (has_two(c, I(0), I(2), &two, &err)) {
        err = A(5) ? EINVAL : 0;
        if (!err)
            err = get_offset(c, A(1), &off_in);

        if (!err)
            err = get_offset(c, A(3), &off_out);

        if (!err)
            err = copy(c, &two, I(0), I(2), off_in, off_out, A(4), &n);

        if (!err)
            err = put_offset(c, A(1), off_in + (off_t)n);

        if (!err)
            err = put_offset(c, A(3), off_out + (off_t)n);

        c->value = (int64_t)n;
    }

    end_two(&two);
    return err;
}

/* Pages cannot be moved; programs copy then. */
int amph_trap_do_splice(struct amph_trap_call *c)
{
    struct two two;
    int err;

    if (has_two(c, I(0), I(2), &two, &err))
        err = EINVAL;

    end_two(&two);
    return err;
}

int amph_trap_do_tee(struct amph_trap_call *c)
{
    struct two two;
    int err;

    if (has_two(c, I(0), I(1), &two, &err))
        err = EINVAL;

    end_two(&two);
    return err;
}

/* The kernel's asynchronous calls name descriptors in memory. */
int amph_trap_do_io_submit(struct amph_trap_call *c)
{
    for (uint64_t i = 0; i < A(1) && i < 4096; i++) {
        struct amph_trap_file *file;
        struct iocb block;
        uint64_t at;
        int err = amph_trap_get(c, &at, A(2) + i * sizeof at, sizeof at);

        if (!err)
            err = amph_trap_get(c, &block, at, sizeof block);

        if (err == EFAULT)
            return AMPH_TRAP_CONTINUE;

        if (!err)
            err = amph_trap_file_of(c, (int)block.aio_fildes, &file, NULL);

        if (err)
            return err;

        if (file) {
            amph_trap_file_put(file);
            return EINVAL;
        }
    }

    return AMPH_TRAP_CONTINUE;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls on two open files, of which one may be local.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

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

/* Waits a little; EINTR: not yet. */
static int wait_writable(void *arg)
{
    struct pollfd fd = { .fd = *(int *)arg, .events = POLLOUT };

    return poll(&fd, 1, 20) > 0 ? 0 : EINTR;
}

/* To a pipe or socket of the program, whose reader may be slow: signals must end the wait. */
static ssize_t give_stream(struct amph_trap_call *c, int own_fd, const char *buf, size_t len)
{
    struct iovec iov = { (void *)(uintptr_t)buf, len };

    for (;;) {
        ssize_t n = pwritev2(own_fd, &iov, 1, -1, RWF_NOWAIT);
        bool knows = n >= 0 || errno != EOPNOTSUPP;

        if (n >= 0 || (knows && errno != EAGAIN) || (fcntl(own_fd, F_GETFL) & O_NONBLOCK))
            return knows ? n : write(own_fd, buf, len);

        errno = amph_trap_wait(c, AMPH_TRAP_WAIT_READY, wait_writable, &own_fd);
        if (errno)
            return -1;

        if (!knows) /* FIFOs, and Linux before 6.4: what fits for certain */
            return write(own_fd, buf, len < PIPE_BUF ? len : PIPE_BUF);
    }
}

static int give(struct amph_trap_call *c, const struct amph_trap_file *file, int own_fd, off_t off,
                const char *buf, size_t len, size_t *n_p)
{
    struct stat st;
    ssize_t n;

    if (file && off >= 0)
        return amph_fwd_pwrite(CL, &file->file, off, buf, len, n_p);

    if (file)
        return amph_fwd_write(CL, &file->file, buf, len, n_p);

    if (off >= 0)
        n = pwrite(own_fd, buf, len, off);
    else if (fstat(own_fd, &st) == 0 && S_ISREG(st.st_mode))
        n = write(own_fd, buf, len);
    else
        n = give_stream(c, own_fd, buf, len);

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

/* What the kernel looks at before it copies. */
struct side {
    int own_fd; /* a copy of the caller's descriptor, if that is local; or -1 */
    int flags;
    struct stat st;
};

struct sides {
    struct side in, out;
};

static int look_at(struct amph_trap_call *c, const struct amph_trap_file *file, int fd,
                   struct side *side)
{
    int err;

    if (file) {
        err = amph_fwd_getflags(CL, &file->file, &side->flags);
        return err ? err : amph_fwd_fstat(CL, &file->file, &side->st);
    }

    err = amph_trap_fd_of_call(c, fd, &side->own_fd);
    if (err)
        return err;

    side->flags = fcntl(side->own_fd, F_GETFL);
    return side->flags < 0 || fstat(side->own_fd, &side->st) != 0 ? errno : 0;
}

static int look_at_both(struct amph_trap_call *c, const struct two *two, int in, int out,
                        struct sides *s)
{
    s->in.own_fd = s->out.own_fd = -1;

    int err = look_at(c, two->in, in, &s->in);

    return err ? err : look_at(c, two->out, out, &s->out);
}

static void end_sides(const struct sides *s)
{
    if (s->in.own_fd >= 0)
        close(s->in.own_fd);

    if (s->out.own_fd >= 0)
        close(s->out.own_fd);
}

static bool may_read(const struct side *side)
{
    return !(side->flags & O_PATH) && (side->flags & O_ACCMODE) != O_WRONLY;
}

static bool may_write(const struct side *side)
{
    return !(side->flags & O_PATH) && (side->flags & O_ACCMODE) != O_RDONLY;
}

/* Copies one piece and returns how much that was; programs ask again for the rest. */
static int copy(struct amph_trap_call *c, const struct two *two, const struct sides *s,
                off_t off_in, off_t off_out, size_t len, size_t *n_p)
{
    char *buf = amph_trap_buffer();
    size_t got = 0;
    int err = buf ? 0 : ENOMEM;

    *n_p = 0;
    if (!err)
        err = take(two->in, s->in.own_fd, off_in, buf,
                   len < AMPH_TRAP_BUFFER ? len : AMPH_TRAP_BUFFER, &got);

    while (!err && *n_p < got) {
        size_t n = 0;

        err = give(c, two->out, s->out.own_fd, off_out < 0 ? -1 : off_out + (off_t)*n_p, buf + *n_p,
                   got - *n_p, &n);
        *n_p += n;
        if (!err && !n)
            break;
    }

    step_back(two->in, s->in.own_fd, off_in, got - *n_p);
    if (err == EPIPE && !*n_p)
        amph_trap_sigpipe(c);

    return *n_p && err != AMPH_TRAP_GONE ? 0 : err;
}

/* ---- sendfile ---- */

/* 0, or the error that the kernel gives for such files and such an offset, also if there is nothing to send.  Errors of
 * the source come first.  off: where the program has its offset, or NULL. */
static int send_refused(const struct sides *s, const off_t *off, size_t len)
{
    mode_t from = s->in.st.st_mode;
    bool to_pipe = S_ISFIFO(s->out.st.st_mode);
    bool seeks = S_ISREG(from) || S_ISDIR(from) || S_ISBLK(from) || S_ISCHR(from);

    if (!may_read(&s->in))
        return EBADF;
    if (off && !seeks)
        return ESPIPE;
    if ((ssize_t)len < 0 || (off && (*off < 0 || *off > INT64_MAX - (off_t)len)))
        return EINVAL;
    if (!may_write(&s->out))
        return EBADF;
    if (S_ISDIR(from) || (!to_pipe && s->out.flags & O_APPEND))
        return EINVAL;

    return 0;
}

int amph_trap_do_sendfile(struct amph_trap_call *c)
{
    struct two two;
    struct sides s;
    off_t off;
    size_t n = 0;
    int err;

    if (has_two(c, I(1), I(0), &two, &err)) {
        err = get_offset(c, A(2), &off);
        if (!err) {
            err = look_at_both(c, &two, I(1), I(0), &s);
            if (!err)
                err = send_refused(&s, A(2) ? &off : NULL, A(3));

            if (!err)
                err = copy(c, &two, &s, off, -1, A(3), &n);

            end_sides(&s);
        }

        if (!err)
            err = put_offset(c, A(2), off + (off_t)n);

        c->value = (int64_t)n;
    }

    end_two(&two);
    return err;
}

/* ---- copy_file_range ---- */

/* EINVAL: both are one file, and the ranges overlap. */
static int check_overlap(const struct two *two, const struct sides *s, off_t from, off_t to,
                         size_t len)
{
    const struct stat *a = &s->in.st;
    const struct stat *b = &s->out.st;
    int err = 0;

    if (!two->in || !two->out || a->st_ino != b->st_ino || a->st_dev != b->st_dev)
        return 0;

    if (from < 0)
        err = amph_fwd_lseek(CL, &two->in->file, 0, SEEK_CUR, &from);

    if (!err && to < 0)
        err = amph_fwd_lseek(CL, &two->out->file, 0, SEEK_CUR, &to);

    if (err || from >= a->st_size)
        return err;

    off_t n = (off_t)len < 0 || (off_t)len > a->st_size - from ? a->st_size - from : (off_t)len;

    return from - n < to && to < from + n ? EINVAL : 0;
}

/* The kernel looks whether offset plus length exceed the largest offset, before it looks at the offset
 * itself. */
static bool passes_end(const off_t *off, size_t len)
{
    return off && (uint64_t)*off + len < (uint64_t)*off;
}

/* As send_refused. */
static int copy_refused(const struct sides *s, const off_t *from, const off_t *to, size_t len)
{
    if (S_ISDIR(s->in.st.st_mode) || S_ISDIR(s->out.st.st_mode))
        return EISDIR;
    if (!S_ISREG(s->in.st.st_mode) || !S_ISREG(s->out.st.st_mode))
        return EINVAL;
    if (!may_read(&s->in) || !may_write(&s->out) || s->out.flags & O_APPEND)
        return EBADF;
    if (passes_end(from, len) || passes_end(to, len))
        return EOVERFLOW;
    if ((from && *from < 0) || (to && *to < 0))
        return EINVAL;

    return 0;
}

/* off_in, off_out: below 0, the files' own. */
static int copy_range(struct amph_trap_call *c, const struct two *two, off_t off_in, off_t off_out,
                      size_t *n_p)
{
    struct sides s;
    int err = look_at_both(c, two, I(0), I(2), &s);

    if (!err)
        err = copy_refused(&s, A(1) ? &off_in : NULL, A(3) ? &off_out : NULL, A(4));

    if (!err)
        err = check_overlap(two, &s, off_in, off_out, A(4));

    if (!err)
        err = copy(c, two, &s, off_in, off_out, A(4), n_p);

    end_sides(&s);
    return err;
}

int amph_trap_do_copy_file_range(struct amph_trap_call *c)
{
    struct two two;
    off_t off_in, off_out;
    size_t n = 0;
    int err;

    if (has_two(c, I(0), I(2), &two, &err)) {
        err = get_offset(c, A(1), &off_in);
        if (!err)
            err = get_offset(c, A(3), &off_out);

        if (!err && A(5))
            err = EINVAL;

        if (!err)
            err = copy_range(c, &two, off_in, off_out, &n);

        if (!err)
            err = put_offset(c, A(1), off_in + (off_t)n);

        if (!err)
            err = put_offset(c, A(3), off_out + (off_t)n);

        c->value = (int64_t)n;
    }

    end_two(&two);
    return err;
}

/* ---- splice, tee ---- */

/* Pages cannot be moved; programs copy then. */
static int refuse_pages(struct amph_trap_call *c, int in, int out)
{
    struct two two;
    struct sides s;
    int err;

    if (has_two(c, in, out, &two, &err)) {
        err = look_at_both(c, &two, in, out, &s);
        if (!err)
            err = may_read(&s.in) && may_write(&s.out) ? EINVAL : EBADF;

        end_sides(&s);
    }

    end_two(&two);
    return err;
}

int amph_trap_do_splice(struct amph_trap_call *c)
{
    return A(4) ? refuse_pages(c, I(0), I(2)) : AMPH_TRAP_CONTINUE;
}

int amph_trap_do_tee(struct amph_trap_call *c)
{
    return A(2) ? refuse_pages(c, I(0), I(1)) : AMPH_TRAP_CONTINUE;
}

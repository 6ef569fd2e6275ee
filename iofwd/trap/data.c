/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls on open files.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

#define CALL_MAX ((size_t)0x7ffff000) /* bytes that one call of the kernel moves */
#define PARTS_MAX 1024                /* of readv and its like */

/* The forwarded file of descriptor argument 0.  False: *ret_p is the result. */
static bool has_file(struct amph_trap_call *c, struct amph_trap_file **file_p, int *ret_p)
{
    *ret_p = amph_trap_file_of(c, I(0), file_p, NULL);
    if (!*ret_p && !*file_p)
        *ret_p = AMPH_TRAP_CONTINUE;

    return !*ret_p;
}

static int done(struct amph_trap_file *file, int err)
{
    amph_trap_file_put(file);
    return err;
}

/* ---- reading and writing ---- */

/* Where the data is in the program, and what has been moved already. */
struct places {
    struct iovec part[PARTS_MAX];
    int n;
    size_t left;
};

/* One call's wishes. */
struct transfer {
    struct amph_fwd_file file; /* a copy, which may hold RWF_* */
    bool at_offset;
    off_t off;
    bool waits;
};

static int one_place(struct places *v, uint64_t at, size_t len)
{
    v->n = 1;
    v->left = len < CALL_MAX ? len : CALL_MAX;
    v->part[0] = (struct iovec){ (void *)(uintptr_t)at, v->left };
    return 0;
}

static int several_places(struct amph_trap_call *c, struct places *v)
{
    if (A(2) > PARTS_MAX)
        return EINVAL;

    int err = amph_trap_get(c, v->part, A(1), A(2) * sizeof *v->part);

    v->n = (int)A(2);
    v->left = 0;
    for (int i = 0; i < v->n && !err; i++) {
        if ((ssize_t)v->part[i].iov_len < 0)
            err = EINVAL;
        else if (v->part[i].iov_len > CALL_MAX - v->left)
            v->part[i].iov_len = CALL_MAX - v->left;

        v->left += v->part[i].iov_len;
    }

    return err;
}

/* Moves len bytes between buf and the next places.  *n_p: how many were there. */
static int move(struct amph_trap_call *c, struct places *v, int *at_p, char *buf, size_t len,
                bool in, size_t *n_p)
{
    int err = 0;

    *n_p = 0;
    while (len && *at_p < v->n && !err) {
        struct iovec *part = &v->part[*at_p];
        size_t n = part->iov_len < len ? part->iov_len : len;
        size_t moved = n;

        if (in)
            err = amph_trap_get_some(c, buf, (uintptr_t)part->iov_base, n, &moved);
        else
            err = amph_trap_put(c, (uintptr_t)part->iov_base, buf, n);

        if (err)
            break;

        part->iov_base = (char *)part->iov_base + moved;
        part->iov_len -= moved;
        *n_p += moved;
        buf += moved;
        len -= moved;
        if (moved < n)
            break;

        if (!part->iov_len)
            ++*at_p;
    }

    return err;
}

static int read_piece(struct amph_trap_call *c, struct transfer *t, char *buf, size_t len,
                      size_t *n_p)
{
    if (t->waits)
        amph_trap_wait_begin(c);

    int err = t->at_offset ? amph_fwd_pread(CL, &t->file, t->off, buf, len, n_p)
                           : amph_fwd_read(CL, &t->file, buf, len, n_p);

    amph_trap_wait_end();
    return err;
}

/* Gives back what has been read and has not arrived. */
static void step_back(struct transfer *t, size_t n)
{
    off_t pos;

    if (!t->at_offset && n)
        amph_fwd_lseek(CL, &t->file, -(off_t)n, SEEK_CUR, &pos);
}

static int do_reads(struct amph_trap_call *c, struct transfer *t, struct places *v)
{
    char *buf = amph_trap_buffer();
    size_t total = 0;
    int at = 0;
    int err = buf ? 0 : ENOMEM;

    while (!err) {
        size_t want = v->left < AMPH_TRAP_BUFFER ? v->left : AMPH_TRAP_BUFFER;
        size_t n = 0;
        size_t moved = 0;

        err = read_piece(c, t, buf, want, &n);
        if (err)
            break;

        err = move(c, v, &at, buf, n, false, &moved);
        if (err)
            step_back(t, n - moved);

        total += moved;
        t->off += (off_t)moved;
        v->left -= moved;
        if (n < want || !v->left || t->waits)
            break;
    }

    c->value = (int64_t)total;
    if (err == AMPH_TRAP_GONE)
        return err;

    if (err == EINTR && !total)
        return amph_trap_wait_result(c);

    return total ? 0 : err;
}

static int write_piece(struct amph_trap_call *c, struct transfer *t, const char *buf, size_t len,
                       size_t *n_p)
{
    if (t->waits)
        amph_trap_wait_begin(c);

    int err = t->at_offset ? amph_fwd_pwrite(CL, &t->file, t->off, buf, len, n_p)
                           : amph_fwd_write(CL, &t->file, buf, len, n_p);

    amph_trap_wait_end();
    return err;
}

/* As the kernel does for a pipe without a reader. */
static void send_sigpipe(struct amph_trap_call *c)
{
    if (amph_trap_process_of(c, NULL) == 0)
        syscall(SYS_tgkill, amph_trap_process_pid(c->process), (pid_t)c->n.pid, SIGPIPE);
}

static int do_writes(struct amph_trap_call *c, struct transfer *t, struct places *v)
{
    char *buf = amph_trap_buffer();
    size_t total = 0;
    int at = 0;
    int err = buf ? 0 : ENOMEM;

    while (!err) {
        size_t want = v->left < AMPH_TRAP_BUFFER ? v->left : AMPH_TRAP_BUFFER;
        size_t have = 0;
        size_t n = 0;

        err = move(c, v, &at, buf, want, true, &have);
        if (!err && want && !have)
            err = EFAULT;

        if (!err)
            err = write_piece(c, t, buf, have, &n);

        if (err)
            break;

        total += n;
        t->off += (off_t)n;
        v->left -= n;
        if (n < want || !v->left)
            break;
    }

    c->value = (int64_t)total;
    if (err == AMPH_TRAP_GONE)
        return err;

    if (err == EINTR && !total)
        return amph_trap_wait_result(c);

    if (err == EPIPE && !total)
        send_sigpipe(c);

    return total ? 0 : err;
}

/* off_arg below 0: at the file's offset.  flags: RWF_*. */
static int transfer(struct amph_trap_call *c, bool writes, bool several, int off_arg,
                    unsigned flags)
{
    static _Thread_local struct places v;
    struct amph_trap_file *file;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    off_t off = off_arg < 0 ? 0 : (off_t)A(off_arg);
    struct transfer t = { .file = file->file,
                          .at_offset = off_arg >= 0,
                          .off = off,
                          .waits = amph_fwd_file_waits(&file->file) };

    t.file.rwf = flags;
    err = several ? several_places(c, &v) : one_place(&v, A(1), A(2));
    if (!err && t.at_offset && off < 0)
        err = EINVAL;

    if (!err)
        err = writes ? do_writes(c, &t, &v) : do_reads(c, &t, &v);

    return done(file, err);
}

int amph_trap_do_read(struct amph_trap_call *c)
{
    return transfer(c, false, false, -1, 0);
}

int amph_trap_do_write(struct amph_trap_call *c)
{
    return transfer(c, true, false, -1, 0);
}

int amph_trap_do_pread(struct amph_trap_call *c)
{
    return transfer(c, false, false, 3, 0);
}

int amph_trap_do_pwrite(struct amph_trap_call *c)
{
    return transfer(c, true, false, 3, 0);
}

int amph_trap_do_readv(struct amph_trap_call *c)
{
    return transfer(c, false, true, -1, 0);
}

int amph_trap_do_writev(struct amph_trap_call *c)
{
    return transfer(c, true, true, -1, 0);
}

int amph_trap_do_preadv(struct amph_trap_call *c)
{
    return transfer(c, false, true, 3, 0);
}

int amph_trap_do_pwritev(struct amph_trap_call *c)
{
    return transfer(c, true, true, 3, 0);
}

/* -1: at the file's offset. */
int amph_trap_do_preadv2(struct amph_trap_call *c)
{
    return transfer(c, false, true, (int64_t)A(3) == -1 ? -1 : 3, (unsigned)A(5));
}

int amph_trap_do_pwritev2(struct amph_trap_call *c)
{
    return transfer(c, true, true, (int64_t)A(3) == -1 ? -1 : 3, (unsigned)A(5));
}

/* ---- offset, size and attributes ---- */

int amph_trap_do_lseek(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    off_t pos = 0;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    err = amph_fwd_lseek(CL, &file->file, (off_t)A(1), I(2), &pos);
    c->value = pos;
    return done(file, err);
}

int amph_trap_do_fstat(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    struct stat st;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    err = amph_fwd_fstat(CL, &file->file, &st);
    return done(file, err ? err : amph_trap_put(c, A(1), &st, sizeof st));
}

int amph_trap_do_fstatfs(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    struct statfs fs;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    err = amph_fwd_fstatfs(CL, &file->file, &fs);
    return done(file, err ? err : amph_trap_put(c, A(1), &fs, sizeof fs));
}

int amph_trap_do_getdents64(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    char *buf = amph_trap_buffer();
    size_t room = A(2) < AMPH_TRAP_BUFFER ? (size_t)A(2) : AMPH_TRAP_BUFFER;
    size_t len = 0;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    err = buf ? amph_fwd_getdents(CL, &file->file, buf, room, &len) : ENOMEM;
    c->value = (int64_t)len;
    return done(file, err ? err : amph_trap_put(c, A(1), buf, len));
}

/* The old form, which programs use on kernels of long ago. */
int amph_trap_do_getdents(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, ENOSYS) : err;
}

int amph_trap_do_ftruncate(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    err = (int64_t)A(1) < 0 ? EINVAL : amph_fwd_ftruncate(CL, &file->file, (off_t)A(1));
    return done(file, err);
}

int amph_trap_do_fallocate(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    return done(file, amph_fwd_fallocate(CL, &file->file, I(1), (off_t)A(2), (off_t)A(3)));
}

int amph_trap_do_fsync(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, amph_fwd_fsync(CL, &file->file)) : err;
}

int amph_trap_do_fdatasync(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, amph_fwd_fdatasync(CL, &file->file)) : err;
}

int amph_trap_do_syncfs(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, amph_fwd_syncfs(CL, &file->file)) : err;
}

int amph_trap_do_fchmod(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, amph_fwd_fchmod(CL, &file->file, (mode_t)A(1)))
                                    : err;
}

int amph_trap_do_fchown(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    return done(file, amph_fwd_fchown(CL, &file->file, (uid_t)A(1), (gid_t)A(2)));
}

/* Advice on what will be read changes nothing that a program can see. */
int amph_trap_do_advice(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, 0) : err;
}

int amph_trap_do_invalid(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, EINVAL) : err;
}

/* Only the bits of the descriptor itself are the kernel's. */
int amph_trap_do_ioctl(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!has_file(c, &file, &err))
        return err;

    const unsigned of_descriptor[] = { 0x5451 /* FIOCLEX */, 0x5450 /* FIONCLEX */ };
    unsigned request = (unsigned)A(1);

    return done(file, request == of_descriptor[0] || request == of_descriptor[1]
                          ? AMPH_TRAP_CONTINUE
                          : ENOTTY);
}

int amph_trap_do_flock(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return has_file(c, &file, &err) ? done(file, amph_trap_flock(c, file, I(1))) : err;
}

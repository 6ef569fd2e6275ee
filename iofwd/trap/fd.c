/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls on open files besides reading and writing: offset, size, attributes, entries of a
 * directory.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

int amph_trap_do_lseek(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    off_t pos = 0;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    err = amph_fwd_lseek(CL, &file->file, (off_t)A(1), I(2), &pos);
    c->value = pos;
    return amph_trap_done(file, err);
}

int amph_trap_do_fstat(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    struct stat st;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    err = amph_fwd_fstat(CL, &file->file, &st);
    return amph_trap_done(file, err ? err : amph_trap_put(c, A(1), &st, sizeof st));
}

int amph_trap_do_fstatfs(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    struct statfs fs;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    err = amph_fwd_fstatfs(CL, &file->file, &fs);
    return amph_trap_done(file, err ? err : amph_trap_put(c, A(1), &fs, sizeof fs));
}

int amph_trap_do_getdents64(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    char *buf = amph_trap_buffer();
    size_t room = A(2) < AMPH_TRAP_BUFFER ? (size_t)A(2) : AMPH_TRAP_BUFFER;
    size_t len = 0;
    size_t end;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    err = buf ? amph_fwd_getdents(CL, &file->file, &end, buf, room, &len) : ENOMEM;
    c->value = (int64_t)len;
    return amph_trap_done(file, err ? err : amph_trap_put(c, A(1), buf, len));
}

/* The old form, which programs use on kernels of long ago. */
int amph_trap_do_getdents(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err) ? amph_trap_done(file, ENOSYS) : err;
}

int amph_trap_do_ftruncate(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    err = (int64_t)A(1) < 0 ? EINVAL : amph_fwd_ftruncate(CL, &file->file, (off_t)A(1));
    return amph_trap_done(file, err);
}

int amph_trap_do_fallocate(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    return amph_trap_done(file,
                          amph_fwd_fallocate(CL, &file->file, I(1), (off_t)A(2), (off_t)A(3)));
}

int amph_trap_do_fsync(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err)
               ? amph_trap_done(file, amph_fwd_fsync(CL, &file->file))
               : err;
}

int amph_trap_do_fdatasync(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err)
               ? amph_trap_done(file, amph_fwd_fdatasync(CL, &file->file))
               : err;
}

int amph_trap_do_syncfs(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err)
               ? amph_trap_done(file, amph_fwd_syncfs(CL, &file->file))
               : err;
}

int amph_trap_do_fchmod(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err)
               ? amph_trap_done(file, amph_fwd_fchmod(CL, &file->file, (mode_t)A(1) & 07777))
               : err;
}

int amph_trap_do_fchown(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    return amph_trap_done(file, amph_fwd_fchown(CL, &file->file, (uid_t)A(1), (gid_t)A(2)));
}

/* Advice on what will be read changes nothing that a program can see. */
int amph_trap_do_advice(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err) ? amph_trap_done(file, 0) : err;
}

int amph_trap_do_invalid(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err) ? amph_trap_done(file, EINVAL) : err;
}

int amph_trap_do_flock(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int err;

    return amph_trap_has_file(c, &file, &err) ? amph_trap_done(file, amph_trap_flock(c, file, I(1)))
                                              : err;
}

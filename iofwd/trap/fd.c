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

/* s390x numbers the last two otherwise */
#define ADVICE_MAX \
    (POSIX_FADV_NOREUSE > POSIX_FADV_DONTNEED ? POSIX_FADV_NOREUSE : POSIX_FADV_DONTNEED)

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

/* With 32-bit entries, which programs use only where a kernel has no getdents64. */
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

/* ---- advice on what will be read changes nothing that a program can see, but for errors ---- */

/* Is the descriptor one for reading, writing or both, not O_PATH?  *flags_p: those of the open file. */
static int used_for_data(struct amph_trap_file *file, int *flags_p)
{
    int err = amph_fwd_getflags(CL, &file->file, flags_p);

    return !err && (*flags_p & O_PATH) ? EBADF : err;
}

int amph_trap_do_fadvise(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int advice = I(3);
    struct stat st;
    int flags, err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    err = used_for_data(file, &flags);
    if (!err && amph_fwd_file_waits(&file->file) && amph_fwd_fstat(CL, &file->file, &st) == 0 &&
        S_ISFIFO(st.st_mode))
        err = ESPIPE;
    if (!err && ((int64_t)A(2) < 0 || advice < POSIX_FADV_NORMAL || advice > ADVICE_MAX))
        err = EINVAL;

    return amph_trap_done(file, err);
}

int amph_trap_do_readahead(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int flags, err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    err = used_for_data(file, &flags);
    if (!err && (flags & O_ACCMODE) == O_WRONLY)
        err = EBADF;
    if (!err && amph_fwd_file_type(&file->file) != S_IFREG)
        err = EINVAL;

    return amph_trap_done(file, err);
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

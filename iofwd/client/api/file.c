/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of iofwd.h that work on files by name and handle, for programs that call the I/O
 * servers directly.
 *
 * Layer: iofwd.  Thread rule: as iofwd.h says.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/calls/calls.h"
#include "iofwd/client/api/file.h"
#include "iofwd/client/coalesce/coalesce.h"
#include "iofwd/client/api/nonblocking.h"
#include "iofwd/client/state.h"

/* Protects the list of open files.  A process holds an open file at its server once, even if it
 * opened the file several times by the name of its handle; the last close drops the hold. */
static void lock_own(void)
{
    pthread_mutex_lock(&amph_client_state.files.lock);
}

static void unlock_own(void)
{
    pthread_mutex_unlock(&amph_client_state.files.lock);
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(lock_own, unlock_own, unlock_own);
}

/* Finds another iofwd_file_t of the same open file, from `from` on. */
static struct iofwd_file *another(struct iofwd_file *from, const struct iofwd_file *file)
{
    const struct amph_fwd_ref *part = &file->file.part[0];

    while (from && (from == file || from->file.part[0].handle != part->handle ||
                    from->file.part[0].server != part->server))
        from = from->next;

    return from;
}

void amph_client_file_double(iofwd_file_t *file)
{
    lock_own();
    for (struct iofwd_file *f = another(amph_client_state.files.first, file); f;
         f = another(f->next, file))
        f->doubled = file->doubled = true;

    unlock_own();
}

int amph_client_file_make(const struct amph_fwd_file *f, bool borrowed, iofwd_file_t **file_p)
{
    iofwd_file_t *file = malloc(sizeof *file);

    if (!file)
        return ENOMEM;

    *file = (iofwd_file_t){ .file = *f, .borrowed = borrowed, .whole = *f };
    *file_p = file;
    if (borrowed)
        return 0;

    lock_own();
    file->next = amph_client_state.files.first;
    file->at = &amph_client_state.files.first;
    if (file->next)
        file->next->at = &file->next;

    amph_client_state.files.first = file;
    unlock_own();
    return 0;
}

/* Frees an iofwd_file_t.  Returns true if the open file, stored in *f, must be closed as well. */
static bool unmake(iofwd_file_t *file, struct amph_fwd_file *f)
{
    bool last = false;

    if (!file->borrowed) {
        lock_own();
        *file->at = file->next;
        if (file->next)
            file->next->at = file->at;

        struct iofwd_file *heir = file->doubled ? another(amph_client_state.files.first, file)
                                                : NULL;

        if (heir && heir->whole.nparts < file->whole.nparts)
            heir->whole = file->whole;

        last = !heir;
        unlock_own();
    }

    *f = file->whole;
    free(file);
    return last;
}

static mode_t with_mask(mode_t mode)
{
    mode_t mask = umask(077);

    umask(mask);
    return amph_fwd_new_mode(mode & 07777, mask);
}

int iofwd_open(const char *path, int flags, mode_t mode, iofwd_file_t **file_p)
{
    struct amph_fwd_client *cl;
    struct amph_fwd_file f;
    int err = path && *path == '/' ? amph_fwd_process(&cl) : EINVAL;

    if (!err)
        err = amph_fwd_open(cl, NULL, path, flags | O_CLOEXEC,
                            flags & (O_CREAT | O_TMPFILE) ? with_mask(mode) : mode, &f);

    if (!err && (err = amph_client_file_make(&f, false, file_p)))
        amph_fwd_close(cl, &f);

    return err;
}

int iofwd_of_fd(int fd, iofwd_file_t **file_p)
{
    struct amph_fwd_client *cl;
    struct amph_fwd_file f;
    int err = amph_client_file_of_fd(fd, &f);

    if (!err && f.nparts == 0)
        err = ENOTSUP;

    if (!err)
        err = amph_fwd_process(&cl);

    return err ? err : amph_client_file_make(&f, true, file_p);
}

int iofwd_close(iofwd_file_t *file)
{
    struct amph_fwd_client *cl;
    struct amph_fwd_file f;

    if (!unmake(file, &f))
        return 0;

    int err = amph_fwd_process(&cl);

    return err ? err : amph_fwd_close(cl, &f);
}

int iofwd_read(iofwd_file_t *file, void *buf, size_t len, size_t *done_p)
{
    struct amph_fwd_client *cl;
    size_t unasked;
    int err = amph_fwd_process(&cl);

    if (err)
        return err;

    return amph_fwd_read(cl, &file->file, buf, len, done_p ? done_p : &unasked);
}

int iofwd_write(iofwd_file_t *file, const void *buf, size_t len, size_t *done_p)
{
    struct amph_fwd_client *cl;
    size_t unasked;
    int err = amph_fwd_process(&cl);

    if (err)
        return err;

    return amph_fwd_write(cl, &file->file, buf, len, done_p ? done_p : &unasked);
}

int iofwd_pread(iofwd_file_t *file, void *buf, size_t len, off_t off, size_t *done_p)
{
    struct amph_fwd_client *cl;
    size_t unasked;
    int err = off < 0 ? EINVAL : amph_fwd_process(&cl);

    if (err)
        return err;

    return amph_fwd_pread(cl, &file->file, off, buf, len, done_p ? done_p : &unasked);
}

int iofwd_pwrite(iofwd_file_t *file, const void *buf, size_t len, off_t off, size_t *done_p)
{
    struct amph_fwd_client *cl;
    size_t unasked;
    int err = off < 0 ? EINVAL : amph_fwd_process(&cl);

    if (err)
        return err;

    return amph_fwd_pwrite(cl, &file->file, off, buf, len, done_p ? done_p : &unasked);
}

int iofwd_lseek(iofwd_file_t *file, off_t off, int whence, off_t *pos_p)
{
    struct amph_fwd_client *cl;
    off_t unasked;
    int err = amph_fwd_process(&cl);

    if (err)
        return err;

    return amph_fwd_lseek(cl, &file->file, off, whence, pos_p ? pos_p : &unasked);
}

int iofwd_ftruncate(iofwd_file_t *file, off_t length)
{
    struct amph_fwd_client *cl;
    int err = length < 0 ? EINVAL : amph_fwd_process(&cl);

    return err ? err : amph_fwd_ftruncate(cl, &file->file, length);
}

int iofwd_fallocate(iofwd_file_t *file, off_t off, off_t length)
{
    struct amph_fwd_client *cl;
    int err = off < 0 || length <= 0 ? EINVAL : amph_fwd_process(&cl);

    return err ? err : amph_fwd_fallocate(cl, &file->file, 0, off, length);
}

int iofwd_fsync(iofwd_file_t *file)
{
    struct amph_fwd_client *cl;
    int err = amph_fwd_process(&cl);

    return err ? err : amph_fwd_fsync(cl, &file->file);
}

int iofwd_fstat(iofwd_file_t *file, struct stat *st)
{
    struct amph_fwd_client *cl;
    int err = amph_fwd_process(&cl);

    return err ? err : amph_fwd_fstat(cl, &file->file, st);
}

/* ---- by path ---- */

int iofwd_stat(const char *path, struct stat *st)
{
    struct amph_fwd_client *cl;
    int err = path && *path == '/' ? amph_fwd_process(&cl) : EINVAL;

    return err ? err : amph_fwd_stat(cl, NULL, path, 0, st);
}

int iofwd_unlink(const char *path)
{
    struct amph_fwd_client *cl;
    int err = path && *path == '/' ? amph_fwd_process(&cl) : EINVAL;

    return err ? err : amph_fwd_unlink(cl, NULL, path, 0);
}

int iofwd_mkdir(const char *path, mode_t mode)
{
    struct amph_fwd_client *cl;
    int err = path && *path == '/' ? amph_fwd_process(&cl) : EINVAL;

    return err ? err : amph_fwd_mkdir(cl, NULL, path, with_mask(mode));
}

int iofwd_rename(const char *from, const char *to)
{
    struct amph_fwd_client *cl;
    int err = from && to && *from == '/' && *to == '/' ? amph_fwd_process(&cl) : EINVAL;

    return err ? err : amph_fwd_rename(cl, NULL, from, NULL, to, 0);
}

/* ---- coalescing ---- */

int iofwd_file_write_prep(iofwd_file_t *file, uint64_t bytes, unsigned calls)
{
    struct amph_fwd_client *cl;
    int err = amph_fwd_process(&cl);

    return err ? err : amph_client_coalesce_announce(cl, &file->file, true, bytes, calls);
}

int iofwd_file_read_prep(iofwd_file_t *file, uint64_t bytes, unsigned calls)
{
    struct amph_fwd_client *cl;
    int err = amph_fwd_process(&cl);

    return err ? err : amph_client_coalesce_announce(cl, &file->file, false, bytes, calls);
}

/* ---- non-blocking ---- */

int iofwd_pread_nb(iofwd_file_t *file, void *buf, size_t len, off_t off, iofwd_op_t *op_p)
{
    struct amph_fwd_client *cl;
    int err = amph_fwd_process(&cl);

    return err ? err
               : amph_client_nb_start(cl, &file->file, false, buf, len, off, NULL, NULL,
                                      (struct amph_client_nb **)op_p);
}

int iofwd_pwrite_nb(iofwd_file_t *file, const void *buf, size_t len, off_t off, iofwd_op_t *op_p)
{
    struct amph_fwd_client *cl;
    int err = amph_fwd_process(&cl);

    return err ? err
               : amph_client_nb_start(cl, &file->file, true, (void *)buf, len, off, NULL, NULL,
                                      (struct amph_client_nb **)op_p);
}

int iofwd_wait(iofwd_op_t *op_p, double seconds, struct iofwd_result *result)
{
    struct amph_client_nb_result r;

    if (!*op_p || isnan(seconds))
        return EINVAL;

    bool unbounded = seconds < 0 || seconds > 1e9;
    uint64_t ns = unbounded ? UINT64_MAX : (uint64_t)(seconds * 1e9);
    int err = amph_client_nb_wait((struct amph_client_nb *)*op_p, ns, &r);

    if (err)
        return err;

    *op_p = IOFWD_OP_NONE;
    if (result)
        *result = (struct iofwd_result){
            .error = r.error,
            .bytes = r.bytes,
            .seconds = (double)r.ns * 1e-9,
            .bytes_per_second = r.ns ? (double)r.bytes * 1e9 / (double)r.ns : 0
        };

    return 0;
}

int iofwd_test(iofwd_op_t *op_p, struct iofwd_result *result)
{
    return iofwd_wait(op_p, 0, result);
}

int iofwd_cancel(iofwd_op_t op)
{
    return op && amph_client_nb_cancel((struct amph_client_nb *)op) ? 0 : EBUSY;
}

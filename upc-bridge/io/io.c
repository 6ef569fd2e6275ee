/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC-IO: open files, their file pointers, sizes, modes and hints.  UPC OL 7.4.3.
 *
 * Layer: upc-bridge.  Thread rule: one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/io/files.h"

#define BUFFER_BYTES (2u << 20)
#define SHARE_UNIT 65536

/* Returns 0, or sets errno and returns -1. */
static int result_of(int err)
{
    if (err)
        errno = err;

    return err ? -1 : 0;
}

/* Returns the largest error of all threads, so that all return the same.  Collective. */
static int common_error(int err)
{
    return (int)amph_upc_max((uint64_t)(err > 0 ? err : 0));
}

struct upc_file *amph_upc_file_find(upc_file_t *fd)
{
    size_t i = (uintptr_t)fd;
    struct upc_file *f = i == 0 || i > amph_upc.files.count ? NULL : amph_upc.files.file[i - 1];

    if (!f || !f->used)
        errno = EBADF;

    return f && f->used ? f : NULL;
}

/* Returns an open file without an asynchronous operation in flight, or NULL with errno. */
static struct upc_file *find_idle(upc_file_t *fd)
{
    struct upc_file *f = amph_upc_file_find(fd);

    if (f && f->async) {
        errno = EBUSY;
        return NULL;
    }

    return f;
}

/* ---- buffers ---- */

#define BUFFERS 2 /* one for file calls, one for data of other hosts */

/* Buffers are in shared memory, which a server can access directly, unless that would use more
 * than a sixteenth of it. */
bool amph_upc_file_buffers(struct upc_file *f)
{
    uint64_t bytes = BUFFERS * f->buffer_bytes;

    if (f->buffer)
        return true;

    if (bytes <= upc_self.size / 16 && (f->buffer_addr = amphora_upc_alloc(bytes).addr) != 0)
        f->buffer = amph_upc_mine(f->buffer_addr);
    else
        f->buffer = malloc(bytes);

    return f->buffer != NULL;
}

static void free_buffers(struct upc_file *f)
{
    if (f->buffer_addr)
        amph_upc_scratch_free(f->buffer_addr);
    else
        free(f->buffer);

    f->buffer = NULL;
    f->buffer_addr = 0;
}

/* ---- hints ---- */

/* Applies a hint, if it is one that has an effect. */
static void apply_hint(struct upc_file *f, const struct upc_hint *h)
{
    char *end = NULL;
    unsigned long long n = strtoull(h->value, &end, 10);
    bool number = end != h->value && *end == 0;

    if (strcmp(h->key, "cb_buffer_size") == 0 && number && n >= 4096 && n <= (uint64_t)1 << 30) {
        free_buffers(f);
        f->buffer_bytes = n;
    }

    if (strcmp(h->key, "cb_nodes") == 0 && number && n > 0)
        f->writers = n < (unsigned)upc_self.threads ? (int)n : upc_self.threads;
    else if (strcmp(h->key, "collective_buffering") == 0)
        f->writers = strcmp(h->value, "false") == 0 ? 1 : upc_self.threads;
    else if (strcmp(h->key, "striping_unit") == 0 && number && n > 0 && n <= (uint64_t)1 << 40)
        f->unit = (int64_t)n;
}

/* Stores a hint for UPC_GET_HINTS.  0 or an errno value. */
static int store_hint(struct upc_file *f, const struct upc_hint *h)
{
    for (size_t i = 0; i < f->nhints; i++)
        if (strcmp(f->hints[i].key, h->key) == 0) {
            char *value = strdup(h->value);

            if (!value)
                return ENOMEM;

            free((void *)(uintptr_t)f->hints[i].value);
            f->hints[i].value = value;
            return 0;
        }

    upc_hint_t *more = realloc(f->hints, (f->nhints + 1) * sizeof *more);

    if (!more)
        return ENOMEM;

    f->hints = more;
    more[f->nhints] = (upc_hint_t){ strdup(h->key), strdup(h->value) };
    return more[f->nhints].key && more[f->nhints++].value ? 0 : ENOMEM;
}

/* 0 or an errno value. */
static int set_hint(struct upc_file *f, const struct upc_hint *h)
{
    if (!h->key || !h->value)
        return EINVAL;

    apply_hint(f, h);
    return store_hint(f, h);
}

static mode_t mode_of(const struct upc_file *f)
{
    for (size_t i = 0; i < f->nhints; i++)
        if (strcmp(f->hints[i].key, "file_perm") == 0)
            return (mode_t)strtoul(f->hints[i].value, NULL, 8) & 07777;

    return 0666;
}

/* ---- open and close ---- */

static int check_flags(int flags)
{
    const int all = UPC_RDONLY | UPC_WRONLY | UPC_RDWR | UPC_INDIVIDUAL_FP | UPC_COMMON_FP |
                    UPC_APPEND | UPC_CREATE | UPC_EXCL | UPC_STRONG_CA | UPC_TRUNC |
                    UPC_DELETE_ON_CLOSE;
    int access = flags & (UPC_RDONLY | UPC_WRONLY | UPC_RDWR);
    int fp = flags & (UPC_INDIVIDUAL_FP | UPC_COMMON_FP);

    if (access != UPC_RDONLY && access != UPC_WRONLY && access != UPC_RDWR)
        return EINVAL;
    if (fp != UPC_INDIVIDUAL_FP && fp != UPC_COMMON_FP)
        return EINVAL;

    return flags & ~all || (flags & UPC_EXCL && !(flags & UPC_CREATE)) ||
                   (flags & UPC_TRUNC && access == UPC_RDONLY)
               ? EINVAL
               : 0;
}

static void set_strong(struct upc_file *f)
{
    const char *consistency = gasnet_getenv("IOFWD_CONSISTENCY");
    f->flush_writes = f->flags & UPC_STRONG_CA && f->forwarded && consistency &&
                      strcmp(consistency, "session") == 0;
}

/* Opens the file in all threads.  Thread 0 opens first, and creates or truncates the file; the
 * others then open the existing file. */
static int open_all(struct upc_file *f)
{
    int access = O_RDWR;
    int err = 0;
    int more = (f->flags & UPC_CREATE ? O_CREAT : 0) | (f->flags & UPC_EXCL ? O_EXCL : 0) |
               (f->flags & UPC_TRUNC ? O_TRUNC : 0);
    bool opened = false;

    if (f->flags & UPC_RDONLY)
        access = O_RDONLY;
    else if (f->flags & UPC_WRONLY)
        access = O_WRONLY;

    if (upc_self.mythread == 0) {
        err = amph_upc_raw_open(f, access | more, mode_of(f));
        opened = err == 0;
    }

    amph_upc_broadcast(0, &err, sizeof err);
    if (!err && upc_self.mythread != 0) {
        err = amph_upc_raw_open(f, access, 0);
        opened = err == 0;
    }

    if (!err && f->flags & UPC_APPEND)
        err = amph_upc_raw_size(f, &f->position);

    err = common_error(err);
    if (err && opened)
        amph_upc_raw_close(f);

    return err;
}

static void free_slot(struct upc_file *f)
{
    free_buffers(f);
    for (size_t i = 0; i < f->nhints; i++) {
        free((void *)(uintptr_t)f->hints[i].key);
        free((void *)(uintptr_t)f->hints[i].value);
    }

    free(f->hints);
    free(f->name);
    *f = (struct upc_file){ .fd = -1 };
}

/* Finds or adds a free slot of the table, the same in all threads.  Returns NULL if memory is
 * exhausted. */
static struct upc_file *take_slot(size_t *i_p)
{
    size_t i = 0;

    while (i < amph_upc.files.count && amph_upc.files.file[i]->used)
        i++;

    *i_p = i;
    if (i < amph_upc.files.count)
        return amph_upc.files.file[i];

    struct upc_file **more = realloc(amph_upc.files.file, (i + 1) * sizeof(struct upc_file *));

    if (more)
        amph_upc.files.file = more;

    struct upc_file *f = more ? calloc(1, sizeof *f) : NULL;

    if (f)
        amph_upc.files.file[amph_upc.files.count++] = f;

    return f;
}

upc_file_t *upc_all_fopen(const char *fname, int flags, size_t numhints,
                          struct upc_hint const *hints)
{
    size_t i;
    struct upc_file *f = take_slot(&i);
    int err = 0;

    if (!f)
        err = ENOMEM;
    else if (!fname)
        err = EFAULT;
    else
        err = check_flags(flags);

    if (!err) {
        *f = (struct upc_file){ .fd = -1,
                                .flags = flags,
                                .buffer_bytes = BUFFER_BYTES,
                                .unit = SHARE_UNIT,
                                .writers = upc_self.threads,
                                .name = strdup(fname) };
        err = f->name ? 0 : ENOMEM;
    }

    for (size_t k = 0; !err && k < numhints; k++)
        err = set_hint(f, &hints[k]);

    err = common_error(err);
    if (!err)
        err = open_all(f);

    if (err) {
        if (f)
            free_slot(f);

        errno = err;
        return NULL;
    }

    f->used = true;
    set_strong(f);
    if (f->flags &
        UPC_COMMON_FP) /* with an individual file pointer, at the first collective call */
        (void)amph_upc_collective_open(f);

    return (upc_file_t *)(uintptr_t)(i + 1);
}

/* Closes the file in all threads; returns the same error in all threads. */
static int close_all(struct upc_file *f)
{
    int err = f->flags & UPC_RDONLY ? 0 : amph_upc_raw_sync(f);
    int again;

    amph_upc_collective_close(f);
    again = amph_upc_raw_close(f);
    err = common_error(err ? err : again);

    if (f->flags & UPC_DELETE_ON_CLOSE && upc_self.mythread == 0) {
        again = amph_upc_raw_unlink(f->name);
        err = err ? err : again;
    }

    amph_upc_broadcast(0, &err, sizeof err);
    free_slot(f);
    return err;
}

int upc_all_fclose(upc_file_t *fd)
{
    struct upc_file *f = find_idle(fd);
    int err = common_error(f ? 0 : errno);

    return result_of(err ? err : close_all(f));
}

void amph_upc_files_end(void)
{
    for (size_t i = 0; i < amph_upc.files.count; i++)
        if (amph_upc.files.file[i]->used) {
            if (amph_upc.files.file[i]->async)
                (void)upc_all_fwait_async((upc_file_t *)(uintptr_t)(i + 1));

            (void)close_all(amph_upc.files.file[i]);
        }
}

/* ---- state ---- */

int upc_all_fsync(upc_file_t *fd)
{
    struct upc_file *f = find_idle(fd);
    int err = f ? 0 : errno;

    if (f && !(f->flags & UPC_RDONLY))
        err = amph_upc_raw_sync(f);

    return result_of(common_error(err)); /* this reduction also is the barrier */
}

upc_off_t upc_all_fseek(upc_file_t *fd, upc_off_t offset, int origin)
{
    struct upc_file *f = find_idle(fd);
    int64_t from = 0;
    int err = 0;

    if (!f)
        err = errno;
    else if (origin == UPC_SEEK_END)
        err = amph_upc_raw_size(f, &from);

    if (f && f->flags & UPC_COMMON_FP && origin == UPC_SEEK_END)
        amph_upc_broadcast(0, &from, sizeof from);

    if (!err && origin == UPC_SEEK_CUR)
        from = f->position;
    else if (!err && origin != UPC_SEEK_SET && origin != UPC_SEEK_END)
        err = EINVAL;

    if (!err && (__builtin_add_overflow(from, offset, &from) || from < 0))
        err = EINVAL;

    if (err)
        return result_of(err);

    return f->position = from;
}

/* Synchronises the file, then has thread 0 call act for all threads. */
static int by_first_thread(struct upc_file *f, int (*act)(struct upc_file *, int64_t), int64_t size)
{
    int err;

    if (!f)
        err = errno;
    else if (f->flags & UPC_RDONLY)
        err = EBADF;
    else if (size < 0)
        err = EINVAL;
    else
        err = amph_upc_raw_sync(f);

    err = common_error(err);
    if (!err && upc_self.mythread == 0)
        err = act(f, size);

    amph_upc_broadcast(0, &err, sizeof err);
    return result_of(err);
}

int upc_all_fset_size(upc_file_t *fd, upc_off_t size)
{
    return by_first_thread(find_idle(fd), amph_upc_raw_set_size, size);
}

static int allocate(struct upc_file *f, int64_t size)
{
    int64_t now = 0;
    int err = amph_upc_raw_allocate(f, size);

    if (err == EOPNOTSUPP) { /* set at least the size */
        err = amph_upc_raw_size(f, &now);
        if (!err && now < size)
            err = amph_upc_raw_set_size(f, size);
    }

    return err;
}

int upc_all_fpreallocate(upc_file_t *fd, upc_off_t size)
{
    return by_first_thread(find_idle(fd), allocate, size);
}

upc_off_t upc_all_fget_size(upc_file_t *fd)
{
    struct upc_file *f = find_idle(fd);
    int64_t size = 0;
    int err = !f ? errno : amph_upc_raw_size(f, &size);

    return err ? result_of(err) : size;
}

static int set_mode(upc_file_t *fd, struct upc_file *f, int off, int on, bool rewind)
{
    if (upc_all_fsync(fd))
        return -1;

    f->flags = (f->flags & ~off) | on;
    if (rewind)
        f->position = 0;

    set_strong(f);
    return 0;
}

int upc_all_fcntl(upc_file_t *fd, int cmd, void *arg)
{
    struct upc_file *f = cmd == UPC_ASYNC_OUTSTANDING ? amph_upc_file_find(fd) : find_idle(fd);

    if (!f)
        return -1;
    if (!arg && (cmd == UPC_GET_FN || cmd == UPC_GET_HINTS || cmd == UPC_SET_HINT))
        return result_of(EINVAL);

    switch (cmd) {
    case UPC_ASYNC_OUTSTANDING:
        return f->async != NULL;
    case UPC_GET_CA_SEMANTICS:
        return f->flags & UPC_STRONG_CA;
    case UPC_SET_WEAK_CA_SEMANTICS:
        return set_mode(fd, f, UPC_STRONG_CA, 0, false);
    case UPC_SET_STRONG_CA_SEMANTICS:
        return set_mode(fd, f, 0, UPC_STRONG_CA, false);
    case UPC_GET_FP:
        return f->flags & (UPC_COMMON_FP | UPC_INDIVIDUAL_FP);
    case UPC_SET_COMMON_FP:
        return set_mode(fd, f, UPC_INDIVIDUAL_FP, UPC_COMMON_FP, true);
    case UPC_SET_INDIVIDUAL_FP:
        return set_mode(fd, f, UPC_COMMON_FP, UPC_INDIVIDUAL_FP, true);
    case UPC_GET_FL:
        return f->flags;
    case UPC_GET_FN:
        *(const char **)arg = f->name;
        return 0;
    case UPC_GET_HINTS:
        *(const upc_hint_t **)arg = f->hints;
        return (int)f->nhints;
    case UPC_SET_HINT:
        return upc_all_fsync(fd) ? -1 : result_of(set_hint(f, arg));
    default:
        return result_of(EINVAL);
    }
}

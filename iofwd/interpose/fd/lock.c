/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks.  Record locks belong to the process: its client at the server.  If the process has several
 * descriptor tables (fd/own_table.c), they belong to the table, by its number.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 *
 * The server keeps them by client and file, so that all descriptors of a process share them and a
 * forked child has none.  By POSIX, any close of a descriptor of the file drops them.  The server
 * does not see a close that leaves the file open through another descriptor, so that is reported to
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"

void amph_ip_forget_locks(void)
{
    amph_fdtab_current()->has_locks = false;
}

bool amph_ip_has_locks(void)
{
    return __atomic_load_n(&amph_fdtab_current()->has_locks, __ATOMIC_RELAXED);
}

static void drop_locks(const struct amph_fd_file *of)
{
    amph_ip_client.fwd.punlock(amph_ip_client.client, &of->file, amph_fdtab_current()->number);
}

/* ---- exec: a descriptor that it closes (FD_CLOEXEC) drops the locks of its file, even if a copy of
 * the descriptor stays open ---- */

#define CLOSING_MAX \
    64 /* files that are compared by identity; beyond, only copies of a descriptor are found */

struct closing {
    char *text;
    size_t cap, len;
    struct {
        dev_t dev;
        ino_t ino;
    } file[CLOSING_MAX];
    size_t n;
};

/* Does exec close another descriptor of the file behind fd? */
static bool is_closed_too(int fd, const struct closing *c)
{
    struct stat st;

    if (c->n == 0 || amph_do_fstat(fd, &st) != 0)
        return false;

    for (size_t i = 0; i < c->n; i++)
        if (c->file[i].dev == st.st_dev && c->file[i].ino == st.st_ino)
            return true;

    return false;
}

static void note_kept(int fd, struct amph_fd_file *of, void *arg)
{
    struct closing *c = arg;
    int flags = libc_fcntl64(fd, F_GETFD, NULL);

    if (flags < 0 || (flags & FD_CLOEXEC) || !(of->closing || is_closed_too(fd, c)))
        return;

    int n = snprintf(c->text + c->len, c->cap - c->len, ":%d", fd);

    if (n > 0 && (size_t)n < c->cap - c->len)
        c->len += (size_t)n;

    of->closing = false; /* one descriptor is enough to identify the file */
}

static void note_closing(int fd, struct amph_fd_file *of, void *arg)
{
    struct closing *c = arg;
    struct stat st;
    int flags = libc_fcntl64(fd, F_GETFD, NULL);

    if (flags < 0 || !(flags & FD_CLOEXEC))
        return;

    of->closing = true;
    if (c->n < CLOSING_MAX && amph_do_fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        c->file[c->n].dev = st.st_dev;
        c->file[c->n++].ino = st.st_ino;
    }
}

static void note_open(int fd, struct amph_fd_file *of, void *arg)
{
    of->closing = false;
}

void amph_ip_locks_tell(char *text, size_t cap)
{
    int n = snprintf(text, cap, "%ld/%" PRIu32, (long)amph_ip_kernel_getpid(),
                     amph_fdtab_current()->number);
    struct closing c = { .text = text, .cap = cap, .len = (size_t)n };

    amph_fdtab_each(0, FDTAB_MAX - 1, note_open, NULL);
    amph_fdtab_each(0, FDTAB_MAX - 1, note_closing, &c);
    amph_fdtab_each(0, FDTAB_MAX - 1, note_kept, &c);
    text[c.len] = 0;
}

bool amph_ip_locks_came_along(const char *passed)
{
    long pid;
    uint32_t number;
    bool any = passed && sscanf(passed, "%ld/%" SCNu32, &pid, &number) == 2 &&
               pid == (long)amph_ip_kernel_getpid();

    if (any)
        amph_fdtab_first.number = number;

    amph_fdtab_first.has_locks = any;
    return any;
}

void amph_ip_locks_drop_closed(const char *passed)
{
    struct amph_fd_file *of;
    char *at;

    /* takes over the descriptors; the servers drop the locks on those that it does not find */
    if (amph_ip_client_enter() != 0)
        return;

    for (at = strchrnul(passed, ':'); *at == ':';) {
        int fd = (int)strtol(at + 1, &at, 10);

        if (amph_ip_file_get(fd, &of) != 0)
            continue;

        drop_locks(of);
        amph_fdtab_put(of);
    }
}

void amph_ip_file_left(struct amph_fd_file *of)
{
    if (!of)
        return;

    amph_ip_maps_flush(of);
    if (AMPH_UNLIKELY(amph_ip_has_locks()) && amph_ip_client_enter() == 0)
        drop_locks(of);
}

int amph_ip_record_lock(struct amph_fd_file *of, int command, struct flock *lock)
{
    struct amph_fwd_client *c = amph_ip_client.client;
    struct flock got;
    struct flock wanted = *lock;
    int err;

    /* the owner of the lock is a descriptor table */
    wanted.l_pid = (pid_t)amph_fdtab_current()->number;

    if (command == F_GETLK) {
        err = lock->l_type == F_UNLCK ? EINVAL
                                      : amph_ip_client.fwd.pgetlock(c, &of->file, &wanted, &got);
        if (!err && got.l_type == F_UNLCK)
            lock->l_type = F_UNLCK;
        else if (!err)
            *lock = got;

        return amph_ip_result(err);
    }

    if (command == F_SETLKW)
        amph_ip_cancel_point();

    err = command == F_SETLK ? amph_ip_client.fwd.psetlock(c, &of->file, &wanted)
                             : amph_ip_client.fwd.pwaitlock(c, &of->file, &wanted);
    if (!err && lock->l_type != F_UNLCK) {
        __atomic_store_n(&amph_fdtab_current()->has_locks, true, __ATOMIC_RELAXED);
        of->locked = true;
    }

    return amph_ip_result(err);
}

int amph_do_flock(int fd, int op)
{
    struct amph_fd_file *of;
    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(of,
                                  amph_ip_client.fwd.flock(amph_ip_client.client, &of->file, op));
}

int amph_do_lockf(int fd, int command, off_t length)
{
    static const struct {
        int lockf, fcntl;
        short type;
    } ways[] = {
        { F_LOCK, F_SETLKW, F_WRLCK },
        { F_TLOCK, F_SETLK, F_WRLCK },
        { F_ULOCK, F_SETLK, F_UNLCK },
        { F_TEST, F_GETLK, F_WRLCK },
    };
    for (size_t i = 0; i < AMPH_COUNTOF(ways); i++) {
        if (ways[i].lockf != command)
            continue;

        struct flock lock = { .l_type = ways[i].type, .l_whence = SEEK_CUR, .l_len = length };
        int result = amph_do_fcntl(fd, ways[i].fcntl, &lock);

        return result == 0 && command == F_TEST && lock.l_type != F_UNLCK ? amph_ip_fail(EACCES)
                                                                          : result;
    }

    return amph_ip_fail(EINVAL);
}

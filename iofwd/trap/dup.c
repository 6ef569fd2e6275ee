/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: copies of descriptors, and their end.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)

#define LOW_SHELL 9 /* the highest number that every shell has in its redirections */

/* ---- closing ---- */

/* Descriptor fd of the caller is about to be closed by the kernel. */
static int before_close(struct amph_trap_call *c, int fd)
{
    struct amph_trap_file *file;
    int err = amph_trap_file_of(c, fd, &file, NULL);

    if (!err && c->process) {
        amph_trap_number_freed(c->process, fd);
        amph_trap_map_closed(c->process, fd);
    }

    if (!err && file) {
        amph_trap_lock_drop(file, amph_trap_process_pid(c->process));
        atomic_store_explicit(&file->closer, (uint64_t)c->n.pid << 32 | (uint32_t)fd,
                              memory_order_relaxed);
        amph_trap_file_put(file);
    }

    return err == EBADF ? 0 : err;
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
    int err = A(2) & CLOSE_RANGE_UNSHARE ? amph_trap_own_table(c) : 0;

    if (err || (A(2) & CLOSE_RANGE_CLOEXEC))
        return err ? err : AMPH_TRAP_CONTINUE;

    for (unsigned fd = first; fd < (unsigned)amph_trap.low_fds && fd <= last && !err; fd++)
        err = before_close(c, (int)fd);

    if (first < begin)
        first = begin;

    for (unsigned fd = first; fd <= end && fd <= last && !err; fd++)
        err = before_close(c, (int)fd);

    return err ? err : AMPH_TRAP_CONTINUE;
}

/* ---- copying descriptors ---- */

int amph_trap_copy_above(struct amph_trap_call *c, int min, bool cloexec)
{
    struct amph_trap_file *file;
    int own_fd;
    int err = amph_trap_file_of(c, I(0), &file, &own_fd);

    if (err || !file)
        return err ? err : AMPH_TRAP_CONTINUE;

    if (min >= 0)
        return amph_trap_number_reply(c, file, own_fd, min, cloexec);

    close(own_fd);
    amph_trap_file_put(file);
    return EINVAL;
}

int amph_trap_do_dup(struct amph_trap_call *c)
{
    return amph_trap_copy_above(c, 0, false);
}

static int refuse_number(int fd)
{
    if (fd >= amph_trap.last_fd) { /* the last one of the range is not for files */
        amph_trap_say(
            "a forwarded file cannot become descriptor %d under -trap: IOFWD_TRAP_FDS=0-%d,%d-%d "
            "makes that possible",
            fd, amph_trap.low_fds - 1, amph_trap.first_fd, fd + 1);
        return EBADF;
    }

    amph_trap_say(
        "a forwarded file cannot become descriptor %d under -trap: IOFWD_TRAP_FDS=0-%d,%d-%d "
        "makes that possible, and all calls on the first %d descriptors slower",
        fd, fd < LOW_SHELL ? LOW_SHELL : fd, amph_trap.first_fd, amph_trap.last_fd,
        (fd < LOW_SHELL ? LOW_SHELL : fd) + 1);
    return EBADF;
}

/* A copy of an invalid descriptor closes nothing. */
static bool is_open(struct amph_trap_call *c, int fd)
{
    int own_fd;
    int err = amph_trap_fd_of_call(c, fd, &own_fd);

    if (!err)
        close(own_fd);

    return !err;
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

    bool low = to >= 0 && to < amph_trap.low_fds;
    bool in_range = to >= amph_trap.first_fd && to < amph_trap.last_fd;

    if (file && to >= 0 && !low && !in_range)
        err = refuse_number(to);

    if (file && to < 0)
        err = EBADF;

    if (!err && (file || ((low || in_range) && is_open(c, from))))
        err = before_close(c, to);

    if (!err && !file)
        return AMPH_TRAP_CONTINUE;

    if (!err && low)
        atomic_store(&amph_trap.low_used, true);

    if (!err)
        return amph_trap_number_give(c, file, own_fd, to, flags & O_CLOEXEC);

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

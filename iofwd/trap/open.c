/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: open and its relatives.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

struct opening {
    const struct amph_trap_path *path;
    int flags;
    mode_t mode;
    struct amph_fwd_file file;
};

/* It waits if the file is a FIFO. */
static int open_there(void *arg)
{
    struct opening *o = arg;

    return amph_fwd_open(CL, AMPH_TRAP_AT(o->path), o->flags, o->mode, &o->file);
}

static int open_forwarded(struct amph_trap_call *c, const struct amph_trap_path *p, int dir,
                          int flags, mode_t mode)
{
    struct opening o = { .path = p, .flags = flags & ~(O_CLOEXEC | O_NOCTTY | O_DIRECT) };
    struct amph_trap_file *made;
    char name[PATH_MAX];
    mode_t mask = 0;
    int own_fd;
    int err = 0;

    if (flags & (O_CREAT | __O_TMPFILE))
        err = amph_trap_umask(c, &mask);

    o.mode = amph_fwd_new_mode(mode, mask);
    amph_trap_file_reap(); /* a FIFO's other end may just have been closed */
    if (!err)
        err = amph_trap_wait(c, AMPH_TRAP_WAIT_OPEN, open_there, &o);

    if (err)
        return err;

    if (amph_trap_absolute(c, p, dir, name) != 0)
        name[0] = 0;

    err = amph_trap_file_make(&o.file, name, flags, &made, &own_fd);
    if (err)
        return err;

    made->direct = flags & O_DIRECT;
    return amph_trap_number_reply(c, made, own_fd, 0, flags & O_CLOEXEC);
}

static int open_at(struct amph_trap_call *c, int dir, int at, int flags, mode_t mode)
{
    struct amph_trap_path p;
    bool no_follow = (flags & O_NOFOLLOW) || ((flags & O_CREAT) && (flags & O_EXCL));
    int err = amph_trap_look(c, dir, A(at), no_follow ? AT_SYMLINK_NOFOLLOW : 0, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err && p.where == AMPH_TRAP_RENAMED)
        err = amph_trap_local_open(c, p.path, flags, mode);
    else if (!err)
        err = open_forwarded(c, &p, dir, flags, mode);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_open(struct amph_trap_call *c)
{
    return open_at(c, AT_FDCWD, 0, I(1), (mode_t)A(2) & 07777);
}

int amph_trap_do_creat(struct amph_trap_call *c)
{
    return open_at(c, AT_FDCWD, 0, O_CREAT | O_WRONLY | O_TRUNC, (mode_t)A(1) & 07777);
}

int amph_trap_do_openat(struct amph_trap_call *c)
{
    return open_at(c, I(0), 1, I(2), (mode_t)A(3) & 07777);
}

#define HOW_MAX 4096 /* the kernel's E2BIG */

/* Does the kernel accept what openat2 is given, but for the path?  It looks at that last, and finds no file by an
 * empty one. */
static bool is_accepted(const void *how, size_t size)
{
    int own_fd = (int)syscall(SYS_openat2, AT_FDCWD, "", how, size);

    if (own_fd >= 0)
        close(own_fd);

    return own_fd >= 0 || errno == ENOENT;
}

int amph_trap_do_openat2(struct amph_trap_call *c)
{
    char whole[HOW_MAX];
    struct open_how how;
    struct amph_trap_path p;
    size_t size = A(3);
    bool fits = size >= sizeof how && size <= sizeof whole;
    int err = fits ? amph_trap_get(c, whole, A(2), size) : EINVAL;

    /* the kernel gives its errors then */
    if (err == EINVAL || err == EFAULT || (!err && !is_accepted(whole, size)))
        return AMPH_TRAP_CONTINUE;
    if (err)
        return err;

    memcpy(&how, whole, sizeof how);

    if (!how.resolve)
        return open_at(c, I(0), 1, (int)how.flags, (mode_t)how.mode);

    /* programs that ask for a special way of looking have another for older kernels */
    if (amph_trap_leads(c, I(0), 1, 0, false, &p, &err))
        err = ENOSYS;

    amph_trap_look_end(&p);
    return err;
}

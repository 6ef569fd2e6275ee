/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls that leave a working directory of ours for a local file ("../../etc/passwd").  The
 * kernel would look for it elsewhere, so that the supervisor carries the call out, by its absolute
 * path.  It has the same user as the program, or refuses.
 *
 * Layer: iofwd.  Thread rule: the thread that carries the call out, which has a umask of its own.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Takes the program's umask. */
static int prepare(struct amph_trap_call *c)
{
    static _Thread_local bool own;
    mode_t mask;
    int err = amph_trap_same_user(c);

    if (!err)
        err = amph_trap_umask(c, &mask);

    if (!err && !own && unshare(CLONE_FS) != 0)
        err = errno;

    if (!err) {
        own = true;
        umask(mask);
    }

    return err;
}

int amph_trap_local_open(struct amph_trap_call *c, const char *path, int flags, mode_t mode)
{
    int err = prepare(c);

    if (err)
        return err;

    int own_fd = open(path, flags | O_CLOEXEC | O_NOCTTY, mode);

    if (own_fd < 0)
        return errno;

    err = amph_trap_reply_fd(c, own_fd, -1, flags & O_CLOEXEC);
    close(own_fd);
    return err;
}

int amph_trap_local_path(struct amph_trap_call *c, const char *path, int at, const char *path2,
                         int at2)
{
    const uint64_t *a = (const uint64_t *)c->n.data.args;
    long b[6];
    int err = prepare(c);

    if (err)
        return err;

    for (int i = 0; i < 6; i++)
        b[i] = (long)a[i];

    b[at] = (long)path;
    if (at2 >= 0)
        b[at2] = (long)path2;

    long n = syscall(c->n.data.nr, b[0], b[1], b[2], b[3], b[4], b[5]);

    c->value = n;
    return n < 0 ? errno : 0;
}

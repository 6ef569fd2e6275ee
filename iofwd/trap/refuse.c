/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls that are refused below a prefix: programs would have to be executed from there,
 * and some calls only the kernel of the file's host could carry out.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

/* ---- programs ---- */

static int execute_at(struct amph_trap_call *c, int dir, int at, int flags)
{
    struct amph_trap_path p;
    char name[PATH_MAX] = "";
    int err = amph_trap_look(c, dir, A(at), flags, &p);

    if (!err && p.where == AMPH_TRAP_LOCAL)
        err = AMPH_TRAP_CONTINUE;
    else if (!err && p.where == AMPH_TRAP_FORWARDED)
        err = amph_fwd_access(CL, AMPH_TRAP_AT(&p), X_OK, 0);
    else if (!err)
        err = access(p.path, X_OK) == 0 ? 0 : errno;

    if (!err) {
        c->refused = true;
        amph_trap_absolute(c, &p, dir, name);
        amph_trap_say("%s cannot be executed from there under -trap: copy it to this host, or use "
                      "iofwd-run -mount",
                      name[0] ? name : p.raw);
        err = EACCES;
    }

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_execve(struct amph_trap_call *c)
{
    return execute_at(c, AT_FDCWD, 0, 0);
}

int amph_trap_do_execveat(struct amph_trap_call *c)
{
    return execute_at(c, I(0), 1, I(4));
}

/* ---- what only the kernel of the file's host could do ---- */

static int refuse_at(struct amph_trap_call *c, int dir, int at, int err)
{
    struct amph_trap_path p;
    int ret;

    if (amph_trap_leads(c, dir, at, 0, false, &p, &ret)) {
        c->refused = true;
        ret = err;
    }

    amph_trap_look_end(&p);
    return ret;
}

int amph_trap_do_watch(struct amph_trap_call *c)
{
    return refuse_at(c, AT_FDCWD, 1, EOPNOTSUPP);
}

int amph_trap_do_fanotify_mark(struct amph_trap_call *c)
{
    return A(4) ? refuse_at(c, I(3), 4, EOPNOTSUPP) : AMPH_TRAP_CONTINUE;
}

int amph_trap_do_name_to_handle(struct amph_trap_call *c)
{
    return refuse_at(c, I(0), 1, EOPNOTSUPP);
}

int amph_trap_do_refused_path(struct amph_trap_call *c)
{
    return refuse_at(c, AT_FDCWD, 0, EPERM);
}

int amph_trap_do_refused_at(struct amph_trap_call *c)
{
    return refuse_at(c, I(0), 1, EPERM);
}

int amph_trap_do_mount(struct amph_trap_call *c)
{
    return refuse_at(c, AT_FDCWD, 1, EPERM);
}

/* io_uring_setup and io_setup fail, so that programs use other calls.  No filter sees the calls on files that are
 * requested by an io_uring.  io_submit names its descriptors in memory, and only the kernel can fill the ring from
 * which a program reads that its requests have ended. */
int amph_trap_do_asynchronous(struct amph_trap_call *c)
{
    return ENOSYS;
}

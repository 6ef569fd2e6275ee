/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: addresses of UNIX-domain sockets.  A socket below a prefix would need a name on a server and
 * an address on this host, and is refused with a sentence.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

/* Looks where the socket's address in argument 1 leads.  True: below a prefix; else *ret_p is the
 * result. */
static bool leads_in(struct amph_trap_call *c, int flags, struct amph_trap_path *p, int *ret_p)
{
    struct sockaddr_un at;
    char path[sizeof at.sun_path + 1] = "";
    size_t len = (unsigned)A(2);
    const size_t before = offsetof(struct sockaddr_un, sun_path);

    p->dir = NULL;
    *ret_p = AMPH_TRAP_CONTINUE;
    if (len <= before || len > sizeof at)
        return false;

    int err = amph_trap_get(c, &at, A(1), len);

    if (err == EFAULT || (!err && at.sun_family != AF_UNIX))
        return false;

    if (!err) {
        memcpy(path, at.sun_path, len - before);
        if (!path[0]) /* an abstract address */
            return false;

        c->looked[0].dir = AT_FDCWD;
        c->looked[0].path = A(1) + before;
        c->nlooked = 1;
        err = amph_trap_look_text(c, AT_FDCWD, path, flags, p);
    }

    if (!err && p->where == AMPH_TRAP_RENAMED) {
        amph_trap_say_local(c, p);
        err = EOPNOTSUPP;
    }

    if (err)
        *ret_p = err;

    return !err && p->where == AMPH_TRAP_FORWARDED;
}

static void say_socket(struct amph_trap_call *c, const struct amph_trap_path *p, const char *what)
{
    char name[PATH_MAX];

    if (amph_trap_absolute(c, p, AT_FDCWD, name) != 0)
        snprintf(name, sizeof name, "%s", p->raw);

    amph_trap_say("the socket %s cannot be %s under -trap: use a path of this host, or iofwd-run "
                  "-mount PROGRAM",
                  name, what);
}

int amph_trap_do_bind(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    int err;

    if (leads_in(c, AT_SYMLINK_NOFOLLOW, &p, &err)) {
        c->refused = true;
        say_socket(c, &p, "made");
        err = EOPNOTSUPP;
    }

    amph_trap_look_end(&p);
    return err;
}

/* The name may be a socket of another client. */
int amph_trap_do_connect(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    struct stat st;
    int err;

    if (leads_in(c, 0, &p, &err)) {
        err = amph_fwd_stat(CL, AMPH_TRAP_AT(&p), 0, &st);
        if (!err && S_ISSOCK(st.st_mode) && amph_trap_first_time(c, AMPH_TRAP_SAID_SOCKET))
            say_socket(c, &p, "reached");

        if (!err) {
            c->refused = true;
            err = ECONNREFUSED;
        }
    }

    amph_trap_look_end(&p);
    return err;
}

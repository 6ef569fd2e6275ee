/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: extended attributes, by path and by descriptor.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "iofwd/wire/marshal.h"

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define NAME_BYTES 256

/* The file that argument 0 names, by descriptor or by path.  False: *ret_p is the result. */
static bool target(struct amph_trap_call *c, bool by_fd, struct amph_trap_path *p, int *flags_p,
                   int *ret_p)
{
    int nr = c->n.data.nr;

    p->where = AMPH_TRAP_LOCAL;
    p->dir = NULL;
    p->path = "";
    *flags_p = 0;
    if (by_fd) {
        *ret_p = amph_trap_file_of(c, I(0), &p->dir, NULL);
        if (!*ret_p && !p->dir)
            *ret_p = AMPH_TRAP_CONTINUE;

        return !*ret_p;
    }

    if (nr == SYS_lsetxattr || nr == SYS_lgetxattr || nr == SYS_llistxattr ||
        nr == SYS_lremovexattr)
        *flags_p = AT_SYMLINK_NOFOLLOW;

    *ret_p = amph_trap_look(c, AT_FDCWD, A(0), *flags_p, p);
    if (!*ret_p && p->where == AMPH_TRAP_LOCAL)
        *ret_p = AMPH_TRAP_CONTINUE;

    if (!*ret_p && p->where == AMPH_TRAP_RENAMED) {
        amph_trap_say_local(c, p);
        *ret_p = EOPNOTSUPP;
    }

    return !*ret_p;
}

/* The attribute's name, which is argument 1. */
static int get_name(struct amph_trap_call *c, char name[NAME_BYTES])
{
    int err = amph_trap_get_text(c, name, NAME_BYTES, A(1));

    return err == ENAMETOOLONG ? ERANGE : err;
}

/* Gives the program a value, or its length where it has no room. */
static int give(struct amph_trap_call *c, int at, const char *value, size_t len)
{
    size_t room = A(at + 1);

    c->value = (int64_t)len;
    if (!room)
        return 0;

    return len > room ? ERANGE : amph_trap_put(c, A(at), value, len);
}

static int get(struct amph_trap_call *c, bool by_fd)
{
    struct amph_trap_path p;
    char name[NAME_BYTES], value[FWD_BLOB_MAX];
    size_t len = 0;
    int flags, err;

    if (target(c, by_fd, &p, &flags, &err)) {
        err = get_name(c, name);
        if (!err)
            err = amph_fwd_getxattr(amph_trap.cl, AMPH_TRAP_AT(&p), name, flags, value,
                                    sizeof value, &len);
    }

    amph_trap_look_end(&p);
    return err ? err : give(c, 2, value, len);
}

static int list(struct amph_trap_call *c, bool by_fd)
{
    struct amph_trap_path p;
    char names[FWD_BLOB_MAX];
    size_t len = 0;
    int flags, err;

    if (target(c, by_fd, &p, &flags, &err))
        err = amph_fwd_listxattr(amph_trap.cl, AMPH_TRAP_AT(&p), flags, names, sizeof names, &len);

    amph_trap_look_end(&p);
    return err ? err : give(c, 1, names, len);
}

static int set(struct amph_trap_call *c, bool by_fd)
{
    struct amph_trap_path p;
    char name[NAME_BYTES], value[FWD_BLOB_MAX];
    int flags, err;

    if (target(c, by_fd, &p, &flags, &err)) {
        err = get_name(c, name);
        if (!err && A(3) > sizeof value)
            err = E2BIG;

        if (!err)
            err = amph_trap_get(c, value, A(2), A(3));

        if (!err)
            err = amph_fwd_setxattr(amph_trap.cl, AMPH_TRAP_AT(&p), name, value, A(3), I(4), flags);
    }

    amph_trap_look_end(&p);
    return err;
}

static int remove_name(struct amph_trap_call *c, bool by_fd)
{
    struct amph_trap_path p;
    char name[NAME_BYTES];
    int flags, err;

    if (target(c, by_fd, &p, &flags, &err)) {
        err = get_name(c, name);
        if (!err)
            err = amph_fwd_removexattr(amph_trap.cl, AMPH_TRAP_AT(&p), name, flags);
    }

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_getxattr(struct amph_trap_call *c)
{
    return get(c, false);
}

int amph_trap_do_fgetxattr(struct amph_trap_call *c)
{
    return get(c, true);
}

int amph_trap_do_listxattr(struct amph_trap_call *c)
{
    return list(c, false);
}

int amph_trap_do_flistxattr(struct amph_trap_call *c)
{
    return list(c, true);
}

int amph_trap_do_setxattr(struct amph_trap_call *c)
{
    return set(c, false);
}

int amph_trap_do_fsetxattr(struct amph_trap_call *c)
{
    return set(c, true);
}

int amph_trap_do_removexattr(struct amph_trap_call *c)
{
    return remove_name(c, false);
}

int amph_trap_do_fremovexattr(struct amph_trap_call *c)
{
    return remove_name(c, true);
}

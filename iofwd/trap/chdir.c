/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls on the working directory.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

/* The directory of an open file becomes the caller's. */
static int enter(struct amph_trap_call *c, const struct amph_fwd_file *file, const char *name)
{
    char real[PATH_MAX];
    size_t len = 0;
    struct stat st;
    int err = amph_fwd_fstat(CL, file, &st);

    if (!err && !S_ISDIR(st.st_mode))
        err = ENOTDIR;

    if (!err)
        err = amph_fwd_access(CL, file, "", X_OK, 0);

    if (err)
        return err;

    if (amph_fwd_nameof(CL, file, real, sizeof real - 1, &len) == 0 && len) {
        real[len] = 0;
        name = real;
    }

    return amph_trap_cwd_set(c, name);
}

static int enter_forwarded(struct amph_trap_call *c, const struct amph_trap_path *p)
{
    struct amph_fwd_file file;
    char name[PATH_MAX];
    int err = amph_fwd_open(CL, AMPH_TRAP_AT(p), O_PATH | O_DIRECTORY, 0, &file);

    if (err)
        return err;

    err = amph_trap_absolute(c, p, AT_FDCWD, name);
    if (!err)
        err = enter(c, &file, name);

    amph_fwd_close(CL, &file);
    return err;
}

/* A local directory, which the kernel may have to enter. */
static int enter_local(struct amph_trap_call *c, const struct amph_trap_path *p)
{
    char now[PATH_MAX], real[PATH_MAX];
    struct stat st;
    int err = amph_trap_cwd(c, now);

    if (err || (!now[0] && p->where == AMPH_TRAP_LOCAL))
        return err ? err : AMPH_TRAP_CONTINUE;

    if (!realpath(p->path, real) || stat(real, &st) != 0)
        return errno;

    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;

    if (faccessat(AT_FDCWD, real, X_OK, AT_EACCESS) != 0)
        return errno;

    /* the kernel goes to an absolute path; else it would start from elsewhere */
    err = amph_trap_cwd_set(c, p->where == AMPH_TRAP_LOCAL ? NULL : real);
    if (err)
        return err;

    return p->where == AMPH_TRAP_LOCAL ? AMPH_TRAP_CONTINUE : 0;
}

int amph_trap_do_chdir(struct amph_trap_call *c)
{
    struct amph_trap_path p;
    int err = amph_trap_look(c, AT_FDCWD, A(0), 0, &p);

    if (!err)
        err = p.where == AMPH_TRAP_FORWARDED ? enter_forwarded(c, &p) : enter_local(c, &p);

    amph_trap_look_end(&p);
    return err;
}

int amph_trap_do_fchdir(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    char name[PATH_MAX];
    int err = amph_trap_file_of(c, I(0), &file, NULL);

    if (err)
        return err;

    if (file) {
        err = enter(c, &file->file, file->name);
        amph_trap_file_put(file);
        return err;
    }

    /* the kernel refuses what is no directory; then nothing has changed */
    err = amph_trap_cwd(c, name);
    if (err || !name[0])
        return err ? err : AMPH_TRAP_CONTINUE;

    struct stat st;
    int own_fd;
    bool is_dir = false;

    if (amph_trap_fd_of_call(c, I(0), &own_fd) == 0) {
        is_dir = fstat(own_fd, &st) == 0 && S_ISDIR(st.st_mode);
        close(own_fd);
    }

    err = is_dir ? amph_trap_cwd_set(c, NULL) : 0;
    return err ? err : AMPH_TRAP_CONTINUE;
}

/* Has the working directory been removed?  The caller's calls below it fail then, and so does
 * getcwd. */
static bool is_removed(const char *cwd)
{
    struct amph_fwd_clean clean;
    char path[PATH_MAX];
    struct stat st;
    int err = amph_fwd_path_clean(&amph_trap.prefixes, NULL, cwd, path, sizeof path, &clean);

    if (!err && clean.prefix)
        err = amph_fwd_stat(CL, NULL, path, 0, &st);
    else if (!err)
        err = stat(path, &st) == 0 ? 0 : errno;

    return err == ENOENT;
}

int amph_trap_on_getcwd(struct amph_trap_call *c)
{
    char cwd[PATH_MAX];
    int err = amph_trap_cwd(c, cwd);
    size_t len = strlen(cwd) + 1;

    if (err || !cwd[0])
        return err ? err : AMPH_TRAP_CONTINUE;

    if (is_removed(cwd))
        return ENOENT;

    if (AMPH_TRAP_ARG(c, 1) < len)
        return ERANGE;

    c->value = (int64_t)len;
    return amph_trap_put(c, AMPH_TRAP_ARG(c, 0), cwd, len);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: where a path leads: to the kernel, to a server, or to a local file by another name than
 * the kernel would need.
 *
 * Layer: iofwd.  Thread rule: any thread; an amph_trap_path belongs to its call.
 */
#include "iofwd/trap/trap.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINKS_MAX 40

void amph_trap_look_end(struct amph_trap_path *p)
{
    amph_trap_file_put(p->dir);
    p->dir = NULL;
}

static int ahead(struct amph_trap_path *p, struct amph_trap_file *dir, const char *path)
{
    p->where = AMPH_TRAP_AHEAD;
    p->dir = dir;
    p->path = path;
    return 0;
}

/* ---- names of descriptors ---- */

/* The descriptor that a path of /proc or /dev names, -1 if it names none. */
static int named_fd(const struct amph_trap_call *c, const char *path)
{
    static const char *const std[] = { "/dev/stdin", "/dev/stdout", "/dev/stderr" };
    char own[48], task[64];
    const char *start = NULL;

    if (strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0)
        return -1;

    for (int i = 0; i < 3; i++)
        if (strcmp(path, std[i]) == 0)
            return i;

    snprintf(own, sizeof own, "/proc/%d/fd/", (int)c->n.pid);
    snprintf(task, sizeof task, "/proc/%d/fd/",
             c->process ? (int)amph_trap_process_pid(c->process) : (int)c->n.pid);

    const char *const dirs[] = { "/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/", own, task };

    for (unsigned i = 0; i < sizeof dirs / sizeof *dirs && !start; i++)
        if (strncmp(path, dirs[i], strlen(dirs[i])) == 0)
            start = path + strlen(dirs[i]);

    if (!start || !isdigit((unsigned char)start[0]))
        return -1;

    char *end;
    long fd = strtol(start, &end, 10);

    return *end == 0 && fd <= INT_MAX ? (int)fd : -1;
}

/* ---- local links that lead to a prefix ---- */

/* The last part of path that is a link: its target, and where the part ends. */
static ssize_t last_link(char *path, char *target, size_t *end_p)
{
    size_t len = strlen(path);

    for (;;) {
        while (len && path[len - 1] == '/')
            len--;

        if (!len)
            return -1;

        char cut = path[len];

        path[len] = 0;

        ssize_t n = readlink(path, target, PATH_MAX - 1);

        path[len] = cut;
        *end_p = len;
        if (n >= 0 || errno != ENOENT)
            return n;

        while (len && path[len - 1] != '/')
            len--;
    }
}

/* The kernel does not find path, which is absolute.  Does a link on it lead below a prefix? */
static bool link_leads_in(const char *path, char out[PATH_MAX])
{
    char now[PATH_MAX], target[PATH_MAX], next[2 * PATH_MAX];
    struct amph_fwd_clean clean;

    snprintf(now, sizeof now, "%s", path);
    for (int links = 0; links < LINKS_MAX; links++) {
        size_t end;
        ssize_t n = last_link(now, target, &end);

        if (n <= 0)
            return false;

        target[n] = 0;

        size_t up = end;

        while (up && now[up - 1] != '/')
            up--;

        int len = snprintf(next, sizeof next, "%.*s%s%s", target[0] == '/' ? 0 : (int)up, now,
                           target, now + end);

        if (len < 0 || (size_t)len >= sizeof now)
            return false;

        if (amph_fwd_path_clean(&amph_trap.prefixes, NULL, next, out, PATH_MAX, &clean) == 0 &&
            clean.prefix)
            return true;

        strcpy(now, next);
    }

    return false;
}

/* A local path, absolute: the kernel's, unless a link on it leads to a prefix. */
static int local_absolute(struct amph_trap_path *p, const char *path)
{
    struct amph_fwd_clean clean;
    char out[PATH_MAX];

    if (access(path, F_OK) == 0 || errno != ENOENT || !link_leads_in(path, out))
        return 0;

    int err = amph_fwd_path_clean(&amph_trap.prefixes, NULL, out, p->buf, sizeof p->buf, &clean);

    return err ? err : ahead(p, NULL, p->buf);
}

/* ---- directories ---- */

/* The path relative to base, absolute. */
static int join(struct amph_trap_path *p, const char *base, bool kernels)
{
    struct amph_fwd_clean clean;
    int err = amph_fwd_path_clean(&amph_trap.prefixes, base, p->raw, p->buf, sizeof p->buf, &clean);

    if (err == ENAMETOOLONG && kernels)
        return 0; /* the kernel says so, or has a shorter way */

    if (err)
        return err;

    if (clean.prefix)
        return ahead(p, NULL, p->buf);

    if (!kernels || clean.left) {
        p->where = AMPH_TRAP_RENAMED;
        p->path = p->buf;
    }

    return 0;
}

static bool goes_up(const char *path)
{
    for (const char *at = strstr(path, ".."); at; at = strstr(at + 2, ".."))
        if ((at == path || at[-1] == '/') && (!at[2] || at[2] == '/'))
            return true;

    return false;
}

/* Relative to a directory that is open at a server; takes over dir. */
static int below_file(struct amph_trap_path *p, struct amph_trap_file *dir)
{
    /* ".." may lead out of the prefix */
    if (goes_up(p->raw) && dir->name && dir->name[0]) {
        int err = join(p, dir->name, false);

        if (err || p->where == AMPH_TRAP_RENAMED) {
            amph_trap_file_put(dir);
            return err;
        }
    }

    return ahead(p, dir, p->raw);
}

static int below_cwd(struct amph_trap_call *c, struct amph_trap_path *p)
{
    char base[PATH_MAX];
    int err = amph_trap_cwd(c, base);

    if (err)
        return err;

    if (base[0])
        return join(p, base, false);

    if (!amph_fwd_prefix_may_enter(&amph_trap.prefixes, p->raw))
        return 0;

    err = amph_trap_kernel_dir(c, AT_FDCWD, base);
    if (err == ENOENT) /* a directory that has been removed */
        return 0;

    return err ? err : join(p, base, true);
}

static int below_local(struct amph_trap_call *c, struct amph_trap_path *p, int dir)
{
    char base[PATH_MAX];

    if (!amph_fwd_prefix_may_enter(&amph_trap.prefixes, p->raw))
        return 0;

    int err = amph_trap_kernel_dir(c, dir, base);

    if (err == ENOENT)
        return 0;

    return err ? err : join(p, base, true);
}

static int look_absolute(struct amph_trap_call *c, struct amph_trap_path *p)
{
    int err = join(p, NULL, true);

    if (err || p->where != AMPH_TRAP_LOCAL)
        return err;

    int fd = named_fd(c, p->raw);

    if (fd >= 0) {
        struct amph_trap_file *file;

        err = amph_trap_file_of(c, fd, &file, NULL);
        return err || !file ? err : ahead(p, file, "");
    }

    return local_absolute(p, p->raw);
}

static int look_empty(struct amph_trap_call *c, int dir, struct amph_trap_path *p)
{
    struct amph_trap_file *file;

    if (dir == AT_FDCWD) {
        int err = amph_trap_cwd(c, p->buf);

        if (!err && p->buf[0]) {
            struct amph_fwd_clean clean;

            memcpy(p->raw, p->buf, sizeof p->raw);
            err = amph_fwd_path_clean(&amph_trap.prefixes, NULL, p->raw, p->buf, sizeof p->buf,
                                      &clean);
            p->where = clean.prefix ? AMPH_TRAP_AHEAD : AMPH_TRAP_RENAMED;
            p->path = p->buf;
        }

        return err;
    }

    int err = amph_trap_file_of(c, dir, &file, NULL);

    return err || !file ? err : ahead(p, file, "");
}

int amph_trap_look(struct amph_trap_call *c, int dir, uint64_t path, bool empty_ok,
                   struct amph_trap_path *p)
{
    struct amph_trap_file *file;

    p->where = AMPH_TRAP_LOCAL;
    p->dir = NULL;
    p->path = p->raw;
    p->raw[0] = 0;
    p->buf[0] = 0;

    if (!path && empty_ok)
        return look_empty(c, dir, p);

    int err = amph_trap_get_text(c, p->raw, sizeof p->raw, path);

    if (err == EFAULT || err == ENAMETOOLONG)
        return 0; /* the kernel says so */

    if (err)
        return err;

    if (!p->raw[0])
        return empty_ok ? look_empty(c, dir, p) : 0;

    if (p->raw[0] == '/')
        return look_absolute(c, p);

    if (dir == AT_FDCWD)
        return below_cwd(c, p);

    err = amph_trap_file_of(c, dir, &file, NULL);
    if (err)
        return err;

    return file ? below_file(p, file) : below_local(c, p, dir);
}

int amph_trap_absolute(struct amph_trap_call *c, const struct amph_trap_path *p, int dir,
                       char out[PATH_MAX])
{
    char base[PATH_MAX];
    struct amph_fwd_clean clean;

    if (p->where == AMPH_TRAP_LOCAL) {
        if (p->raw[0] == '/') {
            snprintf(out, PATH_MAX, "%s", p->raw);
            return 0;
        }

        int err = amph_trap_kernel_dir(c, dir, base);

        return err ? err
                   : amph_fwd_path_clean(&amph_trap.prefixes, base, p->raw, out, PATH_MAX, &clean);
    }

    if (!p->dir) {
        snprintf(out, PATH_MAX, "%s", p->path);
        return 0;
    }

    if (!p->dir->name || !p->dir->name[0])
        return ENOENT;

    if (!p->path[0]) {
        snprintf(out, PATH_MAX, "%s", p->dir->name);
        return 0;
    }

    return amph_fwd_path_clean(&amph_trap.prefixes, p->dir->name, p->path, out, PATH_MAX, &clean);
}

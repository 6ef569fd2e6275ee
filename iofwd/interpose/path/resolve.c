/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolves a path to a local or a forwarded one; see path/resolve.h.
 *
 * Layer: iofwd (interposer).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/interpose/path/resolve.h"

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/own_table.h"

static bool fail(int err)
{
    errno = err;
    return false;
}

static bool forwarded(struct amph_ip_resolved *w, struct amph_fd_file *dir, const char *path)
{
    if (AMPH_UNLIKELY(amph_ip_state.trace))
        amph_ip_trace_resolved(true);

    w->dir = dir;
    w->path = path;
    return true;
}

/* ---- local links that lead to a prefix ---- */

bool amph_ip_name_of_local(int dir, char name[PATH_MAX])
{
    char link[40];

    if (dir == AT_FDCWD)
        return amph_ip_kernel_getcwd(name, PATH_MAX) && name[0] == '/';

    snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), dir);

    ssize_t n = amph_ip_kernel_readlink(link, name, PATH_MAX - 1);

    name[n > 0 ? n : 0] = 0;
    return name[0] == '/';
}

#define LINKS_MAX 40

bool amph_ip_link_leads_in(int dir, const char *path, char out[PATH_MAX])
{
    char now[PATH_MAX], target[PATH_MAX], base[PATH_MAX], next[2 * PATH_MAX];
    struct amph_fwd_clean clean;

    if (strlen(path) >= sizeof now)
        return false;

    strcpy(now, path);
    for (int links = 0; links < LINKS_MAX; links++) {
        size_t end;
        ssize_t n = amph_fwd_path_last_link(amph_ip_kernel_readlinkat, dir, now, target, &end);

        if (n <= 0)
            return false;

        target[n] = 0;

        bool relative = now[0] != '/' && target[0] != '/';

        if (relative && !amph_ip_name_of_local(dir, base))
            return false;
        if (!amph_fwd_path_replace_link(relative ? base : NULL, now, end, target, next,
                                        sizeof next))
            return false;

        if (amph_fwd_path_clean(&amph_ip_state.prefixes, NULL, next, out, PATH_MAX, &clean) == 0 &&
            clean.prefix) {
            amph_ip_debug("%s: a symbolic link leads below a prefix, to %s", path, out);
            return true;
        }

        if (strlen(next) >= sizeof now)
            return false;

        strcpy(now, next);
    }

    return false;
}

bool amph_ip_led_in(int dir, const char *path)
{
    char out[PATH_MAX];
    int saved = errno;
    bool led = amph_ip_state.on && !amph_ip_inside && path && amph_ip_link_leads_in(dir, path, out);

    errno = saved;
    return led;
}

bool amph_ip_led(const char *path)
{
    if (amph_ip_path(path))
        return true;
    if (!path || !amph_ip_state.on || amph_ip_inside)
        return false;

    int saved = errno;
    bool missing = libc_syscall(SYS_faccessat, AT_FDCWD, (long)path, F_OK, 0, 0, 0) != 0 &&
                   errno == ENOENT;

    errno = saved;
    return missing && amph_ip_led_in(AT_FDCWD, path);
}

static bool local(struct amph_ip_resolved *w, int dir, const char *path)
{
    char out[PATH_MAX];

    if (AMPH_UNLIKELY(amph_ip_links) && path && amph_ip_link_leads_in(dir, path, out)) {
        strcpy(w->buf, out);
        return forwarded(w, NULL, w->buf);
    }

    if (AMPH_UNLIKELY(amph_ip_state.trace))
        amph_ip_trace_resolved(false);

    w->local = true;
    w->dirfd = dir;
    w->path = path;

    return true;
}

static bool has_dotdot(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")) != NULL; at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == 0 || at[2] == '/'))
            return true;

    return false;
}

/* Joins path to base.  keep: what the C library receives if the result is local (NULL: the result
 * itself). */
static bool joined(struct amph_ip_resolved *w, const char *base, const char *path, int keep_dir,
                   const char *keep)
{
    struct amph_fwd_clean clean;
    int err = amph_fwd_path_clean(&amph_ip_state.prefixes, base, path, w->buf, sizeof w->buf,
                                  &clean);

    if (err)
        return keep ? local(w, keep_dir, keep) : fail(err);

    if (clean.prefix)
        return strlen(w->buf) < PATH_MAX && strnlen(path, PATH_MAX) < PATH_MAX
                   ? forwarded(w, NULL, w->buf)
                   : fail(ENAMETOOLONG);

    return keep && !clean.left ? local(w, keep_dir, keep) : local(w, AT_FDCWD, w->buf);
}

/* Resolves path below dir, whose reference w takes over. */
static bool below_file(struct amph_ip_resolved *w, struct amph_fd_file *dir, const char *base,
                       const char *path, bool empty_ok)
{
    w->base = base;
    if (!path[0] && !empty_ok) {
        amph_fdtab_put(dir);
        return fail(ENOENT);
    }

    if (w->base[0] && has_dotdot(path)) {
        struct amph_fwd_clean clean;
        int err = amph_fwd_path_clean(&amph_ip_state.prefixes, w->base, path, w->buf, sizeof w->buf,
                                      &clean);

        if (!err && !clean.prefix) {
            amph_fdtab_put(dir);
            return local(w, AT_FDCWD, w->buf);
        }

        if (!err && clean.left) { /* the path leaves the prefix and enters it again */
            amph_fdtab_put(dir);
            return forwarded(w, NULL, w->buf);
        }
    }

    return forwarded(w, dir, path);
}

static bool below_forwarded(struct amph_ip_resolved *w, int dirfd, const char *path, bool empty_ok)
{
    struct amph_fd_file *dir;
    int err = amph_ip_file_get(dirfd, &dir);

    if (err)
        return fail(err);

    const char *name = dir->path;

    if (amph_ip_is_cwd(dirfd) && dirfd == amph_ip_cwd()->fd && amph_ip_cwd()->name)
        name = amph_ip_cwd_is_nameless(amph_ip_cwd()->name) ? "" : amph_ip_cwd()->name;

    w->dirfd = dirfd;
    return below_file(w, dir, name, path, empty_ok);
}

static bool below_cwd(struct amph_ip_resolved *w, const char *path, bool empty_ok)
{
    if (amph_ip_cwd()->fd && amph_ip_fd(amph_ip_cwd()->fd))
        return strlen(path) < PATH_MAX ? below_forwarded(w, amph_ip_cwd()->fd, path, empty_ok)
                                       : fail(ENAMETOOLONG);

    if (!path[0])
        return empty_ok ? joined(w, NULL, amph_ip_cwd()->name, 0, NULL) : fail(ENOENT);

    return joined(w, amph_ip_cwd()->name, path, 0, NULL);
}

/* Resolves a path like /proc/self/fd/N to the forwarded file of that descriptor; path as given,
 * relative to dirfd. */
static bool by_number(struct amph_ip_resolved *w, int dirfd, const char *path,
                      const struct amph_ip_numbered *n)
{
    struct amph_fd_file *of;

    if (n->rest[0])
        w->by = AMPH_IP_BY_NAME;
    else
        w->by = n->alias ? AMPH_IP_BY_ALIAS : AMPH_IP_BY_NUMBER;

    if (n->what == AMPH_IP_NUMBERED_CWD)
        return below_cwd(w, n->rest, true);
    if (n->what == AMPH_IP_NUMBERED_OWN)
        return below_forwarded(w, n->fd, n->rest, true);

    int err = n->what == AMPH_IP_NUMBERED_NEAR ? 0 : amph_ip_file_of_other(n, &of);
    if (err)
        return fail(err);
    if (n->what == AMPH_IP_NUMBERED_OTHER && of)
        return below_file(w, of, of->path, n->rest, true);

    w->numbered = !n->rest[0];
    w->alias = n->alias;
    w->by = AMPH_IP_BY_NAME;
    return local(w, dirfd, path);
}

/* "5" relative to a directory of descriptors, /proc/self/fd */
static bool in_proc(int dirfd, const char *path, char whole[PATH_MAX])
{
    static const char proc[] = "/proc/";

    if (!amph_ip_name_of_local(dirfd, whole) || strncmp(whole, proc, sizeof proc - 1) != 0)
        return false;

    size_t len = strlen(whole);

    return snprintf(whole + len, PATH_MAX - len, "/%s", path) < (int)(PATH_MAX - len);
}

/* A path relative to a local directory leads below a prefix only if that directory's own name
 * does. */
static bool below_local(struct amph_ip_resolved *w, int dirfd, const char *path)
{
    char base[PATH_MAX];
    struct amph_ip_numbered n;

    if (AMPH_UNLIKELY(amph_ip_is_number(path)) && in_proc(dirfd, path, base) &&
        amph_ip_numbered(base, &n)) {
        n.rest = "";
        return by_number(w, dirfd, path, &n);
    }

    if (!path[0] || !amph_fwd_prefix_may_enter(&amph_ip_state.prefixes, path) ||
        !amph_ip_name_of_local(dirfd, base))
        return local(w, dirfd, path);

    return joined(w, base, path, dirfd, path);
}

static bool resolve(struct amph_ip_resolved *w, int dir, const char *path, bool empty_ok)
{
    w->local = false;
    w->numbered = false;
    w->dir = NULL;
    w->by = AMPH_IP_BY_NAME;

    if (!path) {
        if (!empty_ok || dir == AT_FDCWD || !amph_ip_fd(dir))
            return local(w, dir, path);

        path = "";
    }

    int err = amph_ip_text_error(path);
    if (err)
        return fail(err);

    if (path[0] == '/') {
        struct amph_ip_numbered n;

        if (amph_ip_numbered(path, &n))
            return by_number(w, dir, path, &n);

        if (amph_ip_is_exe(path))
            path = amph_ip_state.exe;

        return joined(w, NULL, path, dir, path);
    }

    if (dir != AT_FDCWD)
        return amph_ip_fd(dir) ? below_forwarded(w, dir, path, empty_ok)
                               : below_local(w, dir, path);

    return amph_ip_cwd()->name ? below_cwd(w, path, empty_ok) : below_local(w, dir, path);
}

static void report(const struct amph_ip_resolved *w, int dir, const char *path, bool found)
{
    const char *prefix = dir == AT_FDCWD || (path && path[0] == '/') ? "" : "in a directory, ";

    if (!found)
        amph_ip_debug("%s%s: %s", prefix, path && errno != EFAULT ? path : "NULL",
                      strerrordesc_np(errno));
    else if (w->local)
        amph_ip_debug("%s%s is a file of this host", prefix, path ? path : "NULL");
    else
        amph_ip_debug("%s%s is forwarded, as %s%s%s", prefix, path ? path : "NULL",
                      w->dir ? w->base : "", w->dir && w->path[0] ? "/" : "", w->path);
}

bool amph_ip_resolve_near(struct amph_ip_resolved *w, int dir, const char *path, bool empty_ok)
{
    bool found = resolve(w, dir, path, empty_ok);

    if (AMPH_UNLIKELY(amph_ip_state.debug))
        report(w, dir, path, found);

    return found;
}

bool amph_ip_resolve_enter(struct amph_ip_resolved *w)
{
    int err = w->local ? 0 : amph_ip_client_enter();

    if (!err && !w->local && w->dir)
        err = amph_ip_file_reach(w->dir, w->dirfd);

    if (!err)
        return true;

    amph_ip_resolve_end(w, 0);
    return fail(err);
}

bool amph_ip_resolve(struct amph_ip_resolved *w, int dir, const char *path, bool empty_ok)
{
    return amph_ip_resolve_near(w, dir, path, empty_ok) && amph_ip_resolve_enter(w);
}

int amph_ip_resolve_end(struct amph_ip_resolved *w, int err)
{
    if (w->dir)
        amph_fdtab_put(w->dir);

    return amph_ip_result(err);
}

bool amph_ip_resolve_absolute(const struct amph_ip_resolved *w, char *buf, size_t cap_bytes)
{
    struct amph_fwd_clean clean;
    const char *base = w->dir ? w->base : NULL;

    if (w->dir && !base[0])
        return false;

    const char *path = w->path[0] ? w->path : base;

    if (!path ||
        amph_fwd_path_clean(&amph_ip_state.prefixes, base, path, buf, cap_bytes, &clean) != 0 ||
        !clean.prefix)
        return false;

    size_t n = strlen(buf);

    if (n > 2 && buf[n - 1] == '.' && buf[n - 2] == '/')
        buf[n - 2] = 0;

    return true;
}

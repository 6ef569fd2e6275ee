/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a path leads; see path/resolve.h.  Layer: iofwd (preload). */
#include "iofwd/interpose/path/resolve.h"

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/kernel.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/interpose/entry/fault_check.h"

static bool fail(int err)
{
    errno = err;
    return false;
}

static bool forwarded(struct fwd_where *w, struct fwd_ofile *dir, const char *path)
{
    int err = fwd_core_enter();
    w->dir = dir;
    w->path = path;
    if (!err)
        return true;
    if (dir)
        fdtab_put(dir);
    return fail(err);
}

/* ---- local links that lead in ---- */

/* The last part of path that is there as a link: its target, and where the part ends.  What is there and is none ends the search, since
 * the kernel has found its way up to it. */
static ssize_t last_link(int dir, char *path, char *target, size_t *end_p)
{
    size_t len = strlen(path);
    for (;;) {
        while (len && path[len - 1] == '/')
            len--;
        if (!len)
            return -1;
        char cut = path[len];
        path[len] = 0;
        ssize_t n = fwd_kernel_readlinkat(dir, path, target, PATH_MAX - 1);
        path[len] = cut;
        *end_p = len;
        if (n >= 0 || errno != ENOENT)
            return n;
        while (len && path[len - 1] != '/')
            len--;
    }
}

bool fwd_name_of_local(int dir, char name[PATH_MAX])
{
    char link[40];
    if (dir == AT_FDCWD)
        return fwd_kernel_getcwd(name, PATH_MAX) && name[0] == '/';
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t n = fwd_kernel_readlink(link, name, PATH_MAX - 1);
    name[n > 0 ? n : 0] = 0;
    return name[0] == '/';
}

#define LINKS_MAX 40

bool fwd_link_leads_in(int dir, const char *path, char out[PATH_MAX])
{
    char now[PATH_MAX], target[PATH_MAX], base[PATH_MAX], next[2 * PATH_MAX];
    struct fwd_clean clean;
    if (strlen(path) >= sizeof now)
        return false;
    strcpy(now, path);
    for (int links = 0; links < LINKS_MAX; links++) {
        size_t end, up;
        ssize_t n = last_link(dir, now, target, &end);
        if (n <= 0)
            return false;
        target[n] = 0;
        for (up = end; up && now[up - 1] != '/'; up--)
            ;
        bool relative = now[0] != '/' && target[0] != '/';
        if (relative && !fwd_name_of_local(dir, base))
            return false;
        /* the link's directory, its target, and what stood behind it */
        int len = snprintf(next, sizeof next, "%s%s%.*s%s%s", relative ? base : "", relative ? "/" : "",
                           target[0] == '/' ? 0 : (int)up, now, target, now + end);
        if (len < 0 || (size_t)len >= sizeof next)
            return false;
        if (fwd_path_clean(&fwd_state.prefixes, NULL, next, out, PATH_MAX, &clean) == 0 && clean.prefix)
            return true;
        if (strlen(next) >= sizeof now)
            return false;
        strcpy(now, next);
    }
    return false;
}

bool fwd_led_in(int dir, const char *path)
{
    char out[PATH_MAX];
    int saved = errno;
    bool led = fwd_state.on && !fwd_inside && path && fwd_link_leads_in(dir, path, out);
    errno = saved;
    return led;
}

bool fwd_led(const char *path)
{
    if (fwd_path(path))
        return true;
    if (!path || !fwd_state.on || fwd_inside)
        return false;
    int saved = errno;
    bool missing = real_syscall(SYS_faccessat, AT_FDCWD, (long)path, F_OK, 0, 0, 0) != 0 && errno == ENOENT;
    errno = saved;
    return missing && fwd_led_in(AT_FDCWD, path);
}

static bool local(struct fwd_where *w, int dir, const char *path)
{
    char out[PATH_MAX];
    if (AMPH_UNLIKELY(fwd_links) && path && fwd_link_leads_in(dir, path, out)) {
        strcpy(w->buf, out);
        return forwarded(w, NULL, w->buf);
    }
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

/* path joined to base; keep: what the C library gets if the result is local (NULL: the result itself). */
static bool joined(struct fwd_where *w, const char *base, const char *path, int keep_dir, const char *keep)
{
    struct fwd_clean clean;
    int err = fwd_path_clean(&fwd_state.prefixes, base, path, w->buf, sizeof w->buf, &clean);
    if (err)
        return keep ? local(w, keep_dir, keep) : fail(err);
    if (clean.prefix)
        return strlen(w->buf) < PATH_MAX && strnlen(path, PATH_MAX) < PATH_MAX ? forwarded(w, NULL, w->buf) : fail(ENAMETOOLONG);
    return keep && !clean.left ? local(w, keep_dir, keep) : local(w, AT_FDCWD, w->buf);
}

/* path below dir, whose reference goes over to w. */
static bool below_file(struct fwd_where *w, struct fwd_ofile *dir, const char *base, const char *path, bool empty_ok)
{
    w->base = base;
    if (!path[0] && !empty_ok) {
        fdtab_put(dir);
        return fail(ENOENT);
    }
    if (w->base[0] && has_dotdot(path)) {
        struct fwd_clean clean;
        int err = fwd_path_clean(&fwd_state.prefixes, w->base, path, w->buf, sizeof w->buf, &clean);
        if (!err && !clean.prefix) {
            fdtab_put(dir);
            return local(w, AT_FDCWD, w->buf);
        }
        if (!err && clean.left) { /* out of the prefix and in again */
            fdtab_put(dir);
            return forwarded(w, NULL, w->buf);
        }
    }
    return forwarded(w, dir, path);
}

static bool below_forwarded(struct fwd_where *w, int dirfd, const char *path, bool empty_ok)
{
    struct fwd_ofile *dir;
    int err = fwd_file_get(dirfd, &dir);
    if (err)
        return fail(err);
    const char *cwd = dirfd == fwd_cwd_fd ? fwd_state.cwd : NULL;
    return below_file(w, dir, !cwd ? dir->path : fwd_cwd_is_nameless(cwd) ? "" : cwd, path, empty_ok);
}

static bool below_cwd(struct fwd_where *w, const char *path, bool empty_ok)
{
    if (fwd_cwd_fd && fwd_fd(fwd_cwd_fd))
        return strlen(path) < PATH_MAX ? below_forwarded(w, fwd_cwd_fd, path, empty_ok) : fail(ENAMETOOLONG);
    if (!path[0])
        return empty_ok ? joined(w, NULL, fwd_state.cwd, 0, NULL) : fail(ENOENT);
    return joined(w, fwd_state.cwd, path, 0, NULL);
}

/* A file that /proc names by the number of a descriptor; path is the name as it was given, with dirfd. */
static bool by_number(struct fwd_where *w, int dirfd, const char *path, const struct fwd_numbered *n)
{
    struct fwd_ofile *of;
    w->by = n->rest[0] ? FWD_BY_NAME : n->alias ? FWD_BY_ALIAS : FWD_BY_NUMBER;
    if (n->what == FWD_NUMBERED_CWD)
        return below_cwd(w, n->rest, true);
    if (n->what == FWD_NUMBERED_OWN)
        return below_forwarded(w, n->fd, n->rest, true);
    int err = fwd_file_of_other(n, &of);
    if (err)
        return fail(err);
    if (of)
        return below_file(w, of, of->path, n->rest, true);
    w->by = FWD_BY_NAME;
    return local(w, dirfd, path);
}

/* "5" in a directory of descriptors. */
static bool in_proc(int dirfd, const char *path, char whole[PATH_MAX])
{
    static const char proc[] = "/proc/";
    if (!fwd_name_of_local(dirfd, whole) || strncmp(whole, proc, sizeof proc - 1) != 0)
        return false;
    size_t len = strlen(whole);
    return snprintf(whole + len, PATH_MAX - len, "/%s", path) < (int)(PATH_MAX - len);
}

/* A path relative to a local directory goes into a prefix only by way of that directory's own name. */
static bool below_local(struct fwd_where *w, int dirfd, const char *path)
{
    char base[PATH_MAX];
    struct fwd_numbered n;
    if (AMPH_UNLIKELY(fwd_is_number(path)) && in_proc(dirfd, path, base) && fwd_numbered(base, &n)) {
        n.rest = "";
        return by_number(w, dirfd, path, &n);
    }
    if (!path[0] || !fwd_prefix_may_enter(&fwd_state.prefixes, path) || !fwd_name_of_local(dirfd, base))
        return local(w, dirfd, path);
    return joined(w, base, path, dirfd, path);
}

bool fwd_where_find(struct fwd_where *w, int dir, const char *path, bool empty_ok)
{
    w->local = false;
    w->dir = NULL;
    w->by = FWD_BY_NAME;
    if (!path) {
        if (!empty_ok || dir == AT_FDCWD || !fwd_fd(dir))
            return local(w, dir, path);
        path = "";
    } else if (!fwd_can_read_text(path))
        return fail(EFAULT);
    if (path[0] == '/') {
        struct fwd_numbered n;
        if (fwd_numbered(path, &n))
            return by_number(w, dir, path, &n);
        if (fwd_is_exe(path))
            path = fwd_state.exe;
        return joined(w, NULL, path, dir, path);
    }
    if (dir != AT_FDCWD)
        return fwd_fd(dir) ? below_forwarded(w, dir, path, empty_ok) : below_local(w, dir, path);
    return fwd_state.cwd ? below_cwd(w, path, empty_ok) : below_local(w, dir, path);
}

int fwd_where_end(struct fwd_where *w, int err)
{
    if (w->dir)
        fdtab_put(w->dir);
    return fwd_result(err);
}

bool fwd_where_absolute(const struct fwd_where *w, char *buf, size_t cap_bytes)
{
    struct fwd_clean clean;
    const char *base = w->dir ? w->base : NULL;
    if (w->dir && !base[0])
        return false;
    const char *path = w->path[0] ? w->path : base;
    if (!path || fwd_path_clean(&fwd_state.prefixes, base, path, buf, cap_bytes, &clean) != 0 || !clean.prefix)
        return false;
    size_t n = strlen(buf);
    if (n > 2 && buf[n - 1] == '.' && buf[n - 2] == '/')
        buf[n - 2] = 0;
    return true;
}

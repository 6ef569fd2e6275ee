/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The working directory, real paths, and the file mode mask.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's: a change of directory counts for all
 * threads, but for those that have one of their own (own_cwd.h).
 *
 * The kernel cannot enter a directory that only a server has.  While the program's working
 * directory is a forwarded one, the kernel's is an unlinked empty directory, in which a relative
 * path that was not intercepted finds nothing and creates nothing.  The server keeps the directory
 * open for this process, so that it stays the same directory if it is renamed; fork and exec pass
 * the descriptor on.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/settings/env_defs.h"
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/resolve.h"
#include "iofwd/wire/below.h"

#define CWD_NAME AMPH_PRIVATE_CWD

/* ---- real paths ---- */

/* The state of a walk: the path resolved so far, and what is left to walk, first the rest of links'
 * targets (todo), then the rest of the path itself, which may have any length. */
struct walk {
    char out[PATH_MAX];
    char todo[2 * PATH_MAX];
    const char *path;
    size_t len;
    int links;
};

/* Is path a directory above some prefix?  Such a path need not exist on this host. */
static bool above_prefix(const char *path)
{
    size_t len = strlen(path);

    for (size_t i = 0; i < amph_ip_state.prefixes.count; i++)
        if (strncmp(amph_ip_state.prefixes.item[i].path, path, len) == 0 &&
            amph_ip_state.prefixes.item[i].path[len] == '/')
            return true;

    return false;
}

/* Puts a link's target in front of what is left to walk. */
static int follow(struct walk *w, char *target, size_t len)
{
    char rest[2 * PATH_MAX];

    if (++w->links > 40)
        return ELOOP;

    strcpy(rest, w->todo);
    if (len + 1 + strlen(rest) >= sizeof w->todo)
        /* a link whose target contains itself grows todo like this; no errno value distinguishes
         * the length of targets */
        return ELOOP;

    target[len] = 0;
    strcpy(w->todo, target);

    if (rest[0]) {
        strcat(w->todo, "/");
        strcat(w->todo, rest);
    }

    if (target[0] == '/')
        w->len = 0;
    else
        while (w->len && w->out[--w->len] != '/')
            ;

    w->out[w->len] = 0;
    return 0;
}

/* Does the link, which is forwarded and has this absolute target, mean a path as this process would name it?  It may be
 * one of the server's tree, which only the server can walk.  Returns 0 or an errno value. */
static int has_our_target(const char *link, const char *target, bool *leads_p)
{
    *leads_p = amph_fwd_prefix_match(&amph_ip_state.prefixes, target) != NULL;
    if (*leads_p)
        return 0;

    int err = amph_ip_client_enter(); /* the process may have read the link by itself */

    if (err)
        return err;

    *leads_p = amph_ip_client.fwd.access(amph_ip_client.client, NULL, link, F_OK, 0) == EACCES;
    return 0;
}

/* Examines the name that has just been appended. */
static int look(struct walk *w)
{
    char target[PATH_MAX + 1];
    const struct amph_fwd_prefix *prefix = amph_fwd_prefix_match(&amph_ip_state.prefixes, w->out);

    if (prefix && w->len == prefix->len_bytes)
        return 0;

    struct amph_ip_numbered number;
    bool ours = prefix || amph_ip_is_exe(w->out) || amph_ip_numbered(w->out, &number);
    ssize_t n = ours ? amph_do_readlinkat(AT_FDCWD, w->out, target, PATH_MAX)
                     : libc_readlink(w->out, target, PATH_MAX);

    if (n >= 0) {
        bool leads = true;

        target[n] = 0;

        int err = prefix && target[0] == '/' ? has_our_target(w->out, target, &leads) : 0;

        if (err || !leads)
            return err;

        return follow(w, target, (size_t)n);
    }

    if (errno == EINVAL)
        return 0;

    return errno == ENOENT && !prefix && above_prefix(w->out) ? 0 : errno;
}

static int step(struct walk *w, const char *name, size_t len)
{
    if (len == 0 || (len == 1 && name[0] == '.'))
        return 0;

    if (len == 2 && name[0] == '.' && name[1] == '.') {
        while (w->len && w->out[--w->len] != '/')
            ;

        w->out[w->len] = 0;
        return 0;
    }

    if (w->len + 1 + len >= sizeof w->out)
        return ENAMETOOLONG;

    w->out[w->len++] = '/';
    memcpy(w->out + w->len, name, len);
    w->len += len;
    w->out[w->len] = 0;

    return look(w);
}

static int walk_start(struct walk *w, const char *path)
{
    w->len = 0;
    w->links = 0;
    w->out[0] = w->todo[0] = 0;
    w->path = path;
    if (!path[0])
        return ENOENT;

    if (path[0] != '/') {
        if (!amph_do_getcwd(w->out, sizeof w->out))
            return errno == ERANGE ? ENAMETOOLONG : errno;

        w->len = strlen(w->out);
        if (w->len == 1)
            w->len = 0;
    }

    w->out[w->len] = 0;
    return 0;
}

/* Writes the real path of `path` to w->out.  Returns 0 or an errno value; on error out holds the
 * path as far as it was resolved. */
static int resolve(struct walk *w, const char *path)
{
    int err = walk_start(w, path);

    while (!err && (w->todo[0] || w->path[0])) {
        char name[NAME_MAX + 1];
        const char *at = w->todo[0] ? w->todo : w->path;
        size_t len = strcspn(at, "/");
        size_t gone = len ? len : strspn(at, "/");

        if (len > NAME_MAX)
            return ENAMETOOLONG;

        memcpy(name, at, len);
        if (at == w->path)
            w->path += gone;
        else
            memmove(w->todo, at + gone, strlen(at + gone) + 1);

        err = step(w, name, len);

        /* A slash must follow a directory; links have been replaced by their targets here. */
        struct stat st;

        if (!err && !len && w->len && !above_prefix(w->out) &&
            amph_do_fstatat(AT_FDCWD, w->out, &st, 0) == 0 && !S_ISDIR(st.st_mode))
            err = ENOTDIR;
    }

    if (!w->len && !err)
        strcpy(w->out, "/");

    return err;
}

bool amph_ip_leads_out(const struct amph_ip_resolved *where, int err, bool itself,
                       char out[PATH_MAX])
{
    char name[PATH_MAX];
    struct walk w;

    if (err != EACCES || !amph_ip_resolve_absolute(where, name, sizeof name))
        return false;

    char *last = itself ? strrchr(name, '/') : NULL;

    if (last)
        *last++ = 0;

    err = resolve(&w, name);
    if ((err && err != ENOENT) || amph_fwd_prefix_match(&amph_ip_state.prefixes, w.out))
        return false;

    /* If a part is missing, this host's kernel reports it, or creates it. */
    int n = snprintf(out, PATH_MAX, "%s%s%s%s%s%s", w.out, w.todo[0] ? "/" : "", w.todo, w.path,
                     last ? "/" : "", last ? last : "");

    return n > 0 && n < PATH_MAX;
}

bool amph_ip_went_out(struct amph_ip_resolved *w, int err, bool itself)
{
    char out[PATH_MAX];

    if (AMPH_LIKELY(err != EACCES) || !amph_ip_leads_out(w, err, itself, out))
        return false;

    amph_ip_resolve_end(w, 0);
    w->dir = NULL;
    w->local = true;
    w->dirfd = AT_FDCWD;
    w->path = strcpy(w->buf, out);

    return true;
}

char *amph_do_realpath(const char *path, char *buf)
{
    struct walk w;
    int saved = errno;
    int err = resolve(&w, path);

    if (err) {
        /* glibc's extension: returns the name that failed */
        if (buf && path[0] && (err == ENOENT || err == EACCES))
            strcpy(buf, w.out);

        errno = err;
        return NULL;
    }

    errno = saved;
    return buf ? strcpy(buf, w.out) : strdup(w.out);
}

/* ---- the working directory ---- */

/* Moves the kernel into a directory that has been unlinked. */
static int enter_void(void)
{
    static const char *const homes[] = { "/dev/shm", "/tmp", "/var/tmp", "." };

    for (size_t i = 0; i < AMPH_COUNTOF(homes); i++) {
        char dir[64];

        snprintf(dir, sizeof dir, "%s/iofwd-void-XXXXXX", homes[i]);
        if (!libc_mkdtemp(dir))
            continue;

        int fd = amph_ip_kernel_openat(AT_FDCWD, dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        int err = errno;

        libc_rmdir(dir);

        int moved = fd < 0 ? -1 : amph_ip_kernel_fchdir(fd);

        if (fd >= 0)
            amph_ip_kernel_close(fd);

        if (moved == 0)
            return 0;
        if (fd < 0 && err == EMFILE)
            return amph_ip_report_few(EMFILE);
    }

    return EACCES;
}

static void left_forwarded(void)
{
    int fd = amph_ip_cwd()->fd;

    if (!amph_ip_cwd()->name)
        return;

    amph_ip_cwd()->name = NULL;
    amph_ip_cwd()->fd = 0;
    if (fd)
        amph_do_close(fd);

    if (amph_ip_cwd() == &amph_ip_state.cwd)
        unsetenv(CWD_NAME);
}

/* Replaces the name of the working directory; another thread may still be reading the old one. */
static void set_name(const char *name)
{
    char entry[PATH_MAX + 16];
    char *copy = strdup(name);

    if (copy)
        __atomic_store_n(&amph_ip_cwd()->name, copy, __ATOMIC_RELEASE);

    if (amph_ip_cwd() != &amph_ip_state.cwd)
        return;

    /* for programs that the C library starts by itself (system, popen) */
    snprintf(entry, sizeof entry, "%d:%s", amph_ip_cwd()->fd, name);
    setenv(CWD_NAME, entry, 1);
}

/* The name of an open file.  Returns 0 or an errno value: ENOENT if it has been unlinked. */
static int name_of(int fd, char name[PATH_MAX])
{
    struct amph_fd_file *of;
    size_t len = 0;

    if (amph_fdtab_is_near(fd))
        return amph_ip_near_name(fd, name) ? 0 : ENOENT;
    if (amph_ip_file_begin(fd, &of) != 0)
        return errno;

    int err = amph_ip_client.fwd.nameof(amph_ip_client.client, &of->file, name, PATH_MAX - 1, &len);

    name[err ? 0 : len] = 0;
    amph_fdtab_put(of);
    return err;
}

/* ---- directories whose names are longer than PATH_MAX ---- */

/* The name that the directory with this identity has in the directory `up`; the caller frees it.  NULL:
 * none, or no memory. */
static char *name_in(int up, const struct stat *st)
{
    struct stat it;
    char *name = NULL;
    DIR *list = fdopendir(dup(up));

    for (struct dirent *e; list && !name && (e = readdir(list)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;

        if (fstatat(up, e->d_name, &it, AT_SYMLINK_NOFOLLOW) == 0 && it.st_ino == st->st_ino &&
            it.st_dev == st->st_dev)
            name = strdup(e->d_name);
    }

    if (list)
        closedir(list);

    return name;
}

/* Replaces *dir_p, which is closed, by its parent directory.  If name_p is not NULL, *name_p is the
 * name of the directory in its parent (the caller frees it). */
static int go_above(int *dir_p, char **name_p)
{
    struct stat st;
    int up = openat(*dir_p, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = up < 0 || fstat(*dir_p, &st) != 0 ? errno : 0;

    if (name_p)
        *name_p = err ? NULL : name_in(up, &st);

    close(*dir_p);
    *dir_p = up;
    if (err)
        return err;

    return name_p && !*name_p ? ENOENT : 0;
}

/* The name used if the directory's own is too long (catch.h): the prefix it belongs to, found from
 * the nearest directory above it whose name fits. */
static int name_nameless(int fd, char name[PATH_MAX])
{
    int dir = amph_do_dup(fd);
    int err = dir < 0 ? errno : ENAMETOOLONG;

    while (err == ENAMETOOLONG && (err = go_above(&dir, NULL)) == 0)
        err = name_of(dir, name);

    if (dir >= 0)
        close(dir);

    const struct amph_fwd_prefix *prefix = err ? NULL
                                               : amph_fwd_prefix_match(&amph_ip_state.prefixes,
                                                                       name);

    if (prefix)
        snprintf(name, PATH_MAX, "%s//", prefix->path);

    if (err)
        return err;

    return prefix ? 0 : ENOENT;
}

/* The whole name of the working directory, found part by part upwards, as the C library does.
 * Returns NULL with errno. */
static char *name_climbing(void)
{
    char *whole = strdup("");
    char head[PATH_MAX];
    int dir = amph_do_dup(amph_ip_cwd()->fd);
    int err = dir < 0 ? errno : ENAMETOOLONG;

    while (whole && err == ENAMETOOLONG) {
        char *part;
        char *longer = NULL;

        err = go_above(&dir, &part);
        if (!err && asprintf(&longer, "/%s%s", part, whole) < 0)
            longer = NULL;

        free(part);
        free(whole);
        whole = longer;
        if (!err)
            err = name_of(dir, head);
    }

    if (dir >= 0)
        close(dir);

    char *name = NULL;

    if (whole && !err && asprintf(&name, "%s%s", head, whole) < 0)
        name = NULL;

    free(whole);
    errno = err ? err : ENOMEM;
    return name;
}

/* May the program enter the forwarded directory behind fd?  Returns 0 or an errno value. */
static int check_search(int fd)
{
    /* the servers may have more rights than this process */
    if (amph_fdtab_is_near(fd) && amph_ip_host_calls.faccessat(fd, ".", X_OK, AT_EACCESS) == 0)
        return 0;

    return amph_do_faccessat(fd, ".", X_OK, AT_EACCESS) != 0 ? errno : 0;
}

/* Finds the name that the working directory behind fd will have.  *nameless_p: it stands for one that
 * is too long (name_nameless).  Returns 0 or an errno value. */
static int name_to_keep(int fd, char name[PATH_MAX], bool *nameless_p)
{
    int err = name_of(fd, name);

    *nameless_p = err == ENAMETOOLONG;
    if (err == ENAMETOOLONG)
        return name_nameless(fd, name);

    if (err == ENOENT) { /* unlinked: a process may still be in it */
        strcpy(name,
               amph_ip_cwd()->name ? amph_ip_cwd()->name : amph_ip_state.prefixes.item[0].path);
        return 0;
    }

    return err;
}

/* Closes fd and returns -1 with errno. */
static int refuse(int fd, int err)
{
    amph_do_close(fd);
    return amph_ip_result(err);
}

static int go_to_local(int fd)
{
    if (amph_ip_kernel_fchdir(fd) != 0)
        return refuse(fd, errno);

    amph_do_close(fd);
    left_forwarded();
    return 0;
}

/* Makes fd's directory the working directory; takes fd over. */
static int go_to(int fd)
{
    char name[PATH_MAX];
    bool nameless = false;

    if (!amph_ip_fd(fd))
        return go_to_local(fd);

    int err = check_search(fd);

    if (!err)
        err = name_to_keep(fd, name, &nameless);
    if (!err && !amph_ip_cwd()->name)
        err = enter_void();
    if (err)
        return refuse(fd, err);

    if (!amph_ip_hold_cwd(fd) && nameless) /* otherwise it is known by its name only */
        return amph_ip_fail(amph_ip_report_few(EMFILE));

    set_name(name);
    return 0;
}

static int chdir_forwarded(const char *path)
{
    int fd = amph_ip_open_directory(path);

    return fd < 0 ? -1 : go_to(fd);
}

static int chdir_by(enum amph_client_route way, const char *path)
{
    return way == AMPH_IP_LIBC ? libc_chdir(path) : amph_ip_kernel_chdir(path);
}

static int fchdir_by(enum amph_client_route way, int fd)
{
    return way == AMPH_IP_LIBC ? libc_fchdir(fd) : amph_ip_kernel_fchdir(fd);
}

/* Changes to the local directory fd.  If it is the mount point of a prefix (a link led here), the
 * forwarded directory is meant. */
static int fchdir_local(enum amph_client_route way, int fd)
{
    char name[PATH_MAX];

    if (amph_ip_name_of_local(fd, name) && amph_fwd_prefix_match(&amph_ip_state.prefixes, name))
        return chdir_forwarded(name);

    int r = fchdir_by(way, fd);

    if (r == 0)
        left_forwarded();

    return r;
}

static int chdir_local(enum amph_client_route way, const char *path)
{
    char to[PATH_MAX];

    if (!amph_ip_state.on || amph_ip_inside)
        return chdir_by(way, path);

    int fd = amph_ip_kernel_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT && path && amph_ip_link_leads_in(AT_FDCWD, path, to))
        return chdir_forwarded(to);

    int r = fd < 0 ? chdir_by(way, path) : fchdir_local(way, fd);
    int err = errno;

    if (fd >= 0)
        amph_ip_kernel_close(fd);
    else if (r == 0)
        left_forwarded();

    errno = err;
    return r;
}

int amph_ip_chdir(enum amph_client_route way, const char *path)
{
    struct amph_ip_resolved w;

    if (!amph_ip_path(path))
        return chdir_local(way, path);
    if (!amph_ip_resolve_near(&w, AT_FDCWD, path, false))
        return -1;
    if (w.local)
        return chdir_local(way, w.path);

    amph_ip_resolve_end(&w, 0);
    return chdir_forwarded(path);
}

int amph_do_chdir(const char *path)
{
    return amph_ip_chdir(AMPH_IP_LIBC, path);
}

int amph_ip_fchdir(enum amph_client_route way, int fd)
{
    struct stat st;

    if (amph_ip_fd(fd)) {
        if (amph_do_fstat(fd, &st) != 0)
            return -1;
        if (!S_ISDIR(st.st_mode))
            /* before a copy exists, because closing the copy would release the process's locks on
             * the file */
            return amph_ip_fail(ENOTDIR);

        int copy = amph_do_dup(fd);

        return copy < 0 ? -1 : go_to(copy);
    }

    return amph_ip_state.on && !amph_ip_inside ? fchdir_local(way, fd) : fchdir_by(way, fd);
}

int amph_do_fchdir(int fd)
{
    return amph_ip_fchdir(AMPH_IP_LIBC, fd);
}

/* Copies a name into getcwd's buffer. */
static char *hand_out(const char *name, char *buf, size_t cap)
{
    size_t need = strlen(name) + 1;

    if ((buf && cap == 0) || (cap && cap < need)) {
        errno = cap ? ERANGE : EINVAL;
        return NULL;
    }

    if (!buf && !(buf = malloc(cap ? cap : need)))
        return NULL;

    if (!amph_ip_can_write(buf, need)) {
        errno = EFAULT;
        return NULL;
    }

    return memcpy(buf, name, need);
}

char *amph_do_getcwd(char *buf, size_t cap)
{
    char name[PATH_MAX];
    const char *cwd = amph_ip_inside ? NULL
                                     : __atomic_load_n(&amph_ip_cwd()->name, __ATOMIC_ACQUIRE);

    if (!cwd)
        return libc_getcwd(buf, cap);
    if (!amph_ip_cwd()->fd || !amph_ip_fd(amph_ip_cwd()->fd))
        return hand_out(cwd, buf, cap);

    int err = name_of(amph_ip_cwd()->fd, name);

    if (err == ENAMETOOLONG) {
        char *whole = name_climbing();
        char *given = whole ? hand_out(whole, buf, cap) : NULL;

        free(whole);
        return given;
    }

    if (err) {
        errno = err;
        return NULL;
    }

    if (strcmp(name, cwd) != 0)
        set_name(name);

    return hand_out(name, buf, cap);
}

mode_t amph_ip_umask(enum amph_client_route way, mode_t mask)
{
    mode_t before = way == AMPH_IP_LIBC
                        ? libc_umask(mask)
                        : (mode_t)libc_syscall(SYS_umask, (long)mask, 0, 0, 0, 0, 0);

    if (!amph_ip_inside)
        amph_ip_cwd()->umask = mask & 0777;

    return before;
}

mode_t amph_do_umask(mode_t mask)
{
    return amph_ip_umask(AMPH_IP_LIBC, mask);
}

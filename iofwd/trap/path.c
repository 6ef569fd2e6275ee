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
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 40

void amph_trap_look_end(struct amph_trap_path *p)
{
    amph_trap_file_put(p->dir);
    p->dir = NULL;
}

static int forwarded(struct amph_trap_path *p, struct amph_trap_file *dir, const char *path)
{
    p->where = AMPH_TRAP_FORWARDED;
    p->dir = dir;
    p->path = path;
    return 0;
}

/* ---- names of descriptors ---- */

/* A descriptor, of the caller or (pid not 0) of another process. */
struct named {
    pid_t pid;
    int fd;
    const char *rest; /* what follows, if it is a directory; else "" */
};

/* "NUMBER" at the end of a path, or as the name of a directory there. */
static bool take_number(const char *text, struct named *named_p)
{
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;

    long number = strtol(text, &end, 10);

    if ((*end && *end != '/') || number > INT_MAX)
        return false;

    named_p->fd = (int)number;
    named_p->rest = end + strspn(end, "/");
    if (*end && !named_p->rest[0])
        named_p->rest = ".";

    return true;
}

/* Does the path, of /proc or /dev, name a descriptor? */
static bool names_descriptor(const char *path, struct named *named_p)
{
    static const char *const std[] = { "/dev/stdin", "/dev/stdout", "/dev/stderr" };
    static const char *const dirs[] = { "/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/" };
    int end = 0;

    named_p->pid = 0;
    named_p->rest = "";
    if (strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0)
        return false;

    for (size_t i = 0; i < AMPH_COUNTOF(dirs); i++)
        if (strncmp(path, dirs[i], strlen(dirs[i])) == 0)
            return take_number(path + strlen(dirs[i]), named_p);

    for (size_t i = 0; i < AMPH_COUNTOF(std); i++)
        if (strcmp(path, std[i]) == 0) {
            named_p->fd = (int)i;
            return true;
        }

    if (sscanf(path, "/proc/%d/fd/%n", &named_p->pid, &end) == 1 && end)
        return take_number(path + end, named_p);

    end = 0;
    if (sscanf(path, "/proc/%*d/task/%d/fd/%n", &named_p->pid, &end) == 1 && end)
        return take_number(path + end, named_p);

    return false;
}

/* Its forwarded file, or NULL.  0, an errno value or AMPH_TRAP_GONE. */
static int file_of_name(struct amph_trap_call *c, const struct named *named,
                        struct amph_trap_file **file_p)
{
    *file_p = NULL;
    if (!named->pid || named->pid == (pid_t)c->n.pid) {
        int err = amph_trap_file_of(c, named->fd, file_p, NULL);

        if (!err && !*file_p)
            err = amph_trap_file_passed(c, named->fd);

        if (err == EBADF && !c->refused)
            return 0; /* the kernel says that there is no such name */

        return err;
    }

    int pidfd = (int)syscall(SYS_pidfd_open, named->pid, 0);
    int own_fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, named->fd, 0);

    if (own_fd >= 0) {
        *file_p = amph_trap_file_of_own(own_fd);
        close(own_fd);
    }

    if (pidfd >= 0)
        close(pidfd);

    return 0;
}

/* ---- names of working directories and roots ---- */

/* /proc/PID/cwd or /proc/PID/root, and what follows. */
struct proc_dir {
    pid_t pid;
    bool is_root;
    bool slash;       /* follows, so it is not the link itself */
    const char *rest; /* behind it */
};

/* Takes the number of a process or thread, and the slash behind it, off the text. */
static bool take_process(const char **at_p, pid_t *pid_p)
{
    int end = 0;

    if (!isdigit((unsigned char)**at_p) || sscanf(*at_p, "%d/%n", pid_p, &end) != 1 || !end)
        return false;

    *at_p += end;
    return true;
}

static bool take_word(const char **at_p, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*at_p, word, len) != 0)
        return false;

    *at_p += len;
    return true;
}

static bool names_proc_dir(struct amph_trap_call *c, const char *path, struct proc_dir *d_p)
{
    const char *at = path;

    if (!take_word(&at, "/proc/"))
        return false;

    if (take_word(&at, "thread-self/"))
        d_p->pid = (pid_t)c->n.pid;
    else if (take_word(&at, "self/")) {
        if (amph_trap_process_of(c, NULL) != 0)
            return false;

        d_p->pid = amph_trap_process_pid(c->process);
    } else if (!take_process(&at, &d_p->pid)) {
        return false;
    }

    if (take_word(&at, "task/") && !take_process(&at, &d_p->pid))
        return false;

    d_p->is_root = take_word(&at, "root");
    if (!d_p->is_root && !take_word(&at, "cwd"))
        return false;

    d_p->slash = *at == '/';
    d_p->rest = at + strspn(at, "/");
    return !*at || d_p->slash;
}

int amph_trap_cwd_named(struct amph_trap_call *c, const char *path, char out[PATH_MAX])
{
    struct proc_dir d;

    out[0] = 0;
    if (!names_proc_dir(c, path, &d) || d.is_root || d.slash)
        return 0;

    return amph_trap_cwd_of(c, d.pid, out);
}

/* ---- local links that lead to a prefix ---- */

/* Removes the last name of path, so that its directory is left. */
static void drop_last(char *path)
{
    size_t len = strlen(path);

    while (len && path[len - 1] == '/')
        len--;

    while (len && path[len - 1] != '/')
        len--;

    path[len] = 0;
}

/* The kernel does not find path, which is absolute.  Does a link on it lead below a prefix?  Then out
 * is where. */
static bool link_leads_in(const char *path, bool follow_last, char out[PATH_MAX])
{
    char now[PATH_MAX], searched[PATH_MAX], target[PATH_MAX], next[PATH_MAX];
    struct amph_fwd_clean clean;

    snprintf(now, sizeof now, "%s", path);
    for (int links = 0; links < LINKS_MAX; links++) {
        size_t end;

        strcpy(searched, now);
        if (!follow_last)
            drop_last(searched);

        ssize_t n = amph_fwd_path_last_link(readlinkat, AT_FDCWD, searched, target, &end);

        if (n <= 0)
            return false;

        target[n] = 0;
        if (!amph_fwd_path_replace_link(NULL, now, end, target, next, sizeof next))
            return false;

        if (amph_fwd_path_clean(&amph_trap.prefixes, NULL, next, out, PATH_MAX, &clean) == 0 &&
            clean.prefix)
            return true;

        strcpy(now, next);
    }

    return false;
}

void amph_trap_seen(struct amph_trap_call *c, const struct amph_trap_path *p, int dir,
                    char seen[AMPH_TRAP_SEEN_MAX])
{
    static const char *const own[][2] = { { "/proc/self/", "" },
                                          { "/proc/thread-self/", "" },
                                          { "/dev/fd/", "fd/" } };
    int pid = (int)c->n.pid;

    if (p->where == AMPH_TRAP_RENAMED)
        snprintf(seen, AMPH_TRAP_SEEN_MAX, "%s", p->path);
    else if (p->raw[0] == '/')
        snprintf(seen, AMPH_TRAP_SEEN_MAX, "%s", p->raw);
    else if (dir == AT_FDCWD)
        snprintf(seen, AMPH_TRAP_SEEN_MAX, "/proc/%d/cwd/%s", pid, p->raw);
    else
        snprintf(seen, AMPH_TRAP_SEEN_MAX, "/proc/%d/fd/%d%s%s", pid, dir, p->raw[0] ? "/" : "",
                 p->raw);

    for (size_t i = 0; p->raw[0] == '/' && i < AMPH_COUNTOF(own); i++)
        if (strncmp(p->raw, own[i][0], strlen(own[i][0])) == 0)
            snprintf(seen, AMPH_TRAP_SEEN_MAX, "/proc/%d/%s%s", pid, own[i][1],
                     p->raw + strlen(own[i][0]));
}

/* A local path: the kernel's, unless it does not find it and a link on it leads to a prefix.  dir: of a
 * relative path, whose directory is the kernel's. */
static int follow_links(struct amph_trap_call *c, struct amph_trap_path *p, int dir, int flags)
{
    char seen[AMPH_TRAP_SEEN_MAX], path[PATH_MAX], out[PATH_MAX];
    bool follow_last = !(flags & AT_SYMLINK_NOFOLLOW);
    struct amph_fwd_clean clean;

    amph_trap_seen(c, p, dir, seen);
    if (faccessat(AT_FDCWD, seen, F_OK, follow_last ? 0 : AT_SYMLINK_NOFOLLOW) == 0 ||
        errno != ENOENT)
        return 0;

    int err = amph_trap_absolute(c, p, dir, path);

    if (err == AMPH_TRAP_GONE)
        return err;

    if (err || !link_leads_in(path, follow_last, out))
        return 0;

    err = amph_fwd_path_clean(&amph_trap.prefixes, NULL, out, p->buf, sizeof p->buf, &clean);
    return err ? err : forwarded(p, NULL, p->buf);
}

/* ---- directories ---- */

/* The path relative to base, absolute. */
static int join(struct amph_trap_path *p, const char *base, const char *path, bool kernels)
{
    struct amph_fwd_clean clean;
    int err = amph_fwd_path_clean(&amph_trap.prefixes, base, path, p->buf, sizeof p->buf, &clean);

    if (err == ENAMETOOLONG && kernels)
        return 0; /* the kernel says so, or has a shorter way */

    if (err)
        return err;

    if (clean.prefix)
        return forwarded(p, NULL, p->buf);

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

/* path: p->raw or the end of it, relative to a directory that is open at a server; takes over dir. */
static int below_file(struct amph_trap_path *p, struct amph_trap_file *dir, const char *path)
{
    /* ".." may lead out of the prefix */
    if (goes_up(path) && dir->name && dir->name[0]) {
        int err = join(p, dir->name, path, false);

        if (err || p->where == AMPH_TRAP_RENAMED) {
            amph_trap_file_put(dir);
            return err;
        }
    }

    return forwarded(p, dir, path);
}

/* A path relative to a directory that the kernel knows: a descriptor, or AT_FDCWD. */
static int below_local(struct amph_trap_call *c, struct amph_trap_path *p, int dir, int flags)
{
    char base[PATH_MAX];
    int err = 0;

    if (amph_fwd_prefix_may_enter(&amph_trap.prefixes, p->raw)) {
        err = amph_trap_kernel_dir(c, dir, base);
        if (err == ENOENT) /* a directory that has been removed */
            return 0;

        err = err ? err : join(p, base, p->raw, true);
    }

    return err || p->where != AMPH_TRAP_LOCAL ? err : follow_links(c, p, dir, flags);
}

static int below_cwd(struct amph_trap_call *c, struct amph_trap_path *p, int flags)
{
    char base[PATH_MAX];
    int err = amph_trap_cwd(c, base);

    if (err)
        return err;

    return base[0] ? join(p, base, p->raw, false) : below_local(c, p, AT_FDCWD, flags);
}

static int below_proc_dir(struct amph_trap_call *c, struct amph_trap_path *p,
                          const struct proc_dir *d)
{
    const char *rest = d->rest[0] ? d->rest : ".";
    char base[PATH_MAX] = "";
    char link[64];
    int err = d->is_root ? 0 : amph_trap_cwd_of(c, d->pid, base);

    if (err || base[0])
        return err ? err : join(p, base, rest, false);

    if (!amph_fwd_prefix_may_enter(&amph_trap.prefixes, rest))
        return 0;

    snprintf(link, sizeof link, "/proc/%d/%s", (int)d->pid, d->is_root ? "root" : "cwd");

    ssize_t n = readlink(link, base, sizeof base - 1);

    base[n > 0 ? n : 0] = 0;
    return base[0] == '/' ? join(p, base, rest, true) : 0;
}

static int look_absolute(struct amph_trap_call *c, struct amph_trap_path *p, int flags)
{
    struct named named;
    int err = join(p, NULL, p->raw, true);

    if (err || p->where != AMPH_TRAP_LOCAL)
        return err;

    bool follows = !(flags & AT_SYMLINK_NOFOLLOW) || (flags & AMPH_TRAP_MAGIC_LINK);
    struct proc_dir proc;

    if (names_proc_dir(c, p->raw, &proc) && (!(flags & AT_SYMLINK_NOFOLLOW) || proc.slash)) {
        err = below_proc_dir(c, p, &proc);
        if (err || p->where != AMPH_TRAP_LOCAL)
            return err;
    }

    if (names_descriptor(p->raw, &named) && (follows || named.rest[0])) {
        struct amph_trap_file *file;

        err = file_of_name(c, &named, &file);
        if (err)
            return err;
        if (file)
            return named.rest[0] ? below_file(p, file, named.rest) : forwarded(p, file, "");
        if (!named.rest[0])
            return 0;
    }

    return follow_links(c, p, AT_FDCWD, flags);
}

/* The empty path, at the working directory. */
static int look_at_cwd(struct amph_trap_call *c, struct amph_trap_path *p)
{
    struct amph_fwd_clean clean;
    int err = amph_trap_cwd(c, p->raw);

    if (err || !p->raw[0])
        return err;

    err = amph_fwd_path_clean(&amph_trap.prefixes, NULL, p->raw, p->buf, sizeof p->buf, &clean);
    if (err)
        return err;

    p->where = clean.prefix ? AMPH_TRAP_FORWARDED : AMPH_TRAP_RENAMED;
    p->path = p->buf;
    return 0;
}

static int look_empty(struct amph_trap_call *c, int dir, struct amph_trap_path *p)
{
    struct amph_trap_file *file;

    if (dir == AT_FDCWD)
        return look_at_cwd(c, p);

    int err = amph_trap_file_of(c, dir, &file, NULL);

    if (err || file)
        return err ? err : forwarded(p, file, "");

    return amph_trap_file_passed(c, dir);
}

static void start(struct amph_trap_path *p)
{
    p->where = AMPH_TRAP_LOCAL;
    p->dir = NULL;
    p->path = p->raw;
    p->raw[0] = 0;
    p->buf[0] = 0;
}

/* Looks at what is in p->raw. */
static int look_raw(struct amph_trap_call *c, int dir, int flags, struct amph_trap_path *p)
{
    struct amph_trap_file *file;

    if (!p->raw[0])
        return flags & AT_EMPTY_PATH ? look_empty(c, dir, p) : 0;

    if (p->raw[0] == '/')
        return look_absolute(c, p, flags);

    if (dir == AT_FDCWD)
        return below_cwd(c, p, flags);

    int err = amph_trap_file_of(c, dir, &file, NULL);

    if (err)
        return err;

    return file ? below_file(p, file, p->raw) : below_local(c, p, dir, flags);
}

int amph_trap_look_text(struct amph_trap_call *c, int dir, const char *text, int flags,
                        struct amph_trap_path *p)
{
    start(p);
    snprintf(p->raw, sizeof p->raw, "%s", text);
    return look_raw(c, dir, flags, p);
}

int amph_trap_look(struct amph_trap_call *c, int dir, uint64_t path, int flags,
                   struct amph_trap_path *p)
{
    start(p);
    if (c->nlooked < 2) {
        c->looked[c->nlooked].dir = dir;
        c->looked[c->nlooked].path = path;
        c->nlooked++;
    }

    if (!path && (flags & AT_EMPTY_PATH))
        return look_empty(c, dir, p);

    int err = amph_trap_get_text(c, p->raw, sizeof p->raw, path);

    if (err == EFAULT || err == ENAMETOOLONG)
        return 0; /* the kernel says so */

    return err ? err : look_raw(c, dir, flags, p);
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

void amph_trap_say_local(struct amph_trap_call *c, const struct amph_trap_path *p)
{
    amph_trap_say("%s of %s, which is not below the forwarded working directory, is refused: use "
                  "an absolute path",
                  amph_trap_rows[c->n.data.nr].name, p->path);
}

bool amph_trap_leads(struct amph_trap_call *c, int dir, int at, int flags, bool renamed,
                     struct amph_trap_path *p, int *ret_p)
{
    int err = amph_trap_look(c, dir, AMPH_TRAP_ARG(c, at), flags, p);

    *ret_p = err;
    if (err)
        return false;

    if (p->where == AMPH_TRAP_FORWARDED)
        return true;

    if (p->where == AMPH_TRAP_LOCAL)
        *ret_p = AMPH_TRAP_CONTINUE;
    else if (renamed)
        *ret_p = amph_trap_local_path(c, p->path, at, NULL, -1);
    else {
        amph_trap_say_local(c, p);
        *ret_p = EOPNOTSUPP;
    }

    return false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names that the process looks up by itself, and files that it opens to read them; see near.h.
 *
 * The address file says where the servers' exports are on this host (near_exports.c).  The process opens them with
 * its own rights, so it never sees more than it could without the servers.  Like a server it stays below the
 * export: the kernel resolves each path below the export's directory, or below one that the process has open, and
 * follows only links that stay there (openat2).  Where a link leaves it, and where there is a FIFO, a socket or a
 * device, or an error but ENOENT and a lack of descriptors, the server makes the call.
 *
 * A shared map of such a file goes to the server, because all processes of the host shall see in it what others
 * change in theirs (memory/pages.h).
 *
 * Not used: by tasks with descriptor tables of their own; while the process maps forwarded files, whose changes
 * in memory a read must show (memory/coherent.c); with traces and records, which show what is forwarded; with
 * IOFWD_CONSISTENCY=session, whose delayed writes only the client knows; and by programs that use iofwd.h, which
 * makes its calls on forwarded files.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/path/near.h"

#include "iofwd/calls/names.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near_exports.h"
#include "iofwd/interpose/path/near_place.h"
#include "iofwd/wire/below.h"

#define EXPORT_KEYS (UINT64_C(1) << 32) /* above the numbers of directories */

/* ---- a call's place ---- */

static bool may_use(void)
{
    return !amph_ip_inside && !amph_ip_thread.leads_near &&
           amph_fdtab_current() == &amph_fdtab_first &&
           __atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED) == 0 && amph_ip_near_exports();
}

static uint32_t changes_now(void)
{
    return atomic_load_explicit(&amph_ip_near.memory->changes, memory_order_relaxed);
}

/* What follows the parts ".." with which the path begins. */
static const char *after_parents(const char *path)
{
    while (path[0] == '.' && path[1] == '.' && (path[2] == '/' || !path[2])) {
        path += 2;
        path += strspn(path, "/");
    }

    return path;
}

#define PARENTS_BYTES 256 /* of the parts ".."; longer ones are the server's */

/* A path that begins with ".." starts in a directory above: it is opened as the kernel finds it, which is right for
 * a directory that has been removed, too.  false: it is not below the same export, or cannot be opened. */
static bool climb(const struct amph_ip_resolved *w, struct amph_ip_near_place *p)
{
    const char *rest = after_parents(p->rel);
    size_t len = (size_t)(rest - p->rel);
    char parents[PARENTS_BYTES];

    if (!len)
        return true;
    if (len >= sizeof parents)
        return false;

    memcpy(parents, p->rel, len);
    parents[len] = 0;

    int fd = amph_ip_kernel_openat(p->dir, parents, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

    if (fd < 0)
        return false;

    p->dir = fd;
    p->opened = true;
    p->rel = rest[0] ? rest : ".";
    if (amph_ip_near_is_in(fd, w->dir->path))
        return true;

    amph_ip_near_place_end(p);
    return false;
}

bool amph_ip_near_place(const struct amph_ip_resolved *w, struct amph_ip_near_place *p)
{
    if (w->by != AMPH_IP_BY_NAME || !may_use())
        return false;

    *p = (struct amph_ip_near_place){ .key = { .generation = changes_now() } };
    if (w->dir) {
        p->dir = w->dirfd;
        p->rel = w->path;
        p->key.base = w->dir->near;
        p->readonly = w->dir->near_readonly;
        return w->dir->near && w->path[0] && (!amph_fwd_below_climbs(w->path) || climb(w, p));
    }

    for (size_t i = 0; i < amph_ip_near.n; i++) {
        struct amph_ip_near_export *e = &amph_ip_near.export[i];

        p->rel = amph_fwd_path_below(w->path, e->name, e->name_len);
        if (!p->rel)
            continue;

        p->rel = p->rel[0] ? p->rel : ".";
        p->dir = amph_ip_near_export_fd(e);
        p->key.base = EXPORT_KEYS + i;
        p->readonly = e->readonly;
        return p->dir >= 0;
    }

    return false;
}

void amph_ip_near_place_end(const struct amph_ip_near_place *p)
{
    if (p->entered)
        amph_ip_kernel_close(p->dir);
    if (p->opened)
        amph_ip_kernel_close(p->entered ? p->start : p->dir);
}

static int open_once(int dir, const char *rel, int flags, mode_t mode, bool links)
{
    const struct open_how how = { .flags = (unsigned)flags,
                                  .mode = flags & O_CREAT ? mode & 07777 : 0,
                                  .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
                                             (links ? 0 : RESOLVE_NO_SYMLINKS) };

    int fd = amph_ip_host_calls.openat2(dir, rel, &how, sizeof how);

    return fd < 0 && amph_ip_client_made_room()
               ? amph_ip_host_calls.openat2(dir, rel, &how, sizeof how)
               : fd;
}

/* The first try follows no link, and shows whether there is one. */
static int open_any(struct amph_ip_near_place *p, const char *rel, int flags, mode_t mode)
{
    int fd = open_once(p->dir, rel, flags, mode, p->links);

    if (fd >= 0 || errno != ELOOP || p->links)
        return fd;

    p->links = true;
    return open_once(p->dir, rel, flags, mode, true);
}

/* The program gets the lowest number, which a directory above has that the call has opened before. */
int amph_ip_near_open_below(struct amph_ip_near_place *p, const char *rel, int flags, mode_t mode)
{
    int fd = open_any(p, rel, flags, mode);

    if (fd < 0 || !p->opened || p->entered || fd < p->dir ||
        amph_ip_kernel_dup3(fd, p->dir, flags & O_CLOEXEC) < 0)
        return fd;

    amph_ip_kernel_close(fd);
    p->opened = false;
    return p->dir;
}

/* The way to the last component, as amph_fwd_below_way.  Other programs may change it meanwhile. */
static int way(const struct amph_ip_near_place *p)
{
    return amph_fwd_below_way(&amph_ip_near.memory->plains, &amph_ip_host_calls, p->dir, p->rel,
                              p->opened ? NULL : &p->key, amph_ip_near.age_ns);
}

/* Is the open directory itself meant? */
static bool is_directory_itself(const struct amph_ip_resolved *w)
{
    return w->dir && w->dir->near && !w->path[0] && w->by == AMPH_IP_BY_NAME;
}

static bool is_answer(int err, int *err_p)
{
    *err_p = err;
    return err != FWD_BELOW_ASK;
}

static int open_failure(const char *rel, int err)
{
    bool misses = (err == ENOENT || err == ENOTDIR) && !amph_fwd_below_climbs(rel);

    return misses || amph_ip_near_lacks_descriptors(err) ? err : FWD_BELOW_ASK;
}

/* Goes on in a directory or a file that the look-up has opened. */
static void move_to(struct amph_ip_near_place *p, int fd, const char *rel)
{
    if (p->entered) {
        amph_ip_kernel_close(p->dir);
    } else {
        p->start = p->dir;
        p->whole = p->rel;
    }

    p->entered = true;
    p->dir = fd;
    p->rel = rel;
}

/* Goes on in the directory of the path's last component, by links on the way.  Returns 0, an error for the program, or
 * FWD_BELOW_ASK. */
static int enter_by_links(struct amph_ip_near_place *p)
{
    const char *slash = strrchr(p->rel, '/');
    size_t len = slash ? (size_t)(slash - p->rel) : 0;
    char way[PATH_MAX];

    if (len == 0 || len >= sizeof way)
        return FWD_BELOW_ASK;

    memcpy(way, p->rel, len);
    way[len] = 0;

    int fd = open_once(p->dir, way, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, true);

    if (fd < 0)
        return open_failure(way, errno);

    move_to(p, fd, slash[1] ? slash + 1 : ".");
    return 0;
}

/* Goes on in what the path leads to, if its last component is a link. */
static int enter_link(struct amph_ip_near_place *p)
{
    int start = p->entered ? p->start : p->dir;
    const char *whole = p->entered ? p->whole : p->rel;
    int fd = open_once(start, whole, O_PATH | O_CLOEXEC, 0, true);

    if (fd < 0)
        return open_failure(whole, errno);

    move_to(p, fd, "");
    return 0;
}

/* Finds the place of a look-up and the way there.  Returns 0, an error for the program, or FWD_BELOW_ASK.  end must
 * follow. */
static int begin(const struct amph_ip_resolved *w, struct amph_ip_near_place *p)
{
    if (!amph_ip_near_place(w, p)) {
        *p = (struct amph_ip_near_place){ .rel = "" };
        return FWD_BELOW_ASK;
    }

    int err = way(p);

    return err == FWD_BELOW_ASK ? enter_by_links(p) : err;
}

/* Goes on in what the path leads to, if the look-up has given FWD_BELOW_ASK, perhaps because of a link.  Returns
 * whether it is to be repeated; else *err_p is its answer. */
static bool try_link(struct amph_ip_near_place *p, int flags, int *err_p)
{
    if (*err_p != FWD_BELOW_ASK || (flags & AT_SYMLINK_NOFOLLOW) || !p->rel[0])
        return false;

    *err_p = enter_link(p);
    return *err_p == 0;
}

static bool end(const struct amph_ip_near_place *p, int err, int *err_p)
{
    amph_ip_near_place_end(p);
    return is_answer(err, err_p);
}

/* ---- calls ---- */

bool amph_ip_near_stat(const struct amph_ip_resolved *w, int flags, struct stat *st, int *err_p)
{
    struct amph_ip_near_place p;

    if (is_directory_itself(w)) {
        *err_p = amph_ip_kernel_fstat(w->dirfd, st) == 0 ? 0 : errno;
        return true;
    }

    int err = begin(w, &p);

    if (!err)
        err = amph_fwd_below_stat(&amph_ip_host_calls, p.dir, p.rel, flags, st);
    if (try_link(&p, flags, &err))
        err = amph_fwd_below_stat(&amph_ip_host_calls, p.dir, p.rel, flags, st);

    return end(&p, err, err_p);
}

/* The place of a path below an open directory, without a look at its open file. */
static bool simple_place(int dir, const char *path, struct amph_ip_near_place *p)
{
    int fd = dir == AT_FDCWD ? amph_ip_cwd()->fd : dir;

    if (AMPH_UNLIKELY(amph_ip_state.debug || amph_ip_state.trace) || !path || fd <= 0 ||
        (dir == AT_FDCWD && !amph_ip_cwd()->name) || !may_use())
        return false;

    *p = (struct amph_ip_near_place){ .dir = fd, .rel = path };
    p->key.base = amph_fdtab_near(fd, &p->readonly);
    p->key.generation = changes_now();
    return p->key.base && !amph_ip_text_error(path) && path[0] && path[0] != '/' &&
           !amph_fwd_below_climbs(path);
}

/* Is it still the same directory?  Another thread may have closed it, or changed the working directory, and its
 * descriptor may be another file's by now. */
static bool is_still_there(int dir, const struct amph_ip_near_place *p)
{
    bool readonly;

    return (dir != AT_FDCWD || amph_ip_cwd()->fd == p->dir) &&
           amph_fdtab_near(p->dir, &readonly) == p->key.base;
}

bool amph_ip_near_stat_simple(int dir, const char *path, int flags, struct stat *st, int *err_p)
{
    struct amph_ip_near_place p;

    if (!simple_place(dir, path, &p))
        return false;

    int err = way(&p);

    if (!err)
        err = amph_fwd_below_stat(&amph_ip_host_calls, p.dir, p.rel, flags, st);

    return is_still_there(dir, &p) && is_answer(err, err_p);
}

bool amph_ip_near_statx(const struct amph_ip_resolved *w, int flags, unsigned mask,
                        struct statx *stx, int *err_p)
{
    struct amph_ip_near_place p;

    if (is_directory_itself(w)) {
        *err_p = libc_statx(w->dirfd, "", AT_EMPTY_PATH, mask, stx) == 0 ? 0 : errno;
        return true;
    }

    int err = begin(w, &p);

    if (!err)
        err = amph_fwd_below_statx(&amph_ip_host_calls, p.dir, p.rel, flags, mask, stx);
    if (try_link(&p, flags, &err))
        err = amph_fwd_below_statx(&amph_ip_host_calls, p.dir, p.rel, flags, mask, stx);

    return end(&p, err, err_p);
}

static int may_access(const struct amph_ip_near_place *p, int amode, int flags)
{
    const struct amph_fwd_host_calls *host = &amph_ip_host_calls;
    int err = amph_fwd_below_access(host, p->dir, p->rel, amode & ~W_OK, flags);

    if (err || !(amode & W_OK))
        return err;
    if (p->readonly || host->faccessat(p->dir, p->rel, amode,
                                       (flags & AT_EACCESS) | (p->rel[0] ? 0 : AT_EMPTY_PATH)) != 0)
        return FWD_BELOW_ASK;

    return 0;
}

bool amph_ip_near_access(const struct amph_ip_resolved *w, int amode, int flags, int *err_p)
{
    struct amph_ip_near_place p;

    int err = begin(w, &p);

    if (!err)
        err = may_access(&p, amode, flags);
    if (try_link(&p, flags, &err))
        err = may_access(&p, amode, flags);

    return end(&p, err, err_p);
}

bool amph_ip_near_readlink(const struct amph_ip_resolved *w, char *target, size_t cap_bytes,
                           size_t *len_p, int *err_p)
{
    const struct amph_fwd_host_calls *host = &amph_ip_host_calls;
    struct amph_ip_near_place p;
    int err = begin(w, &p);

    if (!err)
        err = amph_fwd_below_readlink(host, p.dir, p.rel, target, cap_bytes, len_p);

    return end(&p, err, err_p);
}

/* The path by way of the directory's descriptor.  false: it is too long. */
static bool path_by_fd(const struct amph_ip_near_place *p, char path[PATH_MAX])
{
    struct amph_ip_by_fd n;
    int len = snprintf(path, PATH_MAX, "%s/%s", amph_ip_name_by_fd(p->dir, &n), p->rel);

    return len > 0 && len < PATH_MAX;
}

/* What a failed call means.  Without /proc no file seems to exist; and the server may have more rights. */
static int xattr_error(const struct amph_ip_near_place *p, int err)
{
    struct stat st;

    if (err == ENOENT)
        return amph_fwd_below_stat(&amph_ip_host_calls, p->dir, p->rel, AT_SYMLINK_NOFOLLOW, &st) ==
                       ENOENT
                   ? ENOENT
                   : FWD_BELOW_ASK;

    return err == EACCES || err == EPERM || err == ELOOP || err == ENAMETOOLONG ? FWD_BELOW_ASK
                                                                                : err;
}

static bool has_xattrat(void)
{
    return !__atomic_load_n(&amph_ip_near.no_xattrat, __ATOMIC_RELAXED);
}

/* Reads an attribute, of a link itself.  A kernel, or what filters a process's calls, may not know the first call. */
static ssize_t read_xattr(const struct amph_ip_near_place *p, const char *name, void *value,
                          size_t cap_bytes)
{
    char path[PATH_MAX];
    struct amph_ip_by_fd link;

    if (!p->rel[0]) { /* what a link has led to */
        const char *itself = amph_ip_name_by_fd(p->dir, &link);

        return name ? libc_getxattr(itself, name, value, cap_bytes)
                    : libc_listxattr(itself, value, cap_bytes);
    }

    if (has_xattrat()) {
        ssize_t n = amph_ip_kernel_xattrat(p->dir, p->rel, AT_SYMLINK_NOFOLLOW, name, value,
                                           cap_bytes);

        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;

        __atomic_store_n(&amph_ip_near.no_xattrat, true, __ATOMIC_RELAXED);
    }

    if (!path_by_fd(p, path)) {
        errno = ENAMETOOLONG;
        return -1;
    }

    return name ? libc_lgetxattr(path, name, value, cap_bytes)
                : libc_llistxattr(path, value, cap_bytes);
}

/* Kernels that have the call refuse these on a link with EOPNOTSUPP, so other answers show that the file is none. */
static bool is_acl(const char *name)
{
    return name && strncmp(name, "system.posix_acl_", sizeof "system.posix_acl_" - 1) == 0;
}

static bool shows_no_link(int err)
{
    return has_xattrat() && (err == 0 || err == ENODATA || err == ERANGE || err == ENOENT);
}

bool amph_ip_near_xattr(const struct amph_ip_resolved *w, int flags, const char *name, void *value,
                        size_t cap_bytes, ssize_t *len_p, int *err_p)
{
    struct amph_ip_near_place p;
    struct stat st;
    bool follows = !(flags & AT_SYMLINK_NOFOLLOW);
    bool acl = is_acl(name) && has_xattrat();
    int err = begin(w, &p);

    if (!err && follows && !acl)
        err = amph_fwd_below_stat(&amph_ip_host_calls, p.dir, p.rel, flags, &st);
    if (err && !try_link(&p, flags, &err))
        return end(&p, err, err_p);

    *len_p = read_xattr(&p, name, value, cap_bytes);
    err = *len_p < 0 ? xattr_error(&p, errno) : 0;
    if (follows && acl && p.rel[0] && !shows_no_link(err) &&
        amph_fwd_below_stat(&amph_ip_host_calls, p.dir, p.rel, flags, &st) != 0) {
        err = FWD_BELOW_ASK;
        if (try_link(&p, flags, &err)) {
            *len_p = read_xattr(&p, name, value, cap_bytes);
            err = *len_p < 0 ? xattr_error(&p, errno) : 0;
        }
    }

    return end(&p, err, err_p);
}

/* The flags of an open that the process may make, if the file is of the right type. */
#define FILE_FLAGS \
    (O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_DIRECTORY | O_NOATIME | __O_LARGEFILE)
#define PATH_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) /* allowed beside O_PATH */

#define CHANGE_FLAGS (O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_SYNC)

static bool may_open(int flags)
{
    return !(flags & ~(FILE_FLAGS | (flags & O_DIRECTORY ? O_PATH : 0)));
}

/* A file that is opened to be read can be created as well. */
static bool may_open_to_change(int flags)
{
    int access = flags & O_ACCMODE;
    bool changes = access == O_WRONLY || access == O_RDWR ||
                   (access == O_RDONLY && (flags & O_CREAT));

    return changes && !(flags & ~(CHANGE_FLAGS | (FILE_FLAGS & ~O_DIRECTORY)));
}

int amph_ip_near_look_at(struct amph_ip_near_place *p, int flags, struct stat *st)
{
    int err = way(p);

    if (!err)
        err = amph_fwd_below_stat(&amph_ip_host_calls, p->dir, p->rel, 0, st);
    if (err != FWD_BELOW_ASK)
        return err;

    int fd = open_once(p->dir, p->rel, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW), 0, true);

    p->links = true;
    if (fd < 0) {
        err = open_failure(p->rel, errno);
        return err == ENOTDIR && (flags & O_CREAT) ? FWD_BELOW_ASK : err; /* "file/": EISDIR */
    }

    err = amph_ip_kernel_fstat(fd, st) == 0 ? 0 : FWD_BELOW_ASK;
    amph_ip_kernel_close(fd);
    return err;
}

/* May it be opened to be read?  The descriptor of a file can also change its mode and the like, which the server
 * refuses below a read-only export. */
static int look_to_read(struct amph_ip_near_place *p, int flags)
{
    struct stat st;
    int err = amph_ip_near_look_at(p, flags, &st);
    bool reads = !err && (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !p->readonly));

    return err || reads ? err : FWD_BELOW_ASK;
}

/* Is the file one that the process may read by itself?  The name may have become another file's. */
static bool is_right(struct amph_ip_near_opened *o, int flags)
{
    struct stat st;

    o->directory = flags & O_DIRECTORY;
    if (o->directory)
        return true;
    if (amph_ip_kernel_fstat(o->fd, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return false;

    o->directory = S_ISDIR(st.st_mode);
    return (flags & O_NONBLOCK) ||
           amph_ip_kernel_fcntl(o->fd, F_SETFL, (void *)(long)(flags & O_NOATIME)) == 0;
}

/* A directory with a long name could not be opened at its server later (near_dir.c). */
static bool has_short_name(const struct amph_ip_resolved *w)
{
    size_t above = w->dir ? strlen(w->dir->path) : 0;

    return (!w->dir || above > 0) && above + strlen(w->path) + 1 < AMPH_IP_PATH_INLINE;
}

/* O_NONBLOCK, because a file may have become a FIFO meanwhile. */
static int opening_flags(int flags)
{
    if (flags & O_PATH)
        return flags & PATH_FLAGS;

    return flags & O_DIRECTORY ? flags : flags | O_NONBLOCK;
}

void amph_ip_near_note_file(int fd)
{
    _Atomic int *end_at = &amph_ip_near.memory->files_end;
    int before = atomic_load(end_at);

    if (fd >= FDTAB_MAX)
        return;

    atomic_fetch_or(&amph_ip_near.memory->files[fd / 64], UINT64_C(1) << fd % 64);
    while (before <= fd && !atomic_compare_exchange_weak(end_at, &before, fd + 1))
        ;
}

/* A directory above that was opened to start there is the file itself, if no more is wanted of it. */
static int open_above(struct amph_ip_near_place *p, int flags)
{
    const int wanted = O_PATH | O_DIRECTORY | O_CLOEXEC; /* as climb has opened it */

    if (!p->opened || strcmp(p->rel, ".") != 0 || (flags & ~O_NOFOLLOW) != wanted)
        return -1;

    p->opened = false;
    return p->dir;
}

static bool open_to_read(const struct amph_ip_resolved *w, struct amph_ip_near_place *p, int flags,
                         struct amph_ip_near_opened *o, int *err_p)
{
    *err_p = flags & O_DIRECTORY ? 0 : look_to_read(p, flags);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    o->fd = open_above(p, flags);
    if (o->fd < 0)
        o->fd = amph_ip_near_open_below(p, p->rel, opening_flags(flags), 0);

    o->readonly = p->readonly;
    if (o->fd < 0)
        return is_answer(open_failure(p->rel, errno), err_p);
    if (is_right(o, flags) && (!o->directory || has_short_name(w))) {
        if (!o->directory)
            amph_ip_near_note_file(o->fd);

        return true;
    }

    amph_ip_kernel_close(o->fd);
    return false;
}

bool amph_ip_near_open(const struct amph_ip_resolved *w, int flags, mode_t mode,
                       struct amph_ip_near_opened *o, int *err_p)
{
    struct amph_ip_near_place p;
    bool reads = may_open(flags);

    if (!(reads || may_open_to_change(flags)) || !amph_ip_near_place(w, &p))
        return false;

    bool answered = reads ? open_to_read(w, &p, flags, o, err_p)
                          : amph_ip_near_open_to_change(&p, flags, mode, o, err_p);

    amph_ip_near_place_end(&p);
    return answered;
}

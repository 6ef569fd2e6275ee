/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file calls by path, executed inside the exports.  Each function returns 0 or an errno value.
 * A path is first resolved to a descriptor, of the file or of its directory, and the call is made
 * relative to the descriptor.
 *
 * Layer: iofwd.
 * Thread rule: one thread executes a request.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "iofwd/calls/server_calls.h"
#include "iofwd/server/internal.h"
#include "iofwd/server/state.h"
#include "iofwd/wire/file.h"

static int outcome(long ret)
{
    return ret < 0 ? errno : 0;
}

static int find(struct amph_server_request *rq, const struct amph_server_handle *dir,
                const char *path, struct amph_server_path *pl)
{
    int err = amph_server_path_find(&rq->server->exports, dir ? dir->export : NULL,
                                    dir ? dir->fd : -1, path, pl);

    rq->exec.reason = pl->reason;
    rq->exec.export = pl->export;
    return err;
}

static int writable(struct amph_server_request *rq, const struct amph_server_path *pl)
{
    if (!pl->export->readonly || !(rq->desc->flags & FWD_CALL_CHANGE))
        return 0;

    rq->exec.reason = amph_server_readonly_text;
    return EROFS;
}

/* Returns an O_PATH descriptor of the file at the path, or a negative errno. */
static int reach(struct amph_server_request *rq, const struct amph_server_handle *dir,
                 const char *path, bool follow)
{
    struct amph_server_path pl;

    if (dir && !path[0]) { /* the open file itself, which need not be a directory */
        int same = fcntl(dir->fd, F_DUPFD_CLOEXEC, 0);
        pl.export = rq->exec.export = dir->export;
        int refused = same < 0 ? errno : writable(rq, &pl);
        if (refused && same >= 0)
            close(same);
        return refused ? -refused : same;
    }

    int err = find(rq, dir, path, &pl);
    if (err)
        return -err;

    int fd = amph_server_path_open(&pl, O_PATH | (follow ? 0 : O_NOFOLLOW), 0);

    rq->exec.reason = pl.reason;
    rq->exec.export = pl.export;

    if (fd >= 0 && (err = writable(rq, &pl)) != 0) {
        close(fd);
        return -err;
    }

    return fd;
}

/* The outcome of a call on fd, which is closed.  ret: what the call has returned. */
static int closed(int fd, long ret)
{
    int err = outcome(ret);

    close(fd);
    return err;
}

struct by_fd {
    char text[40];
};

/* Returns a path that leads to the file of an O_PATH descriptor, for calls that take no
 * descriptor. */
static const char *name_of(int fd, struct by_fd *n)
{
    snprintf(n->text, sizeof n->text, "/proc/self/fd/%d", fd);
    return n->text;
}

/* Opens the directory of the path; its export may be read-only.  *last_p: the last component. */
static int look_for_parent(struct amph_server_request *rq, const struct amph_server_handle *dir,
                           const char *path, struct amph_server_path *pl, const char **last_p)
{
    int err = find(rq, dir, path, pl);
    int fd = err ? -err : amph_server_path_parent(pl, last_p);

    rq->exec.reason = pl->reason;
    return fd;
}

/* Opens the directory of the path for a change; EROFS in a read-only export.  *last_p: the last
 * component. */
static int reach_parent(struct amph_server_request *rq, const struct amph_server_handle *dir,
                        const char *path, struct amph_server_path *pl, const char **last_p)
{
    int err;
    int fd = look_for_parent(rq, dir, path, pl, last_p);

    if (fd >= 0 && (err = writable(rq, pl)) != 0) {
        amph_server_path_put_parent(pl, fd);
        return -err;
    }

    return fd;
}

static bool is_itself(const char *last)
{
    return strcmp(last, ".") == 0;
}

/* ---- open ---- */

/* Returns the mode for a new file.  The kernel must apply the client's umask, because a directory's
 * default ACL overrides it.  So each thread that executes requests gets a umask of its own, where
 * that is allowed (some containers forbid it). */
static mode_t new_mode(mode_t mode)
{
    struct amph_server_thread *t = &amph_server_thread;
    mode_t mask = amph_fwd_mode_mask(mode);
    mode_t bits = mode & AMPH_FWD_MODE_BITS;

    if (!bits)
        return 0;
    if (!t->own_umask && unshare(CLONE_FS) != 0)
        return bits & ~mask;

    if (!t->own_umask || t->umask != mask)
        umask(mask);

    t->own_umask = true;
    t->umask = mask;
    return bits;
}

/* Opens a FIFO again, this time waiting for a partner; fd keeps this end open meanwhile and is
 * closed. */
static int wait_fifo(const struct amph_server_request *rq, int fd, int flags)
{
    struct by_fd n;
    int waited;

    while ((waited = open(name_of(fd, &n),
                          (flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)) | O_CLOEXEC)) < 0 &&
           errno == EINTR && !atomic_load(&rq->cancelled))
        ;

    int err = errno;

    close(fd);
    return waited < 0 ? -err : waited;
}

/* Opens a file whose open may block.  Only a worker may do that: another thread returns -EAGAIN
 * with may_block set. */
static int open_slowly(struct amph_server_request *rq, struct amph_server_path *pl, int fd,
                       const struct amph_server_args_open *a)
{
    if (!rq->shared.in_worker) {
        rq->exec.may_block = true;
        rq->exec.newfd = fd;
        return -EAGAIN;
    }

    rq->exec.newfd = -1;
    amph_server_let_wake_signal_in(true);

    if (fd >= 0)
        fd = wait_fifo(rq, fd, a->flags);
    else
        while ((fd = amph_server_path_open(pl, a->flags | O_NOCTTY, new_mode(a->mode))) == -EINTR &&
               !atomic_load(&rq->cancelled))
            ;

    amph_server_let_wake_signal_in(false);
    return fd;
}

/* Opens a path in a read-only export: existing files for reading, FIFOs and devices also for
 * writing.  Afterwards pl may name a path in another export, if links lead there. */
static int open_readonly(struct amph_server_request *rq, struct amph_server_path *pl, int flags)
{
    struct stat st;
    bool reads = (flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC) &&
                 (flags & O_TMPFILE) != O_TMPFILE;
    bool fresh = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);

    if (reads && !(flags & O_CREAT))
        return 0;

    int fd = amph_server_path_open(
        pl, O_PATH | (flags & (O_NOFOLLOW | O_DIRECTORY)) | (fresh ? O_NOFOLLOW : 0), 0);
    bool kept = fd < 0 || fstat(fd, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);

    if (fd >= 0)
        close(fd);
    else if (fd != -ENOENT || !(flags & O_CREAT))
        return fd;

    if (!pl->export->readonly)
        return 0;

    if (fd == -ENOENT) {
        const char *last;
        int parent = amph_server_path_parent(pl, &last);

        if (parent < 0)
            return parent;

        amph_server_path_put_parent(pl, parent);
    }

    if (fd >= 0 && fresh)
        return -EEXIST;

    if (fd < 0 || (kept && !reads)) {
        rq->exec.reason = amph_server_readonly_text;
        return -EROFS;
    }

    return 0;
}

/* Opens the path without waiting for a partner of a FIFO.  Returns 0 or a negative errno; *fd_p:
 * the descriptor, or the negative errno of the open. */
static int open_target(struct amph_server_request *rq, struct amph_server_path *pl,
                       const struct amph_server_args_open *a, int *fd_p)
{
    bool path_only = a->flags & O_PATH;

    do {
        bool readonly = pl->export->readonly && !path_only;
        int refused = readonly ? open_readonly(rq, pl, a->flags) : 0;

        if (refused)
            return refused;

        readonly = readonly && pl->export->readonly;

        int flags = readonly ? a->flags & ~(O_CREAT | O_EXCL | O_TRUNC) : a->flags;

        *fd_p = amph_server_path_open(pl, path_only ? flags : flags | O_NONBLOCK | O_NOCTTY,
                                      new_mode(a->mode));
    } while (*fd_p == -EXDEV);

    return 0;
}

static int open_quickly(struct amph_server_request *rq, struct amph_server_path *pl,
                        const struct amph_server_args_open *a, struct stat *st)
{
    bool nonblock = a->flags & O_NONBLOCK;
    bool path_only = a->flags & O_PATH;
    bool write_only = (a->flags & O_ACCMODE) == O_WRONLY;
    int fd;
    int err = open_target(rq, pl, a, &fd);

    if (err)
        return err;

    if (fd == -ENXIO && !nonblock && write_only)
        fd = open_slowly(rq, pl, -1, a);

    if (fd < 0)
        return fd;

    err = fstat(fd, st) != 0 ? errno : 0;
    if (!err && !path_only && pl->export->readonly && (a->flags & O_ACCMODE) != O_RDONLY &&
        S_ISREG(st->st_mode))
        err = EROFS; /* a moment ago it was a FIFO or a device, which may be written */

    if (err) {
        close(fd);
        return -err;
    }

    if (nonblock || path_only || S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
        return fd;
    if (S_ISFIFO(st->st_mode) && (a->flags & O_ACCMODE) == O_RDONLY)
        return open_slowly(rq, pl, fd, a);

    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

int amph_server_do_open(struct amph_server_request *rq, struct amph_server_args_open *a)
{
    struct amph_server_path pl;
    struct stat st = { .st_mode = S_IFIFO };
    int err = find(rq, a->path_dir, a->path, &pl);

    if (err)
        return err;

    if (a->path_dir && !a->path[0])
        amph_server_path_reopen(&pl);

    int fd = rq->exec.newfd >= 0 ? open_slowly(rq, &pl, rq->exec.newfd, a)
                                 : open_quickly(rq, &pl, a, &st);

    rq->exec.reason = pl.reason;
    if (fd < 0)
        return -fd;

    rq->exec.newfd = fd;
    rq->exec.newfd_type = st.st_mode & S_IFMT;
    rq->exec.export = pl.export;
    if (S_ISREG(st.st_mode))
        rq->exec.line = amph_fwd_versions_line_of(st.st_dev, st.st_ino);

    return 0;
}

/* ---- calls on what a path names ---- */

/* Stats a path of one component in one system call instead of three.  Such a path cannot leave the
 * export unless it is a link.  true: *err_p is the result. */
static bool stat_at_once(struct amph_server_request *rq, struct amph_server_args_stat *a,
                         int *err_p)
{
    struct amph_server_path pl;

    if ((a->path_dir && !a->path[0]) || find(rq, a->path_dir, a->path, &pl) != 0 || !pl.rel[0] ||
        pl.rel[0] == '.' || strchr(pl.rel, '/') || pl.export->outer)
        return false;

    *err_p = outcome(fstatat(pl.base, pl.rel, &a->st, AT_SYMLINK_NOFOLLOW));
    return *err_p == ENOENT ||
           (!*err_p && (!S_ISLNK(a->st.st_mode) || (a->flags & AT_SYMLINK_NOFOLLOW)));
}

int amph_server_do_stat(struct amph_server_request *rq, struct amph_server_args_stat *a)
{
    int done;

    if (stat_at_once(rq, a, &done))
        return done;

    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    return fd < 0 ? -fd : closed(fd, fstat(fd, &a->st));
}

int amph_server_do_statx(struct amph_server_request *rq, struct amph_server_args_statx *a)
{
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    return fd < 0 ? -fd : closed(fd, statx(fd, "", AT_EMPTY_PATH, (unsigned)a->mask, &a->stx));
}

/* Checks the access to the file of an O_PATH descriptor.  Kernels before 5.8, and sandboxes that do not know the
 * call, check a path only; there the kernel takes 2 us longer. */
static int check_access(int fd, int mode, int flags)
{
    struct by_fd n;
    int err = outcome(faccessat(fd, "", mode, flags | AT_EMPTY_PATH));

    if (err == EINVAL || err == ENOSYS || err == EPERM)
        err = outcome(faccessat(AT_FDCWD, name_of(fd, &n), mode, flags));

    return err;
}

int amph_server_do_access(struct amph_server_request *rq, struct amph_server_args_access *a)
{
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    if (fd < 0)
        return -fd;

    int err = check_access(fd, (int)a->amode, a->flags & AT_EACCESS);
    struct stat st;

    if (!err && (a->amode & W_OK) && rq->exec.export->readonly && fstat(fd, &st) == 0 &&
        (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        err = EROFS;

    close(fd);
    return err;
}

int amph_server_do_chmod(struct amph_server_request *rq, struct amph_server_args_chmod *a)
{
    struct by_fd n;
    struct stat st;
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    if (fd < 0)
        return -fd;

    int err = outcome(fstat(fd, &st));

    if (!err)
        err = S_ISLNK(st.st_mode) ? EOPNOTSUPP : outcome(chmod(name_of(fd, &n), a->mode & 07777));

    close(fd);
    return err;
}

int amph_server_do_chown(struct amph_server_request *rq, struct amph_server_args_chown *a)
{
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    return fd < 0 ? -fd : closed(fd, fchownat(fd, "", a->uid, a->gid, AT_EMPTY_PATH));
}

int amph_server_do_utimens(struct amph_server_request *rq, struct amph_server_args_utimens *a)
{
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    return fd < 0 ? -fd : closed(fd, utimensat(fd, "", a->times, AT_EMPTY_PATH));
}

int amph_server_do_truncate(struct amph_server_request *rq, struct amph_server_args_truncate *a)
{
    struct by_fd n;
    struct stat st;
    int fd = reach(rq, a->path_dir, a->path, true);

    if (fd < 0)
        return -fd;

    if (fstat(fd, &st) == 0)
        rq->exec.line = amph_fwd_versions_line_of(st.st_dev, st.st_ino);

    int err = outcome(truncate(name_of(fd, &n), a->length));

    close(fd);
    return err;
}

int amph_server_do_statfs(struct amph_server_request *rq, struct amph_server_args_statfs *a)
{
    int fd = reach(rq, a->path_dir, a->path, true);

    if (fd < 0)
        return -fd;

    int err = outcome(fstatfs(fd, &a->fs));

    if (rq->exec.export->readonly)
        a->fs.f_flags |= ST_RDONLY;

    close(fd);
    return err;
}

int amph_server_do_getxattr(struct amph_server_request *rq, struct amph_server_args_getxattr *a)
{
    struct by_fd n;
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    if (fd < 0)
        return -fd;

    ssize_t len = getxattr(name_of(fd, &n), a->name, a->value, a->value_cap);
    int err = outcome(len);

    a->value_len = err ? 0 : (size_t)len;
    close(fd);
    return err;
}

int amph_server_do_listxattr(struct amph_server_request *rq, struct amph_server_args_listxattr *a)
{
    struct by_fd n;
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    if (fd < 0)
        return -fd;

    ssize_t len = listxattr(name_of(fd, &n), a->names, a->names_cap);
    int err = outcome(len);

    a->names_len = err ? 0 : (size_t)len;
    close(fd);
    return err;
}

int amph_server_do_setxattr(struct amph_server_request *rq, struct amph_server_args_setxattr *a)
{
    struct by_fd n;
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    return fd < 0 ? -fd
                  : closed(fd, setxattr(name_of(fd, &n), a->name, a->value, a->value_len, a->how));
}

int amph_server_do_removexattr(struct amph_server_request *rq,
                               struct amph_server_args_removexattr *a)
{
    struct by_fd n;
    int fd = reach(rq, a->path_dir, a->path, !(a->flags & AT_SYMLINK_NOFOLLOW));

    return fd < 0 ? -fd : closed(fd, removexattr(name_of(fd, &n), a->name));
}

int amph_server_do_readlink(struct amph_server_request *rq, struct amph_server_args_readlink *a)
{
    int fd = reach(rq, a->path_dir, a->path, false);

    if (fd < 0)
        return -fd;

    ssize_t len = readlinkat(fd, "", a->target, a->target_cap);

    /* readlinkat on a descriptor reports ENOENT if the file is no link; by path the error is EINVAL. */
    bool by_path = !a->path_dir || a->path[0];
    int err = len < 0 ? errno : 0;

    if (err == ENOENT && by_path)
        err = EINVAL;

    a->target_len = err ? 0 : (size_t)len;
    close(fd);
    return err;
}

/* ---- calls on a name in a directory ---- */

/* Returns EEXIST if another export begins at the new name: like a mount point, it exists already. */
static int new_name(const struct amph_server_path *pl)
{
    return amph_server_path_is_export(pl, false) ? EEXIST : 0;
}

/* Opens the directory in which the path is to be made.  *last_p: the new name. */
static int reach_new(struct amph_server_request *rq, const struct amph_server_handle *dir,
                     const char *path, struct amph_server_path *pl, const char **last_p)
{
    int fd = reach_parent(rq, dir, path, pl, last_p);
    int err = fd < 0 ? 0 : new_name(pl);

    if (!err)
        return fd;

    amph_server_path_put_parent(pl, fd);
    return -err;
}

/* The outcome of a call in the directory fd, which is put back. */
static int put_back(struct amph_server_path *pl, int fd, long ret)
{
    int err = outcome(ret);

    amph_server_path_put_parent(pl, fd);
    return err;
}

int amph_server_do_mkdir(struct amph_server_request *rq, struct amph_server_args_mkdir *a)
{
    struct amph_server_path pl;
    const char *last;
    int fd = reach_new(rq, a->path_dir, a->path, &pl, &last);

    return fd < 0 ? -fd : put_back(&pl, fd, mkdirat(fd, last, new_mode(a->mode) & 07777));
}

int amph_server_do_mknod(struct amph_server_request *rq, struct amph_server_args_mknod *a)
{
    struct amph_server_path pl;
    const char *last;
    int fd = reach_new(rq, a->path_dir, a->path, &pl, &last);

    return fd < 0 ? -fd : put_back(&pl, fd, mknodat(fd, last, new_mode(a->mode), a->dev));
}

int amph_server_do_unlink(struct amph_server_request *rq, struct amph_server_args_unlink *a)
{
    struct amph_server_path pl;
    const char *last;
    int fd = reach_parent(rq, a->path_dir, a->path, &pl, &last);

    if (fd < 0)
        return -fd;

    bool dir = a->flags & AT_REMOVEDIR;

    /* an export cannot be removed, like a mount point */
    bool stays = (is_itself(last) && fd == pl.export->fd) || amph_server_path_is_export(&pl, true);
    int err;

    if (stays)
        err = dir ? EBUSY : EISDIR;
    else
        err = outcome(unlinkat(fd, last, dir ? AT_REMOVEDIR : 0));

    amph_server_path_put_parent(&pl, fd);
    return err;
}

int amph_server_do_symlink(struct amph_server_request *rq, struct amph_server_args_symlink *a)
{
    struct amph_server_path pl;
    const char *last;
    int fd = reach_new(rq, a->path_dir, a->path, &pl, &last);

    return fd < 0 ? -fd : put_back(&pl, fd, symlinkat(a->target, fd, last));
}

/* Refuses a call whose two paths are in different exports, as between two mounts. */
static int other_export(struct amph_server_request *rq, const struct amph_server_path *from,
                        const struct amph_server_path *to)
{
    if (from->export == to->export)
        return 0;

    rq->exec.reason = "the two paths lie in different exports";
    return EXDEV;
}

/* The two paths of a call lead to the error err.  But the kernel searches the first name's directory
 * before it turns to the second path, so that is what it reports first. */
static int after_search(int from_fd, int err)
{
    return faccessat(from_fd, ".", F_OK, AT_EACCESS) != 0 && errno == EACCES ? EACCES : err;
}

int amph_server_do_rename(struct amph_server_request *rq, struct amph_server_args_rename *a)
{
    struct amph_server_path from, to;
    const char *from_last, *to_last;

    if ((a->flags & RENAME_EXCHANGE) && (a->flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)))
        return EINVAL;

    int from_fd = look_for_parent(rq, a->from_dir, a->from, &from, &from_last);
    if (from_fd < 0)
        return -from_fd;

    int to_fd = look_for_parent(rq, a->to_dir, a->to, &to, &to_last);
    int err = to_fd < 0 ? -to_fd : other_export(rq, &from, &to);

    if (err)
        err = after_search(from_fd, err);
    else
        err = writable(rq, &from);

    if (!err && (amph_server_path_is_export(&from, true) || amph_server_path_is_export(&to, true)))
        err = EBUSY;

    if (!err)
        err = outcome(syscall(SYS_renameat2, from_fd, from_last, to_fd, to_last, a->flags));

    if (to_fd >= 0)
        amph_server_path_put_parent(&to, to_fd);

    amph_server_path_put_parent(&from, from_fd);
    return err;
}

/* Opens the file that gets a second name.  It needs no check for a read-only export here: the check
 * of the new name's directory finds that too. */
static int reach_source(struct amph_server_request *rq, const struct amph_server_args_link *a,
                        struct amph_server_path *from)
{
    from->export = a->from_dir ? a->from_dir->export : NULL;
    if (a->from_dir && !a->from[0])
        return reach(rq, a->from_dir, "", true);

    int err = find(rq, a->from_dir, a->from, from);
    int follow = a->flags & AT_SYMLINK_FOLLOW ? 0 : O_NOFOLLOW;
    int fd = err ? -err : amph_server_path_open(from, O_PATH | follow, 0);

    rq->exec.reason = from->reason;
    return fd;
}

int amph_server_do_link(struct amph_server_request *rq, struct amph_server_args_link *a)
{
    struct amph_server_path from, to;
    struct by_fd n;
    const char *to_last;
    int from_fd = reach_source(rq, a, &from);

    if (from_fd < 0)
        return -from_fd;

    int to_fd = reach_parent(rq, a->to_dir, a->to, &to, &to_last);
    int err = to_fd < 0 ? -to_fd : other_export(rq, &from, &to);

    if (!err)
        err = new_name(&to);

    if (!err)
        err = outcome(linkat(AT_FDCWD, name_of(from_fd, &n), to_fd, to_last, AT_SYMLINK_FOLLOW));

    if (to_fd >= 0)
        amph_server_path_put_parent(&to, to_fd);

    close(from_fd);
    return err;
}

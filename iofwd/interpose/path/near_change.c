/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes that the process makes by itself: files that it opens to write them, and names; see near.h.
 *
 * It moves the versions of what it changes as a server would (near_versions.h).  A name is changed in its directory,
 * which is opened below the export first.  What the process must not do is left to the server,
 * which may have more rights, and so is each error that a caller does not commonly expect.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "iofwd/calls/names.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/near_exports.h"
#include "iofwd/interpose/path/near_place.h"
#include "iofwd/interpose/path/near_versions.h"

/* ---- files ---- */

/* O_NONBLOCK, because a file may have become a FIFO meanwhile; a new one is none. */
static bool is_opened_aside(int flags)
{
    return !(flags & O_NONBLOCK) && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
}

/* Is it a regular file?  Takes back O_NONBLOCK. */
static bool is_right(int fd, int flags, struct stat *st)
{
    return amph_ip_kernel_fstat(fd, st) == 0 && S_ISREG(st->st_mode) &&
           (!is_opened_aside(flags) ||
            amph_ip_kernel_fcntl(fd, F_SETFL, (void *)(long)(flags & (O_APPEND | O_NOATIME))) == 0);
}

/* Is there a regular file, or will there be one?  Returns 0, ENOENT or FWD_BELOW_ASK. */
static int look_to_change(struct amph_ip_near_place *p, int flags)
{
    struct stat st;

    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return 0;

    int err = amph_ip_near_look_at(p, flags, &st);

    if (err == ENOENT && (flags & O_CREAT))
        return 0;

    return err || S_ISREG(st.st_mode) ? err : FWD_BELOW_ASK;
}

/* Errors of an open that the program gets as they are. */
static int open_error(int err, const char *path, int flags)
{
    bool exists = err == EEXIST && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    bool misses = err == ENOENT && !amph_fwd_below_climbs(path);

    return exists || misses ? err : FWD_BELOW_ASK;
}

/* Opens the file.  e: the entry of one that is written, or NULL.  Returns 0, an error for the program, or
 * FWD_BELOW_ASK. */
static int open_file(struct amph_ip_near_place *p, int flags, mode_t mode,
                     struct amph_ip_near_writing *e, struct amph_ip_near_opened *o)
{
    struct stat st;

    o->fd = amph_ip_near_open_below(p, p->rel, flags | (is_opened_aside(flags) ? O_NONBLOCK : 0),
                                    mode);
    if (o->fd < 0)
        return amph_ip_near_lacks_descriptors(errno) ? errno : open_error(errno, p->rel, flags);

    if (!is_right(o->fd, flags, &st)) {
        amph_ip_kernel_close(o->fd);
        return FWD_BELOW_ASK;
    }

    if (e)
        amph_ip_near_writing_fill(e, o->fd, &st);

    amph_ip_near_note_file(o->fd);
    return 0;
}

bool amph_ip_near_open_to_change(struct amph_ip_near_place *p, int flags, mode_t mode,
                                 struct amph_ip_near_opened *o, int *err_p)
{
    bool names = flags & (O_CREAT | O_TRUNC);

    if (p->readonly || !amph_ip_near_may_change())
        return false;

    *err_p = look_to_change(p, flags);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    struct amph_ip_near_writing *e = writes ? amph_ip_near_writing_reserve() : NULL;
    struct amph_fwd_writer *record = names ? amph_ip_near_change_begin(flags & O_TRUNC) : NULL;

    o->directory = false;
    o->readonly = false;
    *err_p = open_file(p, flags, mode, e, o);
    if (*err_p && e)
        amph_ip_near_writing_give_up(e);

    if (names)
        amph_ip_near_change_end(record, flags & O_TRUNC);

    return *err_p != FWD_BELOW_ASK;
}

/* ---- names ---- */

/* The directory of a name that is going to change. */
struct parent {
    struct amph_ip_near_place place; /* where the directory was found */
    int fd;
    bool opened;      /* fd is the call's, beside that of the place */
    const char *name; /* in it */
    char path[PATH_MAX];
};

/* Is it a name that is given to a file, in its simplest form? */
static bool is_name(const char *name)
{
    return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Finds the name's directory.  Returns 0, ENOENT or FWD_BELOW_ASK. */
static int find_parent(struct parent *d)
{
    char *slash = strrchr(d->path, '/');

    d->fd = d->place.dir;
    d->name = slash ? slash + 1 : d->path;
    if (!is_name(d->name))
        return FWD_BELOW_ASK;
    if (!slash)
        return 0;

    *slash = 0;
    d->fd = amph_ip_near_open_below(&d->place, d->path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    d->opened = d->fd >= 0;
    return d->opened ? 0 : open_error(errno, d->path, 0);
}

static void close_parent(const struct parent *d)
{
    if (d->opened)
        amph_ip_kernel_close(d->fd);

    amph_ip_near_place_end(&d->place);
}

/* Slashes at the end say that a directory is meant. */
static void cut_slashes(char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        path[--len] = 0;
}

/* Opens the directory of a name.  directory: the call is about directories only.  Returns 0, ENOENT or
 * FWD_BELOW_ASK; only after 0 close_parent must follow. */
static int open_parent(const struct amph_ip_resolved *w, bool directory, struct parent *d)
{
    if (!amph_ip_near_place(w, &d->place))
        return FWD_BELOW_ASK;

    size_t len = strlen(d->place.rel);
    int err = FWD_BELOW_ASK;

    d->opened = false;
    if (!d->place.readonly && amph_ip_near_may_change() && len < sizeof d->path) {
        memcpy(d->path, d->place.rel, len + 1);
        if (directory)
            cut_slashes(d->path);

        err = find_parent(d);
    }

    if (err)
        close_parent(d);

    return err;
}

/* After a change of names: what was found on the way to a directory holds no more.  Returns what the program gets, or
 * FWD_BELOW_ASK. */
static int end_change(struct amph_fwd_writer *record, int failed)
{
    static const int expected[] = { ENOENT, EEXIST, ENOTEMPTY, EISDIR, ENOTDIR };
    int err = failed ? errno : 0;

    amph_ip_near_change_end(record, false);
    if (!err) {
        atomic_fetch_add(&amph_ip_near.memory->changes, 1);
        return 0;
    }

    for (size_t i = 0; i < AMPH_COUNTOF(expected); i++)
        if (err == expected[i])
            return err;

    return FWD_BELOW_ASK;
}

/* What a call changes, besides the name; each uses what it needs. */
struct change {
    unsigned how; /* flags, or a mode */
    const char *target;
    uid_t uid;
    gid_t gid;
    const struct timespec *times;
};

/* A change of one name in its directory. */
typedef int (*change_fn)(int dir, const char *name, const struct change *c);

static int remove_name(int dir, const char *name, const struct change *c)
{
    return libc_unlinkat(dir, name, (int)c->how);
}

static int make_directory(int dir, const char *name, const struct change *c)
{
    return libc_mkdirat(dir, name, c->how);
}

static int make_symlink(int dir, const char *name, const struct change *c)
{
    return libc_symlinkat(c->target, dir, name);
}

static bool change_name(const struct amph_ip_resolved *w, bool directory, change_fn change,
                        const struct change *c, int *err_p)
{
    struct parent d;

    *err_p = open_parent(w, directory, &d);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    struct amph_fwd_writer *record = amph_ip_near_change_begin(false);

    *err_p = end_change(record, change(d.fd, d.name, c));
    close_parent(&d);
    return *err_p != FWD_BELOW_ASK;
}

bool amph_ip_near_unlink(const struct amph_ip_resolved *w, int flags, int *err_p)
{
    /* a directory that has been removed has no handle at its server */
    if ((flags & AT_REMOVEDIR) && w->dir && w->dir->near && strcmp(w->path, ".") == 0) {
        *err_p = EINVAL;
        return true;
    }

    return change_name(w, flags & AT_REMOVEDIR, remove_name,
                       &(struct change){ .how = (unsigned)flags }, err_p);
}

/* The directory of an export itself exists. */
static bool is_export(const struct amph_ip_resolved *w)
{
    struct amph_ip_near_place p;

    return !w->dir && amph_ip_near_place(w, &p) && strcmp(p.rel, ".") == 0;
}

bool amph_ip_near_mkdir(const struct amph_ip_resolved *w, mode_t mode, int *err_p)
{
    if (is_export(w)) { /* "mkdir -p" begins with it */
        *err_p = EEXIST;
        return true;
    }

    return change_name(w, true, make_directory, &(struct change){ .how = mode }, err_p);
}

bool amph_ip_near_symlink(const char *target, const struct amph_ip_resolved *w, int *err_p)
{
    return change_name(w, false, make_symlink, &(struct change){ .target = target }, err_p);
}

/* As open_parent, of two names. */
static int open_parents(const struct amph_ip_resolved *from, const struct amph_ip_resolved *to,
                        struct parent d[2])
{
    int err = open_parent(from, false, &d[0]);

    if (err)
        return err;

    err = open_parent(to, false, &d[1]);
    if (err)
        close_parent(&d[0]);

    return err;
}

bool amph_ip_near_rename(const struct amph_ip_resolved *from, const struct amph_ip_resolved *to,
                         unsigned flags, int *err_p)
{
    struct parent d[2];

    *err_p = open_parents(from, to, d);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    struct amph_fwd_writer *record = amph_ip_near_change_begin(false);

    *err_p = end_change(record, flags
                                    ? libc_renameat2(d[0].fd, d[0].name, d[1].fd, d[1].name, flags)
                                    : libc_renameat(d[0].fd, d[0].name, d[1].fd, d[1].name));
    close_parent(&d[0]);
    close_parent(&d[1]);
    return *err_p != FWD_BELOW_ASK;
}

/* A link that is to be followed is the server's. */
bool amph_ip_near_link(const struct amph_ip_resolved *from, const struct amph_ip_resolved *to,
                       int flags, int *err_p)
{
    struct parent d[2];

    if (flags)
        return false;

    *err_p = open_parents(from, to, d);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    struct amph_fwd_writer *record = amph_ip_near_change_begin(false);

    *err_p = end_change(record, libc_linkat(d[0].fd, d[0].name, d[1].fd, d[1].name, 0));
    close_parent(&d[0]);
    close_parent(&d[1]);
    return *err_p != FWD_BELOW_ASK;
}

bool amph_ip_near_link_file(int from_dir, const char *from, const struct amph_ip_resolved *to,
                            int flags, int *err_p)
{
    struct parent d = { .place.readonly = false };

    *err_p = open_parent(to, false, &d);
    if (*err_p == FWD_BELOW_ASK) {
        *err_p = d.place.readonly ? EROFS : EXDEV;
        return false;
    }
    if (*err_p)
        return true;

    struct amph_fwd_writer *record = amph_ip_near_change_begin(false);

    *err_p = libc_linkat(from_dir, from, d.fd, d.name, flags) == 0 ? 0 : errno;
    end_change(record, *err_p);
    close_parent(&d);
    return true;
}

/* ---- attributes ---- */

/* A change of the file behind fd, which is open only to name it (O_PATH). */
typedef int (*attribute_fn)(int fd, const struct change *c);

/* The file is opened first, so that the call changes what was found below the export.  The version of all names moves,
 * as at a server.  What fails is left to the server. */
static bool change_attribute(const struct amph_ip_resolved *w, int flags, attribute_fn change,
                             const struct change *c, int *err_p)
{
    int how = O_PATH | O_CLOEXEC | (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
    struct amph_ip_near_place p;

    if (!amph_ip_near_place(w, &p))
        return false;

    bool may = !p.readonly && amph_ip_near_may_change();
    int fd = may ? amph_ip_near_open_below(&p, p.rel, how, 0) : -1;

    *err_p = may && fd < 0 ? open_error(errno, p.rel, 0) : FWD_BELOW_ASK;
    amph_ip_near_place_end(&p);
    if (fd < 0)
        return *err_p != FWD_BELOW_ASK;

    struct amph_fwd_writer *record = amph_ip_near_change_begin(false);

    *err_p = change(fd, c) == 0 ? 0 : FWD_BELOW_ASK;
    amph_ip_near_change_end(record, false);
    amph_ip_kernel_close(fd);
    return *err_p != FWD_BELOW_ASK;
}

/* Links have no mode of their own. */
static int set_mode(int fd, const struct change *c)
{
    struct amph_ip_by_fd link;
    struct stat st;

    if (amph_ip_kernel_fstat(fd, &st) != 0 || S_ISLNK(st.st_mode))
        return -1;

    return libc_fchmodat(AT_FDCWD, amph_ip_name_by_fd(fd, &link), c->how, 0);
}

static int set_owner(int fd, const struct change *c)
{
    return libc_fchownat(fd, "", c->uid, c->gid, AT_EMPTY_PATH);
}

static int set_times(int fd, const struct change *c)
{
    return libc_utimensat(fd, "", c->times, AT_EMPTY_PATH);
}

bool amph_ip_near_chmod(const struct amph_ip_resolved *w, mode_t mode, int flags, int *err_p)
{
    return change_attribute(w, flags, set_mode, &(struct change){ .how = mode & 07777 }, err_p);
}

bool amph_ip_near_chown(const struct amph_ip_resolved *w, uid_t uid, gid_t gid, int flags,
                        int *err_p)
{
    return change_attribute(w, flags, set_owner, &(struct change){ .uid = uid, .gid = gid }, err_p);
}

bool amph_ip_near_utimens(const struct amph_ip_resolved *w, const struct timespec *times, int flags,
                          int *err_p)
{
    return change_attribute(w, flags, set_times, &(struct change){ .times = times }, err_p);
}

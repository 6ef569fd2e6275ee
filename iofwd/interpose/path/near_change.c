/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes that the process makes by itself: files that it opens to write them, and names; see near.h.
 *
 * It moves the versions of what it changes as a server would (near_versions.h).  A name is changed in its directory,
 * which is opened without links and below the export first.  What the process must not do is left to the server,
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
    return libc_fstat(fd, st) == 0 && S_ISREG(st->st_mode) &&
           (!is_opened_aside(flags) ||
            amph_ip_kernel_fcntl(fd, F_SETFL, (void *)(long)(flags & (O_APPEND | O_NOATIME))) == 0);
}

/* Is there a regular file, or will there be one?  Returns 0, ENOENT or FWD_BELOW_ASK. */
static int look_to_change(const struct amph_ip_near_place *p, int flags)
{
    struct stat st;

    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return 0;

    int err = amph_ip_near_look_at(p, &st);

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

/* Opens the file.  Returns 0, an error for the program, or FWD_BELOW_ASK. */
static int open_file(const struct amph_ip_near_place *p, int flags, mode_t mode,
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

    amph_ip_near_writing_fill(e, o->fd, &st);
    amph_ip_near_note_file(o->fd);
    return 0;
}

bool amph_ip_near_open_to_change(const struct amph_ip_near_place *p, int flags, mode_t mode,
                                 struct amph_ip_near_opened *o, int *err_p)
{
    bool names = flags & (O_CREAT | O_TRUNC);

    if (p->readonly || !amph_ip_near_may_change())
        return false;

    *err_p = look_to_change(p, flags);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    struct amph_ip_near_writing *e = amph_ip_near_writing_reserve();

    struct amph_fwd_writer *record = names ? amph_ip_near_change_begin(flags & O_TRUNC) : NULL;

    o->directory = false;
    o->readonly = false;
    *err_p = open_file(p, flags, mode, e, o);
    if (*err_p)
        amph_ip_near_writing_give_up(e);

    if (names)
        amph_ip_near_change_end(record, flags & O_TRUNC);

    return *err_p != FWD_BELOW_ASK;
}

/* ---- names ---- */

/* The directory of a name that is going to change. */
struct parent {
    int fd;
    bool opened;      /* fd is the call's */
    const char *name; /* in it */
    char dir[PATH_MAX];
};

/* Is it a name that is given to a file, in its simplest form? */
static bool is_name(const char *name)
{
    return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Returns 0, ENOENT or FWD_BELOW_ASK. */
static int open_parent(const struct amph_ip_resolved *w, struct parent *d)
{
    struct amph_ip_near_place p;

    if (!amph_ip_near_place(w, &p) || p.readonly || !amph_ip_near_may_change())
        return FWD_BELOW_ASK;

    const char *slash = strrchr(p.rel, '/');
    size_t len = slash ? (size_t)(slash - p.rel) : 0;

    *d = (struct parent){ .fd = p.dir, .name = slash ? slash + 1 : p.rel };
    if (!is_name(d->name) || len >= sizeof d->dir)
        return FWD_BELOW_ASK;
    if (!slash)
        return 0;

    memcpy(d->dir, p.rel, len);
    d->dir[len] = 0;
    d->fd = amph_ip_near_open_below(&p, d->dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    d->opened = d->fd >= 0;
    return d->opened ? 0 : open_error(errno, d->dir, 0);
}

static void close_parent(const struct parent *d)
{
    if (d->opened)
        amph_ip_kernel_close(d->fd);
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

/* A change of one name in its directory; how: flags, or a mode. */
typedef int (*change_fn)(int dir, const char *name, unsigned how);

static int remove_name(int dir, const char *name, unsigned how)
{
    return libc_unlinkat(dir, name, (int)how);
}

static int make_directory(int dir, const char *name, unsigned how)
{
    return libc_mkdirat(dir, name, how);
}

static bool change_name(const struct amph_ip_resolved *w, change_fn change, unsigned how,
                        int *err_p)
{
    struct parent d;

    *err_p = open_parent(w, &d);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    struct amph_fwd_writer *record = amph_ip_near_change_begin(false);

    *err_p = end_change(record, change(d.fd, d.name, how));
    close_parent(&d);
    return *err_p != FWD_BELOW_ASK;
}

bool amph_ip_near_unlink(const struct amph_ip_resolved *w, int flags, int *err_p)
{
    return change_name(w, remove_name, (unsigned)flags, err_p);
}

bool amph_ip_near_mkdir(const struct amph_ip_resolved *w, mode_t mode, int *err_p)
{
    return change_name(w, make_directory, mode, err_p);
}

bool amph_ip_near_rename(const struct amph_ip_resolved *from, const struct amph_ip_resolved *to,
                         unsigned flags, int *err_p)
{
    struct parent d[2];

    *err_p = open_parent(from, &d[0]);
    if (*err_p)
        return *err_p != FWD_BELOW_ASK;

    *err_p = open_parent(to, &d[1]);
    if (*err_p) {
        close_parent(&d[0]);
        return *err_p != FWD_BELOW_ASK;
    }

    struct amph_fwd_writer *record = amph_ip_near_change_begin(false);

    *err_p = end_change(record, flags
                                    ? libc_renameat2(d[0].fd, d[0].name, d[1].fd, d[1].name, flags)
                                    : libc_renameat(d[0].fd, d[0].name, d[1].fd, d[1].name));
    close_parent(&d[0]);
    close_parent(&d[1]);
    return *err_p != FWD_BELOW_ASK;
}

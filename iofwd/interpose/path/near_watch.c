/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inotify below an export that this process can open by itself (near.h).  What other programs change there, they change
 * by the kernel of this host, directly or through its servers, which reports it.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/interpose/path/near.h"

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near_exports.h"
#include "iofwd/interpose/path/near_place.h"
#include "iofwd/interpose/path/resolve.h"

static int watch_local(int notes, const char *path, uint32_t mask)
{
    return (int)libc_syscall(SYS_inotify_add_watch, notes, (long)path, (long)mask, 0, 0, 0);
}

/* The name in /proc is itself a link, which is to be followed; one behind it is not. */
static int watch_open(int notes, int fd, uint32_t mask)
{
    struct amph_ip_by_fd link;

    return watch_local(notes, amph_ip_name_by_fd(fd, &link), mask & ~(uint32_t)IN_DONT_FOLLOW);
}

/* *link_p: there is a link on the way, which only a real name avoids. */
static int watch_near(const struct amph_ip_resolved *w, int notes, uint32_t mask, bool *link_p)
{
    struct amph_ip_near_place p;
    int flags = O_PATH | O_CLOEXEC | (mask & IN_DONT_FOLLOW ? O_NOFOLLOW : 0);

    if (w->dir && w->dir->near && !w->path[0])
        return watch_open(notes, w->dirfd, mask);
    if (!amph_ip_near_place(w, &p))
        return amph_ip_fail(EOPNOTSUPP);

    int fd = amph_ip_near_open_below(&p, p.rel, flags, 0);
    int err = errno;

    amph_ip_near_place_end(&p);
    *link_p = fd < 0 && err == ELOOP;
    if (fd < 0)
        return amph_ip_fail(err == ELOOP || err == EXDEV ? EOPNOTSUPP : err);

    int result = watch_open(notes, fd, mask);

    err = errno;
    amph_ip_kernel_close(fd);
    errno = err;
    return result;
}

/* Resolves the path and watches what it leads to. */
static int watch(int notes, const char *path, uint32_t mask, bool *link_p)
{
    struct amph_ip_resolved w;

    *link_p = false;
    if (!amph_ip_resolve_near(&w, AT_FDCWD, path, false))
        return -1;
    if (w.local)
        return watch_local(notes, w.path, mask);

    int result = watch_near(&w, notes, mask, link_p);
    int err = errno;

    amph_ip_resolve_end(&w, 0);
    errno = err;
    return result;
}

int amph_ip_near_watch(int notes, const char *path, uint32_t mask)
{
    char real[PATH_MAX];
    bool link;
    int result = watch(notes, path, mask, &link);

    if (link && !(mask & IN_DONT_FOLLOW) && amph_do_realpath(path, real))
        result = watch(notes, real, mask, &link);
    if (result < 0 && errno == EOPNOTSUPP)
        amph_ip_debug("inotify_add_watch is refused on a forwarded file: EOPNOTSUPP");

    return result;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What clients need to know for maps of a file: which file it is, who else maps it, and where its data lie.  Layer: iofwd.
 * Thread rule: sharemap only in the progress thread, which owns the table of handles; nextdata as any call on a file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "iofwd/server_int.h"

/* This running kernel, whose device numbers tell its file systems apart. */
static uint64_t kernel_id(void)
{
    static uint64_t id;
    char text[64];
    int fd = id ? -1 : open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (ssize_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    if (fd >= 0)
        close(fd);
    if (!id)
        id = h;
    return id;
}

/* How many open files of other clients lead to the same file and are mapped in another space than this one. */
static size_t mapped_elsewhere(const struct fwd_server *s, const struct fwd_handle *mine)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->nslots; i++) {
        const struct fwd_handle *h = s->handle[i];
        n += h && h->map_space && h->map_space != mine->map_space && h->map_dev == mine->map_dev && h->map_ino == mine->map_ino;
    }
    return n;
}

/* The file's name among all files that clients map: a number used again by a later file has another time of birth.  With a space, the
 * client is going to map it there. */
int fwd_do_sharemap(struct fwd_request *rq, struct fwd_args_sharemap *a)
{
    struct statx st;
    if (!a->file->regular)
        return ENODEV;
    if (statx(a->file->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) != 0)
        return errno;
    bool born = st.stx_mask & STATX_BTIME;
    int n = snprintf(a->identity, a->identity_cap, "%x.%x.%" PRIx64 ".%" PRIx64 ".%x.%" PRIx64, st.stx_dev_major, st.stx_dev_minor,
                     (uint64_t)st.stx_ino, born ? (uint64_t)st.stx_btime.tv_sec : 0, born ? st.stx_btime.tv_nsec : 0, kernel_id());
    if (n < 0 || (size_t)n >= a->identity_cap)
        return ERANGE;
    a->identity_len = (size_t)n;
    a->elsewhere = 0;
    if (a->space) {
        a->file->map_space = a->space;
        a->file->map_dev = makedev(st.stx_dev_major, st.stx_dev_minor);
        a->file->map_ino = st.stx_ino;
        a->elsewhere = mapped_elsewhere(rq->server, a->file);
    }
    return 0;
}

/* The first data from off on; ENXIO: there are none.  The offset stays. */
int fwd_do_nextdata(struct fwd_request *rq, struct fwd_args_nextdata *a)
{
    off_t at = lseek(a->file->fd, 0, SEEK_CUR);
    int err = at < 0 || (a->from = lseek(a->file->fd, a->off, SEEK_DATA)) < 0 || (a->end = lseek(a->file->fd, a->from, SEEK_HOLE)) < 0
        ? errno
        : 0;
    if (at >= 0 && lseek(a->file->fd, at, SEEK_SET) < 0 && !err)
        err = errno;
    return err;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What clients need for shared maps of a file: its identity, whether other hosts map it, and where
 * it has data.
 *
 * Layer: iofwd.
 * Thread rule: the thread that executes the request.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/calls/server_calls.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/map_kinds.h"
#include "iofwd/server/state.h"

/* Returns a number for the running kernel (its boot id).  Device numbers are unique within one
 * kernel only. */
static uint64_t kernel_id(void)
{
    if (amph_server_state.kernel_id)
        return amph_server_state.kernel_id;

    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (ssize_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);

    if (fd >= 0)
        close(fd);

    amph_server_state.kernel_id = h;
    return h;
}

/*
 * A file that is mapped in a client's map space (the host's memory for shared maps) is marked by a
 * lock on a byte far behind all data.  The kernels of all servers of a shared file system see the
 * lock, and release it when the file is closed.  The byte depends on the space and on the server's
 * kernel, because a client identifies the file by both.  Maps of the file itself by passed descriptors count as a
 * space of their own.  Such a map keeps the open file open, and so its mark.
 */
#define MARKS_AT (FWD_LOCKS_END + (INT64_C(1) << 61))
#define MARKS_BYTES (INT64_C(1) << 32)

static bool mark(int fd, short type, int64_t byte)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &l) == 0;
}

static bool is_marked(int fd, int64_t from, int64_t end)
{
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = end - from
    };
    return from < end && (fcntl(fd, F_OFD_GETLK, &l) != 0 || l.l_type != F_UNLCK);
}

static int call_fcntl(int fd, int command, void *arg)
{
    return fcntl(fd, command, arg);
}

/* Do processes of this host map the file itself (wire/map_kinds.h)?  If not, none does until h is closed. */
static bool is_mapped_itself(struct amph_server_handle *h)
{
    bool writes = (fcntl(h->fd, F_GETFL) & O_ACCMODE) == O_RDWR;
    struct stat st;

    if (!h->exec.map_kinds)
        h->exec.map_kinds = amph_fwd_map_kinds_open() + 1;

    return h->exec.map_kinds && fstat(h->fd, &st) == 0 &&
           !amph_fwd_map_kind_enter(h->exec.map_kinds - 1,
                                    amph_fwd_map_kinds_at(st.st_dev, st.st_ino), FWD_MAPS_OF_PAGES,
                                    writes, false, call_fcntl);
}

/* Is the file mapped in another space?  If not, marks it as mapped in this one. */
static bool mapped_elsewhere(struct amph_server_handle *h, int64_t space)
{
    int64_t end = MARKS_AT + MARKS_BYTES;
    int64_t byte = MARKS_AT + (int64_t)(((uint64_t)space ^ kernel_id()) % (uint64_t)MARKS_BYTES);

    if (h->exec.map_space == space)
        return false;

    for (int times = 0; times < 2;
         times++) /* twice, because another server may set its mark at the same time */
        if (is_marked(h->fd, MARKS_AT, byte) || is_marked(h->fd, byte + 1, end) ||
            (times == 0 && !mark(h->fd, F_RDLCK, byte))) {
            mark(h->fd, F_UNLCK, byte);
            return true;
        }

    h->exec.map_space = space;
    return false;
}

/* Returns a text that identifies the file among all files that clients map.  It contains the time
 * of birth, because a later file may get the same inode number.  If the request names a space, the
 * client is going to map the file there. */
int amph_server_do_sharemap(struct amph_server_request *rq, struct amph_server_args_sharemap *a)
{
    struct statx st;

    if (!a->file->regular)
        return ENODEV;
    if (statx(a->file->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) != 0)
        return errno;

    bool born = st.stx_mask & STATX_BTIME;
    int n = snprintf(a->identity, a->identity_cap, "%x.%x.%" PRIx64 ".%" PRIx64 ".%x.%" PRIx64,
                     st.stx_dev_major, st.stx_dev_minor, (uint64_t)st.stx_ino,
                     born ? (uint64_t)st.stx_btime.tv_sec : 0, born ? st.stx_btime.tv_nsec : 0,
                     kernel_id());

    if (n < 0 || (size_t)n >= a->identity_cap)
        return ERANGE;

    a->identity_len = (size_t)n;
    bool itself = a->space == FWD_MAP_SPACE_FILE;

    a->elsewhere = a->space && ((!itself && is_mapped_itself(a->file)) ||
                                mapped_elsewhere(a->file, a->space));
    return 0;
}

/* Returns the first range of data from off on; ENXIO: none.  Does not move the offset. */
int amph_server_do_nextdata(struct amph_server_request *rq, struct amph_server_args_nextdata *a)
{
    off_t at = lseek(a->file->fd, 0, SEEK_CUR);
    int err = at < 0 || (a->from = lseek(a->file->fd, a->off, SEEK_DATA)) < 0 ||
                      (a->end = lseek(a->file->fd, a->from, SEEK_HOLE)) < 0
                  ? errno
                  : 0;

    if (at >= 0 && lseek(a->file->fd, at, SEEK_SET) < 0 && !err)
        err = errno;

    return err;
}

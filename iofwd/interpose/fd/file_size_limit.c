/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RLIMIT_FSIZE; see fd/file_size_limit.h.  It is read when the program starts and whenever it sets
 * a limit.
 *
 * Layer: iofwd (interposer).  Thread rule: as there.
 */
#include "iofwd/interpose/fd/file_size_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

int amph_ip_limits_changed(int result)
{
    struct rlimit64 now;

    if (amph_ip_kernel_prlimit(RLIMIT_FSIZE, NULL, &now) == 0)
        __atomic_store_n(&amph_ip_state.file_size_limit,
                         now.rlim_cur == RLIM64_INFINITY ? UINT64_MAX : now.rlim_cur,
                         __ATOMIC_RELAXED);

    return result;
}

static bool too_large(void)
{
    raise(SIGXFSZ);
    errno = EFBIG;
    return false;
}

/* Returns the offset of a write.  off: the offset given to the call; -1: that of the open file. */
static off_t write_offset(int fd, off_t off, bool append, off_t size)
{
    if (append)
        return size;

    return off == -1 ? amph_do_lseek(fd, 0, SEEK_CUR) : off;
}

bool amph_ip_fit_limit(int fd, size_t *len_p, off_t off, bool append)
{
    struct stat st;
    uint64_t max = __atomic_load_n(&amph_ip_state.file_size_limit, __ATOMIC_RELAXED);
    int saved = errno;
    int flags = amph_do_fcntl(fd, F_GETFL, NULL);
    bool writes = flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;

    if (*len_p && writes && amph_do_fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        off_t at = write_offset(fd, off, append || (flags & O_APPEND), st.st_size);

        if (at >= 0 && (uint64_t)at >= max)
            return too_large();

        if (at >= 0 && *len_p > max - (uint64_t)at)
            *len_p = (size_t)(max - (uint64_t)at);
    }

    errno = saved;
    return true;
}

bool amph_ip_may_grow(int fd, const char *path, off_t length)
{
    struct stat st;
    int saved = errno;
    int flags = path ? O_WRONLY : amph_do_fcntl(fd, F_GETFL, NULL);
    bool writes = path ? amph_do_faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0
                       : flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
    bool grows = writes &&
                 (path ? amph_do_fstatat(AT_FDCWD, path, &st, 0) : amph_do_fstat(fd, &st)) == 0 &&
                 S_ISREG(st.st_mode) && length > st.st_size;

    errno = saved;
    return !grows ||
           (uint64_t)length <= __atomic_load_n(&amph_ip_state.file_size_limit, __ATOMIC_RELAXED) ||
           too_large();
}

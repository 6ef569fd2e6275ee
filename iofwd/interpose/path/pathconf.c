/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pathconf and fpathconf: the limits of a file system, computed as the C library computes them.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/platform.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

/* The file systems whose answers differ from the usual ones. */
#define BTRFS 0x9123683e
#define XFS 0x58465342
#define F2FS 0xf2f52010
#define LUSTRE 0x0bd00bd0
static const struct {
    unsigned long type;
    long link_max, size_bits;
} kinds[] = {
    { EXT4_SUPER_MAGIC, 65000, 64 },
    { XFS, 2147483647, 64 },
    { BTRFS, 127, 255 },
    { F2FS, 32000, 256 },
    { LUSTRE, 160000, 64 },
};

/* The file of path, or of fd if path is NULL. */
struct asked {
    const char *path;
    int fd;
};

static int ask_fs(const struct asked *a, struct statfs *fs)
{
    return a->path ? amph_do_statfs(a->path, fs) : amph_do_fstatfs(a->fd, fs);
}

static long by_kind(const struct asked *a, int name)
{
    struct statfs fs;

    if (ask_fs(a, &fs) != 0)
        return -1;

    for (size_t i = 0; i < AMPH_COUNTOF(kinds); i++)
        if (kinds[i].type == (unsigned long)fs.f_type)
            return name == _PC_LINK_MAX ? kinds[i].link_max : kinds[i].size_bits;

    return name == _PC_LINK_MAX ? 127 : 32;
}

static long by_fs(const struct asked *a, int name)
{
    struct statfs fs;

    if (ask_fs(a, &fs) != 0)
        return -1;
    if (name == _PC_NAME_MAX)
        return (long)fs.f_namelen;
    if (name == _PC_2_SYMLINKS)
        return (unsigned long)fs.f_type != MSDOS_SUPER_MAGIC;
    if (name == _PC_CHOWN_RESTRICTED)
        return 1;

    if (name == _PC_REC_MIN_XFER_SIZE || !fs.f_frsize)
        return (long)fs.f_bsize;

    return (long)fs.f_frsize;
}

static long async_io(const struct asked *a, int name)
{
    struct stat st;
    if ((a->path ? amph_do_fstatat(AT_FDCWD, a->path, &st, 0) : amph_do_fstat(a->fd, &st)) != 0)
        return -1;

    return S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) ? 1 : -1;
}

#define UNKNOWN (-1) /* or unlimited: errno is not changed */

static const struct {
    int name;
    long (*ask)(const struct asked *a, int name); /* NULL: the same on all file systems */
    long value;
} limits[] = {
    { _PC_LINK_MAX, by_kind, 0 },
    { _PC_FILESIZEBITS, by_kind, 0 },
    { _PC_NAME_MAX, by_fs, 0 },
    { _PC_2_SYMLINKS, by_fs, 0 },
    { _PC_CHOWN_RESTRICTED, by_fs, 0 },
    { _PC_REC_MIN_XFER_SIZE, by_fs, 0 },
    { _PC_ALLOC_SIZE_MIN, by_fs, 0 },
    { _PC_REC_XFER_ALIGN, by_fs, 0 },
    { _PC_ASYNC_IO, async_io, 0 },
    { _PC_MAX_CANON, NULL, 255 },
    { _PC_MAX_INPUT, NULL, 255 },
    { _PC_PATH_MAX, NULL, PATH_MAX },
    { _PC_PIPE_BUF, NULL, PIPE_BUF },
    { _PC_NO_TRUNC, NULL, 1 },
    { _PC_VDISABLE, NULL, 0 },
    { _PC_SYNC_IO, NULL, UNKNOWN },
    { _PC_PRIO_IO, NULL, UNKNOWN },
    { _PC_SOCK_MAXBUF, NULL, UNKNOWN },
    { _PC_REC_INCR_XFER_SIZE, NULL, UNKNOWN },
    { _PC_REC_MAX_XFER_SIZE, NULL, UNKNOWN },
    { _PC_SYMLINK_MAX, NULL, UNKNOWN },
};

static long answer(const struct asked *a, int name)
{
    for (size_t i = 0; i < AMPH_COUNTOF(limits); i++)
        if (limits[i].name == name)
            return limits[i].ask ? limits[i].ask(a, name) : limits[i].value;

    return amph_ip_fail(EINVAL);
}

long amph_do_pathconf(const char *path, int name)
{
    return path[0] ? answer(&(struct asked){ .path = path }, name) : amph_ip_fail(ENOENT);
}

long amph_do_fpathconf(int fd, int name)
{
    return answer(&(struct asked){ .fd = fd }, name);
}

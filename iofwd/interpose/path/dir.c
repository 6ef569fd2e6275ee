/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directory streams of forwarded directories.
 *
 * Layer: iofwd (interposer).  Thread rule: POSIX's, one thread at a time reads a stream.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/query.h"

#define ENTRIES_MAX 32768 /* bytes that a server returns at a time */

/* A directory stream of ours, which the program holds as a DIR.  struct dirent has the layout of
 * getdents64 on every 64-bit Linux. */
struct stream {
    uint64_t magic;
    int fd;
    size_t at, len; /* offset of the next entry, and end of the buffer's data */
    long pos;       /* directory offset of the next entry, in the file system's units */
    bool last;      /* the server had no entry after those in the buffer */
    char buf[32768] __attribute__((aligned(8)));
};

_Static_assert(offsetof(struct dirent, d_name) == 19 && sizeof(((struct dirent *)0)->d_off) == 8,
               "struct dirent is not struct linux_dirent64");

/* Like getdents64; *last_p: there is no entry after these. */
static ssize_t get_entries(int fd, void *buf, size_t len, bool *last_p)
{
    struct amph_fd_file *of;
    size_t got = 0;
    size_t end = 0;

    *last_p = false;
    if (amph_fdtab_is_near(fd))
        return libc_syscall(SYS_getdents64, fd, (long)buf, (long)len, 0, 0, 0);
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;
    if (!amph_ip_can_write(buf, len < ENTRIES_MAX ? len : ENTRIES_MAX))
        return amph_ip_file_end(of, EFAULT);

    int err = amph_ip_client.fwd.getdents(amph_ip_client.client, &of->file, &end, buf, len, &got);

    *last_p = !err && end;
    return amph_ip_file_end(of, err) ? -1 : (ssize_t)got;
}

ssize_t amph_do_getdents64(int fd, void *buf, size_t len)
{
    bool last;

    return get_entries(fd, buf, len, &last);
}

ssize_t amph_do_getdirentries(int fd, char *buf, size_t len, off_t *base)
{
    off_t at = amph_do_lseek(fd, 0, SEEK_CUR);
    ssize_t n = at < 0 ? -1 : amph_do_getdents64(fd, buf, len);

    if (n >= 0)
        *base = at;

    return n;
}

static DIR *new_stream(int fd)
{
    struct stream *s = malloc(sizeof *s);

    if (!s)
        return NULL;

    s->magic = AMPH_IP_DIR_MAGIC;
    s->fd = fd;
    s->at = s->len = 0;
    s->pos = 0;
    s->last = false;

    return (DIR *)s;
}

DIR *amph_do_opendir(const char *path)
{
    int fd = amph_do_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);

    if (fd < 0)
        return NULL;

    DIR *dir = amph_ip_fd(fd) ? new_stream(fd) : libc_fdopendir(fd);

    if (!dir) {
        int err = errno;

        amph_do_close(fd);
        errno = err;
    }

    return dir;
}

DIR *amph_do_fdopendir(int fd)
{
    mode_t type;

    if (amph_ip_fd_type(fd, &type) != 0)
        return NULL;

    if (type != S_IFDIR) {
        errno = ENOTDIR;
        return NULL;
    }

    return new_stream(fd);
}

struct dirent *amph_do_readdir(DIR *dir)
{
    struct stream *s = (struct stream *)dir;

    /* POSIX leaves open whether entries show that were made since opendir or rewinddir; a call after the end asks */
    if (s->at >= s->len && s->last) {
        s->last = false;
        return NULL;
    }

    if (s->at >= s->len) {
        int saved = errno;
        ssize_t n = get_entries(s->fd, s->buf, sizeof s->buf, &s->last);

        if (n <= 0) {
            if (n == 0 || errno == ENOENT) /* a directory that was removed has no entries */
                errno = saved;

            s->last = false;
            return NULL;
        }

        errno = saved;
        s->at = 0;
        s->len = (size_t)n;
    }

    struct dirent *entry = (struct dirent *)(s->buf + s->at);

    if (entry->d_reclen < offsetof(struct dirent, d_name) + 1 || s->at + entry->d_reclen > s->len) {
        s->at = s->len = 0;
        s->last = false;
        errno = EIO;
        return NULL;
    }

    s->at += entry->d_reclen;
    s->pos = entry->d_off;
    return entry;
}

int amph_do_readdir_r(DIR *dir, struct dirent *entry, struct dirent **result)
{
    int saved = errno;

    errno = 0;

    struct dirent *next = amph_do_readdir(dir);
    int err = errno;

    errno = saved;
    *result = NULL;
    if (!next)
        return err;

    memcpy(entry, next, next->d_reclen < sizeof *entry ? next->d_reclen : sizeof *entry);
    *result = entry;
    return 0;
}

int amph_do_closedir(DIR *dir)
{
    if (!amph_ip_dir(dir))
        return libc_closedir(dir);

    struct stream *s = (struct stream *)dir;
    int fd = s->fd;

    s->magic = 0;
    free(s);
    return amph_do_close(fd);
}

void amph_do_seekdir(DIR *dir, long at)
{
    struct stream *s = (struct stream *)dir;

    amph_do_lseek(s->fd, at, SEEK_SET);
    s->at = s->len = 0;
    s->pos = at;
    s->last = false;
}

void amph_do_rewinddir(DIR *dir)
{
    amph_do_seekdir(dir, 0);
}

long amph_do_telldir(DIR *dir)
{
    return ((struct stream *)dir)->pos;
}

int amph_do_dirfd(DIR *dir)
{
    return ((struct stream *)dir)->fd;
}

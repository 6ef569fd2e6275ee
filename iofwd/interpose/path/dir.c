/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directory streams of forwarded directories.  Layer: iofwd (preload).
 * Thread rule: as POSIX has it, one thread at a time reads a stream.
 */
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"

#define ENTRIES_MOST 32768 /* bytes that a server gives at one time */

/* A stream of ours, where the program believes it holds a DIR.  struct dirent is what getdents64 gives on every 64-bit Linux. */
struct stream {
    uint64_t magic;
    int fd;
    size_t at, len; /* next entry, and end of what the buffer holds */
    long pos;       /* where the next entry lies in the directory, as the file system counts */
    char buf[32768] __attribute__((aligned(8)));
};

_Static_assert(offsetof(struct dirent, d_name) == 19 && sizeof(((struct dirent *)0)->d_off) == 8,
               "struct dirent is not struct linux_dirent64");

ssize_t x_getdents64(int fd, void *buf, size_t len)
{
    struct fwd_ofile *of;
    size_t got = 0;
    if (fwd_file_begin(fd, &of) != 0)
        return -1;
    if (!fwd_can_write(buf, len < ENTRIES_MOST ? len : ENTRIES_MOST))
        return fwd_file_end(of, EFAULT);
    int err = fwd_core.getdents(fwd_core.client, &of->file, buf, len, &got);
    return fwd_file_end(of, err) ? -1 : (ssize_t)got;
}

ssize_t x_getdirentries(int fd, char *buf, size_t len, off_t *base)
{
    off_t at = x_lseek(fd, 0, SEEK_CUR);
    ssize_t n = at < 0 ? -1 : x_getdents64(fd, buf, len);
    if (n >= 0)
        *base = at;
    return n;
}

static DIR *new_stream(int fd)
{
    struct stream *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    s->magic = FWD_DIR_MAGIC;
    s->fd = fd;
    s->at = s->len = 0;
    s->pos = 0;
    return (DIR *)s;
}

DIR *x_opendir(const char *path)
{
    int fd = x_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return NULL;
    DIR *dir = fwd_fd(fd) ? new_stream(fd) : real_fdopendir(fd);
    if (!dir) {
        int err = errno;
        x_close(fd);
        errno = err;
    }
    return dir;
}

DIR *x_fdopendir(int fd)
{
    struct stat st;
    if (x_fstat(fd, &st) != 0)
        return NULL;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return NULL;
    }
    return new_stream(fd);
}

struct dirent *x_readdir(DIR *dir)
{
    struct stream *s = (struct stream *)dir;
    if (s->at >= s->len) {
        int saved = errno;
        ssize_t n = x_getdents64(s->fd, s->buf, sizeof s->buf);
        if (n <= 0) {
            if (n == 0 || errno == ENOENT) /* a directory that was removed has no entries */
                errno = saved;
            return NULL;
        }
        errno = saved;
        s->at = 0;
        s->len = (size_t)n;
    }
    struct dirent *entry = (struct dirent *)(s->buf + s->at);
    if (entry->d_reclen < offsetof(struct dirent, d_name) + 1 || s->at + entry->d_reclen > s->len) {
        s->at = s->len = 0;
        errno = EIO;
        return NULL;
    }
    s->at += entry->d_reclen;
    s->pos = entry->d_off;
    return entry;
}

int x_readdir_r(DIR *dir, struct dirent *entry, struct dirent **result)
{
    int saved = errno;
    errno = 0;
    struct dirent *next = x_readdir(dir);
    int err = errno;
    errno = saved;
    *result = NULL;
    if (!next)
        return err;
    memcpy(entry, next, next->d_reclen < sizeof *entry ? next->d_reclen : sizeof *entry);
    *result = entry;
    return 0;
}

int x_closedir(DIR *dir)
{
    if (!fwd_dir(dir))
        return real_closedir(dir);
    struct stream *s = (struct stream *)dir;
    int fd = s->fd;
    s->magic = 0;
    free(s);
    return x_close(fd);
}

void x_seekdir(DIR *dir, long at)
{
    struct stream *s = (struct stream *)dir;
    x_lseek(s->fd, at, SEEK_SET);
    s->at = s->len = 0;
    s->pos = at;
}

void x_rewinddir(DIR *dir)
{
    x_seekdir(dir, 0);
}

long x_telldir(DIR *dir)
{
    return ((struct stream *)dir)->pos;
}

int x_dirfd(DIR *dir)
{
    return ((struct stream *)dir)->fd;
}

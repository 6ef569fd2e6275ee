/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of fwd_random whose calls read, write, copy and map data, up to the limit of file sizes. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "tests/files/calls/fwd_random.h"

void do_read(void)
{
    int *s = place();
    size_t n = size();
    ssize_t r = gives(read(*s, data, n));

    say_data(data, r);
}

void do_write(void)
{
    int *s = place();
    size_t n = size();
    const void *p = fill(n);

    gives(write(*s, p, n));
}

void do_pread(void)
{
    int *s = place();
    size_t n = size();
    ssize_t r = gives(pread(*s, data, n, offset()));

    say_data(data, r);
}

void do_pwrite(void)
{
    int *s = place();
    size_t n = size();
    const void *p = fill(n);

    gives(pwrite(*s, p, n, offset()));
}

void do_vectors(void)
{
    int *s = place();
    struct iovec iov[4];
    int count = (int)any(5);

    for (int i = 0; i < count; i++)
        iov[i] = (struct iovec){ data + 3000 * i, any(3000) };

    say(" %d", count);
    switch (any(6)) {
    case 0:
        gives(readv(*s, iov, count));
        break;
    case 1:
        gives(writev(*s, iov, count));
        break;
    case 2:
        gives(preadv(*s, iov, count, offset()));
        break;
    case 3:
        gives(pwritev(*s, iov, count, offset()));
        break;
    case 4:
        gives(preadv2(*s, iov, count, offset(), 0));
        break;
    default:
        gives(pwritev2(*s, iov, count, offset(), once_in(2) ? RWF_DSYNC : 0));
        break;
    }
    say_data(data, 12000);
}

/* Data and holes: where room has been reserved in a file, a file system such as ext4 takes for data
 * what its cache has pages of, which is what has been read, and read ahead, on the one way or the
 * other.  What is to be compared then is only where the offset is put next. */
bool *reserved; /* in some file, by some process */

static void seek_data(int fd, int whence)
{
    off_t from = offset();

    if (!*reserved) {
        gives(lseek(fd, from, whence));
        return;
    }

    struct stat st;
    off_t at = lseek(fd, from, whence);

    if (at >= 0 && (at < from || fstat(fd, &st) != 0 || at > st.st_size))
        say(" is %ld", (long)at);

    gives(lseek(fd, from, SEEK_SET));
}

void do_seek(void)
{
    static const int whence[] = { SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, 9 };
    int *s = place();
    int w = whence[any(6)];

    say(" %d", w);

    struct stat st;

    /* positions in directories are each file system's own */
    if (fstat(*s, &st) == 0 && S_ISDIR(st.st_mode))
        gives(lseek(*s, 0, SEEK_SET));
    else if (w == SEEK_DATA || w == SEEK_HOLE)
        seek_data(*s, w);
    else
        gives(lseek(*s, offset(), w));
}

void do_truncate(void)
{
    if (once_in(2))
        gives(ftruncate(*place(), offset()));
    else
        gives(truncate(path(), offset()));
}

void do_allocate(void)
{
    static const int hows[] = { 0,
                                FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_ZERO_RANGE,
                                FALLOC_FL_PUNCH_HOLE,
                                FALLOC_FL_COLLAPSE_RANGE };
    int *s = place();
    int how = hows[any(6)];
    off_t from = any(DATA_MAX);
    off_t len = any(DATA_MAX);

    say(" %x %ld+%ld", how, (long)from, (long)len);
    *reserved = true;

    if (once_in(3))
        say(" = %d", posix_fallocate(*s, from, len));
    else
        gives(fallocate(*s, how, from, len));
}

void do_copy(void)
{
    int *a = place();
    int *b = place();
    off_t x = any(DATA_MAX);
    off_t y = any(DATA_MAX);
    bool use_x = once_in(2);
    bool use_y = once_in(2);
    size_t n = size();

    say(" %d%d", use_x, use_y);
    if (once_in(3))
        gives(sendfile(*b, *a, use_x ? &x : NULL, n));
    else
        gives(copy_file_range(*a, use_x ? &x : NULL, *b, use_y ? &y : NULL, n, 0));

    say(" %ld %ld", (long)x, (long)y);
}

void do_sync(void)
{
    int *s = place();

    switch (any(5)) {
    case 0:
        gives(fsync(*s));
        break;
    case 1:
        gives(fdatasync(*s));
        break;
    case 2:
        say(" = %d", posix_fadvise(*s, 0, 0, (int)any(7)));
        break;
    case 3:
        gives(sync_file_range(*s, any(100), any(100), any(9)));
        break;
    default:
        gives(readahead(*s, any(100), any(100)));
        break;
    }
}

void do_map(void)
{
    int *s = place();
    struct stat st;
    size_t len = 1 + any(DATA_MAX);
    off_t from = (off_t)any(3) * 4096;

    say(" %zu %ld", len, (long)from);

    void *p = mmap(NULL, len, PROT_READ, once_in(2) ? MAP_PRIVATE : MAP_SHARED, *s, from);

    gives(p == MAP_FAILED ? -1 : 0);
    if (p == MAP_FAILED)
        return;

    if (fstat(*s, &st) == 0 && st.st_size > from)
        say_data(p, st.st_size - from < (off_t)len ? (ssize_t)(st.st_size - from) : (ssize_t)len);

    munmap(p, len);
}

void do_stream(void)
{
    static const char *const modes[] = { "r", "r+", "w", "w+", "a", "a+", "wx", "rb", "r+e" };
    const char *mode = modes[any(9)];

    say(" %s", mode);

    const char *p = path();
    struct stat st;

    if (stat(p, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return; /* a FIFO would wait for a partner */

    FILE *f = fopen(p, mode);

    gives(f ? 0 : -1);
    if (!f)
        return;

    for (unsigned i = any(6); i > 0; i--)
        switch (any(6)) {
        case 0: {
            size_t n = fread(data, 1, any(500), f);

            say(" r%zu", n);
            say_data(data, (ssize_t)n);
            fseek(f, 0, SEEK_CUR);
            break;
        }
        case 1:
            say(" p%d", fprintf(f, "%u-%s\n", any(1000), "text"));
            fflush(f);
            break;
        case 2:
            say(" s%d", fseek(f, (long)any(400), (int)any(3)));
            break;
        case 3:
            say(" t%ld", ftell(f));
            break;
        case 4:
            say(" e%d%d", feof(f), ferror(f));
            break;
        default: {
            char text[80] = "";

            say(" g%d", fgets(text, sizeof text, f) != NULL);
            say_data(text, (ssize_t)strlen(text));
            fseek(f, 0, SEEK_CUR);
        }
        }

    say(" c%d", fclose(f));
}

/* Some bytes before memory that is not there, or that may not be used so. */
static char *edge(void)
{
    static char *ends[2];
    long page = sysconf(_SC_PAGESIZE);

    for (int i = 0; i < 2 && !ends[i]; i++) {
        ends[i] = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0);
        memset(ends[i], 'e', (size_t)page);
        ends[i] += page;
        if (i ? mprotect(ends[i], (size_t)page, PROT_NONE) : munmap(ends[i], (size_t)page))
            exit(2);
    }

    unsigned char there;
    char *end = ends[any(2)];

    /* a later mapping, a library's, may have come to lie in the hole */
    if (mincore(end, (size_t)page, &there) == 0)
        end = ends[1];

    memset(end - 100, 'e', 100); /* what a call that fails leaves there is not told */
    return end - (once_in(2) ? any(100) : 0);
}

/* A write that fails for want of data leaves a longer file on some file systems. */
static void give_and_mend(int fd, ssize_t result, const struct stat *before)
{
    gives(result);

    struct rlimit lim;
    struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };

    if (result >= 0 || errno != EFAULT || !S_ISREG(before->st_mode))
        return;

    getrlimit(RLIMIT_FSIZE, &lim);
    setrlimit(RLIMIT_FSIZE, &none);
    if (ftruncate(fd, before->st_size) != 0)
        say(" stays");

    setrlimit(RLIMIT_FSIZE, &lim);
}

void do_nowhere(void)
{
    int *s = place();
    char *p = edge();
    struct stat st = { .st_mode = 0 };

    fstat(*s, &st);

    /* the kernel takes what lies in one page of a FIFO whole or, with EFAULT, not at all */
    if (S_ISFIFO(st.st_mode))
        return;

    size_t n = 100 + any(3000);
    struct iovec iov[2] = { { data, any(50) }, { p, n } };

    switch (any(8)) {
    case 0:
        gives(read(*s, p, n));
        break;
    case 1:
        give_and_mend(*s, write(*s, p, n), &st);
        break;
    case 2:
        gives(pread(*s, p, n, offset()));
        break;
    case 3:
        give_and_mend(*s, pwrite(*s, p, n, offset()), &st);
        break;
    case 4:
        gives(readv(*s, iov, 2));
        break;
    case 5:
        give_and_mend(*s, writev(*s, iov, 2), &st);
        break;
    case 6:
        gives(fstat(*s, (struct stat *)(p + 16)));
        break;
    default:
        gives(open(p, O_RDONLY));
        break;
    }
}

volatile sig_atomic_t over;

void on_limit(int sig)
{
    over = 1;
}

void do_limit(void)
{
    struct rlimit lim;

    getrlimit(RLIMIT_FSIZE, &lim);
    lim.rlim_cur = once_in(3) ? any(DATA_MAX) : RLIM_INFINITY;
    say(" %ld", (long)lim.rlim_cur);
    gives(setrlimit(RLIMIT_FSIZE, &lim));
}

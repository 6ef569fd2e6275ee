/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file system of 4 MiB and few inodes that is full.   fwd_full WHAT DIRECTORY
 *   each   every call's answer, which a forwarded directory gives as well
 *   late   writes whose error may be reported late or for a part (write-behind, striping): the bytes that
 *          were reported as written are there, the error is reported, and once there is room again,
 *          everything works
 *   map    a shared map of pages, written without room (the local file system kills the program):
 *          msync reports the error, and no more once there is room
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_say.h"

enum {
    MIB = 1 << 20,
    BIG = 6 * MIB,
    SMALL = 1000,
    LEAVE = 256 << 10
};

static char data[BIG], back[BIG];

static int make(const char *name, int flags)
{
    return open(in(name), O_RDWR | O_CREAT | O_TRUNC | flags, 0600);
}

/* Fills the file system but for some bytes. */
static void fill_but(const char *name, off_t left)
{
    int fd = make(name, 0);

    while (write(fd, data, MIB) > 0)
        ;

    struct stat st;

    if (fstat(fd, &st) != 0 || ftruncate(fd, st.st_size - left) != 0)
        perror(name);

    close(fd);
}

static void large(void)
{
    struct stat st;
    int fd = make("large", 0);

    T(write(fd, data, BIG));
    T(write(fd, data, BIG));
    T(lseek(fd, 0, SEEK_CUR));
    T(pwrite(fd, data, 100, 4 * MIB));
    T(pwrite(fd, data, 2 * MIB, 3 * MIB));
    T(pwrite(fd, data + 5, MIB, MIB)); /* there is room for what is there already */
    T(fallocate(fd, 0, 0, BIG));
    T(posix_fallocate(fd, 0, BIG));
    T(fallocate(fd, FALLOC_FL_KEEP_SIZE, 4 * MIB, 4096));
    T(fsync(fd));
    T(ftruncate(fd, 8 * MIB));
    T(pwrite(fd, data, 10, 7 * MIB));
    T(fstat(fd, &st));
    T(st.st_size);
    T(st.st_blocks);
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, MIB, MIB));
    T(pwrite(fd, data, 2 * MIB, 6 * MIB));
    T(close(fd));
    T(truncate(in("large"), 5));
}

static void vectors(void)
{
    struct iovec v[] = {
        { data, 300000 }, { data + 7, 5 }, { data + 9, 3 * MIB }, { data, 3 * MIB }
    };
    int fd = make("vectors", 0);

    T(writev(fd, v, 4));
    T(writev(fd, v + 1, 1));
    T(pwritev(fd, v + 1, 1, 10 * MIB));
    T(close(fd));
    T(unlink(in("vectors")));
    fd = make("append", O_APPEND);
    T(write(fd, data, 3 * MIB));
    T(write(fd, data, 3 * MIB));
    T(write(fd, data, 1));
    T(lseek(fd, 0, SEEK_CUR));
    T(ftruncate(fd, MIB));
    T(write(fd, data, 1));
    T(lseek(fd, 0, SEEK_CUR));
    T(close(fd));
    T(unlink(in("append")));
}

static void small(void)
{
    int fd = make("small", 0);
    int n = 0;

    fill_but("filler", LEAVE);
    while (write(fd, data, SMALL) == SMALL)
        n++;

    T(n);
    T(lseek(fd, 0, SEEK_CUR));
    T(write(fd, data, SMALL));
    T(unlink(in("filler")));
    T(write(fd, data, SMALL));
    T(close(fd));
}

static void streams(void)
{
    struct stat st;

    fill_but("filler", LEAVE);

    FILE *f = fopen(in("stream"), "w");

    /* the C library decides whether this call or the next one reports the error */
    (void)!fwrite(data, 1, LEAVE + 5000, f);
    T(fflush(f) != 0 || ferror(f) != 0);
    T(fclose(f));
    T(stat(in("stream"), &st));
    T(st.st_size);
    f = fopen(in("stream2"), "w");
    T(fputs("a few bytes", f) >= 0);
    T(fclose(f));
    T(unlink(in("filler")));
    f = fopen(in("stream2"), "w");
    T(fputs("a few bytes", f) >= 0);
    T(fclose(f));
}

static void copies(void)
{
    int from = make("from", 0);
    int to = make("to", 0);
    off_t at = 0;

    T(write(from, data, MIB));
    fill_but("filler", LEAVE);
    T(sendfile(to, from, &at, MIB));
    T(sendfile(to, from, &at, MIB));
    T(at);
    at = 0;
    T(copy_file_range(from, &at, to, NULL, 5000, 0));
    T(unlink(in("filler")));
    T(copy_file_range(from, &at, to, NULL, 5000, 0));
    T(close(from));
    T(close(to));
}

/* The names that fit are as many as there are inodes. */
static void names(void)
{
    char name[16], text[300];
    int n = 0;
    int fd;

    do {
        snprintf(name, sizeof name, "n%d", n);
        if ((fd = open(in(name), O_WRONLY | O_CREAT | O_EXCL, 0600)) >= 0)
            close(fd);
    } while (fd >= 0 && ++n < 1000);

    OK(open(in("none"), O_WRONLY | O_CREAT, 0600));
    T(n > 5 && n < 1000);
    T(mkdir(in("directory"), 0700));
    T(mkfifo(in("fifo"), 0600));
    T(symlink("n0", in("link")));
    T(rename(in("n0"), in("n1")));
    T(mkdir(in("directory"), 0700));
    T(unlink(in("n1")));
    fill_but("filler", 0);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    T(unlink(in("n2")));
    T(symlink(text, in("link")));
    T(unlink(in("filler")));
    T(symlink(text, in("link")));

    while (--n > 2) {
        snprintf(name, sizeof name, "n%d", n);
        unlink(in(name));
    }
}

static void each(void)
{
    large();
    vectors();
    small();
    streams();
    copies();
    names();
}

/* ---- errors that are reported late ---- */

static void must(bool ok, const char *what, long n)
{
    if (ok)
        return;

    printf("%s: %ld (%s)\n", what, n, strerrorname_np(errno));
    exit(1);
}

static bool is_there(const char *name, ssize_t len)
{
    int fd = open(in(name), O_RDONLY);
    ssize_t n = fd < 0 ? -1 : pread(fd, back, (size_t)len, 0);

    close(fd);
    return n == len && memcmp(back, data, (size_t)len) == 0;
}

struct step {
    size_t bytes;
    bool announced;
};

/* Writes until a call fails; returns how many bytes were reported as written.  *error_p: the error, also
 * if fsync or close reports it. */
static ssize_t write_on(const char *name, const struct step *s, ssize_t end, int *error_p)
{
    int fd = make(name, 0);
    size_t step = s->bytes;
    ssize_t at = 0;
    ssize_t n = 0;

    if (s->announced)
        must(iofwd_write_prep(fd, (size_t)end, (unsigned)((size_t)end / step)) == 0, "announce",
             fd);

    while (at < end &&
           (n = write(fd, data + at, step < (size_t)(end - at) ? step : (size_t)(end - at))) > 0)
        at += n;

    *error_p = n < 0 ? errno : 0;
    if (fsync(fd) != 0 && !*error_p)
        *error_p = errno;

    if (close(fd) != 0 && !*error_p)
        *error_p = errno;

    return at;
}

static void late(void)
{
    static const struct step steps[] = {
        { SMALL, false }, { SMALL, true }, { 70000, false }, { BIG, false }
    };
    const char *gathers = getenv("IOFWD_CONSISTENCY");
    int error;

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        fill_but("filler", LEAVE);

        ssize_t written = write_on("late", &steps[i], BIG, &error);

        must(error == ENOSPC, "the error that is reported", error);

        /* striped: 0 if the other parts have taken the room of the first */
        must(written < BIG, "bytes reported as written", written);
        must(gathers || steps[i].announced || is_there("late", written), "they are there", written);
        must(unlink(in("filler")) == 0, "room", 0);
        written = write_on("late", &steps[i], MIB, &error);
        must(written == MIB && error == 0 && is_there("late", MIB), "with room again", error);
        must(unlink(in("late")) == 0, "unlink", 0);
    }

    puts("as it should be");
}

static void map(void)
{
    int fd = make("mapped", 0);

    fill_but("filler", LEAVE);
    must(ftruncate(fd, MIB) == 0, "length", fd);

    char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    must(at != MAP_FAILED, "map", 0);
    memcpy(at, data, MIB);
    must(msync(at, MIB, MS_SYNC) == -1 && errno == ENOSPC, "msync without room", 0);
    must(unlink(in("filler")) == 0, "room", 0);
    must(msync(at, MIB, MS_SYNC) == 0, "msync with room", 0);
    must(is_there("mapped", MIB), "what was written to the map", 0);
    must(munmap(at, MIB) == 0 && close(fd) == 0 && unlink(in("mapped")) == 0, "end", 0);
    puts("as it should be");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } all[] = { { "each", each }, { "late", late }, { "map", map } };
    if (argc != 3)
        return 2;

    dir = argv[2];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 2654435761u >> 13);

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].fn();
            return 0;
        }

    return 2;
}

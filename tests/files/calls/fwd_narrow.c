/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that was not built for large files: where off_t has 32 bits its calls have names and
 * records of their own.  Offsets are converted; what does not fit, and what would fill in a record,
 * fails with EOVERFLOW.  Elsewhere all of it works.  Besides: the C library's own streams, which
 * have another layout there.   fwd_narrow FILE
 */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__, #condition, \
                    strerror(errno)); \
            exit(1); \
        } \
    } while (0)

/* What is printed to a stream of the C library arrives in the file if its descriptor becomes the file's. */
static void print_to(FILE *stream, int fd)
{
    const int kept_fd = dup(fileno(stream));
    char back[16] = "";

    CHECK(kept_fd >= 0 && dup2(fd, fileno(stream)) >= 0);
    CHECK(fputs("printed\n", stream) >= 0 && fflush(stream) == 0);
    CHECK(pread(fd, back, sizeof back, 0) == 8 && memcmp(back, "printed\n", 8) == 0);
    CHECK(dup2(kept_fd, fileno(stream)) >= 0 && close(kept_fd) == 0);
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

static void streams(int fd)
{
    FILE *opened = fopen("/dev/null", "w");

    CHECK(opened);
    print_to(opened, fd);
    print_to(stdout, fd);
    CHECK(fclose(opened) == 0);
}

#if __TIMESIZE == 32
/* What programs with times of 64 bits call. */
int __fcntl_time64(int fd, int command, ...);
#define fcntl __fcntl_time64
#endif

/* The answer 0 for a local file is not the number of a new one. */
static void number_0(int fd)
{
    const int local_fd = open("/dev/null", O_RDONLY);
    const int kept_fd = dup(0);

    CHECK(local_fd >= 0 && kept_fd >= 0 && dup2(fd, 0) == 0);
    CHECK(fcntl(local_fd, F_GETFD) == 0 && lseek(0, 0, SEEK_SET) == 0 && write(0, "x", 1) == 1);
    CHECK(dup2(kept_fd, 0) == 0 && close(kept_fd) == 0 && close(local_fd) == 0);
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

static void offsets(int fd)
{
    char back[16] = "";

    CHECK(write(fd, "0123456789", 10) == 10 && lseek(fd, -3, SEEK_END) == 7 &&
          read(fd, back, 16) == 3 && memcmp(back, "789", 3) == 0);
    CHECK(pwrite(fd, "ab", 2, 4) == 2 && pread(fd, back, 4, 3) == 4 &&
          memcmp(back, "3ab6", 4) == 0);
    errno = 0;
    CHECK(lseek(fd, -11, SEEK_END) == -1 && errno == EINVAL);
    CHECK(ftruncate(fd, 6) == 0 && lseek(fd, 0, SEEK_END) == 6);
}

static void records(const char *path, int fd)
{
    const int narrow = sizeof(off_t) == 4;
    const struct timeval times[2] = { { 1000, 0 }, { 2000, 5 } };
    struct stat st;

    errno = 0;
    CHECK(fstat(fd, &st) == (narrow ? -1 : 0) && (!narrow || errno == EOVERFLOW));
    CHECK(stat(path, &st) == (narrow ? -1 : 0) && (!narrow || errno == EOVERFLOW));
    CHECK(narrow || st.st_size == 6);
    CHECK(utimes(path, times) == 0);

    /* local files are as ever */
    CHECK(stat("/proc/self/exe", &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 1000);
}

/* What 32 bits cannot say. */
static void far_away(int fd)
{
    const off64_t far_off = (off64_t)5 << 30;

    CHECK(lseek64(fd, far_off, SEEK_SET) == far_off && write(fd, "x", 1) == 1);
    errno = 0;

    off_t at = lseek(fd, 0, SEEK_CUR);

    CHECK(sizeof at == 8 ? at == (off_t)(far_off + 1) : at == -1 && errno == EOVERFLOW);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);

    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0);
    streams(fd);
    number_0(fd);
    offsets(fd);
    records(argv[1], fd);
    far_away(fd);
    CHECK(close(fd) == 0);

    return 0;
}

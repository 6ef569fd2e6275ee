/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a file system with faults (fault_fs.c) gives.   fwd_faults each|late DIRECTORY
 *   each   every call's answer
 *   late   many small writes, which may be gathered: how often an error is told, and what is in the
 *          file
 *   slow   one small write that takes long and PIECES larger ones of one file
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/files/fwd_say.h"

enum {
    BIG = 3 << 20,
    SMALL = 1000,
    TIMES = 300,
    PIECE = 32 << 10,
    PIECES = 400
};

static char data[BIG];

static void each(const char *name)
{
    int fd = open(in(name), O_RDWR | O_CREAT | O_TRUNC, 0600);

    printf("%s\n", name);
    T(write(fd, data, 60000));
    T(write(fd, data, 60000));
    T(write(fd, data, 60000));
    T(write(fd, data, 60000));
    T(lseek(fd, 0, SEEK_CUR));
    T(pwrite(fd, data, 900, 99500));
    T(pwrite(fd, data, 900, 99500));
    T(pwrite(fd, data, 10, 200000));
    T(pwrite(fd, data, 10, 200000));

    /* a large call goes in several pieces, each of which may be interrupted */
    if (strcmp(name, "EINTR") != 0) {
        T(pwrite(fd, data, BIG, 0));
        T(pwrite(fd, data, BIG, 150000));
    }

    T(fsync(fd));
    T(close(fd));
}

static bool is_told(const char *name, int err)
{
    return strcmp(strerrorname_np(err), name) == 0;
}

static void late(const char *name)
{
    int fd = open(in(name), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int told = 0;
    int other = 0;
    struct stat st = { .st_size = -1 };

    for (int i = 0; i < TIMES; i++)
        while (write(fd, data + i, SMALL) < 0) {
            if (errno == EINTR)
                continue;

            told += is_told(name, errno);
            other += !is_told(name, errno);
            break;
        }

    for (int i = 0; i < 2; i++)
        if (fsync(fd) != 0) {
            told += is_told(name, errno);
            other += !is_told(name, errno);
        }

    bool closed = close(fd) == 0;

    stat(in(name), &st);
    printf("%s: told: %d, another error: %d, closed: %d, %ld bytes\n", name, told > 0, other,
           closed, (long)st.st_size);
}

static int slow(void)
{
    int fd = open(in("SLOW"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    bool done = pwrite(fd, data, SMALL - 1, 0) == SMALL - 1;

    for (int i = 0; done && i < PIECES; i++)
        done = pwrite(fd, data, PIECE, 0) == PIECE;

    return done && close(fd) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "EDQUOT", "EIO", "ENOSPC", "EFBIG", "EINTR", "SYNC" };

    if (argc != 3)
        return 2;

    dir = argv[2];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 2654435761u >> 13);

    if (strcmp(argv[1], "slow") == 0)
        return slow();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(argv[1], "each") == 0)
            each(names[i]);
        else if (strcmp(names[i], "SYNC") != 0)
            late(names[i]);

    return 0;
}

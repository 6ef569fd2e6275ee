/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of fwd_truth: flags of preadv2 and pwritev2 that newer kernels have.  Thread rule: one thread. */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "tests/files/calls/fwd_truth.h"
#include "tests/files/fwd_say.h"

static volatile sig_atomic_t broken_pipes;

static void count_broken(int signal)
{
    broken_pipes++;
}

/* Writes to a FIFO that has no reader. */
static void write_unread(int fifo, int flags)
{
    struct iovec one = { (char *)"abc", 3 };

    broken_pipes = 0;
    T(pwritev2(fifo, &one, 1, -1, flags));
    printf("%d signals\n", (int)broken_pipes);
}

/* Flags of newer kernels, and SIGPIPE, which one of them is about. */
void flagged_lately(void)
{
    enum {
        DONTCACHE = 0x80,
        NOSIGNAL = 0x100 /* since Linux 6.18 */
    };
    char text[100] = "";
    struct iovec one = { (char *)"abc", 3 };
    struct iovec back = { text, 5 };
    int fd = open(in("lately"), O_RDWR | O_CREAT, 0600);
    bool known = pwritev2(fd, &one, 1, 0, 0) == 3;
    int pair[2];

    T(pwritev2(fd, &one, 1, 0, DONTCACHE));
    T(preadv2(fd, &back, 1, 0, DONTCACHE));
    T(mkfifo(in("unread"), 0600));

    int reader = open(in("unread"), O_RDONLY | O_NONBLOCK);
    int fifo = open(in("unread"), O_WRONLY | O_NONBLOCK);

    signal(SIGPIPE, count_broken);
    known = known && pipe(pair) == 0 && pwritev2(pair[1], &one, 1, -1, NOSIGNAL) == 3;
    if (known) {
        T(pwritev2(fd, &one, 1, 1, NOSIGNAL | RWF_DSYNC));
        T(preadv2(fd, &back, 1, 1, NOSIGNAL));
        T(pwritev2(fd, &one, 1, 0, NOSIGNAL | 1 << 20));
        T(pwritev2(fifo, &one, 1, -1, NOSIGNAL));
        T(preadv2(reader, &back, 1, -1, NOSIGNAL));
    }

    close(reader);
    write_unread(fifo, 0);
    if (known)
        write_unread(fifo, NOSIGNAL);

    broken_pipes = 0;
    T(write(fifo, "x", 1));
    printf("%d signals\n", (int)broken_pipes);
    signal(SIGPIPE, SIG_DFL);
    close(fifo);
    close(fd);
}

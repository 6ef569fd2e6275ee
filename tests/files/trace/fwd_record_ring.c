/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For fwd_record_async.sh, with the argument FILE: by liburing, an openat of FILE, eight writes of 4 KiB at once, a
 * read of 10000 bytes at 30000, of which 2768 are there, an fsync, a close, and a read of no file.  Exit code 77: the
 * kernel refuses io_uring.
 */
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WRITES = 8,
    BLOCK = 4096
};

static void need(int ok)
{
    if (!ok)
        _exit(1);
}

/* Submits what is prepared and gives the result of the last one that is completed. */
static int complete(struct io_uring *ring, int n)
{
    struct io_uring_cqe *cqe;
    int result = 0;

    need(io_uring_submit(ring) == n);
    for (int i = 0; i < n; i++) {
        need(io_uring_wait_cqe(ring, &cqe) == 0);
        result = cqe->res;
        io_uring_cqe_seen(ring, cqe);
    }

    return result;
}

int main(int argc, char **argv)
{
    static char data[WRITES * BLOCK];
    struct io_uring ring;

    need(argc == 2);
    if (io_uring_queue_init(16, &ring, 0) != 0)
        return 77;

    io_uring_prep_openat(io_uring_get_sqe(&ring), AT_FDCWD, argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666);

    int fd = complete(&ring, 1);

    need(fd >= 0);
    for (int i = 0; i < WRITES; i++)
        io_uring_prep_write(io_uring_get_sqe(&ring), fd, data, BLOCK, (unsigned)i * BLOCK);

    need(complete(&ring, WRITES) == BLOCK);
    io_uring_prep_read(io_uring_get_sqe(&ring), fd, data, 10000, 30000);
    need(complete(&ring, 1) == 2768);
    io_uring_prep_fsync(io_uring_get_sqe(&ring), fd, 0);
    need(complete(&ring, 1) == 0);
    io_uring_prep_close(io_uring_get_sqe(&ring), fd);
    need(complete(&ring, 1) == 0);
    io_uring_prep_read(io_uring_get_sqe(&ring), 999, data, 10, 0);
    need(complete(&ring, 1) < 0);
    io_uring_queue_exit(&ring);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For fwd_record_async.sh, with arguments FILE aio | libaio | ring.  Starts requests on FILE and awaits their
 * ends.  Exit code 77: the kernel refuses such requests.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    WRITTEN = 1 << 16,
    READ = 1 << 15
};

static char data[4][WRITTEN];

static void need(int ok)
{
    if (!ok)
        _exit(1);
}

/* Returns what the request has moved. */
static ssize_t await(struct aiocb *cb)
{
    const struct aiocb *list[] = { cb };

    while (aio_error(cb) == EINPROGRESS)
        aio_suspend(list, 1, NULL);

    return aio_return(cb);
}

/* Writes of 64 KiB at 0, 64K, 128K, 192K, reads of 32 KiB there, an fsync, and a read of no file. */
static void use_posix(int fd)
{
    struct aiocb cb[4];
    struct aiocb *list[] = { &cb[2], &cb[3] };
    struct aiocb sync = { .aio_fildes = fd };
    struct aiocb none = { .aio_fildes = 999, .aio_buf = data[0], .aio_nbytes = READ };

    for (int i = 0; i < 4; i++)
        cb[i] = (struct aiocb){ .aio_fildes = fd,
                                .aio_buf = data[i],
                                .aio_nbytes = WRITTEN,
                                .aio_offset = (off_t)i * WRITTEN,
                                .aio_lio_opcode = LIO_WRITE };

    need(aio_write(&cb[0]) == 0 && aio_write(&cb[1]) == 0);
    need(lio_listio(LIO_WAIT, list, 2, NULL) == 0);
    for (int i = 0; i < 4; i++)
        need(await(&cb[i]) == WRITTEN);

    for (int i = 0; i < 4; i++) {
        cb[i].aio_nbytes = READ;
        need(aio_read(&cb[i]) == 0);
    }

    for (int i = 0; i < 4; i++)
        need(await(&cb[i]) == READ);

    need(aio_fsync(O_SYNC, &sync) == 0 && await(&sync) == 0);
    if (aio_read(&none) == 0)
        need(await(&none) == -1);
}

/* A write of 64 KiB at 0, one of 2 * 1000 bytes at 64K, a read of 32 KiB at 100, and one of no file. */
static void use_libaio(int fd)
{
    aio_context_t context = 0;
    struct iovec iov[] = { { data[1], 1000 }, { data[2], 1000 } };
    struct iocb cb[] = {
        { .aio_fildes = (uint32_t)fd,
          .aio_lio_opcode = IOCB_CMD_PWRITE,
          .aio_buf = (uintptr_t)data[0],
          .aio_nbytes = WRITTEN },
        { .aio_fildes = (uint32_t)fd,
          .aio_lio_opcode = IOCB_CMD_PWRITEV,
          .aio_buf = (uintptr_t)iov,
          .aio_nbytes = 2,
          .aio_offset = WRITTEN },
        { .aio_fildes = (uint32_t)fd,
          .aio_lio_opcode = IOCB_CMD_PREAD,
          .aio_buf = (uintptr_t)data[3],
          .aio_nbytes = READ,
          .aio_offset = 100 },
        { .aio_fildes = 999, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)data[3] },
    };
    struct iocb *list[] = { &cb[0], &cb[1], &cb[2], &cb[3] };
    struct io_event events[4];

    if (syscall(SYS_io_setup, 8, &context) != 0)
        _exit(77);

    need(syscall(SYS_io_submit, context, 4, list) == 3); /* up to the one of no file */
    need(syscall(SYS_io_getevents, context, 3, 3, events, NULL) == 3);
    syscall(SYS_io_destroy, context);
}

static void use_ring(void)
{
    char parameters[512] = { 0 };

    if (syscall(SYS_io_uring_setup, 4, parameters) < 0)
        _exit(77);
}

int main(int argc, char **argv)
{
    need(argc == 3);

    int fd = open(argv[1], O_RDWR | O_CREAT, 0666);

    need(fd >= 0);
    if (strcmp(argv[2], "aio") == 0)
        use_posix(fd);
    else if (strcmp(argv[2], "libaio") == 0)
        use_libaio(fd);
    else
        use_ring();

    return close(fd);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For fwd_record_async.sh, with arguments FILE and a word.  Starts requests on FILE and awaits their ends:
 *   aio, libaio      of each kind
 *   ends             by POSIX AIO, of which one fails, one is short, and one is awaited by another thread
 *   open             as libaio, but the end of the last one is not awaited
 *   many             20000, 32 of them in flight at once
 *   ring             only makes a ring
 * Exit code 77: the kernel refuses such requests.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
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

/* ---- ends ---- */

static void *await_in_thread(void *cb)
{
    need(await(cb) == 1000);
    return NULL;
}

static void see_ends(int fd, const char *name)
{
    int only_read = open(name, O_RDONLY);
    struct aiocb fails = { .aio_fildes = only_read, .aio_buf = data[0], .aio_nbytes = 10 };
    struct aiocb is_short = { .aio_fildes = fd,
                              .aio_buf = data[0],
                              .aio_nbytes = 500,
                              .aio_offset = 900 };
    struct aiocb other = { .aio_fildes = fd, .aio_buf = data[1], .aio_nbytes = 1000 };
    pthread_t thread;

    need(pwrite(fd, data[0], 1000, 0) == 1000);
    need(aio_write(&fails) == 0 && await(&fails) == -1);
    need(aio_read(&is_short) == 0 && await(&is_short) == 100);
    need(aio_read(&other) == 0);
    usleep(30000);
    need(pthread_create(&thread, NULL, await_in_thread, &other) == 0);
    need(pthread_join(thread, NULL) == 0);
}

static void leave_open(int fd)
{
    aio_context_t context = 0;
    struct io_event events[2];
    struct iocb cb[2] = { { .aio_fildes = (uint32_t)fd,
                            .aio_lio_opcode = IOCB_CMD_PWRITE,
                            .aio_buf = (uintptr_t)data[0],
                            .aio_nbytes = 100 } };
    struct iocb *list[] = { &cb[0], &cb[1] };

    cb[1] = cb[0];
    cb[1].aio_offset = 100;
    if (syscall(SYS_io_setup, 8, &context) != 0)
        _exit(77);

    need(syscall(SYS_io_submit, context, 2, list) == 2);
    need(syscall(SYS_io_getevents, context, 1, 1, events, NULL) == 1);
}

static void use_many(int fd)
{
    enum { DEPTH = 32, ROUNDS = 625 };
    aio_context_t context = 0;
    struct io_event events[DEPTH];
    struct iocb cb[DEPTH];
    struct iocb *list[DEPTH];

    if (syscall(SYS_io_setup, DEPTH, &context) != 0)
        _exit(77);

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < DEPTH; i++) {
            cb[i] = (struct iocb){ .aio_fildes = (uint32_t)fd,
                                   .aio_lio_opcode = IOCB_CMD_PWRITE,
                                   .aio_buf = (uintptr_t)data[0],
                                   .aio_nbytes = 64,
                                   .aio_offset = (round * DEPTH + i) * 64 };
            list[i] = &cb[i];
        }

        need(syscall(SYS_io_submit, context, DEPTH, list) == DEPTH);
        need(syscall(SYS_io_getevents, context, DEPTH, DEPTH, events, NULL) == DEPTH);
    }
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
    else if (strcmp(argv[2], "ends") == 0)
        see_ends(fd, argv[1]);
    else if (strcmp(argv[2], "open") == 0)
        leave_open(fd);
    else if (strcmp(argv[2], "many") == 0)
        use_many(fd);
    else
        use_ring();

    return close(fd);
}

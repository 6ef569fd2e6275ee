/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A forwarding program whose network connection is reset when the data of a read begins to arrive.
 *
 *   fwd_reset_read FILE      with RESET_AT=N, the number of the piece, and this file's library in LD_PRELOAD
 *
 * Built twice: as a library whose recv takes the place of the C library's for libfabric, and as the program
 * (-DPROGRAM), which reads blocks of known bytes.  Exit code: 0: all are right; 1: a call failed; 9: a block
 * has other bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PROGRAM

#define PIECE_MIN 100000u

static int left = -1;

static __attribute__((constructor)) void begin(void)
{
    const char *at = getenv("RESET_AT");

    if (at && strcmp(program_invocation_short_name, "reset_read") == 0)
        left = atoi(at);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
    const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

    if (len > PIECE_MIN && left >= 0 && left-- == 0) {
        syscall(SYS_connect, fd, &nowhere, sizeof nowhere);
        errno = ECONNRESET;
        return -1;
    }

    return syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
}

#else

enum {
    BLOCK = 1 << 20,
    BLOCKS = 16,
    CALLS = 40
};

static uint64_t block[BLOCK / 8];

static void fill(int number)
{
    for (size_t i = 0; i < BLOCK / 8; i++)
        block[i] = (uint64_t)number << 32 | i;
}

static bool is_right(int number)
{
    for (size_t i = 0; i < BLOCK / 8; i++)
        if (block[i] != ((uint64_t)number << 32 | i))
            return false;

    return true;
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_CREAT | O_RDWR, 0644) : -1;

    if (fd < 0)
        return 2;

    for (int i = 0; i < BLOCKS; i++) {
        fill(i);
        if (pwrite(fd, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
            return 2;
    }

    for (int i = 0; i < CALLS; i++) {
        if (pread(fd, block, BLOCK, (off_t)(i % BLOCKS) * BLOCK) != BLOCK) {
            printf("read: %s\n", strerrorname_np(errno));
            return 1;
        }

        if (!is_right(i % BLOCKS)) {
            printf("call %d returned other bytes\n", i);
            return 9;
        }
    }

    puts("all right");
    return 0;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded into a process whose first thread is to be slow: each descriptor that it closes takes 20 ms.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

int close(int fd)
{
    if (gettid() == getpid())
        usleep(20000);

    return (int)syscall(SYS_close, fd);
}

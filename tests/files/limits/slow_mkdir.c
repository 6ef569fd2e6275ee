/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded into a server for fwd_slow_server.sh: it makes the directory "busy" after 14 seconds of computing,
 * and "asleep" never.  A file .NAME beside the directory says that it has begun.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BUSY_S 14

static void begin(int dir, const char *name)
{
    char mark[32];

    snprintf(mark, sizeof mark, ".%s", name);
    close(openat(dir, mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

int mkdirat(int dir, const char *name, mode_t mode)
{
    if (strcmp(name, "busy") == 0) {
        time_t end = seconds() + BUSY_S;

        begin(dir, name);
        while (seconds() < end) {
        }
    }

    if (strcmp(name, "asleep") == 0) {
        begin(dir, name);
        for (;;)
            pause();
    }

    return (int)syscall(SYS_mkdirat, dir, name, mode);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of fwd_passthrough: what the script does not run twice and compare, but drives itself.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/files/data/fwd_passthrough.h"
#include "tests/files/fwd_is.h"
#include "tests/files/fwd_say.h"

/* ---- few descriptors ---- */

/* Opens files and writes them until there are max, or no descriptor is left; returns their number. */
static int open_files(int max)
{
    char name[32];
    int n = 0;

    for (; n < max; n++) {
        snprintf(name, sizeof name, "few%d", n);

        int fd = open(in(name), O_RDWR | O_CREAT, 0600);

        if (fd < 0)
            break;

        for (int i = 0; i < ENOUGH; i++)
            IS(write(fd, "x", 1), 1);
    }

    return n;
}

/* How many files the process can have open at a time. */
void section_few(void)
{
    int n = open_files(INT_MAX);

    printf("files %d %s\n", n, strerrorname_np(errno));
}

static int open_local(int n)
{
    switch (n % 5) {
    case 0:
        return open("/dev/null", O_RDWR);
    case 1:
        return dup(0);
    case 2:
        return socket(AF_UNIX, SOCK_STREAM, 0);
    case 3:
        return eventfd(0, 0);
    default:
        return epoll_create1(0);
    }
}

/* The same for descriptors of all kinds, while files have some. */
void section_few_local(void)
{
    int n = open_files(20);

    while (open_local(n) >= 0)
        n++;

    printf("files %d %s\n", n, strerrorname_np(errno));
}

/* ---- driven by the script ---- */

/* Writes one file until it is killed. */
void section_forever(void)
{
    int fd = make("forever", O_RDWR);

    warm(fd);
    puts("begun");
    fflush(stdout);
    for (;;) {
        pwrite(fd, buf, 5000, 0);
        ftruncate(fd, 5000);
    }
}

/* Writes until a call fails, which says how. */
void section_until(void)
{
    int fd = make("until", O_RDWR);
    long n = 0;

    end_after(20);
    warm(fd);
    puts("begun");
    fflush(stdout);
    while (pwrite(fd, "0123456789", 10, n % 1000 * 10) == 10)
        n++;

    printf("ended %s\n", strerrorname_np(errno));
}

/* Writes records at the offset and elsewhere; says so when half of them are written, and goes on. */
void section_failover(void)
{
    enum {
        RECORDS = 6000
    };
    int fd = make("failover", O_RDWR | O_TRUNC);
    int placed = make("placed", O_RDWR | O_TRUNC);
    char record[32], name[PATH_MAX];

    end_after(60);
    snprintf(name, sizeof name, "%s/half", scratch);
    for (step = 0; step < RECORDS; step++) {
        snprintf(record, sizeof record, "record %023d\n", step);
        IS(write(fd, record, 31), 31);
        IS(pwrite(placed, record, 31, step * 31L), 31);
        if (step == RECORDS / 2)
            close(open(name, O_CREAT | O_WRONLY, 0600));
        if (step >= RECORDS / 2)
            usleep(200);
    }

    IS(lseek(fd, 0, SEEK_CUR), RECORDS * 31L);
    close(fd);
    close(placed);
    puts("written");
}

/* DIRECTORY is a file that may only be read; whoever opens its descriptor again may not write it either. */
void section_only(void)
{
    char byte;
    int fd = open(dir, O_RDONLY);

    for (int i = 0; i < ENOUGH; i++)
        IS(pread(fd, &byte, 1, 0), 1);

    IS(pwrite(fd, "x", 1, 0), -1);
    IS(errno, EBADF);
    IS(ftruncate(fd, 0), -1);
    IS(open(dir, O_RDWR), -1);
    IS(errno, EROFS);
}

static void warm_new(const char *name)
{
    int fd = make(name, O_RDWR);

    warm(fd);
    IS(write(fd, "x", 1), 1);
    close(fd);
}

/* Gives up the supplementary groups, which the server sees a millisecond later; its files are open as before. */
void section_leaves(void)
{
    int fd = make("before", O_RDWR);

    warm(fd);
    IS(setgroups(0, NULL), 0);
    usleep(2000);
    IS(write(fd, "x", 1), 1);
    warm_new("after");
}

/* A child gives them up. */
void section_child_leaves(void)
{
    int st;

    warm_new("before");

    pid_t child = fork();

    if (child == 0) {
        IS(setgroups(0, NULL), 0);
        warm_new("after");
        _exit(0);
    }

    IS(waitpid(child, &st, 0), child);
    IS(st, 0);
}

/* Reads the file in small pieces. */
void section_small(void)
{
    int fd = make("forever", O_RDWR);
    char piece[16];

    for (int i = 0; i < 2000; i++)
        IS(pread(fd, piece, sizeof piece, i % 250 * 16), 16);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns of locks, and of FIFOs and pipes between processes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/files/ratios/ratios.h"

static int fd = -1;

/* ---- locks ---- */

static void make_lock(void)
{
    make_file(at("lock"), 100);
}

static void open_lock(int worker)
{
    fd = open(at("lock"), O_RDWR | O_CLOEXEC);
    must(fd >= 0, "open");
}

static void call_flock(int worker, int i)
{
    must(flock(fd, LOCK_EX) == 0 && flock(fd, LOCK_UN) == 0, "flock");
}

static void lock_record(int command, short type)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

    must(fcntl(fd, command, &l) == 0, "fcntl");
}

static void call_record(int worker, int i)
{
    lock_record(F_SETLKW, F_WRLCK);
    lock_record(F_SETLK, F_UNLCK);
}

static void call_ofd(int worker, int i)
{
    lock_record(F_OFD_SETLKW, F_WRLCK);
    lock_record(F_OFD_SETLK, F_UNLCK);
}

/* As a database does: a lock, a page read and written, the lock released. */
static void call_transaction(int worker, int i)
{
    char page[1024];

    lock_record(F_SETLKW, F_WRLCK);
    must(pread(fd, page, 100, 0) == 100 && pwrite(fd, page, 100, 0) == 100, "pwrite");
    lock_record(F_SETLK, F_UNLCK);
}

/* ---- FIFOs and pipes, from one process to another and back ---- */

static int there[2], back[2];

static void make_fifos(void)
{
    must(mkfifo(at("there"), 0600) == 0 && mkfifo(at("back"), 0600) == 0, "mkfifo");
}

/* Both ends open them in the same order. */
static void open_fifos(int worker)
{
    there[worker] = open(at("there"), (worker ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    back[worker] = open(at("back"), (worker ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    must(there[worker] >= 0 && back[worker] >= 0, "open");
}

static void make_pipes(void)
{
    int a[2], b[2];

    must(pipe(a) == 0 && pipe(b) == 0, "pipe");
    there[0] = a[1];
    there[1] = a[0];
    back[0] = b[0];
    back[1] = b[1];
}

static void close_pipes(void)
{
    for (int i = 0; i < 2; i++)
        must(close(there[i]) == 0 && close(back[i]) == 0, "close");
}

static void call_ping_pong(int worker, int i)
{
    char byte = 0;

    if (worker == 0)
        must(write(there[0], "x", 1) == 1 && read(back[0], &byte, 1) == 1, "ping");
    else
        must(read(there[1], &byte, 1) == 1 && write(back[1], "y", 1) == 1, "pong");
}

const struct pattern patterns_shared[] = {
    /* clang-format off */
    { "flock", make_lock, NULL, open_lock, call_flock, 1000 },
    { "flock_by_8", make_lock, NULL, open_lock, call_flock, 200, .processes = 8 },
    { "flock_by_64", make_lock, NULL, open_lock, call_flock, 50, .processes = 64 },
    { "record_lock", make_lock, NULL, open_lock, call_record, 1000 },
    { "record_lock_by_8", make_lock, NULL, open_lock, call_record, 200, .processes = 8 },
    { "ofd_lock", make_lock, NULL, open_lock, call_ofd, 1000 },
    { "transaction_by_8", make_lock, NULL, open_lock, call_transaction, 200, .processes = 8 },
    { "fifo_ping_pong", make_fifos, NULL, open_fifos, call_ping_pong, 500, .processes = 2 },
    { "pipe_ping_pong", make_pipes, close_pipes, NULL, call_ping_pong, 500, .processes = 2 },
    { NULL },
    /* clang-format on */
};

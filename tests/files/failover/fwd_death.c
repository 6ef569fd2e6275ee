/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_death WHAT DIRECTORY KEPT: the server dies (-on-server-death eio) in the middle of something.
 * Nothing hangs, what cannot be done is told by EIO, and what was told as done is in the file that
 * the servers keep in KEPT.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_kill.h"

#define TOTAL ((size_t)24 << 20)
static uint8_t *data;
static char path[4096], kept[4096];

static void must(bool ok, const char *what, long n)
{
    if (ok)
        return;

    fprintf(stderr, "%s: %ld (%s)\n", what, n, strerrorname_np(errno));
    exit(1);
}

/* The client knows it as well, by a call that leaves other files alone. */
static void kill_and_notice(int other)
{
    must(kill_server(), "no server found", 0);
    must(pwrite(other, data, 1, 0) == -1 && errno == EIO, "a write", 0);
}

static void *kill_soon(void *delay)
{
    usleep((useconds_t)(uintptr_t)delay);
    must(kill_server(), "no server found", 0);
    return NULL;
}

/* What was told as done is there. */
static void is_kept(size_t from, size_t len)
{
    uint8_t *back = malloc(len + 1);
    int fd = open(kept, O_RDONLY);

    must(back && fd >= 0, "the file as the servers keep it", fd);
    must(pread(fd, back, len, (off_t)from) == (ssize_t)len, "bytes that were told as written",
         (long)len);
    must(memcmp(back, data + from, len) == 0, "their contents", (long)from);
    close(fd);
    free(back);
}

/* Calls of one length until one fails, which it has to by the end; gives the bytes told as
 * written. */
static size_t write_on(int fd, size_t at, size_t step, size_t end)
{
    ssize_t n = 0;

    while (at < end && (n = write(fd, data + at, step < end - at ? step : end - at)) > 0)
        at += (size_t)n;

    must(at == end || (n < 0 && errno == EIO), "a write ends by EIO", n);
    return at;
}

static void large(void) /* nothing of it can be done, not one piece may be told */
{
    int fd = open(path, O_CREAT | O_RDWR, 0600);

    must(write(fd, data, 1000) == 1000, "write", 0);
    must(kill_server(), "no server found", 0);
    must(write(fd, data, TOTAL) == -1 && errno == EIO, "a large write", 0);
    must(pwrite(fd, data, 5, 0) == -1 && errno == EIO, "a small write", 0);
    must(fsync(fd) == -1 && errno == EIO, "fsync", 0);
}

static void running(void) /* some pieces are done, some are not */
{
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    pthread_t thread;

    pthread_create(&thread, NULL, kill_soon, (void *)(uintptr_t)(getpid() % 9000));

    size_t at = 0;
    size_t sum = 0;

    for (ssize_t n; (n = pwrite(fd, data + at, TOTAL / 3, (off_t)at)) > 0;
         at = (at + (size_t)n) % TOTAL / 4096 * 4096) {
        is_kept(at, (size_t)n);
        sum += (size_t)n;
        if (at + TOTAL / 3 + (size_t)n > TOTAL)
            at = 0;
    }

    must(errno == EIO, "the write that fails", (long)sum);
    pthread_join(thread, NULL);
}

static void gathered(void) /* IOFWD_CONSISTENCY=session */
{
    int fd = open(path, O_CREAT | O_RDWR, 0600);

    must(write_on(fd, 0, 1000, 10000) == 10000, "gathered writes", 0);
    must(fsync(fd) == 0, "fsync", 0);
    must(write_on(fd, 10000, 1000, 20000) == 20000, "gathered writes", 0);
    must(kill_server(), "no server found", 0);
    (void)write_on(fd, 20000, 1000, 21000); /* may be gathered, too, before anybody has noticed */
    must(fsync(fd) == -1 && errno == EIO, "fsync", 0);
    must(write(fd, data, 1000) == -1 && errno == EIO, "a write after that", 0);
    is_kept(0, 10000);
}

static void ahead(void) /* IOFWD_CONSISTENCY=session: what was fetched is used, then comes EIO */
{
    static uint8_t back[1000];
    size_t at = 0;
    ssize_t n;
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    int other = open(path, O_WRONLY);

    must(write(fd, data, TOTAL) == (ssize_t)TOTAL && lseek(fd, 0, SEEK_SET) == 0, "write", 0);
    for (int i = 0; (n = read(fd, back, sizeof back)) > 0; i++) {
        must(memcmp(back, data + at, (size_t)n) == 0, "what is read", (long)at);
        at += (size_t)n;
        if (i == 200) /* the next block has been waited for, so all that is under way has come */
            kill_and_notice(other);
    }

    must(n < 0 && errno == EIO && at < TOTAL, "the end of reading", (long)at);
}

static void announced(void)
{
    int fd = open(path, O_CREAT | O_RDWR, 0600);

    must(iofwd_write_prep(fd, 100000, 100) == 0, "announce", 0);
    must(write_on(fd, 0, 1000, 50000) == 50000, "announced writes", 0);
    must(kill_server(), "no server found", 0);
    must(write_on(fd, 50000, 1000, 100000) < 100000, "the announced run is not told as done", 0);
}

static void announced_read(void)
{
    static uint8_t back[1000];
    ssize_t n = 1;
    size_t at = 0;
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    int other = open(path, O_WRONLY);

    must(write(fd, data, TOTAL) == (ssize_t)TOTAL && lseek(fd, 0, SEEK_SET) == 0, "write", 0);
    must(iofwd_read_prep(fd, TOTAL, (unsigned)(TOTAL / 1000)) == 0, "announce", 0);

    for (int i = 0; (n = read(fd, back, sizeof back)) > 0; i++, at += (size_t)n)
        if (i == 200)
            kill_and_notice(other);

    must(n < 0 && errno == EIO && at < TOTAL, "the end of reading", (long)at);
}

static void spread(void) /* IOFWD_STRIPE=2: one of two dies, the first goes on */
{
    int fd = open(path, O_CREAT | O_RDWR, 0600);

    must(pwrite(fd, data, TOTAL, 0) == (ssize_t)TOTAL, "write", 0);
    must(kill_server(), "no server found", 0);
    must(ftruncate(fd, 0) == 0, "the first server goes on", 0);

    ssize_t n = pwrite(fd, data, TOTAL, 0);

    must(n < (ssize_t)TOTAL && (n >= 0 || errno == EIO), "half a write is not a whole one", n);
    if (n > 0)
        is_kept(0, (size_t)n);

    must(fsync(fd) == -1 && errno == EIO, "fsync", 0);
}

static void nonblocking(void)
{
    enum {
        OPS = 12
    };

    size_t each = TOTAL / OPS;
    iofwd_file_t *file;
    iofwd_op_t op[OPS];

    must(iofwd_open(path, O_CREAT | O_RDWR, 0600, &file) == 0, "open", 0);
    for (size_t i = 0; i < OPS; i++)
        must(iofwd_pwrite_nb(file, data + i * each, each, (off_t)(i * each), &op[i]) == 0, "begin",
             (long)i);

    must(kill_server(), "no server found", 0);
    for (size_t i = 0; i < OPS; i++) {
        struct iofwd_result r;

        must(iofwd_wait(&op[i], 20, &r) == 0, "wait", (long)i);
        must(r.error == 0 || r.error == EIO, "its error", r.error);
        if (!r.error)
            is_kept(i * each, r.bytes);
    }
}

/* ---- a process that waits at a FIFO ---- */

static int fifo, other_end[2];

/* A FIFO and a local pipe with nothing in them, and a server that dies soon. */
static pthread_t wait_begins(void)
{
    pthread_t thread;
    bool made = mkfifo(path, 0600) == 0 && (fifo = open(path, O_RDWR)) >= 0 && pipe(other_end) == 0;

    must(made, "a FIFO", fifo);
    must(pthread_create(&thread, NULL, kill_soon, (void *)(uintptr_t)50000) == 0, "a thread", 0);
    alarm(20); /* a wait that does not end is a failure */

    return thread;
}

static void wait_ended(pthread_t thread)
{
    char c;

    pthread_join(thread, NULL);
    must(read(fifo, &c, 1) == -1 && errno == EIO, "the next read", 0);
    must(write(fifo, "x", 1) == -1 && errno == EIO, "the next write", 0);

    struct pollfd p = { .fd = fifo, .events = POLLIN };

    must(poll(&p, 1, -1) == 1 && (p.revents & POLLERR), "the next poll", p.revents);
}

static void polled(void)
{
    pthread_t thread = wait_begins();
    struct pollfd p[] = { { .fd = other_end[0], .events = POLLIN },
                          { .fd = fifo, .events = POLLIN } };

    must(poll(p, 2, -1) == 1 && p[0].revents == 0 && p[1].revents & (POLLERR | POLLHUP), "poll",
         p[1].revents);
    wait_ended(thread);
}

static void polled_long(void) /* with an end of its own, which it does not come to */
{
    pthread_t thread = wait_begins();
    struct pollfd p = { .fd = fifo, .events = POLLIN };

    must(poll(&p, 1, 1000000) == 1 && p.revents & (POLLERR | POLLHUP), "poll", p.revents);
    wait_ended(thread);
}

static void selected(void)
{
    pthread_t thread = wait_begins();
    fd_set set;

    FD_ZERO(&set);
    FD_SET(fifo, &set);
    FD_SET(other_end[0], &set);

    int n = select((fifo > other_end[0] ? fifo : other_end[0]) + 1, &set, NULL, NULL, NULL);

    must(n == 1 && FD_ISSET(fifo, &set), "select", n);
    wait_ended(thread);
}

static void watched(void)
{
    pthread_t thread = wait_begins();
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 77 };
    int ep = epoll_create1(0);

    must(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev) == 0, "epoll_ctl", 0);

    int n = epoll_wait(ep, &ev, 1, -1);

    must(n == 1 && ev.data.u64 == 77 && ev.events & (EPOLLERR | EPOLLHUP), "epoll_wait", n);
    wait_ended(thread);
}

static void reads(void)
{
    char c;
    pthread_t thread = wait_begins();

    must(read(fifo, &c, 1) == -1 && errno == EIO, "read", 0);
    wait_ended(thread);
}

static void opens(void)
{
    pthread_t thread = wait_begins();

    snprintf(path + strlen(path), 8, ".other");
    must(mkfifo(path, 0600) == 0, "another FIFO", 0);

    int fd = open(path, O_RDONLY); /* failover: another server waits for a writer */

    must(fd == -1 && errno == EIO, "open", fd);
    wait_ended(thread);
}

/* ---- a process that waits for the others of a collective call ---- */

static void collective(void)
{
    iofwd_file_t *file;
    struct iofwd_row row = { .len = 100, .count = 1 };
    struct iofwd_extent s = { .processes = 2, .len = 100, .rows = &row, .nrows = 1, .buf = data };
    int hold[2];
    pthread_t thread;
    char c;

    must(iofwd_open(path, O_CREAT | O_RDWR, 0600, &file) == 0 && pipe(hold) == 0, "open", 0);

    pid_t pid = fork(); /* it has the file, too, and never comes */

    if (pid == 0) {
        close(hold[1]);
        _exit(read(hold[0], &c, 1) != 0);
    }

    alarm(20);
    s.file = file;
    must(pthread_create(&thread, NULL, kill_soon, (void *)(uintptr_t)50000) == 0, "a thread", 0);

    int err = iofwd_pwrite_collective(&s, 1);

    must(err == EIO, "a collective write", err);
    pthread_join(thread, NULL);
    close(hold[1]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } all[] = { { "large", large },          { "running", running },
                { "gathered", gathered },    { "ahead", ahead },
                { "announced", announced },  { "announced-read", announced_read },
                { "spread", spread },        { "nonblocking", nonblocking },
                { "polled", polled },        { "polled-long", polled_long },
                { "selected", selected },    { "watched", watched },
                { "reads", reads },          { "opens", opens },
                { "collective", collective } };
    if (argc != 4)
        return 2;

    snprintf(path, sizeof path, "%s/file", argv[2]);
    snprintf(kept, sizeof kept, "%s/file", argv[3]);
    data = malloc(TOTAL);
    for (size_t i = 0; data && i < TOTAL; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 11);

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].fn();
            puts("as it should be");
            return 0;
        }

    return 2;
}

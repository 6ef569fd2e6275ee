/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns of processes: forks, programs, descriptors, readiness. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/ratios/ratios.h"

#define FILES 1000
#define FIFOS 100

extern char **environ;

static int fds[FILES];

/* ---- forks and programs ---- */

static void open_files(int n)
{
    for (int i = 0; i < n; i++) {
        fds[i] = open(at("file%d", i), O_RDWR | O_CREAT, 0600);
        must(fds[i] >= 0, "open");
    }
}

static void close_files(int n)
{
    for (int i = 0; i < n; i++)
        must(close(fds[i]) == 0, "close");
}

static void open_10(void)
{
    open_files(10);
}

static void close_10(void)
{
    close_files(10);
}

static void open_1000(void)
{
    open_files(FILES);
}

static void close_1000(void)
{
    close_files(FILES);
}

static void wait_for(pid_t child)
{
    int status;

    must(child > 0 && waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

static void call_fork(int worker, int i)
{
    pid_t child = fork();

    if (child == 0)
        _exit(0);

    wait_for(child);
}

static void call_fork_exec(int worker, int i)
{
    pid_t child = fork();

    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }

    wait_for(child);
}

static void call_vfork_exec(int worker, int i)
{
    pid_t child = vfork();

    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }

    wait_for(child);
}

/* As Python's subprocess does: nothing but the standard descriptors is left to the program. */
static void call_close_range_exec(int worker, int i)
{
    pid_t child = vfork();

    if (child == 0) {
        close_range(3, ~0u, 0);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }

    wait_for(child);
}

static void call_spawn_output(int worker, int i)
{
    char *args[] = { (char *)"true", NULL };
    posix_spawn_file_actions_t actions;
    pid_t child;

    must(posix_spawn_file_actions_init(&actions) == 0, "posix_spawn");
    must(posix_spawn_file_actions_addopen(&actions, 1, at("out"), O_WRONLY | O_CREAT | O_TRUNC,
                                          0600) == 0,
         "posix_spawn");
    must(posix_spawn(&child, "/bin/true", &actions, NULL, args, environ) == 0, "posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    wait_for(child);
}

/* ---- descriptors ---- */

static void call_dup(int worker, int i)
{
    int copy = dup(fds[i % 10]);

    must(copy >= 0 && close(copy) == 0, "dup");
}

/* As shells redirect: the old descriptor is kept, replaced and restored. */
static void call_redirect(int worker, int i)
{
    int kept = fcntl(1, F_DUPFD_CLOEXEC, 10);
    int fd = open(at("out"), O_WRONLY | O_CREAT | O_APPEND, 0600);

    must(kept >= 0 && fd >= 0 && dup2(fd, 1) == 1 && close(fd) == 0, "dup2");
    must(write(1, "line\n", 5) == 5, "write");
    must(dup2(kept, 1) == 1 && close(kept) == 0, "dup2");
}

static void call_fcntl_flags(int worker, int i)
{
    must(fcntl(fds[i % 10], F_GETFL) >= 0 && fcntl(fds[i % 10], F_GETFD) >= 0, "fcntl");
}

/* ---- readiness ---- */

static struct pollfd polled[FIFOS];
static int set = -1;

static void open_fifos(void)
{
    set = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < FIFOS; i++) {
        struct epoll_event ev = { .events = EPOLLIN, .data.fd = i };

        must(mkfifo(at("fifo%d", i), 0600) == 0, "mkfifo");
        fds[i] = open(at("fifo%d", i), O_RDWR | O_NONBLOCK | O_CLOEXEC);
        polled[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
        must(fds[i] >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &ev) == 0, "epoll_ctl");
    }
}

static void close_fifos(void)
{
    close_files(FIFOS);
    must(close(set) == 0, "close");
}

static void call_poll_none(int worker, int i)
{
    must(poll(polled, FIFOS, 0) == 0, "poll");
}

static void send_byte(int i)
{
    must(write(fds[i % FIFOS], "x", 1) == 1, "write");
}

static void take_byte(int i)
{
    char byte;

    must(read(fds[i % FIFOS], &byte, 1) == 1, "read");
}

static void call_poll_one(int worker, int i)
{
    send_byte(i);
    must(poll(polled, FIFOS, -1) == 1, "poll");
    take_byte(i);
}

static void call_select_one(int worker, int i)
{
    fd_set reads;

    FD_ZERO(&reads);
    for (int k = 0; k < FIFOS; k++)
        FD_SET(fds[k], &reads);

    send_byte(i);
    must(select(fds[FIFOS - 1] + 1, &reads, NULL, NULL, NULL) == 1, "select");
    take_byte(i);
}

static void call_epoll_one(int worker, int i)
{
    struct epoll_event ev[4];

    send_byte(i);
    must(epoll_wait(set, ev, 4, -1) == 1, "epoll_wait");
    take_byte(i);
}

const struct pattern patterns_process[] = {
    /* clang-format off */
    { "fork_10_files", open_10, close_10, NULL, call_fork, 100 },
    { "fork_1000_files", open_1000, close_1000, NULL, call_fork, 50 },
    { "fork+exec_10_files", open_10, close_10, NULL, call_fork_exec, 40 },
    { "vfork+exec_10_files", open_10, close_10, NULL, call_vfork_exec, 40 },
    { "vfork+close_range+exec", open_10, close_10, NULL, call_close_range_exec, 40 },
    { "vfork+exec_1000_files", open_1000, close_1000, NULL, call_vfork_exec, 40 },
    { "posix_spawn_to_file", NULL, NULL, NULL, call_spawn_output, 40 },
    { "dup+close", open_10, close_10, NULL, call_dup, 2000 },
    { "redirect", NULL, NULL, NULL, call_redirect, 1000 },
    { "fcntl_flags", open_10, close_10, NULL, call_fcntl_flags, 2000 },
    { "poll_100_fifos", open_fifos, close_fifos, NULL, call_poll_none, 200 },
    { "poll_100_fifos_1_ready", open_fifos, close_fifos, NULL, call_poll_one, 200 },
    { "select_100_fifos_1_ready", open_fifos, close_fifos, NULL, call_select_one, 200 },
    { "epoll_100_fifos_1_ready", open_fifos, close_fifos, NULL, call_epoll_one, 400 },
    { NULL },
    /* clang-format on */
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes between a static program and forwarded files; see relay.h.
 *
 * Layer: iofwd (interposer).
 *
 * The process that the program was to replace stays, since its parent waits for it and signals it.
 * It forwards signals, and ends when the program has ended and all data has been written.  Input
 * that was read ahead and not consumed is given back.
 */
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/process/connections.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/interpose/process/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/process/state.h"

#define ABOVE 512 /* above the program's descriptors */
#define PIECE 65536

bool amph_ip_relay_useful(void)
{
    return amph_ip_fd(0) || amph_ip_fd(1) || amph_ip_fd(2);
}

/* Another thread would continue in the process that stays. */
static bool is_alone(const char *path)
{
    struct stat st;
    char text[512];

    if (libc_stat64("/proc/self/task", &st) == 0 && st.st_nlink == 3)
        return true;

    int n = snprintf(
        text, sizeof text,
        "amphora: %.300s is statically linked, or the dynamic linker prints about it, and it is "
        "started by a program with threads: the forwarded files that are its standard input or "
        "output "
        "cannot be used; put \"cat\" between them\n",
        path);

    amph_ip_put_error(text, (size_t)n);
    return false;
}

static int move_up(int fd)
{
    int up = fd < 0 ? -1 : libc_fcntl64(fd, F_DUPFD_CLOEXEC, (void *)(long)ABOVE);

    if (up >= 0)
        libc_close(fd);

    return up >= 0 ? up : fd;
}

static int open_line(int fd)
{
    struct amph_ip_relay_line *l = &amph_ip_process.relay.line[fd];
    int ends[2];

    *l = (struct amph_ip_relay_line){
        .file = -1, .ours = -1, .theirs = -1, .same = -1, .input = fd == 0
    };
    if (!amph_ip_fd(fd))
        return 0;

    for (int i = 1; i < fd && l->same < 0; i++)
        if (amph_ip_process.relay.line[i].file >= 0 && amph_fdtab_same(i, fd))
            l->same = i;

    if (l->same >= 0)
        return 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;

    l->ours = move_up(ends[l->input]);
    l->theirs = move_up(ends[!l->input]);
    l->file = amph_do_fcntl(fd, F_DUPFD_CLOEXEC, (void *)(long)ABOVE);
    l->buf = l->input ? malloc(PIECE) : NULL;
    libc_fcntl64(l->ours, F_SETFL,
                 (void *)(long)(libc_fcntl64(l->ours, F_GETFL, NULL) | O_NONBLOCK));

    return l->file < 0 || (l->input && !l->buf) ? -1 : 0;
}

static void shut(int *fd)
{
    if (*fd >= 0)
        libc_close(*fd);

    *fd = -1;
}

static void close_lines(void)
{
    for (int i = 0; i < 3; i++) {
        struct amph_ip_relay_line *l = &amph_ip_process.relay.line[i];

        shut(&l->ours);
        shut(&l->theirs);
        if (l->file >= 0)
            amph_do_close(l->file);

        free(l->buf);
    }

    shut(&amph_ip_process.relay.wake[0]);
    shut(&amph_ip_process.relay.wake[1]);
}

/* ---- signals ---- */

/* A terminal signals the whole group, so the program gets its signals anyway.  A fault of the relay
 * itself ends it at the second signal. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
    int saved = errno;

    if (sig == SIGCHLD)
        (void)!libc_write(amph_ip_process.relay.wake[1], "c", 1);
    else if (info->si_code <= 0)
        kill(amph_ip_process.relay.child, sig);
    else if (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE)
        signal(sig, SIG_DFL);

    errno = saved;
}

static void take_signals(void)
{
    struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct sigaction now;

    sigfillset(&act.sa_mask);
    for (int sig = 1; sig < NSIG; sig++) {
        bool stops = sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU || sig == SIGCONT;

        if (!stops && sigaction(sig, NULL, &now) == 0 &&
            (now.sa_handler != SIG_IGN || sig == SIGCHLD))
            sigaction(sig, &act, NULL);
    }

    signal(SIGPIPE, SIG_IGN);
}

/* ---- data ---- */

static void report_loss(const char *what)
{
    char text[256];
    int n = snprintf(text, sizeof text, "amphora: a static program's %s: %s\n", what,
                     strerror(errno));

    amph_ip_put_error(text, (size_t)n);
}

/* Moves data from the program to the file.  false: no data at the moment. */
static bool carry_out(struct amph_ip_relay_line *l)
{
    char buf[PIECE];
    ssize_t n = libc_read(l->ours, buf, sizeof buf);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;

    if (n <= 0) {
        shut(&l->ours);
        return false;
    }

    for (ssize_t at = 0, put; at < n; at += put)
        if ((put = amph_do_write(l->file, buf + at, (size_t)(n - at))) <= 0) {
            if (put < 0 && errno == EINTR) {
                put = 0;
                continue;
            }

            report_loss("output");
            amph_ip_process.relay.failed = true;
            shut(&l->ours); /* the program sees a pipe without readers */
            return false;
        }

    return true;
}

static void carry_in(struct amph_ip_relay_line *l)
{
    if (l->from == l->to) {
        ssize_t n = amph_do_read(l->file, l->buf, PIECE);

        if (n < 0 && errno == EINTR)
            return;

        if (n < 0)
            report_loss("input");

        if (n <= 0) {
            shut(&l->ours);
            return;
        }

        l->from = 0;
        l->to = (size_t)n;
    }

    ssize_t put = libc_write(l->ours, l->buf + l->from, l->to - l->from);

    if (put > 0)
        l->from += (size_t)put;
    else if (put < 0 && errno != EAGAIN && errno != EINTR)
        shut(&l->ours);
}

static void give_back(struct amph_ip_relay_line *l)
{
    int left = 0;

    if (l->file < 0 || ioctl(l->theirs, FIONREAD, &left) != 0)
        return;

    off_t back = left + (off_t)(l->to - l->from);

    if (back)
        amph_do_lseek(l->file, -back, SEEK_CUR);
}

/* One round of polling.  false: no pipe is left. */
static bool carry(bool input)
{
    struct pollfd p[4] = { { .fd = amph_ip_process.relay.wake[0], .events = POLLIN } };
    char byte;

    for (int i = 0; i < 3; i++) {
        struct amph_ip_relay_line *l = &amph_ip_process.relay.line[i];
        p[i + 1] = (struct pollfd){ .fd = l->input && !input ? -1 : l->ours,
                                    .events = l->input ? POLLOUT : POLLIN };
    }

    if (p[0].fd < 0 && p[2].fd < 0 && p[3].fd < 0)
        return false;
    if (poll(p, 4, -1) < 0)
        return true;

    if (p[0].revents)
        (void)!libc_read(amph_ip_process.relay.wake[0], &byte, 1);

    for (int i = 0; i < 3; i++)
        if (p[i + 1].revents)
            amph_ip_process.relay.line[i].input ? carry_in(&amph_ip_process.relay.line[i])
                                                : (void)carry_out(&amph_ip_process.relay.line[i]);

    return true;
}

/* ---- the two processes ---- */

static int execute(const char *path, char *const argv[], char **env)
{
    struct amph_ip_passed passed;

    amph_ip_connections_pass(&passed, env);

    int r = amph_ip_kernel_execve(path, argv, env);

    amph_ip_connections_undo(&passed);
    return r;
}

static AMPH_NORETURN void become_program(const char *path, char *const argv[], char **env,
                                         int report, const sigset_t *mask)
{
    for (int fd = 0; fd < 3; fd++) {
        struct amph_ip_relay_line *l =
            &amph_ip_process.relay.line[amph_ip_process.relay.line[fd].same >= 0
                                            ? amph_ip_process.relay.line[fd].same
                                            : fd];
        if (l->theirs >= 0)
            amph_do_dup2(l->theirs, fd);
    }

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    execute(path, argv, env);

    int err = errno;

    (void)!libc_write(report, &err, sizeof err);
    libc__Exit(127);
    __builtin_unreachable();
}

/* Closes what exec would have closed here, and what only the program may hold. */
static void close_others(int fd, void *arg)
{
    bool ours = fd == amph_ip_process.relay.wake[0] || fd == amph_ip_process.relay.wake[1] ||
                fd == 2;

    for (int i = 0; i < 3; i++)
        ours |= fd == amph_ip_process.relay.line[i].ours ||
                fd == amph_ip_process.relay.line[i].file ||
                (amph_ip_process.relay.line[i].input && fd == amph_ip_process.relay.line[i].theirs);

    if (ours || amph_ip_owns(fd))
        return;

    if (!amph_ip_fd(fd))
        libc_close(fd);
    else if (libc_fcntl64(fd, F_GETFD, NULL) & FD_CLOEXEC)
        amph_do_close(fd);
}

/* Ends this process as the program has ended. */
static AMPH_NORETURN void end_like(int status)
{
    if (WIFSIGNALED(status)) {
        sigset_t one;

        amph_ip_client.fwd.ending();
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        signal(WTERMSIG(status), SIG_DFL);
        sigemptyset(&one);
        sigaddset(&one, WTERMSIG(status));
        pthread_sigmask(SIG_UNBLOCK, &one, NULL);
        raise(WTERMSIG(status));
        amph_do_exit_now(128 + WTERMSIG(status));
    }

    amph_do_exit_now(WEXITSTATUS(status) ? WEXITSTATUS(status) : amph_ip_process.relay.failed);
}

static AMPH_NORETURN void stay(void)
{
    int status = 0;

    amph_ip_each_open_fd(close_others, NULL);
    while (waitpid(amph_ip_process.relay.child, &status, WNOHANG) != amph_ip_process.relay.child)
        carry(true);

    for (int i = 1; i < 3; i++)
        while (amph_ip_process.relay.line[i].ours >= 0 && carry_out(&amph_ip_process.relay.line[i]))
            ;

    give_back(&amph_ip_process.relay.line[0]);
    shut(&amph_ip_process.relay.wake[0]);

    /* Processes that the program left behind may still write. */
    if ((amph_ip_process.relay.line[1].ours >= 0 || amph_ip_process.relay.line[2].ours >= 0) &&
        amph_do_fork() == 0) {
        while (carry(false))
            ;

        amph_do_exit_now(0);
    }

    end_like(status);
}

int amph_ip_relay(const char *path, char *const argv[], char **env)
{
    sigset_t all, mask;
    int report[2];
    int failed = 0;
    int err = 0;

    if (!is_alone(path))
        return execute(path, argv, env);

    amph_ip_process.relay.wake[0] = amph_ip_process.relay.wake[1] = -1;
    for (int fd = 0; fd < 3; fd++)
        err |= open_line(fd);

    if (err || pipe2(amph_ip_process.relay.wake, O_CLOEXEC | O_NONBLOCK) != 0 ||
        pipe2(report, O_CLOEXEC) != 0) {
        err = errno;
        close_lines();
        return amph_ip_fail(err);
    }

    for (int i = 0; i < 2; i++) {
        amph_ip_process.relay.wake[i] = move_up(amph_ip_process.relay.wake[i]);
        report[i] = move_up(report[i]);
    }

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    amph_ip_process.relay.child = amph_do_fork();
    if (amph_ip_process.relay.child == 0)
        become_program(path, argv, env, report[1], &mask);

    err = errno;
    libc_close(report[1]);

    bool started = amph_ip_process.relay.child > 0 &&
                   libc_read(report[0], &failed, sizeof failed) != (ssize_t)sizeof failed;

    libc_close(report[0]);
    if (!started) {
        if (amph_ip_process.relay.child > 0)
            waitpid(amph_ip_process.relay.child, NULL, 0);

        close_lines();
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
        return amph_ip_fail(amph_ip_process.relay.child > 0 ? failed : err);
    }

    for (int i = 0; i < 3; i++)
        if (!amph_ip_process.relay.line[i].input)
            shut(&amph_ip_process.relay.line[i].theirs);

    take_signals();
    sigdelset(&mask, SIGCHLD);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    stay();
}

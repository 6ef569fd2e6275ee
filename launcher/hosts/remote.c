/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts an agent on another host and watches it; see remote.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/hosts/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/quote.h"
#include "launcher/agent/agent.h"

enum {
    WORDS_MAX = 64,
    LAST_WAIT_MS = 500,
    SSH_FAILED = 255
};

/* ---- the line for the shell ---- */

char *amph_remote_line(const char *run, uint64_t silence_ns)
{
    char *text = NULL;
    size_t len;
    const char *libraries = amph_env_foreign("LD_LIBRARY_PATH");
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return NULL;

    /* env sets the variables, because the login shell of the host may be any shell */
    fputs("exec env ", out);
    if (libraries && *libraries) {
        fputs("LD_LIBRARY_PATH=", out);
        amph_quote_shell(out, libraries);
        fputc(' ', out);
    }

    amph_quote_shell(out, run);
    fprintf(out, " -agent %llu", (unsigned long long)(silence_ns / AMPH_NS_PER_MS));
    fclose(out);

    return text;
}

/* ---- the end ---- */

/* Waits a short time for the end of ssh, because its exit code says more than the closed stream;
 * then kills it. */
static void reap(struct amph_remote *r)
{
    if (!r->pid)
        return;

    int pidfd = pidfd_open(r->pid, 0);
    struct pollfd p = { .fd = pidfd, .events = POLLIN };

    if (pidfd < 0 || poll(&p, 1, LAST_WAIT_MS) <= 0)
        kill(r->pid, SIGKILL);

    if (pidfd >= 0)
        close(pidfd);

    while (waitpid(r->pid, &r->status, 0) < 0 && errno == EINTR)
        ;

    r->pid = 0;
}

static void take_error(struct amph_remote *r);

static void close_all(struct amph_remote *r)
{
    r->gone = true;
    amph_timer_stop(r->loop, &r->beat);
    amph_watch_del(r->watch);
    amph_watch_del(r->error_watch);
    r->watch = r->error_watch = NULL;
    amph_boot_frames_close(&r->frames);
    if (r->error_fd >= 0)
        close(r->error_fd);

    r->error_fd = -1;
}

void amph_remote_drop(struct amph_remote *r)
{
    if (r->gone)
        return;

    if (r->pid)
        kill(r->pid, SIGKILL);

    reap(r);
    close_all(r);
}

static void lose(struct amph_remote *r, int code, const char *why)
{
    close_all(r);
    r->calls->gone(r, code, why);
}

/* Handles the end of the stream. */
static void ended(struct amph_remote *r)
{
    char why[768];

    reap(r);
    take_error(r);

    const char *last = r->last[0] ? r->last : "ssh says nothing";
    bool by_signal = WIFSIGNALED(r->status);
    int number = by_signal ? WTERMSIG(r->status) : WEXITSTATUS(r->status);
    int code = by_signal ? 128 + number : 1;

    if (by_signal)
        snprintf(why, sizeof why, "is lost: its ssh was killed by signal %d (%s)", number,
                 strsignal(number));
    else if (!r->ready)
        snprintf(why, sizeof why, "cannot be reached or has no agent (exit code %d of ssh): %s",
                 number, last);
    else if (number == SSH_FAILED)
        snprintf(why, sizeof why, "is lost: the connection to it broke (%s)", last);
    else if (number > 128) {
        code = number;
        snprintf(why, sizeof why, "is lost: its agent was killed by signal %d (%s)", number - 128,
                 strsignal(number - 128));
    } else {
        snprintf(why, sizeof why, "is lost: its agent ended with exit code %d (%s)", number, last);
    }

    lose(r, code, why);
}

static void on_beat(void *arg)
{
    struct amph_remote *r = arg;
    uint64_t now = amph_now_ns();
    char why[160];

    if (amph_remote_beat_is_late(&r->beat, now)) {
        r->heard_ns = now;
        r->start_ns += now - r->beat.at_ns;
    }

    if (!r->ready && now - r->start_ns > r->start_limit_ns) {
        snprintf(why, sizeof why,
                 "cannot be reached: no agent has answered within %g s (AMPHORA_SSH_TIMEOUT)",
                 (double)r->start_limit_ns / 1e9);
    } else if (r->ready && r->silence_ns && now - r->heard_ns > r->silence_ns) {
        snprintf(why, sizeof why, "is lost: nothing has come from it for %g s (AMPHORA_HEARTBEAT)",
                 (double)r->silence_ns / 1e9);
    } else {
        if (r->ready)
            amph_remote_send(r, AMPH_AGENT_BEAT, NULL, 0);

        amph_timer_set(r->loop, &r->beat, AMPH_REMOTE_BEAT_NS, on_beat, r);
        return;
    }

    if (r->pid)
        kill(r->pid, SIGKILL);

    reap(r);
    lose(r, 1, why);
}

/* ---- the stream ---- */

void amph_remote_send(struct amph_remote *r, uint16_t type, const void *body, size_t len_bytes)
{
    if (r->gone || amph_boot_frames_send(&r->frames, type, body, len_bytes) != AMPH_OK)
        return;

    if (amph_boot_frames_pending(&r->frames))
        amph_watch_want(r->watch, EPOLLIN | EPOLLOUT);
}

static void on_frames(void *arg, uint32_t events)
{
    struct amph_remote *r = arg;
    struct amph_frame frame;
    enum amph_status st = AMPH_OK;

    if ((events & EPOLLOUT) && amph_boot_frames_flush(&r->frames) == AMPH_OK)
        amph_watch_want(r->watch, EPOLLIN);

    enum amph_status filled = amph_boot_frames_fill(&r->frames);

    if (filled == AMPH_OK)
        r->heard_ns = amph_now_ns();

    while (!r->gone && (st = amph_boot_frames_next(&r->frames, &frame)) == AMPH_OK) {
        r->ready = true;
        if (frame.type != AMPH_AGENT_BEAT)
            r->calls->frame(r, &frame);
    }

    if (r->gone)
        return;

    if (st == AMPH_ERR_PROTO) { /* most likely text that the login shell printed */
        kill(r->pid, SIGKILL);
        reap(r);
        lose(r, 1,
             "does not answer as an agent does; its shell must print nothing when it is started by "
             "ssh");
    } else if (filled != AMPH_OK && filled != AMPH_AGAIN) {
        ended(r);
    }
}

static void take_line(struct amph_remote *r)
{
    while (r->line_len && (r->line[r->line_len - 1] == '\r' || r->line[r->line_len - 1] == ' '))
        r->line_len--;

    r->line[r->line_len] = 0;
    if (r->line_len)
        memcpy(r->last, r->line, r->line_len + 1);

    if (r->line_len && r->ready && !r->gone)
        r->calls->said(r, r->line);

    r->line_len = 0;
}

static void take_error(struct amph_remote *r)
{
    char bytes[1024];
    ssize_t n;

    while (r->error_fd >= 0 && (n = read(r->error_fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++)
            if (bytes[i] == '\n' || r->line_len + 1 == sizeof r->line)
                take_line(r);
            else
                r->line[r->line_len++] = bytes[i];
}

static void on_error(void *arg, uint32_t events)
{
    struct amph_remote *r = arg;

    take_error(r);
    if (events & EPOLLHUP)
        amph_watch_want(r->error_watch, 0);
}

/* ---- the start ---- */

/* Our options follow the user's, because ssh uses the first value of an option. */
static size_t split_words(char *text, char **words, uint64_t limit_ns, char *limit, size_t cap)
{
    static char *const quiet[] = { (char *)"-T", (char *)"-x", (char *)"-o",
                                   (char *)"BatchMode=yes", (char *)"-o" };
    size_t n = 0;

    for (char *save, *w = strtok_r(text, " \t", &save); w && n < WORDS_MAX;
         w = strtok_r(NULL, " \t", &save))
        words[n++] = w;

    const char *name = n ? strrchr(words[0], '/') : NULL;

    if (n && strcmp(name ? name + 1 : words[0], "ssh") == 0) {
        for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
            words[n++] = quiet[i];

        snprintf(limit, cap, "ConnectTimeout=%llu",
                 (unsigned long long)(limit_ns / AMPH_NS_PER_S + 1));
        words[n++] = limit;
    }

    return n;
}

static void become_ssh(char **words, int stream, int errors, const struct amph_inherit *inherit,
                       pid_t parent)
{
    setpgid(
        0,
        0); /* so that ssh does not receive the terminal's interrupt, which the launcher handles */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(stream, 0) < 0 || dup2(stream, 1) < 0 || dup2(errors, 2) < 0)
        _exit(127);

    amph_inherit_restore(inherit);
    execvp(words[0], words);
    dprintf(2, "cannot execute %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static enum amph_status fork_ssh(struct amph_remote *r, const struct amph_inherit *inherit,
                                 char **words)
{
    int pair[2], errors[2];
    pid_t self = getpid();

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return AMPH_ERR_SYS;

    if (pipe2(errors, O_CLOEXEC) < 0) {
        close(pair[0]);
        close(pair[1]);
        return AMPH_ERR_SYS;
    }

    r->pid = fork();
    if (r->pid == 0)
        become_ssh(words, pair[1], errors[1], inherit, self);

    close(pair[1]);
    close(errors[1]);
    r->error_fd = errors[0];
    fcntl(r->error_fd, F_SETFL, O_NONBLOCK);
    amph_boot_frames_open(&r->frames, pair[0], AMPH_AGENT_BODY_MAX);

    return r->pid > 0 ? AMPH_OK : AMPH_ERR_SYS;
}

enum amph_status amph_remote_start(struct amph_remote *r, struct amph_loop *loop,
                                   const struct amph_inherit *inherit,
                                   const struct amph_remote_spec *spec)
{
    char *words[WORDS_MAX + 10], limit[64], text[4096];

    r->loop = loop;
    r->error_fd = -1;
    r->frames.fd = r->frames.out_fd = -1;
    r->start_ns = amph_now_ns();
    r->start_limit_ns = spec->start_limit_ns;
    r->silence_ns = spec->silence_ns;
    snprintf(text, sizeof text, "%s", spec->ssh);

    size_t n = split_words(text, words, spec->start_limit_ns, limit, sizeof limit);

    words[n++] = (char *)spec->name;
    words[n++] = (char *)spec->line;
    words[n] = NULL;

    enum amph_status st = fork_ssh(r, inherit, words);

    if (st == AMPH_OK) {
        r->watch = amph_watch_add(loop, r->frames.fd, EPOLLIN, on_frames, r);
        r->error_watch = amph_watch_add(loop, r->error_fd, EPOLLIN, on_error, r);
    }

    if (!r->watch || !r->error_watch) {
        amph_remote_drop(r);
        return AMPH_ERR_SYS;
    }

    amph_timer_set(loop, &r->beat, AMPH_REMOTE_BEAT_NS, on_beat, r);
    return AMPH_OK;
}

bool amph_remote_reaped(struct amph_remote *r, pid_t pid, int status)
{
    if (r->pid != pid)
        return false;

    r->pid = 0;
    r->status = status;
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's connections over exec; see connections.h.
 *
 * Layer: iofwd (interposer).  Thread rule: as execve.
 */
#include "iofwd/interpose/process/connections.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/calls/names.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/settings.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/libc/kept.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/process/start.h"
#include "iofwd/interpose/process/state.h"

static bool is_closed_by_exec(int fd)
{
    int flags = libc_fcntl64(fd, F_GETFD, NULL);

    return flags < 0 || (flags & FD_CLOEXEC);
}

/* ---- from the program before ---- */

static void take_fd(int fd)
{
    if (fd < AMPH_IP_HIDDEN_FROM || amph_ip_process.came.n == AMPH_COUNTOF(amph_ip_process.came.fd))
        return;

    amph_fdtab_mark(fd, FDTAB_OWN);
    libc_fcntl64(fd, F_SETFD, (void *)FD_CLOEXEC);
    amph_ip_process.came.fd[amph_ip_process.came.n++] = fd;
}

/* The setting of a program that posix_spawn has started: -FD.INODE:NUMBER:SERVER=FD....  Is it this process?  The
 * pipe FD says so, once: the parent writes the number just after it has started the program. */
static bool is_spawned(const char *text)
{
    struct stat st;
    unsigned long long inode;
    pid_t pid = 0;
    int fd;

    if (sscanf(text, "-%d.%llu:", &fd, &inode) != 2 || fd < AMPH_IP_HIDDEN_FROM ||
        libc_fstat64(fd, &st) != 0 || !S_ISFIFO(st.st_mode) || st.st_ino != inode)
        return false;

    while (libc_read(fd, &pid, sizeof pid) < 0 && errno == EINTR)
        ;

    libc_close(fd);
    return pid == amph_ip_kernel_getpid();
}

/* In its place comes this process's number, as after exec, with zeros before it. */
static void take_over(char *text)
{
    char number[64];
    size_t len = strcspn(text, ":");

    if (len < sizeof number && snprintf(number, sizeof number, "%0*ld", (int)len,
                                        (long)amph_ip_kernel_getpid()) == (int)len)
        memcpy(text, number, len);
}

void amph_ip_connections_take(char **env)
{
    char *text = (char *)amph_ip_setting_text(env, AMPH_ENV_IOFWD_INHERITED);
    const char *at;
    int server, fd, used;

    if (text && text[0] == '-' && is_spawned(text))
        take_over(text);

    /* PID:NUMBER[:SERVER=FD]...[+SERVER.HANDLE=FD]... (amph_fwd_exec_begin) */
    if (!text || strtol(text, NULL, 10) != (long)amph_ip_kernel_getpid() ||
        !(at = strchr(text, ':')))
        return;

    for (at += 1 + strcspn(at + 1, ":"); sscanf(at, ":%d=%d%n", &server, &fd, &used) == 2;
         at += used)
        take_fd(fd);

    for (; sscanf(at, "+%*u.%*x=%d%n", &fd, &used) == 1; at += used)
        take_fd(fd);

    amph_ip_process.came.pid = amph_ip_kernel_getpid();
    amph_ip_process.came.text = amph_ip_keep_text(text);
}

static bool are_unused(void)
{
    return AMPH_UNLIKELY(amph_ip_process.came.n != 0) && !amph_ip_client_has_adopted();
}

bool amph_ip_connections_wait(void)
{
    return are_unused() && amph_ip_process.came.pid == amph_ip_kernel_getpid();
}

/* ---- for the next program ---- */

struct take {
    void (*fn)(const struct amph_fwd_file *file, void *arg);
    void *arg;
};

static void take_one(int fd, struct amph_fd_file *of, void *arg)
{
    const struct take *t = arg;

    /* a directory that the process has opened by itself needs no connection */
    if (!__atomic_load_n(&of->near, __ATOMIC_RELAXED) && !is_closed_by_exec(fd))
        t->fn(&of->file, t->arg);
}

static void each_kept(const struct amph_fwd_kept *kept,
                      void (*fn)(const struct amph_fwd_file *file, void *arg), void *arg)
{
    struct take t = { fn, arg };

    amph_fdtab_each(0, FDTAB_MAX - 1, take_one, &t);
}

static void note_closed(int fd, struct amph_fd_file *of, void *arg)
{
    /* the next program opens near directories again, at their server */
    bool closed = __atomic_load_n(&of->near, __ATOMIC_RELAXED)
                      ? __atomic_load_n(&of->ready, __ATOMIC_ACQUIRE)
                      : is_closed_by_exec(fd);

    if (closed)
        *(bool *)arg = true;
}

static bool keeps_all(void)
{
    bool closes = __atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED) > 0;

    amph_fdtab_each(0, FDTAB_MAX - 1, note_closed, &closes);
    return !closes;
}

static void note(const struct amph_fwd_file *file, void *arg)
{
    *(bool *)arg = true;
}

bool amph_ip_connections_needed(void)
{
    bool needed = false;

    each_kept(NULL, note, &needed);
    return needed;
}

struct inherited {
    unsigned kept, closed;
};

static void count(int fd, void *arg)
{
    char text[AMPH_FWD_TEXT_BYTES];
    struct inherited *i = arg;

    if (amph_ip_owns(fd) && !amph_ip_is_cwd(fd))
        return;

    if (amph_ip_placeholder_text(fd, text, sizeof text))
        ++*(is_closed_by_exec(fd) ? &i->closed : &i->kept);
}

static void set_closed_by_exec(bool closed)
{
    for (unsigned i = 0; i < amph_ip_process.came.n; i++)
        libc_fcntl64(amph_ip_process.came.fd[i], F_SETFD, closed ? (void *)FD_CLOEXEC : NULL);

    amph_ip_process.came.passed = !closed;
}

static bool pass(char *room, size_t len_bytes);

/* This program has made no call.  The next one inherits the connections as they are; if it inherits some of their files
 * only, this program must open its client, which knows their names.  Returns whether the setting is the same, too. */
static bool pass_on(char *room, size_t len_bytes)
{
    struct inherited i = { 0, 0 };

    amph_ip_each_open_fd(count, &i);
    if (i.kept == 0)
        return false;

    bool own = amph_ip_process.came.pid == amph_ip_kernel_getpid(); /* false in a vfork child */

    if (own && i.closed && amph_ip_client_enter() == 0 && !are_unused())
        return pass(room, len_bytes);

    set_closed_by_exec(false);
    return own && snprintf(room, len_bytes, AMPH_IP_CLIENT_NAME "=%s", amph_ip_process.came.text) <
                      (int)len_bytes;
}

/* Returns whether the program gets a setting, which is written into room. */
static bool pass(char *room, size_t len_bytes)
{
    const struct amph_fwd_kept kept = { .each = each_kept, .all = keeps_all() };

    /* a client that could not be opened has taken over nothing */
    if (amph_ip_client.loaded && !are_unused()) {
        size_t len = amph_ip_client.fwd.exec_begin(&amph_ip_thread.exec, &kept, room, len_bytes);

        amph_ip_log_put(); /* while this program is still there */
        return len > 0;
    }

    return amph_ip_process.came.n && amph_ip_process.came.text && pass_on(room, len_bytes);
}

void amph_ip_connections_pass(struct amph_ip_passed *passed, char **env)
{
    size_t n = amph_ip_env_entries(env);

    passed->env = env;
    passed->n = n;
    amph_ip_thread.exec.n = 0;
    if (!pass(passed->client, sizeof passed->client) || amph_ip_env_leaves(env))
        return;

    env[n++] = passed->client;

    /* without a file that is kept, no lock is */
    if (amph_ip_has_locks()) {
        strcpy(passed->locks, AMPH_IP_LOCKS_NAME "=");
        amph_ip_locks_tell(passed->locks + strlen(passed->locks),
                           sizeof passed->locks - strlen(passed->locks));
        env[n++] = passed->locks;
    }

    env[n] = NULL;
}

void amph_ip_connections_undo(struct amph_ip_passed *passed)
{
    int saved = errno;

    if (amph_ip_process.came.passed)
        set_closed_by_exec(true);

    if (amph_ip_client.loaded)
        amph_ip_client.fwd.exec_end(&amph_ip_thread.exec);

    passed->env[passed->n] = NULL;
    errno = saved;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * system and popen.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 *
 * The C library starts the shell by itself, without the connections that hold forwarded files which the shell
 * inherits (connections.h).  So it does this only for a shell that inherits none; others are started here.
 */
#include <errno.h>
#include <fcntl.h>
#include <paths.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/process/bypass.h"
#include "iofwd/interpose/process/connections.h"
#include "iofwd/interpose/process/state.h"
#include "iofwd/interpose/stdio/foreign_file.h"

/* A stream of popen, with its shell. */
struct amph_ip_shell {
    struct amph_ip_shell *next;
    FILE *stream;
    pid_t pid;
};

void amph_ip_shells_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_process.shells.lock);
    else
        pthread_mutex_unlock(&amph_ip_process.shells.lock);
}

static void visit_none(const struct amph_fwd_kept *kept,
                       void (*take)(const struct amph_fwd_file *file, void *arg), void *arg)
{
}

/* Before the C library starts a shell, coalesced data is flushed as before a fork: the shell's commands find files and
 * offsets as this process has left them, and cannot wait for locks of this process while it waits for
 * them. */
static void flush(void)
{
    const struct amph_fwd_kept none = { .each = visit_none };

    if (!amph_ip_client.loaded)
        return;

    (void)amph_ip_client.fwd.spawn_before(&none, NULL, 0);
    amph_ip_client.fwd.spawn_after(0);
}

/* Does the shell inherit a forwarded file, or a working directory that the environment does not name (own_cwd.h)? */
static bool inherits(void)
{
    if (amph_ip_thread.cwd.own && amph_ip_thread.cwd.own->name)
        return true;

    if (amph_ip_connections_wait())
        amph_ip_client_adopt();

    return amph_ip_client.loaded && amph_ip_connections_needed();
}

/* Says it if the shell's calls cannot be forwarded because the preload library is missing.  Returns
 * false, with EPERM, if the shell must not be started therefore. */
static bool may_start(void)
{
    return !amph_ip_process.lost_library || amph_ip_bypass_check(_PATH_BSHELL) == 0;
}

static int start(pid_t *pid, const char *command, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attr)
{
    char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"--", (char *)command, NULL };

    return amph_do_posix_spawn(pid, _PATH_BSHELL, actions, attr, argv, environ);
}

/* waitpid, whatever signal handlers run. */
static int await(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;

    return status;
}

/* ---- system ---- */

/* The first of several threads in system has the process ignore SIGINT and SIGQUIT, the last one ends that. */
static void ignore_signals(bool on)
{
    struct amph_ip_shells *s = &amph_ip_process.shells;
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t before;

    amph_ip_process_lock(&s->lock, &before);
    if (on && s->waiting++ == 0) {
        sigaction(SIGINT, &ignore, &s->interrupt);
        sigaction(SIGQUIT, &ignore, &s->quit);
    } else if (!on && --s->waiting == 0) {
        sigaction(SIGINT, &s->interrupt, NULL);
        sigaction(SIGQUIT, &s->quit, NULL);
    }

    amph_ip_process_unlock(&s->lock, &before);
}

struct waiting {
    pid_t pid; /* 0: there is no shell to wait for */
    int err;   /* there was none */
    int status;
    sigset_t mask;
};

/* The end of system, also if its thread is cancelled. */
static void end(void *arg)
{
    const struct waiting *w = arg;

    if (w->pid > 0) {
        kill(w->pid, SIGKILL);
        (void)await(w->pid);
    }

    ignore_signals(false);
    pthread_sigmask(SIG_SETMASK, &w->mask, NULL);
}

/* The shell gets the signals as the program has them. */
static void set_attributes(posix_spawnattr_t *attr, const sigset_t *mask)
{
    sigset_t to_default;

    sigemptyset(&to_default);
    if (amph_ip_process.shells.interrupt.sa_handler != SIG_IGN)
        sigaddset(&to_default, SIGINT);
    if (amph_ip_process.shells.quit.sa_handler != SIG_IGN)
        sigaddset(&to_default, SIGQUIT);

    posix_spawnattr_init(attr);
    posix_spawnattr_setsigdefault(attr, &to_default);
    posix_spawnattr_setsigmask(attr, mask);
    posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

static int run(const char *command)
{
    struct waiting w = { .status = 127 << 8 }; /* as if the shell had ended with it */
    posix_spawnattr_t attr;
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ignore_signals(true);
    pthread_sigmask(SIG_BLOCK, &child, &w.mask);

    pthread_cleanup_push(end, &w);
    set_attributes(&attr, &w.mask);

    w.err = start(&w.pid, command, NULL, &attr);
    if (!w.err)
        w.status = await(w.pid);

    w.pid = 0;
    posix_spawnattr_destroy(&attr);
    pthread_cleanup_pop(1);

    if (w.err)
        errno = w.err;

    return w.status;
}

int amph_do_system(const char *command)
{
    if (!command || amph_ip_inside)
        return libc_system(command);
    if (!may_start())
        return -1;
    if (inherits())
        return run(command);

    flush();
    return libc_system(command);
}

/* ---- popen ---- */

/* In the shell, the streams of earlier calls are closed.  Returns 0 or an errno value. */
static int close_others(posix_spawn_file_actions_t *actions)
{
    struct amph_ip_shells *s = &amph_ip_process.shells;
    int err = 0;
    sigset_t before;

    amph_ip_process_lock(&s->lock, &before);
    for (const struct amph_ip_shell *shell = s->first; shell && !err; shell = shell->next)
        err = amph_do_spawn_addclose(actions, fileno(shell->stream));

    amph_ip_process_unlock(&s->lock, &before);
    return err;
}

/* Starts the shell with its end of the pipe. */
static int start_at(struct amph_ip_shell *shell, const char *command, int end, int as)
{
    posix_spawn_file_actions_t actions;
    int err = amph_do_spawn_init(&actions);

    if (err)
        return err;

    err = close_others(&actions);
    if (!err)
        err = amph_do_spawn_adddup2(&actions, end, as);

    if (!err)
        err = start(&shell->pid, command, &actions, NULL);

    amph_do_spawn_destroy(&actions);
    return err;
}

/* Makes the stream of a pipe whose ends are close-on-exec, and starts the shell at the other end.  NULL: errno says
 * why; the ends are the caller's. */
static FILE *open_shell(struct amph_ip_shell *shell, const char *command, const int ends[2],
                        bool reads)
{
    int err;

    shell->stream = libc_fdopen(ends[!reads], reads ? "r" : "w");
    if (!shell->stream)
        return NULL;

    err = start_at(shell, command, ends[reads], reads ? STDOUT_FILENO : STDIN_FILENO);
    if (!err)
        return shell->stream;

    errno = err;
    return NULL;
}

static void add_shell(struct amph_ip_shell *shell)
{
    struct amph_ip_shells *s = &amph_ip_process.shells;
    sigset_t before;

    amph_ip_process_lock(&s->lock, &before);
    shell->next = s->first;
    s->first = shell;
    amph_ip_process_unlock(&s->lock, &before);
}

static struct amph_ip_shell *remove_shell(const FILE *stream)
{
    struct amph_ip_shells *s = &amph_ip_process.shells;
    sigset_t before;

    amph_ip_process_lock(&s->lock, &before);

    struct amph_ip_shell **at = &s->first;

    while (*at && (*at)->stream != stream)
        at = &(*at)->next;

    struct amph_ip_shell *shell = *at;

    if (shell)
        *at = shell->next;

    amph_ip_process_unlock(&s->lock, &before);
    return shell;
}

/* closes: the stream is closed by exec ("e"). */
static FILE *connect_shell(const char *command, bool reads, bool closes)
{
    struct amph_ip_shell *shell = calloc(1, sizeof *shell);
    int ends[2];

    if (!shell || pipe2(ends, O_CLOEXEC) != 0) {
        free(shell);
        return NULL;
    }

    amph_ip_note_local(ends[0]);
    amph_ip_note_local(ends[1]);

    FILE *stream = open_shell(shell, command, ends, reads);
    int err = errno;

    amph_do_close(ends[reads]);
    if (!stream) {
        if (shell->stream)
            fclose(shell->stream);
        else
            amph_do_close(ends[!reads]);

        free(shell);
        errno = err;
        return NULL;
    }

    if (!closes)
        libc_fcntl64(ends[!reads], F_SETFD, NULL);

    /* the program has closed an earlier one with fclose */
    free(remove_shell(stream));
    add_shell(shell);
    return amph_ip_note_stream(stream);
}

FILE *amph_do_popen(const char *command, const char *type)
{
    bool reads = strchr(type, 'r');
    bool writes = strchr(type, 'w');

    if (amph_ip_inside)
        return libc_popen(command, type);
    if (!may_start())
        return NULL;

    if (inherits() && reads != writes && type[strspn(type, "rwe")] == 0)
        return connect_shell(command, reads, strchr(type, 'e'));

    flush();
    return amph_ip_note_stream(libc_popen(command, type));
}

int amph_do_pclose(FILE *stream)
{
    struct amph_ip_shell *shell = remove_shell(stream);

    if (!shell)
        return libc_pclose(stream);

    pid_t pid = shell->pid;
    int cancel;

    free(shell);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    fclose(stream);

    int status = await(pid);

    pthread_setcancelstate(cancel, NULL);
    return status;
}

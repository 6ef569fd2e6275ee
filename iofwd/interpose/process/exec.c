/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec, posix_spawn and their relatives.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/process/bypass.h"
#include "iofwd/interpose/process/connections.h"
#include "iofwd/interpose/process/linker_check.h"
#include "iofwd/interpose/process/relay.h"
#include "iofwd/interpose/process/mpi_job.h"
#include "iofwd/interpose/process/start.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/resolve.h"

/* ---- exec ---- */

static int execve_by(enum amph_client_route way, const char *path, char *const argv[],
                     char *const env[])
{
    return way == AMPH_IP_LIBC ? libc_execve(path, argv, env)
                               : amph_ip_kernel_execve(path, argv, env);
}

static int execve_passing(enum amph_client_route way, const char *path, char *const argv[],
                          char **env)
{
    struct amph_ip_passed passed;

    amph_ip_connections_pass(&passed, env);

    int r = execve_by(way, path, argv, env);

    amph_ip_connections_undo(&passed);
    return r;
}

static int execvpe_passing(const char *file, char *const argv[], char **env)
{
    struct amph_ip_passed passed;

    amph_ip_connections_pass(&passed, env);

    int r = libc_execvpe(file, argv, env);

    amph_ip_connections_undo(&passed);
    return r;
}

/* Must pipes carry what the program prints?  Either the interposer is not loaded into it, or the dynamic
 * linker prints something. */
static bool is_relayed(const char *path, char *const argv[], char *const env[])
{
    int to = amph_ip_fd(STDERR_FILENO) ? STDERR_FILENO : -1;

    return amph_ip_relay_useful() &&
           (amph_ip_env_leaves(env) || amph_ip_linker_is_asked(env) || amph_ip_bypasses(path) ||
            amph_ip_linker_has_text(path, argv, env, to));
}

/* how: an enum amph_client_route */
static int start_execve(void *how, const char *path, char *const argv[], char **env)
{
    return is_relayed(path, argv, env)
               ? amph_ip_relay(path, argv, env)
               : execve_passing(*(const enum amph_client_route *)how, path, argv, env);
}

/* A file in no format that the kernel knows is a shell script. */
static int start_or_sh(const char *path, char *const argv[], char **env)
{
    enum amph_client_route way = AMPH_IP_LIBC;
    int r = amph_ip_start_program(path, argv, env, start_execve, &way);

    if (r == 0 || errno != ENOEXEC)
        return r;

    size_t argc = amph_ip_env_entries(argv);
    char **args = alloca((argc + 3) * sizeof *args);

    args[0] = (char *)"/bin/sh";
    args[1] = (char *)path;
    args[argc > 1 ? argc + 1 : 2] = NULL;
    for (size_t i = 1; i < argc; i++)
        args[i + 1] = argv[i];

    return execve_passing(AMPH_IP_LIBC, args[0], args, env);
}

/* The data that a stream has lost would be forgotten with the program: the exec fails. */
static void end_if_lost(void)
{
    amph_ip_log_put();
    if (amph_ip_lost_report())
        amph_do_exit_now(EXIT_FAILURE);
}

/* If the lists cannot be read, the kernel reports the error, after it has looked at the program. */
static bool can_read_lists(char *const argv[], char *const envp[])
{
    return amph_ip_can_read_list(argv) && amph_ip_can_read_list(envp);
}

static int refuse_lists(enum amph_client_route way, const char *path, char *const argv[],
                        char *const envp[])
{
    if (!amph_ip_path(path))
        return execve_by(way, path, argv, envp);

    return amph_do_faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? amph_ip_fail(EFAULT) : -1;
}

int amph_ip_execve(enum amph_client_route way, const char *path, char *const argv[],
                   char *const envp[])
{
    struct amph_ip_env_room room;

    if (!amph_ip_state.on || amph_ip_inside)
        return execve_by(way, path, argv, amph_ip_env_plain(envp));

    end_if_lost();
    amph_ip_mpi_release();
    if (!can_read_lists(argv, envp))
        return refuse_lists(way, path, argv, envp);

    char **env = alloca((amph_ip_env_entries(envp) + AMPH_IP_ENV_EXTRA) * sizeof *env);

    amph_ip_env_make(envp, env, &room, true);
    return amph_ip_start_program(path, argv, env, start_execve, &way);
}

int amph_do_execve(const char *path, char *const argv[], char *const envp[])
{
    return amph_ip_execve(AMPH_IP_LIBC, path, argv, envp);
}

/* envp: as the program gives it; env: made of it */
static int start_searched(const char *file, char *const argv[], char *const envp[], char **env)
{
    char found[PATH_MAX];
    bool found_here = !strchr(file, '/') &&
                      (amph_ip_find_program(file, envp, found, sizeof found) ||
                       (amph_ip_relay_useful() && amph_ip_find_local(file, found, sizeof found)));

    if (found_here || strchr(file, '/'))
        return start_or_sh(found_here ? found : file, argv, env);

    return amph_ip_bypass_check_name(file) == 0 ? execvpe_passing(file, argv, env) : -1;
}

int amph_do_execvpe(const char *file, char *const argv[], char *const envp[])
{
    struct amph_ip_env_room room;

    if (!amph_ip_state.on || amph_ip_inside)
        return libc_execvpe(file, argv, amph_ip_env_plain(envp));

    end_if_lost();
    amph_ip_mpi_release();
    if (!can_read_lists(argv, envp))
        return libc_execvpe(file, argv, envp);

    char **env = alloca((amph_ip_env_entries(envp) + AMPH_IP_ENV_EXTRA) * sizeof *env);

    amph_ip_env_make(envp, env, &room, true);
    return start_searched(file, argv, envp, env);
}

int amph_do_fexecve(int fd, char *const argv[], char *const envp[])
{
    return amph_do_execveat(fd, "", argv, envp, AT_EMPTY_PATH);
}

static int execveat_by(enum amph_client_route way, int dir, const char *path, char *const argv[],
                       char *const env[], int flags)
{
    if (way == AMPH_IP_KERNEL)
        return (int)libc_syscall(SYS_execveat, dir, (long)path, (long)argv, (long)env, flags, 0);

    return libc_execveat(dir, path, argv, env, flags);
}

static int execveat_passing(enum amph_client_route way, int dir, const char *path,
                            char *const argv[], char **env, int flags)
{
    struct amph_ip_passed passed;

    amph_ip_connections_pass(&passed, env);

    int r = execveat_by(way, dir, path, argv, env, flags);

    amph_ip_connections_undo(&passed);
    return r;
}

static int execveat_local(enum amph_client_route way, int dir, const char *path, char *const argv[],
                          char **env, int flags)
{
    char full[PATH_MAX];

    if (amph_ip_bypass_path(dir, path, full)) {
        if (amph_ip_bypass_check(full) != 0)
            return -1;

        if (!(flags & AT_SYMLINK_NOFOLLOW) && is_relayed(full, argv, env))
            return amph_ip_relay(full, argv, env);
    }

    return execveat_passing(way, dir, path, argv, env, flags);
}

static int start_at(enum amph_client_route way, int dir, const char *path, char *const argv[],
                    char **env, int flags)
{
    struct amph_ip_resolved w;
    struct stat st;
    char absolute[PATH_MAX];

    if (!amph_ip_at(dir, path))
        return execveat_local(way, dir, path, argv, env, flags);
    if ((flags & AT_SYMLINK_NOFOLLOW) && amph_do_fstatat(dir, path, &st, flags) == 0 &&
        S_ISLNK(st.st_mode))
        return amph_ip_fail(ELOOP);
    if (!amph_ip_resolve(&w, dir, path, flags & AT_EMPTY_PATH))
        return -1;
    if (w.local)
        return execveat_local(way, w.dirfd, w.path, argv, env, flags);

    bool known = amph_ip_resolve_absolute(&w, absolute, sizeof absolute);

    amph_ip_resolve_end(&w, 0);
    return known ? amph_ip_start_program(absolute, argv, env, start_execve, &way)
                 : amph_ip_fail(ENOENT);
}

int amph_ip_execveat(enum amph_client_route way, int dir, const char *path, char *const argv[],
                     char *const envp[], int flags)
{
    struct amph_ip_env_room room;

    if (!amph_ip_state.on || amph_ip_inside)
        return execveat_by(way, dir, path, argv, amph_ip_env_plain(envp), flags);

    if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return amph_ip_fail(EINVAL);

    end_if_lost();
    amph_ip_mpi_release();
    if (!can_read_lists(argv, envp))
        return amph_ip_at(dir, path) ? amph_ip_fail(EFAULT)
                                     : execveat_by(way, dir, path, argv, envp, flags);

    char **env = alloca((amph_ip_env_entries(envp) + AMPH_IP_ENV_EXTRA) * sizeof *env);

    amph_ip_env_make(envp, env, &room, true);
    return start_at(way, dir, path, argv, env, flags);
}

int amph_do_execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
    return amph_ip_execveat(AMPH_IP_LIBC, dir, path, argv, envp, flags);
}

/* Counts the arguments of execl and its relatives, the first one included. */
static size_t count_args(va_list ap)
{
    va_list copy;
    size_t n = 1;

    va_copy(copy, ap);
    while (va_arg(copy, char *))
        n++;

    va_end(copy);
    return n;
}

/* Stores them in argv, with the NULL at their end.  What follows that is left in ap. */
static void collect_args(const char *arg, va_list ap, char **argv)
{
    size_t n = 0;

    argv[n++] = (char *)arg;
    while ((argv[n++] = va_arg(ap, char *)) != NULL)
        ;
}

int amph_do_execl(const char *path, const char *arg, va_list ap)
{
    char **argv = alloca((count_args(ap) + 1) * sizeof *argv);

    collect_args(arg, ap, argv);
    return amph_do_execve(path, argv, environ);
}

int amph_do_execlp(const char *file, const char *arg, va_list ap)
{
    char **argv = alloca((count_args(ap) + 1) * sizeof *argv);

    collect_args(arg, ap, argv);
    return amph_do_execvpe(file, argv, environ);
}

int amph_do_execle(const char *path, const char *arg, va_list ap)
{
    char **argv = alloca((count_args(ap) + 1) * sizeof *argv);
    va_list all;

    va_copy(all, ap);
    collect_args(arg, all, argv);
    char *const *envp = va_arg(all, char *const *);
    va_end(all);

    return amph_do_execve(path, argv, envp);
}

/* ---- posix_spawn ---- */

struct spawn {
    pid_t *pid;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attr;
};

/* The program inherits connections that hold the files which it inherits, until it holds them by itself, whatever the
 * parent closes in the meantime.  They are made with signals blocked; the child must not inherit that
 * mask. */
static int spawn_held(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attr, char *const argv[], char *const envp[],
                      int (*spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                                   const posix_spawnattr_t *, char *const[], char *const[]))
{
    struct amph_fwd_kept kept;
    char setting[1024];
    posix_spawnattr_t own;
    sigset_t mask;
    short flags = 0;

    if (!amph_ip_client.loaded)
        return spawn(pid, path, actions, attr, argv, envp);

    size_t n = amph_ip_env_entries(envp);
    char **env = alloca((n + 2) * sizeof *env);

    memcpy(env, envp, n * sizeof *env);
    env[n] = env[n + 1] = NULL;

    if (attr)
        own = *attr;
    else
        posix_spawnattr_init(&own);

    posix_spawnattr_getflags(&own, &flags);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);

    if (!(flags & POSIX_SPAWN_SETSIGMASK)) {
        posix_spawnattr_setflags(&own, (short)(flags | POSIX_SPAWN_SETSIGMASK));
        posix_spawnattr_setsigmask(&own, &mask);
    }

    amph_ip_spawn_kept(actions, &kept);
    if (amph_ip_client.fwd.spawn_before(&kept, setting, sizeof setting) &&
        !amph_ip_env_leaves(envp))
        env[n] = setting;

    pid_t child = 0;
    int err = spawn(&child, path, actions, &own, argv, env);

    amph_ip_client.fwd.spawn_after(err ? 0 : child);
    if (!err && pid)
        *pid = child;

    return err;
}

static int start_spawn(void *how, const char *path, char *const argv[], char **env)
{
    struct spawn *s = how;
    int to = amph_ip_spawn_stderr(s->actions);
    bool relayed = amph_ip_spawn_gives_std(s->actions) &&
                   (amph_ip_linker_is_asked(env) || amph_ip_bypasses(path) ||
                    amph_ip_linker_has_text(path, argv, env, to));
    int err = relayed ? amph_ip_spawn(s->pid, path, false, s->actions, s->attr, argv, env)
                      : spawn_held(s->pid, path, s->actions, s->attr, argv, env, libc_posix_spawn);

    return amph_ip_result(err);
}

int amph_do_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    struct amph_ip_env_room room;
    struct spawn how = { pid, actions, attr };
    int saved = errno;

    if (!amph_ip_state.on || amph_ip_inside)
        return libc_posix_spawn(pid, path, actions, attr, argv, amph_ip_env_plain(envp));
    if (!can_read_lists(argv, envp))
        return libc_posix_spawn(pid, path, actions, attr, argv, envp);

    if (amph_ip_connections_wait())
        amph_ip_client_adopt();

    if (amph_ip_spawn_forwards(actions))
        return amph_ip_spawn(pid, path, false, actions, attr, argv, envp);

    char **env = alloca((amph_ip_env_entries(envp) + AMPH_IP_ENV_EXTRA) * sizeof *env);

    amph_ip_env_make(envp, env, &room, false);

    int err = amph_ip_start_program(path, argv, env, start_spawn, &how) == 0 ? 0 : errno;

    errno = saved;
    return err;
}

int amph_do_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    struct amph_ip_env_room room;
    int saved = errno;

    if (!amph_ip_state.on || amph_ip_inside)
        return libc_posix_spawnp(pid, file, actions, attr, argv, amph_ip_env_plain(envp));
    if (!can_read_lists(argv, envp))
        return libc_posix_spawnp(pid, file, actions, attr, argv, envp);

    if (amph_ip_connections_wait())
        amph_ip_client_adopt();

    if (amph_ip_spawn_forwards(actions))
        return amph_ip_spawn(pid, file, true, actions, attr, argv, envp);

    char found[PATH_MAX];

    bool found_here = !strchr(file, '/') &&
                      (amph_ip_find_program(file, envp, found, sizeof found) ||
                       (amph_ip_spawn_gives_std(actions) &&
                        amph_ip_find_local(file, found, sizeof found)));

    if (found_here || strchr(file, '/'))
        return amph_do_posix_spawn(pid, found_here ? found : file, actions, attr, argv, envp);

    char **env = alloca((amph_ip_env_entries(envp) + AMPH_IP_ENV_EXTRA) * sizeof *env);

    if (amph_ip_bypass_check_name(file) != 0) {
        int err = errno;

        errno = saved;
        return err;
    }

    amph_ip_env_make(envp, env, &room, false);
    return spawn_held(pid, file, actions, attr, argv, env, libc_posix_spawnp);
}

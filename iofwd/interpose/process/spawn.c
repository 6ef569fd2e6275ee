/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posix_spawn with actions on forwarded files.  The C library performs the actions in a child in which
 * the interposer does not run.  This file therefore keeps its own list of the actions; if one concerns
 * a forwarded name, a forked child performs the list and starts the program.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/process/state.h"

#define ABOVE 512 /* above the descriptor numbers that actions name */

struct action {
    struct action *next;
    int (*carry_out)(const struct action *a);
    int fd, to, flags;
    mode_t mode;
    char *path;
    int keep; /* closefrom: a descriptor that stays open */
};

struct amph_ip_action_list {
    struct amph_ip_action_list *next;
    const posix_spawn_file_actions_t *actions;
    struct action *first, **end;
};

/* ---- performing actions ---- */

static int do_open(const struct action *a)
{
    amph_do_close(a->fd);

    int fd = amph_do_openat(AT_FDCWD, a->path, a->flags, a->mode);
    if (fd < 0 || fd == a->fd)
        return fd;

    int r = amph_do_dup2(fd, a->fd);

    amph_do_close(fd);
    return r;
}

static int do_dup2(const struct action *a)
{
    return a->fd != a->to ? amph_do_dup2(a->fd, a->to) : libc_fcntl64(a->fd, F_SETFD, (void *)0);
}

static int do_close(const struct action *a)
{
    amph_do_close(a->fd); /* closing a descriptor that is not open is no error */
    return 0;
}

static int do_closefrom(const struct action *a)
{
    unsigned first = a->fd < 0 ? 0 : (unsigned)a->fd;
    unsigned keep = (unsigned)a->keep;

    if (keep > first)
        amph_do_close_range(first, keep - 1, 0);

    return amph_do_close_range(keep >= first ? keep + 1 : first, ~0U, 0);
}

static int do_chdir(const struct action *a)
{
    return amph_do_chdir(a->path);
}

static int do_fchdir(const struct action *a)
{
    return amph_do_fchdir(a->fd);
}

static int do_tcsetpgrp(const struct action *a)
{
    return tcsetpgrp(a->fd, getpgrp());
}

/* ---- keeping the list ---- */

void amph_ip_spawn_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_process.actions.lock);
    else
        pthread_mutex_unlock(&amph_ip_process.actions.lock);
}

static struct amph_ip_action_list **find(const posix_spawn_file_actions_t *actions)
{
    struct amph_ip_action_list **at = &amph_ip_process.actions.lists;

    while (*at && (*at)->actions != actions)
        at = &(*at)->next;

    return at;
}

/* Adds an action that the C library has accepted (err 0).  Returns 0 or an errno value. */
static int record(const posix_spawn_file_actions_t *actions, int err, struct action what,
                  const char *path)
{
    struct action *a = err ? NULL : malloc(sizeof *a);
    sigset_t before;

    if (!a)
        return err ? err : ENOMEM;

    *a = what;
    if (path && !(a->path = strdup(path))) {
        free(a);
        return ENOMEM;
    }

    amph_ip_process_lock(&amph_ip_process.actions.lock, &before);

    struct amph_ip_action_list *l = *find(actions);

    if (!l && (l = malloc(sizeof *l)) != NULL) {
        *l = (struct amph_ip_action_list){ .next = amph_ip_process.actions.lists,
                                           .actions = actions,
                                           .end = &l->first };
        amph_ip_process.actions.lists = l;
    }

    if (l) {
        *l->end = a;
        l->end = &a->next;
    }

    amph_ip_process_unlock(&amph_ip_process.actions.lock, &before);
    if (l)
        return 0;

    free(a->path);
    free(a);
    return ENOMEM;
}

static void drop(const posix_spawn_file_actions_t *actions)
{
    sigset_t before;

    amph_ip_process_lock(&amph_ip_process.actions.lock, &before);

    struct amph_ip_action_list **at = find(actions);
    struct amph_ip_action_list *l = *at;

    if (l)
        *at = l->next;

    amph_ip_process_unlock(&amph_ip_process.actions.lock, &before);
    for (struct action *a = l ? l->first : NULL, *next; a; a = next) {
        next = a->next;
        free(a->path);
        free(a);
    }

    free(l);
}

int amph_do_spawn_init(posix_spawn_file_actions_t *actions)
{
    drop(actions); /* an object at the same address that was never destroyed */
    return libc_posix_spawn_file_actions_init(actions);
}

int amph_do_spawn_destroy(posix_spawn_file_actions_t *actions)
{
    drop(actions);
    return libc_posix_spawn_file_actions_destroy(actions);
}

int amph_do_spawn_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags,
                          mode_t mode)
{
    int err = libc_posix_spawn_file_actions_addopen(actions, fd, path, flags, mode);
    return record(actions, err,
                  (struct action){ .carry_out = do_open, .fd = fd, .flags = flags, .mode = mode },
                  path);
}

int amph_do_spawn_addclose(posix_spawn_file_actions_t *actions, int fd)
{
    return record(actions, libc_posix_spawn_file_actions_addclose(actions, fd),
                  (struct action){ .carry_out = do_close, .fd = fd }, NULL);
}

int amph_do_spawn_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
    int err = libc_posix_spawn_file_actions_adddup2(actions, fd, to);
    return record(actions, err, (struct action){ .carry_out = do_dup2, .fd = fd, .to = to }, NULL);
}

int amph_do_spawn_addchdir(posix_spawn_file_actions_t *actions, const char *path)
{
    return record(actions, libc_posix_spawn_file_actions_addchdir_np(actions, path),
                  (struct action){ .carry_out = do_chdir }, path);
}

int amph_do_spawn_addfchdir(posix_spawn_file_actions_t *actions, int fd)
{
    int err = libc_posix_spawn_file_actions_addfchdir_np(actions, fd);
    return record(actions, err, (struct action){ .carry_out = do_fchdir, .fd = fd }, NULL);
}

int amph_do_spawn_addclosefrom(posix_spawn_file_actions_t *actions, int first)
{
    int err = libc_posix_spawn_file_actions_addclosefrom_np(actions, first);
    return record(actions, err, (struct action){ .carry_out = do_closefrom, .fd = first }, NULL);
}

int amph_do_spawn_addtcsetpgrp(posix_spawn_file_actions_t *actions, int fd)
{
    int err = libc_posix_spawn_file_actions_addtcsetpgrp_np(actions, fd);
    return record(actions, err, (struct action){ .carry_out = do_tcsetpgrp, .fd = fd }, NULL);
}

static struct action *actions_of(const posix_spawn_file_actions_t *actions)
{
    sigset_t before;

    amph_ip_process_lock(&amph_ip_process.actions.lock, &before);

    struct amph_ip_action_list *l = actions ? *find(actions) : NULL;

    amph_ip_process_unlock(&amph_ip_process.actions.lock, &before);
    return l ? l->first : NULL;
}

bool amph_ip_spawn_forwards(const posix_spawn_file_actions_t *actions)
{
    /* the actions copy forwarded descriptors, which the kernel can do by itself */
    bool copies = false;

    for (struct action *a = actions_of(actions); a; a = a->next) {
        if (a->carry_out == do_closefrom && amph_ip_client.loaded)
            return true; /* the kernel would close the program's connections, too */
        if (a->path ? amph_ip_path(a->path)
                    : a->carry_out == do_fchdir && (copies || amph_ip_fd(a->fd)))
            return true;

        copies |= a->carry_out == do_dup2 && amph_ip_fd(a->fd);
    }

    return false;
}

/* The number that led, before the action a, to what `fd` leads to after the last one; -1: to nothing forwarded.
 * *copied_p: it is a copy, which exec does not close. */
static int origin(const struct action *a, int fd, bool *copied_p)
{
    if (!a)
        return fd;

    int at = origin(a->next, fd, copied_p);

    if (a->carry_out == do_dup2 && at == a->to) {
        *copied_p = true;
        return a->fd;
    }

    bool replaced = (a->carry_out == do_open || a->carry_out == do_close) && at == a->fd;

    return replaced || (a->carry_out == do_closefrom && at >= a->fd) ? -1 : at;
}

struct keeping {
    const struct action *first;
    bool copied; /* the file at hand */
    void (*take)(const struct amph_fwd_file *file, void *arg);
    void *arg;
};

static void take_one(int fd, struct amph_fd_file *of, void *arg)
{
    const struct keeping *k = arg;

    /* a directory that the process has opened by itself needs no connection */
    if (!__atomic_load_n(&of->near, __ATOMIC_RELAXED) &&
        (k->copied || !(libc_fcntl64(fd, F_GETFD, NULL) & FD_CLOEXEC)))
        k->take(&of->file, k->arg);
}

/* Calls take if the program finds a forwarded file at fd. */
static void take_if_kept(int fd, struct keeping *k)
{
    k->copied = false;

    int from = origin(k->first, fd, &k->copied);

    if (from >= 0)
        amph_fdtab_each(from, from, take_one, k);
}

static void keep_open(int fd, struct amph_fd_file *of, void *arg)
{
    take_if_kept(fd, arg);
}

static void each_kept(const struct amph_fwd_kept *kept,
                      void (*take)(const struct amph_fwd_file *file, void *arg), void *arg)
{
    struct keeping k = { .first = kept->arg, .take = take, .arg = arg };

    amph_fdtab_each(0, FDTAB_MAX - 1, keep_open, &k);
    for (const struct action *a = k.first; a; a = a->next)
        if (a->carry_out == do_dup2)
            take_if_kept(a->to, &k);
}

void amph_ip_spawn_kept(const posix_spawn_file_actions_t *actions, struct amph_fwd_kept *kept_p)
{
    *kept_p = (struct amph_fwd_kept){ .each = each_kept, .arg = actions_of(actions) };
}

bool amph_ip_spawn_gives_std(const posix_spawn_file_actions_t *actions)
{
    bool gives = amph_ip_fd(0) || amph_ip_fd(1) || amph_ip_fd(2);

    for (struct action *a = actions_of(actions); a; a = a->next)
        gives |= a->carry_out == do_dup2 && amph_ip_fd(a->fd);

    return gives;
}

int amph_ip_spawn_stderr(const posix_spawn_file_actions_t *actions)
{
    int fd = STDERR_FILENO;

    for (struct action *a = actions_of(actions); a; a = a->next) {
        if (a->carry_out == do_dup2 && a->to == STDERR_FILENO)
            fd = a->fd;
        else if (a->fd == STDERR_FILENO && (a->carry_out == do_open || a->carry_out == do_close))
            fd = -1; /* a file of this host */
    }

    return fd >= 0 && amph_ip_fd(fd) ? fd : -1;
}

/* ---- the child ---- */

struct start {
    const char *file;
    bool search;
    struct action *first;
    const posix_spawnattr_t *attr;
    char *const *argv;
    /* NULL: the process's own environment, which a change of directory may move */
    char *const *envp;
    sigset_t mask;
    int report;
};

/* The process attributes that the program starts with. */
static int set_attributes(const posix_spawnattr_t *attr, short flags)
{
    struct sched_param param;
    int policy;
    pid_t group;

    posix_spawnattr_getschedparam(attr, &param);
    posix_spawnattr_getschedpolicy(attr, &policy);
    posix_spawnattr_getpgroup(attr, &group);

    if ((flags & POSIX_SPAWN_SETSCHEDULER)
            ? sched_setscheduler(0, policy, &param) < 0
            : (flags & POSIX_SPAWN_SETSCHEDPARAM) && sched_setparam(0, &param) < 0)
        return -1;

    if ((flags & POSIX_SPAWN_SETSID) && setsid() < 0)
        return -1;
    if ((flags & POSIX_SPAWN_SETPGROUP) && setpgid(0, group) < 0)
        return -1;

    return (flags & POSIX_SPAWN_RESETIDS) && (seteuid(getuid()) < 0 || setegid(getgid()) < 0) ? -1
                                                                                              : 0;
}

/* The parent's signal handlers must not run in the child. */
static void set_signals(const posix_spawnattr_t *attr, short flags, sigset_t *mask)
{
    sigset_t to_default;

    sigemptyset(&to_default);
    if (flags & POSIX_SPAWN_SETSIGDEF)
        posix_spawnattr_getsigdefault(attr, &to_default);

    if (flags & POSIX_SPAWN_SETSIGMASK)
        posix_spawnattr_getsigmask(attr, mask);

    for (int sig = 1; sig < NSIG; sig++) {
        struct sigaction now;

        if (sigaction(sig, NULL, &now) != 0)
            continue;

        bool caught = now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;

        if (caught || sigismember(&to_default, sig) == 1)
            signal(sig, SIG_DFL);
    }
}

static AMPH_NORETURN void run_child(struct start *s)
{
    short flags = 0;

    if (s->attr)
        posix_spawnattr_getflags(s->attr, &flags);

    set_signals(s->attr, flags, &s->mask);

    int r = s->attr ? set_attributes(s->attr, flags) : 0;

    for (struct action *a = s->first; a && r >= 0; a = a->next) {
        a->keep = s->report;
        r = a->carry_out(a);
    }

    if (r >= 0) {
        char *const *envp = s->envp ? s->envp : environ;
        pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
        s->search ? amph_do_execvpe(s->file, s->argv, envp)
                  : amph_do_execve(s->file, s->argv, envp);
    }

    int err = errno;

    (void)!libc_write(s->report, &err, sizeof err);
    amph_do_exit_now(127);
}

static int report_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) != 0)
        return errno;

    for (int i = 0; i < 2; i++) {
        ends[i] = libc_fcntl64(low[i], F_DUPFD_CLOEXEC, (void *)(long)ABOVE);
        if (ends[i] < 0)
            ends[i] = low[i];
        else
            libc_close(low[i]);

        amph_ip_note_local(ends[i]);
    }

    return 0;
}

int amph_ip_spawn(pid_t *pid_p, const char *file, bool search,
                  const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                  char *const argv[], char *const envp[])
{
    struct start s = { .file = file,
                       .search = search,
                       .first = actions_of(actions),
                       .attr = attr,
                       .argv = argv,
                       .envp = envp == environ ? NULL : envp };
    sigset_t none;
    int ends[2];
    int saved = errno;
    int status;
    int failed = 0;
    int err = report_pipe(ends);

    if (err)
        return err;

    s.report = ends[1];
    sigfillset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &s.mask);

    pid_t pid = amph_do_fork();

    if (pid == 0)
        run_child(&s);

    err = pid < 0 ? errno : 0;
    libc_close(ends[1]);

    if (pid > 0 && libc_read(ends[0], &failed, sizeof failed) == (ssize_t)sizeof failed) {
        waitpid(pid, &status, 0);
        err = failed;
    }

    libc_close(ends[0]);
    pthread_sigmask(SIG_SETMASK, &s.mask, NULL);
    if (!err && pid_p)
        *pid_p = pid;

    errno = saved;
    return err;
}

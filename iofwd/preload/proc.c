/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes and threads: fork, exec and their relatives carry forwarding into what they start.  Layer: iofwd (preload).
 * Thread rule: as the C library's functions.
 */
#include <alloca.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>

#include "am/note.h"
#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/needs.h"
#include "iofwd/preload/relay.h"
#include "iofwd/preload/stream.h"
#include "iofwd/preload/targets.h"
#include "iofwd/preload/where.h"

#define CWD_NAME "IOFWD_PRIVATE_CWD"
#define DOOR_NAME "IOFWD_DOOR"

/* What was in the environment when this program started; goes on to the next one even if the program passes an environment of its own
 * (env -i, execle). */
static char *kept[64];
static size_t nkept;

static size_t name_len(const char *entry)
{
    return strcspn(entry, "=");
}

static bool is_named(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

void fwd_environment_keep(char **env)
{
    for (; env && *env && nkept < AMPH_COUNTOF(kept); env++) {
        if (is_named(*env, CWD_NAME) || is_named(*env, DOOR_NAME) || is_named(*env, FWD_NEEDS_SETTING))
            continue;
        if (is_named(*env, "LD_PRELOAD") || strncmp(*env, "AMPHORA_", 8) == 0 || strncmp(*env, "IOFWD_", 6) == 0)
            kept[nkept++] = strdup(*env);
    }
}

static bool has_name_of(char *const *env, size_t n, const char *entry)
{
    size_t len = name_len(entry) + 1;
    for (size_t i = 0; i < n; i++)
        if (strncmp(env[i], entry, len) == 0)
            return true;
    return false;
}

struct room {
    char door[512], cwd[PATH_MAX + sizeof CWD_NAME + 16], preload[2 * PATH_MAX], locks[64];
};

/* The program has a preload list of its own: ours goes before it, unless it is in it already. */
static char *preload_entry(char *theirs, struct room *room)
{
    const char *ours = NULL;
    for (size_t i = 0; i < nkept; i++)
        if (kept[i] && is_named(kept[i], "LD_PRELOAD"))
            ours = kept[i];
    if (!ours || strstr(theirs, "libiofwd_preload"))
        return theirs;
    int n = snprintf(room->preload, sizeof room->preload, "%s:%s", ours, theirs + sizeof "LD_PRELOAD=" - 1);
    return n > 0 && (size_t)n < sizeof room->preload ? room->preload : theirs;
}

static size_t entries(char *const envp[])
{
    size_t n = 0;
    while (envp && envp[n])
        n++;
    return n;
}

#define EXTRA_ENTRIES (AMPH_COUNTOF(kept) + 6) /* and one for the copies of libraries */

/* Fills out (room for entries(envp) + EXTRA_ENTRIES) with envp and what has to be in it. */
static void make_environment(char *const envp[], char **out, struct room *room, bool same_process)
{
    size_t n = 0;
    if (same_process)
        fwd_maps_flush(NULL);
    for (; envp && *envp; envp++) {
        if (is_named(*envp, CWD_NAME) || is_named(*envp, DOOR_NAME) || is_named(*envp, FWD_LOCKS_NAME) ||
            is_named(*envp, FWD_NEEDS_SETTING))
            continue;
        out[n++] = is_named(*envp, "LD_PRELOAD") ? preload_entry(*envp, room) : *envp;
    }
    for (size_t i = 0; i < nkept; i++)
        if (kept[i] && !has_name_of(out, n, kept[i]))
            out[n++] = kept[i];
    if (fwd_state.cwd) {
        snprintf(room->cwd, sizeof room->cwd, CWD_NAME "=%d:%s", fwd_cwd_fd, fwd_state.cwd);
        out[n++] = room->cwd;
    }
    const char *own = fwd_core.loaded ? fwd_core.own_env() : NULL;
    if (own && !has_name_of(out, n, own))
        out[n++] = (char *)own;
    if (same_process && fwd_core.loaded && fwd_core.exec_env(room->door, sizeof room->door))
        out[n++] = room->door;
    if (same_process && fwd_has_locks()) {
        snprintf(room->locks, sizeof room->locks, FWD_LOCKS_NAME "=%ld", (long)getpid());
        out[n++] = room->locks;
    }
    out[n] = NULL;
}

/* ---- fork ---- */

pid_t x_fork(void)
{
    if (!fwd_state.on || fwd_inside)
        return real_fork();
    fwd_real_find_all();
    fwd_core_adopt(); /* a child that inherits forwarded descriptors must be known to the servers before it runs */
    fwd_stream_fork_lock(true);
    fwd_maps_fork_lock(true);
    fwd_core_fork_lock(true);
    bool loaded = fwd_core.loaded;
    if (loaded)
        fwd_core.fork_before();
    pid_t pid = real_fork();
    int saved = errno;
    if (loaded && pid == 0) {
        fdtab_recount();
        fwd_maps_recount();
        fwd_forget_locks();
        fwd_core.fork_child();
    } else if (loaded) {
        fwd_core.fork_parent(pid);
    }
    fwd_core_fork_lock(false);
    fwd_maps_fork_lock(false);
    fwd_stream_fork_lock(false);
    errno = saved;
    return pid;
}

/* Where the C library starts a shell by itself, what is gathered comes to rest first, as before a fork: the shell's programs find files and
 * offsets as this one has left them, and do not wait for what only this one, which waits for them, can finish. */
static void come_to_rest(void)
{
    if (fwd_inside || !fwd_core.loaded)
        return;
    fwd_core.fork_before();
    fwd_core.fork_parent(-1);
}

int x_system(const char *command)
{
    if (command)
        come_to_rest();
    return real_system(command);
}

FILE *x_popen(const char *command, const char *type)
{
    come_to_rest();
    return real_popen(command, type);
}

/* _exit runs no destructors, and so ends what the client has gathered here. */
void x_exit_now(int status)
{
    if (fwd_inside == 0) {
        fwd_maps_flush(NULL);
        fwd_rank_end();
    }
    if (fwd_core.loaded && fwd_inside == 0)
        fwd_core.ending();
    real__Exit(status);
    __builtin_unreachable();
}

int x_daemon(int no_chdir, int no_close)
{
    pid_t pid = x_fork();
    if (pid < 0)
        return -1;
    if (pid > 0)
        _exit(0);
    if (setsid() < 0)
        return -1;
    if (!no_chdir)
        (void)!x_chdir("/");
    if (!no_close) {
        int fd = real_open64("/dev/null", O_RDWR, 0);
        if (fd < 0)
            return -1;
        for (int i = 0; i < 3; i++)
            x_dup2(fd, i);
        if (fd > 2)
            x_close(fd);
    }
    return 0;
}

/* ---- programs that are themselves forwarded ---- */

#define NAME_MOST 249 /* of a memfd's name */

/* A program file copied into memory; the kernel can run that one.  Gives its descriptor, -1 with errno. */
int fwd_copy_in(const char *path, int amode)
{
    struct stat st;
    char *buf = NULL;
    int from = x_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), to = -1;
    if (from < 0)
        return -1;
    if (x_fstat(from, &st) == 0 && !S_ISREG(st.st_mode))
        errno = EACCES;
    else if (x_faccessat(AT_FDCWD, path, amode, AT_EACCESS) == 0 && (buf = malloc(1 << 20)) != NULL)
        to = real_memfd_create(path + (strlen(path) > NAME_MOST ? strlen(path) - NAME_MOST : 0), MFD_CLOEXEC);
    for (ssize_t n = 1; to >= 0 && n > 0;) {
        n = x_read(from, buf, 1 << 20);
        for (ssize_t at = 0, put; n > 0 && at < n; at += put)
            if ((put = real_write(to, buf + at, (size_t)(n - at))) <= 0)
                n = -1;
        if (n < 0) {
            real_close(to);
            to = -1;
        }
    }
    int err = errno;
    free(buf);
    x_close(from);
    errno = err;
    return to;
}

/* One way to start a program; path is the C library's to open. */
typedef int (*start_fn)(void *how, const char *path, char *const argv[], char **env);

static int start_program(const char *path, char *const argv[], char **env, start_fn start, void *how);
static int start_forwarded(const char *path, const char *called, char *const argv[], char **env, start_fn start, void *how);

#define DEPTH_MAX 4 /* scripts whose interpreters are scripts */
static __thread int depth __attribute__((tls_model("initial-exec")));

/* A script: its interpreter, which may be forwarded too, is started with the script's own path, which it opens by itself. */
static int start_script(int fd, const char *path, char *const argv[], char **env, start_fn start, void *how)
{
    char line[256];
    size_t argc = entries(argv);
    ssize_t n = real_pread64(fd, line, sizeof line - 1, 0);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    char *option = interpreter + strcspn(interpreter, " \t");
    if (*option) {
        *option++ = 0;
        option += strspn(option, " \t");
    }
    char **args = alloca((argc + 4) * sizeof *args);
    size_t at = 0;
    args[at++] = interpreter;
    if (*option)
        args[at++] = option;
    args[at++] = (char *)path;
    for (size_t i = 1; i < argc; i++)
        args[at++] = argv[i];
    args[at] = NULL;
    if (depth == DEPTH_MAX)
        return fwd_fail(ELOOP);
    depth++;
    int r = start_program(interpreter, args, env, start, how);
    depth--;
    return r;
}

/* The kernel did not find what a local file names: the file may be a script with a forwarded interpreter. */
static bool needs_forwarded(const char *path, int *fd_p)
{
    char line[256];
    int err = errno, fd = real_open64(path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? -1 : real_pread64(fd, line, sizeof line - 1, 0);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    char *interpreter = n > 2 && line[0] == '#' && line[1] == '!' ? line + 2 + strspn(line + 2, " \t") : line + strlen(line);
    interpreter[strcspn(interpreter, " \t")] = 0;
    errno = err;
    if (interpreter[0] == '/' && fwd_path(interpreter)) {
        *fd_p = fd;
        return true;
    }
    if (fd >= 0)
        real_close(fd);
    return false;
}

/* A segment of the notes of a program that has the calls linked in (am/job.c's note). */
static bool is_ours(int fd, const ElfW(Phdr) *ph)
{
    char notes[1024];
    ssize_t n = real_pread64(fd, notes, ph->p_filesz < sizeof notes ? ph->p_filesz : sizeof notes, (off_t)ph->p_offset);
    return n > 0 && memmem(notes, (size_t)n, AMPH_NOTE_NAME, sizeof AMPH_NOTE_NAME - 1);
}

/* Nothing can be loaded into this program file: it names no dynamic linker, and is none, and has no part of ours. */
static bool is_static(int fd, const char *path)
{
    ElfW(Ehdr) eh;
    ElfW(Phdr) ph;
    const char *slash = strrchr(path, '/');
    if (real_pread64(fd, &eh, sizeof eh, 0) != (ssize_t)sizeof eh || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
        eh.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || strncmp(slash ? slash + 1 : path, "ld", 2) == 0)
        return false;
    for (int i = 0; i < eh.e_phnum; i++) {
        off_t at = (off_t)(eh.e_phoff + (size_t)i * eh.e_phentsize);
        if (real_pread64(fd, &ph, sizeof ph, at) != (ssize_t)sizeof ph || ph.p_type == PT_INTERP ||
            (ph.p_type == PT_NOTE && is_ours(fd, &ph)))
            return false;
    }
    return true;
}

static bool is_static_at(const char *path)
{
    int saved = errno, fd = real_open64(path, O_RDONLY | O_CLOEXEC, 0);
    bool found = fd >= 0 && is_static(fd, path);
    if (fd >= 0)
        real_close(fd);
    errno = saved;
    return found;
}

static const char *value_of(char *const *env, const char *name)
{
    for (; *env; env++)
        if (is_named(*env, name))
            return *env + strlen(name) + 1;
    return NULL;
}

/* Starts the file behind fd, whose libraries are those of needs; fd is used up. */
static int start_copy(int fd, struct fwd_needs *needs, char *const argv[], char **env, start_fn start, void *how)
{
    char link[40], setting[4096];
    size_t n = entries(env);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (needs && fwd_needs_setting(needs, setting, sizeof setting)) {
        env[n] = setting;
        env[n + 1] = NULL;
    }
    int r = start(how, link, argv, env);
    env[n] = NULL;
    fwd_needs_end(needs);
    int err = errno;
    real_close(fd);
    errno = err;
    return r;
}

/* A local program that is to find libraries in forwarded directories; one with rights of its own does not look there. */
static int copy_for_needs(const char *path, char *const *env, struct fwd_needs **needs_p)
{
    const char *search = value_of(env, "LD_LIBRARY_PATH");
    struct stat st;
    int saved = errno, copy = -1;
    int fd = search && fwd_needs_search(search) && real_access(path, X_OK) == 0 ? real_open64(path, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (fd >= 0 && real_fstat64(fd, &st) == 0 && !(st.st_mode & (S_ISUID | S_ISGID)) && (*needs_p = fwd_needs_new(search, false)) != NULL)
        copy = fwd_needs_of_local(*needs_p, fd, path);
    if (fd >= 0)
        real_close(fd);
    if (copy < 0)
        fwd_needs_end(*needs_p);
    errno = saved;
    return copy;
}

static int start_local(const char *path, char *const argv[], char **env, start_fn start, void *how)
{
    struct fwd_needs *needs = NULL;
    int fd = copy_for_needs(path, env, &needs);
    if (fd >= 0)
        return start_copy(fd, needs, argv, env, start, how);
    char to[PATH_MAX];
    int r = start(how, path, argv, env);
    if (r == 0 || errno != ENOENT)
        return r;
    if (fwd_led_in(AT_FDCWD, path) && fwd_link_leads_in(AT_FDCWD, path, to))
        return start_forwarded(to, path, argv, env, start, how);
    if (!needs_forwarded(path, &fd))
        return r;
    r = start_script(fd, path, argv, env, start, how);
    int err = errno;
    real_close(fd);
    errno = err;
    return r;
}

/* Starts path, which may lie under a prefix; a script's interpreter is told that it is called. */
static int start_forwarded(const char *path, const char *called, char *const argv[], char **env, start_fn start, void *how)
{
    char head[2], out[PATH_MAX], absolute[PATH_MAX];
    struct fwd_where w;
    if (!fwd_where_find(&w, AT_FDCWD, path, false))
        return -1;
    if (w.local)
        return start_local(w.path, argv, env, start, how);
    int r = fwd_core.access(fwd_core.client, FWD_AT(&w), F_OK, 0);
    bool leads_out = fwd_leads_out(&w, r, false, out);
    fwd_where_end(&w, 0);
    if (leads_out)
        return start_local(out, argv, env, start, how);
    /* the kernel names a program by its path without links, and so does its copy */
    int fd = fwd_copy_in(x_realpath(path, absolute) ? absolute : path, X_OK);
    if (fd < 0)
        return -1;
    if (real_pread64(fd, head, 2, 0) == 2 && head[0] == '#' && head[1] == '!') {
        r = start_script(fd, called, argv, env, start, how);
    } else {
        struct fwd_needs *needs = fwd_needs_new(value_of(env, "LD_LIBRARY_PATH"), false);
        if (needs)
            fwd_needs_complete(needs, fd, path);
        return start_copy(fd, needs, argv, env, start, how);
    }
    int err = errno;
    real_close(fd);
    errno = err;
    return r;
}

static int start_program(const char *path, char *const argv[], char **env, start_fn start, void *how)
{
    return fwd_path(path) ? start_forwarded(path, path, argv, env, start, how) : start_local(path, argv, env, start, how);
}

/* ---- exec ---- */

static int start_execve(void *how, const char *path, char *const argv[], char **env)
{
    bool relayed = fwd_relay_useful() && is_static_at(path);
    return relayed ? fwd_relay(path, argv, env) : real_execve(path, argv, env);
}

/* What the kernel does not know how to start is a script of the shell's. */
static int start_or_sh(const char *path, char *const argv[], char **env)
{
    int r = start_program(path, argv, env, start_execve, NULL);
    if (r == 0 || errno != ENOEXEC)
        return r;
    size_t argc = entries(argv);
    char **args = alloca((argc + 3) * sizeof *args);
    args[0] = (char *)"/bin/sh";
    args[1] = (char *)path;
    args[argc > 1 ? argc + 1 : 2] = NULL;
    for (size_t i = 1; i < argc; i++)
        args[i + 1] = argv[i];
    return real_execve(args[0], args, env);
}

int x_execve(const char *path, char *const argv[], char *const envp[])
{
    struct room room;
    if (!fwd_state.on || fwd_inside)
        return real_execve(path, argv, envp);
    char **env = alloca((entries(envp) + EXTRA_ENTRIES) * sizeof *env);
    make_environment(envp, env, &room, true);
    return start_program(path, argv, env, start_execve, NULL);
}

int x_execvpe(const char *file, char *const argv[], char *const envp[])
{
    struct room room;
    if (!fwd_state.on || fwd_inside)
        return real_execvpe(file, argv, envp);
    char **env = alloca((entries(envp) + EXTRA_ENTRIES) * sizeof *env);
    make_environment(envp, env, &room, true);
    char found[PATH_MAX];
    if (strchr(file, '/') || fwd_find_program(file, found, sizeof found))
        return start_or_sh(strchr(file, '/') ? file : found, argv, env);
    return real_execvpe(file, argv, env);
}

int x_fexecve(int fd, char *const argv[], char *const envp[])
{
    return x_execveat(fd, "", argv, envp, AT_EMPTY_PATH);
}

int x_execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
    struct room room;
    struct fwd_where w;
    char absolute[PATH_MAX];
    if (!fwd_state.on || fwd_inside)
        return real_execveat(dir, path, argv, envp, flags);
    char **env = alloca((entries(envp) + EXTRA_ENTRIES) * sizeof *env);
    make_environment(envp, env, &room, true);
    if (!fwd_at(dir, path))
        return real_execveat(dir, path, argv, env, flags);
    if (!fwd_where_find(&w, dir, path, flags & AT_EMPTY_PATH))
        return -1;
    if (w.local)
        return real_execveat(w.dirfd, w.path, argv, env, flags);
    bool known = fwd_where_absolute(&w, absolute, sizeof absolute);
    fwd_where_end(&w, 0);
    return known ? start_program(absolute, argv, env, start_execve, NULL) : fwd_fail(ENOENT);
}

/* The arguments of execl and its relatives as a vector; last says what comes behind the NULL. */
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

static void collect_args(const char *arg, va_list ap, char **argv)
{
    size_t n = 0;
    argv[n++] = (char *)arg;
    while ((argv[n++] = va_arg(ap, char *)) != NULL)
        ;
}

int x_execl(const char *path, const char *arg, va_list ap)
{
    char **argv = alloca((count_args(ap) + 1) * sizeof *argv);
    collect_args(arg, ap, argv);
    return x_execve(path, argv, environ);
}

int x_execlp(const char *file, const char *arg, va_list ap)
{
    char **argv = alloca((count_args(ap) + 1) * sizeof *argv);
    collect_args(arg, ap, argv);
    return x_execvpe(file, argv, environ);
}

int x_execle(const char *path, const char *arg, va_list ap)
{
    char **argv = alloca((count_args(ap) + 1) * sizeof *argv);
    va_list all;
    va_copy(all, ap);
    collect_args(arg, all, argv);
    char *const *envp = va_arg(all, char *const *);
    va_end(all);
    return x_execve(path, argv, envp);
}

/* ---- posix_spawn ---- */

struct spawn {
    pid_t *pid;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attr;
};

/* Connections that the child inherits without knowing keep the parent's files for it until it has come to hold them by itself, whatever
 * the parent closes meanwhile.  They are made with signals held back, which the child must not be born with. */
static int spawn_held(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                      char *const argv[], char *const envp[], int (*spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                                                                const posix_spawnattr_t *, char *const[], char *const[]))
{
    posix_spawnattr_t own;
    sigset_t mask;
    short flags = 0;
    if (!fwd_core.loaded)
        return spawn(pid, path, actions, attr, argv, envp);
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
    fwd_core.fork_before();
    int err = spawn(pid, path, actions, &own, argv, envp);
    fwd_core.fork_parent(-1); /* the child shares no memory with us */
    return err;
}

static int start_spawn(void *how, const char *path, char *const argv[], char **env)
{
    struct spawn *s = how;
    bool relayed = fwd_spawn_gives_std(s->actions) && is_static_at(path);
    int err = relayed ? fwd_spawn(s->pid, path, false, s->actions, s->attr, argv, env)
                      : spawn_held(s->pid, path, s->actions, s->attr, argv, env, real_posix_spawn);
    return fwd_result(err);
}

int x_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                  char *const argv[], char *const envp[])
{
    struct room room;
    struct spawn how = { pid, actions, attr };
    int saved = errno;
    if (!fwd_state.on || fwd_inside)
        return real_posix_spawn(pid, path, actions, attr, argv, envp);
    if (fwd_spawn_forwards(actions))
        return fwd_spawn(pid, path, false, actions, attr, argv, envp);
    char **env = alloca((entries(envp) + EXTRA_ENTRIES) * sizeof *env);
    make_environment(envp, env, &room, false);
    int err = start_program(path, argv, env, start_spawn, &how) == 0 ? 0 : errno;
    errno = saved;
    return err;
}

int x_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                   char *const argv[], char *const envp[])
{
    struct room room;
    if (!fwd_state.on || fwd_inside)
        return real_posix_spawnp(pid, file, actions, attr, argv, envp);
    if (fwd_spawn_forwards(actions))
        return fwd_spawn(pid, file, true, actions, attr, argv, envp);
    char found[PATH_MAX];
    if (strchr(file, '/') || fwd_find_program(file, found, sizeof found))
        return x_posix_spawn(pid, strchr(file, '/') ? file : found, actions, attr, argv, envp);
    char **env = alloca((entries(envp) + EXTRA_ENTRIES) * sizeof *env);
    make_environment(envp, env, &room, false);
    return spawn_held(pid, file, actions, attr, argv, env, real_posix_spawnp);
}

/* ---- threads: those that Amphora starts are inside of it for ever ---- */

struct start {
    void *(*fn)(void *);
    void *arg;
};

static void *run_inside(void *p)
{
    struct start start = *(struct start *)p;
    free(p);
    fwd_inside = 1;
    return start.fn(start.arg);
}

int x_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    if (!fwd_inside) {
        int failed = real_pthread_create(thread, attr, fn, arg);
        if (!failed)
            fwd_cancel_forget(*thread);
        return failed;
    }
    struct start *start = malloc(sizeof *start);
    if (!start)
        return EAGAIN;
    *start = (struct start){ fn, arg };
    int err = real_pthread_create(thread, attr, run_inside, start);
    if (err)
        free(start);
    return err;
}

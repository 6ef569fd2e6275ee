/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The namespace of iofwd-run -mount: it exists as long as a program of the user runs in it, and
 * later programs join it.
 *
 * The first program creates it.  It starts iofwd-mount outside, one process for each prefix, which
 * will serve the mounts.  Then it enters a new mount namespace, opens /dev/fuse there, mounts, and
 * passes the descriptor to iofwd-mount.  A later program joins by setns.  A directory of the user
 * lists the members by process number.  The namespace ends with its last process, and the mounts and
 * the processes that serve them end with it.
 *
 * A user who may mount (CAP_SYS_ADMIN, as root has it) enters no user namespace, so that programs may change
 * their user; the kernel then checks permissions.  Others enter a user namespace, in which the user
 * keeps its number and is the only one.  Their programs share it, so that they may read each other's
 * memory, as ranks of MPI do.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/attach/mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/descriptors.h"
#include "base/settings/env.h"
#include "launcher/attach/namespace.h"
#include "launcher/attach/root.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"

#define READY_MS 12000 /* iofwd-mount gives up after 10 s, with a message */
#define PREFIXES_MAX 16

/* ---- members of the namespace ---- */

struct registry {
    char dir[PATH_MAX - 512];
    char name[32]; /* the list of members of this set of servers, prefixes and traces */
    int lock;
    bool has_failed; /* another process tried to mount while this one waited for the lock */
};

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;

    return h;
}

/* The lock's file contains when a process last failed to mount (amph_now_ns). */
static uint64_t last_failure_ns(int lock)
{
    char text[32] = "";

    return pread(lock, text, sizeof text - 1, 0) > 0 ? strtoull(text, NULL, 10) : 0;
}

static void note_failure(int lock)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%020" PRIu64 "\n", amph_now_ns());

    (void)!pwrite(lock, text, (size_t)n, 0);
}

/* Where the serving processes print and record calls: a program that wants another place needs other
 * processes, in a namespace of their own. */
static uint64_t hash_of_traces(uint64_t h)
{
    static const enum amph_env_id settings[] = { AMPH_ENV_IOFWD_TRACE, AMPH_ENV_IOFWD_TRACE_DIR };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *value = amph_env_foreign(amph_env_name(settings[i]));

        h = hash(hash(h, "\n"), value ? value : "");
    }

    const char *lines = amph_env_foreign(amph_env_name(AMPH_ENV_IOFWD_TRACE));
    char text[64] = "";
    struct stat st;

    /* they may go to standard error */
    if (lines && lines[0] && fstat(STDERR_FILENO, &st) == 0)
        snprintf(text, sizeof text, "%ju %ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);

    return hash(h, text);
}

/* Opens and locks a file that another process may remove (remove_list).  -1: see errno. */
static int open_locked(const char *path)
{
    struct stat opened, named;

    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
            return -1;

        errno = 0;
        if (flock(fd, LOCK_EX) == 0 && fstat(fd, &opened) == 0 && stat(path, &named) == 0 &&
            opened.st_ino == named.st_ino && opened.st_dev == named.st_dev)
            return fd;

        int err = errno;

        close(fd);
        if (err != ENOENT && err != EINTR && err != 0) {
            errno = err;
            return -1;
        }
    }
}

/* Opens the user's directory and locks the list of this set. */
static bool open_registry(struct registry *r, const char *address_file, const char *prefixes)
{
    const char *top = amph_env_foreign("XDG_RUNTIME_DIR");
    char path[PATH_MAX];
    struct stat st;
    uint64_t begin_ns = amph_now_ns();

    snprintf(r->dir, sizeof r->dir, "%s/iofwd-mount-%lu", top && top[0] == '/' ? top : "/tmp",
             (unsigned long)geteuid());

    uint64_t h = hash(hash(0xcbf29ce484222325u, address_file), prefixes);

    /* a user who may mount has namespaces with several users, and does not join one of a single user */
    h = hash(h, amph_attach_may_mount() ? "\nusers" : "");
    snprintf(r->name, sizeof r->name, "%016" PRIx64, hash_of_traces(h));

    if ((mkdir(r->dir, 0700) != 0 && errno != EEXIST) || lstat(r->dir, &st) != 0) {
        amph_say("-mount: %s cannot be made: %s", r->dir, strerror(errno));
        return false;
    }

    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022)) {
        amph_say("-mount: %s is not a directory of this user alone", r->dir);
        return false;
    }

    snprintf(path, sizeof path, "%s/%s.lock", r->dir, r->name);
    r->lock = open_locked(path);
    if (r->lock < 0) {
        amph_say("-mount: %s: %s", path, strerror(errno));
        return false;
    }

    r->has_failed = last_failure_ns(r->lock) > begin_ns;
    return true;
}

/* Returns when a process started, in ticks since the start of the system; 0: it does not exist. */
static unsigned long long started(long pid)
{
    char path[64], text[1024];
    unsigned long long ticks = 0;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (fd >= 0)
        close(fd);

    text[n > 0 ? n : 0] = 0;

    char *after = strrchr(text, ')');

    if (after)
        sscanf(after + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
               "%*d %llu",
               &ticks);

    return ticks;
}

static void add_self(const struct registry *r, const char *dir)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s.%ld", dir, r->name, (long)getpid());

    FILE *f = fopen(path, "we");

    if (f) {
        fprintf(f, "%llu\n", started(getpid()));
        fclose(f);
    }
}

/* Joins the namespaces of a process.  false: it has ended, or its mounts do not work. */
static bool join_process(long pid, char *const *prefix)
{
    char path[PATH_MAX];
    struct stat mine, its;

    for (; *prefix; prefix++) {
        snprintf(path, sizeof path, "/proc/%ld/root%s", pid, *prefix);
        if (stat(path, &its) != 0)
            return false;
    }

    snprintf(path, sizeof path, "/proc/%ld/ns/mnt", pid);
    if (stat(path, &its) == 0 && stat("/proc/self/ns/mnt", &mine) == 0 && mine.st_ino == its.st_ino)
        return true; /* this process is in that namespace already */

    return amph_attach_enter(pid);
}

/* The process of an entry HASH.PID of a list; 0: the name is another one. */
static long process_of(const char *name)
{
    char *end;
    const char *dot = strchr(name, '.');
    long pid = dot ? strtol(dot + 1, &end, 10) : 0;

    return pid > 0 && !*end ? pid : 0;
}

/* When the process of this entry started; 0: the entry cannot be read, or is being written. */
static unsigned long long recorded_start(const char *path)
{
    unsigned long long ticks = 0;
    FILE *f = fopen(path, "re");

    if (!f || fscanf(f, "%llu", &ticks) != 1)
        ticks = 0;

    if (f)
        fclose(f);

    return ticks;
}

/* Does the process of this entry live? */
static bool lives(const char *path, long pid)
{
    unsigned long long ticks = recorded_start(path);

    return ticks && started(pid) == ticks;
}

/* Has it ended?  Another process may have its number now. */
static bool has_ended(const char *path, long pid)
{
    unsigned long long ticks = recorded_start(path);
    unsigned long long now = started(pid);

    return now == 0 || (ticks && now != ticks);
}

/* Removes the lock of a list without entries, unless a process has just locked it. */
static void remove_list(const char *path)
{
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return;

    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlink(path);

    close(fd);
}

/* Handles one file of the user's directory.  *members_p counts the living processes of the list so far,
 * whose lock comes last. */
static void remove_if_left(const struct registry *r, const char *name, unsigned *members_p)
{
    char path[PATH_MAX];
    long pid = process_of(name);

    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    if (pid && has_ended(path, pid))
        unlink(path);
    else if (pid)
        ++*members_p;
    else if (*members_p == 0 && strcmp(strchr(name, '.'), ".lock") == 0)
        remove_list(path);
}

/* Removes what the ended programs of other sets have left. */
static void remove_others(const struct registry *r)
{
    struct dirent **file;
    char list[sizeof r->name] = "";
    unsigned members = 0;
    int n = scandir(r->dir, &file, NULL, alphasort); /* a list's processes, and then its lock */

    for (int i = 0; i < n; i++) {
        const char *name = file[i]->d_name;
        const char *dot = strchr(name, '.');
        size_t len = strlen(r->name);

        if (dot == name + len && strncmp(name, r->name, len) != 0) {
            if (strncmp(list, name, len) != 0)
                members = 0;

            memcpy(list, name, len);
            remove_if_left(r, name, &members);
        }

        free(file[i]);
    }

    if (n >= 0)
        free(file);
}

/* Joins an existing namespace, and removes processes that have ended from the list. */
static bool join_any(const struct registry *r, char *const *prefix)
{
    DIR *dir = opendir(r->dir);
    size_t len = strlen(r->name);
    struct dirent *d;
    bool joined = false;

    while (dir && !joined && (d = readdir(dir)) != NULL) {
        char path[PATH_MAX];
        long pid = process_of(d->d_name);

        if (!pid || strncmp(d->d_name, r->name, len) != 0 || d->d_name[len] != '.')
            continue;

        snprintf(path, sizeof path, "%s/%s", r->dir, d->d_name);
        if (lives(path, pid))
            joined = join_process(pid, prefix);
        else
            unlink(path);
    }

    if (dir)
        closedir(dir);

    return joined;
}

/* ---- the processes outside ---- */

struct outside {
    int socket; /* sends the descriptor of /dev/fuse to iofwd-mount */
    int ready;  /* receives a byte when the mount works */
};

/* Sends the descriptor of /dev/fuse, and whether there are several users in the namespace. */
static bool send_fd(int socket, int fd, bool has_users)
{
    struct amph_descriptors_room room;
    char byte = has_users;
    struct iovec iov = { &byte, 1 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    amph_descriptors_attach(&msg, &room, fd);
    return sendmsg(socket, &msg, MSG_NOSIGNAL) == 1;
}

static int receive_fd(int socket, bool *has_users_p)
{
    struct amph_descriptors_room room;
    char byte;
    struct iovec iov = { &byte, 1 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    amph_descriptors_expect(&msg, &room);
    if (recvmsg(socket, &msg, 0) != 1)
        return -1;

    *has_users_p = byte;
    return amph_descriptors_detach(&msg);
}

struct mounting {
    const char *address_file;
    pid_t owner; /* the program, whose standard error gets the messages of iofwd-mount */
};

/* Runs in the process outside: becomes iofwd-mount when the descriptor has arrived. */
static void become_server(const struct mounting *m, const char *program, const char *prefix,
                          int socket, int ready)
{
    char target[32], ready_text[16], owner_text[16];
    bool has_users;
    int fd = receive_fd(socket, &has_users);

    if (fd < 0)
        _exit(0); /* the program has printed a message and ended */

    close(socket);
    setsid();
    unsetenv("LD_PRELOAD");
    fcntl(ready, F_SETFD, 0);
    snprintf(target, sizeof target, "/dev/fd/%d", fd);
    snprintf(ready_text, sizeof ready_text, "%d", ready);
    snprintf(owner_text, sizeof owner_text, "%ld", (long)m->owner);
    execl(program, "iofwd-mount", "-servers", m->address_file, "-iofwd", prefix, "-ready-fd",
          ready_text, "-owner", owner_text, "-o", has_users ? "allow_other" : "rw", target,
          (char *)NULL);
    amph_say("-mount: %s: %s", program, strerror(errno));
    _exit(1);
}

/* Starts the process outside that will serve the prefix.  It is not a child of the program. */
static bool start_outside(const struct mounting *m, const char *program, const char *prefix,
                          struct outside *o)
{
    int pair[2], ready[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 ||
        pipe2(ready, O_CLOEXEC) != 0) {
        amph_say("-mount: %s", strerror(errno));
        return false;
    }

    pid_t child = fork();

    if (child == 0) {
        close(pair[0]);
        close(ready[0]);

        pid_t grandchild = fork();

        if (grandchild != 0)
            _exit(grandchild < 0);

        become_server(m, program, prefix, pair[1], ready[1]);
    }

    close(pair[1]);
    close(ready[1]);
    *o = (struct outside){ pair[0], ready[0] };

    int status = 0;

    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;

    if (child < 0 || status != 0) {
        amph_say("-mount: no process can be started for %s", prefix);
        return false;
    }

    return true;
}

/* ---- mounting ---- */

static bool mount_prefix(const char *prefix, const struct outside *o, bool has_users)
{
    char source[PATH_MAX + 8];
    int err = amph_attach_make_dir(prefix);

    if (err) {
        amph_say("-mount: no mount point %s can be made in the namespace: %s", prefix,
                 strerror(err));
        return false;
    }

    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    snprintf(source, sizeof source, "iofwd:%s", prefix);
    err = fd < 0 ? errno : amph_attach_mount_fuse(fd, source, prefix, has_users);
    if (err)
        amph_say("-mount: %s cannot be mounted: %s", prefix, strerror(err));

    bool ok = !err && send_fd(o->socket, fd, has_users);

    if (fd >= 0)
        close(fd);

    return ok;
}

/* Waits until the process outside serves the mount.  If that fails, it has printed why. */
static bool await_ready(const struct outside *o, const char *prefix)
{
    struct pollfd p = { .fd = o->ready, .events = POLLIN };
    struct stat st;
    char byte;

    if (poll(&p, 1, READY_MS) != 1) {
        amph_say("-mount: nobody serves %s", prefix);
        return false;
    }

    if (read(o->ready, &byte, 1) != 1)
        return false;

    /* Makes the kernel ask for the attributes of the mounted directory.  Until then it belongs to
     * user 0, who may not exist in the namespace, and nobody may write in it. */
    if (stat(prefix, &st) != 0) {
        amph_say("-mount: %s: %s", prefix, strerror(errno));
        return false;
    }

    return true;
}

static bool make_new(const struct mounting *m, char *const *prefix, bool *inside_p)
{
    char *program = amph_program_own("iofwd-mount");
    struct outside outside[PREFIXES_MAX];
    size_t n = 0;

    if (!program) {
        amph_say("-mount: iofwd-mount is not part of this installation, which was built without "
                 "libfuse3");
        return false;
    }

    if (access("/dev/fuse", R_OK | W_OK) != 0) {
        amph_say("-mount: /dev/fuse cannot be opened: %s; use iofwd-run without -mount",
                 strerror(errno));
        return false;
    }

    for (; prefix[n]; n++)
        if (!start_outside(m, program, prefix[n], &outside[n]))
            return false;

    free(program);

    /* enters the working directory again, because "/" may have been replaced */
    char *cwd = getcwd(NULL, 0);

    bool has_users;

    if (!amph_attach_enter_new(&has_users)) {
        free(cwd);
        return false;
    }

    *inside_p = true;
    for (size_t i = 0; i < n; i++)
        if (!mount_prefix(prefix[i], &outside[i], has_users) ||
            !await_ready(&outside[i], prefix[i])) {
            free(cwd);
            return false;
        }

    for (size_t i = 0; i < n; i++) {
        close(outside[i].socket);
        close(outside[i].ready);
    }

    if (!cwd || chdir(cwd) != 0)
        amph_say("-mount: the working directory is not there in the namespace; it is / now");

    free(cwd);
    return true;
}

static bool mount_for(const struct mounting *m, const char *prefixes, bool *inside_p)
{
    struct registry r;
    char *prefix[PREFIXES_MAX + 1] = { NULL };
    char *copy = strdup(prefixes);
    char *at = copy;
    size_t n = 0;

    *inside_p = false;
    while (copy && at && n < PREFIXES_MAX) {
        prefix[n] = strsep(&at, ":");
        prefix[n][strcspn(prefix[n], "=")] = 0;
        n += prefix[n][0] != 0;
    }

    prefix[n] = NULL;
    if (!copy || !open_registry(&r, m->address_file, prefixes)) {
        free(copy);
        return false;
    }

    char *cwd = getcwd(NULL, 0);
    bool ok = join_any(&r, prefix);

    if (!ok)
        remove_others(&r);

    if (ok && cwd && chdir(cwd) != 0)
        amph_say("-mount: the working directory is not there in the namespace; it is / now");

    /* ranks that wait together share the outcome, and its time limit */
    if (!ok && r.has_failed)
        amph_say("-mount: %s cannot be mounted, as another process has just found", prefixes);
    else if (!ok && !(ok = make_new(m, prefix, inside_p)))
        note_failure(r.lock);

    if (ok)
        add_self(&r, r.dir);

    /* UCX opens another process's shared memory by /proc/PID/fd, which the kernel denies between the
     * user namespaces of ranks that are attached to different servers.  By the file's name it works. */
    if (ok)
        setenv("UCX_POSIX_USE_PROC_LINK", "n", 0);

    free(cwd);
    free(copy);
    close(r.lock);
    return ok;
}

bool amph_attach_mount(const char *address_file, const char *prefixes, bool *inside_p)
{
    const struct mounting m = { address_file, getpid() };

    return mount_for(&m, prefixes, inside_p);
}

bool amph_attach_mount_or_stay(const char *address_file, const char *prefixes, bool *inside_p)
{
    const struct mounting m = { address_file, getpid() };
    int made[2], joined[2];
    char byte;

    *inside_p = false;
    if (pipe2(made, O_CLOEXEC) != 0 || pipe2(joined, O_CLOEXEC) != 0) {
        amph_say("-mount: %s", strerror(errno));
        return false;
    }

    pid_t child = fork();

    if (child == 0) {
        bool inside;

        close(made[0]);
        close(joined[1]);
        if (!mount_for(&m, prefixes, &inside) || write(made[1], "", 1) != 1)
            _exit(1);

        /* the namespace lives until the other process is in it */
        while (read(joined[0], &byte, 1) < 0 && errno == EINTR)
            ;

        _exit(0);
    }

    close(made[1]);
    close(joined[0]);
    if (child < 0)
        amph_say("-mount: no process can be started: %s", strerror(errno));

    bool ok = child > 0 && read(made[0], &byte, 1) == 1 && mount_for(&m, prefixes, inside_p);

    close(made[0]);
    close(joined[1]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;

    return ok;
}

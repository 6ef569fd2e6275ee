/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: command line, start and end.
 *
 * Layer: iofwd.  Thread rule: main; the session has threads of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings/env.h"
#include "base/program/leave_preload.h"
#include "base/program/stdout_check.h"
#include "base/os/thread.h"
#include "iofwd/mount/mount.h"

enum {
    WRONG = 2
};

struct amph_mount amph_mount = {
    .o = { .cache = AMPH_MOUNT_CACHE_OPEN, .attr_s = -1, .ready_fd = -1 },
    .start = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER },
    .releases = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER }
};
_Thread_local struct amph_mount_thread amph_mount_thread;

/* clang-format off */
static const char usage[] =
    "usage: iofwd-mount [options] MOUNTPOINT\n"
    "Mounts a prefix of the I/O servers as a file system, for programs that iofwd-run cannot preload.\n"
    "  -servers FILE     address file of the servers; the default is iofwd-run's\n"
    "  -iofwd PREFIX     which prefix; the default is the one of MOUNTPOINT's name, or the only one\n"
    "  -o WORD[,WORD]... cache=none, cache=open (the default), cache=always: what the kernel may remember\n"
    "                    timeout=SECONDS: how long names and attributes are remembered (1)\n"
    "                    ro, allow_other, default_permissions, noexec, noatime, sync, dirsync, clone_fd,\n"
    "                    max_read=BYTES\n"
    "  -foreground       stay in the foreground\n"
    "  -help, -version\n"
    "fusermount3 -u MOUNTPOINT, or SIGTERM to the process, ends it.\n";
/* clang-format on */

/* ---- command line ---- */

static bool is_option(const char *word, const char *name)
{
    return word[0] == '-' && strcmp(word + 1 + (word[1] == '-'), name) == 0;
}

/* Parses one option with a value. false: a sentence was printed. */
static bool take_value(struct amph_mount_options *o, const char *option, const char *value)
{
    if (is_option(option, "o"))
        return amph_mount_options_take(o, value);

    if (is_option(option, "servers"))
        o->address_file = value;
    else if (is_option(option, "iofwd"))
        o->prefix = value;
    else if (is_option(option, "ready-fd"))
        o->ready_fd = atoi(value);
    else if (is_option(option, "owner"))
        o->owner = atoi(value);
    else {
        amph_mount_say("%s is not an option of iofwd-mount; -help lists them", option);
        return false;
    }

    return true;
}

/* Parses the command line.  Returns an exit code, or -1 to continue. */
static int parse(struct amph_mount_options *o, char **argv)
{
    for (argv++; *argv; argv++) {
        if (argv[0][0] != '-') {
            if (o->mountpoint) {
                amph_mount_say("%s: one mount point only", *argv);
                return WRONG;
            }

            o->mountpoint = *argv;
        } else if (is_option(*argv, "help") || is_option(*argv, "h")) {
            fputs(usage, stdout);
            return 0;
        } else if (is_option(*argv, "version")) {
            printf("iofwd-mount (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
            return 0;
        } else if (is_option(*argv, "foreground") || is_option(*argv, "f")) {
            o->foreground = true;
        } else if (!argv[1]) {
            amph_mount_say("%s needs a value, or is not an option; -help lists them", *argv);
            return WRONG;
        } else {
            if (!take_value(o, argv[0], argv[1]))
                return WRONG;

            argv++;
        }
    }

    if (o->cache == AMPH_MOUNT_CACHE_NONE && o->attr_s > 0) {
        amph_mount_say("-o timeout has no effect with cache=none; give one of them");
        return WRONG;
    }

    if (o->mountpoint)
        return -1;

    fputs(usage, stderr);
    return WRONG;
}

/* ---- the mount point ---- */

static bool is_mounted_already(void)
{
    return strncmp(amph_mount.o.mountpoint, "/dev/fd/", 8) == 0;
}

/* Is path itself a mount point? */
static bool is_mount_point(const char *path)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[2 * PATH_MAX], at[PATH_MAX];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%*s %*s %*s %*s %4095s", at) == 1 && strcmp(at, path) == 0;

    if (f)
        fclose(f);

    return found;
}

static void unmount(const char *path)
{
    if (umount2(path, MNT_DETACH) == 0)
        return;

    pid_t child = fork();

    if (child == 0) {
        execlp("fusermount3", "fusermount3", "-u", "-q", "-z", path, (char *)NULL);
        _exit(127);
    }

    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Checks the mount point and makes its path absolute.  Unmounts what a killed iofwd-mount has
 * left there. */
static bool check_mount_point(void)
{
    char *path = amph_mount.mountpoint;
    const char *given = amph_mount.o.mountpoint;
    struct stat st;

    if (stat(given, &st) != 0 && errno == ENOTCONN)
        unmount(given);

    if (!realpath(given, path) || stat(path, &st) != 0) {
        amph_mount_say("the mount point %s: %s", given, strerror(errno));
        return false;
    }

    if (!S_ISDIR(st.st_mode)) {
        amph_mount_say("the mount point %s is not a directory", given);
        return false;
    }

    if (is_mount_point(path)) {
        amph_mount_say("something is mounted on %s already; fusermount3 -u ends a mount of "
                       "iofwd-mount",
                       path);
        return false;
    }

    amph_mount.o.mountpoint = path;
    return true;
}

/* ---- the session ---- */

static void on_init(void *unused, struct fuse_conn_info *conn)
{
    const unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS |
                            FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_DONT_MASK |
                            FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
                            FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_HANDLE_KILLPRIV |
                            FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_ASYNC_DIO | FUSE_CAP_IOCTL_DIR;

    conn->want = conn->capable & wanted;

    /* The kernel checks permissions, by access lists too.  A server, which writes in the name of root, leaves a
     * set-uid file as it is. */
    if (amph_mount.o.allow_other) {
        conn->want |= conn->capable & FUSE_CAP_POSIX_ACL;
        conn->want &= ~(unsigned)FUSE_CAP_HANDLE_KILLPRIV;
    }

    if (amph_mount.o.cache == AMPH_MOUNT_CACHE_ALWAYS) {
        conn->want &= ~(unsigned)FUSE_CAP_AUTO_INVAL_DATA;
        conn->want |= conn->capable & FUSE_CAP_CACHE_SYMLINKS;
    }

    conn->max_write = AMPH_MOUNT_IO_BYTES;
    conn->max_readahead = AMPH_MOUNT_IO_BYTES;
    conn->max_read = amph_mount.o.max_read;
    conn->max_background = AMPH_MOUNT_THREADS_MAX;
    conn->congestion_threshold = AMPH_MOUNT_THREADS_MAX * 3 / 4;
}

/* libfuse's log function during the mount: keeps the first line. */
static void keep_reason(enum fuse_log_level level, const char *fmt, va_list ap)
{
    char *reason = amph_mount.mount_error;

    if (!reason[0])
        vsnprintf(reason, sizeof amph_mount.mount_error, fmt, ap);

    reason[strcspn(reason, "\n")] = 0;
}

static struct fuse_session *make_session(void)
{
    struct fuse_lowlevel_ops *ops = &amph_mount.ops;
    const struct amph_mount_options *o = &amph_mount.o;
    char words[6144], max_read[32] = "";
    char *argv[] = { "iofwd-mount", "-o", words, NULL };
    struct fuse_args args = FUSE_ARGS_INIT(3, argv);

    ops->init = on_init;
    amph_mount_name_calls(ops);
    amph_mount_xattr_calls(ops);
    amph_mount_data_calls(ops);
    amph_mount_dir_calls(ops);
    amph_mount_lock_calls(ops);
    amph_mount_flag_calls(ops);

    if (o->max_read)
        snprintf(max_read, sizeof max_read, ",max_read=%u", o->max_read);

    /* With one user the server's file system checks permissions.  With several users the kernel
     * checks them by the modes it sees, because the server acts for one user only. */
    snprintf(words, sizeof words, "fsname=iofwd:%s,subtype=iofwd%s%s%s%s", amph_mount.prefix,
             o->ro ? ",ro" : "", o->allow_other ? ",allow_other,default_permissions" : "", max_read,
             o->kernel);
    return fuse_session_new(&args, ops, sizeof *ops, NULL);
}

static int serve(void)
{
    struct fuse_loop_config *config = fuse_loop_cfg_create();

    if (!config)
        return 1;

    fuse_loop_cfg_set_clone_fd(config, amph_mount.o.clone_fd);
    fuse_loop_cfg_set_max_threads(config, AMPH_MOUNT_THREADS_MAX);
    fuse_loop_cfg_set_idle_threads(config, AMPH_MOUNT_THREADS);

    int ret = fuse_session_loop_mt(amph_mount.session, config);

    fuse_loop_cfg_destroy(config);
    return ret < 0 ? 1 : 0;
}

/* ---- start ---- */

/* IOFWD_OPTIONAL: what could not be mounted is no error.  Returns the exit code. */
static int end_of_start(int code)
{
    if (!code || amph_mount.start.ready || is_mounted_already() ||
        !amph_env_bool(AMPH_ENV_IOFWD_OPTIONAL))
        return code;

    amph_mount_say("IOFWD_OPTIONAL: nothing is mounted");
    return 0;
}

/* Of amph_log_set_sink: no line is printed from now on. */
static bool keep_quiet(const char *line, size_t len_bytes)
{
    return true;
}

/* Reports that the limit of the start has passed, unless the client, whose own limit ends at about the
 * same time, has said so first; it says nothing after that. */
static void say_no_answer(void)
{
    amph_log_set_sink(keep_quiet);
    if (!amph_log_error_said())
        amph_mount_say("no I/O server has answered in %d s", AMPH_MOUNT_START_S);
}

/* Thread that ends a start which takes too long, for instance because a server's host does not
 * answer. */
static void *limit_start(void *unused)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += AMPH_MOUNT_START_S;
    pthread_mutex_lock(&amph_mount.start.lock);
    while (!amph_mount.start.ready)
        if (pthread_cond_clockwait(&amph_mount.start.changed, &amph_mount.start.lock,
                                   CLOCK_MONOTONIC, &end) == ETIMEDOUT) {
            say_no_answer();
            _exit(amph_mount.o.foreground ? end_of_start(1) : 1);
        }

    pthread_mutex_unlock(&amph_mount.start.lock);
    return NULL;
}

static void begin_limit(void)
{
    pthread_t thread;

    amph_thread_start(&thread, true, 0, limit_start, NULL);
}

static void end_limit(void)
{
    pthread_mutex_lock(&amph_mount.start.lock);
    amph_mount.start.ready = true;
    pthread_cond_signal(&amph_mount.start.changed);
    pthread_mutex_unlock(&amph_mount.start.lock);
}

/* Do lines of IOFWD_TRACE go to standard error? */
static bool prints_trace(void)
{
    struct amph_fwd_trace_target target = amph_fwd_trace_parse(amph_env_str(AMPH_ENV_IOFWD_TRACE));

    return target.on && !target.file;
}

/* Reports that the mount can be used, and detaches from the terminal. */
static void become_ready(void)
{
    end_limit();
    if (amph_mount.o.ready_fd >= 0) {
        while (write(amph_mount.o.ready_fd, "", 1) < 0 && errno == EINTR)
            ;

        close(amph_mount.o.ready_fd);
    }

    if (amph_mount.o.foreground)
        return;

    int null = open("/dev/null", O_RDWR);

    setsid();
    if (chdir("/") != 0 || null < 0)
        return;

    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (!prints_trace() && !amph_mount.o.owner)
        dup2(null, STDERR_FILENO);
    if (null > STDERR_FILENO)
        close(null);
}

static int run(void)
{
    if (!is_mounted_already() && access("/dev/fuse", F_OK) != 0) {
        amph_mount_say("there is no /dev/fuse here: %s; iofwd-run PROGRAM needs none",
                       strerror(errno));
        return 1;
    }

    begin_limit();
    if (!amph_mount_servers_open())
        return 1;

    amph_mount.timeout_s = amph_mount_options_timeout(&amph_mount.o);
    amph_mount_waiting_begin();
    fuse_set_log_func(keep_reason);
    amph_mount.session = make_session();
    if (!amph_mount.session || fuse_set_signal_handlers(amph_mount.session) != 0 ||
        fuse_session_mount(amph_mount.session, amph_mount.o.mountpoint) != 0) {
        amph_mount_say("%s cannot be mounted: %s", amph_mount.o.mountpoint,
                       amph_mount.mount_error[0] ? amph_mount.mount_error : strerror(errno));
        return 1;
    }

    fuse_set_log_func(NULL);

    int code = 1;

    if (amph_mount_exchange_begin(amph_mount.session) != 0 || amph_mount_abandon_begin() != 0)
        amph_mount_say("the connection to the kernel cannot be prepared: no memory");
    else if (amph_mount_servers_watch()) {
        become_ready();
        code = serve();
    }

    if (!is_mounted_already())
        fuse_session_unmount(amph_mount.session);

    return code;
}

/* Waits until the other process serves the mount, or has ended with a sentence. */
static int await_ready(int fd, pid_t child)
{
    char byte;
    ssize_t n;
    int status;

    while ((n = read(fd, &byte, 1)) < 0 && errno == EINTR)
        ;

    if (n == 1)
        return 0;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;

    return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
}

/* Raises the limit of descriptors for waiting calls and connections. */
static void raise_limit(void)
{
    struct rlimit may;

    if (getrlimit(RLIMIT_NOFILE, &may) == 0) {
        may.rlim_cur = may.rlim_max;
        setrlimit(RLIMIT_NOFILE, &may);
    }
}

int main(int argc, char **argv)
{
    int pair[2];

    amph_leave_preload(argv);
    amph_stdout_check();

    int code = parse(&amph_mount.o, argv);

    if (code >= 0)
        return code;

    /* with cache=none every call asks the server, so changes by programs on its host are seen at
     * once */
    if (amph_mount.o.cache == AMPH_MOUNT_CACHE_NONE)
        setenv("IOFWD_CACHE_AGE", "0", 1);

    /* lines of a trace need standard error longer than one program lives */
    if (amph_mount.o.foreground || prints_trace())
        amph_mount.o.owner = 0;

    raise_limit();
    if (is_mounted_already() || amph_mount.o.foreground)
        return (is_mounted_already() || check_mount_point()) ? end_of_start(run()) : 1;

    if (!check_mount_point())
        return 1;

    if (pipe2(pair, O_CLOEXEC) != 0) {
        amph_mount_say("no pipe: %s", strerror(errno));
        return 1;
    }

    pid_t child = fork();

    if (child == 0) {
        close(pair[0]);
        amph_mount.o.ready_fd = pair[1];
        return run();
    }

    close(pair[1]);
    if (child < 0) {
        amph_mount_say("no process: %s", strerror(errno));
        return 1;
    }

    return end_of_start(await_ready(pair[0], child));
}

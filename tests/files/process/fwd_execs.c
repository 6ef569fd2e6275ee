/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts programs in every way, with open files that exec closes and with such that it keeps:
 *
 *   fwd_execs WAY CLOSED KEPT COMMAND   opens and locks the two files (-: none), starts the shell command, and ends
 *   fwd_execs fails CLOSED KEPT FIFO    tries to execute programs that are not there, and waits until FIFO ends
 *   fwd_execs nobody CLOSED KEPT        starts itself as the user nobody, with `probe`
 *   fwd_execs probe                     prints its sockets and what it finds in them, and sends something by each
 *
 * KEPT is open as descriptor 3.  The lock is one by flock and, on bytes of the file, F_OFD_SETLK.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT_FD 3
#define COPY_FD 5
#define FDS 1100
#define NOBODY 65534

extern char **environ;

static char *self;
static int closed_fd = -1;

static void check(int ok, const char *what)
{
    if (ok)
        return;

    perror(what);
    _exit(1);
}

static int open_locked(const char *path, int flags)
{
    struct flock lock = { .l_type = F_WRLCK, .l_len = 10 };
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | flags, 0600);

    check(fd >= 0, path);
    check(flock(fd, LOCK_EX | LOCK_NB) == 0, "flock");
    check(fcntl(fd, F_OFD_SETLK, &lock) == 0, "F_OFD_SETLK");
    return fd;
}

static void open_files(const char *closed, const char *kept)
{
    int fd = -1;

    if (strcmp(kept, "-") != 0)
        fd = open_locked(kept, O_CLOEXEC);

    if (fd >= 0 && fd != KEPT_FD) {
        check(dup2(fd, KEPT_FD) == KEPT_FD, "dup2");
        check(close(fd) == 0, "close");
    } else if (fd >= 0) {
        check(fcntl(fd, F_SETFD, 0) == 0, "F_SETFD");
    }

    if (strcmp(closed, "-") == 0)
        return;

    fd = open_locked(closed, O_CLOEXEC);
    closed_fd = fcntl(fd, F_DUPFD_CLOEXEC, 20); /* another number than those of the actions */
    check(closed_fd >= 0 && close(fd) == 0, "F_DUPFD_CLOEXEC");
}

/* ---- the ways ---- */

static int execute(void *command)
{
    execl("/bin/sh", "sh", "-c", (char *)command, (char *)NULL);
    _exit(127);
}

static void by_exec(char *command)
{
    execute(command);
}

static void by_fork(char *command)
{
    if (fork() == 0)
        execute(command);
}

static void by_vfork(char *command)
{
    if (vfork() == 0)
        execute(command);
}

static void by_clone(char *command)
{
    static _Alignas(64) char stack[1 << 20];

    check(clone(execute, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, command) > 0,
          "clone");
}

static void spawn(char *command, const posix_spawn_file_actions_t *actions)
{
    char *argv[] = { (char *)"sh", (char *)"-c", command, NULL };

    errno = posix_spawnp(&(pid_t){ 0 }, "sh", actions, NULL, argv, environ);
    check(errno == 0, "posix_spawnp");
}

static void by_spawn(char *command)
{
    spawn(command, NULL);
}

/* The file that exec would close is copied to COPY_FD, the other one is closed. */
static void by_copies(char *command)
{
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, closed_fd, COPY_FD + 1);
    posix_spawn_file_actions_adddup2(&actions, COPY_FD + 1, COPY_FD);
    posix_spawn_file_actions_addclose(&actions, COPY_FD + 1);
    posix_spawn_file_actions_addclose(&actions, KEPT_FD);
    spawn(command, &actions);
}

/* The kept one is replaced by a local file, the other one becomes standard output, and all others are closed. */
static void by_closefrom(char *command)
{
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, KEPT_FD, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, closed_fd, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, KEPT_FD);
    spawn(command, &actions);
}

static char *in_background(const char *command)
{
    char *text;

    check(asprintf(&text, "(%s) >/dev/null 2>&1 &", command) > 0, "asprintf");
    return text;
}

static void by_system(char *command)
{
    check(system(in_background(command)) == 0, "system");
}

static void by_popen(char *command)
{
    check(popen(command, "r") != NULL, "popen");
}

static void by_pclose(char *command)
{
    FILE *stream = popen(in_background(command), "we");

    check(stream && pclose(stream) == 0, "popen, pclose");
}

static const struct way {
    const char *name;
    void (*start)(char *command);
} ways[] = {
    { "exec", by_exec },           { "fork", by_fork },     { "vfork", by_vfork },
    { "clone", by_clone },         { "spawn", by_spawn },   { "copies", by_copies },
    { "closefrom", by_closefrom }, { "system", by_system }, { "popen", by_popen },
    { "pclose", by_pclose },
};

/* ---- an exec that fails ---- */

static void fail(char *fifo)
{
    char byte;

    for (int i = 0; i < 3; i++) {
        execlp("no-such-program", "none", (char *)NULL);
        execl("/no/such/program", "none", (char *)NULL);
    }

    check(write(closed_fd, "closed\n", 7) == 7 && write(KEPT_FD, "kept\n", 5) == 5, "write");

    int fd = open(fifo, O_RDONLY | O_CLOEXEC);

    check(fd >= 0 && read(fd, &byte, 1) >= 0, fifo);
    check(write(closed_fd, "still\n", 6) == 6, "write");
}

/* ---- another user ---- */

/* By the kernel's own list, which also has the descriptors that a program does not see. */
static void probe(void)
{
    for (int fd = KEPT_FD + 1; fd < FDS; fd++) {
        char path[64], link[64], bytes[64] = "";
        ssize_t n;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n = readlink(path, link, sizeof link - 1);
        if (n < 0 || strncmp(link, "socket:", 7) != 0)
            continue;

        n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        printf("socket: %s\n", n < 0 && errno == EAGAIN ? "nothing" : "something");
        send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static void start_nobody(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        check(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "setuid");
        execl(self, self, "probe", (char *)NULL);
        _exit(127);
    }

    check(waitpid(pid, &status, 0) == pid && status == 0, "nobody");
    for (int i = 0; i < 100; i++)
        check(write(closed_fd, "after\n", 6) == 6, "write after it");
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "probe") == 0) {
        probe();
        return 0;
    }

    if (argc < 4)
        return 2;

    open_files(argv[2], argv[3]);
    if (strcmp(argv[1], "nobody") == 0) {
        start_nobody();
        return 0;
    }

    if (argc < 5)
        return 2;

    if (strcmp(argv[1], "fails") == 0) {
        fail(argv[4]);
        return 0;
    }

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(argv[1], ways[i].name) == 0) {
            ways[i].start(argv[4]);
            _exit(0);
        }

    return 2;
}

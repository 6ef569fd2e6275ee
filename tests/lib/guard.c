/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a test so that nothing it does can hold up or outlive the run:  guard SECONDS COMMAND
 * [ARGUMENTS]
 *
 * The command's output goes to a file and is passed on when the command has ended, so a process
 * that it left behind cannot keep make waiting for the end of a pipe.  What it leaves behind is
 * adopted (child subreaper), given a moment to go, named and killed: that is a failure.  So is a
 * command that is not done in time; then every process of it is listed with where it waits. Exit
 * code: the command's (128 + n for a signal), 124 when its time was up, 125 when it left processes
 * behind.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LEAVE_MS = 5000,
    LINE_BYTES = 400
};

static long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000L + t.tv_nsec / 1000000;
}

/* The first bytes of /proc/PID/NAME, with blanks for zero bytes and ends of lines. */
static void read_proc(pid_t pid, const char *name, char out[LINE_BYTES])
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, LINE_BYTES - 1);

    if (fd >= 0)
        close(fd);

    n = n < 0 ? 0 : n;
    for (ssize_t i = 0; i < n; i++)
        if (out[i] == 0 || out[i] == '\n')
            out[i] = ' ';

    out[n] = 0;
}

/* Parent and state of a process; false: it is gone. */
static bool parent_of(pid_t pid, pid_t *parent_p, char *state_p)
{
    char line[LINE_BYTES];
    int parent;

    read_proc(pid, "stat", line);

    const char *end = strrchr(line, ')'); /* the name before it may hold anything */
    if (!end || sscanf(end + 1, " %c %d", state_p, &parent) != 2)
        return false;

    *parent_p = parent;
    return true;
}

static bool descends_from(pid_t pid, pid_t ancestor)
{
    char state;

    for (int depth = 0; pid > 1 && depth < 1000; depth++) {
        if (!parent_of(pid, &pid, &state))
            return false;
        if (pid == ancestor)
            return true;
    }

    return false;
}

static void describe(pid_t pid, char state, pid_t parent)
{
    char command[LINE_BYTES], where[LINE_BYTES], call[LINE_BYTES];

    read_proc(pid, "cmdline", command);
    read_proc(pid, "wchan", where);
    read_proc(pid, "syscall", call);
    printf("# guard: process %d of %d, state %c, waits in %s, call %.60s: %.200s\n", (int)pid,
           (int)parent, state, where, call, command);
}

/* Counts the processes below this one; describes them, or kills them. */
static int below(bool say, int sig)
{
    int count = 0;
    DIR *dir = opendir("/proc");

    for (const struct dirent *e; dir && (e = readdir(dir));) {
        pid_t pid = (pid_t)atoi(e->d_name);
        pid_t parent;
        char state;

        if (pid <= 0 || !parent_of(pid, &parent, &state) || state == 'Z' ||
            !descends_from(pid, getpid()))
            continue;

        count++;
        if (say)
            describe(pid, state, parent);

        if (sig)
            kill(pid, sig);
    }

    if (dir)
        closedir(dir);

    return count;
}

/* Waits until main_pid has ended (0: until no process is left below) or ms have passed; true: it
 * has, *status_p set. */
static bool await(int signals, pid_t main_pid, long ms, int *status_p)
{
    long end = now_ms() + ms;

    for (;;) {
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == main_pid) {
                *status_p = status;
                return true;
            }
        }

        if (pid < 0 && errno == ECHILD)
            return main_pid == 0;

        struct signalfd_siginfo info;
        struct pollfd p = { .fd = signals, .events = POLLIN };
        long left = end - now_ms();

        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return false;
        if (read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD)
            return false; /* told to end: as if the time were up */
    }
}

static void pass_on(int fd)
{
    char buffer[1 << 16];
    ssize_t n;

    fflush(stdout);
    for (off_t at = 0; (n = pread(fd, buffer, sizeof buffer, at)) > 0; at += n)
        if (write(1, buffer, (size_t)n) != n)
            return;
}

static pid_t start(char **argv, int out, const sigset_t *old)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;

    int nothing = open("/dev/null", O_RDONLY);

    dup2(nothing, 0);
    dup2(out, 1);
    dup2(out, 2);
    sigprocmask(SIG_SETMASK, old, NULL);
    execvp(argv[0], argv);
    fprintf(stderr, "guard: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Ends what is left; how: the sentence about it, or NULL. */
static int clear_up(int signals, bool late)
{
    int status;

    if (late)
        below(true, SIGKILL);
    else if (await(signals, 0, LEAVE_MS, &status))
        return 0;

    int left = below(!late, SIGKILL);

    while (below(false, SIGKILL) > 0)
        await(signals, 0, 100, &status);

    return left;
}

int main(int argc, char **argv)
{
    if (argc < 3 || atoi(argv[1]) <= 0) {
        fprintf(stderr, "usage: guard SECONDS COMMAND [ARGUMENTS]\n");
        return 2;
    }

    /* Descriptors 0 to 2 exist from here on, whatever make was started with. */
    for (int fd = open("/dev/null", O_RDWR); fd >= 0 && fd <= 2;)
        fd = dup(fd);

    sigset_t mask, old;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigprocmask(SIG_BLOCK, &mask, &old);

    int signals = signalfd(-1, &mask, SFD_CLOEXEC);
    FILE *out = tmpfile();

    if (signals < 0 || !out || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        perror("guard");
        return 99;
    }

    int status = 0;
    pid_t pid = start(argv + 2, fileno(out), &old);
    bool late = !await(signals, pid, atoi(argv[1]) * 1000L, &status);

    pass_on(fileno(out));
    if (late)
        printf(
            "# guard: the command was not done within %s s, or was told to end; its processes:\n",
            argv[1]);

    int left = clear_up(signals, late);

    fflush(stdout);
    if (late)
        return 124;

    if (left) {
        printf("# guard: the command left %d processes behind\n", left);
        return 125;
    }

    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: what the processes of a run share.
 *
 * Layer: iofwd.  Thread rule: each process's first thread, except amph_trap_say: any.
 */
#include "iofwd/trap/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/descriptors.h"
#include "base/platform.h"
#include "iofwd/trap/trap.h"

void amph_trap_say(const char *fmt, ...)
{
    char line[2048];
    va_list ap;

    va_start(ap, fmt);
    int n = snprintf(line, sizeof line, "iofwd-run -trap: ");

    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;

    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* nobody reads it */
}

pid_t amph_trap_fork(int *socket_p)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        amph_trap_say("no socket: %s", strerror(errno));
        return -1;
    }

    pid_t child = fork();
    const bool is_child = child == 0;

    if (child < 0)
        amph_trap_say("no process: %s", strerror(errno));

    close(pair[!is_child]);
    *socket_p = pair[is_child];
    if (child < 0)
        close(*socket_p);

    return child;
}

bool amph_trap_send(int fd, const void *data, size_t len)
{
    ssize_t n;

    while ((n = send(fd, data, len, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;

    return n == (ssize_t)len;
}

bool amph_trap_receive(int fd, void *data, size_t len)
{
    ssize_t n;

    while ((n = recv(fd, data, len, MSG_WAITALL)) < 0 && errno == EINTR)
        ;

    return n == (ssize_t)len;
}

void amph_trap_leave_descriptors(int keep, int keep2)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }

    int kept[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, keep, keep2 };

    amph_descriptors_close_except(kept, AMPH_COUNTOF(kept));
}

bool amph_trap_listener_copy(pid_t child, int number)
{
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);

    amph_trap.listener = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
    if (amph_trap.listener < 0)
        amph_trap_say("this process may not look at its child: %s (kernel.yama.ptrace_scope, or a "
                      "container); iofwd-run -mount runs the program",
                      strerror(errno));

    if (pidfd >= 0)
        close(pidfd);

    return amph_trap.listener >= 0;
}

/* /proc lists a process's children by the thread that is their parent. */
static void kill_children_of(const char *thread)
{
    char path[NAME_MAX + 40];
    int pid;

    snprintf(path, sizeof path, "/proc/self/task/%s/children", thread);

    FILE *f = fopen(path, "re");

    while (f && fscanf(f, "%d", &pid) == 1)
        kill(pid, SIGKILL);

    if (f)
        fclose(f);
}

void amph_trap_kill_children(void)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *e;

    while (threads && (e = readdir(threads)))
        if (e->d_name[0] != '.')
            kill_children_of(e->d_name);

    if (threads)
        closedir(threads);
}

void amph_trap_ignore_signals(void)
{
    static const int ignored[] = { SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGUSR1, SIGUSR2,
                                   SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGALRM };

    for (unsigned i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
}

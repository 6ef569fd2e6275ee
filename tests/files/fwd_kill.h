/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests in which a server dies: kills one. */
#ifndef FWD_KILL_H
#define FWD_KILL_H

#ifndef _GNU_SOURCE
#error this needs _GNU_SOURCE
#endif
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline bool is_server(pid_t pid)
{
    char name[64];
    char comm[64] = "";

    snprintf(name, sizeof name, "/proc/%ld/comm", (long)pid);

    FILE *f = fopen(name, "r");
    bool is = f && fgets(comm, sizeof comm, f) && strstr(comm, "iofwd-server");

    if (f)
        fclose(f);

    return is;
}

enum {
    FD_MAX = 2047
}; /* where a program's descriptors and the client's are looked for */

/* At the other end of a connection; 0: it is none, or not to a server. */
static inline pid_t server_behind(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof cred;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && is_server(cred.pid)
               ? cred.pid
               : 0;
}

/* The server of the newest connection; 0: no connection. */
static inline pid_t newest_server(void)
{
    pid_t pid = 0;

    for (int fd = FD_MAX; fd >= 3 && !pid; fd--)
        pid = server_behind(fd);

    return pid;
}

/* Gone when this returns.  false: it was not there. */
static inline bool kill_and_wait(pid_t pid)
{
    if (pid <= 0 || kill(pid, SIGKILL) != 0)
        return false;

    while (kill(pid, 0) == 0)
        usleep(500);

    return true;
}

static inline bool kill_server(void)
{
    return kill_and_wait(newest_server());
}

/* Stops the server of the newest connection, if there is one; a child lets it go on after that time. */
static inline void stop_server(useconds_t us)
{
    pid_t server = newest_server();

    if (server == 0)
        return;

    if (fork() == 0) {
        usleep(us);
        kill(server, SIGCONT);
        _exit(0);
    }

    kill(server, SIGSTOP);
}

/* As /proc/PID/stat has it: R, S, T, Z, ...; 0: it is gone. */
static inline char process_state(pid_t pid)
{
    char name[64];
    char text[512] = "";

    snprintf(name, sizeof name, "/proc/%ld/stat", (long)pid);

    FILE *f = fopen(name, "r");
    const char *at = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;

    if (f)
        fclose(f);

    return at ? at[2] : 0;
}

#endif

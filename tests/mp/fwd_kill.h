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
    char name[64], comm[64] = "";
    snprintf(name, sizeof name, "/proc/%ld/comm", (long)pid);
    FILE *f = fopen(name, "r");
    bool is = f && fgets(comm, sizeof comm, f) && strstr(comm, "iofwd-server");
    if (f)
        fclose(f);
    return is;
}

/* The server of the newest connection; gone when this returns.  false: there is none. */
static inline bool kill_server(void)
{
    for (int fd = 1023; fd >= 3; fd--) {
        struct ucred cred;
        socklen_t len = sizeof cred;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || !is_server(cred.pid))
            continue;
        if (kill(cred.pid, SIGKILL) != 0)
            return false;
        while (kill(cred.pid, 0) == 0)
            usleep(500);
        return true;
    }
    return false;
}

#endif

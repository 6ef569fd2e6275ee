/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is another process of this host at work?  See work.h.
 *
 * Layer: base; uses the C library only, and allocates no memory.  Thread rule: any thread.
 */
#include "base/os/work.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/platform.h"

/* Ticks that count as work: a process that only looks at its clock now and then uses fewer. */
#define TICKS_MIN 3

/* Adds what a thread has done. */
static void look_at_thread(int dir, const char *tid, struct amph_work *work)
{
    char path[300], text[1024], state;
    unsigned long long user, kernel;

    snprintf(path, sizeof path, "%s/stat", tid);

    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

    if (fd >= 0)
        close(fd);

    text[n > 0 ? n : 0] = 0;

    const char *after = strrchr(text, ')'); /* ten fields separate the state and the times */

    if (!after || sscanf(after, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &state,
                         &user, &kernel) != 3)
        return;

    work->ticks += user + kernel;
    work->wants |= state == 'R' || state == 'D';
}

bool amph_work_look(pid_t pid, struct amph_work *work_p)
{
    _Alignas(struct dirent64) char entries[4096];
    char path[40];

    *work_p = (struct amph_work){ .ticks = 0 };
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);

    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return false;

    for (long n; (n = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0;)
        for (long at = 0; at < n;) {
            const struct dirent64 *e = (const void *)(entries + at);

            if (e->d_name[0] != '.')
                look_at_thread(dir, e->d_name, work_p);

            at += e->d_reclen;
        }

    close(dir);
    return true;
}

bool amph_work_goes_on(pid_t pid, struct amph_work *before_p)
{
    struct amph_work now;

    if (pid <= 0 || !amph_work_look(pid, &now))
        return false;

    bool worked = now.ticks >= before_p->ticks + TICKS_MIN;

    *before_p = now;
    return now.wants || worked;
}

pid_t amph_work_peer(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
}

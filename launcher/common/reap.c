/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds and ends descendants; see reap.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/common/reap.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"

struct entry {
    pid_t pid, parent;
    bool dead;   /* a zombie, waiting to be reaped by its parent */
    bool ending; /* the kernel has begun to end it */
};

/* Of the kernel's flags of a task: it runs no code of the program any more, and is being taken apart (PF_EXITING). */
#define TASK_ENDING 0x4u

struct table {
    struct entry *at;
    size_t n, cap;
};

/* Reads parent, state and flags from /proc/PID/stat.  Its second field (the name) may contain blanks and
 * brackets. */
static bool read_stat(const char *pid, struct entry *e)
{
    char path[64], text[512];

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;

    ssize_t n = read(fd, text, sizeof text - 1);

    close(fd);
    text[n > 0 ? n : 0] = 0;

    const char *end = strrchr(text, ')');
    char state;
    int parent;
    unsigned flags;

    /* between parent and flags: process group, session, terminal and its process group */
    if (!end || sscanf(end + 1, " %c %d %*d %*d %*d %*d %u", &state, &parent, &flags) != 3)
        return false;

    *e = (struct entry){ .pid = (pid_t)atol(pid),
                         .parent = (pid_t)parent,
                         .dead = state == 'Z' || state == 'X',
                         .ending = flags & TASK_ENDING };
    return true;
}

bool amph_reap_has_ended(pid_t pid)
{
    char name[24];
    struct entry e;

    snprintf(name, sizeof name, "%ld", (long)pid);
    return !read_stat(name, &e) || e.dead;
}

bool amph_reap_is_ending(pid_t pid)
{
    char name[24];
    struct entry e;

    snprintf(name, sizeof name, "%ld", (long)pid);
    return !read_stat(name, &e) || e.dead || e.ending;
}

static bool table_add(struct table *t, struct entry e)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        struct entry *at = realloc(t->at, cap * sizeof *at);

        if (!at)
            return false;

        t->at = at;
        t->cap = cap;
    }

    t->at[t->n++] = e;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct entry *)a)->pid;
    pid_t y = ((const struct entry *)b)->pid;

    return (x > y) - (x < y);
}

static void table_read(struct table *t)
{
    DIR *dir = opendir("/proc");
    struct dirent *d;
    struct entry e;

    while (dir && (d = readdir(dir)))
        if (isdigit((unsigned char)d->d_name[0]) && read_stat(d->d_name, &e) && !table_add(t, e))
            break;

    if (dir)
        closedir(dir);

    qsort(t->at, t->n, sizeof *t->at, by_pid);
}

static bool is_in(pid_t pid, const pid_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == pid)
            return true;

    return false;
}

/* Returns whether `self` is an ancestor of e and no skipped process is between them. */
static bool is_below(const struct table *t, const struct entry *e, pid_t self, const pid_t *skip,
                     size_t nskip)
{
    for (size_t steps = 0; e && steps <= t->n; steps++) {
        if (is_in(e->pid, skip, nskip))
            return false;
        if (e->parent == self)
            return true;

        struct entry key = { .pid = e->parent };

        e = bsearch(&key, t->at, t->n, sizeof *t->at, by_pid);
    }

    return false;
}

size_t amph_reap_signal(int sig, const pid_t *skip, size_t nskip)
{
    struct table t = { 0 };
    pid_t self = getpid();
    size_t n = 0;

    table_read(&t);
    for (size_t i = 0; i < t.n; i++)
        if (!t.at[i].dead && t.at[i].pid != self && is_below(&t, &t.at[i], self, skip, nskip)) {
            kill(t.at[i].pid, sig);
            n++;
        }

    free(t.at);
    return n;
}

size_t amph_reap_kill(const pid_t *skip, size_t nskip, int limit_ms)
{
    uint64_t deadline = amph_now_ns() + (uint64_t)limit_ms * AMPH_NS_PER_MS;
    sigset_t chld;
    size_t left;

    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);

    while ((left = amph_reap_signal(SIGKILL, skip, nskip)) > 0 && amph_now_ns() < deadline) {
        /* SIGCHLD is blocked in launcher and agents, so it ends this wait.  The time limit is for ends
         * of indirect descendants, which send no SIGCHLD. */
        struct timespec limit = { .tv_nsec = 2000000 };
        if (sigtimedwait(&chld, NULL, &limit) < 0 && errno != EAGAIN && errno != EINTR)
            break;

        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }

    return left;
}

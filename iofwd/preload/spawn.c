/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that posix_spawn is to open in the child, where nothing of ours runs: a forwarded one is opened here when it is asked for, and
 * the child gets it by dup2.  Layer: iofwd (preload).  Thread rule: as the C library's functions.
 */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>

#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/targets.h"

#define ABOVE 64 /* out of the way of the numbers that other actions name */

struct opened {
    struct opened *next;
    const posix_spawn_file_actions_t *actions;
    int fd;
};
static struct opened *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool remember(const posix_spawn_file_actions_t *actions, int fd)
{
    struct opened *o = malloc(sizeof *o);
    if (!o)
        return false;
    pthread_mutex_lock(&lock);
    *o = (struct opened){ all, actions, fd };
    all = o;
    pthread_mutex_unlock(&lock);
    return true;
}

int x_spawn_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags, mode_t mode)
{
    int saved = errno, low = x_openat(AT_FDCWD, path, flags | O_CLOEXEC, mode);
    int kept = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, ABOVE);
    if (low >= 0)
        x_close(low);
    errno = saved;
    if (kept < 0) /* it cannot be opened: the child is to find that out, and posix_spawn to say it */
        return real_posix_spawn_file_actions_addopen(actions, fd, path, flags, mode);
    if (!remember(actions, kept)) {
        x_close(kept);
        return ENOMEM;
    }
    return posix_spawn_file_actions_adddup2(actions, kept, fd);
}

int x_spawn_destroy(posix_spawn_file_actions_t *actions)
{
    pthread_mutex_lock(&lock);
    for (struct opened **at = &all; *at;) {
        struct opened *o = *at;
        if (o->actions != actions) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        x_close(o->fd);
        free(o);
    }
    pthread_mutex_unlock(&lock);
    return real_posix_spawn_file_actions_destroy(actions);
}

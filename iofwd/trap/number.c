/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: descriptors of the program: copies of them for the supervisor, and the numbers of
 * forwarded files.
 *
 * Layer: iofwd.  Thread rule: any thread; each process has a lock from the search for a number to its
 * use.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/trap/process.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */
#endif

_Atomic uint64_t *amph_trap_number_table(void)
{
    size_t words = (size_t)(amph_trap.last_fd - amph_trap.first_fd) / 64 + 1;

    return calloc(words, sizeof(uint64_t));
}

int amph_trap_fd_of(struct amph_trap_process *p, int fd)
{
    return (int)syscall(SYS_pidfd_getfd, p->pidfd, fd, 0);
}

/* If the process's first thread has ended, the kernel finds its descriptors by another one only. */
static int fd_of_thread(pid_t tid, int fd)
{
    int pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);

    if (pidfd < 0)
        return -1;

    int own_fd = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    int err = errno;

    close(pidfd);
    errno = err;
    return own_fd;
}

int amph_trap_fd_of_call(struct amph_trap_call *c, int fd, int *own_fd_p)
{
    struct amph_trap_process *p;
    int err = amph_trap_process_of(c, &p);

    if (err)
        return err;

    *own_fd_p = amph_trap_fd_of(p, fd);
    if (*own_fd_p < 0 && (errno == EBADF || errno == ESRCH) && (pid_t)c->n.pid != p->pid)
        *own_fd_p = fd_of_thread((pid_t)c->n.pid, fd);

    if (*own_fd_p >= 0)
        return 0;

    if (errno == EPERM)
        return amph_trap_cannot_look(c);

    err = errno;
    return amph_trap_call_lives(c) ? err : AMPH_TRAP_GONE;
}

/* Is the number free in the process? */
static bool is_free(struct amph_trap_call *c, int fd)
{
    int own_fd;
    int err = amph_trap_fd_of_call(c, fd, &own_fd);

    if (!err)
        close(own_fd);

    return err == EBADF;
}

/* Finds the lowest free number, at least min; -1: none.  believe: numbers that are marked as used are skipped
 * without a check. */
static int find_number(struct amph_trap_call *c, int min, bool believe)
{
    struct amph_trap_process *p = c->process;
    int n = amph_trap.last_fd - amph_trap.first_fd; /* the last carries a directory */

    for (int i = min > amph_trap.first_fd ? min - amph_trap.first_fd : 0; i < n; i++) {
        uint64_t bit = UINT64_C(1) << (i % 64);

        if (believe && (atomic_load_explicit(&p->used[i / 64], memory_order_relaxed) & bit))
            continue;

        atomic_fetch_or_explicit(&p->used[i / 64], bit, memory_order_relaxed);
        if (is_free(c, amph_trap.first_fd + i))
            return amph_trap.first_fd + i;
    }

    return -1;
}

/* Finds the lowest free number, at least min, among standard input, output and errors.  A program that
 * has closed one of them expects the next file there.  -1: none. */
static int find_standard(struct amph_trap_call *c, int min)
{
    for (int fd = min > 0 ? min : 0; fd <= STDERR_FILENO && fd < amph_trap.low_fds; fd++)
        if (is_free(c, fd))
            return fd;

    return -1;
}

/* Held for reading from the reply until the supervisor has closed its copy of the descriptor.  A program
 * that closes its own copy meanwhile would find the file still open, and a lock on it still held.
 * amph_trap_number_flush therefore waits until no reply is in that state. */
static pthread_rwlock_t replying = PTHREAD_RWLOCK_INITIALIZER;

int amph_trap_number_give(struct amph_trap_call *c, struct amph_trap_file *file, int own_fd,
                          int number, bool cloexec)
{
    pthread_rwlock_rdlock(&replying);

    int ret = amph_trap_reply_fd(c, own_fd, number, cloexec);

    close(own_fd);
    amph_trap_file_put(file);
    pthread_rwlock_unlock(&replying);
    return ret;
}

void amph_trap_number_flush(void)
{
    pthread_rwlock_wrlock(&replying);
    pthread_rwlock_unlock(&replying);
}

int amph_trap_number_reply(struct amph_trap_call *c, struct amph_trap_file *file, int own_fd,
                           int min, bool cloexec)
{
    struct amph_trap_process *p;
    int number = -1;
    int err = amph_trap_process_of(c, &p);

    if (!err) {
        pthread_mutex_lock(&p->numbering);
        number = find_standard(c, min);
        if (number >= 0)
            atomic_store(&amph_trap.low_used, true);
        else
            number = find_number(c, min, true);

        if (number < 0)
            number = find_number(c, min, false);

        err = number < 0 ? EMFILE : 0;
        if (!err)
            amph_fwd_record_descriptor(number);
        if (!err)
            err = amph_trap_number_give(c, file, own_fd, number, cloexec);

        if (number >= 0 && err != AMPH_TRAP_SENT)
            amph_trap_number_freed(p, number);

        pthread_mutex_unlock(&p->numbering);
    }

    if (number < 0) {
        close(own_fd);
        amph_trap_file_put(file);
    }

    return err;
}

void amph_trap_number_freed(struct amph_trap_process *p, int fd)
{
    int i = fd - amph_trap.first_fd;

    if (fd == amph_trap.last_fd) /* the next fork assigns another one */
        p->carried = UINT_MAX;

    if (fd >= amph_trap.first_fd && fd < amph_trap.last_fd)
        atomic_fetch_and_explicit(&p->used[i / 64], ~(UINT64_C(1) << (i % 64)),
                                  memory_order_relaxed);
}

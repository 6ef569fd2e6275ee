/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of process/; each group belongs to the file that its comment names.
 *
 * Layer: iofwd (interposer).  Thread rule: as said at each group.
 */
#ifndef AMPH_IOFWD_INTERPOSE_PROCESS_STATE_H
#define AMPH_IOFWD_INTERPOSE_PROCESS_STATE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/platform.h"
#include "iofwd/client/client.h"
#include "iofwd/interpose/process/start.h"

struct amph_ip_action_list;
struct amph_ip_shell;
struct pmix_proc;

/* relay.c: a standard descriptor of the program, and the pipe to it. */
struct amph_ip_relay_line {
    int file; /* the forwarded descriptor, a copy above the program's */
    /* ends of the pipe; theirs stays open here for input only, to count the unread bytes */
    int ours, theirs;
    bool input;
    /* an earlier line for the same file, which serves this one too; -1: none */
    int same;
    size_t from, to; /* input: the data in buf */
    char *buf;
};

struct amph_ip_process_state {
    /* environ.c: the settings in the environment at the program's start, written by the constructor.
     * They apply to this program even if it clears its environment.  Programs that it starts get
     * them too, even with an environment of their own (env -i, execle), except settings that are for
     * one program only. */
    char *kept[AMPH_IP_ENV_KEPT + 1]; /* ends with NULL */
    size_t nkept;
    const char *linked; /* this library, where no preload list had it; or NULL */
    bool lost_library;  /* of a static program: no list had it, nor is it where it is installed */

    /* bypass.c: written by the constructor; the list also at the first program that is reported. */
    struct {
        bool strict;
        bool quiet;    /* AMPHORA_LOG=error */
        char list[96]; /* NAME=PID:FD:INODE, as programs that this one starts get it */
    } bypass;

    /* mpi.c: all ranks of the program, for the fences, made at the first one; or NULL. */
    struct pmix_proc *ranks;
    long pmix_holder;    /* mpi.c: the process that stays in PMIx until it ends, or 0 */
    bool pmix_lost_said; /* mpi.c: why MPI_Init fails was printed */

    /* mpi_job.c: written by the constructor. */
    struct {
        /* of a job in which Open MPI finds no other process; 0: not in such a job */
        uint32_t nprocs;
        uint32_t servers; /* I/O servers that MPICH takes for ranks; 0: not in such a job */
        int pmi_fd;       /* the connection to the launcher of that job, or -1 */
    } mpi_job;

    /* relay.c: of the process that stays beside a static program; it has one thread. */
    struct {
        struct amph_ip_relay_line line[3];
        int wake[2]; /* written by the SIGCHLD handler */
        pid_t child;
        bool failed; /* a file refused data that the program wrote */
    } relay;

    /* connections.c: written by the constructor, but for passed. */
    struct {
        pid_t pid; /* of this process; 0: the program before this one has left none */
        unsigned n;
        int fd[2 * AMPH_FWD_PARTS_MAX];
        char *text;  /* the setting */
        bool passed; /* on, to the program that is being executed */
    } came;

    /* shells.c: under its lock. */
    struct amph_ip_shells {
        pthread_mutex_t lock;
        struct amph_ip_shell *first;      /* of popen */
        unsigned waiting;                 /* threads in system */
        struct sigaction interrupt, quit; /* as the program has set them */
    } shells;

    /* spawn.c: of all action objects in use, under its lock. */
    struct {
        pthread_mutex_t lock;
        struct amph_ip_action_list *lists;
    } actions;
};

extern struct amph_ip_process_state amph_ip_process AMPH_HIDDEN;

/* Takes or gives back a lock that forks take too: no handler of this thread may fork meanwhile. */
static inline void amph_ip_process_lock(pthread_mutex_t *lock, sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    pthread_mutex_lock(lock);
}

static inline void amph_ip_process_unlock(pthread_mutex_t *lock, const sigset_t *before)
{
    pthread_mutex_unlock(lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Around a fork, whose child may start programs: shells.c; spawn.c. */
void amph_ip_shells_fork_lock(bool take);
void amph_ip_spawn_fork_lock(bool take);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of record locks, shared by lock/lock.c (the progress thread's side), lock/agent.c (the
 * agents) and lock/held.c (who holds what).  Layer: iofwd.  Thread rule: see lock/lock.c.
 */
#ifndef AMPH_IOFWD_SERVER_LOCK_H
#define AMPH_IOFWD_SERVER_LOCK_H

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/wire/ranges.h"
#include "iofwd/server/internal.h"

/* A file that the agent has in its table: the same list on both sides, kept alike by the order of
 * the messages. */
struct amph_server_agent_file {
    struct amph_server_agent_file *next;
    uint64_t handle;
    dev_t dev;
    ino_t ino;
    int fd; /* agent's */
    /* agent's: what it has locked of the file, in the first entry for that file; lock/held.c's
     * lock */
    struct amph_fwd_ranges held;
};

#define AMPH_SERVER_EVERY_SEQ UINT64_MAX

enum amph_server_lock_op {
    AMPH_SERVER_LOCK_CALL,
    AMPH_SERVER_LOCK_CLOSE_INODE,
    AMPH_SERVER_LOCK_CANCEL
};

struct amph_server_lock_order {
    enum amph_server_lock_op op;
    /* AMPH_SERVER_LOCK_CALL, and AMPH_SERVER_LOCK_CLOSE_INODE where somebody waits for it */
    struct amph_server_request *rq;
    uint64_t seq; /* AMPH_SERVER_LOCK_CANCEL; AMPH_SERVER_EVERY_SEQ: whatever waits */
    uint64_t handle;
    dev_t dev;
    ino_t ino;
};

struct amph_server_lock_waiter {
    struct amph_server_lock_waiter *next;
    struct amph_server_lock_agent *locker;
    struct amph_server_request *rq;
    pthread_t thread;
    int fd;
    bool cancelled;
};

struct amph_server_lock_agent {
    struct amph_server *server;
    struct amph_server_lock_agent *next; /* lock/held.c's, and its lock */
    uint32_t pid;                        /* the client's */
    int door;                            /* the server's end of the socket to the agent */
    /* orders: what was written before a message is seen after it, which the kernel does not promise
     * the language */
    _Atomic uint32_t handed;
    struct amph_server_agent_file *known; /* progress thread's view of what the agent has */
    /* agent's end; until it has left, and afterwards in the server's table as well */
    int sock;
    sem_t left;           /* counts 1 when the agent has left the table, or could not */
    bool apart;           /* it has: set before left is */
    _Atomic bool dropped; /* by its client, whose locks it still holds */
    struct amph_server_agent_file *kept; /* agent's */
    pthread_mutex_t lock;                /* of waiters */
    struct amph_server_lock_waiter *waiters;
    unsigned nwaiters;
};

static inline struct amph_server_agent_file *amph_server_agent_file_find(
    struct amph_server_agent_file *k, uint64_t handle)
{
    while (k && k->handle != handle)
        k = k->next;

    return k;
}

/*
 * Where an agent's numbers begin or end it asks the kernel itself.  ThreadSanitizer follows recvmsg
 * and close in one table for the whole process, and takes the same number in two agents' tables for
 * one object that both change.
 */
static inline void amph_server_agent_close(int fd)
{
    syscall(SYS_close, fd);
}

/* ---- lock/agent.c ---- */

/* Starts lk's agent, whose socket and number of the client are set.  0 or an errno value. */
int amph_server_agent_start(struct amph_server_lock_agent *lk);
/* The client has ended: the agent does so, and frees lk. */
void amph_server_agent_stop(struct amph_server_lock_agent *lk);
/* dismissed ones that hold nothing any more: how many so far */
uint32_t amph_server_agents_exited(void);

/* ---- lock/held.c ---- */

void amph_server_held_add_agent(
    struct amph_server_lock_agent *lk); /* its agent begins to hold locks */
void amph_server_held_remove_agent(struct amph_server_lock_agent *lk);
/* the agent has set or freed a lock */
void amph_server_held_record(struct amph_server_lock_agent *lk, int fd, const struct flock *l);
/* the agent has one more file */
void amph_server_held_add_file(struct amph_server_lock_agent *lk, struct amph_server_agent_file *k);
/* The agent closes what it has of this file; everything. */
void amph_server_held_close_file(struct amph_server_lock_agent *lk, dev_t dev, ino_t ino);
void amph_server_held_close_all(struct amph_server_lock_agent *lk);

#endif

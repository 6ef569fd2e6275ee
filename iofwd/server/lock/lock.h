/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types and functions that lock/lock.c (the progress thread's side), lock/agent.c (the agents) and
 * lock/held.c (owners of locks) share.
 *
 * Layer: iofwd.
 * Thread rule: see lock/lock.c.
 */
#ifndef AMPH_IOFWD_SERVER_LOCK_H
#define AMPH_IOFWD_SERVER_LOCK_H

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/wire/ranges.h"
#include "iofwd/server/internal.h"

/* A file in the agent's table.  Agent and progress thread keep equal lists, because both change
 * them in the order of the messages. */
struct amph_server_agent_file {
    struct amph_server_agent_file *next;
    uint64_t handle;
    dev_t dev;
    ino_t ino;
    int fd; /* agent's */
    /* agent's: its locks on the file, in the first entry of that file; guarded by lock/held.c's
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
    /* AMPH_SERVER_LOCK_CALL; AMPH_SERVER_LOCK_CLOSE_INODE if a request waits for it */
    struct amph_server_request *rq;
    uint64_t seq; /* AMPH_SERVER_LOCK_CANCEL; AMPH_SERVER_EVERY_SEQ: all waiting requests */
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
    struct amph_server_lock_agent *next;   /* lock/held.c's, and its lock */
    struct amph_server_lock_agent *beside; /* progress thread's: the client's next agent */
    uint32_t table;                        /* the number of the client's descriptor table */
    uint32_t pid;                          /* the client's, on its own host */
    bool elsewhere;  /* which is another one: here no process has this number */
    int server_sock; /* the server's end of the socket to the agent */
    /* orders memory: data written before a message is visible after it, which the socket alone does
     * not guarantee in C */
    _Atomic uint32_t handed;
    struct amph_server_agent_file *known; /* progress thread's list of the agent's files */
    uint32_t closes_sent; /* progress thread's until `dropped`: orders to close that nobody awaits */
    _Atomic uint32_t closes_done; /* those that the agent has carried out */
    /* agent's end; until it has left, and afterwards in the server's table as well */
    int sock;
    sem_t left;           /* posted when the agent has left the server's table, or has failed to */
    bool apart;           /* it has left; set before `left` is posted */
    _Atomic bool dropped; /* its client has gone, but it may still hold locks */
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
 * Closes a descriptor of an agent by a direct system call.  ThreadSanitizer tracks recvmsg and
 * close in one table for the whole process, and would take equal numbers in two agents' tables for
 * one object.
 */
static inline void amph_server_agent_close(int fd)
{
    syscall(SYS_close, fd);
}

/* ---- lock/agent.c ---- */

/* Starts lk's agent; its socket and the client's process must be set.  0 or an errno value. */
int amph_server_agent_start(struct amph_server_lock_agent *lk);
/* The client has ended: the agent ends too and frees lk. */
void amph_server_agent_stop(struct amph_server_lock_agent *lk);
/* Returns how many stopped agents have released all their locks so far. */
uint32_t amph_server_locks_released(void);

/* ---- lock/held.c ---- */

void amph_server_held_add_agent(
    struct amph_server_lock_agent *lk); /* its agent may now hold locks */
void amph_server_held_remove_agent(struct amph_server_lock_agent *lk);
/* the agent has set or released a lock */
void amph_server_held_record(struct amph_server_lock_agent *lk, int fd, const struct flock *l);
/* the agent has one more file */
void amph_server_held_add_file(struct amph_server_lock_agent *lk, struct amph_server_agent_file *k);
/* The agent closes its descriptors of this file; of all files. */
void amph_server_held_close_file(struct amph_server_lock_agent *lk, dev_t dev, ino_t ino);
void amph_server_held_close_all(struct amph_server_lock_agent *lk);

#endif

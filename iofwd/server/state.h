/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that all servers of a process share.  What belongs to one server is in struct amph_server.
 *
 * Layer: iofwd.
 * Thread rule: any thread; each group's comment gives its lock.
 */
#ifndef AMPH_IOFWD_SERVER_STATE_H
#define AMPH_IOFWD_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct amph_server_append_buffer;
struct amph_server_lock_agent;

/* Maximum number of unused append buffers that are kept. */
#define AMPH_SERVER_SPARE_BUFFERS_MAX 4

struct amph_server_state {
    /* lock/held.c: all agents and the records of their files; guarded by agents_lock. */
    pthread_mutex_t agents_lock;
    struct amph_server_lock_agent *agents;

    /* lock/agent.c: agents that have been stopped, and closes of files that nobody awaits, which may still hold
     * locks; and those that have released them. */
    _Atomic uint32_t locks_releasing;
    _Atomic uint32_t locks_released;

    /* fs/append.c: unused buffers, whose pages are already allocated; progress thread. */
    struct amph_server_append_buffer *spare[AMPH_SERVER_SPARE_BUFFERS_MAX];

    /* fs/map.c: the running kernel's number, or 0 before its first use. */
    uint64_t kernel_id;

    /* fs/beneath.c: the kernel has no openat2. */
    atomic_bool open_by_parts;
};

extern struct amph_server_state amph_server_state;

/* The state of a thread that executes requests (fs/path.c). */
struct amph_server_thread {
    bool own_umask; /* the thread does not share its umask with others */
    mode_t umask;
};

extern _Thread_local struct amph_server_thread amph_server_thread;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of fd/; each group belongs to the file that its comment names.
 *
 * Layer: iofwd (interposer).  Thread rule: as said at each group.
 *
 * Kept apart because every caught call reads them: the process's first descriptor table and each
 * thread's pointer to the table that it uses (fdtab.h).
 */
#ifndef AMPH_IOFWD_INTERPOSE_FD_STATE_H
#define AMPH_IOFWD_INTERPOSE_FD_STATE_H

#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/platform.h"
#include "iofwd/client/client.h"

struct amph_fd_file;
struct amph_fdtab;
struct amph_fdtab_pool;
struct amph_ip_aio_request;
struct amph_ip_table_child;

#define AMPH_IP_EPOLL_SETS 64
#define AMPH_IP_EPOLL_NAMES 256
#define AMPH_IP_EPOLL_NOTIFIERS 8 /* servers of one set */
#define AMPH_IP_LIBAIO_KEPT 16
#define AMPH_IP_TABLE_SLOTS 64
#define AMPH_IP_PASSED_KEPT 256
#define AMPH_IP_SCRATCH_SLOTS 4
#define AMPH_IP_SCRATCH_BYTES ((size_t)1 << 20)

/* epoll.c: a set of the program with forwarded files in it. */
struct amph_ip_epoll_set {
    unsigned names; /* 0: free */
    unsigned turn;  /* alternates between local and forwarded events; see is_locals_turn */
    unsigned nnotifiers;
    struct amph_fwd_notifier notifier[AMPH_IP_EPOLL_NOTIFIERS];
};

struct amph_ip_epoll_name {
    struct amph_ip_epoll_set *set; /* NULL: free */
    const struct amph_fdtab *table;
    int fd;
};

/* epoll.c: a watched file, kept so that report_ended_server can report it. */
struct amph_ip_epoll_watch {
    struct amph_ip_epoll_set *set; /* NULL: free */
    int fd;
    uint32_t server;
    uint64_t data;
};

/* own_table.c: a task whose thread-local storage other tasks use as well. */
struct amph_ip_table_slot {
    int tid; /* or SLOT_*; set last */
    const void *storage;
    struct amph_fdtab *table;
};

struct amph_ip_fds_state {
    /* fdtab.c: memory of open files, never freed; any thread and signal handler, atomically. */
    struct amph_fdtab_pool *pools;
    /* fdtab.c: closes a file at its server and returns 0 or an errno value.  Written once, before
     * the first file is opened. */
    int (*close_file)(const struct amph_fwd_file *file);
    unsigned closes_held; /* fdtab.c: tables that are being copied; atomically */

    /* fd.c: of each server the memfd from which the placeholders of its files are opened: server in
     * the high half, descriptor + 1 in the low; 0: none.  Each word is written once, atomically. */
    uint64_t stamps[AMPH_FWD_PARTS_MAX];

    /* passed.c: the open files that this process has sent last in messages, with a reference each; atomically */
    struct amph_fd_file *passed[AMPH_IP_PASSED_KEPT];
    unsigned passed_next;

    /* path/root.c: descriptor of /proc + 1; 0: none; atomically */
    int proc_plus_one;

    void *copy_buffer; /* copy.c: a spare buffer, or NULL; taken and returned atomically */
    /* io.c: memory of AMPH_IP_SCRATCH_BYTES that no call uses at present, or NULL; the same */
    void *scratch[AMPH_IP_SCRATCH_SLOTS];

    /* aio.c: requests and worker threads; under the lock. */
    struct {
        pthread_mutex_t lock;
        pthread_cond_t ended;              /* a request has ended */
        pthread_cond_t wanted;             /* a request was queued */
        struct amph_ip_aio_request *queue; /* oldest first */
        unsigned threads;                  /* each serves one descriptor table */
    } aio;

    /* libaio.c: atomically. */
    struct {
        int null_plus_one; /* descriptor of /dev/null + 1; 0: none yet */
        int changed;       /* requests of the program that describe the write to it */

        /* the rest under `keeping`: the last appends for whose event the kernel had no room */
        bool keeping;
        unsigned next;
        struct {
            const struct iocb *at; /* the program's; NULL: unused */
            struct iocb request;
            ssize_t n;
        } kept[AMPH_IP_LIBAIO_KEPT];
    } libaio;

    /* epoll.c: the program's sets with forwarded files; under the lock. */
    struct {
        pthread_mutex_t lock;
        struct amph_ip_epoll_set sets[AMPH_IP_EPOLL_SETS];
        struct amph_ip_epoll_name names[AMPH_IP_EPOLL_NAMES];
        struct amph_ip_epoll_watch *watches;
        size_t nwatches;
    } epoll;

    /* own_table.c: descriptor tables besides the first; under the lock, with signals blocked, but
     * that `tables`, `leader`, `had`, `children` and a slot's tid are also read atomically. */
    struct {
        pthread_mutex_t lock;
        struct amph_fdtab *tables; /* in use, but for the first */
        struct amph_fdtab *spare;
        struct amph_fdtab *leader; /* of the process's first thread; NULL: the first table */
        struct amph_fdtab *asking; /* amph_fdtab_mine of tasks that share thread-local storage */
        struct amph_ip_table_child *starting; /* children that have not compared their table yet */
        uint32_t numbers;                     /* numbers assigned so far */
        bool had;                             /* there has been more than the first table */
        unsigned children; /* that use a table of this process: clone(CLONE_VM | CLONE_FILES) */
        bool has_key;
        pthread_key_t
            key; /* its destructor runs when a thread ends that uses one of these tables */
        struct amph_ip_table_slot slots[AMPH_IP_TABLE_SLOTS];
    } own;
};

extern struct amph_ip_fds_state amph_ip_fds AMPH_HIDDEN;

#endif

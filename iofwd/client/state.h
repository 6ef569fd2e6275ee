/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the client; each group belongs to the file that its comment names.
 *
 * Layer: iofwd.  Thread rule: as said at each group.
 *
 * coalesce/, recovery/ and the recorder have structs of their own (coalesce/blocks.h,
 * recovery/record.c, trace_record.h).  The table of held attributes stays in attributes.c: it is large,
 * and mapped page by page as it is used.
 */
#ifndef AMPH_IOFWD_CLIENT_STATE_H
#define AMPH_IOFWD_CLIENT_STATE_H

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "iofwd/client/client.h"
#include "iofwd/wire/below.h"
#include "iofwd/wire/show.h"

struct amph_client_nb;
struct amph_client_stripe_rule;
struct amph_fwd_passthrough_file;
struct iofwd_file;
struct locked_file;
struct passed_file;

#define AMPH_CLIENT_LAYERS_MAX 8
#define AMPH_CLIENT_NOTIFIERS_MAX 256

/* A descriptor of a file with record locks, for the new image (data/record_locks_exec.c). */
#define AMPH_CLIENT_KEPT_MAX 8u
#define AMPH_CLIENT_KEPT_FORMAT "+%" PRIu32 ".%" PRIx64 "=%d"
#define AMPH_CLIENT_KEPT_SCAN "+%" SCNu32 ".%" SCNx64 "=%d%n"
#define AMPH_CLIENT_KEPT_REMOTE "+" /* a server may hold locks for the process */

struct amph_client_kept {
    struct amph_fwd_ref ref;
    int fd;
};

/* Connections that a forked child or a new image inherits. */
struct amph_client_inherited {
    bool any;
    uint32_t number;
    uint32_t n;
    uint32_t server[AMPH_FWD_PARTS_MAX];
    _Atomic int control_fd[AMPH_FWD_PARTS_MAX];
    uint32_t nkept;    /* new image */
    bool locks_remote; /* new image */
    struct amph_client_kept kept[AMPH_CLIENT_KEPT_MAX];
    char alone[256]; /* new image: open files that only this process has (coalesce/coalesce.h) */
};

/* Signals and cancellation are blocked while a thread has one. */
struct amph_client_sigguard {
    sigset_t old;
    int cancel;
    int inside;     /* what the function of amph_fwd_set_inside has returned */
    bool ends_wait; /* a signal handler that does not ask for SA_RESTART ends the call with EINTR */
};

/* readiness.c: a connection on which a server reports that files are ready. */
struct amph_client_notifier {
    _Atomic int state;
    bool inherited; /* belongs to an epoll set of the program, which forked children share */
    uint32_t table; /* the number of the descriptor table in which it was opened */
    struct amph_fwd_notifier notifier;
};

struct amph_client_state {
    /* attach.c: any thread reads `client`; everything else is under the lock, with signals
     * blocked. */
    struct amph_fwd_client *_Atomic client;
    pthread_mutex_t lock;
    int failed;        /* errno of a client that could not be opened */
    uid_t failed_euid; /* effective user at that time */
    bool looked;       /* IOFWD_PRIVATE_CLIENT was read */
    bool new_image;    /* inherited comes from the previous image */
    struct amph_client_inherited inherited;

    /* layer.c: written under the lock, before the first call. */
    struct {
        const struct amph_layer *first;
        struct amph_layer added[AMPH_CLIENT_LAYERS_MAX];
        unsigned nadded;
    } layers;

    /* call.c: functions of the interposer, or NULL; set before the first call. */
    struct {
        int (*swap_inside)(int depth);
        bool (*is_cancelled)(void);
    } hooks;

    struct amph_fwd_host_calls host; /* call.c: set before the first call */

    uint64_t reason_ns; /* call.c: when a server's reason was printed last; 0: never; atomic */

    /* lifecycle.c: of the thread that is inside fork; under the lock. */
    struct {
        struct amph_client_sigguard guard;
        uint32_t number; /* of the child */
        bool has_boot;   /* the client's boot_lock is held */
        int number_pipe
            [2]; /* by which a program that is started learns its process's number, or -1 */
    } fork;

    /* private_server.c: the server that the process has started; under the lock. */
    struct amph_client_private_server {
        char *host, *path, *prefixes;
        int fd;        /* its standard input, or -1 */
        char *setting; /* IOFWD_PRIVATE_SERVERS=... for child processes */
    } private_server;

    /* stripe.c: rules are added under the lock and never change. */
    struct {
        struct amph_client_stripe_rule *_Atomic first; /* the newest, which is checked first */
        _Atomic bool ready;                            /* IOFWD_STRIPE was parsed */
    } stripe;

    /* trace.c: written under the lock, before the first call. */
    struct {
        bool opened, records;
        struct amph_fwd_trace_target target;
        int fd;
        _Atomic bool failed; /* a line could not be written, and that was reported */
    } trace;

    /* versions.c: age_ns is written before the first call, the others under the lock, `looked`
     * last. */
    struct {
        uint64_t age_ns;
        _Atomic bool looked;
        const struct amph_fwd_versions *map;
    } versions;

    /* api/file.c: the files of iofwd.h that hold an open file at a server; under its lock. */
    struct {
        pthread_mutex_t lock;
        struct iofwd_file *first;
    } files;

    /* nonblocking.c: operations that wait for a thread, and the threads; under its lock. */
    struct amph_client_nonblocking {
        pthread_mutex_t lock;
        pthread_cond_t work, done;
        struct amph_client_nb *first, **last;
        unsigned threads, idle;
        pid_t pid;
    } nonblocking;

    /* readiness.c: an entry belongs to the thread that changed its state to NOTIFIER_TAKEN. */
    struct amph_client_notifier notifier[AMPH_CLIENT_NOTIFIERS_MAX];
};

/* Offset moves that servers reported to this thread: number of replies, and the last reported
 * number of moves. */
struct amph_client_moves {
    uint32_t calls, moves;
};

struct amph_client_recorded_process;

/* A call on a passed descriptor: what it has to undo when it ends (data/passthrough.c). */
struct amph_client_passed_call {
    const void *frame; /* where it is on the stack; NULL: no call */
    struct passed_file *e;
    struct amph_fwd_version *data, *attributes; /* that it moves; or NULL */
    _Atomic uint32_t *claims;                   /* where it is counted meanwhile (wire/writers.h) */
    uint32_t forks;                             /* of the process that makes it */
    int cancel;
};

/* A wait for a record lock in this process's kernel: what its end has to undo (data/record_locks.c). */
struct amph_client_lock_wait {
    const void *frame; /* where it is on the stack; NULL: no wait */
    struct locked_file *file;
    int cancel;
};

/* State of a thread. */
struct amph_client_thread {
    struct amph_client_moves offset_moves; /* call.c, bulk.c, recovery/ */
    struct amph_fwd_caller caller;         /* trace_record.c: see amph_fwd_set_caller */
    struct {
        struct amph_client_recorded_process *process; /* with a reference; NULL: none */
        uint64_t slot;
    } opened; /* trace_record.c: the record of an open, which does not have its descriptor yet */
    uint64_t last_seq;                          /* call.c: number of the last request */
    uint64_t traced_calls;                      /* trace.c: printed or recorded */
    struct amph_fwd_trace_sum *trace_sum;       /* trace.c: of the call that it traces, or NULL */
    struct amph_client_passed_call passed_call; /* data/passthrough.c: the innermost one */
    unsigned passed_moves;                      /* data/passthrough.c: it is moving versions */
    struct amph_client_lock_wait lock_wait;     /* data/record_locks.c: the innermost one */
    struct {
        unsigned depth;   /* depth of nested guarded sections */
        sigset_t program; /* the signals that the program itself blocks */
    } guarded;            /* call.c */
};

extern struct amph_client_state amph_client_state AMPH_HIDDEN;
extern _Thread_local struct amph_client_thread amph_client_thread AMPH_HIDDEN;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types and functions that the server's files share.
 *
 * Layer: iofwd.
 * Thread rule: fields are grouped by their owner, and the group's name says who may use them:
 *
 *   (no group)  set before other threads can see the object, constant afterwards
 *   progress    the progress thread: clients, handles, queues, requests between two steps
 *   listener    the listener thread: control connections until their end, the job's boot events
 *   shared      any thread that holds server->shared.lock
 *   exec        the thread that executes the request; one thread at a time for each request
 *
 * A request changes hands only through the lists in `shared`, whose lock orders the accesses.
 * Builds with --enable-debug check the owners of `progress` and `listener`
 * (amph_server_assert_owner); ThreadSanitizer builds check the rest.
 *
 * File map (the room may include base, boot, conduits, am, iofwd/wire, iofwd/calls):
 *
 *   main.c         iofwd-server's main and its options
 *   daemon.c, pid_file.c, .h  standing servers: starts, restarts and stops them; their -pid-file
 *   server.c       open, main loop and close of one server
 *   listener.c     listening sockets, control connections, job events (listener thread)
 *   clients.c      clients and open files: create, inherit, hold, release
 *   exec.c, .h     what a client keeps that executes a program
 *   flow.c         the way of a request from its arrival to its reply
 *   counts.c       what requests count when they end
 *   schedule.c     order of requests on a file; progress thread or worker
 *   request.c      parses a request, executes it, builds the reply
 *   services.c     requests that are not file calls (statistics, cancel, segments, ...)
 *   transfer.c     fetches and stores data of clients on other hosts
 *   workers.c, readers.c  the pool of worker threads; extra threads that copy large cached reads
 *   passthrough.c, .h  passes descriptors of files and directories to clients of this host
 *   near.c, .h      describes the exports to processes that can read them by themselves
 *   trust.c, .h    which processes could open the server's files by themselves
 *   pipes.c        pipes through which data of large writes arrives
 *   receive_areas.c  memory into which clients on other hosts put such data
 *   references.c   reference counts of open files, and their checks
 *   state.c, .h    what all servers of a process share
 *   limits.c       shares of the server's descriptors
 *   versions.c     moves the versions of files that its calls change
 *   report.c       log lines about requests
 *   watch.c        answers iofwd-ctl's queries
 *   collective.c   collective (two-phase) reads and writes
 *   flow.h         what flow.c, counts.c, schedule.c, transfer.c and services.c share
 *   server.h       the room's interface
 *
 *   fs/exports.c, .h, fs/resolve.c   exported directories; resolves paths below them
 *   fs/beneath.c         confined lookups by openat2, or by component on old kernels
 *   fs/path.c            calls by path
 *   fs/file.c            calls on open files
 *   fs/append.c          appending writes
 *   fs/direct.c          O_DIRECT for aligned data (IOFWD_DIRECT)
 *   fs/fifo.c            FIFOs
 *   fs/map.c             shared maps of files
 *
 *   lock/lock.c, .h      record locks: the progress thread's side
 *   lock/agent.c         lock agents: threads that take record locks for one client
 *   lock/held.c          owners of locks
 *   notify/readiness.c   epoll sets and notification connections
 */
#ifndef AMPH_IOFWD_SERVER_INT_H
#define AMPH_IOFWD_SERVER_INT_H

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "am/am.h"
#include "base/log.h"
#include "base/platform.h"
#include "boot/boot.h"
#include "iofwd/server/fs/exports.h"
#include "iofwd/server/exec.h"
#include "iofwd/server/passthrough.h"
#include "iofwd/server/server.h"
#include "iofwd/server/trust.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/marshal.h"
#include "iofwd/wire/versions.h"
#include "iofwd/wire/watch.h"

/* Maximum number of unanswered requests of one client. */
#define AMPH_SERVER_QUEUED_MAX 512

/* A call that is expected to take longer than this goes to a worker. */
#define AMPH_SERVER_SLOW_NS (300 * 1000)

/* From this size on, the time of a call is taken as proportional to its data. */
#define AMPH_SERVER_LARGE 16384u

#define AMPH_SERVER_WORKERS_MAX 256

/* Stack of a thread that executes calls. */
#define AMPH_SERVER_STACK_BYTES (256 << 10)

/* Buffer for results that are not file data: directory entries, strings, attributes. */
#define AMPH_SERVER_SCRATCH_BYTES 32768

/* Maximum file data inside a reply. */
#define AMPH_SERVER_INLINE_MAX 32768

/* Buffer of one request: its reply, then its scratch buffer. */
#define AMPH_SERVER_OUT_BYTES (FWD_MSG_MAX + AMPH_SERVER_SCRATCH_BYTES)

struct amph_server_append_buffer; /* fs/append.c */
struct amph_server_collective;
struct amph_server_lock_agent; /* lock/lock.h */
struct amph_server_notifier;   /* notify/readiness.c */
struct amph_server_readers;    /* readers.c */
struct amph_server_request;

typedef int (*amph_server_run_fn)(struct amph_server_request *rq);
extern const amph_server_run_fn amph_server_call_table[AMPH_FWD_NCALLS];

/* ---- thread ownership ---- */

/* The thread that owns a group of fields; unset while only one thread can see the object. */
struct amph_server_owner {
    pthread_t thread;
    bool set;
};

/* Logs and aborts. */
AMPH_NORETURN void amph_server_wrong_thread(const char *function);

static inline void amph_server_own(struct amph_server_owner *owner)
{
    owner->thread = pthread_self();
    owner->set = true;
}

static inline void amph_server_check_owner(const struct amph_server_owner *owner,
                                           const char *function)
{
    if (AMPH_SELF_CHECKS && owner->set && !pthread_equal(owner->thread, pthread_self()))
        amph_server_wrong_thread(function);
}

/* Ends the process if the calling thread does not own the group; in debug builds only. */
#define amph_server_assert_owner(owner) amph_server_check_owner((owner), __func__)

/* ---- objects ---- */

/* An open file. */
struct amph_server_handle {
    uint64_t number;
    uint32_t slot;
    int fd;
    bool regular; /* a regular file or directory: calls do not block */
    bool fifo;    /* fs/fifo.c: the descriptor itself never blocks */
    const struct amph_server_export *export;
    uint32_t opener; /* number of the client that opened it */
    uint32_t line;   /* of its versions; FWD_VERSIONS_LINE_NONE: it is no regular file */

    struct {
        uint32_t nholders;
        uint32_t npassed;  /* clients that have its descriptor (passthrough.c) */
        uint32_t inflight; /* references of requests, and pins: references.c */
        bool busy;         /* a worker executes a request on it */
        bool reserved;     /* by a call in pieces, from its first piece to its last */
        bool aborted;      /* that call ended early: its remaining pieces do nothing */
        bool truncated;    /* that call ends with the piece in flight: the next was refused */
        bool holder_died;  /* a client died with it open, so a collective call may be incomplete */
        struct amph_server_peer *holder; /* client and operation that reserved it */
        uint32_t holder_op;
        uint64_t piece_end_ns; /* when the last piece of a call in pieces had been executed */
        struct amph_server_request *queue_head, **queue_tail;
        struct amph_server_collective *collectives; /* waiting for more participants */
        uint64_t op_ns, kib_ns; /* moving averages: a small call; each KiB of a large call */
        uint64_t calls, bytes_in, bytes_out;
    } progress;

    struct {
        bool nonblock, append; /* the client set O_NONBLOCK, O_APPEND */
        bool direct;           /* fs/direct.c: aligned data bypasses the page cache */
        bool direct_on;        /* the descriptor has O_DIRECT now */
        bool direct_asked;     /* the client set O_DIRECT */
        bool splice_refused;   /* pipes.c: its file system takes no data from pipes */
        uint32_t offset_moves; /* calls that have moved the offset */
        struct amph_server_append_buffer *append_buffer; /* fs/append.c */
        int64_t map_space; /* fs/map.c: memory of the client's shared maps of it; 0: none */
        int map_kinds; /* fs/map.c: 1 + a descriptor that says that clients map its pages; 0: none */
    } exec;
};

/* A pipe of a client: the end that the server reads, and how many bytes it holds at most. */
struct amph_server_pipe {
    int fd;
    uint32_t size_bytes;
};

/*
 * A client.  The progress thread owns it.  Other threads compare its address, and the thread that executes a request
 * of the client reads `area` and `segment`, which do not change while a request of the client is queued.
 */
struct amph_server_peer {
    uint32_t index; /* in the endpoint and in server->progress.peer */
    uint32_t number, rank;
    uint32_t family; /* number of the first client in its line of forks */
    uint32_t pid;    /* on its own host, as it says */
    pid_t sender;    /* the process, as the kernel says; 0: not known */
    bool attached;   /* has an endpoint */
    bool gone;       /* disconnected; freed when its last request has ended */
    uint32_t queued; /* requests not yet answered */
    size_t memory;   /* taken by these requests */
    uint32_t nheld;  /* open files that it holds */
    uint32_t nrefs;  /* references that its requests hold */
    uint32_t nnotifiers;
    uint64_t cookie_in;
    struct amph_rmem area; /* its transfer area */
    bool has_area;
    uint64_t part_at, part_len; /* its part of the area */
    struct amph_rmem segment;   /* of the program, for buffers inside it */
    bool has_segment;
    struct amph_server_pipe pipe[FWD_PIPES_MAX];
    uint32_t npipes;
    struct amph_am_mem receive_area;            /* base NULL: it has none */
    struct amph_server_passthrough passthrough; /* files whose descriptors it has */
    uint64_t mapped_bytes; /* of its area and segment, in this process's addresses */
    struct amph_server_conn *conn;
    uint64_t *holds; /* bit set over handle slots */
    size_t nwords;
    /* one for each of its descriptor tables that has taken record locks */
    struct amph_server_lock_agent *lock_agents;
    uint64_t calls, errors, bytes_in, bytes_out;
    struct amph_fwd_latency latency; /* of its requests */
    /* when the last request with this seq % FWD_PENDING_MAX was answered: the next one came later */
    uint64_t answered_ns[FWD_PENDING_MAX];

    struct {
        unsigned nrunning; /* workers that execute its requests */
    } shared;
};

/* Counters of clients that have left, for the statistics at exit. */
#define AMPH_SERVER_DEPARTED_MAX 4096
struct amph_server_departed {
    uint32_t number;
    uint64_t calls, errors, bytes_in, bytes_out;
};

/* A control connection. */
struct amph_server_conn {
    int fd;
    struct amph_server *server;

    struct {
        uint8_t nonce[FWD_NONCE_BYTES]; /* of the last GREET */
        uint8_t buf[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
        size_t have;
        uint64_t begin_ns;    /* of the wait for the HELLO */
        bool greeted;         /* has sent a valid HELLO */
        bool unauthenticated; /* until then: may belong to another user */
        bool stays;           /* represents a compute process (FWD_HELLO_STAY) */
        bool watches;         /* carries queries (FWD_HELLO_WATCH) */
        bool wants_final;     /* has sent FWD_WATCH_FINAL */
        bool same_user;       /* its other end is this user or root on this host */
        pid_t sender;         /* of this host, that sent what was received last; 0: not known */
        struct amph_server_conn *prev, *next;
    } listener;

    struct {
        struct amph_server_peer *peer;
        struct amph_server_notifier *notifier; /* if it is a notification connection */
        struct amph_server_exec exec;
    } progress;
};

/* What the listener thread reports to the progress thread. */
struct amph_server_event {
    struct amph_server_event *next;
    enum {
        AMPH_SERVER_EVENT_HELLO,
        AMPH_SERVER_EVENT_GONE,
        AMPH_SERVER_EVENT_DRAIN,
        AMPH_SERVER_EVENT_STOP,
        AMPH_SERVER_EVENT_NOTIFY,
        AMPH_SERVER_EVENT_QUERY, /* body: the QUERY frame's */
        AMPH_SERVER_EVENT_KEEP   /* body: the KEEP frame's */
    } kind;
    struct amph_server_conn *conn;
    struct amph_server_conn *successor; /* KEEP: its connection, or NULL */
    pid_t sender;                       /* of the HELLO, as the kernel says; 0: not known */
    uint8_t nonce[FWD_NONCE_BYTES];
    struct amph_fwd_hello hello; /* points into body */
    size_t len;
    uint8_t body[];
};

enum amph_server_request_state {
    AMPH_SERVER_RQ_READY,
    AMPH_SERVER_RQ_FETCHING,
    AMPH_SERVER_RQ_RUNNING,
    AMPH_SERVER_RQ_STORING
};

/*
 * A request.  The fields outside the groups are set before the call is executed.  `next` links it
 * into one list at a time and belongs to the list's owner.
 */
struct amph_server_request {
    struct amph_server *server;
    struct amph_server_peer *peer;
    enum amph_fwd_id id;
    uint16_t service;
    const struct amph_fwd_call_desc *desc;
    uint64_t seq;
    struct amph_server_handle *file;     /* of a call on an open file */
    struct amph_server_handle *handle;   /* the file whose order it keeps, or NULL */
    struct amph_server_handle *named[3]; /* all handles in its arguments */
    unsigned nnamed;
    bool stale_handle; /* it names a file of an earlier incarnation of the server */
    struct amph_fwd_bulk bulk;
    size_t msg_len;
    uint8_t *msg;   /* own copy of the message, or the conduit's buffer */
    uint8_t *stage; /* buffer for data of an area that is not mapped, or that is streamed into it */
    uint8_t *out;   /* the reply; out-buffers point into it */
    int pipe_fd;    /* FWD_PIPE: the client's pipe with the data */
    int client_fd;  /* of a call on a FIFO: duplicate of its client's control connection, or -1 */
    struct amph_server_collective *collective; /* once it has joined one */
    struct amph_server_request *next;

    /* The client no longer wants the call, or has gone: a blocking call ends with EINTR. */
    _Atomic bool cancelled;

    union amph_server_args u; /* arguments and results of the call */

    struct {
        int error;
        const char *reason; /* text for the error, or NULL */
        bool report_whole;  /* the reply carries `whole`: bytes done of all pieces of the call */
        uint64_t whole;
        bool report_moves; /* the reply carries `offset_moves` of the handle after this call */
        uint32_t offset_moves;
        void *pipe_data;     /* FWD_PIPE: the data, if it had to be copied out of the pipe */
        size_t piped_bytes;  /* FWD_PIPE: moved from the pipe to the file */
        size_t copied_bytes; /* from copied_from to the file */
        struct amph_server_handle *copied_from;
        bool may_block;     /* the call was found to block: it must run in a worker */
        bool retry;         /* the lock is taken: try again later */
        bool released_lock; /* a waiting lock request may succeed now */
        int newfd;          /* of an open, until the progress thread makes a handle of it; or -1 */
        mode_t newfd_type;  /* S_IFREG and the like */
        uint32_t line;      /* of the versions of the file that an open or truncate has found */
        const struct amph_server_export *export; /* of a call by path */
        uint64_t began_ns; /* when the call began; 0: it did not, or a lock agent has executed it */
        uint64_t ns;       /* its duration, without the wait for a record lock */
        uint64_t carrier_ns; /* of a collective call that another part has executed: its duration */
        uint64_t queue_ns;   /* that the request may have waited at the server */
    } exec;

    struct {
        bool opening;  /* counted in server->progress.opening */
        bool has_refs; /* holds a reference on each of `named`: references.c */
        enum amph_server_request_state state;
        uint32_t locks_released; /* state.h's, when the lock was tried */
        struct amph_op transfer;
        bool transfer_begun, transfer_ended;
        enum amph_status transfer_st;
        struct amph_server_request *next_transfer;
        size_t room;         /* memory that counts as its client's */
        uint64_t arrived_ns; /* of a queued request */
        uint64_t since_ns;   /* since when it may have waited, without the way of its data */
        size_t out_len;      /* of the finished reply */
        bool storing;        /* the put of its data, sent before the reply, still needs `stage` */
        bool replied;        /* the reply has been sent */
    } progress;

    struct {
        bool in_worker;
        pthread_t thread; /* the worker, while the request is in server->shared.running */
        struct amph_server_request *next_running;
    } shared;
};

struct amph_server {
    struct amph_boot *boot; /* amph_boot_progress: listener thread only */
    const struct amph_jobdesc *job;
    struct amph_am_ep *ep; /* all but amph_am_kick: progress thread only */
    uint32_t self;
    uint8_t incarnation; /* how many servers have run in this slot before, modulo 256 */
    struct amph_server_exports exports;
    struct amph_fwd_server_addr address; /* of the listening sockets */
    struct amph_fwd_versions *versions;  /* NULL: none on this host */
    int versions_fd;
    struct amph_fwd_journal *journal; /* this server's in *versions, or NULL */
    _Atomic uint32_t journal_used; /* its entries that threads use; bit 0: the progress thread's */
    int notify_fd;                 /* epoll set of the notifiers to be triggered */
    uint64_t opened_ns;

    /* Of the listener thread, which answers recorded clients. */
    struct {
        uint64_t number;  /* amph_host_clock; 0: nobody has asked yet */
        uint64_t base_ns; /* from CLOCK_MONOTONIC to the real time */
    } clock;

    /* Read by the listener thread for watchers.  The progress thread writes them. */
    struct amph_fwd_latency latency; /* of all requests; relaxed atomics, as the counters are */
    sem_t collected; /* posted when the progress thread has collected what clients have counted */
    atomic_bool refuses_joins; /* drained by iofwd-ctl: takes no further clients */
    struct amph_server_overseer overseer;

    /* Limits. */
    uint32_t max_peers;
    uint32_t client_files;  /* maximum number of files of one client */
    uint64_t client_memory; /* maximum memory of one client's requests */
    uint64_t memory_limit;  /* maximum memory of all requests */
    uint64_t mapped_limit;  /* maximum of all clients' mapped memory; of one client, half of it */
    size_t stage_bytes;     /* size of a staging buffer */
    bool passes;            /* passes descriptors to clients (IOFWD_PASSTHROUGH) */
    struct amph_server_rights rights; /* of this process, where it passes descriptors */

    /* Limits of descriptors in use (limits.c); 0: no limit. */
    uint32_t fds_usable;  /* above it a client gets only its share */
    uint32_t fds_files;   /* above it no file is opened */
    uint32_t fds_last;    /* above it connections are refused */
    uint32_t fds_reserve; /* RLIMIT_NOFILE minus fds_usable */

    struct {
        struct amph_server_owner owner;

        /* Clients. */
        struct amph_server_peer **peer; /* by index */
        uint32_t npeers, next_number;
        uint32_t nleaving; /* clients that have gone but still have requests in flight */
        uint64_t leaving_woken_ns;
        struct amph_server_departed *departed; /* [ndeparted] in the order of leaving */
        uint32_t ndeparted;

        /* Open files. */
        struct amph_server_handle **handle; /* by slot */
        uint32_t nslots, nhandles;
        uint32_t npins;       /* pins of the progress thread itself */
        uint32_t opening;     /* opens queued or in workers: each will take a descriptor */
        uint64_t entropy[32]; /* for handle numbers; the first nentropy are unused */
        unsigned nentropy;
        uint64_t fds_warned_ns;

        /* Requests. */
        uint64_t memory;       /* taken by the requests of all clients */
        uint64_t mapped_bytes; /* sum over the clients */
        uint64_t
            receive_addresses; /* bytes that receive areas have taken, also those of former clients */
        bool in_handler;       /* inside an active-message handler */
        /* since when requests have followed one another without a pause, and when the last one was
         * done; 0: there was a pause just now */
        uint64_t busy_since_ns, busy_until_ns;
        uint8_t *reply; /* buffer of requests executed in the handler */
        struct amph_server_request *transfers, **transfers_tail; /* pending or in flight */
        struct amph_server_request *unsent, **unsent_tail; /* replies the ring had no room for */
        struct amph_server_request *locks;                 /* waiting for a lock */
        bool locks_changed; /* a lock may have been released: retry now */
        uint64_t locks_tried_ns;
        struct amph_server_readers *readers;      /* NULL before the first large read */
        uint32_t npipes, pipes_max;               /* of all clients */
        const struct amph_server_peer *pipe_peer; /* whose data has come by a pipe last */
        uint64_t pipes_busy_ns; /* until when several clients count as writing by pipes; or 0 */
        void *stage_free;       /* list of unused staging buffers */
        size_t nstages_free;

        /* Readiness notifications. */
        struct amph_server_notifier *notifiers;
        uint64_t next_notifier;

        /* End of the server. */
        bool draining, stop;
        int exit_code;
        uint64_t drain_ns;
    } progress;

    struct {
        struct amph_server_owner owner;
        pthread_t thread;
        bool running;
        int epoll_fd, stop_fd, unix_fd, tcp_fd;
        int first_fd; /* job of plain processes: connection to the first server */
        struct amph_server_conn *conns;
        uint32_t arrived, present; /* plain compute processes: so far; now */
        uint64_t rejected;         /* connections that made no client */
        uint64_t paused_until_ns; /* out of descriptors: accepts no connection before; 0: accepts */
        uint64_t repair_ns;       /* when journals of killed servers are looked for */
    } listener;

    struct {
        pthread_mutex_t lock;
        pthread_cond_t work_cond;
        struct amph_server_request *work, **work_tail;   /* for workers */
        struct amph_server_request *done, **done_tail;   /* for the progress thread */
        struct amph_server_request *running;             /* with workers */
        unsigned nrunning;                               /* how many these are */
        struct amph_server_event *events, **events_tail; /* for the progress thread */
        bool posted; /* done or events is not empty; atomic, read without the lock */
        unsigned workers, idle;
        bool stopping;
        _Atomic unsigned kicking; /* threads that are about to wake the progress thread */
    } shared;
};

/* The server's number, 0 to S-1, in messages and in iofwd-ctl. */
static inline uint32_t amph_server_number(const struct amph_server *s)
{
    return s->self - amph_boot_first(s->boot, AMPH_SERVER);
}

/* Is all file data of the call in this request, rather than in several pieces? */
static inline bool amph_server_is_whole(const struct amph_server_request *rq)
{
    const uint32_t whole = FWD_PIECE_FIRST | FWD_PIECE_LAST;
    return (rq->bulk.flags & whole) == whole;
}

extern const char amph_server_readonly_text[]; /* reason of EROFS in a read-only export */

/* Returns the client's memory that a bulk request refers to, its transfer area or its segment, and
 * the offset in that memory. */
static inline const struct amph_rmem *amph_server_memory_of(const struct amph_server_request *rq,
                                                            uint64_t *at_p)
{
    bool segment = rq->bulk.where == FWD_SEGMENT;

    *at_p = rq->bulk.at + (segment ? 0 : rq->peer->part_at);
    return segment ? &rq->peer->segment : &rq->peer->area;
}

static inline bool amph_server_is_mapped(const struct amph_server_request *rq)
{
    uint64_t at;
    return amph_server_memory_of(rq, &at)->local != NULL;
}

/* ---- clients.c: clients and open files (progress thread) ---- */

void amph_server_peer_hello(struct amph_server *s, const struct amph_server_event *event);

/* Handles the end of a control connection: ends its client or notifier, and frees it. */
void amph_server_peer_gone(struct amph_server *s, struct amph_server_conn *conn);

/* Has a client, of this process number if it is not 0, closed its connection before the GONE event? */
bool amph_server_peer_disconnecting(const struct amph_server *s, uint32_t pid);

/* Ends the control connection of peer number index, so that the client learns that its calls are not
 * answered and the listener reports its end.  Returns false if there is no such client any more. */
bool amph_server_peer_disconnect(struct amph_server *s, uint32_t index);

/* Drops a client's files, locks and waiting requests.  The last request calls peer_end. */
void amph_server_peer_free(struct amph_server *s, struct amph_server_peer *peer);
void amph_server_peer_end(struct amph_server *s, struct amph_server_peer *peer);

/* Returns the open file of that number, or NULL. */
struct amph_server_handle *amph_server_handle_find(struct amph_server *s, uint64_t number);

/* Was the number issued by another incarnation of this server? */
bool amph_server_handle_is_stale(const struct amph_server *s, uint64_t number);

/* Creates a handle for fd, held by peer.  Takes over fd; on NULL (no memory) fd stays the
 * caller's.  type: S_IFREG and the like. */
struct amph_server_handle *amph_server_handle_make(struct amph_server *s,
                                                   struct amph_server_peer *peer, int fd,
                                                   mode_t type);

/* Adds a hold of peer.  0, EMFILE or ENOMEM. */
int amph_server_handle_hold(struct amph_server *s, struct amph_server_peer *peer,
                            struct amph_server_handle *h);

/* Removes a hold of peer, if it has one. */
void amph_server_handle_drop(struct amph_server *s, struct amph_server_peer *peer,
                             struct amph_server_handle *h);

/* Closes the file if it has no holds and no references. */
void amph_server_handle_release(struct amph_server *s, struct amph_server_handle *h);
bool amph_server_handle_held_by(const struct amph_server_peer *peer,
                                const struct amph_server_handle *h);

/* Imports the client's segment by the key that it sent.  0, EBUSY (the client has requests in
 * flight) or EOPNOTSUPP (not reachable). */
int amph_server_peer_segment(struct amph_server *s, struct amph_server_peer *peer, const void *key,
                             size_t key_len);
void amph_server_print_stats(struct amph_server *s);

/* ---- flow.c: requests (progress thread) ---- */

/* The active-message handler of requests. */
void amph_server_on_request(struct amph_token *token, const struct amph_am *am);

/* Handles finished work, transfers, lock retries and unsent replies.  Returns how many. */
unsigned amph_server_flow_progress(struct amph_server *s);
void amph_server_flow_drop_peer(struct amph_server *s, struct amph_server_peer *peer);

/* ---- request.c ---- */

/* Parses a request: header, arguments, location of the data.  0 or an errno value; *answer_p: the
 * header is valid, so rq->seq is set and the error can be reported.  Changes nothing but *rq. */
int amph_server_request_parse(struct amph_server *s, struct amph_server_peer *peer, uint8_t *msg,
                              size_t len, struct amph_server_request *rq, bool *answer_p);

/* Sets the buffers in the call's arguments to their memory. */
void amph_server_request_set_buffers(struct amph_server_request *rq);

/* Executes the call.  Any thread. */
void amph_server_request_run(struct amph_server_request *rq);

/* Returns how many bytes of file data the call has moved. */
size_t amph_server_request_moved(const struct amph_server_request *rq);

/* Builds the reply and returns its length. */
size_t amph_server_request_reply(struct amph_server_request *rq, uint8_t *out);

/* ---- versions.c ---- */

/* Opens the shared object of file versions, which every server of a host that has one must use. */
void amph_server_versions_open(struct amph_server *s);
void amph_server_versions_close(struct amph_server *s);

/* Ends the changes that killed servers had under way.  Listener thread. */
void amph_server_versions_repair(struct amph_server *s);

/* Around the execution of a call: move the versions of what it changes.  begin returns what end needs.  Any thread. */
unsigned amph_server_versions_begin(const struct amph_server_request *rq);
void amph_server_versions_end(const struct amph_server_request *rq, unsigned moves);

/* ---- references.c: references on open files (progress thread) ---- */

/* Takes a reference on each file that the request names; at most once. */
void amph_server_refs_take(struct amph_server_request *rq);

/* Returns these references, if it has them; may close the files. */
void amph_server_refs_give(struct amph_server_request *rq);
void amph_server_handle_pin(struct amph_server *s, struct amph_server_handle *h);
void amph_server_handle_unpin(struct amph_server *s, struct amph_server_handle *h);

/* In debug builds, end the process if the reference counts are inconsistent, or if a client that
 * ends still has references. */
void amph_server_refs_check(const struct amph_server *s);
void amph_server_refs_check_ended(const struct amph_server_peer *p);

/* ---- report.c ---- */

/* Log lines of the calling thread name the request, until the result is given to
 * amph_log_request_set. */
struct amph_log_request amph_server_report_begin(const struct amph_server_request *rq);

/* Logs a call that has failed or taken long: errors of the storage and slow calls at level info,
 * other errors at debug.  Progress thread. */
void amph_server_report_call(const struct amph_server_request *rq);

/* Writes the name of an open file as clients see it, and returns it. */
const char *amph_server_file_name(const struct amph_server_handle *h, char *out, size_t size);

/* ---- watch.c ---- */

/* Takes a QUERY frame of a watcher: answers it or passes it to the progress thread by post.
 * Returns NULL, or the sentence of a refusal.  Listener thread. */
const char *amph_server_watch_take(struct amph_server *s, struct amph_server_conn *c,
                                   const struct amph_fwd_frame_in *in,
                                   void (*post)(struct amph_server *s, struct amph_server_conn *c,
                                                const struct amph_fwd_frame_in *in));

/* Answers FWD_WATCH_FINAL.  At the server's end, when no other thread of it runs. */
void amph_server_watch_end(struct amph_server *s, const struct amph_server_conn *c);

/* To be called when a client comes or goes: reports to the overseer whether a drained server is
 * empty.  Progress thread. */
void amph_server_watch_clients_changed(struct amph_server *s);

/* Answers a query that concerns the progress thread's objects. */
void amph_server_watch_query(struct amph_server *s, const struct amph_server_event *event);

/* ---- limits.c ---- */

void amph_server_limits_open(struct amph_server *s);

/* Divides the addresses that are left once the endpoint is open. */
void amph_server_limits_mapped(struct amph_server *s);

/* May the server use one more descriptor for p?  0, EMFILE (p has used its share of the reserve) or ENFILE
 * (the rest is kept for the server's own work).  Logs one refusal a minute.  Progress thread. */
int amph_server_limits_file(struct amph_server *s, const struct amph_server_peer *p);

/* May the server use one more descriptor for its own work?  Any thread. */
bool amph_server_limits_spare(const struct amph_server *s);

/* ---- fs/direct.c ---- */

/* Decides whether the file uses O_DIRECT.  flags: of the open. */
void amph_server_direct_open(struct amph_server_handle *h, int flags);

/* Sets or clears O_DIRECT as the alignment of this data allows; off < 0: at the file's offset. */
void amph_server_direct_fit(struct amph_server_handle *h, const void *data, size_t len, off_t off);

/* To be called after EINVAL.  If O_DIRECT was the cause, stops using it on this file and returns
 * true: the caller repeats the call. */
bool amph_server_direct_disable(struct amph_server_handle *h);

/* Returns the descriptor's flags as the client shall see them. */
int amph_server_direct_flags(const struct amph_server_handle *h, int flags);

/* ---- readers.c (progress thread) ---- */

/* Reads cached data with several threads.  off < 0: at the file's offset, which moves.  false: the
 * read does not qualify, and nothing has been done.  *n_p: result of pread, or minus an errno value. */
bool amph_server_readers_read(const struct amph_server_request *rq, struct amph_server_handle *h,
                              void *buf, size_t len, off_t off, ssize_t *n_p);

/* Returns how many slices the reader threads have read. */
uint64_t amph_server_readers_slices(const struct amph_server *s);
void amph_server_readers_stop(struct amph_server *s);

/* ---- pipes.c ---- */

/* Makes a pipe for client p, which may be NULL.  *fd_p: the client's end, which the caller owns; -1: it gets none.
 * Returns its number.  Progress thread. */
uint32_t amph_server_pipe_make(struct amph_server *s, struct amph_server_peer *p, int *fd_p);

/* Closes a client's pipes, which no request uses any more.  Progress thread. */
void amph_server_pipes_close(struct amph_server *s, struct amph_server_peer *p);

/* ---- receive_areas.c: memory for the data of large writes from other hosts (progress thread) ---- */

/* Makes the client's receive area; asked again for the same length, it does nothing.  0 or an errno value. */
int amph_server_receive_area_open(struct amph_server *s, struct amph_server_peer *p,
                                  uint64_t len_bytes);
/* The client's last request has ended. */
void amph_server_receive_area_close(struct amph_server *s, struct amph_server_peer *p);

/* Notes that a request has come whose data is in a pipe of p.  Progress thread. */
void amph_server_pipe_note(struct amph_server *s, const struct amph_server_peer *p);

/* Do several clients write by pipes just now?  Workers then copy their data, on all cores.  Progress thread. */
bool amph_server_pipes_busy(struct amph_server *s);

/*
 * Moves a write's data from its pipe to the file; off NULL: at the file's offset.  true: the call is done, with
 * *err_p and *done_p.  false: the data is in memory, in *data_p (FWD_PIPE: if the file takes no data from pipes);
 * the caller writes it.  Bytes that an error leaves in the pipe are the client's to remove.
 */
bool amph_server_pipe_write(struct amph_server_request *rq, struct amph_server_handle *h,
                            const off_t *off, const void **data_p, size_t *done_p, int *err_p);

/* ---- fs/fifo.c ---- */

void amph_server_fifo_open(struct amph_server_handle *h);

/* Reads and writes of a FIFO, which may block (workers).  0 or an errno value. */
int amph_server_fifo_read(struct amph_server_request *rq, struct amph_server_handle *h, void *buf,
                          size_t len, size_t *done_p);
int amph_server_fifo_write(struct amph_server_request *rq, struct amph_server_handle *h,
                           const void *data, size_t len, size_t *done_p);

/* ---- fs/append.c ---- */

/* At a call's first piece; for each piece, if the handle has an append buffer; at its end, even if
 * it ends early. */
void amph_server_append_begin(struct amph_server_handle *h, const struct amph_server_request *rq);
int amph_server_append(struct amph_server_request *rq, struct amph_server_handle *h,
                       const void *data, size_t len, size_t *done_p);
void amph_server_append_end(struct amph_server_handle *h, struct amph_server_peer *peer);

/* ---- workers.c ---- */

void amph_server_work_give(struct amph_server *s, struct amph_server_request *rq);
void amph_server_work_stop(struct amph_server *s);

/* Cancels that request if a worker executes it, and interrupts its system call. */
void amph_server_work_wake(struct amph_server *s, const struct amph_server_peer *p, uint64_t seq);

/* Cancels all requests of a client that has gone.  Must be repeated until they have ended: the
 * signal has no effect if the worker was not yet in its system call. */
void amph_server_work_wake_all(struct amph_server *s, const struct amph_server_peer *p);

/* Unblocks (in) or blocks AMPH_SERVER_WAKE_SIGNAL in the calling thread, around a call that may
 * block for long.  Keeps errno. */
#define AMPH_SERVER_WAKE_SIGNAL SIGURG
void amph_server_let_wake_signal_in(bool in);

/* Hands an executed request back to the progress thread.  Any thread. */
void amph_server_work_done(struct amph_server *s, struct amph_server_request *rq);

/* ---- collective.c: collective calls (pwritej, preadj); progress thread except _run ---- */

/*
 * A collective call whose participants have not all arrived.  Its parts wait outside the file's
 * queue, as lock requests do.  The request that completes the call executes it.
 */
struct amph_server_collective {
    struct amph_server_collective *next; /* of those waiting on the file */
    struct amph_server_handle *file;
    enum amph_fwd_id id;
    uint64_t number;
    off_t off;    /* the extent */
    size_t len;   /* of the extent */
    size_t bytes; /* of all parts */
    uint64_t nruns;
    uint32_t processes, arrived, nparts;
    struct amph_server_request *part, **last; /* by next */
    int error;                                /* if not 0, nothing is executed */
};

bool amph_server_collective_is(enum amph_fwd_id id);
/* Memory that the call may need because of this part, besides the request. */
size_t amph_server_collective_room(const struct amph_server_request *rq);

/* Checks the extents of a part.  0 or an errno value; changes nothing. */
int amph_server_collective_check(const struct amph_server_request *rq);

/* Adds a part whose turn on the file it is.  0: the call is complete and is to be executed now;
 * EINPROGRESS: the part waits; else the part's error. */
int amph_server_collective_join(struct amph_server_request *rq);

/* A part was refused for lack of memory: it counts as arrived, with an error for all. */
void amph_server_collective_refused(const struct amph_server_request *rq, int err);

/* Fails the calls waiting on the file; with peer, only those that have a part of peer. */
void amph_server_collective_fail(struct amph_server *s, struct amph_server_handle *h,
                                 const struct amph_server_peer *peer, int err);

/* Reads or writes the extent.  Any thread. */
int amph_server_collective_run(struct amph_server_request *rq);

/* ---- lock/: record locks (progress thread) ---- */

/* Is this a call that a lock agent executes? */
bool amph_server_lock_is(enum amph_fwd_id id);

/* Do agents of clients that have ended still hold locks, or has one exited since rq was tried? */
bool amph_server_locks_releasing(const struct amph_server_request *rq);

/* Passes a request to its client's agent; it returns through amph_server_work_done. */
void amph_server_lock_give(struct amph_server *s, struct amph_server_request *rq);

/* The client has closed h: releases the locks it took by h's file, if it has locked it by h. */
/* Returns how many lock agents p has. */
uint32_t amph_server_lock_agents_of(const struct amph_server_peer *p);
void amph_server_lock_closed(struct amph_server_peer *p, const struct amph_server_handle *h);

/* The client has lost h by exec: releases all its locks on the file. */
void amph_server_lock_left(struct amph_server_peer *p, const struct amph_server_handle *h);

/* Waits, for a short time at most, until the locks that amph_server_lock_left has released are free for
 * others: the answer to the client after its exec must not come earlier. */
void amph_server_lock_await_closes(struct amph_server_peer *p);

/* Ends a waiting lock request with EINTR. */
void amph_server_lock_cancel(struct amph_server_peer *p, uint64_t seq);
void amph_server_lock_drop_peer(struct amph_server_peer *p);

/* Moves the locks of a process to its new image; waiting requests are cancelled. */
void amph_server_lock_renew(struct amph_server_peer *from, struct amph_server_peer *to);

/* Corrects the owner in a lock that F_GETLK found on fd: the kernel names this process if a client
 * of it has the lock.  false: no client has it; it may be about to be set or released.  Any
 * thread. */
bool amph_server_lock_owner(int fd, struct flock *found);

/* Returns the process of the client that holds such a lock through this server, or 0.  Any
 * thread. */
uint64_t amph_server_lock_holder(dev_t dev, ino_t ino, off_t from, off_t len, short type);

/* ---- notify/readiness.c: readiness notifications (progress thread) ---- */

enum amph_status amph_server_notify_open(struct amph_server *s);

/* Makes the connection a notification connection of p.  Returns its number, or 0 if there are too
 * many. */
uint64_t amph_server_notifier_create(struct amph_server *s, struct amph_server_peer *p,
                                     struct amph_server_conn *c);

/* Returns how many descriptors p's notifiers use, including the connections. */
uint32_t amph_server_notify_descriptors(const struct amph_server *s,
                                        const struct amph_server_peer *p);

/* The notifier's connection has ended. */
void amph_server_notifier_destroy(struct amph_server *s, struct amph_server_notifier *n);
void amph_server_notify_drop_peer(struct amph_server *s, struct amph_server_peer *p);

/* To be called before the file is closed. */
void amph_server_notify_drop_file(struct amph_server *s, const struct amph_server_handle *h);

/* Sends a byte on each connection that has ready files. */
void amph_server_notify_send(struct amph_server *s);

/* Writes the events of the watched files, u64 events and u64 data each, at most max of them, and
 * enables the next notification.  0 or an errno value. */
int amph_server_notifier_collect(struct amph_server *s, const struct amph_server_peer *p,
                                 uint64_t number, uint64_t max, struct amph_wr *w);

/* ---- listener.c ---- */

enum amph_status amph_server_listener_open(struct amph_server *s);
enum amph_status amph_server_listener_start(struct amph_server *s);
void amph_server_listener_stop(struct amph_server *s);

#endif

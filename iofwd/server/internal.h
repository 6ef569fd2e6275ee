/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the server, shared by its files.  Layer: iofwd.
 *
 * Thread rule.  The progress thread owns clients, handles, queues and requests.  The door thread
 * owns the listening sockets, the job's boot handle and a connection until it has posted its end.
 * Workers own the one request that they execute.  Threads hand things over by the two posted lists
 * of struct amph_server, under its lock, and wake the progress thread by amph_am_kick.
 */
#ifndef AMPH_IOFWD_SERVER_INT_H
#define AMPH_IOFWD_SERVER_INT_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "am/am.h"
#include "boot/boot.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/encode.h"
#include "iofwd/server/fs/exports.h"
#include "iofwd/wire/marshal.h"
#include "iofwd/server/server.h"

#define AMPH_SERVER_QUEUED_MAX 512 /* requests of one client that wait at the same time */
#define AMPH_CLIENT_SLOW_NS \
    (300 * 1000)                 /* a call that is expected to take longer goes to a worker */
#define AMPH_SERVER_LARGE 16384u /* bytes from which on the time of a call is that of its data */
#define AMPH_SERVER_WORKERS_MAX 256
#define AMPH_SERVER_STACK_BYTES (256 << 10) /* of a thread that executes calls */
#define AMPH_SERVER_SCRATCH_BYTES \
    32768 /* of a result that has no place of its own (entries, texts, attributes) */
#define AMPH_SERVER_INLINE_MAX 32768 /* file data inside a reply */

struct amph_server_request;
typedef int (*amph_server_run_fn)(struct amph_server_request *rq);
extern const amph_server_run_fn amph_server_call_table[AMPH_FWD_NCALLS];

/* An open file. */
struct amph_server_handle {
    uint64_t number;
    uint32_t slot;
    int fd;
    bool regular;
    bool fifo;             /* fs/fifo.c: the descriptor itself never blocks */
    bool nonblock, append; /* the client asked for O_NONBLOCK, O_APPEND */
    /* fs/direct.c: aligned data passes the page cache; the descriptor's flag now; the client's */
    bool direct, direct_on, direct_asked;
    const struct amph_server_export *export;
    uint32_t nholders;
    uint32_t inflight; /* references of requests, and pins: server/references.c */
    bool busy;         /* a worker executes on it */
    bool held;         /* a call in pieces has it until its last piece */
    bool stopped;      /* that call ended early: its remaining pieces do nothing */
    /* it ends with the piece that is under way: the next one was refused */
    bool cut;
    struct amph_server_gather *gather; /* fs/append.c: its pieces, where they append */
    uint32_t opener;                   /* number of the client that opened it */
    struct amph_server_peer *holder;
    uint32_t holder_op;
    struct amph_server_request *queue_head, **queue_tail;
    uint32_t moves; /* calls that have moved the offset */
    /* calls of several clients that some have not yet come for */
    struct amph_server_collective *joints;
    /* the memory that its client's shared maps of it lie in, marked in the file (fs/map.c); 0:
     * none */
    int64_t map_space;
    /* a client that held it has died: nobody knows which joint calls it is missing from */
    bool bereft;
    uint64_t op_ns, kib_ns; /* moving averages: a small call, and each KiB of a large one */
};

/* A client. */
struct amph_server_peer {
    uint32_t index; /* in the endpoint and in server->peer */
    uint32_t number, rank;
    /* number of the client from which it and its relatives were forked, or its own */
    uint32_t family;
    uint32_t pid;  /* as its host numbers it */
    bool attached; /* has an endpoint */
    bool gone;
    uint32_t queued; /* its requests that are not yet answered */
    size_t memory;   /* that they take */
    uint32_t nheld;  /* open files that it holds */
    uint32_t nrefs;  /* references that its requests have */
    uint32_t nbells;
    uint64_t cookie_in;
    struct amph_rmem area;
    bool has_area;
    uint64_t part_at, part_len;
    struct amph_rmem segment; /* of the program, for buffers that lie in it */
    bool has_segment;
    struct amph_server_conn *conn;
    uint64_t *holds; /* bit set over handle slots */
    size_t nwords;
    struct amph_server_locker *locker; /* has taken record locks */
    uint64_t calls, errors, bytes_in, bytes_out;
};

/* What is remembered of clients that have left, for the table at the end. */
#define AMPH_SERVER_PAST_MAX 4096
struct amph_server_past {
    uint32_t number;
    uint64_t calls, errors, bytes_in, bytes_out;
};

struct amph_server_notifier; /* notify/readiness.c */

/* A door connection. */
struct amph_server_conn {
    int fd;
    struct amph_server *server;
    uint8_t nonce[FWD_NONCE_BYTES]; /* of the last GREET */
    uint8_t buf[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    size_t have;
    uint64_t deadline_ns;          /* until it has a client */
    bool greeted;                  /* a client knows its way in */
    bool stranger;                 /* until then: nothing says that it is this user's or root's */
    bool stays;                    /* it stands for a compute process (FWD_HELLO_STAY) */
    struct amph_server_peer *peer; /* progress thread's */
    struct amph_server_notifier *bell;    /* progress thread's: the connection is one */
    struct amph_server_conn *prev, *next; /* door thread's list */
};

/* What the door tells the progress thread. */
struct amph_server_event {
    struct amph_server_event *next;
    enum {
        AMPH_SERVER_EVENT_HELLO,
        AMPH_SERVER_EVENT_GONE,
        AMPH_SERVER_EVENT_DRAIN,
        AMPH_SERVER_EVENT_STOP,
        AMPH_SERVER_EVENT_NOTIFY
    } kind;
    struct amph_server_conn *conn;
    uint8_t nonce[FWD_NONCE_BYTES];
    struct amph_fwd_hello hello; /* points into body */
    size_t len;
    uint8_t body[];
};

/* Reply and scratch room of one request. */
#define AMPH_SERVER_OUT_BYTES (FWD_MSG_MAX + AMPH_SERVER_SCRATCH_BYTES)

enum amph_server_request_state {
    AMPH_SERVER_RQ_READY,
    AMPH_SERVER_RQ_FETCHING,
    AMPH_SERVER_RQ_RUNNING,
    AMPH_SERVER_RQ_STORING
};

/* A request being worked on. */
struct amph_server_request {
    struct amph_server *server;
    struct amph_server_peer *peer;
    enum amph_fwd_id id;
    uint16_t service;
    const struct amph_fwd_call_desc *desc;
    uint64_t seq;
    struct amph_server_handle *file;     /* of a call on an open file */
    struct amph_server_handle *handle;   /* whose order it keeps, or NULL */
    struct amph_server_handle *named[3]; /* every handle that its arguments name */
    unsigned nnamed;
    bool opening;  /* counted in server->opening */
    bool has_refs; /* it has a reference on each of them: server/references.c */
    struct amph_fwd_bulk bulk;
    union amph_server_args u;
    int error;
    bool bereft; /* it names a file that was open at the server before this one */
    const char *reason;
    /* what comes with the answer: how many bytes of all its pieces have been done */
    bool tells_whole;
    uint64_t whole;
    bool tells_moves; /* of the handle, with this call */
    uint32_t moves;
    enum amph_server_request_state state;
    bool worker;      /* it turned out that it may block: must go to a worker */
    bool in_worker;   /* runs in one */
    pthread_t thread; /* which; while it is in server->running */
    struct amph_server_request *next_running;
    /* a signal handler has run in the client, or it has gone: what blocks ends with EINTR */
    _Atomic bool unwanted;
    bool again;           /* the lock was not to be had: try again later */
    uint32_t agents_left; /* of clients that have ended, when the lock was tried */
    int newfd;            /* of an open: becomes a handle in the progress thread; -1: none */
    bool newfd_regular, newfd_fifo, newfd_nonblock;
    /* of a call on a FIFO: another descriptor of its client's connection, or -1 */
    int door;
    const struct amph_server_export *export; /* of a call by path */
    uint64_t ns;                             /* how long it took */
    /* data of an area that is not mapped here, or that is streamed into it */
    uint8_t *stage;
    uint8_t *out; /* the reply; out-buffers point into it */
    struct amph_op transfer;
    bool transferred;
    enum amph_status transfer_st;
    /* in a handle's queue, a worker's list, unsent, locks or a joint call */
    struct amph_server_request *next;
    /* whose part it is, from the time when it has joined */
    struct amph_server_collective *joint;
    struct amph_server_request *next_transfer;
    bool transfer_begun;
    size_t room;    /* memory that counts as its client's */
    size_t out_len; /* of the reply, once it is made */
    size_t msg_len;
    uint8_t *msg; /* own copy of the message, or the conduit's */
};

struct amph_server {
    struct amph_boot *boot;
    const struct amph_jobdesc *job;
    struct amph_am_ep *ep;
    uint32_t self;
    struct amph_server_exports exports;

    struct amph_server_peer **peer; /* by index */
    uint32_t max_peers, npeers, next_number;
    /* clients that have gone, of which workers or transfers still have something */
    uint32_t leaving;
    uint64_t hurried_ns;
    struct amph_server_handle **handle; /* by slot */
    uint32_t nslots, nhandles;
    uint32_t npins;     /* of handles by the progress thread itself */
    uint64_t noise[32]; /* for handles; nnoise of them are unused */
    unsigned nnoise;
    /* how many servers have been in this one's place before it, mod 256 */
    uint8_t life;
    uint32_t client_files; /* most of one client */
    uint64_t client_memory;
    uint64_t memory, memory_limit; /* that the requests of all clients take, and may take */
    /* server/limits.c: descriptors in use from which on a client has only its share; 0: no limit */
    uint32_t fds_usable;
    uint32_t fds_files; /* and from which on no file is opened */
    /* and from which on no connection is accepted, so that one can still be refused; 0: no limit */
    uint32_t fds_last;
    uint32_t fds_reserve; /* all descriptors but fds_usable */
    /* opens that are queued or with workers: each is going to take a descriptor */
    uint32_t opening;
    uint64_t fds_warned_ns;
    uint64_t all_calls, all_bytes_in, all_bytes_out, refused, handed;
    struct amph_server_past *past; /* [npast] in the order of leaving */
    uint32_t npast;

    bool in_handler;
    uint8_t *reply; /* of requests executed in the progress thread */
    struct amph_server_request *transfers, **transfers_tail; /* to be started or under way */
    struct amph_server_request *unsent, **unsent_tail;       /* replies that found no room */
    struct amph_server_request *locks;                       /* waiting for a lock */
    bool locks_changed;
    uint64_t locks_tried_ns;
    struct amph_server_notifier *bells;
    uint64_t next_bell;
    struct amph_server_readers *readers; /* server/readers.c; NULL: no large read yet */
    void *stage_free;
    size_t stage_bytes;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t work_cond;
    struct amph_server_request *work, **work_tail, *done, **done_tail;
    struct amph_server_request *running; /* with workers */
    struct amph_server_event *news, **news_tail;
    bool posted; /* done or news is not empty (read without the lock) */
    unsigned workers, idle;
    bool stopping;

    pthread_t door_thread;
    bool door_runs;
    int epoll_fd, stop_fd, unix_fd, tcp_fd;
    int bells_fd; /* epoll set of the bells that are to ring; any thread */
    struct amph_fwd_server_addr door;
    struct amph_server_conn *conns; /* door thread's, as the next three */
    uint32_t came, staying;         /* plain compute processes that have come, and that are here */
    /* of the other servers of a job of plain processes: to the first one */
    int first_fd;
    bool draining, stop;
    int exit_code;
    uint64_t drain_ns;
    /* door thread's: no descriptor for a connection, so it does not listen until then; 0: it
     * listens */
    uint64_t deaf_until_ns;
};

/* A call with file data that is all in this request, and not in pieces. */
static inline bool amph_server_is_whole(const struct amph_server_request *rq)
{
    const uint32_t whole = FWD_PIECE_FIRST | FWD_PIECE_LAST;
    return (rq->bulk.flags & whole) == whole;
}

extern const char amph_server_readonly_text[]; /* why a call in a read-only export fails */

/* The client's memory that a bulk request points into: its part of the transfer area from *at_p on,
 * or its segment. */
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

/* server/clients.c: clients and handles (progress thread) */
void amph_server_peer_hello(struct amph_server *s, const struct amph_server_event *news);
void amph_server_peer_gone(struct amph_server *s, struct amph_server_conn *conn);
/* has a client's connection ended, of which amph_server_peer_gone has not been told yet? */
bool amph_server_peers_leave(const struct amph_server *s);
void amph_server_peer_free(struct amph_server *s, struct amph_server_peer *peer);
void amph_server_peer_end(struct amph_server *s, struct amph_server_peer *peer);
struct amph_server_handle *amph_server_handle_find(struct amph_server *s, uint64_t number);
/* has the server before this one given it? */
bool amph_server_handle_of_another(const struct amph_server *s, uint64_t number);
/* Makes a handle of fd, held by peer; NULL: no memory (fd stays the caller's). */
struct amph_server_handle *amph_server_handle_make(struct amph_server *s,
                                                   struct amph_server_peer *peer, int fd,
                                                   bool waits);
int amph_server_handle_hold(struct amph_server *s, struct amph_server_peer *peer,
                            struct amph_server_handle *h);
void amph_server_handle_drop(struct amph_server *s, struct amph_server_peer *peer,
                             struct amph_server_handle *h);
/* closes it where nobody holds or uses it */
void amph_server_handle_release(struct amph_server *s, struct amph_server_handle *h);
bool amph_server_handle_held_by(const struct amph_server_peer *peer,
                                const struct amph_server_handle *h);
/* The client's segment, by the key that it sent.  0, EBUSY (requests of the client are under way),
 * EOPNOTSUPP (not reachable). */
int amph_server_peer_segment(struct amph_server *s, struct amph_server_peer *peer, const void *key,
                             size_t key_len);
void amph_server_print_stats(struct amph_server *s);
void amph_server_peer_keep_only(struct amph_server *s, struct amph_server_peer *peer,
                                const uint64_t *numbers, size_t n);

/* server/flow.c: requests (progress thread) */
void amph_server_on_request(struct amph_token *token, const struct amph_am *am);
/* what workers have done, transfers, locks, replies that waited */
unsigned amph_server_flow_progress(struct amph_server *s);
void amph_server_flow_drop_peer(struct amph_server *s, struct amph_server_peer *peer);
/* Takes a request apart: header, arguments, place of the data.  0 or an errno value; rq->seq is set
 * where the header is right (*answer_p).  Does not touch anything but rq. */
int amph_server_request_parse(struct amph_server *s, struct amph_server_peer *peer, uint8_t *msg,
                              size_t len, struct amph_server_request *rq, bool *answer_p);
/* points buffers to where their data lies */
void amph_server_request_place(struct amph_server_request *rq);
/* any thread: the file call itself */
void amph_server_request_run(struct amph_server_request *rq);
/* bytes of file data that the call has moved; other calls: 0 */
size_t amph_server_request_moved(const struct amph_server_request *rq);
/* builds the reply */
size_t amph_server_request_reply(struct amph_server_request *rq, uint8_t *out);

/* server/references.c: what keeps a handle alive beside its holders (progress thread). */
/* on every handle that it names; once */
void amph_server_refs_take(struct amph_server_request *rq);
/* nothing where it has none; may close the files */
void amph_server_refs_give(struct amph_server_request *rq);
void amph_server_handle_pin(struct amph_server *s, struct amph_server_handle *h);
void amph_server_handle_unpin(struct amph_server *s, struct amph_server_handle *h);
/* End the process where the counts of references do not agree, or a client that ends has some left;
 * in builds with AMPH_SELF_CHECKS. */
void amph_server_refs_check(const struct amph_server *s);
void amph_server_refs_check_ended(const struct amph_server_peer *p);

/* server/limits.c (progress thread).  May one more descriptor be used for p?  0, EMFILE (p has its
 * share of the reserve or more) or ENFILE (the server keeps the rest for its own work); the first
 * refusal in a minute is logged. */
void amph_server_limits_open(struct amph_server *s);
int amph_server_limits_file(struct amph_server *s, const struct amph_server_peer *p);
/* may the server use one more for its own work?  Any thread */
bool amph_server_limits_spare(const struct amph_server *s);

/* fs/direct.c.  flags: the open's. */
void amph_server_direct_open(struct amph_server_handle *h, int flags);
/* Sets O_DIRECT as this data allows; off below 0: at the descriptor's offset. */
void amph_server_direct_fit(struct amph_server_handle *h, const void *data, size_t len, off_t off);
/* After EINVAL: true: it was for O_DIRECT, which this file is spared from now on; make the call
 * again. */
bool amph_server_direct_leave(struct amph_server_handle *h);
/* as the client is to see them */
int amph_server_direct_flags(const struct amph_server_handle *h, int flags);

/* server/readers.c: several threads read cached data.  off below 0: at the descriptor's offset,
 * which moves.  false: this read is not one for them, and nothing has been done.  *n_p: what pread
 * would give, or minus an errno value.  Progress thread. */
bool amph_server_readers_read(const struct amph_server_request *rq, struct amph_server_handle *h,
                              void *buf, size_t len, off_t off, ssize_t *n_p);
/* that threads other than the progress thread have read */
uint64_t amph_server_readers_slices(const struct amph_server *s);
void amph_server_readers_stop(struct amph_server *s);

/* fs/fifo.c: a file that has just been opened is one; its reads and writes, which may wait
 * (workers).  0 or an errno value. */
void amph_server_fifo_open(struct amph_server_handle *h);
int amph_server_fifo_read(struct amph_server_request *rq, struct amph_server_handle *h, void *buf,
                          size_t len, size_t *done_p);
int amph_server_fifo_write(struct amph_server_request *rq, struct amph_server_handle *h,
                           const void *data, size_t len, size_t *done_p);

/* fs/append.c: a call begins; one of its pieces, where h->gather is set; it has ended, in whatever
 * way. */
void amph_server_append_begin(struct amph_server_handle *h, const struct amph_server_request *rq);
int amph_server_append(struct amph_server_request *rq, struct amph_server_handle *h,
                       const void *data, size_t len, size_t *done_p);
void amph_server_append_end(struct amph_server_handle *h, struct amph_server_peer *peer);

/* server/workers.c */
void amph_server_work_give(struct amph_server *s, struct amph_server_request *rq);
void amph_server_work_stop(struct amph_server *s);
/* If a worker waits in a system call for that request, it hears of it: see rq->unwanted. */
void amph_server_work_wake(struct amph_server *s, const struct amph_server_peer *p, uint64_t seq);
/* The same for all that workers have or are to get of that client, which has gone.  Again and
 * again: one of them may have been about to wait when it heard. */
void amph_server_work_wake_all(struct amph_server *s, const struct amph_server_peer *p);
/* A thread lets AMPH_SERVER_WAKE_SIGNAL in for a call that may wait for long, or keeps it out
 * again; errno stays. */
#define AMPH_SERVER_WAKE_SIGNAL SIGURG
void amph_server_let_wake_signal_in(bool in);
/* any thread: a request goes back to the progress thread */
void amph_server_work_done(struct amph_server *s, struct amph_server_request *rq);

/*
 * server/collective.c: calls that several clients make together (pwritej, preadj).  A part waits
 * outside of the file's queue, as a lock does, until the last has come; the request of that one
 * carries the call out.  Progress thread, but for amph_server_collective_run.
 */
struct amph_server_collective {
    struct amph_server_collective *next; /* of those that wait on the file */
    struct amph_server_handle *file;
    enum amph_fwd_id id;
    uint64_t number;
    off_t off;         /* the stretch */
    size_t len, bytes; /* bytes: of all parts */
    uint64_t nruns;
    uint32_t processes, came, nparts;
    struct amph_server_request *part, **last; /* by next */
    int error;                                /* nothing is to be done */
};

bool amph_server_collective_is(enum amph_fwd_id id);
/* are the rows right?  0 or an errno value; touches nothing but rq */
int amph_server_collective_check(const struct amph_server_request *rq);
/* A part whose turn on the file it is.  0: it was the last, it is to be run now; EINPROGRESS: it
 * waits; else an error of this part. */
int amph_server_collective_join(struct amph_server_request *rq);
/* a part for which there is no room: the others must not wait for it */
void amph_server_collective_refused(const struct amph_server_request *rq, int err);
/* Ends what waits on the file; peer: only what has a part of its. */
void amph_server_collective_fail(struct amph_server *s, struct amph_server_handle *h,
                                 const struct amph_server_peer *peer, int err);
/* any thread: reads or writes the stretch */
int amph_server_collective_run(struct amph_server_request *rq);

/* server_lock*.c: record locks (progress thread) */
bool amph_server_lock_is(enum amph_fwd_id id);
/* do clients that have ended hold record locks, or did when rq was tried? */
bool amph_server_lock_agents_leave(const struct amph_server_request *rq);
/* one that amph_server_lock_is; it comes back by amph_server_work_done */
void amph_server_lock_give(struct amph_server *s, struct amph_server_request *rq);
/* the client has closed h: its locks on that file go */
void amph_server_lock_closed(struct amph_server_peer *p, const struct amph_server_handle *h);
/* by exec: also those that were taken by other descriptors go */
void amph_server_lock_left(struct amph_server_peer *p, const struct amph_server_handle *h);
/* that request of p's waits no longer: EINTR */
void amph_server_lock_cancel(struct amph_server_peer *p, uint64_t seq);
void amph_server_lock_drop_peer(struct amph_server_peer *p);
/* a new image of the process: its locks stay, what waited is gone */
void amph_server_lock_renew(struct amph_server_peer *from, struct amph_server_peer *to);
/* A lock found on fd, as the kernel gives it, has our process for its owner where a client of ours
 * holds it: gives that client's process instead.  false: there was none, the lock may just be
 * coming or going.  Any thread. */
bool amph_server_lock_owner(int fd, struct flock *found);
/* The process of the client that holds such a lock on a file by this server; 0: none.  Any
 * thread. */
uint32_t amph_server_lock_holder(dev_t dev, ino_t ino, off_t from, off_t len, short type);

/* notify/readiness.c: what tells a client that waits in its own kernel that files have become ready
 * (progress thread) */
enum amph_status amph_server_notify_open(struct amph_server *s);
/* The connection becomes a bell of p's.  Its number, or 0: there is no room. */
uint64_t amph_server_notifier_create(struct amph_server *s, struct amph_server_peer *p,
                                     struct amph_server_conn *c);
/* that p's bells take, connections included */
uint32_t amph_server_bells_descriptors(const struct amph_server *s,
                                       const struct amph_server_peer *p);
/* its connection has ended */
void amph_server_notifier_end(struct amph_server *s, struct amph_server_notifier *b);
void amph_server_notify_drop_peer(struct amph_server *s, struct amph_server_peer *p);
/* before it is closed */
void amph_server_notify_drop_file(struct amph_server *s, const struct amph_server_handle *h);
void amph_server_notify_send(struct amph_server *s); /* those that have something to tell */
/* Puts what has happened on the watched files, u64 events and u64 data each, and lets the bell ring
 * at the next.  0 or an errno value. */
int amph_server_notifier_collect(struct amph_server *s, const struct amph_server_peer *p,
                                 uint64_t number, uint64_t most, struct amph_wr *w);

/* server/listener.c */
enum amph_status amph_server_listener_open(struct amph_server *s);
enum amph_status amph_server_listener_start(struct amph_server *s);
void amph_server_listener_stop(struct amph_server *s);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the server, shared by its files.  Layer: iofwd.
 *
 * Thread rule.  The progress thread owns clients, handles, queues and requests.  The door thread owns the listening sockets, the
 * job's boot handle and a connection until it has posted its end.  Workers own the one request that they execute.  Threads hand
 * things over by the two posted lists of struct fwd_server, under its lock, and wake the progress thread by amph_am_kick.
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

#define FWD_QUEUED_MOST 512           /* requests of one client that wait at the same time */
#define FWD_SLOW_NS (300 * 1000)      /* a call that is expected to take longer goes to a worker */
#define FWD_LARGE 16384u              /* bytes from which on the time of a call is that of its data */
#define FWD_WORKERS_MOST 256
#define FWD_STACK_BYTES (256 << 10)   /* of a thread that executes calls */
#define FWD_SCRATCH_BYTES 32768       /* of a result that has no place of its own (entries, texts, attributes) */
#define FWD_INLINE_MOST 32768         /* file data inside a reply */

struct fwd_request;
typedef int (*fwd_run_fn)(struct fwd_request *rq);
extern const fwd_run_fn fwd_run[AMPH_FWD_NCALLS];

/* An open file. */
struct fwd_handle {
    uint64_t number;
    uint32_t slot;
    int fd;
    bool regular;
    bool fifo;                /* fs/fifo.c: the descriptor itself never blocks */
    bool nonblock, append;    /* the client asked for O_NONBLOCK, O_APPEND */
    bool direct, direct_on, direct_asked; /* fs/direct.c: aligned data passes the page cache; the descriptor's flag now; the client's */
    const struct fwd_export *export;
    uint32_t nholders;
    uint32_t inflight;        /* references of requests, and pins: server/references.c */
    bool busy;                /* a worker executes on it */
    bool held;                /* a call in pieces has it until its last piece */
    bool stopped;             /* that call ended early: its remaining pieces do nothing */
    bool cut;                 /* it ends with the piece that is under way: the next one was refused */
    struct fwd_gather *gather; /* fs/append.c: its pieces, where they append */
    uint32_t opener;          /* number of the client that opened it */
    struct fwd_peer *holder;
    uint32_t holder_op;
    struct fwd_request *queue_head, **queue_tail;
    uint32_t moves;           /* calls that have moved the offset */
    struct fwd_joint *joints; /* calls of several clients that some have not yet come for */
    int64_t map_space;        /* the memory that its client's shared maps of it lie in, marked in the file (fs/map.c); 0: none */
    bool bereft;              /* a client that held it has died: nobody knows which joint calls it is missing from */
    uint64_t op_ns, kib_ns;   /* moving averages: a small call, and each KiB of a large one */
};

/* A client. */
struct fwd_peer {
    uint32_t index;           /* in the endpoint and in server->peer */
    uint32_t number, rank;
    uint32_t family;          /* number of the client from which it and its relatives were forked, or its own */
    uint32_t pid;             /* as its host numbers it */
    bool attached;            /* has an endpoint */
    bool gone;
    uint32_t queued;          /* its requests that are not yet answered */
    size_t memory;            /* that they take */
    uint32_t nheld;           /* open files that it holds */
    uint32_t nrefs;           /* references that its requests have */
    uint32_t nbells;
    uint64_t cookie_in;
    struct amph_rmem area;
    bool has_area;
    uint64_t part_at, part_len;
    struct amph_rmem segment; /* of the program, for buffers that lie in it */
    bool has_segment;
    struct fwd_conn *conn;
    uint64_t *holds;          /* bit set over handle slots */
    size_t nwords;
    struct fwd_locker *locker; /* has taken record locks */
    uint64_t calls, errors, bytes_in, bytes_out;
};

/* What is remembered of clients that have left, for the table at the end. */
#define FWD_PAST_MOST 4096
struct fwd_past {
    uint32_t number;
    uint64_t calls, errors, bytes_in, bytes_out;
};

struct fwd_bell; /* notify/readiness.c */

/* A door connection. */
struct fwd_conn {
    int fd;
    struct fwd_server *server;
    uint8_t nonce[FWD_NONCE_BYTES]; /* of the last GREET */
    uint8_t buf[FWD_DOOR_HEAD_BYTES + FWD_DOOR_BODY_MOST];
    size_t have;
    uint64_t deadline_ns;     /* until it has a client */
    bool greeted;             /* a client knows its way in */
    bool stranger;            /* until then: nothing says that it is this user's or root's */
    bool stays;               /* it stands for a compute process (FWD_HELLO_STAY) */
    struct fwd_peer *peer;    /* progress thread's */
    struct fwd_bell *bell;    /* progress thread's: the connection is one */
    struct fwd_conn *prev, *next; /* door thread's list */
};

/* What the door tells the progress thread. */
struct fwd_news {
    struct fwd_news *next;
    enum { FWD_NEWS_HELLO, FWD_NEWS_GONE, FWD_NEWS_DRAIN, FWD_NEWS_STOP, FWD_NEWS_BELLS } kind;
    struct fwd_conn *conn;
    uint8_t nonce[FWD_NONCE_BYTES];
    struct fwd_hello hello;   /* points into body */
    size_t len;
    uint8_t body[];
};

/* Reply and scratch room of one request. */
#define FWD_OUT_BYTES (FWD_MSG_MOST + FWD_SCRATCH_BYTES)

enum fwd_rq_state { FWD_RQ_READY, FWD_RQ_FETCHING, FWD_RQ_RUNNING, FWD_RQ_STORING };

/* A request being worked on. */
struct fwd_request {
    struct fwd_server *server;
    struct fwd_peer *peer;
    enum amph_fwd_id id;
    uint16_t service;
    const struct fwd_call_desc *desc;
    uint64_t seq;
    struct fwd_handle *file;     /* of a call on an open file */
    struct fwd_handle *handle;   /* whose order it keeps, or NULL */
    struct fwd_handle *named[3]; /* every handle that its arguments name */
    unsigned nnamed;
    bool opening;                /* counted in server->opening */
    bool has_refs;               /* it has a reference on each of them: server/references.c */
    struct fwd_bulk bulk;
    union fwd_args u;
    int error;
    bool bereft;                 /* it names a file that was open at the server before this one */
    const char *reason;
    bool tells_whole;            /* what comes with the answer: how many bytes of all its pieces have been done */
    uint64_t whole;
    bool tells_moves;            /* of the handle, with this call */
    uint32_t moves;
    enum fwd_rq_state state;
    bool worker;                 /* it turned out that it may block: must go to a worker */
    bool in_worker;              /* runs in one */
    pthread_t thread;            /* which; while it is in server->running */
    struct fwd_request *next_running;
    _Atomic bool unwanted;       /* a signal handler has run in the client, or it has gone: what blocks ends with EINTR */
    bool again;                  /* the lock was not to be had: try again later */
    uint32_t agents_left;        /* of clients that have ended, when the lock was tried */
    int newfd;                   /* of an open: becomes a handle in the progress thread; -1: none */
    bool newfd_regular, newfd_fifo, newfd_nonblock;
    int door;                    /* of a call on a FIFO: another descriptor of its client's connection, or -1 */
    const struct fwd_export *export; /* of a call by path */
    uint64_t ns;                 /* how long it took */
    uint8_t *stage;              /* data of an area that is not mapped here, or that is streamed into it */
    uint8_t *out;                /* the reply; out-buffers point into it */
    struct amph_op transfer;
    bool transferred;
    enum amph_status transfer_st;
    struct fwd_request *next;    /* in a handle's queue, a worker's list, unsent, locks or a joint call */
    struct fwd_joint *joint;     /* whose part it is, from the time when it has joined */
    struct fwd_request *next_transfer;
    bool transfer_begun;
    size_t room;                 /* memory that counts as its client's */
    size_t out_len;              /* of the reply, once it is made */
    size_t msg_len;
    uint8_t *msg;                /* own copy of the message, or the conduit's */
};

struct fwd_server {
    struct amph_boot *boot;
    const struct amph_jobdesc *job;
    struct amph_am_ep *ep;
    uint32_t self;
    struct fwd_exports exports;

    struct fwd_peer **peer;      /* by index */
    uint32_t max_peers, npeers, next_number;
    uint32_t leaving;            /* clients that have gone, of which workers or transfers still have something */
    uint64_t hurried_ns;
    struct fwd_handle **handle;  /* by slot */
    uint32_t nslots, nhandles;
    uint32_t npins;              /* of handles by the progress thread itself */
    uint64_t noise[32];          /* for handles; nnoise of them are unused */
    unsigned nnoise;
    uint8_t life;                /* how many servers have been in this one's place before it, mod 256 */
    uint32_t client_files;       /* most of one client */
    uint64_t client_memory;
    uint64_t memory, memory_limit; /* that the requests of all clients take, and may take */
    uint32_t fds_usable;         /* server/limits.c: descriptors in use from which on a client has only its share; 0: no limit */
    uint32_t fds_files;          /* and from which on no file is opened */
    uint32_t fds_last;           /* and from which on no connection is accepted, so that one can still be refused; 0: no limit */
    uint32_t fds_reserve;        /* all descriptors but fds_usable */
    uint32_t opening;            /* opens that are queued or with workers: each is going to take a descriptor */
    uint64_t fds_warned_ns;
    uint64_t all_calls, all_bytes_in, all_bytes_out, refused, handed;
    struct fwd_past *past;       /* [npast] in the order of leaving */
    uint32_t npast;

    bool in_handler;
    uint8_t *reply;              /* of requests executed in the progress thread */
    struct fwd_request *transfers, **transfers_tail; /* to be started or under way */
    struct fwd_request *unsent, **unsent_tail; /* replies that found no room */
    struct fwd_request *locks;       /* waiting for a lock */
    bool locks_changed;
    uint64_t locks_tried_ns;
    struct fwd_bell *bells;
    uint64_t next_bell;
    struct fwd_readers *readers; /* server/readers.c; NULL: no large read yet */
    void *stage_free;
    size_t stage_bytes;

    pthread_mutex_t lock;            /* of what follows */
    pthread_cond_t work_cond;
    struct fwd_request *work, **work_tail, *done, **done_tail;
    struct fwd_request *running;     /* with workers */
    struct fwd_news *news, **news_tail;
    bool posted;                     /* done or news is not empty (read without the lock) */
    unsigned workers, idle;
    bool stopping;

    pthread_t door_thread;
    bool door_runs;
    int epoll_fd, stop_fd, unix_fd, tcp_fd;
    int bells_fd;                    /* epoll set of the bells that are to ring; any thread */
    struct fwd_door_addr door;
    struct fwd_conn *conns;          /* door thread's, as the next three */
    uint32_t came, staying;          /* plain compute processes that have come, and that are here */
    int first_fd;                    /* of the other servers of a job of plain processes: to the first one */
    bool draining, stop;
    int exit_code;
    uint64_t drain_ns;
    uint64_t deaf_until_ns;          /* door thread's: no descriptor for a connection, so it does not listen until then; 0: it listens */
};

/* A call with file data that is all in this request, and not in pieces. */
static inline bool fwd_is_whole(const struct fwd_request *rq)
{
    const uint32_t whole = FWD_PIECE_FIRST | FWD_PIECE_LAST;
    return (rq->bulk.flags & whole) == whole;
}

extern const char fwd_readonly_text[]; /* why a call in a read-only export fails */

/* The client's memory that a bulk request points into: its part of the transfer area from *at_p on, or its segment. */
static inline const struct amph_rmem *fwd_memory_of(const struct fwd_request *rq, uint64_t *at_p)
{
    bool segment = rq->bulk.where == FWD_SEGMENT;
    *at_p = rq->bulk.at + (segment ? 0 : rq->peer->part_at);
    return segment ? &rq->peer->segment : &rq->peer->area;
}
static inline bool fwd_is_mapped(const struct fwd_request *rq)
{
    uint64_t at;
    return fwd_memory_of(rq, &at)->local != NULL;
}

/* server/clients.c: clients and handles (progress thread) */
void fwd_peer_hello(struct fwd_server *s, const struct fwd_news *news);
void fwd_peer_gone(struct fwd_server *s, struct fwd_conn *conn);
bool fwd_peers_leave(const struct fwd_server *s); /* has a client's connection ended, of which fwd_peer_gone has not been told yet? */
void fwd_peer_free(struct fwd_server *s, struct fwd_peer *peer);
void fwd_peer_end(struct fwd_server *s, struct fwd_peer *peer);
struct fwd_handle *fwd_handle_find(struct fwd_server *s, uint64_t number);
bool fwd_handle_of_another(const struct fwd_server *s, uint64_t number); /* has the server before this one given it? */
/* Makes a handle of fd, held by peer; NULL: no memory (fd stays the caller's). */
struct fwd_handle *fwd_handle_make(struct fwd_server *s, struct fwd_peer *peer, int fd, bool waits);
int fwd_handle_hold(struct fwd_server *s, struct fwd_peer *peer, struct fwd_handle *h);
void fwd_handle_drop(struct fwd_server *s, struct fwd_peer *peer, struct fwd_handle *h);
void fwd_handle_release(struct fwd_server *s, struct fwd_handle *h); /* closes it where nobody holds or uses it */
bool fwd_handle_held_by(const struct fwd_peer *peer, const struct fwd_handle *h);
/* The client's segment, by the key that it sent.  0, EBUSY (requests of the client are under way), EOPNOTSUPP (not reachable). */
int fwd_peer_segment(struct fwd_server *s, struct fwd_peer *peer, const void *key, size_t key_len);
void fwd_server_print_stats(struct fwd_server *s);
void fwd_peer_keep_only(struct fwd_server *s, struct fwd_peer *peer, const uint64_t *numbers, size_t n);

/* server/flow.c: requests (progress thread) */
void fwd_on_request(struct amph_token *token, const struct amph_am *am);
unsigned fwd_exec_progress(struct fwd_server *s); /* what workers have done, transfers, locks, replies that waited */
void fwd_exec_drop_peer(struct fwd_server *s, struct fwd_peer *peer);
/* Takes a request apart: header, arguments, place of the data.  0 or an errno value; rq->seq is set where the header is right
 * (*answer_p).  Does not touch anything but rq. */
int fwd_request_parse(struct fwd_server *s, struct fwd_peer *peer, uint8_t *msg, size_t len, struct fwd_request *rq,
                      bool *answer_p);
void fwd_request_place(struct fwd_request *rq); /* points buffers to where their data lies */
void fwd_request_run(struct fwd_request *rq);   /* any thread: the file call itself */
size_t fwd_request_moved(const struct fwd_request *rq); /* bytes of file data that the call has moved; other calls: 0 */
size_t fwd_request_reply(struct fwd_request *rq, uint8_t *out); /* builds the reply */

/* server/references.c: what keeps a handle alive beside its holders (progress thread). */
void fwd_refs_take(struct fwd_request *rq); /* on every handle that it names; once */
void fwd_refs_give(struct fwd_request *rq); /* nothing where it has none; may close the files */
void fwd_handle_pin(struct fwd_server *s, struct fwd_handle *h);
void fwd_handle_unpin(struct fwd_server *s, struct fwd_handle *h);
/* End the process where the counts of references do not agree, or a client that ends has some left; in builds with AMPH_SELF_CHECKS. */
void fwd_refs_check(const struct fwd_server *s);
void fwd_refs_check_ended(const struct fwd_peer *p);

/* server/limits.c (progress thread).  May one more descriptor be used for p?  0, EMFILE (p has its share of the reserve or more) or ENFILE
 * (the server keeps the rest for its own work); the first refusal in a minute is logged. */
void fwd_limits_open(struct fwd_server *s);
int fwd_limits_file(struct fwd_server *s, const struct fwd_peer *p);
bool fwd_limits_spare(const struct fwd_server *s); /* may the server use one more for its own work?  Any thread */

/* fs/direct.c.  flags: the open's. */
void fwd_direct_open(struct fwd_handle *h, int flags);
/* Sets O_DIRECT as this data allows; off below 0: at the descriptor's offset. */
void fwd_direct_fit(struct fwd_handle *h, const void *data, size_t len, off_t off);
/* After EINVAL: true: it was for O_DIRECT, which this file is spared from now on; make the call again. */
bool fwd_direct_leave(struct fwd_handle *h);
int fwd_direct_flags(const struct fwd_handle *h, int flags); /* as the client is to see them */

/* server/readers.c: several threads read cached data.  off below 0: at the descriptor's offset, which moves.  false: this read is not one
 * for them, and nothing has been done.  *n_p: what pread would give, or minus an errno value.  Progress thread. */
bool fwd_readers_read(const struct fwd_request *rq, struct fwd_handle *h, void *buf, size_t len, off_t off, ssize_t *n_p);
uint64_t fwd_readers_slices(const struct fwd_server *s); /* that threads other than the progress thread have read */
void fwd_readers_stop(struct fwd_server *s);

/* fs/fifo.c: a file that has just been opened is one; its reads and writes, which may wait (workers).  0 or an errno value. */
void fwd_fifo_open(struct fwd_handle *h);
int fwd_fifo_read(struct fwd_request *rq, struct fwd_handle *h, void *buf, size_t len, size_t *done_p);
int fwd_fifo_write(struct fwd_request *rq, struct fwd_handle *h, const void *data, size_t len, size_t *done_p);

/* fs/append.c: a call begins; one of its pieces, where h->gather is set; it has ended, in whatever way. */
void fwd_append_begin(struct fwd_handle *h, const struct fwd_request *rq);
int fwd_append(struct fwd_request *rq, struct fwd_handle *h, const void *data, size_t len, size_t *done_p);
void fwd_append_end(struct fwd_handle *h, struct fwd_peer *peer);

/* server/workers.c */
void fwd_work_give(struct fwd_server *s, struct fwd_request *rq);
void fwd_work_stop(struct fwd_server *s);
/* If a worker waits in a system call for that request, it hears of it: see rq->unwanted. */
void fwd_work_wake(struct fwd_server *s, const struct fwd_peer *p, uint64_t seq);
/* The same for all that workers have or are to get of that client, which has gone.  Again and again: one of them may have been about to
 * wait when it heard. */
void fwd_work_wake_all(struct fwd_server *s, const struct fwd_peer *p);
/* A thread lets FWD_WAKE_SIGNAL in for a call that may wait for long, or keeps it out again; errno stays. */
#define FWD_WAKE_SIGNAL SIGURG
void fwd_wake_let_in(bool in);
void fwd_work_done(struct fwd_server *s, struct fwd_request *rq); /* any thread: a request goes back to the progress thread */

/*
 * server/collective.c: calls that several clients make together (pwritej, preadj).  A part waits outside of the file's queue, as a lock does,
 * until the last has come; the request of that one carries the call out.  Progress thread, but for fwd_joint_run.
 */
struct fwd_joint {
    struct fwd_joint *next;      /* of those that wait on the file */
    struct fwd_handle *file;
    enum amph_fwd_id id;
    uint64_t number;
    off_t off;                   /* the stretch */
    size_t len, bytes;           /* bytes: of all parts */
    uint64_t nruns;
    uint32_t processes, came, nparts;
    struct fwd_request *part, **last; /* by next */
    int error;                   /* nothing is to be done */
};
bool fwd_joint_is(enum amph_fwd_id id);
int fwd_joint_check(const struct fwd_request *rq); /* are the rows right?  0 or an errno value; touches nothing but rq */
/* A part whose turn on the file it is.  0: it was the last, it is to be run now; EINPROGRESS: it waits; else an error of this part. */
int fwd_joint_join(struct fwd_request *rq);
void fwd_joint_refused(const struct fwd_request *rq, int err); /* a part for which there is no room: the others must not wait for it */
/* Ends what waits on the file; peer: only what has a part of its. */
void fwd_joint_fail(struct fwd_server *s, struct fwd_handle *h, const struct fwd_peer *peer, int err);
int fwd_joint_run(struct fwd_request *rq);         /* any thread: reads or writes the stretch */

/* server_lock*.c: record locks (progress thread) */
bool fwd_lock_is(enum amph_fwd_id id);
bool fwd_lock_agents_leave(const struct fwd_request *rq); /* do clients that have ended hold record locks, or did when rq was tried? */
void fwd_lock_give(struct fwd_server *s, struct fwd_request *rq); /* one that fwd_lock_is; it comes back by fwd_work_done */
void fwd_lock_closed(struct fwd_peer *p, const struct fwd_handle *h); /* the client has closed h: its locks on that file go */
void fwd_lock_left(struct fwd_peer *p, const struct fwd_handle *h);   /* by exec: also those that were taken by other descriptors go */
void fwd_lock_cancel(struct fwd_peer *p, uint64_t seq);           /* that request of p's waits no longer: EINTR */
void fwd_lock_drop_peer(struct fwd_peer *p);
void fwd_lock_renew(struct fwd_peer *from, struct fwd_peer *to);  /* a new image of the process: its locks stay, what waited is gone */
/* A lock found on fd, as the kernel gives it, has our process for its owner where a client of ours holds it: gives that client's process
 * instead.  false: there was none, the lock may just be coming or going.  Any thread. */
bool fwd_lock_owner(int fd, struct flock *found);
/* The process of the client that holds such a lock on a file by this server; 0: none.  Any thread. */
uint32_t fwd_lock_holder(dev_t dev, ino_t ino, off_t from, off_t len, short type);

/* notify/readiness.c: what tells a client that waits in its own kernel that files have become ready (progress thread) */
enum amph_status fwd_bells_open(struct fwd_server *s);
/* The connection becomes a bell of p's.  Its number, or 0: there is no room. */
uint64_t fwd_bell_make(struct fwd_server *s, struct fwd_peer *p, struct fwd_conn *c);
uint32_t fwd_bells_descriptors(const struct fwd_server *s, const struct fwd_peer *p); /* that p's bells take, connections included */
void fwd_bell_end(struct fwd_server *s, struct fwd_bell *b); /* its connection has ended */
void fwd_bells_drop_peer(struct fwd_server *s, struct fwd_peer *p);
void fwd_bells_drop_file(struct fwd_server *s, const struct fwd_handle *h); /* before it is closed */
void fwd_bells_ring(struct fwd_server *s); /* those that have something to tell */
/* Puts what has happened on the watched files, u64 events and u64 data each, and lets the bell ring at the next.  0 or an errno value. */
int fwd_bell_collect(struct fwd_server *s, const struct fwd_peer *p, uint64_t number, uint64_t most, struct amph_wr *w);

/* server/listener.c */
enum amph_status fwd_door_open(struct fwd_server *s);
enum amph_status fwd_door_start(struct fwd_server *s);
void fwd_door_stop(struct fwd_server *s);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types and functions that the client's files share.
 *
 * Layer: iofwd.
 * Thread rule: the client and its links are created under amph_client_state.lock with signals
 * blocked.  A call uses only its own pending records and slots, which it acquires and releases with
 * atomic operations.  Signals are blocked while a call uses the endpoint, because a signal handler
 * that makes a forwarded call could wait for a lock that its own thread holds; they are delivered
 * periodically while a call only waits.
 *
 * File map (the room may include base, boot, conduits, am, iofwd/wire, iofwd/calls):
 *
 *   client.h            the room's interface
 *   state.h             the state of the process and of a thread
 *   layer.c             the list of layers that a call passes
 *   call.c              one request and its reply; the layer `forward`
 *   trace.c             IOFWD_TRACE: prints calls with their costs
 *   trace_args.h        arguments and results, for trace.c and trace_record.c
 *   trace_record.c, .h  IOFWD_TRACE_DIR: records calls that are made in the names of other processes
 *   trace_callers.c     these processes, and their files of records
 *   trace_files.c       names and offsets of open files, for records
 *   versions.c, .h      the versions of files that servers share with this host
 *   attributes.c        stat and fstat from an earlier answer
 *   lookups.c, .h       look-ups of names below directories that servers have passed
 *   closes.c            closes that need not wait for their server
 *   offsets.c           seeks that need not wait for their server
 *   readiness.c         notifiers: descriptors that report files ready at a server
 *   two_names.c         rename and link below directories that are open at different servers
 *   lock_holder.c       F_GETLK of a lock that another server's client holds
 *
 *   api/                what callers of the client see
 *   api/api.c           the public functions of iofwd.h
 *   api/file.c, .h      the public functions that work on files by name and handle
 *   api/nonblocking.c, .h   non-blocking reads and writes, by threads of the client
 *   api/interface.c, .h   table of the functions that the interposer calls
 *
 *   data/               calls that move file data
 *   data/data.h         one view of the four calls that move file data
 *   data/bulk.c         reads and writes of any size, in pieces
 *   data/tuning.c, .h   size and number of the pieces of large calls
 *   data/passthrough.c, .h   calls by descriptors that servers have passed
 *   data/passed.h       files whose descriptors servers have passed
 *   data/map_descriptor.c   descriptors for shared maps
 *   data/record_locks.c, .h   record locks by such descriptors
 *   data/record_locks_exec.c   these descriptors over exec
 *   data/pipes.c, .h    pipes to servers of this host, for the data of large writes
 *   data/receive_area.c, .h   memory of a server on another host for the data of large writes
 *   data/segment.c      access to buffers in the program's segment without a copy
 *   data/stripe.c, .h   striped files: rules, opening, distribution of bytes
 *   data/collective.c   collective (two-phase) reads and writes
 *
 *   attach/             opening, fork, exec and end of a client
 *   attach/attach.c     opens the client
 *   attach/link.c       opens its links to servers
 *   attach/clock.c      measures the clock of a recorded client's host
 *   attach/endpoint.c   the client's endpoint: its network and address
 *   attach/dead_servers.c   detects servers that cannot be reached any more, and reports them
 *   attach/exec.c       exec and posix_spawn: which connections the program gets
 *   attach/lifecycle.c  fork and exit; holds; files as text
 *   attach/mpmd.c       jobs of other launchers with programs that are no GASNet clients
 *   attach/private_server.c, .h   a server that the process starts for itself
 *
 *   coalesce/           write-behind and read-ahead of small calls (coalesce/coalesce.h)
 *   recovery/           failover (recovery/record.h)
 *
 * Writable state: struct amph_client_state and, of a thread, struct amph_client_thread (state.h);
 * coalesce/, recovery/, data/passed.h, data/record_locks.c, data/record_locks_exec.c and trace_record.h have structs
 * of theirs.  The tables of held attributes (attributes.c), of files that were only read (closes.c) and
 * of offsets (offsets.c) stand alone.
 */
#ifndef AMPH_IOFWD_CLIENT_INT_H
#define AMPH_IOFWD_CLIENT_INT_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "am/am.h"
#include "boot/boot.h"
#include "iofwd/client/client.h"
#include "iofwd/client/data/data.h"
#include "iofwd/client/data/pipes.h"
#include "iofwd/client/data/receive_area.h"
#include "iofwd/client/state.h"
#include "iofwd/client/data/tuning.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/marshal.h"

#define AMPH_CLIENT_PENDING_MAX FWD_PENDING_MAX /* requests of this process in flight */
#define AMPH_CLIENT_PENDING_BYTES 45056         /* of one request: header, two paths, inline data */
#define AMPH_CLIENT_INLINE_NEAR \
    1024 /* maximum of inline data to a server that maps the transfer area */
#define AMPH_CLIENT_INLINE_FAR 32768 /* maximum of inline data to any other server */
#define AMPH_CLIENT_WINDOW 8         /* pieces of one call in flight */
#define AMPH_CLIENT_FDS_FROM \
    64 /* the client's descriptors are at least this, away from the program's small numbers */

enum amph_client_pending_state {
    AMPH_CLIENT_PENDING_FREE,
    AMPH_CLIENT_PENDING_WAITING,
    AMPH_CLIENT_PENDING_FILLING,
    AMPH_CLIENT_PENDING_DONE,
    AMPH_CLIENT_PENDING_ABANDONED
};
#define AMPH_CLIENT_WHOLE_NONE UINT64_MAX
#define AMPH_CLIENT_PENDING_WORD(seq, state) ((seq) << 3 | (uint64_t)(state))

/* A request and the destination of its reply. */
struct amph_client_pending {
    /* AMPH_CLIENT_PENDING_WORD; a late reply to an earlier request does not match it */
    _Atomic uint64_t state;
    uint32_t peer; /* index of its server in the endpoint */
    uint64_t seq;
    /* NULL: a service that is no call of calls.def */
    const struct amph_fwd_call_desc *desc;
    void *args; /* the call's record; it points to the results' destinations */
    int error;
    uint8_t *data;    /* destination of a read's inline data */
    size_t want, got; /* bytes of a bulk piece */
    /* number of moves of the open file's offset, if the reply has it; else 0 */
    uint32_t moves;
    /* bytes of the whole call of this piece, if the reply has it; else AMPH_CLIENT_WHOLE_NONE */
    uint64_t whole;
    uint8_t *buf;
    uint64_t file_ns, queue_ns; /* that its server has worked on it, and that it has waited there */
    bool yields_early;          /* the server may run on this core while the caller waits */
    bool sleeps_early;          /* the cores are wanted for the data of several clients */
    bool busy;                  /* the reply says so */
    bool unawaited;             /* nobody waits for the reply */
    bool more_follows;          /* another request is sent to this server at once */
};

enum amph_client_link_state {
    AMPH_CLIENT_LINK_NONE,
    AMPH_CLIENT_LINK_READY,
    AMPH_CLIENT_LINK_DEAD
};

/* The connection to one server. */
struct amph_client_link {
    _Atomic uint32_t state;
    uint32_t server;            /* absolute number */
    _Atomic int control_fd;     /* control connection */
    bool near;                  /* the server maps the transfer area */
    amph_client_tunings_t pace; /* tuning of large calls */
    _Atomic uint32_t
        segment_which; /* number of the program's segment that the server has; 0: none */
    _Atomic uint32_t segment_refused; /* number of a segment that the server could not access */
    uint64_t cookie;
    uint8_t *part;                  /* the server's part of the transfer area, or NULL */
    _Atomic uint64_t slots;         /* bit set: free */
    struct amph_client_pipes pipes; /* to a server of this host */
    struct amph_client_receive_area receive_area; /* at a server of another host */
    _Atomic int child_control_fd;                 /* for the child about to be forked, or -1 */
    /* of the server's control socket; kept, so that forks need not ask for it */
    struct amph_fwd_server_addr address;
    bool has_address;
};

struct amph_fwd_client {
    struct amph_boot *boot;
    pthread_mutex_t boot_lock;
    const struct amph_jobdesc *job;
    struct amph_am_ep *ep;
    uint32_t rank, number, first; /* first: absolute number of server 0 */
    /* rank, or, at standing servers, that of another launcher's program */
    uint32_t hello_rank;
    uint32_t nlinks, nservers, servers[AMPH_FWD_PARTS_MAX];
    pid_t pid;
    /* in a child of fork: the client is the parent's, and so is the memory that its endpoint shares.  Only a call that
     * the handler of a signal has interrupted, and to which the child returns from it, still has this client. */
    _Atomic bool left;
    /* number of dead servers; value when locks were last recovered (recovery/reopen.c) */
    _Atomic uint32_t deaths, deaths_seen;
    uint64_t give_up_ns; /* attach.c: a server must have answered until then; 0: no limit */
    bool failover;       /* another server takes the place of a dead one */
    struct amph_client_link *link; /* [nlinks] by server - first */
    uint8_t *area;
    struct amph_am_mem area_mem;
    /* of segment number segment_which; guarded by amph_client_state.lock */
    struct amph_am_mem segment_mem;
    uint32_t segment_which;
    /* minimum of st_blksize that stat reports for regular files */
    uint64_t block;
    size_t part_bytes, piece; /* piece: size of a slot */
    uint32_t nslots, nparts, parts_used;
    /* servers of this host that work on one call at a time */
    uint32_t near_readers, near_writers;
    _Atomic uint64_t pends; /* bit set: free */
    _Atomic uint64_t counter;
    _Atomic uint64_t checked_ns;
    struct amph_client_pending pend[AMPH_CLIENT_PENDING_MAX];
};

/* The number of a server in messages and records, 0 to S-1, as in iofwd-ctl; server: absolute. */
static inline uint32_t amph_client_server_number(const struct amph_fwd_client *cl, uint32_t server)
{
    return server - cl->first;
}

/* client/attach/link.c: returns the link to a server and opens it if necessary.  0 or EIO. */
int amph_client_link_to(struct amph_fwd_client *cl, uint32_t server,
                        struct amph_client_link **link_p);
/* client/attach/endpoint.c */
enum amph_status amph_client_open_endpoint(struct amph_fwd_client *cl);

/* The number of a process's host in the job description; that of this process for a rank of no job. */
static inline uint32_t amph_client_host_of(const struct amph_fwd_client *cl, uint32_t rank)
{
    uint32_t all = cl->job->nproc[AMPH_COMPUTE] + cl->job->nproc[AMPH_SERVER];
    return rank < all ? cl->job->proc[rank].host : cl->job->self_host;
}

/* client/attach/dead_servers.c */
/* Returns whether the servers are standing ones, without a launcher. */
bool amph_client_is_standing(const struct amph_fwd_client *cl);
void amph_client_link_dead(struct amph_fwd_client *cl, struct amph_client_link *link,
                           const char *why);
void amph_client_check(struct amph_fwd_client *cl); /* detects dead servers */
/* The same, once a millisecond at most, for calls that no server takes part in: they would not notice the end of
 * one, but then other clients no longer see this client's changes, and the program must hear of it. */
void amph_client_check_at_times(struct amph_fwd_client *cl);
/* Spreads handles and the like over a table. */
static inline uint32_t amph_client_hash(uint64_t v)
{
    return (uint32_t)(v * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}
/* Moves the client's descriptor away from the numbers that the program expects to get.  -1: it has been closed. */
static inline int amph_client_fd_up(int fd)
{
    int up = fcntl(fd, F_DUPFD_CLOEXEC, AMPH_CLIENT_FDS_FROM);

    close(fd);
    return up;
}
/* client/attach/link.c */
/* Makes this process a client of the link's server, by a connection that its previous image has left or by a new one.
 * AMPH_ERR_FULL: the server takes no further client now. */
enum amph_status amph_client_link_open(struct amph_fwd_client *cl, struct amph_client_link *link);
/* Asks the link's server, as the registrar, for a client number and a list of servers.  A process that has no number
 * yet becomes its client at once, if the server is the first of that list. */
enum amph_status amph_client_link_join(struct amph_fwd_client *cl, struct amph_client_link *link);
/* Creates shared memory for amph_shm_create if this process's limit of file sizes is too small for it: a server on
 * this host creates the object.  arg: the client. */
enum amph_status amph_client_make_memory(void *arg, size_t len_bytes, int *fd_p);
/* Returns false if the server has published no address. */
bool amph_client_server_address(struct amph_fwd_client *cl, uint32_t server,
                                struct amph_fwd_server_addr *addr_p);
/* Opens a connection to a server that carries no calls.  On AMPH_OK the caller owns *fd_p. */
enum amph_status amph_client_handshake(struct amph_fwd_client *cl,
                                       const struct amph_client_link *link, uint8_t kind,
                                       uint32_t child, struct amph_fwd_welcome *wc, int *fd_p);
/* Opens one that carries queries (wire/watch.h), which the caller closes; -1: the server refuses.  buf has
 * room for a frame. */
int amph_client_watch_server(struct amph_fwd_client *cl, uint32_t server, uint8_t *buf);
/* client/attach/clock.c: measures the clock of this host, if the process is recorded. */
void amph_client_clock_measure(struct amph_fwd_client *cl);
enum amph_status amph_client_link_child(struct amph_fwd_client *cl, struct amph_client_link *link,
                                        uint32_t *child_p);

/* client/trace.c: adds the layer `trace`, if calls are printed or recorded. */
void amph_client_trace_open(void);
/* Request p of the call that this thread traces has been answered. */
void amph_client_trace_request(const struct amph_fwd_client *cl,
                               const struct amph_client_pending *p);

/* client/call.c */
int amph_client_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args);
/* Executes a call once at the servers that its record names.  A dead server gives EIO, even with
 * failover. */
int amph_client_once(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args);
/* Executes a call without file data at one server. */
int amph_client_simple(struct amph_fwd_client *cl, struct amph_client_link *link,
                       enum amph_fwd_id id, void *args);
/* Sends a call without results to a server and does not wait for the reply, which is dropped.  0, or EIO: it could not
 * be sent. */
int amph_client_send_only(struct amph_fwd_client *cl, uint32_t server, enum amph_fwd_id id,
                          void *args);
int amph_client_special(struct amph_fwd_client *cl, struct amph_client_link *link, uint16_t service,
                        const void *body, size_t len, void *out, size_t cap, size_t *got_p);
void amph_client_on_reply(struct amph_token *token, const struct amph_am *am);

/* client/closes.c: adds the layer `closes`. */
void amph_client_closes_open(void);
/* A request is sent whose answer is not waited for (amph_client_send_only). */
void amph_client_unawaited_note(void);
/* Waits until all of these have been executed, before another connection to their servers is used. */
void amph_client_unawaited_await(void);

/* client/offsets.c: adds the layer `offsets`. */
void amph_client_offsets_open(void);
/* The offsets of open files are going to be moved by others than this layer's calls. */
void amph_client_offsets_forget_all(void);

/* client/layer.c: raises st_blksize of regular files, in what a call has returned, to a size that suits
 * forwarding; each smaller call costs a round trip. */
void amph_client_raise_block_size(const struct amph_fwd_client *cl, struct amph_fwd_call *call);

/* client/two_names.c: after a call returned EXDEV.  If it has two names below directories that are
 * open at different servers, repeats it with both at that server; else returns EXDEV. */
int amph_client_pair(struct amph_fwd_client *cl, struct amph_client_link *link, enum amph_fwd_id id,
                     void *args);

/* Pieces of a call, for client/data/bulk.c.  All with signals blocked. */

/* Returns whether the preload library is loaded, which then reports forks. */
bool amph_client_is_interposed(void);
void amph_client_sigguard_enter(struct amph_client_sigguard *g);
void amph_client_sigguard_leave(struct amph_client_sigguard *g);
bool amph_client_pending_is_done(const struct amph_client_pending *p);
struct amph_client_pending *amph_client_pending_try(struct amph_fwd_client *cl);
struct amph_client_pending *amph_client_pending_acquire(struct amph_fwd_client *cl);
void amph_client_pending_release(struct amph_fwd_client *cl, struct amph_client_pending *p);
/* Sends one request; bulk NULL: no file data; data: inline data of a bulk call.  On 0, p waits for
 * its reply; otherwise returns an errno value. */
int amph_client_pending_send(struct amph_fwd_client *cl, struct amph_client_link *link,
                             struct amph_client_pending *p, const struct amph_fwd_bulk *bulk,
                             const void *data);
/* Performs one step of a wait for replies.  Returns true periodically: the caller may deliver
 * signals. */
struct amph_client_wait {
    struct amph_waiter w;
    uint64_t next_ns;
    unsigned rounds;
};
#define AMPH_CLIENT_WAIT_INIT \
    { \
        .w = {.soon = true } \
    }

/* Removes from *mask_p the signals that end or stop the program in the midst of a call: those with
 * the default action that the program does not block. */
void amph_client_wait_mask(sigset_t *mask_p);
/* Delivers such signals if they are pending. */
void amph_client_let_default_actions_in(void);
bool amph_client_wait_step(struct amph_fwd_client *cl, struct amph_client_wait *wait);
/* Delivers signals that do not end the wait. */
void amph_client_let_signals_in(struct amph_client_sigguard *g);
/* Waits for the reply.  let_in: delivers signals periodically.  0 or an errno value. */
int amph_client_pending_wait(struct amph_fwd_client *cl, struct amph_client_link *link,
                             struct amph_client_pending *p, struct amph_client_sigguard *let_in);

/* client/data/segment.c: returns whether this buffer is in the program's segment and the server can
 * access it there.  Signals are not blocked. */
bool amph_client_segment_holds(struct amph_fwd_client *cl, struct amph_client_link *link,
                               const void *data, size_t len, uint64_t *at_p);

/* client/data/bulk.c: executes a read or write of any size; changes *d */
int amph_client_bulk(struct amph_fwd_client *cl, struct amph_client_link *link,
                     struct amph_client_data *d);
/* The same on a striped file; home: the link to its first server. */
int amph_client_spread(struct amph_fwd_client *cl, struct amph_client_link *home,
                       struct amph_client_data *d);

/* client/lock_holder.c: if the holder of a lock is another server's process, replaces it by that server's client.
 * false: that is on another host */
bool amph_client_lock_holder(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                             struct flock *found, bool asks_home);

/* client/readiness.c */
bool amph_client_notify_owns(int fd);
/* in a forked child: closes the parent's notifiers, except those of epoll sets */
void amph_client_notify_forget(void);

/* client/attach/exec.c: is a file of one part among those that a program inherits? */
bool amph_client_keeps(const struct amph_fwd_kept *kept, const struct amph_fwd_ref *ref);

/* client/attach/lifecycle.c: what fork and posix_spawn have in common before a child is made.  Returns the process's
 * client, or NULL; amph_fwd_fork_parent ends it. */
struct amph_fwd_client *amph_client_fork_begin(void);

/* client/attach/lifecycle.c: returns the open file of a descriptor, from its placeholder's name.  nparts
 * 0: not forwarded.  EBADF. */
int amph_client_file_of_fd(int fd, struct amph_fwd_file *file);

#endif

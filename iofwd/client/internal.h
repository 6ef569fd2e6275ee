/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the file client, shared by its files.  Layer: iofwd.
 *
 * Thread rule.  Links and the client itself are made under amph_client_state.lock with signals
 * blocked; a call touches only its own pending records and slots, which it takes and gives back
 * with atomic operations.  Signals are blocked while a call uses the endpoint (a handler that makes
 * a forwarded call could otherwise wait for a lock that its own thread holds) and let in now and
 * then while a call only waits.
 */
#ifndef AMPH_IOFWD_CLIENT_INT_H
#define AMPH_IOFWD_CLIENT_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "am/am.h"
#include "boot/boot.h"
#include "iofwd/client/client.h"
#include "iofwd/client/data.h"
#include "iofwd/client/tuning.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/marshal.h"

#define AMPH_CLIENT_PENDING_MAX 64      /* requests of this process under way at one time */
#define AMPH_CLIENT_PENDING_BYTES 45056 /* of one request: header, two paths, inline data */
#define AMPH_CLIENT_INLINE_NEAR \
    1024 /* up to here data travels in the message to a server that maps our area */
#define AMPH_CLIENT_INLINE_FAR 32768 /* and to one that does not */
#define AMPH_CLIENT_WINDOW 8         /* pieces of one call under way */
#define AMPH_CLIENT_FDS_FROM \
    64 /* the client's descriptors lie above this, out of the program's way */

enum amph_client_pending_state {
    AMPH_CLIENT_PENDING_FREE,
    AMPH_CLIENT_PENDING_WAITING,
    AMPH_CLIENT_PENDING_FILLING,
    AMPH_CLIENT_PENDING_DONE,
    AMPH_CLIENT_PENDING_ABANDONED
};
#define AMPH_CLIENT_WHOLE_NONE UINT64_MAX
#define AMPH_CLIENT_PENDING_WORD(seq, state) ((seq) << 3 | (uint64_t)(state))

/* A request that waits for its reply. */
struct amph_client_pending {
    /* AMPH_CLIENT_PENDING_WORD: a late reply of a call before this one never fits */
    _Atomic uint64_t state;
    uint32_t peer; /* place of its server in the endpoint */
    uint64_t seq;
    /* NULL: a service without a table row; raw gets its answer */
    const struct amph_fwd_call_desc *desc;
    void *args; /* the call's record: results go where it points */
    int error;
    uint8_t *data;    /* inline data of a read goes here */
    size_t want, got; /* bytes of a bulk piece */
    /* of the open file's offset, where the server says so; else 0 */
    uint32_t moves;
    /* bytes that the call of this piece came to, where the server says so; else
     * AMPH_CLIENT_WHOLE_NONE */
    uint64_t whole;
    uint8_t *buf;
    uint64_t server_ns; /* that its server has worked on it */
    bool lends;         /* its server may use this core meanwhile */
};

enum amph_client_link_state {
    AMPH_CLIENT_LINK_NONE,
    AMPH_CLIENT_LINK_READY,
    AMPH_CLIENT_LINK_DEAD
};

/* The way to one server. */
struct amph_client_link {
    _Atomic uint32_t state;
    uint32_t server; /* absolute number */
    int door;
    bool near;                        /* it maps our area */
    amph_client_tunings_t pace;       /* how large calls travel best */
    _Atomic uint32_t segment_which;   /* the program's segment that the server knows; 0: none */
    _Atomic uint32_t segment_refused; /* and one that it could not reach */
    uint64_t cookie;
    uint8_t *part;          /* our part of the transfer area for it, or NULL */
    _Atomic uint64_t slots; /* bit set: free */
    int child_door;         /* for the child about to be forked, or -1 */
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
    /* of servers; of those whose locks have been taken anew elsewhere */
    _Atomic uint32_t deaths, deaths_seen;
    bool failover;                 /* another server takes over from one that dies */
    struct amph_client_link *link; /* [nlinks] by server - first */
    uint8_t *area;
    struct amph_am_mem area_mem;
    /* of the segment number segment_which; amph_client_state.lock */
    struct amph_am_mem segment_mem;
    uint32_t segment_which;
    /* the least size of calls that stat tells of a regular file as the best */
    uint64_t block;
    size_t part_bytes, piece; /* piece: of a slot, the largest there are */
    uint32_t nslots, nparts, parts_used;
    /* servers of this host that are to work on one call at one time */
    uint32_t near_readers, near_writers;
    bool demotes;           /* see amph_cache_demote */
    _Atomic uint64_t pends; /* bit set: free */
    _Atomic uint64_t counter;
    _Atomic uint64_t checked_ns;
    struct amph_client_pending pend[AMPH_CLIENT_PENDING_MAX];
};

/* What outlives a client: connections that a forked child or a new image goes on with. */
struct amph_client_inherited {
    bool any;
    uint32_t number;
    uint32_t n;
    uint32_t server[AMPH_FWD_PARTS_MAX];
    int door[AMPH_FWD_PARTS_MAX];
    char alone[256]; /* a new image: open files that no other process has (coalesce/coalesce.h) */
};

struct amph_client_state {
    pthread_mutex_t lock;
    struct amph_fwd_client *_Atomic client;
    int failed;        /* errno of a client that could not be opened */
    uid_t failed_euid; /* who it was then */
    bool looked;       /* at IOFWD_DOOR */
    bool new_image;    /* inherited is from the image before this one */
    struct amph_client_inherited inherited;
};

extern struct amph_client_state amph_client_state;

/* client/attach.c: gets the way to a server, opened if need be.  0 or EIO. */
int amph_client_link_to(struct amph_fwd_client *cl, uint32_t server,
                        struct amph_client_link **link_p);
void amph_client_link_dead(struct amph_fwd_client *cl, struct amph_client_link *link,
                           const char *why);
void amph_client_check(struct amph_fwd_client *cl); /* are the servers still there? */
/* Opens a connection to a server that carries no calls: *fd_p is the caller's where it is
 * AMPH_OK. */
enum amph_status amph_client_handshake(struct amph_fwd_client *cl,
                                       const struct amph_client_link *link, uint8_t kind,
                                       uint32_t child, struct amph_fwd_welcome *wc, int *fd_p);
enum amph_status amph_client_link_child(struct amph_fwd_client *cl, struct amph_client_link *link,
                                        uint32_t *child_p);

/* What servers have said to this thread of calls that moved an offset: how many of its calls, and
 * the last number of moves. */
struct amph_client_told {
    uint32_t calls, moves;
};

extern _Thread_local struct amph_client_told amph_client_told AMPH_HIDDEN;

/* client/trace.c: adds the layer `trace`, if IOFWD_TRACE is set. */
void amph_client_trace_open(void);
/* Of the call that this thread traces; NULL: none. */
extern _Thread_local struct amph_fwd_trace_sum *amph_client_trace_sum AMPH_HIDDEN;
/* A request of it has been answered. */
void amph_client_trace_request(uint32_t server, uint64_t ns);

/* client/call.c */
int amph_client_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args);
/* At the servers that the record names, once; a server that dies is EIO, also where another could
 * take over. */
int amph_client_once(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args);
/* A call without file data, at one server. */
int amph_client_simple(struct amph_fwd_client *cl, struct amph_client_link *link,
                       enum amph_fwd_id id, void *args);
int amph_client_special(struct amph_fwd_client *cl, struct amph_client_link *link, uint16_t service,
                        const void *body, size_t len, void *out, size_t cap, size_t *got_p);
void amph_client_on_reply(struct amph_token *token, const struct amph_am *am);

/* client/two_names.c: a call at that server has given EXDEV.  If it has two names, of directories
 * at different servers, it is made with both at that one; else it is EXDEV. */
int amph_client_pair(struct amph_fwd_client *cl, struct amph_client_link *link, enum amph_fwd_id id,
                     void *args);

/* Pieces of a call, for client/bulk.c.  All with signals blocked. */
struct amph_client_sigguard {
    sigset_t old;
    int cancel;
    int inside;     /* what amph_fwd_set_inside's function gave */
    bool ends_wait; /* a signal handler that does not ask for SA_RESTART ends the call with EINTR */
};

/* the preload library is there: it says when the process forks */
bool amph_client_is_interposed(void);
void amph_client_sigguard_enter(struct amph_client_sigguard *g);
void amph_client_sigguard_leave(struct amph_client_sigguard *g);
bool amph_client_pending_is_done(const struct amph_client_pending *p);
struct amph_client_pending *amph_client_pending_try(struct amph_fwd_client *cl);
struct amph_client_pending *amph_client_pending_acquire(struct amph_fwd_client *cl);
void amph_client_pending_release(struct amph_fwd_client *cl, struct amph_client_pending *p);
/* Sends one request; bulk NULL: none; data: of the bulk call, inline.  0 or an errno value; then p
 * waits for its reply. */
int amph_client_pending_send(struct amph_fwd_client *cl, struct amph_client_link *link,
                             struct amph_client_pending *p, const struct amph_fwd_bulk *bulk,
                             const void *data);
/* One step of a wait for replies; true, every now and then: signals may be let in. */
struct amph_client_wait {
    struct amph_waiter w;
    uint64_t next_ns;
    unsigned rounds;
};
#define AMPH_CLIENT_WAIT_INIT \
    { \
        .w = {.soon = true } \
    }
bool amph_client_wait_step(struct amph_fwd_client *cl, struct amph_client_wait *wait);
/* where they do not end the wait */
void amph_client_let_signals_in(struct amph_client_sigguard *g);
/* Waits for the reply; let_in: signals may come in now and then.  0 or an errno value. */
int amph_client_pending_wait(struct amph_fwd_client *cl, struct amph_client_link *link,
                             struct amph_client_pending *p, struct amph_client_sigguard *let_in);

/* client/segment.c: does this buffer lie in the program's segment, and can that server reach it
 * there?  Signals are not blocked. */
bool amph_client_segment_holds(struct amph_fwd_client *cl, struct amph_client_link *link,
                               const void *data, size_t len, uint64_t *at_p);

/* client/bulk.c: a read or write of any size; d is used up */
int amph_client_bulk(struct amph_fwd_client *cl, struct amph_client_link *link,
                     struct amph_client_data *d);
/* The same on a file of several parts; home: the way to its first. */
int amph_client_spread(struct amph_fwd_client *cl, struct amph_client_link *home,
                       struct amph_client_data *d);

/* client/lock_holder.c: a lock that a server has found, where to its kernel another server holds
 * it: names that one's client instead */
void amph_client_lock_holder(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                             struct flock *found);

/* client/readiness.c */
bool amph_client_notify_owns(int fd);
/* in a forked child: they are its parent's, but for those of epoll sets */
void amph_client_notify_forget(void);

/* client/lifecycle.c: the open file behind a descriptor; its placeholder's name says which.  nparts
 * 0: not forwarded.  EBADF. */
int amph_client_file_of_fd(int fd, struct amph_fwd_file *file);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active-message endpoints: handlers, request and reply, credits, polling and waiting, and the
 * one-sided transfers that go with them.  Layer: am.
 *
 * The runtime of extended/ has one endpoint for the processes of its group.  iofwd has another, for
 * compute processes and servers.  An endpoint opens up to two conduit instances: smp for peers
 * on the same host (and for itself), a network for the others.  The map of the files is in
 * am/README.md.
 *
 * Thread rule.  cfg.threaded false: one thread at a time, no locks are taken.  true: any thread at
 * any time; a poll lock lets one thread make progress (others skip), a send lock guards the send
 * side.  Handlers run inside amph_am_poll, under the poll lock, on the polling thread.  A
 * handler of a request may send one reply and nothing else on the same endpoint, but may use
 * another endpoint.
 */
#ifndef AMPH_AM_AM_H
#define AMPH_AM_AM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auth.h"
#include "base/platform.h"
#include "base/status.h"
#include "conduits/conduit.h"

struct amph_am_ep;

/* Index ranges of the 256 handlers. */
enum {
    AMPH_AM_INDEX_AM = 1,
    AMPH_AM_INDEX_EXTENDED = 64,
    AMPH_AM_INDEX_IOFWD = 96,
    AMPH_AM_INDEX_CLIENT = 128
};

/* The context of a received message, valid until its handler returns. */
struct amph_token {
    struct amph_am_ep *ep;
    uint32_t peer;
    const struct amph_am *am;
    const struct amph_am_entry *entry;
    bool is_request;
    bool replied;
};

/* The form of internal handlers.  am->payload: the payload of a medium, or of a long at its address
 * in this process. */
typedef void (*amph_am_fn)(struct amph_token *token, const struct amph_am *am);

/* One handler.  Client handlers (of the GASNet API) have the form fn(token, [buf, nbytes,] arg0,
 * ... arg<nargs-1>). */
struct amph_am_entry {
    void *fn; /* amph_am_fn, or the client's function */
    bool client_form;
    /* bit mask: 1 short, 2 medium, 4 long (as GEX_FLAG_AM_SHORT ...); checked at delivery */
    uint8_t kinds;
    uint8_t dirs; /* bit mask: 1 request, 2 reply */
    int nargs;    /* expected number of arguments, or -1: any */
    const void *cdata;
    const char *name;
};

struct amph_am_config {
    const char *name; /* "am", "iofwd" */
    uint32_t domain;  /* separates the cookies of endpoints (1 am, 2 iofwd) */
    uint32_t max_peers;
    bool threaded;
    /* all memory of each process can be accessed: put, get and longs are messages, even between
     * neighbours */
    bool anywhere;
    bool use_smp; /* peers on the same host through shared memory (AMPHORA_SMP) */
    const struct amph_conduit_ops *net; /* network conduit or NULL */
    bool loopback_only;                 /* the whole job is on this machine */
    /* messages that follow others closely may be kept back for a moment, to be sent together; a
     * conduit may start a thread for that */
    bool bursts;
    /* address or interface on which to listen if AMPHORA_INTERFACE is not set; NULL: that of the
     * route to other hosts.  Used while the endpoint is opened. */
    const char *interface;
    uint32_t incoming; /* opening fails if descriptors for as many connections from peers lack */
    /* amph_am_host_id of the job's name for this host; peers with another one never use smp */
    uint64_t host_id;
    uint8_t key[AMPH_KEY_BYTES];
    /* NULL: fatal */
    void (*on_peer_error)(struct amph_am_ep *ep, uint32_t peer, enum amph_status st,
                          const char *why);
    void *user; /* amph_am_user */
};

/* The number that represents a host's name in addresses.  Use the name of the job description,
 * where simulated hosts have different names; NULL or "": the kernel's host name. */
uint64_t amph_am_host_id(const char *host_name);

enum amph_status amph_am_open(const struct amph_am_config *cfg, struct amph_am_ep **ep_p);
void amph_am_close(struct amph_am_ep *ep);
void *amph_am_user(struct amph_am_ep *ep);

/* Portable bytes that let a peer reach this endpoint (both conduits and the host's identity); owned
 * by the endpoint. */
const void *amph_am_address(struct amph_am_ep *ep, size_t *len_bytes_p);
#define AMPH_AM_ADDR_MAX_BYTES 360

#define AMPH_AM_WHY_MAX_BYTES 384
struct amph_am_why {
    const char *peer, *self;          /* what the sentence calls the peer's process and this one */
    char text[AMPH_AM_WHY_MAX_BYTES]; /* the sentence; empty: the reason is another */
};

/* Makes a peer reachable.  addr: its amph_am_address.  remote_index: this endpoint's number at the
 * peer.  my_id, peer_id: the numbers that both sides use in the cookie (absolute ranks, client
 * numbers).  Host identity and use_smp decide which conduit is used, the width of pointers whether
 * put and get are messages.  why: gets the reason if the address is malformed or no conduit leads to it;
 * NULL: that none does is logged.  Errors: AMPH_ERR_PROTO (malformed address), AMPH_ERR_PEER,
 * AMPH_ERR_RANGE, AMPH_ERR_STATE. */
enum amph_status amph_am_add_peer(struct amph_am_ep *ep, uint32_t peer, const void *addr,
                                  size_t addr_len, uint32_t remote_index, uint32_t my_id,
                                  uint32_t peer_id, struct amph_am_why *why);
void amph_am_del_peer(struct amph_am_ep *ep, uint32_t peer);
/* The caller knows that peer is dead, and waits for its puts and gets before it removes the peer:
 * those that need an answer from the peer complete with AMPH_ERR_PEER.  Not from inside a
 * handler. */
void amph_am_peer_gone(struct amph_am_ep *ep, uint32_t peer);
/* reached through shared memory */
bool amph_am_peer_is_local(struct amph_am_ep *ep, uint32_t peer);
const char *amph_am_peer_conduit(struct amph_am_ep *ep, uint32_t peer);

/* The name of the network conduit, or of smp if the endpoint has no network. */
const char *amph_am_network(struct amph_am_ep *ep);

/* Marks peer as dead (by the launcher's death notice, or because a conduit found it unreachable).
 * Sends to it fail with AMPH_ERR_PEER from now on, including those that wait for room.  Calls
 * cfg.on_peer_error once. */
void amph_am_peer_failed(struct amph_am_ep *ep, uint32_t peer, enum amph_status st,
                         const char *why);

/* Sets a function that is called from waits (after each sleep, at most 10 ms apart) and from
 * many idle polls in a row, never from inside a handler.  It polls slow sources such as the
 * launcher's connection.  NULL: none. */
void amph_am_set_tick(struct amph_am_ep *ep, void (*tick)(struct amph_am_ep *ep));

/* Sets a function that is called, under the poll lock, for each authenticated message without a
 * matching handler.  GASNet requires that a job ends if a handler has not been registered.  NULL:
 * none. */
void amph_am_set_refused(struct amph_am_ep *ep,
                         void (*refused)(struct amph_am_ep *ep, uint32_t peer,
                                         const struct amph_am *am, const char *why));

/* Makes *counter the number of messages that this endpoint has sent to itself and that have not been
 * handled yet; any thread may read it by atomic loads.  While no other thread uses the endpoint. */
void amph_am_count_own(struct amph_am_ep *ep, uint32_t *counter);

/* Sets handler `index`; AMPH_ERR_STATE if it is taken, AMPH_ERR_RANGE, AMPH_ERR_ARG (nargs above
 * 16). entry is copied. */
enum amph_status amph_am_register(struct amph_am_ep *ep, unsigned index,
                                  const struct amph_am_entry *entry);
const struct amph_am_entry *amph_am_handler(struct amph_am_ep *ep, unsigned index); /* NULL: none */

/* ---- contexts: further sets of handlers and segments ---- */

/* An endpoint has up to AMPH_AM_CONTEXTS contexts; all calls above use context 0.  A message
 * names the contexts of its sender and its target in am->flags (AMPH_AM_ROUTE).  A reply has
 * AMPH_AM_ROUTE_BACK of the request's flags. */
#define AMPH_AM_CONTEXTS 16u
#define AMPH_AM_ROUTE(from, to) ((uint8_t)((from) << 4 | (to)))
#define AMPH_AM_ROUTE_TO(flags) ((unsigned)(flags)&15u)
#define AMPH_AM_ROUTE_BACK(flags) ((uint8_t)((flags) >> 4 | (flags) << 4))

/* Makes context n (1 to AMPH_AM_CONTEXTS - 1).  AMPH_ERR_RANGE, AMPH_ERR_STATE (made already),
 * AMPH_ERR_NOMEM.  It lives as long as the endpoint. */
enum amph_status amph_am_context_open(struct amph_am_ep *ep, unsigned n);
/* As amph_am_register and amph_am_set_segment, for a context. */
enum amph_status amph_am_context_register(struct amph_am_ep *ep, unsigned n, unsigned index,
                                          const struct amph_am_entry *entry);
void amph_am_context_segment(struct amph_am_ep *ep, unsigned n, void *base, size_t len_bytes);
/* Sets the function that looks up the segments of the peers' contexts from 1 on.  It returns
 * NULL if none is known. */
void amph_am_context_lookup(struct amph_am_ep *ep,
                            const struct amph_rmem *(*segment_of)(struct amph_am_ep *ep,
                                                                  uint32_t peer, unsigned context));

/* ---- sending ---- */

#define AMPH_AM_IMMEDIATE 1u /* return AMPH_AGAIN instead of waiting for room */

/* Sends a request.  Waits for room by polling (running handlers) unless AMPH_AM_IMMEDIATE.
 * am->kind: SHORT, MEDIUM or LONG; for LONG am->payload is the source and am->dest the address in
 * the peer's segment (see amph_am_set_peer_segment); the endpoint chooses between mapping, packing
 * and put-then-send.  The source may be reused at lc->done or, if lc is NULL, on return.
 * am->aux is reserved for the endpoint and must be 0; am->flags: 0, or AMPH_AM_ROUTE; am->more: the
 * caller sends more to this peer at once (a message, a put), or polls or waits.  From
 * inside a handler or done callback of the same endpoint only with IMMEDIATE (else
 * AMPH_ERR_STATE when there is no room).  Errors: AMPH_ERR_ARG, AMPH_ERR_RANGE, AMPH_ERR_PEER
 * (dead or not added), AMPH_ERR_STATE; AMPH_AGAIN only with IMMEDIATE. */
enum amph_status amph_am_request(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                                 unsigned flags, struct amph_op *lc);

/* Replies to the request of token, once, from inside its handler.  Never waits: if there is no
 * room, the reply is copied, lc is called, and the endpoint sends it later.  Until then the
 * endpoint receives replies only, which can always be handled, so two processes never wait for
 * each other. With IMMEDIATE it returns AMPH_AGAIN instead.  AMPH_ERR_STATE: no request, or
 * replied already. */
enum amph_status amph_am_reply(struct amph_token *token, const struct amph_am *am, unsigned flags,
                               struct amph_op *lc);

/* A negotiated payload: room in the conduit's memory, from amph_am_prepare to commit or cancel. */
struct amph_am_prep {
    uint32_t peer;
    uint8_t lane; /* enum amph_lane */
    void *buf;    /* aligned to 16 */
    size_t len_bytes;
};

/* Returns room for the payload of a medium to peer: max_bytes or, if there is not enough room now,
 * min_bytes.  Sets *prep only on success.  AMPH_ERR_NOSYS: the conduit does not support this, use
 * amph_am_request with memory of your own; AMPH_AGAIN: no room now; AMPH_ERR_PEER, AMPH_ERR_RANGE.
 * Never waits; any thread; several may be prepared. */
enum amph_status amph_am_prepare(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane,
                                 size_t min_bytes, size_t max_bytes, struct amph_am_prep *prep);
/* Sends am, a medium whose payload is prep->buf, as amph_am_request and amph_am_reply would.  prep
 * is over except with AMPH_AGAIN. */
enum amph_status amph_am_commit_request(struct amph_am_ep *ep, const struct amph_am_prep *prep,
                                        const struct amph_am *am, unsigned flags);
enum amph_status amph_am_commit_reply(struct amph_token *token, const struct amph_am_prep *prep,
                                      const struct amph_am *am, unsigned flags);
void amph_am_cancel(struct amph_am_ep *ep, const struct amph_am_prep *prep);
/* Returns true if a message to peer would probably find room now. */
bool amph_am_has_room(struct amph_am_ep *ep, uint32_t peer, enum amph_lane lane);

/* Largest payload in bytes; peer AMPH_RANK_NONE: the minimum over all conduits. */
uint32_t amph_am_max_medium(struct amph_am_ep *ep, uint32_t peer);
uint32_t amph_am_max_long(struct amph_am_ep *ep, uint32_t peer);

/* Makes progress once on all conduits: receives messages, runs handlers, completes operations.
 * Returns how many things it did. */
unsigned amph_am_poll(struct amph_am_ep *ep);
/* The same for a loop that waits: never yields. */
unsigned amph_am_poll_in_wait(struct amph_am_ep *ep);

/* ---- waiting ---- */

/* One wait in progress: spin, then yield, then block in the kernel.  Start with
 * AMPH_WAITER_INIT. */
struct amph_waiter {
    uint32_t rounds;
    uint64_t start_ns;
    uint64_t nap_ns;
    uint64_t now_ns; /* when the clock was last read */
    uint32_t seen;   /* the endpoint's event count when the condition was last checked */
    uint8_t phase;   /* what the next idle step does */
    bool spun;       /* it has spun without success before it yielded */
    /* set by a caller whose condition is about to come true: sleeps late even if processes
     * outnumber cores */
    bool soon;
    uint32_t yields; /* since it spun */
    /* set by a caller whose condition comes true sooner if others can use its core: yields at
     * once */
    bool yields_early;
    /* set by a caller that waits for stores of its neighbours, and cleared when it has kept its
     * core in vain (extended/coll/yield.c) */
    bool neighbours;
    /* set by a caller whose condition may come true by a store of another process, which wakes nobody */
    bool unannounced;
};

enum amph_waiter_phase {
    AMPH_WAITER_SPINS,
    AMPH_WAITER_YIELDS,
    AMPH_WAITER_SLEEPS
};
#define AMPH_WAITER_INIT \
    { \
        .phase = AMPH_WAITER_SPINS \
    }

/* Polls; if nothing happened, spins, yields or sleeps by the wait policy.  Never sleeps longer
 * than 10 ms in the first second, 40 ms after it, so that a change without a message is seen
 * too. Use: while (!condition) amph_am_wait_step(ep, &w); */
void amph_am_wait_step(struct amph_am_ep *ep, struct amph_waiter *w);

/* For callers whose condition becomes true without a message, by another process's store.  They say
 * when it has (amph_am_wait_found), so that later waits know whether spinning helps.  A caller that
 * spins by itself first asks whether it may, and goes on with a wait that has spun, or may not
 * (amph_am_wait_after_spin). */
void amph_am_wait_found(struct amph_waiter *w);
bool amph_am_may_spin(void);
void amph_am_wait_after_spin(struct amph_waiter *w, bool spun);

/* Wakes a thread that sleeps in amph_am_wait_step on this endpoint.  Any thread, also signal
 * handlers. */
void amph_am_kick(struct amph_am_ep *ep);

/* Returns the descriptor that amph_am_kick writes to.  A thread that has a descriptor table of its own
 * and calls amph_am_kick must have it there, under this number. */
int amph_am_kick_fd(const struct amph_am_ep *ep);

/* Adds a descriptor that ends a sleep of this endpoint when it is readable (a server's listener,
 * the control socket). */
enum amph_status amph_am_watch_fd(struct amph_am_ep *ep, int fd);
void amph_am_unwatch_fd(struct amph_am_ep *ep, int fd);

enum amph_wait_mode {
    AMPH_WAIT_ADAPTIVE,
    AMPH_WAIT_SPIN,
    AMPH_WAIT_BLOCK
};

void amph_am_set_wait_mode(enum amph_wait_mode mode); /* process-wide; initially AMPHORA_WAIT */
/* Sets how many processes of the job share this host's cores.  If they outnumber the cores,
 * waits do not spin; if they are many, idle ones wake up less often. */
void amph_am_set_oversubscribed(unsigned procs_on_host);
unsigned amph_am_cores(void); /* cores that the job may use on this host */

/* ---- one-sided transfers ---- */

/* Memory registered with all conduits of an endpoint. */
struct amph_am_mem {
    void *base;
    size_t len_bytes;
    struct amph_mem part[3];
    uint8_t key[3 * AMPH_KEY_BLOB_MAX_BYTES + 32]; /* portable bytes for amph_am_mem_import */
    size_t key_len;
};

enum amph_status amph_am_mem_reg(struct amph_am_ep *ep, void *base, size_t len_bytes, int fd,
                                 uint64_t fd_offset, struct amph_am_mem *mem);
void amph_am_mem_dereg(struct amph_am_ep *ep, struct amph_am_mem *mem);
enum amph_status amph_am_mem_import(struct amph_am_ep *ep, uint32_t peer, const void *key,
                                    size_t key_len, struct amph_rmem *rmem);
/* Releases imported memory.  No transfer may use it any more. */
void amph_am_mem_forget(struct amph_am_ep *ep, uint32_t peer, struct amph_rmem *rmem);

/* Lets peers on the same host access registered memory that is no shared-memory object
 * (amph_am_mem_reg with fd < 0), by messages.  Without it they cannot.  Called once, at the
 * start, on both sides.  AMPH_ERR_NOMEM, AMPH_ERR_STATE. */
enum amph_status amph_am_carry_open(struct amph_am_ep *ep);

/* Starts a put or get of offset..offset+len within rmem (checked: AMPH_ERR_RANGE).  Through a
 * mapping it is done at once (lc and rc are still called).  Waits for room by polling unless
 * AMPH_AM_IMMEDIATE; in handlers and done callbacks of the same endpoint only with rmem.local set
 * or IMMEDIATE. */
enum amph_status amph_am_put(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                             uint64_t offset, const void *src, size_t len_bytes, unsigned flags,
                             struct amph_op *lc, struct amph_op *rc);
enum amph_status amph_am_get(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem,
                             uint64_t offset, void *dst, size_t len_bytes, unsigned flags,
                             struct amph_op *done);

/* Are large payloads of messages to this peer sent from the caller's memory if there is an lc, and does that
 * complete without an answer of the peer? */
bool amph_am_sends_in_place(const struct amph_am_ep *ep, uint32_t peer);

/* Does a put to this peer read any memory of this process as fast as registered memory, and fail, without a fault
 * of this process, if the memory is gone? */
bool amph_am_puts_in_place(const struct amph_am_ep *ep, uint32_t peer);

/* Does a put to this peer arrive before a message that is sent to it afterwards? */
bool amph_am_put_arrives_first(const struct amph_am_ep *ep, uint32_t peer);

/* Long messages: sets this process's segment, to which peers may write (checked on delivery of
 * longs), and each peer's. */
void amph_am_set_segment(struct amph_am_ep *ep, void *base, size_t len_bytes);
/* Sets the process id of a peer on this host.  With cfg.anywhere or amph_am_carry_open, the
 * kernel then copies from and to its memory that is not mapped. */
void amph_am_set_peer_process(struct amph_am_ep *ep, uint32_t peer, int32_t pid);
void amph_am_set_peer_segment(struct amph_am_ep *ep, uint32_t peer, const struct amph_rmem *rmem);

/* ---- the job (am/job.c) ---- */

/* Runs an I/O server in a process that AMPHORA_SERVERS makes a server of a job of another launcher.
 * boot: its place in the job.  Returns the exit code.  libiofwd sets it when it is loaded. */
struct amph_boot;
extern int (*amph_job_serve)(struct amph_boot *boot);

struct amph_boot_event;
struct amph_gather;

/* The state of this process and its job. */
struct amph_job {
    struct amph_boot *boot;    /* of the joined process, or NULL */
    struct amph_am_ep *ep;     /* the runtime's endpoint, or NULL */
    uint32_t rank, size;       /* rank in the group, and its size */
    const char *built_conduit; /* the network that the program was built for, or NULL */
    const char *built_config;  /* GASNET_CONFIG_STRING of the program, or NULL */
    /* for GASNET_SEGMENT_EVERYTHING: all memory of each process can be accessed */
    bool built_anywhere;
    uint32_t first;    /* absolute number of the group's member 0 */
    size_t page_bytes; /* the job's page size (negotiated) */
    bool joined, exiting;
    int exit_code; /* of the exit in progress */
    /* member 0: number of members that are exiting; others: 1 if all are */
    unsigned exits_seen;
    bool member_died;    /* the launcher has said so */
    bool member_lost;    /* a member died, left, or cannot be reached any more */
    bool cause_awaited;  /* a fatal error has waited for the launcher's cause; atomic */
    bool drop_warned;    /* the first dropped message has been logged; atomic */
    uint64_t loss_at_ns; /* when messages to or from loss_peer were found lost; 0: none */
    uint32_t loss_peer;
    enum amph_status loss_st; /* AMPH_ERR_LOST or AMPH_ERR_DENIED */
    char loss_why[128];
    bool shutdown_requested;    /* the launcher ends the job, so this exit is not reported */
    uint64_t shutdown_at_ns;    /* when this process is ended if it has not exited by then */
    int32_t pid;                /* of the process that joined; a forked child has another */
    struct amph_gather *gather; /* amph_job_allgather's */
    uint8_t wait_mode;          /* enum amph_wait_mode */
    bool wait_mode_set, oversubscribed;
    uint8_t failed_spins; /* waits in a row whose spin kept the peer from this core */
    uint16_t
        waits_without_yields;  /* as many further waits sleep at once, because yields took long */
    uint16_t slow_yield_waits; /* its value after the next yield that takes long; 0: least */
    uint16_t skipped_spins;    /* spins skipped for that reason since the last one */
    uint16_t procs_a_core;     /* of this host */
    uint8_t sleep_factor; /* by which sleeps are longer because of many processes a core; 0: 1 */
    uint8_t store_waits;  /* as many further waits may end by a store, and have short sleeps */
    bool slept;           /* the last wait that may end so has slept and handled no message since */
    /* called with each event of the job before it is handled; or NULL */
    void (*on_event)(const struct amph_boot_event *event);
    void *extended; /* extended/'s own state */
    /* extended/'s form of amph_am_wait_step on ep, which does its work too; or NULL */
    void (*wait_step)(struct amph_waiter *w);
};

extern struct amph_job amph_job;

/* Returns true if the job has more processes on this host than cores. */
static inline bool amph_am_oversubscribed(void)
{
    return amph_job.oversubscribed;
}

/* Joins the job, opens the endpoint, exchanges addresses and negotiates the page size: the part
 * of the start that is independent of the API.  threaded: the client is PAR or PARSYNC.  Errors
 * are logged in one sentence. */
enum amph_status amph_job_start(bool threaded);

/* Negotiates the page size of a job from those of its processes: the largest.  AMPH_ERR_ARG,
 * with the indices of two that conflict, if one does not divide it. */
enum amph_status amph_am_page_negotiate(const uint32_t *page_bytes, size_t n, uint32_t *job_page_p,
                                        size_t *clash_a_p, size_t *clash_b_p);

/* Gathers len_bytes from each member of the group to all members, over active messages.  Blocks; does not
 * return if a member has died (amph_job_await_cause).  all: size * len_bytes. */
enum amph_status amph_job_allgather(const void *mine, size_t len_bytes, void *all);

/* Returns amph_status_text(st), for the message of an amph_fatal, and remembers AMPH_ERR_PEER: the
 * launcher may report the cause (am/exit.c).  Any thread. */
const char *amph_job_failure_text(enum amph_status st);

/* st is AMPH_ERR_PEER, by which a step of the start has failed: if the launcher knows of a death that explains it, it
 * says so and ends the job, and this does not return, so that this process says nothing (man amphora-run, HOW A
 * JOB ENDS).  Any other status: returns at once. */
void amph_job_await_cause(enum amph_status st);

/* Ends the process and the job with code, as gasnet_exit does: flushes the standard streams,
 * informs the launcher, waits up to GASNET_EXITTIMEOUT for the other members to exit, and calls
 * _exit. Callable from handlers and from any thread. */
void amph_job_exit(int code) AMPH_NORETURN;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The API's objects, and the state of extended/ (amph_job.extended).
 *
 *   init.c            gex_Client_Init and the start of a job; self_start.c: without a launcher
 *   system.c, amphora.c   queries of the job; objects.c: of clients and endpoints
 *   segment.c         gex_Segment_Attach and the segments of other members
 *   ep/ep.c           endpoints (ep/endpoint.h); ep/segment.c: segments of one endpoint
 *   ep/publish.c, query.c   bound segments of peers
 *   ep/thread.c       the progress thread
 *   ep/mk.c           memory kinds
 *   team/team.c       the table of teams (team/team.h); team/make.c: split and create
 *   team/exchange.c   all-gather over a team
 *   message.c         active messages (message.h); prepare.c: negotiated payload
 *   event.c           events and operations (event.h)
 *   pending.c         operations that wait for a reply (pending.h)
 *   check.c           checks of the client's use of the API in debug builds (check.h)
 *   rma/rma.c, memset.c, atomic.c   put and get, memset, remote atomics
 *   rma/vis.c         vector, indexed and strided put and get (vis.h): vis_rows.c: the two sides as
 *                     rows of pieces; vis_copy.c: in memory; vis_remote.c: to other hosts
 *   coll/             barriers and collectives (coll.h)
 *   gasnet1/          the calls of GASNet-1: gasnet1.c, barrier.c, coll.c, vis.c
 *   tools/            the portable tools (tools.h)
 *
 * Layer: extended; may include am/, conduits/, boot/, base/.  State is in struct amph_gex,
 * struct amph_gex_state (what exists without a job), struct amph_gex_thread (event.h) and
 * struct amph_tools_state.  Outside them are only variables of the API (amphora_team0,
 * amphora_own_messages, gasneti_mynode, gasneti_nodes, gasnet_client_attach_hook, gasnet_frozen,
 * gasnett_print_backtrace_ifenabled, amphora_tick_source), and thread-local the pointer to a
 * thread's state and its list of locks (tools/lock.c).
 *
 * Thread rule: fields that amphora_client_init and gex_Segment_Attach set are read-only afterwards;
 * the comments of the others name their lock.
 */
#ifndef AMPH_EXTENDED_GEX_H
#define AMPH_EXTENDED_GEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "am/am.h"
#include "amphora/endpoint.h"
#include "amphora/job.h"
#include "amphora/message.h"
#include "amphora/team.h"

/* Handlers of extended/. */
enum {
    AMPH_GEX_BARRIER = AMPH_AM_INDEX_EXTENDED,
    AMPH_GEX_WAKE,
    AMPH_GEX_MEMSET,
    AMPH_GEX_MEMSET_DONE,
    AMPH_GEX_COLL_DATA,
    AMPH_GEX_COLL_READY,
    AMPH_GEX_COLL_PUT,
    AMPH_GEX_AD = AMPH_AM_INDEX_EXTENDED + 12,
    AMPH_GEX_AD_DONE,
    AMPH_GEX_VIS_PUT,
    AMPH_GEX_VIS_DONE,
    AMPH_GEX_VIS_GET,
    AMPH_GEX_VIS_DATA,
    AMPH_GEX_VIS_NOTIFY,
    AMPH_GEX_EXCHANGE = AMPH_AM_INDEX_EXTENDED + 24,
    AMPH_GEX_BOUND_ASK,
    AMPH_GEX_BOUND_IS
};

/* AMPHORA_SEGMENT of clients that are built for GASNET_SEGMENT_EVERYTHING (threadmode.h). */
enum {
    AMPH_SEGMENT_EVERYTHING = 3
};

struct amphora_client {
    const char *name;
    gex_Flags_t flags;
    const void *cdata;
};

struct amphora_segment {
    struct amphora_client *client;
    void *base;
    size_t len_bytes;
    const void *cdata;
    struct amph_am_mem mem;
    struct amphora_mk *kind; /* of gex_Segment_Create; NULL: attached */
    /* of memory that the library allocated for gex_Segment_Create; -1: the client's memory */
    int fd;
};

struct amphora_ep {
    struct amphora_client *client;
    struct amphora_segment *segment; /* NULL: none bound */
    gex_EP_Index_t index;
    gex_EP_Capabilities_t capabilities;
    gex_Flags_t flags;
    const void *cdata;
    struct amph_am_ep *am;
    gex_AM_Entry_t entry[256]; /* what the client registered; gex_fnptr NULL: free */
};

/* A team; gex_TM_t points to its public part.  pub.reach is by the team's ranks. */
struct amph_team {
    struct amphora_team pub;
    struct amphora_ep *ep; /* this member's endpoint */
    gex_Flags_t flags;
    const void *cdata;
    /* names this member in messages (amph_gex_team_id_at); 0: of the primordial team */
    uint64_t id;
    /* [pub.size] job rank (am's peer number) of each rank; NULL: the same numbers */
    const uint32_t *member;
    const uint8_t *member_ep; /* [pub.size] the endpoints' indices; NULL: all 0 */
    /* [pub.size] index of each rank among the members of its process; NULL: all 0 */
    const uint8_t *slot;
    /* [pub.size] the ranks sorted by job rank; NULL: they are sorted */
    const uint32_t *order;
    gex_Memvec_t scratch;         /* the client's memory for collectives; length 0: none */
    uint32_t domains;             /* number of atomic domains over it; atomic */
    struct amph_gather *exchange; /* team/exchange.c */
    struct amph_team *next;       /* in its bucket of the table */
    struct amph_coll *coll;       /* coll.h; from amph_coll_team_open to amph_coll_team_close */
};

/* A set of processes in order of rank, and this process's index in it. */
struct amph_set {
    gex_RankInfo_t *info;
    gex_Rank_t count, self;
};

/* See amph_gex_found_done. */
enum {
    AMPH_GEX_FOUND_DONE_POLLS = 8
};

struct amph_gex {
    bool threaded; /* PAR or PARSYNC */
    bool attached;
    bool verbose;  /* non-fatal errors are logged */
    bool recorded; /* IOFWD_RECORD: puts and gets to neighbours pass through the library, too */
    int threadmode;
    struct amphora_client client;
    struct amphora_ep ep;
    struct amphora_segment segment;
    struct amph_team team;       /* the primordial one; its ranks are am's peer numbers */
    struct amphora_reach *reach; /* [size], of the primordial team */
    struct amph_rmem *rmem;      /* [size] segments of the members' endpoints 0 */
    /* [size] segments of their other endpoints, by index; NULL: none known; [0] is not used */
    struct amph_rmem *others[GASNET_MAXEPS];
    struct amphora_ep *eps[GASNET_MAXEPS]; /* this process's, by index; NULL: not made */
    struct amph_teams *teams;              /* team.c */
    struct amph_bounds *bounds;            /* ep.c */
    struct amph_progress *progress;        /* ep/thread.c; NULL: there is no progress thread */
    bool threads_queried;                  /* gex_System_QueryProgressThreads was called */
    size_t max_medium, max_long;           /* minimum over the job */
    uintptr_t max_local, max_global;       /* segment sizes */
    struct amph_set nbrhd, host;
    uint32_t *leader; /* [size] lowest rank of each member's neighbourhood */
    gex_Rank_t nbrhds, my_nbrhd, hosts, my_host;
    bool oversubscribed;          /* some host has more processes of the job than cores */
    struct amph_colls *colls;     /* coll.h */
    struct amph_handles *handles; /* extended/pending.c */
    uint32_t found_done;          /* amph_gex_found_done: its calls until it polls; atomic */
};

/* What exists without a job. */
struct amph_gex_state {
    struct amphora_team nobody; /* init.c: a team without members, amphora_team0 before the start */
    pthread_once_t key_made;    /* event.c: the key at whose end a thread's state is freed */
    pthread_key_t thread_key;
};

extern struct amph_gex_state amph_gex_state;

static inline struct amph_gex *amph_gex(void)
{
    return amph_job.extended;
}

/* The endpoint of this process with this index, or NULL. */
struct amphora_ep *amph_gex_ep_find(struct amph_gex *g, gex_EP_Index_t index);

/* Returns the state; fatal, naming the call, if the library is not initialised. */
struct amph_gex *amph_gex_need(const char *call);

/* Returns the team of a gex_TM_t; fatal if tm is not a team (a pair, a destroyed team). */
struct amph_team *amph_gex_team_of(gex_TM_t tm, const char *call);

/* The job rank of a member, by rank (not checked). */
static inline uint32_t amph_gex_team_member(const struct amph_team *team, gex_Rank_t rank)
{
    return team->member ? team->member[rank] : rank;
}

/* The id of the team at the process of its member `rank`, for amph_gex_team_find_locked there.
 * Messages to that member carry it. */
static inline uint64_t amph_gex_team_id_at(const struct amph_team *team, gex_Rank_t rank)
{
    return (team->id & ~UINT64_C(255)) | (team->slot ? team->slot[rank] : 0);
}

/* Returns am's peer number of member `rank` of tm; fatal if there is no such member. */
uint32_t amph_gex_team_peer(gex_TM_t tm, gex_Rank_t rank, const char *call);

/* Set up and free the collectives of a team (coll/team.c).  team.c calls open before any member can
 * use the team, and close when no member uses it.  close is fatal if a collective over the team is
 * in progress here. */
enum amph_status amph_coll_team_open(struct amph_team *team);
void amph_coll_team_close(struct amph_team *team);

/* team.c: makes the table of teams, with the primordial team. */
enum amph_status amph_gex_teams_open(struct amph_gex *g);
/* Updates the teams after segments have become reachable. */
void amph_gex_teams_refresh(struct amph_gex *g);

/* The target of a point-to-point call (tm, rank), where tm is a team or a pair. */
struct amph_dest {
    uint32_t peer;           /* am's peer number of the process */
    gex_EP_Index_t index;    /* of its endpoint */
    struct amphora_ep *from; /* this process's endpoint */
    /* the bound segment of its endpoint; len_bytes 0: none known here */
    const struct amph_rmem *rmem;
};

/* Returns the target; fatal if there is no such member. */
struct amph_dest amph_gex_team_dest(gex_TM_t tm, gex_Rank_t rank, const char *call);

/* The segment bound to endpoint `index` of a peer, as far as known; never NULL (len_bytes 0: none
 * known). */
const struct amph_rmem *amph_gex_ep_rmem(const struct amph_gex *g, uint32_t peer,
                                         gex_EP_Index_t index);

/* The API's error code for a status. */
int amph_gex_error(enum amph_status st);

/* Logs an error that a call returns, if the client has asked for that
 * (gex_System_SetVerboseErrors). */
void amph_gex_complain(const char *fmt, ...) AMPH_PRINTF(1, 2);

/* Makes progress on collectives; cheap if none is in progress.  Does not poll.  Not from
 * handlers. */
void amph_gex_progress(void);

/* Polls a few times, as long as own messages wait and something is handled: a request and its
 * reply. */
void amph_gex_poll_own(void);

/* Handles messages of this process to itself, if some wait.  What completes without a poll calls it:
 * a client may do nothing else.  In handlers it does nothing. */
static inline void amph_gex_handle_own(void)
{
    if (AMPH_UNLIKELY(__atomic_load_n(&amphora_own_messages, __ATOMIC_RELAXED)))
        amph_gex_poll_own();
}

/* One step of a wait of this layer: amph_am_wait_step and amph_gex_progress. */
void amph_gex_wait_step(struct amph_waiter *w);

/* A barrier or collective was complete at its first look, so that nothing has polled.  Polls at every few of these
 * calls, and if `late`: others have waited long for this process.  The slowest process of a job may never wait, but
 * clients expect that their handlers run in barriers. */
void amph_gex_found_done(struct amph_gex *g, bool late);
/* A wait has polled. */
static inline void amph_gex_has_polled(struct amph_gex *g)
{
    __atomic_store_n(&g->found_done, AMPH_GEX_FOUND_DONE_POLLS, __ATOMIC_RELAXED);
}

/* gex_EP_RegisterHandlers.  any_args: handlers of GASNet-1, which do not declare their number of
 * arguments. */
int amph_gex_handlers_register(struct amphora_ep *ep, gex_AM_Entry_t *table, size_t numentries,
                               bool any_args);

/* ---- functions of other files that init.c calls ---- */

/* self_start.c: starts the job of a program that was started without a launcher although it needs
 * one; does not return then. */
void amph_gex_start_by_itself(const int *argc, char ***argv);
uintptr_t amph_gex_segment_limit(uint32_t procs_on_host); /* segment.c */
/* segment.c: collective.  size 0: no segment; status: an error of this process, which all members
 * return. */
int amph_gex_segment_attach(struct amph_gex *g, uintptr_t size, int status);
enum amph_status amph_gex_pending_open(struct amph_gex *g); /* extended/pending.c: first */
/* Register their handlers. */
enum amph_status amph_rma_memset_open(struct amph_gex *g);
enum amph_status amph_rma_ad_open(struct amph_gex *g);
enum amph_status amph_rma_vis_open(struct amph_gex *g);

#endif

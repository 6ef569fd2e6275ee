/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The insides of the API's objects and of the state that extended/ keeps in amph_job.extended.
 * Layer: extended.
 *
 * Thread rule: what is set up by amphora_client_init and gex_Segment_Attach is read-only
 * afterwards; the rest says who guards it.
 */
#ifndef AMPH_EXTENDED_GEX_H
#define AMPH_EXTENDED_GEX_H

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
    /* of memory that the library allocated for gex_Segment_Create; -1: it is the client's */
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
    struct amphora_ep *ep; /* the own one in it */
    gex_Flags_t flags;
    const void *cdata;
    /* names this member in messages (amph_team_id_at); 0: of the primordial team */
    uint64_t id;
    /* [pub.size] am's peer numbers (job ranks) of the ranks; NULL: the same numbers */
    const uint32_t *member;
    const uint8_t *member_ep; /* [pub.size] the endpoints' indices; NULL: all 0 */
    /* [pub.size] which of its process's members a rank is; NULL: all the first (0) */
    const uint8_t *slot;
    /* [pub.size] ranks by increasing job rank; NULL: they are in that order */
    const uint32_t *order;
    gex_Memvec_t scratch;         /* what the client gave for collectives; length 0: nothing */
    uint32_t domains;             /* atomic domains over it that live; atomic */
    struct amph_gather *exchange; /* team_exchange.c */
    struct amph_team *next;       /* in its bucket of the table, or among the destroyed ones */
    struct amph_coll *coll;       /* coll.h; from amph_coll_team_open to amph_coll_team_close */
};

/* A set of processes in order of rank, and the own place in it. */
struct amph_set {
    gex_RankInfo_t *info;
    gex_Rank_t count, self;
};

struct amph_gex {
    bool threaded; /* PAR or PARSYNC */
    bool attached;
    bool verbose; /* non-fatal errors say their sentence */
    int threadmode;
    struct amphora_client client;
    struct amphora_ep ep;
    struct amphora_segment segment;
    struct amph_team team;       /* the primordial one; its ranks are am's peer numbers */
    struct amphora_reach *reach; /* [size], of the primordial team */
    struct amph_rmem *rmem;      /* [size] segments of the members' endpoints 0 */
    /* [size] of their other endpoints, by index; NULL: none is known; [0] is not used */
    struct amph_rmem *others[GASNET_MAXEPS];
    struct amphora_ep *eps[GASNET_MAXEPS]; /* this process's, by index; NULL: not made */
    struct amph_teams *teams;              /* team.c */
    struct amph_bounds *bounds;            /* ep.c */
    struct amph_progress *progress;        /* ep_thread.c; NULL: there is no progress thread */
    bool threads_told;                     /* gex_System_QueryProgressThreads has been asked */
    size_t max_medium, max_long;           /* least of the job */
    uintptr_t max_local, max_global;       /* segment sizes */
    struct amph_set nbrhd, host;
    uint32_t *leader; /* [size] lowest rank of each member's neighbourhood */
    gex_Rank_t nbrhds, my_nbrhd, hosts, my_host;
    struct amph_colls *colls;     /* coll.h */
    struct amph_handles *handles; /* extended/pending.c */
};

static inline struct amph_gex *amph_gex(void)
{
    return amph_job.extended;
}

/* The endpoint of this process with this index, or NULL. */
struct amphora_ep *amph_ep_find(struct amph_gex *g, gex_EP_Index_t index);

/* The state, or a fatal sentence that names the call: not initialised. */
struct amph_gex *amph_gex_need(const char *call);

/* The team of a gex_TM_t; a fatal sentence where it is none (a pair, a destroyed one). */
struct amph_team *amph_team_of(gex_TM_t tm, const char *call);

/* Its member with this number (no check). */
static inline uint32_t amph_team_member(const struct amph_team *team, gex_Rank_t rank)
{
    return team->member ? team->member[rank] : rank;
}

/* The id by which amph_team_find_locked knows the team at the process of its member rank: what goes
 * into a message to that member. */
static inline uint64_t amph_team_id_at(const struct amph_team *team, gex_Rank_t rank)
{
    return (team->id & ~UINT64_C(255)) | (team->slot ? team->slot[rank] : 0);
}

/* The number by which am knows member rank of tm; a fatal sentence where there is none. */
uint32_t amph_team_peer(gex_TM_t tm, gex_Rank_t rank, const char *call);

/* What team.c calls at the start of each other team, before any member can use it, and at its end,
 * when no member does.  close ends the job with a sentence where a collective over the team is
 * still under way here.  coll/team.c. */
enum amph_status amph_coll_team_open(struct amph_team *team);
void amph_coll_team_close(struct amph_team *team);

/* team.c: the table of teams and the primordial one in it. */
enum amph_status amph_teams_open(struct amph_gex *g);
/* After segments have become reachable: says so to the teams. */
void amph_teams_refresh(struct amph_gex *g);

/* What (tm, rank) names in a point-to-point call: tm a team or a pair. */
struct amph_dest {
    uint32_t peer;           /* am's number of the process */
    gex_EP_Index_t index;    /* of its endpoint */
    struct amphora_ep *from; /* the own endpoint */
    /* the bound segment of its endpoint; len_bytes 0: none is known here */
    const struct amph_rmem *rmem;
};

/* A fatal sentence where it names nothing. */
struct amph_dest amph_team_dest(gex_TM_t tm, gex_Rank_t rank, const char *call);

/* What is known of the segment bound to endpoint `index` of a peer; never NULL (len_bytes 0:
 * nothing). */
const struct amph_rmem *amph_ep_rmem(const struct amph_gex *g, uint32_t peer, gex_EP_Index_t index);

/* The API's error code for a status; says `call` and why where sentences are wanted and st has not
 * been logged. */
int amph_gex_error(enum amph_status st);

/* Logs a sentence about an error that is returned, if the client wants to see them
 * (gex_System_SetVerboseErrors). */
void amph_gex_complain(const char *fmt, ...) AMPH_PRINTF(1, 2);

/* Moves collectives on; cheap when none is under way.  Never polls.  Not from handlers. */
void amph_gex_progress(void);

/* One step of a wait of this layer: amph_am_wait_step and amph_gex_progress. */
void amph_gex_wait_step(struct amph_waiter *w);

/* gex_EP_RegisterHandlers; any_args: handlers of GASNet-1, which do not say how many arguments they
 * take. */
int amph_handlers_register(struct amphora_ep *ep, gex_AM_Entry_t *table, size_t numentries,
                           bool any_args);

/* init.c's helpers in other files. */
/* start.c: a program that nobody started as a job, but that is to be one, does not come back from
 * here. */
void amph_start_by_itself(const int *argc, char ***argv);
uintptr_t amph_segment_limit(uint32_t procs_on_host); /* segment.c */
/* segment.c: collective; size 0: no segment; status: an error that this process has to tell the
 * others. */
int amph_segment_attach(struct amph_gex *g, uintptr_t size, int status);
enum amph_status amph_pending_open(struct amph_gex *g); /* extended/pending.c: first */
/* Register their handlers. */
enum amph_status amph_memset_open(struct amph_gex *g);
enum amph_status amph_ad_open(struct amph_gex *g);
enum amph_status amph_vis_open(struct amph_gex *g);

#endif

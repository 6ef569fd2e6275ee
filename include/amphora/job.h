/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job: initialisation, segments, objects and their queries, progress, exit.  GASNet-EX spec,
 * "Client init", "Segments", "Operations on gex_TM_t / gex_EP_t"; GASNet-1 spec 3.1, 3.2.
 *
 * A process sees only its own group: ranks and sizes here are those of the compute processes (or,
 * in a server, of the servers).
 */
#ifndef AMPHORA_JOB_H
#define AMPHORA_JOB_H

#include <stdint.h>

#include "amphora/team.h"

AMPHORA_BEGIN_C

/* ---- errors ---- */

/* The name of an error code ("GASNET_ERR_BAD_ARG") and what it means, in words.  Any time, any
 * thread; static storage, not to be written to. */
char *gasnet_ErrorName(int errval);
char *gasnet_ErrorDesc(int errval);

/* Ends the job: a lock was misused (PAR and PARSYNC; see lock.h). */
void amphora_lock_fail(const char *call, int err) AMPHORA_NORETURN;

/* ---- start and end ---- */

int amphora_client_init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                        const char *client_name, int *argc, char ***argv, gex_Flags_t flags,
                        int threadmode);

/* What the program was built for: its conduit (NULL: none in particular; see conduit.h), its
 * segment mode (AMPHORA_SEGMENT) and GASNET_CONFIG_STRING; the texts must last.  Before
 * amphora_client_init. */
void amphora_client_built(const char *conduit, int segment, const char *config);

#ifdef AMPHORA_THREADMODE
/* Joins the job and makes the primordial client, endpoint and team.  Collective; blocks until all
 * have called it; once a process. client_name: the same everywhere, [A-Z][A-Z0-9_]+; lower case and
 * dashes are accepted.  argc, argv may be NULL. flags: GEX_FLAG_USES_GASNET1,
 * GEX_FLAG_DEFER_THREADS (the client starts the progress threads), both or 0. Returns GASNET_OK,
 * GASNET_ERR_BAD_ARG (name, flags), GASNET_ERR_RESOURCE (also for a second call). */
AMPHORA_INLINE int gex_Client_Init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                                   const char *client_name, int *argc, char ***argv,
                                   gex_Flags_t flags)
{
    amphora_client_built(AMPHORA_CONDUIT, AMPHORA_SEGMENT, GASNET_CONFIG_STRING);
    return amphora_client_init(client_p, ep_p, tm_p, client_name, argc, argv, flags,
                               AMPHORA_THREADMODE);
}
#endif

/* Ends the whole job with exitcode.  Not collective; callable from any thread and from handlers;
 * never returns. */
void gasnet_exit(int exitcode) AMPHORA_NORETURN;

/* ---- segments ---- */

/* The job's page size: the largest of all its processes; a multiple of each.  Known after
 * initialisation, before: the own one. */
uintptr_t amphora_page_bytes(void);
#ifndef GASNET_PAGESIZE
#define GASNET_PAGESIZE amphora_page_bytes()
#endif

/* Largest segment that this process can expect, and the least of these over the job, in bytes;
 * multiples of the page size. */
uintptr_t gasnet_getMaxLocalSegmentSize(void);
uintptr_t gasnet_getMaxGlobalSegmentSize(void);

/* Makes this process's segment of size bytes (a multiple of GASNET_PAGESIZE, not 0) and binds it to
 * tm's endpoint.  Collective over tm, once a process.  Untouched pages take no memory.  Returns
 * GASNET_OK, GASNET_ERR_NOT_INIT, GASNET_ERR_BAD_ARG (size, tm; also where another process's was
 * bad) or GASNET_ERR_RESOURCE (no memory here or at another process; attached already). */
int gex_Segment_Attach(gex_Segment_t *segment_p, gex_TM_t tm, uintptr_t size);

gex_Client_t gex_Segment_QueryClient(gex_Segment_t segment);
gex_Flags_t gex_Segment_QueryFlags(gex_Segment_t segment);
void *gex_Segment_QueryAddr(gex_Segment_t segment);
uintptr_t gex_Segment_QuerySize(gex_Segment_t segment);
void gex_Segment_SetCData(gex_Segment_t segment, const void *val);
void *gex_Segment_QueryCData(gex_Segment_t segment);

/* The segment bound to the endpoint that (tm, rank) names (tm may be a pair): its address at the
 * owner, its address here (NULL: not mapped) and its size, 0 where it has none.  What is known here
 * (attached, published, the own ones) comes at once; else the owner is asked, and the outputs are
 * set when the event is synced.  With GEX_FLAG_IMMEDIATE: GEX_EVENT_NO_OP instead of asking; also
 * from handlers then.  Outputs may be NULL. */
gex_Event_t gex_EP_QueryBoundSegmentNB(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p,
                                       void **localaddr_p, uintptr_t *size_p, gex_Flags_t flags);

/* The older form, which blocks.  Returns 0, or non-zero (outputs unchanged) if no segment is
 * bound. */
int gex_Segment_QueryBound(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
                           uintptr_t *size_p);

/* ---- clients, endpoints, teams ---- */

gex_Flags_t gex_Client_QueryFlags(gex_Client_t client);
const char *gex_Client_QueryName(gex_Client_t client);
void gex_Client_SetCData(gex_Client_t client, const void *val);
void *gex_Client_QueryCData(gex_Client_t client);

gex_Client_t gex_EP_QueryClient(gex_EP_t ep);
gex_Flags_t gex_EP_QueryFlags(gex_EP_t ep);
gex_Segment_t gex_EP_QuerySegment(gex_EP_t ep);
gex_EP_Index_t gex_EP_QueryIndex(gex_EP_t ep);
void gex_EP_SetCData(gex_EP_t ep, const void *val);
void *gex_EP_QueryCData(gex_EP_t ep);

gex_Client_t gex_TM_QueryClient(gex_TM_t tm);
gex_EP_t gex_TM_QueryEP(gex_TM_t tm);
gex_Flags_t gex_TM_QueryFlags(gex_TM_t tm);
gex_Rank_t gex_TM_QueryRank(gex_TM_t tm);
gex_Rank_t gex_TM_QuerySize(gex_TM_t tm);
void gex_TM_SetCData(gex_TM_t tm, const void *val);
void *gex_TM_QueryCData(gex_TM_t tm);

/* Makes new teams out of tm's members: those that pass the same color (0 or more) become one team,
 * in order of key, equal keys in order of their ranks in tm.  new_tm_p NULL: the caller becomes a
 * member of none.  Collective over tm; returns when all members have the team.  [scratch_addr,
 * +scratch_size) in the bound segment, not 0 bytes and the same size at all members of a new team,
 * is the library's until the team is destroyed; not with GEX_FLAG_TM_NO_SCRATCH.  With
 * GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED (or the deprecated _MIN) nothing is made, and the result is
 * how many bytes to give (0 where new_tm_p is NULL); else it means nothing. GASNet-EX spec,
 * "Operations on gex_TM_t". */
size_t gex_TM_Split(gex_TM_t *new_tm_p, gex_TM_t parent_tm, int color, int key, void *scratch_addr,
                    size_t scratch_size, gex_Flags_t flags);

/* Makes a team of the endpoints that args (numargs of them, by rank) names, the same list at all of
 * them.  gex_rank: in parent_tm, or with GEX_FLAG_RANK_IS_JOBRANK in the job.  Collective over
 * parent_tm, which has a member of each named process; several disjoint teams may be made in one
 * call; numargs 0: none here.  new_tms gets num_new_tms handles: one for each endpoint of this
 * process in the list, by rank.  scratch_addrs: one address with GEX_FLAG_TM_SYMMETRIC_SCRATCH,
 * num_new_tms with _LOCAL_SCRATCH, numargs with _GLOBAL_SCRATCH, ignored with _NO_SCRATCH; offsets
 * into the segments with GEX_FLAG_SCRATCH_SEG_OFFSET.  Queries as in gex_TM_Split; args may be NULL
 * in them. */
size_t gex_TM_Create(gex_TM_t *new_tms, size_t num_new_tms, gex_TM_t parent_tm,
                     gex_EP_Location_t *args, size_t numargs, gex_Addr_t *scratch_addrs,
                     size_t scratch_size, gex_Flags_t flags);

/* Ends a team whose collectives are complete here (with GEX_FLAG_GLOBALLY_QUIESCED: at all
 * members).  Collective over tm.  Where the client gave scratch space, *scratch_p (unless NULL)
 * says where it is and the result is non-zero; else 0, *scratch_p untouched. */
int gex_TM_Destroy(gex_TM_t tm, gex_Memvec_t *scratch_p, gex_Flags_t flags);

gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank);
gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank);
gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags);

/* A value that represents, in point-to-point calls only, (endpoint, index of the peer's endpoint);
 * ranks are job ranks then. */
gex_TM_t gex_TM_Pair(gex_EP_t local_ep, gex_EP_Index_t remote_ep_index);

/* ---- the job and its hosts ---- */

gex_Rank_t gex_System_QueryJobRank(void);
gex_Rank_t gex_System_QueryJobSize(void);
int gex_System_GetVerboseErrors(void);
void gex_System_SetVerboseErrors(int enable);
uint64_t gex_System_QueryMaxThreads(void);
int gex_System_QueryHiddenAMConcurrencyLevel(void);

/* The processes that share memory with this one, and those on its host, by increasing rank; the
 * arrays are the library's. Outputs may be NULL. */
void gex_System_QueryNbrhdInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p,
                               gex_Rank_t *my_info_index_p);
void gex_System_QueryHostInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p,
                              gex_Rank_t *my_info_index_p);
void gex_System_QueryMyPosition(gex_Rank_t *nbrhd_set_size, gex_Rank_t *nbrhd_set_rank,
                                gex_Rank_t *host_set_size, gex_Rank_t *host_set_rank);

/* The environment in which the job was started. */
char *gasnet_getenv(const char *name);

/* ---- progress ---- */

/* Receives what has come, runs its handlers, moves barriers on.  Not from handlers.  Returns
 * GASNET_OK. */
int gasnet_AMPoll(void);

/* What waits in this process do: GASNET_WAIT_SPIN, _BLOCK or _SPINBLOCK; else
 * GASNET_ERR_BAD_ARG. */
int gasnet_set_waitmode(int wait_mode);

/* One step of a wait: makes progress; finds it nothing, it spins, yields or sleeps as the wait mode
 * says (at most 10 ms). */
typedef struct {
    uint64_t opaque[6];
} amphora_wait_t;

void amphora_wait_step(amphora_wait_t *wait);

/* Waits until cond, which a handler makes true, holds.  Runs handlers meanwhile. */
#define GASNET_BLOCKUNTIL(cond) \
    do { \
        amphora_wait_t amphora_wait_ = { { 0, 0, 0, 0, 0, 0 } }; \
        while (!(cond)) \
            amphora_wait_step(&amphora_wait_); \
        AMPHORA_FENCE(); \
    } while (0)

/* Handlers never interrupt a thread here (they run inside library calls only), so these have
 * nothing to do. */
#define gasnet_hold_interrupts() ((void)0)
#define gasnet_resume_interrupts() ((void)0)

typedef void *gasnet_threadinfo_t;
#define GASNET_GET_THREADINFO() ((gasnet_threadinfo_t)0)
#define GASNET_POST_THREADINFO(info) ((void)(info))
#define GASNET_BEGIN_FUNCTION() GASNET_POST_THREADINFO(GASNET_GET_THREADINFO())

AMPHORA_END_C

#endif

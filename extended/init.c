/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start and end of the API's job: client, endpoint and team; the exchange of facts between the
 * members of a group at start.  Layer: extended.  Thread rule: initialisation by one thread.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amphora/gasnet1.h"
#include "base/os/arena.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "conduits/conduit.h"
#include "extended/coll/coll.h"
#include "extended/ep/endpoint.h"
#include "extended/gex.h"
#include "extended/tools/tools.h"

struct amph_gex_state amph_gex_state = { .key_made = PTHREAD_ONCE_INIT };
struct amphora_team *amphora_team0 = &amph_gex_state.nobody;
uint32_t amphora_own_messages;
gasnet_node_t gasneti_nodes, gasneti_mynode; /* read by the API's inline functions */

/* What each member publishes about itself at start. */
struct fact {
    uint32_t leader; /* lowest rank that it reaches through shared memory */
    uint32_t max_medium, max_long;
    uint64_t pid, max_segment;
    /* the shared object of its neighbourhood; leaders only, else -1 */
    int32_t fd;
    bool oversubscribed; /* its host has more processes of the job than cores */
};
#define FACT_BYTES 36

/* ---- errors ---- */

void amph_gex_complain(const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (amph_gex() && !amph_gex()->verbose)
        return;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    amph_error("%s", text);
}

int amph_gex_error(enum amph_status st)
{
    static const int code[AMPH_STATUS_COUNT] = {
        [AMPH_AGAIN] = GASNET_ERR_NOT_READY,    [AMPH_ERR_ARG] = GASNET_ERR_BAD_ARG,
        [AMPH_ERR_RANGE] = GASNET_ERR_BAD_ARG,  [AMPH_ERR_NOENT] = GASNET_ERR_BAD_ARG,
        [AMPH_ERR_STATE] = GASNET_ERR_RESOURCE,
    };

    if (st == AMPH_OK)
        return GASNET_OK;

    return code[st] ? code[st] : GASNET_ERR_RESOURCE;
}

/* ---- the exchange of facts ---- */

static void encode(const struct fact *f, uint8_t out[FACT_BYTES])
{
    struct amph_wr w;

    amph_wr_init(&w, out, FACT_BYTES);
    amph_wr_u32(&w, f->leader);
    amph_wr_u32(&w, f->max_medium);
    amph_wr_u32(&w, f->max_long);
    amph_wr_u32(&w, (uint32_t)f->fd);
    amph_wr_u64(&w, f->pid);
    amph_wr_u64(&w, f->max_segment);
    amph_wr_u32(&w, f->oversubscribed);
}

static struct fact decode(const uint8_t in[FACT_BYTES])
{
    struct amph_rd r;
    struct fact f;

    amph_rd_init(&r, in, FACT_BYTES);
    f.leader = amph_rd_u32(&r);
    f.max_medium = amph_rd_u32(&r);
    f.max_long = amph_rd_u32(&r);
    f.fd = (int32_t)amph_rd_u32(&r);
    f.pid = amph_rd_u64(&r);
    f.max_segment = amph_rd_u64(&r);
    f.oversubscribed = amph_rd_u32(&r) != 0;

    return f;
}

static bool is_neighbour(struct amph_gex *g, uint32_t rank)
{
    return rank == amph_job.rank || amph_am_peer_is_local(g->ep.am, rank);
}

/* Fills in this process's facts.  A leader with neighbours also makes the object that they
 * share. */
static enum amph_status own_fact(struct amph_gex *g, struct fact *f, uint32_t *nlocal_p)
{
    const struct amph_jobdesc *desc = amph_boot_job(amph_job.boot);
    const struct amph_proc *proc = &desc->proc[amph_job.first];
    uint32_t nlocal = 0;
    uint32_t nhost = 0;

    f->leader = amph_job.rank;
    for (uint32_t i = 0; i < amph_job.size; i++) {
        nhost += proc[i].host == proc[amph_job.rank].host;
        if (!is_neighbour(g, i))
            continue;

        nlocal++;
        if (i < f->leader)
            f->leader = i;
    }

    f->max_medium = amph_am_max_medium(g->ep.am, AMPH_RANK_NONE);
    f->max_long = amph_am_max_long(g->ep.am, AMPH_RANK_NONE);
    f->pid = (uint64_t)getpid();
    f->max_segment = g->max_local = amph_gex_segment_limit(nhost);
    f->oversubscribed = amph_am_oversubscribed();
    f->fd = -1;
    *nlocal_p = nlocal;
    if (nlocal == 1 || f->leader != amph_job.rank)
        return AMPH_OK;

    return amph_shm_create("amphora-collectives", amph_coll_share_bytes(nlocal), &f->fd);
}

/* Stores the facts of all members. */
static void learn(struct amph_gex *g, const uint8_t *all)
{
    g->max_medium = g->max_long = SIZE_MAX;
    g->max_global = g->max_local;

    for (uint32_t i = 0; i < amph_job.size; i++) {
        const struct fact f = decode(all + (size_t)i * FACT_BYTES);

        g->leader[i] = f.leader <= i ? f.leader : i;
        g->max_medium = f.max_medium < g->max_medium ? f.max_medium : g->max_medium;
        g->max_long = f.max_long < g->max_long ? f.max_long : g->max_long;
        g->max_global = f.max_segment < g->max_global ? (uintptr_t)f.max_segment : g->max_global;
        g->oversubscribed |= f.oversubscribed;
        if (g->leader[i] == i)
            g->nbrhds++;
    }

    for (uint32_t i = 0; i < g->leader[amph_job.rank]; i++)
        g->my_nbrhd += i == g->leader[i];
}

/* Lists the members for which same() holds. */
static enum amph_status make_set(struct amph_gex *g, struct amph_set *set,
                                 bool (*same)(const struct amph_gex *, uint32_t))
{
    gex_Rank_t *rank = calloc(amph_job.size, sizeof *rank);

    if (!rank)
        return AMPH_ERR_NOMEM;

    for (uint32_t i = 0; i < amph_job.size; i++) {
        if (!same(g, i))
            continue;

        if (i == amph_job.rank)
            set->self = set->count;

        rank[set->count++] = i;
    }

    _Static_assert(sizeof(gex_RankInfo_t) == sizeof(gex_Rank_t),
                   "a rank is all that gex_RankInfo_t holds");
    set->info = (gex_RankInfo_t *)rank;
    return AMPH_OK;
}

static bool same_nbrhd(const struct amph_gex *g, uint32_t rank)
{
    return g->leader[rank] == g->leader[amph_job.rank];
}

static bool same_host(const struct amph_gex *g, uint32_t rank)
{
    const struct amph_proc *proc = &amph_boot_job(amph_job.boot)->proc[amph_job.first];
    return proc[rank].host == proc[amph_job.rank].host;
}

/* Numbers the hosts of the group in the order of their first members. */
static void count_hosts(struct amph_gex *g)
{
    const struct amph_proc *proc = &amph_boot_job(amph_job.boot)->proc[amph_job.first];

    for (uint32_t i = 0; i < amph_job.size; i++) {
        uint32_t first = 0;

        while (proc[first].host != proc[i].host)
            first++;

        if (first != i)
            continue;

        if (proc[i].host == proc[amph_job.rank].host)
            g->my_host = g->hosts;

        g->hosts++;
    }
}

/* Opens the collectives, with the object that the neighbourhood's leader has made. */
static enum amph_status open_collectives(struct amph_gex *g, const uint8_t *all, int own_fd)
{
    const struct fact f = decode(all + (size_t)g->leader[amph_job.rank] * FACT_BYTES);
    return amph_coll_join(g, (int32_t)f.pid, own_fd >= 0 ? own_fd : f.fd, own_fd >= 0);
}

static enum amph_status sync_members(struct amph_gex *g)
{
    struct fact own = { .fd = -1 };
    uint8_t mine[FACT_BYTES];
    const uint8_t seen = 1;
    uint8_t *all = malloc((size_t)amph_job.size * FACT_BYTES);
    uint8_t *met = malloc(amph_job.size);
    uint32_t nlocal;
    enum amph_status st = all && met ? own_fact(g, &own, &nlocal) : AMPH_ERR_NOMEM;

    if (st == AMPH_OK) {
        encode(&own, mine);
        st = amph_job_allgather(mine, sizeof mine, all);
    }

    if (st == AMPH_OK) {
        learn(g, all);
        count_hosts(g);
        st = make_set(g, &g->nbrhd, same_nbrhd);
    }

    if (st == AMPH_OK)
        st = make_set(g, &g->host, same_host);

    if (st == AMPH_OK)
        st = open_collectives(g, all, own.fd);

    if (st == AMPH_OK && amph_job.size > 1)
        st = amph_job_allgather(&seen, sizeof seen, met); /* all have mapped it */

    amph_job_await_cause(st);
    free(all);
    free(met);
    return st;
}

/* ---- initialisation ---- */

/* The specification's form: [A-Z][A-Z0-9_]+. */
static bool name_is_strict(const char *name)
{
    if (*name < 'A' || *name > 'Z' || !name[1])
        return false;

    for (const char *c = name + 1; *c; c++)
        if (!((*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_'))
            return false;

    return true;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Is the client's name accepted?  It begins with a letter and has letters, digits, '_' and '-'.
 * This is more than the specification allows, because existing clients have names like
 * "caffeine" or "realm-gex", and some of them continue as jobs of one process if they are
 * refused. */
static bool name_ok(const char *name)
{
    if (!name || !is_letter(*name))
        return false;

    for (const char *c = name + 1; *c; c++)
        if (!is_letter(*c) && !(*c >= '0' && *c <= '9') && *c != '_' && *c != '-')
            return false;

    if (AMPH_CHECKS && !name_is_strict(name))
        amph_warn("gex_Client_Init: \"%s\" does not match [A-Z][A-Z0-9_]+, as the specification "
                  "wants; it is accepted here",
                  name);

    return true;
}

static struct amph_gex *make_state(const char *client_name, gex_Flags_t flags, int threadmode)
{
    struct amph_gex *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;

    g->threaded = threadmode != 1;
    g->threadmode = threadmode;
    g->verbose = true;
    g->recorded = amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR)[0] &&
                  amph_record_kinds(amph_env_str(AMPH_ENV_IOFWD_RECORD), NULL) & AMPH_RECORD_RMA;
    g->client = (struct amphora_client){ .name = strdup(client_name), .flags = flags };
    g->reach = calloc(amph_job.size, sizeof *g->reach);
    g->rmem = calloc(amph_job.size, sizeof *g->rmem);
    g->leader = calloc(amph_job.size, sizeof *g->leader);
    g->ep.client = &g->client;
    g->ep.capabilities = GEX_EP_CAPABILITY_ALL;
    g->eps[0] = &g->ep;
    g->ep.am = amph_job.ep;
    g->team.pub =
        (struct amphora_team){ .reach = g->reach, .size = amph_job.size, .rank = amph_job.rank };
    g->team.ep = &g->ep;
    g->team.flags = 0;

    return g->client.name && g->reach && g->rmem && g->leader ? g : NULL;
}

/* GASNet-1 spec: a message to a handler that is not registered ends the job with a sentence. */
static void on_refused(struct amph_am_ep *ep, uint32_t peer, const struct amph_am *am,
                       const char *why)
{
    if (am->handler >= GEX_AM_INDEX_BASE)
        amph_fatal("a message from process %u to handler %u (%u arguments, %u bytes) cannot be "
                   "delivered: %s; register the handler "
                   "at every process before the first message to it",
                   peer, am->handler, am->nargs, am->nbytes, why);
}

static enum amph_status begin(const char *client_name, gex_Flags_t flags, int threadmode)
{
    enum amph_status st = amph_job_start(threadmode != 1);

    if (st != AMPH_OK)
        return st;

    amph_am_set_refused(amph_job.ep, on_refused);
    amph_am_count_own(amph_job.ep, &amphora_own_messages);

    struct amph_gex *g = make_state(client_name, flags, threadmode);
    if (!g)
        return AMPH_ERR_NOMEM;

    amph_job.extended =
        g; /* before all else, because messages of members that are ahead may arrive from now on */
    st = amph_coll_open(g);
    if (st == AMPH_OK)
        st = amph_gex_pending_open(g);

    if (st == AMPH_OK)
        st = amph_rma_memset_open(g);

    if (st == AMPH_OK)
        st = amph_rma_ad_open(g);

    if (st == AMPH_OK)
        st = amph_rma_vis_open(g);

    if (st == AMPH_OK)
        st = amph_gex_teams_open(g);

    if (st == AMPH_OK)
        st = amph_gex_bounds_open(g);

    return st == AMPH_OK ? sync_members(g) : st;
}

int amphora_client_init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                        const char *client_name, int *argc, char ***argv, gex_Flags_t flags,
                        int threadmode)
{
    if (amph_gex()) {
        amph_gex_complain("the runtime is initialised already; gasnet_init or gex_Client_Init may "
                          "be called once");
        return GASNET_ERR_RESOURCE;
    }

    if (!name_ok(client_name) || (flags & ~(GEX_FLAG_USES_GASNET1 | GEX_FLAG_DEFER_THREADS))) {
        amph_gex_complain("gex_Client_Init: the name \"%s\" must match [A-Za-z][A-Za-z0-9_-]*, and "
                          "flags (%#x) hold no others than "
                          "GEX_FLAG_USES_GASNET1 and GEX_FLAG_DEFER_THREADS",
                          client_name ? client_name : "", (unsigned)flags);
        return GASNET_ERR_BAD_ARG;
    }

    amph_gex_start_by_itself(argc, argv);

    enum amph_status st = begin(client_name, flags, threadmode);

    if (st != AMPH_OK) {
        amph_log(amph_log_error_said() ? AMPH_LOG_INFO : AMPH_LOG_ERROR,
                 "the job could not be joined: %s", amph_status_text(st));
        return amph_gex_error(st);
    }

    struct amph_gex *g = amph_gex();

    amphora_team0 = &g->team.pub;
    gasneti_nodes = amph_job.size;
    gasneti_mynode = amph_job.rank;
    amph_tools_start(amph_job.rank, amph_job.size, argc && argv && *argc > 0 ? (*argv)[0] : NULL);
    amph_gex_progress_open(g);
    if (client_p)
        *client_p = &g->client;

    if (ep_p)
        *ep_p = &g->ep;

    if (tm_p)
        *tm_p = &g->team.pub;

    return GASNET_OK;
}

void amphora_client_built(const char *conduit, int segment, const char *config)
{
    amph_job.built_conduit = conduit;
    amph_job.built_anywhere = segment == AMPH_SEGMENT_EVERYTHING;
    amph_job.built_config = config;
}

void gasnet_exit(int exitcode)
{
    amph_gex_progress_stop();
    amph_job_exit(exitcode);
}

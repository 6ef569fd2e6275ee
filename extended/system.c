/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries about the job and the host, error names, progress and wait modes.  Layer: extended.
 * Thread rule: any thread; progress as am/am.h.
 */
#include <string.h>

#include "amphora/gasnet1.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "extended/check.h"
#include "extended/ep/endpoint.h"
#include "extended/gex.h"

/* ---- errors ---- */

static const struct {
    int code;
    const char *name, *desc;
} errors[] = {
    { GASNET_OK, "GASNET_OK", "no error" },
    { GASNET_ERR_NOT_INIT, "GASNET_ERR_NOT_INIT", "the runtime has not been initialised yet" },
    { GASNET_ERR_RESOURCE, "GASNET_ERR_RESOURCE",
      "a resource of the system or the network is missing or in use" },
    { GASNET_ERR_BAD_ARG, "GASNET_ERR_BAD_ARG", "an argument is not allowed" },
    { GASNET_ERR_NOT_READY, "GASNET_ERR_NOT_READY", "the operation is not complete yet" },
    { GASNET_ERR_BARRIER_MISMATCH, "GASNET_ERR_BARRIER_MISMATCH",
      "the processes brought values to a barrier that do not match" },
};

char *gasnet_ErrorName(int errval)
{
    for (size_t i = 0; i < AMPH_COUNTOF(errors); i++)
        if (errors[i].code == errval)
            return (char *)(uintptr_t)errors[i].name;

    return (char *)(uintptr_t) "unknown error";
}

char *gasnet_ErrorDesc(int errval)
{
    for (size_t i = 0; i < AMPH_COUNTOF(errors); i++)
        if (errors[i].code == errval)
            return (char *)(uintptr_t)errors[i].desc;

    return (char *)(uintptr_t) "this is no error code of GASNet";
}

void amphora_lock_fail(const char *call, int err)
{
    amph_fatal("%s: %s", call, strerror(err));
}

/* ---- the job ---- */

gex_Rank_t gex_System_QueryJobRank(void)
{
    return amph_gex_need("gex_System_QueryJobRank")->team.pub.rank;
}

gex_Rank_t gex_System_QueryJobSize(void)
{
    return amph_gex_need("gex_System_QueryJobSize")->team.pub.size;
}

int gex_System_GetVerboseErrors(void)
{
    return amph_gex_need("gex_System_GetVerboseErrors")->verbose;
}

void gex_System_SetVerboseErrors(int enable)
{
    amph_gex_need("gex_System_SetVerboseErrors")->verbose = enable != 0;
}

uint64_t gex_System_QueryMaxThreads(void)
{
    return amph_gex_need("gex_System_QueryMaxThreads")->threaded
               ? (uint64_t)amph_env_int(AMPH_ENV_MAX_THREADS)
               : 1;
}

int gex_System_QueryHiddenAMConcurrencyLevel(void)
{
    return amph_gex_progress_wanted(amph_gex_need("gex_System_QueryHiddenAMConcurrencyLevel"));
}

static void put_set(const struct amph_set *set, gex_RankInfo_t **info_p, gex_Rank_t *count_p,
                    gex_Rank_t *index_p)
{
    if (info_p)
        *info_p = set->info;

    if (count_p)
        *count_p = set->count;

    if (index_p)
        *index_p = set->self;
}

void gex_System_QueryNbrhdInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p,
                               gex_Rank_t *my_info_index_p)
{
    put_set(&amph_gex_need("gex_System_QueryNbrhdInfo")->nbrhd, info_p, info_count_p,
            my_info_index_p);
}

void gex_System_QueryHostInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p,
                              gex_Rank_t *my_info_index_p)
{
    put_set(&amph_gex_need("gex_System_QueryHostInfo")->host, info_p, info_count_p,
            my_info_index_p);
}

void gex_System_QueryMyPosition(gex_Rank_t *nbrhd_set_size, gex_Rank_t *nbrhd_set_rank,
                                gex_Rank_t *host_set_size, gex_Rank_t *host_set_rank)
{
    const struct amph_gex *g = amph_gex_need("gex_System_QueryMyPosition");
    const gex_Rank_t value[] = { g->nbrhds, g->my_nbrhd, g->hosts, g->my_host };
    gex_Rank_t *const out[] = { nbrhd_set_size, nbrhd_set_rank, host_set_size, host_set_rank };

    for (size_t i = 0; i < AMPH_COUNTOF(out); i++)
        if (out[i])
            *out[i] = value[i];
}

char *gasnet_getenv(const char *name)
{
    return (char *)amph_env_foreign(name);
}

/* ---- progress ---- */

void amph_gex_poll_own(void)
{
    enum {
        POLLS_MAX = 8
    };

    for (unsigned i = 0; i < POLLS_MAX; i++)
        if (!amph_am_poll(amph_gex()->ep.am) ||
            !__atomic_load_n(&amphora_own_messages, __ATOMIC_RELAXED))
            return;
}

int gasnet_AMPoll(void)
{
    amph_check_call("gasnet_AMPoll");
    amph_am_poll(amph_gex_need("gasnet_AMPoll")->ep.am);
    amph_gex_progress();
    return GASNET_OK;
}

int gasnet_set_waitmode(int wait_mode)
{
    /* clang-format off */
    static const enum amph_wait_mode mode[] = {
        [GASNET_WAIT_SPIN] = AMPH_WAIT_SPIN,
        [GASNET_WAIT_BLOCK] = AMPH_WAIT_BLOCK,
        [GASNET_WAIT_SPINBLOCK] = AMPH_WAIT_ADAPTIVE,
    };

    /* clang-format on */
    if (wait_mode < 0 || (size_t)wait_mode >= AMPH_COUNTOF(mode)) {
        amph_gex_complain("gasnet_set_waitmode: %d is none of GASNET_WAIT_SPIN, GASNET_WAIT_BLOCK "
                          "and GASNET_WAIT_SPINBLOCK",
                          wait_mode);
        return GASNET_ERR_BAD_ARG;
    }

    amph_am_set_wait_mode(mode[wait_mode]);
    return GASNET_OK;
}

void amphora_wait_step(amphora_wait_t *wait)
{
    _Static_assert(sizeof(amphora_wait_t) >= sizeof(struct amph_waiter),
                   "the client's memory for a wait holds one");
    amph_gex_need("GASNET_BLOCKUNTIL");
    amph_check_call("GASNET_BLOCKUNTIL");

    struct amph_waiter *w = (struct amph_waiter *)wait->opaque;

    /* By the text only handlers change the condition, but OpenSHMEM libraries wait for values that others put. */
    w->unannounced = true;
    amph_gex_wait_step(w);
}

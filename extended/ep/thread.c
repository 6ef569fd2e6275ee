/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread of PAR clients, if configured (AMPHORA_PROGRESS_THREAD, GASNET_RCV_THREAD):
 * receives messages and runs handlers while the client's threads compute.  The library starts it,
 * or the client does (GEX_FLAG_DEFER_THREADS).  Layer: extended.  Thread rule: started and queried
 * by the client's initialising thread; ended by the exiting one.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "am/am.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "extended/check.h"
#include "extended/ep/endpoint.h"

enum {
    PAR = 3,   /* of AMPHORA_THREADMODE */
    STOP_S = 1 /* how long the exit waits for the thread */
};

struct amph_progress {
    gex_ProgressThreadInfo_t info;
    pthread_t thread;
    bool running, stop; /* atomic */
};

bool amph_gex_progress_wanted(const struct amph_gex *g)
{
    return g->threadmode == PAR &&
           (amph_env_bool(AMPH_ENV_PROGRESS_THREAD) || amph_env_bool(AMPH_ENV_RCV_THREAD));
}

/* Receives until the job ends.  Without messages the thread sleeps like any wait. */
static void *run(void *arg)
{
    struct amph_gex *g = arg;
    struct amph_progress *p = g->progress;
    const struct amph_waiter fresh = AMPH_WAITER_INIT;
    struct amph_waiter w = fresh;

    p->thread = pthread_self();
    __atomic_store_n(&p->running, true, __ATOMIC_RELEASE);

    while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
        if (amph_am_poll(g->ep.am)) {
            w = fresh;
            amph_gex_progress();
        } else {
            amph_gex_wait_step(&w);
        }
    }

    pthread_exit(NULL);
}

static void start(struct amph_gex *g)
{
    pthread_t thread;
    int err = amph_thread_start(&thread, false, 0, run, g);

    if (err)
        amph_warn("no progress thread could be started (error %d); handlers run in the client's "
                  "threads alone",
                  err);
}

void amph_gex_progress_open(struct amph_gex *g)
{
    if (!amph_gex_progress_wanted(g))
        return;

    g->progress = calloc(1, sizeof *g->progress);
    if (!g->progress)
        amph_fatal("no memory for the progress thread");

    g->progress->info = (gex_ProgressThreadInfo_t){ .gex_device_list = "all conduits",
                                                    .gex_thread_roles = GEX_THREAD_ROLE_RCV,
                                                    .gex_progress_fn = run,
                                                    .gex_progress_arg = g };
    if (!(g->client.flags & GEX_FLAG_DEFER_THREADS))
        start(g);
}

void amph_gex_progress_stop(void)
{
    struct amph_gex *g = amph_gex();
    struct amph_progress *p = g ? g->progress : NULL;
    struct timespec until;

    if (!p || __atomic_exchange_n(&p->stop, true, __ATOMIC_ACQ_REL) ||
        !__atomic_load_n(&p->running, __ATOMIC_ACQUIRE) || pthread_equal(p->thread, pthread_self()))
        return;

    amph_am_kick(g->ep.am);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_S;

    if (pthread_timedjoin_np(p->thread, NULL, &until) == ETIMEDOUT)
        amph_debug(
            "the progress thread is in a handler that does not end; the process ends without it");
}

int gex_System_QueryProgressThreads(gex_Client_t client, unsigned int *count_p,
                                    const gex_ProgressThreadInfo_t **info_p, gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex();

    if (!g)
        return GASNET_ERR_NOT_INIT;

    if (client != &g->client || !count_p || !info_p || flags) {
        amph_gex_complain("gex_System_QueryProgressThreads: client must be that of "
                          "gex_Client_Init, count_p and info_p not NULL, and "
                          "flags (%#x) 0",
                          (unsigned)flags);
        return GASNET_ERR_BAD_ARG;
    }

    if (!(client->flags & GEX_FLAG_DEFER_THREADS) || g->threads_queried) {
        amph_gex_complain("gex_System_QueryProgressThreads: %s",
                          g->threads_queried
                              ? "the threads have been handed out already"
                              : "the client was not initialised with GEX_FLAG_DEFER_THREADS");
        return GASNET_ERR_RESOURCE;
    }

    g->threads_queried = true;
    *count_p = g->progress ? 1 : 0;
    *info_p = g->progress ? &g->progress->info : NULL;

    return GASNET_OK;
}

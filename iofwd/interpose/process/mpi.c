/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI programs of Open MPI in one job with iofwd-server (mpirun -n C PROGRAM : -n S iofwd-server):
 * the MPI library sees a job of the compute ranks only.
 *
 * Layer: iofwd (interposer).  Thread rule: as PMIx.
 *
 * The library asks PMIx for the number of processes and the processes of its host, and synchronises
 * by PMIx fences, so three functions of libpmix.so.2 are intercepted.  They change nothing in a
 * process that is no rank of such a job.  The rank joins the servers at the first fence: they wait
 * for every rank, and after MPI_Finalize it would be too late.  Amphora's own use of the library
 * does not pass here.
 *
 * PMIx's store in shared memory gives the job's data to the first session of a rank only, so that
 * MPI_Init fails in a later one.  A process that joins the servers before MPI_Init, because it reads a
 * forwarded file, therefore stays in PMIx until it ends.  A later process of the rank takes the data in
 * another way, which serves jobs of one host only (store_by_messages).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/pmix_abi.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/interpose/process/mpi_job.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/process/state.h"

#define EXPORTED __attribute__((visibility("default")))
EXPORTED pmix_init_fn PMIx_Init;
EXPORTED pmix_get_fn PMIx_Get;
EXPORTED pmix_fence_fn PMIx_Fence;
EXPORTED pmix_fence_nb_fn PMIx_Fence_nb;

static void *library(const char *name)
{
    void *handle = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = dlsym(handle ? handle : RTLD_NEXT, name);

    if (!symbol)
        amph_ip_die(127,
                    "libpmix.so.2 lacks %s, which this program calls; install one version of Open "
                    "MPI and PMIx",
                    name);

    return symbol;
}

/* Removes from a comma-separated list of numbers those that are not the program's. */
static void cut_list(char *list)
{
    char *to = list;
    char *end;

    for (char *at = list; *at; at = *end ? end + 1 : end) {
        unsigned long n = strtoul(at, &end, 10);
        size_t len = (size_t)(end - at);

        if (end == at)
            return;
        if (n >= amph_ip_state.mpi_ranks)
            continue;

        if (to > list)
            *to++ = ',';

        memmove(to, at, len);
        to += len;
    }

    *to = 0;
}

void amph_ip_mpi_hold(void)
{
    struct pmix_proc self;

    if (AMPH_LIKELY(!amph_ip_state.mpi_ranks) || amph_ip_process.pmix_holder ||
        amph_ip_rank_has_joined())
        return;

    /* without the library, joining fails and says so */
    if (!dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL))
        return;

    pmix_init_fn *init = (pmix_init_fn *)library("PMIx_Init");

    if (init(&self, NULL, 0) == PMIX_OK)
        amph_ip_process.pmix_holder = amph_ip_kernel_getpid();
}

void amph_ip_mpi_release(void)
{
    if (AMPH_LIKELY(!amph_ip_process.pmix_holder) ||
        amph_ip_process.pmix_holder != amph_ip_kernel_getpid())
        return;

    pmix_finalize_fn *finalize = (pmix_finalize_fn *)library("PMIx_Finalize");
    int saved = errno;

    amph_ip_process.pmix_holder = 0;
    amph_ip_inside++;
    finalize(NULL, 0);
    amph_ip_inside--;
    errno = saved;
}

/* Prints why MPI_Init fails, once. */
static void explain_lost_rank(void)
{
    if (__atomic_exchange_n(&amph_ip_process.pmix_lost_said, true, __ATOMIC_RELAXED))
        return;

    amph_ip_die_say(
        "%s calls MPI_Init after another process of its rank, such as a shell that "
        "has changed its directory, has used forwarded files; on several hosts Open MPI "
        "has forgotten the rank then: start the servers by iofwd-server -daemon (see "
        "mpi.md), or let the MPI program itself make the first call",
        program_invocation_name);
}

/* Has a second session of a rank take the job's data by messages, because PMIx's store in shared memory (ds21, ds12)
 * gives it to the first session only: that was one of a shell, which has used forwarded files and has left PMIx.  On
 * several hosts this would not help: MPI_Init would never return. */
static void store_by_messages(void)
{
    if (amph_ip_state.mpi_ranks && !amph_ip_process.pmix_holder && amph_ip_rank_has_joined() &&
        amph_ip_state.mpi_one_host)
        setenv("PMIX_GDS_MODULE", "hash", 1);
}

/* By this call Open MPI looks for its job; it may be loaded later than the program. */
int PMIx_Init(struct pmix_proc *proc, struct pmix_info *info, size_t ninfo)
{
    pmix_init_fn *init = (pmix_init_fn *)library("PMIx_Init");

    if (!amph_ip_inside) {
        amph_ip_mpi_job_check();
        store_by_messages();
    }

    return init(proc, info, ninfo);
}

int PMIx_Get(const struct pmix_proc *proc, const char *key, const struct pmix_info *info,
             size_t ninfo, struct pmix_value **value_p)
{
    pmix_get_fn *get = (pmix_get_fn *)library("PMIx_Get");
    int status = get(proc, key, info, ninfo, value_p);

    if (status != 0 && amph_ip_state.mpi_ranks && !amph_ip_inside && key &&
        strcmp(key, "pmix.lrank") == 0 && amph_ip_rank_has_joined())
        explain_lost_rank();

    if (status != 0 || !amph_ip_state.mpi_ranks || !key || !*value_p)
        return status;

    struct pmix_value *v = *value_p;

    if (v->type == PMIX_TYPE_UINT32 && strcmp(key, "pmix.job.size") == 0)
        v->data.number = amph_ip_state.mpi_ranks;
    else if (v->type == PMIX_TYPE_STRING && v->data.string && strcmp(key, "pmix.lpeers") == 0)
        cut_list(v->data.string);

    return status;
}

/* The ranks of the program, as PMIx names them.  The first call joins the servers.  NULL: no memory. */
static const struct pmix_proc *program_ranks(void)
{
    if (amph_ip_process.ranks)
        return amph_ip_process.ranks;

    amph_ip_client_join();

    struct pmix_proc *ranks = calloc(amph_ip_state.mpi_ranks, sizeof *ranks);

    for (uint32_t i = 0; ranks && i < amph_ip_state.mpi_ranks; i++) {
        snprintf(ranks[i].nspace, sizeof ranks[i].nspace, "%s", amph_ip_state.mpi_space);
        ranks[i].rank = i;
    }

    amph_ip_process.ranks = ranks;
    return ranks;
}

/* Turns a fence of all processes into one of the program's ranks. */
static void narrow(const struct pmix_proc **procs_p, size_t *nprocs_p)
{
    /* inside: a call of Amphora, whose PMIx_Fence calls PMIx_Fence_nb */
    if (!amph_ip_state.mpi_ranks || *procs_p || amph_ip_inside)
        return;

    const struct pmix_proc *ranks = program_ranks();

    if (ranks) {
        *procs_p = ranks;
        *nprocs_p = amph_ip_state.mpi_ranks;
    }
}

int PMIx_Fence(const struct pmix_proc *procs, size_t nprocs, const struct pmix_info *info,
               size_t ninfo)
{
    pmix_fence_fn *fence = (pmix_fence_fn *)library("PMIx_Fence");

    narrow(&procs, &nprocs);
    return fence(procs, nprocs, info, ninfo);
}

int PMIx_Fence_nb(const struct pmix_proc *procs, size_t nprocs, const struct pmix_info *info,
                  size_t ninfo, void (*done)(int status, void *arg), void *arg)
{
    pmix_fence_nb_fn *fence = (pmix_fence_nb_fn *)library("PMIx_Fence_nb");

    narrow(&procs, &nprocs);
    return fence(procs, nprocs, info, ninfo, done, arg);
}

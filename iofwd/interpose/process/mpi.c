/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI programs of Open MPI beside iofwd-server in one job (mpirun -n C PROGRAM : -n S
 * iofwd-server): to the MPI library the job ends where the servers begin.
 *
 * Layer: iofwd (interposer).  Thread rule: as PMIx.
 *
 * The library learns by PMIx how many processes there are and who is on its host, and meets the
 * others in PMIx's fences; so three functions of libpmix.so.2 are caught.  They change nothing in a
 * process that is no rank of such a job.  The first fence is also the moment at which the rank joins
 * the servers: they wait for every rank, and after MPI_Finalize it would be too late.  Amphora's own
 * use of the library does not come through here.
 */
#include <dlfcn.h>

#include "boot/pmix_abi.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/client.h"
#include "iofwd/calls/names.h"

#define EXPORTED __attribute__((visibility("default")))
EXPORTED pmix_get_fn PMIx_Get;
EXPORTED pmix_fence_fn PMIx_Fence;
EXPORTED pmix_fence_nb_fn PMIx_Fence_nb;

static struct pmix_proc *ranks; /* all of the program, for the fences */

static void *library(const char *name)
{
    void *handle = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = dlsym(handle ? handle : RTLD_NEXT, name);

    if (!symbol)
        libc__Exit(127); /* who calls it has loaded it */

    return symbol;
}

/* Leaves of a list of numbers with commas those of the program. */
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

int PMIx_Get(const struct pmix_proc *proc, const char *key, const struct pmix_info *info,
             size_t ninfo, struct pmix_value **value_p)
{
    pmix_get_fn *get = (pmix_get_fn *)library("PMIx_Get");
    int status = get(proc, key, info, ninfo, value_p);

    if (status != 0 || !amph_ip_state.mpi_ranks || !key || !*value_p)
        return status;

    struct pmix_value *v = *value_p;

    if (v->type == PMIX_TYPE_UINT32 && strcmp(key, "pmix.job.size") == 0)
        v->data.number = amph_ip_state.mpi_ranks;
    else if (v->type == PMIX_TYPE_STRING && v->data.string && strcmp(key, "pmix.lpeers") == 0)
        cut_list(v->data.string);

    return status;
}

/* A fence of everybody becomes one of the program's ranks. */
static void narrow(const struct pmix_proc **procs_p, size_t *nprocs_p)
{
    /* inside: Amphora's own, whose PMIx_Fence leads to PMIx_Fence_nb */
    if (!amph_ip_state.mpi_ranks || *procs_p || amph_ip_inside)
        return;

    if (!ranks) {
        amph_ip_client_join();
        ranks = calloc(amph_ip_state.mpi_ranks, sizeof *ranks);

        for (uint32_t i = 0; ranks && i < amph_ip_state.mpi_ranks; i++) {
            snprintf(ranks[i].nspace, sizeof ranks[i].nspace, "%s", amph_ip_state.mpi_space);
            ranks[i].rank = i;
        }
    }

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

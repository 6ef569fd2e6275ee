/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI under amphora-run; see singletons.h.
 *
 * Layer: iofwd (interposer).
 */
#include "iofwd/interpose/process/singletons.h"

#include <errno.h>
#include <link.h>

#include "base/open_mpi.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/settings.h"
#include "iofwd/interpose/process/die.h"

static struct {
    uint32_t nprocs; /* of a job in which Open MPI finds no other process; 0: not in such a job */
} state;

void amph_ip_singletons_start(char **env)
{
    int64_t nprocs = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_PMI_SIZE);
    bool launched = amph_ip_setting_text(env, AMPH_ENV_JOB) &&
                    amph_ip_setting_text(env, AMPH_ENV_RANK) &&
                    amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMI_FD);

    if (launched && nprocs > 1 && !amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMIX_NAMESPACE) &&
        !amph_ip_setting_bool(env, AMPH_ENV_MPI_SINGLETONS))
        state.nprocs = (uint32_t)nprocs;
}

static int take(struct dl_phdr_info *info, size_t size, void *seen)
{
    if (info->dlpi_name)
        amph_open_mpi_take(seen, info->dlpi_name);

    return 0;
}

void amph_ip_singletons_check(void)
{
    struct amph_open_mpi seen = { false, false };
    char why[AMPH_OPEN_MPI_WHY_BYTES];

    if (AMPH_LIKELY(!state.nprocs))
        return;

    dl_iterate_phdr(take, &seen);
    if (amph_open_mpi_is(&seen))
        amph_ip_die(1, "%s", amph_open_mpi_explain(program_invocation_name, state.nprocs, why));
}

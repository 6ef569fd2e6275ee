/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recognises Open MPI by the names of its libraries, and explains why amphora-run does not start its
 * programs.  Open MPI joins its job by PMIx; amphora-run serves PMI-1, as MPICH uses it.
 *
 * Layer: base.  Thread rule: pure functions.
 */
#ifndef AMPH_BASE_OPEN_MPI_H
#define AMPH_BASE_OPEN_MPI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    AMPH_OPEN_MPI_WHY_BYTES = 1536
};

/* What has been seen of a program's libraries.  Open MPI's launchers have the base only. */
struct amph_open_mpi {
    bool base; /* libopen-pal, which every version has and no other MPI library */
    bool mpi;  /* the library of MPI's calls */
};

static inline void amph_open_mpi_take(struct amph_open_mpi *seen, const char *library)
{
    const char *slash = strrchr(library, '/');
    const char *name = slash ? slash + 1 : library;

    seen->base = seen->base || strncmp(name, "libopen-pal.so", 14) == 0;
    seen->mpi = seen->mpi || strncmp(name, "libmpi", 6) == 0;
}

static inline bool amph_open_mpi_is(const struct amph_open_mpi *seen)
{
    return seen->base && seen->mpi;
}

/* The sentence for a program of nprocs processes, in why, which is returned. */
static inline const char *amph_open_mpi_explain(const char *program, uint32_t nprocs,
                                                char why[AMPH_OPEN_MPI_WHY_BYTES])
{
    snprintf(
        why, AMPH_OPEN_MPI_WHY_BYTES,
        "%.900s uses Open MPI, which finds its job by PMIx; amphora-run serves PMI-1 (MPICH), so "
        "each of the %u processes would be a job of its own, with rank 0 of 1: start it by "
        "mpirun -n %u, with iofwd-run or with iofwd-server as a second program (see mpi.md), or "
        "set AMPHORA_MPI_SINGLETONS=1 if separate jobs are meant",
        program, nprocs, nprocs);

    return why;
}

#endif

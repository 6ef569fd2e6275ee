/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects programs whose MPI library cannot find its job under amphora-run.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_MPI_H
#define AMPH_LAUNCHER_MPI_H

#include <stdbool.h>
#include <stdint.h>

/* Can nprocs processes of the program at path be started as one job?  Returns false after a message if
 * the program is linked with Open MPI, which knows no PMI-1: each process would be a job of its own. */
bool amph_mpi_can_start(const char *path, uint32_t nprocs);

#endif

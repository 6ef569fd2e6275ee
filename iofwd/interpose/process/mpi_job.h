/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends processes whose MPI library would misunderstand which job they belong to:
 *
 *   - Open MPI under amphora-run: each process would be a job of one rank (base/program/open_mpi.h).
 *     amphora-run recognises programs that are linked with it; this finds the rest: scripts, and
 *     libraries that are loaded later, such as Python's mpi4py.
 *   - MPICH in one job with iofwd-server under a launcher of PMI-1 (mpiexec.hydra -n C PROGRAM : -n S
 *     iofwd-server): MPICH takes the servers for ranks and waits for them in MPI_Init.
 *
 * Layer: iofwd (interposer).  Thread rule: start: the constructor; check: any thread;
 * hold: under the lock by which the client is opened; release: a process that ends.
 */
#ifndef AMPH_IOFWD_MPI_JOB_H
#define AMPH_IOFWD_MPI_JOB_H

/* Reads the settings. */
void amph_ip_mpi_job_start(char **env);

/* Looks at the libraries that are loaded now.  Does not return if an MPI library is among them that
 * would find no job, or the wrong one. */
void amph_ip_mpi_job_check(void);

/* mpi.c: before this process joins the servers of its job, and at its end or exec: it stays in PMIx
 * meanwhile, for an MPI_Init that comes later.  They do nothing in other jobs and in forked children;
 * release keeps errno. */
void amph_ip_mpi_hold(void);
void amph_ip_mpi_release(void);

#endif

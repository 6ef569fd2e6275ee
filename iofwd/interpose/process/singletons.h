/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends processes of amphora-run that have loaded Open MPI and would each become a job of one rank
 * (base/open_mpi.h).  amphora-run recognises programs that are linked with it; this finds the rest:
 * scripts, and libraries that are loaded later, such as Python's mpi4py.
 *
 * Layer: iofwd (interposer).  Thread rule: start: the constructor; check: any thread.
 */
#ifndef AMPH_IOFWD_SINGLETONS_H
#define AMPH_IOFWD_SINGLETONS_H

/* Reads the settings. */
void amph_ip_singletons_start(char **env);

/* Looks at the libraries that are loaded now.  Does not return if Open MPI is among them and has no
 * job to find. */
void amph_ip_singletons_check(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine's cores and NUMA domains, and binding processes to them (hwloc).
 *
 * Layer: base; for Amphora's programs only: clients do not load hwloc.  Thread rule: one thread at a
 * time.
 */
#ifndef AMPH_BASE_TOPO_H
#define AMPH_BASE_TOPO_H

#include <stdio.h>
#include <sys/types.h>

#include "base/status.h"

enum amph_bind {
    AMPH_BIND_NONE,
    AMPH_BIND_CORE,
    AMPH_BIND_NUMA
};

struct amph_topo;

enum amph_status amph_topo_open(struct amph_topo **topo_p);
void amph_topo_close(struct amph_topo *topo);
unsigned amph_topo_cores(const struct amph_topo *topo); /* that this process may use */
/* Binds process pid (0: the caller) to the core or NUMA node of local process `index` of `count`.
 * Cores or nodes are distributed evenly, and shared if there are more processes.  A failure is logged
 * and returned. */
enum amph_status amph_topo_bind(struct amph_topo *topo, pid_t pid, enum amph_bind how,
                                unsigned index, unsigned count);
/* Prints one line for each kind of object (packages, NUMA nodes, cores) with its count
 * (amphora-info). */
void amph_topo_print(struct amph_topo *topo, FILE *out);

#endif

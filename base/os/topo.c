/* SPDX-License-Identifier: BSD-3-Clause */
/* Topology and binding by hwloc; see topo.h.  Layer: base.  Thread rule: one thread at a time. */
#include "base/os/topo.h"

#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

struct amph_topo {
    hwloc_topology_t hw;
};

enum amph_status amph_topo_open(struct amph_topo **topo_p)
{
    struct amph_topo *topo = calloc(1, sizeof *topo);

    if (!topo || hwloc_topology_init(&topo->hw) != 0) {
        free(topo);
        return AMPH_ERR_NOMEM;
    }

    if (hwloc_topology_load(topo->hw) != 0) {
        amph_error("hwloc cannot read this machine's topology: %m (is HWLOC_XMLFILE or "
                   "HWLOC_SYNTHETIC set to a wrong value?)");
        amph_topo_close(topo);
        return AMPH_ERR_SYS;
    }

    *topo_p = topo;
    return AMPH_OK;
}

void amph_topo_close(struct amph_topo *topo)
{
    if (!topo)
        return;

    hwloc_topology_destroy(topo->hw);
    free(topo);
}

static unsigned count(const struct amph_topo *topo, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_by_type(topo->hw, type);
    return n > 0 ? (unsigned)n : 1;
}

unsigned amph_topo_cores(const struct amph_topo *topo)
{
    return count(topo, HWLOC_OBJ_CORE);
}

/* The object (core or NUMA node) of local process `index` of `procs`: spread over all objects, or
 * round robin if there are more processes than objects. */
static unsigned object_of(unsigned objects, unsigned index, unsigned procs)
{
    if (procs > objects)
        return index % objects;

    return (unsigned)((unsigned long)index * objects / (procs ? procs : 1));
}

enum amph_status amph_topo_bind(struct amph_topo *topo, pid_t pid, enum amph_bind how,
                                unsigned index, unsigned procs)
{
    if (how == AMPH_BIND_NONE)
        return AMPH_OK;

    hwloc_obj_type_t type = how == AMPH_BIND_CORE ? HWLOC_OBJ_CORE : HWLOC_OBJ_NUMANODE;
    hwloc_obj_t obj = hwloc_get_obj_by_type(topo->hw, type,
                                            object_of(count(topo, type), index, procs));

    if (!obj)
        return AMPH_ERR_NOENT;

    int ret = pid ? hwloc_set_proc_cpubind(topo->hw, pid, obj->cpuset, 0)
                  : hwloc_set_cpubind(topo->hw, obj->cpuset, 0);

    if (ret != 0) {
        amph_warn("cannot bind a process to %s %u: %m",
                  how == AMPH_BIND_CORE ? "core" : "NUMA node", obj->logical_index);
        return amph_status_from_errno(errno);
    }

    return AMPH_OK;
}

void amph_topo_print(struct amph_topo *topo, FILE *out)
{
    unsigned depth = (unsigned)hwloc_topology_get_depth(topo->hw);

    for (unsigned d = 0; d < depth; d++) {
        unsigned n = hwloc_get_nbobjs_by_depth(topo->hw, (int)d);
        fprintf(out, "%-10s %u\n", hwloc_obj_type_string(hwloc_get_depth_type(topo->hw, (int)d)),
                n);
    }

    fprintf(out, "%-10s %u\n", "NUMANode", count(topo, HWLOC_OBJ_NUMANODE));
}

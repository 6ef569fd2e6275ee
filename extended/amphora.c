/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of amphora.h: groups, ranks and properties of the job's processes.  Layer:
 * extended.  Thread rule: reads data that is fixed after the start; amphora_proc by one thread at a
 * time.
 */
#include "amphora.h"

#include <string.h>

#include "am/am.h"
#include "amphora/types.h"
#include "boot/boot.h"

static const struct amph_jobdesc *desc(void)
{
    return amph_job.joined && amph_job.boot ? amph_boot_job(amph_job.boot) : NULL;
}

enum amphora_group amphora_own_group(void)
{
    return desc() && amph_boot_group(amph_job.boot) == AMPH_SERVER ? AMPHORA_SERVERS
                                                                   : AMPHORA_COMPUTE;
}

uint32_t amphora_absolute(void)
{
    return desc() ? amph_boot_self(amph_job.boot) : AMPHORA_NONE;
}

uint32_t amphora_relative(void)
{
    return desc() ? amph_job.rank : AMPHORA_NONE;
}

uint32_t amphora_group_size(enum amphora_group group)
{
    return desc() && (group == AMPHORA_COMPUTE || group == AMPHORA_SERVERS) ? desc()->nproc[group]
                                                                            : 0;
}

uint32_t amphora_member(enum amphora_group group, uint32_t relative)
{
    if (relative >= amphora_group_size(group))
        return AMPHORA_NONE;

    return amph_boot_first(amph_job.boot, group == AMPHORA_SERVERS ? AMPH_SERVER : AMPH_COMPUTE) +
           relative;
}

uint32_t amphora_server_of(uint32_t c)
{
    if (c >= amphora_group_size(AMPHORA_COMPUTE) || !desc()->server_of)
        return AMPHORA_NONE;

    return desc()->server_of[c];
}

int amphora_proc(uint32_t absolute, struct amphora_proc *proc)
{
    const struct amph_jobdesc *d = desc();

    if (!d)
        return GASNET_ERR_NOT_INIT;
    if (!proc || absolute >= d->nproc[AMPH_COMPUTE] + d->nproc[AMPH_SERVER])
        return GASNET_ERR_BAD_ARG;

    const struct amph_proc *p = &d->proc[absolute];
    bool server = absolute >= d->nproc[AMPH_COMPUTE];

    memset(proc, 0, sizeof *proc);
    proc->group = server ? AMPHORA_SERVERS : AMPHORA_COMPUTE;
    proc->relative = server ? absolute - d->nproc[AMPH_COMPUTE] : absolute;
    proc->host = p->host;
    proc->host_name = p->host < d->nhosts ? d->host_name[p->host] : "";
    if (!p->stated)
        return GASNET_ERR_NOT_READY;

    proc->big_endian = p->big_endian;
    proc->pointer_bytes = p->pointer_bytes;
    proc->page_bytes = p->page_bytes;
    proc->pid = p->pid;

    return 0;
}

const char *amphora_conduit(void)
{
    return amph_job.ep ? amph_am_network(amph_job.ep) : NULL;
}

const char *amphora_version(void)
{
    return "amphora " AMPHORA_VERSION;
}

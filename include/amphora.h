/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries beyond the GASNet API: the two groups of a job (compute processes and I/O servers), the
 * numbers of a process, its server, and the properties of every process.
 *
 * Absolute numbers count the whole job: compute processes 0..C-1, servers C..C+S-1.  Relative
 * numbers count within a group, from 0; a compute process's relative number is its rank
 * (gex_System_QueryJobRank).
 *
 * The answers are valid after gex_Client_Init or gasnet_init; before, numbers are AMPHORA_NONE and
 * sizes are 0.
 * Thread rule: any thread, and from handlers, except amphora_proc.
 */
#ifndef AMPHORA_H
#define AMPHORA_H

#include <stdint.h>

#include "amphora/compiler.h"

AMPHORA_BEGIN_C

#define AMPHORA_VERSION "1.0.0"
#define AMPHORA_NONE ((uint32_t)0xffffffffu)

enum amphora_group {
    AMPHORA_COMPUTE = 0,
    AMPHORA_SERVERS = 1
};

/* This process: its group, its number in the job, its number in the group. */
enum amphora_group amphora_own_group(void);
uint32_t amphora_absolute(void);
uint32_t amphora_relative(void);

/* Returns the number of processes of a group. */
uint32_t amphora_group_size(enum amphora_group group);

/* Returns the absolute number of member `relative` of a group, or AMPHORA_NONE if the group has no
 * such member. */
uint32_t amphora_member(enum amphora_group group, uint32_t relative);

/* Returns the absolute number of the server of compute process c, or AMPHORA_NONE if there is no
 * such process or the job has no servers. */
uint32_t amphora_server_of(uint32_t c);

/* Properties of a process, as it stated them when it joined the job. */
struct amphora_proc {
    enum amphora_group group;
    uint32_t relative;
    int big_endian;
    uint32_t pointer_bytes;
    uint32_t page_bytes;
    uint64_t pid;
    uint32_t host;         /* equal for processes on the same host */
    const char *host_name; /* owned by the library */
};

/* Fills in the properties of process `absolute`.  Returns 0, GASNET_ERR_NOT_INIT,
 * GASNET_ERR_BAD_ARG (no such process) or GASNET_ERR_NOT_READY (the process has not joined yet;
 * only group, relative and host are filled in).  Not callable from handlers. */
int amphora_proc(uint32_t absolute, struct amphora_proc *proc);

/* Returns the conduit that carries messages to processes on other hosts: "tcp", "udp", ..., or
 * "smp" if all processes share memory with this one.  NULL before initialisation. */
const char *amphora_conduit(void);

/* Returns the library's version in one line. */
const char *amphora_version(void);

AMPHORA_END_C

#endif

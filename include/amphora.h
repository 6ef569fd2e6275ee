/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Amphora knows beyond the GASNet API: the two groups of a job (compute processes and I/O
 * servers), numbers in the job and in the group, which server serves whom, and facts of every
 * process.
 *
 * Absolute numbers count the whole job: compute processes 0..C-1, servers C..C+S-1.  Relative
 * numbers count the own group from 0 (gex_System_QueryJobRank).  Valid after gex_Client_Init or
 * gasnet_init; before, the numbers are AMPHORA_NONE and sizes 0. Callable from any thread and from
 * handlers, except amphora_proc.
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

enum amphora_group amphora_own_group(void);
uint32_t amphora_absolute(void);
uint32_t amphora_relative(void);

/* How many processes a group has. */
uint32_t amphora_group_size(enum amphora_group group);

/* Absolute number of member `relative` of a group; AMPHORA_NONE: there is none. */
uint32_t amphora_member(enum amphora_group group, uint32_t relative);

/* Absolute number of the server of compute process c; AMPHORA_NONE: no such process, or the job has
 * no servers. */
uint32_t amphora_server_of(uint32_t c);

/* Facts of a process.  They are what the process said of itself when it joined. */
struct amphora_proc {
    enum amphora_group group;
    uint32_t relative;
    int big_endian;
    uint32_t pointer_bytes;
    uint32_t page_bytes;
    uint64_t pid;
    uint32_t host;         /* processes with one number are on one host */
    const char *host_name; /* the library's */
};

/* Fills in the facts of process `absolute`. Returns 0, GASNET_ERR_NOT_INIT, GASNET_ERR_BAD_ARG (no
 * such process) or GASNET_ERR_NOT_READY (it has said nothing yet; group, relative and host are
 * filled in all the same). */
int amphora_proc(uint32_t absolute, struct amphora_proc *proc);

/* What carries messages to processes that share no memory with this one: "tcp", "udp", ..., or
 * "smp" where there are no others. NULL before initialisation. */
const char *amphora_conduit(void);

/* The library's version, one line. */
const char *amphora_version(void);

AMPHORA_END_C

#endif

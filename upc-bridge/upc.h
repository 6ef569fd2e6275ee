/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of libamphora-upc share.  Layer: upc-bridge.  Everything here stands on the public
 * API (gex_ and gasnet_ calls, iofwd.h). Thread rule: one C thread a process; handlers run inside
 * the library's calls only, and touch what their file says.
 */
#ifndef AMPHORA_UPC_H
#define AMPHORA_UPC_H

#define UPC_LIBRARY 1 /* this library goes with programs of either form of pointers */
#include "upc_bridge.h"

#include <stdbool.h>

#include "gasnet.h"
#include "gasnet_ratomic.h"

/* Ends the job with one sentence, which the thread's number precedes. */
void amph_upc_fail(const char *format, ...) AMPHORA_NORETURN __attribute__((format(printf, 1, 2)));

/* Offset 0 is the null pointer's; objects begin here. */
#define UPC_FIRST_OFFSET 64

#define UPC_WIDE_NULL ((struct upc_wide){ 0, 0, 0 })

/* An address of the thread's process, as gex calls want it. */
static inline void *amph_upc_there(uint32_t thread, uint64_t addr)
{
    return (void *)(upc_self.place[thread].owner + addr);
}

/* The own memory at an offset. */
static inline void *amph_upc_mine(uint64_t addr)
{
    return (void *)(upc_self.place[upc_self.mythread].here + addr);
}

/* How many elements of p's block stand before it; *p becomes a pointer to the first of them.  block
 * 0: one block, which begins at p. */
static inline uint64_t amph_upc_block_begin(struct upc_wide *p, uint64_t block, uint64_t size)
{
    uint64_t before = block ? p->phase % block : 0;

    p->addr -= before * size;
    p->phase = 0;
    return before;
}

/* All threads have come here; what they wrote before is seen behind it.  Another family of barriers
 * than upc_barrier's. */
void amph_upc_meet(void);

/* nbytes of thread root's buf become everyone's. */
void amph_upc_report(uint32_t root, void *buf, size_t nbytes);

/* Reductions over all threads of one number. */
uint64_t amph_upc_max(uint64_t value);
void amph_upc_sums(uint64_t *value, size_t n); /* of n numbers, at most 4 */

/* ---- alloc.c: the two heaps; see there ---- */

int amph_upc_heaps_init(uint64_t size);
/* Collective and the same everywhere, before the heaps are used: bytes in every thread; 0: no
 * room. */
uint64_t amph_upc_static_alloc(uint64_t bytes);
/* Own shared memory for the library's scratch; ends the job where there is no room. */
uint64_t amph_upc_scratch(uint64_t bytes, const char *call);
void amph_upc_scratch_free(uint64_t addr);

/* ---- handlers, registered by start.c ---- */

size_t amph_upc_alloc_handlers(gex_AM_Entry_t *rows);
size_t amph_upc_lock_handlers(gex_AM_Entry_t *rows);
#define UPC_MAX_HANDLERS 16

/* A 64-bit value in two arguments of a message, and back. */
#define UPC_HIGH(value) ((gex_AM_Arg_t)(uint32_t)((uint64_t)(value) >> 32))
#define UPC_LOW(value) ((gex_AM_Arg_t)(uint32_t)(uint64_t)(value))
#define UPC_JOIN(high, low) (((uint64_t)(uint32_t)(high) << 32) | (uint32_t)(low))

/* ---- what is set up after the segments and torn down at the end ---- */

void amph_upc_locks_init(void);
void amph_upc_files_end(void);
/* The barrier at the end of the program; also after a upc_notify that nobody waited for. */
void amph_upc_end_barrier(void);

/* The entry and exit of a collective by its flags: a meeting, or nothing where NOSYNC is asked for.
 * MYSYNC is served by a meeting. */
void amph_upc_enter(upc_flag_t flags, const char *call);
void amph_upc_leave(upc_flag_t flags);

#endif

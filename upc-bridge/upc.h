/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of libamphora-upc share.
 *
 *   start.c        start and end of a program, static objects, upc_global_exit
 *   alloc.c        the global and the local heap; upc_alloc and its relatives
 *   heap.c         an allocator for a range of memory
 *   memory.c       upc_memcpy, upc_memget, upc_memput, upc_memset and their non-blocking forms
 *   move.c         collectives that move data: broadcast, scatter, gather, exchange, permute
 *   reduce.c       reductions and prefix reductions
 *   sort.c         upc_all_sort
 *   sync.c         barriers, the library's own barrier, the clock
 *   lock.c         locks
 *   atomic.c       atomic domains
 *   io/            UPC-IO
 *   io/files.h     types and functions of its files
 *   io/io.c        open, close, pointers, sizes, modes
 *   io/calls.c     reads and writes, also asynchronous ones
 *   io/collective.c  one shared array, by all threads together (two-phase I/O)
 *   io/exchange.c  lists of short pieces, sorted by file offset across the threads
 *   io/move.c      copies between memory pieces and file pieces
 *   io/file.c      one file, forwarded or local
 *   translated/translated.c, coll.c, io.c   functions that translated programs (upcxlate) call,
 *                  in place of inline ones
 *   include/       UPC's headers for programs; upcx.h, which amphora-upcc puts before each UPC source
 *   xlate/         upcxlate, the translator; its map is in xlate/xlate.h
 *   driver/        amphora-upcc and amphora-upcrun
 *
 * May include: the public headers only (gex_, gasnet_ and iofwd_ calls).  Writable globals:
 * upc_self, which the inline functions of the public header read, and amph_upc.
 *
 * Layer: upc-bridge.  Thread rule: one C thread in each process.  Handlers run only inside calls of
 * the library, and touch only what their file documents.
 */
#ifndef AMPHORA_UPC_H
#define AMPHORA_UPC_H

#define UPC_LIBRARY 1 /* this library goes with programs of either form of pointers */
#include "upc_bridge.h"

#include <stdbool.h>
#include <stdint.h>

#include "gasnet.h"
#include "gasnet_ratomic.h"
#include "upc-bridge/heap.h"

struct upc_lock_node;
struct upc_atomic_domain;
struct upc_file;
struct upcx_unit;

/* The writable state of the library in this process; defined in start.c. */
struct amph_upc_state {
    /* start.c */
    struct {
        struct upc_static *first, **last; /* static shared objects to allocate */
        bool running;
        gex_AM_Index_t exit, acknowledge; /* handlers of upc_global_exit */
        int nacknowledged;                /* threads that have acknowledged upc_global_exit */
        int status;                       /* argument of upc_global_exit */
    } program;

    /* translated.c: a program that upcxlate has made */
    struct {
        struct upcx_unit *units; /* translation units, in the order of their constructors */
        int (*user_main)(int, char **, char **);
    } translated;

    /* sync.c */
    struct {
        int id, flags; /* of the last upc_notify */
        bool open;     /* between upc_notify and upc_wait */
    } barrier;

    /* alloc.c */
    struct {
        struct upc_heap global, local;
        uint64_t half;                       /* where the local heap begins */
        gex_AM_Index_t ask, answer, release; /* handlers */
    } heaps;

    /* lock.c */
    struct {
        gex_AD_t ad;
        struct upc_lock_node *node;
        uint32_t count;
        gex_AM_Index_t link, grant; /* handlers */
    } locks;

    /* atomic.c */
    struct {
        struct upc_atomic_domain *domain;
        size_t count;
    } domains;

    /* io/io.c, io/calls.c */
    struct {
        struct upc_file **file;
        size_t count;
        unsigned
            ncollective; /* asynchronous collective transfers in flight; equal in all threads */
    } files;
};

extern struct amph_upc_state amph_upc;

/* Prints one sentence, preceded by the thread's number, and ends the job. */
void amph_upc_fail(const char *format, ...) AMPHORA_NORETURN __attribute__((format(printf, 1, 2)));

/* Offset 0 is the null pointer's; objects begin here. */
#define UPC_FIRST_OFFSET 64

#define UPC_WIDE_NULL ((struct upc_wide){ 0, 0, 0 })

/* Returns the address of offset addr in the given thread, in the form that gex calls take. */
static inline void *amph_upc_there(uint32_t thread, uint64_t addr)
{
    return (void *)(upc_self.place[thread].owner + addr);
}

/* Returns the local address of offset addr in this thread's own shared memory. */
static inline void *amph_upc_mine(uint64_t addr)
{
    return (void *)(upc_self.place[upc_self.mythread].here + addr);
}

/* Moves *p to the first element of its block and returns by how many elements it moved.  block 0
 * (indefinite): *p already is the first element. */
static inline uint64_t amph_upc_block_begin(struct upc_wide *p, uint64_t block, uint64_t size)
{
    uint64_t before = block ? p->phase % block : 0;

    p->addr -= before * size;
    p->phase = 0;
    return before;
}

/* A barrier of all threads: writes made before it are visible after it.  It is independent of
 * upc_barrier, so the library may use it between upc_notify and upc_wait. */
void amph_upc_sync(void);

/* Broadcasts nbytes of buf from thread root to all threads. */
void amph_upc_broadcast(uint32_t root, void *buf, size_t nbytes);

/* Reductions over all threads. */
uint64_t amph_upc_max(uint64_t value);
void amph_upc_sums(uint64_t *value, size_t n); /* of n numbers, at most 4 */

/* ---- alloc.c: the two heaps; see there ---- */

int amph_upc_heaps_init(uint64_t size);
/* Allocates bytes at the same offset in every thread and returns the offset, or 0 if the heap is
 * full.  Collective, with the same size everywhere, and only before the heaps are used. */
uint64_t amph_upc_static_alloc(uint64_t bytes);
/* Allocates scratch memory in this thread's shared memory.  Ends the job if the heap is full; `call`
 * names the UPC function in that message. */
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

/* ---- set up after the segments are attached, and torn down at the end ---- */

void amph_upc_locks_init(void);
void amph_upc_files_end(void);
/* The barrier at the end of the program.  It completes a upc_notify that has no upc_wait. */
void amph_upc_end_barrier(void);

/* Synchronises the entry and the exit of a collective as its flags ask: ALLSYNC and MYSYNC are a
 * barrier, NOSYNC does nothing. */
void amph_upc_enter(upc_flag_t flags, const char *call);
void amph_upc_leave(upc_flag_t flags);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pointers-to-shared: thread, phase, and the offset of the object in the shared part of that
 * thread's memory.  An array has the same offset in all threads; offset 0 is no object, so a null
 * pointer is all zeros.  UPC 1.3, 6.4.2 and 6.4.3; RL 7.2.3.
 */
#ifndef AMPHORA_UPC_PTS_H
#define AMPHORA_UPC_PTS_H

#ifndef UPC_TRANSLATED
#include <stdint.h>

#include "gasnetex.h"
#else /* upcxlate's output, which includes no header of the system: see upc-bridge/include/upcx.h */
#include "amphora/compiler.h"
#endif

#if __SIZEOF_POINTER__ < 8
#error "upc_bridge.h needs pointers of 64 bits"
#endif

/* The wide form: what the library's own functions take. */
struct upc_wide {
    uint64_t addr; /* offset in bytes */
    uint32_t thread;
    uint32_t phase; /* elements, below the block size */
};

#define UPC_PACKED_THREAD_BITS 10
#define UPC_PACKED_PHASE_BITS 20
#define UPC_PACKED_ADDR_BITS 34

/* The packed form. */
struct upc_packed {
    uint64_t bits; /* from the top: thread, phase, address */
};

AMPHORA_INLINE struct upc_wide upc_wide_of_packed(struct upc_packed p)
{
    struct upc_wide w = { p.bits & (((uint64_t)1 << UPC_PACKED_ADDR_BITS) - 1),
                          (uint32_t)(p.bits >> (UPC_PACKED_ADDR_BITS + UPC_PACKED_PHASE_BITS)),
                          (uint32_t)(p.bits >> UPC_PACKED_ADDR_BITS) &
                              (((uint32_t)1 << UPC_PACKED_PHASE_BITS) - 1) };

    return w;
}

AMPHORA_INLINE struct upc_packed upc_packed_of_wide(struct upc_wide w)
{
    struct upc_packed p = { w.addr | ((uint64_t)w.phase << UPC_PACKED_ADDR_BITS) |
                            ((uint64_t)w.thread
                             << (UPC_PACKED_ADDR_BITS + UPC_PACKED_PHASE_BITS)) };
    return p;
}

#ifdef UPC_PTS_STRUCT
#define UPC_PTS_FORM 2
#define UPC_NULL ((struct upc_wide){ 0, 0, 0 })
#define UPC_MAX_BLOCK_SIZE 4294967295u
typedef struct upc_wide upc_pts_t;
#else
#define UPC_PTS_FORM 1
#define UPC_NULL ((struct upc_packed){ 0 })
#define UPC_MAX_BLOCK_SIZE 1048576 /* predefined macro, UPC 1.3, 6.1.1 */
typedef struct upc_packed upc_pts_t;
#endif

/* Files of different forms do not link (see amphora/threadmode.h), but for the library's own. */
#ifndef UPC_LIBRARY
__asm__(".globl upc_pts_form\n\t.hidden upc_pts_form\n\t.set upc_pts_form, " AMPHORA_TEXT(
    UPC_PTS_FORM));
#endif

AMPHORA_INLINE struct upc_wide upc_pts_wide(upc_pts_t p)
{
#ifdef UPC_PTS_STRUCT
    return p;
#else
    return upc_wide_of_packed(p);
#endif
}

AMPHORA_INLINE upc_pts_t upc_pts_of_wide(struct upc_wide w)
{
#ifdef UPC_PTS_STRUCT
    return w;
#else
    return upc_packed_of_wide(w);
#endif
}

AMPHORA_INLINE upc_pts_t upc_pts_make(uint32_t thread, uint32_t phase, uint64_t addr)
{
    struct upc_wide w = { addr, thread, phase };
    return upc_pts_of_wide(w);
}

AMPHORA_INLINE uint32_t upc_pts_thread(upc_pts_t p)
{
    return upc_pts_wide(p).thread;
}

AMPHORA_INLINE uint32_t upc_pts_phase(upc_pts_t p)
{
    return upc_pts_wide(p).phase;
}

AMPHORA_INLINE uint64_t upc_pts_addr(upc_pts_t p)
{
    return upc_pts_wide(p).addr;
}

AMPHORA_INLINE int upc_pts_is_null(upc_pts_t p)
{
    return upc_pts_addr(p) == 0;
}

/* One object?  The phases do not count (6.4.2). */
AMPHORA_INLINE int upc_pts_eq(upc_pts_t p, upc_pts_t q)
{
    struct upc_wide a = upc_pts_wide(p);
    struct upc_wide b = upc_pts_wide(q);

    return a.addr == b.addr && a.thread == b.thread;
}

/* What a process knows of itself and of where the threads' shared memory is.  Written at the start;
 * read-only for programs. */
struct upc_place {
    uintptr_t here;  /* + offset: an address of this process; 0: not mapped here */
    uintptr_t owner; /* + offset: an address of the thread's process */
};

struct upc_self {
    const struct upc_place *place; /* [threads] */
    gex_TM_t tm;
    int threads, mythread;
    uint64_t size;  /* bytes of shared memory of a thread */
    int forall;     /* a upc_forall with an affinity is being executed (6.6.2) */
    unsigned looks; /* strict reads and fences so far */
};

extern struct upc_self upc_self;

#ifdef UPC_STATIC_THREADS
#define THREADS (UPC_STATIC_THREADS)
#else
#define THREADS (upc_self.threads)
#endif
#define MYTHREAD (upc_self.mythread)

/* a / b and a - b * that, rounded down; b > 0.  Small values take the short division. */
AMPHORA_INLINE int64_t upc_floor_div(int64_t a, int64_t b, int64_t *rest)
{
    int64_t quotient;

    if (AMPHORA_LIKELY(((uint64_t)a | (uint64_t)b) >> 32 == 0)) {
        quotient = (int64_t)((uint32_t)a / (uint32_t)b);
        *rest = (int64_t)((uint32_t)a % (uint32_t)b);
        return quotient;
    }

    quotient = a / b;
    *rest = a - quotient * b;

    if (*rest < 0) {
        *rest += b;
        quotient--;
    }

    return quotient;
}

/* p + 1 and p - 1: the steps of pointers that walk through an array, without a division. */
AMPHORA_INLINE upc_pts_t upc_pts_next(upc_pts_t p, size_t elem_size, size_t block)
{
    struct upc_wide w = upc_pts_wide(p);

    if (block == 0 || (block > 1 && w.phase + 1 < block)) {
        w.phase = block ? w.phase + 1 : 0;
        w.addr += elem_size;
        return upc_pts_of_wide(w);
    }

    w.addr -= block > 1 ? w.phase * elem_size : 0;
    w.phase = 0;

    if (++w.thread == (uint32_t)THREADS) {
        w.thread = 0;
        w.addr += block * elem_size;
    }

    return upc_pts_of_wide(w);
}

AMPHORA_INLINE upc_pts_t upc_pts_previous(upc_pts_t p, size_t elem_size, size_t block)
{
    struct upc_wide w = upc_pts_wide(p);

    if (block == 0 || (block > 1 && w.phase > 0)) {
        w.phase = block ? w.phase - 1 : 0;
        w.addr -= elem_size;
        return upc_pts_of_wide(w);
    }

    if (w.thread-- == 0) {
        w.thread = (uint32_t)THREADS - 1;
        w.addr -= block * elem_size;
    }

    w.phase = (uint32_t)(block - 1);
    w.addr += (block - 1) * elem_size;
    return upc_pts_of_wide(w);
}

/* p + inc for a pointer to elements of elem_size bytes in blocks of `block` elements (0:
 * indefinite, 1: cyclic); inc may be negative. UPC 1.3, 6.4.2. */
AMPHORA_INLINE upc_pts_t upc_pts_add(upc_pts_t p, size_t elem_size, size_t block, ptrdiff_t inc)
{
    struct upc_wide w = upc_pts_wide(p);
    int64_t phase = 0;
    int64_t thread;
    int64_t blocks = inc;
    int64_t rows;

    if (__builtin_constant_p(inc == 1) && inc == 1)
        return upc_pts_next(p, elem_size, block);
    if (__builtin_constant_p(inc == -1) && inc == -1)
        return upc_pts_previous(p, elem_size, block);

    if (block == 0) {
        w.addr += (uint64_t)inc * elem_size;
        w.phase = 0;
        return upc_pts_of_wide(w);
    }

    if (block > 1)
        blocks = upc_floor_div((int64_t)w.phase + inc, (int64_t)block, &phase);

    rows = upc_floor_div((int64_t)w.thread + blocks, THREADS, &thread);
    w.addr += (uint64_t)(phase - (block > 1 ? (int64_t)w.phase : 0) + rows * (int64_t)block) *
              elem_size;
    w.thread = (uint32_t)thread;
    w.phase = (uint32_t)phase;

    return upc_pts_of_wide(w);
}

/* How many elements p is behind q; both point into one array. */
AMPHORA_INLINE ptrdiff_t upc_pts_sub(upc_pts_t p, upc_pts_t q, size_t elem_size, size_t block)
{
    struct upc_wide a = upc_pts_wide(p);
    struct upc_wide b = upc_pts_wide(q);
    int64_t elems = (int64_t)(a.addr - b.addr) / (int64_t)elem_size;
    int64_t phases;
    int64_t threads = (int64_t)a.thread - (int64_t)b.thread;

    if (block == 0)
        return (ptrdiff_t)elems;

    phases = block > 1 ? (int64_t)a.phase - (int64_t)b.phase : 0;
    return (ptrdiff_t)(((elems - phases) / (int64_t)block * THREADS + threads) * (int64_t)block +
                       phases);
}

/* Below 0, 0 or above 0 as p lies before, at or behind q in their array (6.4.2): by row of blocks,
 * thread, phase. */
AMPHORA_INLINE int upc_pts_cmp(upc_pts_t p, upc_pts_t q, size_t elem_size, size_t block)
{
    struct upc_wide a = upc_pts_wide(p);
    struct upc_wide b = upc_pts_wide(q);
    int64_t d = (int64_t)(a.addr - b.addr);

    if (block) {
        d -= block > 1 ? ((int64_t)a.phase - (int64_t)b.phase) * (int64_t)elem_size : 0;
        d = d ? d : (int64_t)a.thread - (int64_t)b.thread;
        d = d || block == 1 ? d : (int64_t)a.phase - (int64_t)b.phase;
    }

    return (d > 0) - (d < 0);
}

/* A pointer to something inside *p, `bytes` behind its begin; phase 0. */
AMPHORA_INLINE upc_pts_t upc_pts_offset(upc_pts_t p, size_t bytes)
{
    struct upc_wide w = upc_pts_wide(p);

    w.addr += bytes;
    w.phase = 0;
    return upc_pts_of_wide(w);
}

/* p as a pointer to other elements or blocks.  The phase becomes 0 unless type size and block size
 * stay; a generic pointer (shared void *: say its block and element as those of the other side)
 * keeps it.  UPC 1.3, 6.4.3. */
AMPHORA_INLINE upc_pts_t upc_pts_recast(upc_pts_t p, size_t elem_from, size_t block_from,
                                        size_t elem_to, size_t block_to)
{
    struct upc_wide w = upc_pts_wide(p);

    if (elem_from != elem_to || block_from != block_to || block_to <= 1)
        w.phase = 0;

    return upc_pts_of_wide(w);
}

/* Ends the job: p has no address here. */
void upc_not_local(struct upc_wide p) AMPHORA_NORETURN;

/* The address of *p in this process, for the thread that it has affinity to, and for neighbours (see
 * upc_cast); NULL for a null pointer. Others end the job with a sentence.  UPC 1.3, 6.4.3. */
AMPHORA_INLINE void *upc_pts_local(upc_pts_t p)
{
    struct upc_wide w = upc_pts_wide(p);
    uintptr_t here = upc_self.place[w.thread].here;

    if (AMPHORA_UNLIKELY(w.addr == 0))
        return 0;

    if (AMPHORA_UNLIKELY(!here))
        upc_not_local(w);

    return (void *)(here + w.addr);
}

/* The pointer-to-shared of a local address that upc_pts_local or upc_cast gave for `thread`; phase
 * 0. */
AMPHORA_INLINE upc_pts_t upc_pts_of_local(uint32_t thread, const void *addr)
{
    return upc_pts_make(thread, 0, (uintptr_t)addr - upc_self.place[thread].here);
}

/* ---- RL 7.2.3: pointer-to-shared manipulation ---- */

AMPHORA_INLINE size_t upc_threadof(upc_pts_t p)
{
    return upc_pts_thread(p);
}

AMPHORA_INLINE size_t upc_phaseof(upc_pts_t p)
{
    return upc_pts_phase(p);
}

/* Phase 0, all else as it was. */
AMPHORA_INLINE upc_pts_t upc_resetphase(upc_pts_t p)
{
    struct upc_wide w = upc_pts_wide(p);

    w.phase = 0;
    return upc_pts_of_wide(w);
}

/* The object's address in the process of its thread; 0 for a null pointer. */
AMPHORA_INLINE size_t upc_addrfield(upc_pts_t p)
{
    struct upc_wide w = upc_pts_wide(p);
    return w.addr ? upc_self.place[w.thread].owner + w.addr : 0;
}

/* How many bytes of an array of totalsize bytes in blocks of nbytes bytes (0: indefinite) have
 * affinity to thread threadid. */
AMPHORA_INLINE size_t upc_affinitysize(size_t totalsize, size_t nbytes, size_t threadid)
{
    size_t blocks, rest;
    size_t threads = (size_t)THREADS;

    if (nbytes == 0 || totalsize <= nbytes)
        return threadid == 0 ? totalsize : 0;

    blocks = totalsize / nbytes;
    rest = totalsize % nbytes;
    return (blocks / threads + (threadid < blocks % threads)) * nbytes +
           (threadid == blocks % threads ? rest : 0);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What upcxlate's output needs: amphora-upcc puts it before every UPC source.  C without any
 * header of the system, so that the program's own feature macros keep their effect, and for any -std, C89 included;
 * pointers-to-shared are those of upc_bridge.h (amphora/upc/pts.h).  Not for programs.
 */
#pragma GCC system_header
#ifndef UPCX_H
#define UPCX_H

#include "amphora/upc/version.h"

/* The names that pts.h takes from elsewhere or that are the program's here. */
#define UPC_TRANSLATED 1
#define gex_TM_t void *
#define size_t __SIZE_TYPE__
#define ptrdiff_t __PTRDIFF_TYPE__
#define uintptr_t __UINTPTR_TYPE__
#define uint64_t __UINT64_TYPE__
#define int64_t __INT64_TYPE__
#define uint32_t __UINT32_TYPE__
#define upc_threadof upcx_c_threadof
#define upc_phaseof upcx_c_phaseof
#define upc_resetphase upcx_c_resetphase
#define upc_addrfield upcx_c_addrfield
#define upc_affinitysize upcx_c_affinitysize
#include "amphora/upc/pts.h"
#undef upc_threadof
#undef upc_phaseof
#undef upc_resetphase
#undef upc_addrfield
#undef upc_affinitysize
#undef THREADS
#undef MYTHREAD

#define UPCX_INLINE static __inline__ __attribute__((__unused__, __always_inline__))
typedef upc_pts_t upcx_pts;
typedef long long upcx_llong; /* C89 has no long long */

/* ---- pointers ---- */
UPCX_INLINE upcx_pts upcx_add(upcx_pts p, ptrdiff_t n, size_t size, size_t block)
{
    return upc_pts_add(p, size, block, n);
}

UPCX_INLINE ptrdiff_t upcx_diff(upcx_pts p, upcx_pts q, size_t size, size_t block)
{
    return upc_pts_sub(p, q, size, block);
}

UPCX_INLINE int upcx_cmp(upcx_pts p, upcx_pts q, size_t size, size_t block)
{
    return upc_pts_cmp(p, q, size, block);
}

UPCX_INLINE upcx_pts upcx_off(upcx_pts p, size_t bytes)
{
    return upc_pts_offset(p, bytes);
}

UPCX_INLINE upcx_pts upcx_phase0(upcx_pts p)
{
    return upc_pts_recast(p, 1, 0, 1, 0);
}

UPCX_INLINE upcx_pts upcx_recast(upcx_pts p, int same)
{
    return same ? p : upcx_phase0(p);
}

UPCX_INLINE int upcx_eq(upcx_pts p, upcx_pts q)
{
    return upc_pts_eq(p, q);
}

UPCX_INLINE int upcx_nonnull(upcx_pts p)
{
    return !upc_pts_is_null(p);
}

/* The compiler must not follow the null pointer into the code behind a cast: it would warn of every
 * memset there. */
UPCX_INLINE void *upcx_local(upcx_pts p)
{
    void *at = upc_pts_local(p);

    __asm__("" : "+r"(at));
    return at;
}

/* Elements times size, for the thread that has most (UPC 1.3, 6.4.1.2). */
UPCX_INLINE size_t upcx_localsize(size_t count, size_t size, size_t block)
{
    size_t blocks = block ? (count + block - 1) / block : 1;
    size_t threads = (size_t)upc_self.threads;

    return block ? (blocks + threads - 1) / threads * block * size : count * size;
}

/* ---- reads and writes ---- */
void upcx_null(void) AMPHORA_NORETURN;
void upc_read_far(void *dst, struct upc_wide src, size_t nbytes);
void upc_write_far(struct upc_wide dst, const void *src, size_t nbytes);

typedef __UINT8_TYPE__ upcx_u8 __attribute__((__may_alias__));
typedef __UINT16_TYPE__ upcx_u16 __attribute__((__may_alias__));
typedef __UINT32_TYPE__ upcx_u32 __attribute__((__may_alias__));
typedef __UINT64_TYPE__ upcx_u64 __attribute__((__may_alias__));

/* The address of the object here, or 0. */
UPCX_INLINE uintptr_t upcx_near(upcx_pts p)
{
    struct upc_wide w = upc_pts_wide(p);
    uintptr_t here = upc_self.place[w.thread].here;

    if (AMPHORA_UNLIKELY(w.addr == 0))
        upcx_null();

    return AMPHORA_LIKELY(here != 0) ? here + w.addr : 0;
}

/* From or to memory that others change meanwhile: whole words whole, and never from an earlier
 * read. */
UPCX_INLINE void upcx_get(void *dst, upcx_pts p, size_t n)
{
    uintptr_t at = upcx_near(p);

    if (AMPHORA_UNLIKELY(at == 0)) {
        upc_read_far(dst, upc_pts_wide(p), n);
        return;
    }

    switch (n) {
    case 1:
        *(upcx_u8 *)dst = *(volatile upcx_u8 *)at;
        break;
    case 2:
        *(upcx_u16 *)dst = *(volatile upcx_u16 *)at;
        break;
    case 4:
        *(upcx_u32 *)dst = *(volatile upcx_u32 *)at;
        break;
    case 8:
        *(upcx_u64 *)dst = *(volatile upcx_u64 *)at;
        break;
    default:
        __asm__ volatile("" ::: "memory");
        __builtin_memcpy(dst, (const void *)at, n);
    }
}

UPCX_INLINE void upcx_put(upcx_pts p, const void *src, size_t n)
{
    uintptr_t at = upcx_near(p);

    if (AMPHORA_UNLIKELY(at == 0)) {
        upc_write_far(upc_pts_wide(p), src, n);
        return;
    }

    switch (n) {
    case 1:
        *(volatile upcx_u8 *)at = *(const upcx_u8 *)src;
        break;
    case 2:
        *(volatile upcx_u16 *)at = *(const upcx_u16 *)src;
        break;
    case 4:
        *(volatile upcx_u32 *)at = *(const upcx_u32 *)src;
        break;
    case 8:
        *(volatile upcx_u64 *)at = *(const upcx_u64 *)src;
        break;
    default:
        __builtin_memcpy((void *)at, src, n);
        __asm__ volatile("" ::: "memory");
    }
}

/* Who spins on a strict read waits for others, whose messages may need this process: as upc_look of
 * amphora/upc/core.h. */
void upc_poll(void);
UPCX_INLINE void upcx_look(void)
{
    if (AMPHORA_UNLIKELY((++upc_self.looks & 63) == 0))
        upc_poll();
}

UPCX_INLINE void upcx_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    upcx_look();
}

/* A turn of a loop that may wait for others without such reads; every (often + 1)-th polls.  turns:
 * of this loop, in a register. */
UPCX_INLINE void upcx_turn(unsigned *turns, unsigned often)
{
    if (AMPHORA_LIKELY((++*turns & often) != 0))
        return;

    upc_self.looks |= 63;
    upcx_look();
}

UPCX_INLINE void upcx_get_strict(void *dst, upcx_pts p, size_t n)
{
    upcx_fence();
    upcx_get(dst, p, n);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

UPCX_INLINE void upcx_put_strict(upcx_pts p, const void *src, size_t n)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    upcx_put(p, src, n);
    upcx_fence();
}

/* The same for structures with padding, whose object is the caller's: its address. */
UPCX_INLINE void *upcx_get_whole(void *dst, upcx_pts p, size_t n)
{
    upcx_get(dst, p, n);
    return dst;
}

UPCX_INLINE void *upcx_get_whole_strict(void *dst, upcx_pts p, size_t n)
{
    upcx_get_strict(dst, p, n);
    return dst;
}

UPCX_INLINE void *upcx_put_whole(upcx_pts p, void *src, size_t n)
{
    upcx_put(p, src, n);
    return src;
}

UPCX_INLINE void *upcx_put_whole_strict(upcx_pts p, void *src, size_t n)
{
    upcx_put_strict(p, src, n);
    return src;
}

UPCX_INLINE long long upcx_ones(void)
{
    return -1;
}

/* The bits of src that are set in mask, into the bytes of a structure that they touch. */
UPCX_INLINE void upcx_put_bits(upcx_pts p, void *src, const void *mask, size_t n)
{
    unsigned char *from = (unsigned char *)src;
    unsigned char now[64];
    const unsigned char *bits = (const unsigned char *)mask;
    size_t first = 0;
    size_t last = n;
    size_t i;

    while (first < n && !bits[first])
        first++;

    while (last > first && !bits[last - 1])
        last--;

    if (first == last || last - first > sizeof now)
        return;

    p = upcx_off(p, first);

    volatile upcx_u8 *at = (volatile upcx_u8 *)upcx_near(p); /* aligned to bytes only */

    if (!at)
        upc_read_far(now, upc_pts_wide(p), last - first);

    for (i = first; i < last; i++)
        if (at)
            at[i - first] = (unsigned char)((at[i - first] & ~bits[i]) | (from[i] & bits[i]));
        else
            now[i - first] = (unsigned char)((now[i - first] & ~bits[i]) | (from[i] & bits[i]));

    if (!at)
        upc_write_far(upc_pts_wide(p), now, last - first);
}

UPCX_INLINE void upcx_put_bits_strict(upcx_pts p, void *src, const void *mask, size_t n)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    upcx_put_bits(p, src, mask, n);
    upcx_fence();
}

/* ---- statements (UPC 1.3, 6.6) ---- */
void upcx_barrier(int has_value, int value);
void upcx_notify(int has_value, int value);
void upcx_wait(int has_value, int value);

/* Non-zero: this upc_forall chooses iterations; those inside it do not.  The choice
 * ends with the scope of the variable that holds the result. */
UPCX_INLINE int upcx_forall_begin(void)
{
    int chooses = !upc_self.forall;

    upc_self.forall = 1;
    return chooses;
}

UPCX_INLINE void upcx_forall_end(int *chooses)
{
    if (*chooses)
        upc_self.forall = 0;
}

UPCX_INLINE int upcx_here(long long affinity)
{
    int64_t thread;

    (void)upc_floor_div(affinity, upc_self.threads, &thread);
    return thread == upc_self.mythread;
}

UPCX_INLINE int upcx_here_p(upcx_pts p)
{
    return (int)upc_pts_thread(p) == upc_self.mythread;
}

/* Iterations from that with affinity to `affinity` to the next of this thread, where it grows (up)
 * or falls by one each.  last: the latest iteration that was this thread's, or a negative
 * number. */
UPCX_INLINE long long upcx_steps(long long affinity, int up, long long last)
{
    int64_t at;
    long long n;

    if (last >= 0 && affinity == (up ? last + 1 : last - 1))
        return upc_self.threads - 1;

    (void)upc_floor_div(affinity, upc_self.threads, &at);
    n = up ? upc_self.mythread - at : at - upc_self.mythread;
    return n < 0 ? n + upc_self.threads : n;
}

/* The same for elements of an array; -1: none is this thread's. */
UPCX_INLINE long long upcx_steps_p(upcx_pts p, size_t block, int up)
{
    long long n = up ? upc_self.mythread - (long long)upc_pts_thread(p)
                     : (long long)upc_pts_thread(p) - upc_self.mythread;
    long long phase = (long long)upcx_c_phaseof(p);

    if (n == 0 || block == 0)
        return n == 0 ? 0 : -1;

    n = n < 0 ? n + upc_self.threads : n;
    return up ? n * (long long)block - phase : (n - 1) * (long long)block + phase + 1;
}

/* The iteration i that upcx_skip gave, if it is this thread's: it is where no step was made from
 * the one before, or where steps are exact and upcx_skip could make them.  Else a number that no
 * loop has. */
UPCX_INLINE long long upcx_last(long long before, long long steps, int exact, long long i,
                                long long limit, long long length)
{
    if (steps == 0)
        return before;

    return !exact || i < 0 || limit < 0 || length <= 0 ? -__LONG_LONG_MAX__ - 1 : i;
}

/* A loop whose affinity grows by `by` in a step: after `period` steps of it the thread is the same
 * again. */
struct upcx_walk {
    long long by, mine; /* mine: the affinity of the latest iteration that is this thread's */
    int step, period;   /* step: by in threads */
};

/* As upcx_steps, where it grows by `by` each; -1: no iteration is this thread's. */
UPCX_INLINE long long upcx_steps_by(long long affinity, long long by, struct upcx_walk *w)
{
    int64_t threads = upc_self.threads;
    int64_t at, step, sum;
    long long k = 0;

    if (w->period == 0 || w->by != by) {
        (void)upc_floor_div(by, upc_self.threads, &step);
        *w = (struct upcx_walk){ by, 0, (int)step, 0 };
        for (sum = 0; w->period == 0 || sum != 0; w->period++)
            sum = (sum + step) % threads;

        w->mine = upc_self.mythread;
    }

    if ((unsigned long long)affinity - (unsigned long long)by == (unsigned long long)w->mine)
        k = w->period - 1;
    else
        for ((void)upc_floor_div(affinity, upc_self.threads, &at); at != upc_self.mythread;
             at = (at + w->step) % threads)
            if (++k == w->period)
                return -1;

    w->mine = (long long)((unsigned long long)affinity +
                          (unsigned long long)k * (unsigned long long)by);
    return k;
}

/* The same for elements of an array, no more steps than lead to the next block of this thread; it
 * may be too short to be hit. */
UPCX_INLINE long long upcx_steps_p_by(upcx_pts p, size_t block, long long by)
{
    long long n = upcx_steps_p(p, block, by >= 0);
    long long length = by < 0 ? -by : by;

    if (n <= 0)
        return n;

    return length ? (n + length - 1) / length : -1;
}

/* The value of a loop's variable that many steps of `length` on, but no farther than where the loop
 * ends: '<' below the limit, '{' at most, '>' above it, '}' at least.  Negative numbers stay: with
 * unsigned ones among them they would be compared in another way. */
UPCX_INLINE long long upcx_skip(long long i, long long limit, int form, long long length,
                                long long steps)
{
    unsigned long long step = (unsigned long long)length;
    unsigned long long left = form == '<' || form == '{'
                                  ? (unsigned long long)limit - (unsigned long long)i
                                  : (unsigned long long)i - (unsigned long long)limit;

    left += form == '{' || form == '}';
    if (i < 0 || limit < 0 || length <= 0)
        return i;

    left = length == 1 ? left : left / step + (left % step != 0);
    if (steps >= 0 && (unsigned long long)steps < left)
        left = (unsigned long long)steps;

    return (long long)(form == '<' || form == '{' ? (unsigned long long)i + left * step
                                                  : (unsigned long long)i - left * step);
}

/* ---- start ---- */

/* A shared object as one translation unit knows it. */
struct upcx_object {
    upcx_pts *pts;
    const char *name;
    size_t size;                           /* of an element */
    size_t (*block)(void), (*count)(void); /* elements; count 0: not known here */
    void (*initial)(void);                 /* or NULL; run by thread 0 */
    /* 0 declared here only, 1 defined, 2 defined and static */
    int kind;
};

struct upcx_unit {
    const char *file;
    struct upcx_object *const *objects; /* ends with NULL */
    /* initialises private variables with values that are known at the start; run by all */
    void (*values)(void);
    int threads; /* that it was translated for, or 0 */
    struct upcx_unit *next;
};

void upcx_unit_add(struct upcx_unit *unit);
/* Copies bytes from value to elements 0.. of an object. */
void upcx_object_set(upcx_pts object, const char *name, const void *value, size_t bytes,
                     size_t size, size_t block, size_t count);
int upcx_main(int argc, char **argv, char **envp, int (*call)(int, char **, char **));

#undef gex_TM_t
#undef size_t
#undef ptrdiff_t
#undef uintptr_t
#undef uint64_t
#undef int64_t
#undef uint32_t
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An OpenSHMEM-like library over GASNet-1 calls alone: an example of how an SPMD runtime uses
 * Amphora.  The names and meanings are those of OpenSHMEM 1.4 (active sets, no contexts).  For one
 * thread of each process.
 *
 * Symmetric are: what shmem_malloc and its like give (the heap has SHMEM_SYMMETRIC_SIZE bytes, 64
 * MiB if it is not set), and the global and static variables of the program itself (not those of
 * shared libraries).
 */
#ifndef SHMEM_H
#define SHMEM_H

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 4
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_VENDOR_STRING "OpenSHMEM example on GASNet"

enum {
    SHMEM_THREAD_SINGLE,
    SHMEM_THREAD_FUNNELED,
    SHMEM_THREAD_SERIALIZED,
    SHMEM_THREAD_MULTIPLE
};

enum {
    SHMEM_CMP_EQ = 1,
    SHMEM_CMP_NE,
    SHMEM_CMP_GT,
    SHMEM_CMP_LE,
    SHMEM_CMP_LT,
    SHMEM_CMP_GE
};

/* Longs of a pSync and elements of a pWrk.  A pSync is set to SHMEM_SYNC_VALUE before its first use
 * and is so again after each. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 64
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* ---- start, end, queries ---- */

void shmem_init(void);
int shmem_init_thread(int requested, int *provided);
void shmem_query_thread(int *provided);
/* Waits for all; the process may go on without the library. */
void shmem_finalize(void);
/* Ends all processes at once with this code. */
void shmem_global_exit(int status) __attribute__((__noreturn__));
int shmem_my_pe(void);
int shmem_n_pes(void);
int shmem_pe_accessible(int pe);
int shmem_addr_accessible(const void *addr, int pe);
/* Where PE pe's object is in this process's memory; NULL: not reachable by loads and stores. */
void *shmem_ptr(const void *dest, int pe);
void shmem_info_get_version(int *major, int *minor);
void shmem_info_get_name(char *name);

/* ---- the symmetric heap; all PEs call together and wait for each other ---- */

void *shmem_malloc(size_t size);
void *shmem_calloc(size_t count, size_t size);
void *shmem_align(size_t alignment, size_t size);
void *shmem_realloc(void *ptr, size_t size);
void shmem_free(void *ptr);

/* ---- transfers.  put: source may be used again on return; get: has arrived; _nbi: both hold after
 * shmem_quiet ---- */

void shmem_putmem(void *dest, const void *source, size_t nbytes, int pe);
void shmem_getmem(void *dest, const void *source, size_t nbytes, int pe);
void shmem_putmem_nbi(void *dest, const void *source, size_t nbytes, int pe);
void shmem_getmem_nbi(void *dest, const void *source, size_t nbytes, int pe);

#define SHMEM_DECLARE_RMA(NAME, T) \
    void shmem_##NAME##_put(T *dest, const T *source, size_t nelems, int pe); \
    void shmem_##NAME##_get(T *dest, const T *source, size_t nelems, int pe); \
    void shmem_##NAME##_put_nbi(T *dest, const T *source, size_t nelems, int pe); \
    void shmem_##NAME##_get_nbi(T *dest, const T *source, size_t nelems, int pe); \
    void shmem_##NAME##_iput(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, \
                             size_t nelems, int pe); \
    void shmem_##NAME##_iget(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, \
                             size_t nelems, int pe); \
    void shmem_##NAME##_p(T *dest, T value, int pe); \
    T shmem_##NAME##_g(const T *source, int pe);
SHMEM_RMA_TYPES(SHMEM_DECLARE_RMA)

#define SHMEM_DECLARE_SIZED(BITS, BYTES) \
    void shmem_put##BITS(void *dest, const void *source, size_t nelems, int pe); \
    void shmem_get##BITS(void *dest, const void *source, size_t nelems, int pe); \
    void shmem_put##BITS##_nbi(void *dest, const void *source, size_t nelems, int pe); \
    void shmem_get##BITS##_nbi(void *dest, const void *source, size_t nelems, int pe); \
    void shmem_iput##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                          size_t nelems, int pe); \
    void shmem_iget##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                          size_t nelems, int pe);
SHMEM_SIZES(SHMEM_DECLARE_SIZED)

/* ---- atomics ---- */

#define SHMEM_DECLARE_AMO_ANY(NAME, T) \
    T shmem_##NAME##_atomic_fetch(const T *source, int pe); \
    void shmem_##NAME##_atomic_set(T *dest, T value, int pe); \
    T shmem_##NAME##_atomic_swap(T *dest, T value, int pe);
#define SHMEM_DECLARE_AMO(NAME, T) \
    SHMEM_DECLARE_AMO_ANY(NAME, T) \
    T shmem_##NAME##_atomic_compare_swap(T *dest, T cond, T value, int pe); \
    T shmem_##NAME##_atomic_fetch_inc(T *dest, int pe); \
    void shmem_##NAME##_atomic_inc(T *dest, int pe); \
    T shmem_##NAME##_atomic_fetch_add(T *dest, T value, int pe); \
    void shmem_##NAME##_atomic_add(T *dest, T value, int pe);
#define SHMEM_DECLARE_BITWISE(NAME, T) \
    T shmem_##NAME##_atomic_fetch_and(T *dest, T value, int pe); \
    void shmem_##NAME##_atomic_and(T *dest, T value, int pe); \
    T shmem_##NAME##_atomic_fetch_or(T *dest, T value, int pe); \
    void shmem_##NAME##_atomic_or(T *dest, T value, int pe); \
    T shmem_##NAME##_atomic_fetch_xor(T *dest, T value, int pe); \
    void shmem_##NAME##_atomic_xor(T *dest, T value, int pe);
/* clang-format off */
SHMEM_AMO_FLOATS(SHMEM_DECLARE_AMO_ANY)
SHMEM_AMO_TYPES(SHMEM_DECLARE_AMO)
SHMEM_BITWISE_TYPES(SHMEM_DECLARE_BITWISE)
/* clang-format on */

/* ---- order, completion, waiting ---- */

void shmem_fence(void);
void shmem_quiet(void);

#define SHMEM_DECLARE_SYNC(NAME, T) \
    void shmem_##NAME##_wait_until(T *ivar, int cmp, T value); \
    int shmem_##NAME##_test(T *ivar, int cmp, T value); \
    void shmem_##NAME##_wait_until_all(T *ivars, size_t nelems, const int *status, int cmp, \
                                       T value); \
    size_t shmem_##NAME##_wait_until_any(T *ivars, size_t nelems, const int *status, int cmp, \
                                         T value);
SHMEM_SYNC_TYPES(SHMEM_DECLARE_SYNC)

/* ---- collectives over all PEs or an active set: PE_size PEs from PE_start on, each 2^logPE_stride
 * behind the one before ---- */

void shmem_barrier_all(void);
void shmem_sync_all(void);
void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync);
void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync);

#define SHMEM_DECLARE_COLLECTIVES(BITS) \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root, \
                               int PE_start, int logPE_stride, int PE_size, long *pSync); \
    void shmem_collect##BITS(void *dest, const void *source, size_t nelems, int PE_start, \
                             int logPE_stride, int PE_size, long *pSync); \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, int PE_start, \
                              int logPE_stride, int PE_size, long *pSync); \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, int PE_start, \
                              int logPE_stride, int PE_size, long *pSync); \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                               size_t nelems, int PE_start, int logPE_stride, int PE_size, \
                               long *pSync);
SHMEM_DECLARE_COLLECTIVES(32)
SHMEM_DECLARE_COLLECTIVES(64)

#define SHMEM_DECLARE_TO_ALL(OP, NAME, T) \
    void shmem_##NAME##_##OP##_to_all(T *dest, const T *source, int nreduce, int PE_start, \
                                      int logPE_stride, int PE_size, T *pWrk, long *pSync);
#define SHMEM_DECLARE_BITS(NAME, T) \
    SHMEM_DECLARE_TO_ALL(and, NAME, T) \
    SHMEM_DECLARE_TO_ALL(or, NAME, T) SHMEM_DECLARE_TO_ALL(xor, NAME, T)
#define SHMEM_DECLARE_MINMAX(NAME, T) \
    SHMEM_DECLARE_TO_ALL(min, NAME, T) SHMEM_DECLARE_TO_ALL(max, NAME, T)
#define SHMEM_DECLARE_SUMPROD(NAME, T) \
    SHMEM_DECLARE_TO_ALL(sum, NAME, T) SHMEM_DECLARE_TO_ALL(prod, NAME, T)
/* clang-format off */
SHMEM_TO_ALL_WHOLE(SHMEM_DECLARE_BITS)
SHMEM_TO_ALL_REAL(SHMEM_DECLARE_MINMAX)
SHMEM_TO_ALL_TYPES(SHMEM_DECLARE_SUMPROD)
/* clang-format on */

/* ---- locks: a symmetric long that is 0 at first; in the order of the requests ---- */

void shmem_set_lock(long *lock);
void shmem_clear_lock(long *lock);
/* 0: the lock is the caller's; 1: somebody has it. */
int shmem_test_lock(long *lock);

#ifdef __cplusplus
}
#endif

/* ---- calls without a type in their names, by C11 ---- */

#if !defined(__cplusplus) && __STDC_VERSION__ >= 201112L
#define SHMEM_CASE_POINTER_put(NAME, T) T * : shmem_##NAME##_put,
#define SHMEM_CASE_POINTER_get(NAME, T) T * : shmem_##NAME##_get,
#define SHMEM_CASE_POINTER_put_nbi(NAME, T) T * : shmem_##NAME##_put_nbi,
#define SHMEM_CASE_POINTER_get_nbi(NAME, T) T * : shmem_##NAME##_get_nbi,
#define SHMEM_CASE_POINTER_iput(NAME, T) T * : shmem_##NAME##_iput,
#define SHMEM_CASE_POINTER_iget(NAME, T) T * : shmem_##NAME##_iget,
#define SHMEM_CASE_POINTER_p(NAME, T) T * : shmem_##NAME##_p,
#define SHMEM_CASE_POINTER_g(NAME, T) T * : shmem_##NAME##_g, const T * : shmem_##NAME##_g,
#define SHMEM_CASE_POINTER_fetch_add(NAME, T) T * : shmem_##NAME##_atomic_fetch_add,
#define SHMEM_CASE_POINTER_add(NAME, T) T * : shmem_##NAME##_atomic_add,
#define SHMEM_CASE_POINTER_fetch_inc(NAME, T) T * : shmem_##NAME##_atomic_fetch_inc,
#define SHMEM_CASE_POINTER_inc(NAME, T) T * : shmem_##NAME##_atomic_inc,
#define SHMEM_CASE_POINTER_cswap(NAME, T) T * : shmem_##NAME##_atomic_compare_swap,
#define SHMEM_CASE_POINTER_wait_until(NAME, T) T * : shmem_##NAME##_wait_until,
#define SHMEM_CASE_POINTER_test(NAME, T) T * : shmem_##NAME##_test,
/* The list's last entry, which no pointer reaches, takes the comma away. */
#define SHMEM_CHOOSE(LIST, CASE, ptr) _Generic((ptr), LIST(CASE) struct shmem_none * : 0)
#define shmem_put(dest, ...) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_put, dest)(dest, __VA_ARGS__)
#define shmem_get(dest, ...) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_get, dest)(dest, __VA_ARGS__)
#define shmem_put_nbi(dest, ...) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_put_nbi, dest)(dest, __VA_ARGS__)
#define shmem_get_nbi(dest, ...) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_get_nbi, dest)(dest, __VA_ARGS__)
#define shmem_iput(dest, ...) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_iput, dest)(dest, __VA_ARGS__)
#define shmem_iget(dest, ...) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_iget, dest)(dest, __VA_ARGS__)
#define shmem_p(dest, ...) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_p, dest)(dest, __VA_ARGS__)
#define shmem_g(source, pe) \
    SHMEM_CHOOSE(SHMEM_PLAIN_TYPES, SHMEM_CASE_POINTER_g, source)(source, pe)
#define shmem_atomic_fetch_add(dest, ...) \
    SHMEM_CHOOSE(SHMEM_AMO_PLAIN, SHMEM_CASE_POINTER_fetch_add, dest)(dest, __VA_ARGS__)
#define shmem_atomic_add(dest, ...) \
    SHMEM_CHOOSE(SHMEM_AMO_PLAIN, SHMEM_CASE_POINTER_add, dest)(dest, __VA_ARGS__)
#define shmem_atomic_fetch_inc(dest, pe) \
    SHMEM_CHOOSE(SHMEM_AMO_PLAIN, SHMEM_CASE_POINTER_fetch_inc, dest)(dest, pe)
#define shmem_atomic_inc(dest, pe) \
    SHMEM_CHOOSE(SHMEM_AMO_PLAIN, SHMEM_CASE_POINTER_inc, dest)(dest, pe)
#define shmem_atomic_compare_swap(dest, ...) \
    SHMEM_CHOOSE(SHMEM_AMO_PLAIN, SHMEM_CASE_POINTER_cswap, dest)(dest, __VA_ARGS__)
#define shmem_wait_until(ivar, ...) \
    SHMEM_CHOOSE(SHMEM_SYNC_PLAIN, SHMEM_CASE_POINTER_wait_until, ivar)(ivar, __VA_ARGS__)
#define shmem_test(ivar, ...) \
    SHMEM_CHOOSE(SHMEM_SYNC_PLAIN, SHMEM_CASE_POINTER_test, ivar)(ivar, __VA_ARGS__)
#endif

#endif

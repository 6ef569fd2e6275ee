/* SPDX-License-Identifier: BSD-3-Clause */
/* UPC 1.3, RL 7.2.  Each function of the library that takes pointers-to-shared has its C name after
 * __asm__. */
#ifndef UPC_H
#define UPC_H

#include <stddef.h>
#include <upc_types.h>

/* 7.2.1 */
void upc_global_exit(int status) __attribute__((__noreturn__));

/* 7.2.2 */
shared void *upc_global_alloc(size_t nblocks, size_t nbytes) __asm__("upcx_global_alloc");
shared void *upc_all_alloc(size_t nblocks, size_t nbytes) __asm__("upcx_all_alloc");
shared void *upc_alloc(size_t nbytes) __asm__("upcx_alloc");
void upc_free(shared void *ptr) __asm__("upcx_free");
void upc_all_free(shared void *ptr) __asm__("upcx_all_free");

/* 7.2.3 */
size_t upc_threadof(shared const volatile void *ptr) __asm__("upcx_threadof");
size_t upc_phaseof(shared const volatile void *ptr) __asm__("upcx_phaseof");
shared void *upc_resetphase(shared void *ptr) __asm__("upcx_resetphase");
size_t upc_addrfield(shared const volatile void *ptr) __asm__("upcx_addrfield");
size_t upc_affinitysize(size_t totalsize, size_t nbytes,
                        size_t threadid) __asm__("upcx_affinitysize");

/* 7.2.4: a lock's pointer means the same in all threads */
typedef struct upc_lock upc_lock_t;
upc_lock_t *upc_global_lock_alloc(void);
upc_lock_t *upc_all_lock_alloc(void);
void upc_lock_free(upc_lock_t *ptr);
void upc_all_lock_free(upc_lock_t *ptr);
void upc_lock(upc_lock_t *ptr);
int upc_lock_attempt(upc_lock_t *ptr);
void upc_unlock(upc_lock_t *ptr);

/* 7.2.5 */
void upc_memcpy(shared void *restrict dst, shared const void *restrict src,
                size_t n) __asm__("upcx_memcpy");
void upc_memget(void *restrict dst, shared const void *restrict src,
                size_t n) __asm__("upcx_memget");
void upc_memput(shared void *restrict dst, const void *restrict src,
                size_t n) __asm__("upcx_memput");
void upc_memset(shared void *dst, int c, size_t n) __asm__("upcx_memset");

#endif

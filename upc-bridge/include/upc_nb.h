/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that do not wait.  OL 7.7. */
#ifndef UPC_NB_H
#define UPC_NB_H
#include <stddef.h>

typedef struct amphora_upc_transfer *upc_handle_t;
#define UPC_COMPLETE_HANDLE ((upc_handle_t)0)

upc_handle_t upc_memcpy_nb(shared void *restrict dst, shared const void *restrict src,
                           size_t n) __asm__("upcx_memcpy_nb");
upc_handle_t upc_memget_nb(void *restrict dst, shared const void *restrict src,
                           size_t n) __asm__("upcx_memget_nb");
upc_handle_t upc_memput_nb(shared void *restrict dst, const void *restrict src,
                           size_t n) __asm__("upcx_memput_nb");
upc_handle_t upc_memset_nb(shared void *dst, int c, size_t n) __asm__("upcx_memset_nb");
void upc_memcpy_nbi(shared void *restrict dst, shared const void *restrict src,
                    size_t n) __asm__("upcx_memcpy_nbi");
void upc_memget_nbi(void *restrict dst, shared const void *restrict src,
                    size_t n) __asm__("upcx_memget_nbi");
void upc_memput_nbi(shared void *restrict dst, const void *restrict src,
                    size_t n) __asm__("upcx_memput_nbi");
void upc_memset_nbi(shared void *dst, int c, size_t n) __asm__("upcx_memset_nbi");
void upc_sync(upc_handle_t handle);
int upc_sync_attempt(upc_handle_t handle);
void upc_synci(void);
int upc_synci_attempt(void);

#endif

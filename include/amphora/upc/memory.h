/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory: allocation (RL 7.2.2), copies (RL 7.2.5) and their non-blocking forms (OL 7.7,
 * upc_nb.h).
 */
#ifndef AMPHORA_UPC_MEMORY_H
#define AMPHORA_UPC_MEMORY_H

#include "amphora/upc/access.h"
#include "amphora/upc/core.h"

/* ---- allocation (RL 7.2.2) ---- */

struct upc_wide amphora_upc_global_alloc(size_t nblocks, size_t nbytes);
struct upc_wide amphora_upc_all_alloc(size_t nblocks, size_t nbytes);
struct upc_wide amphora_upc_alloc(size_t nbytes);
void amphora_upc_free(struct upc_wide p);
void amphora_upc_all_free(struct upc_wide p);

/* shared [nbytes] char[nblocks * nbytes], from thread 0 on, aligned to 64 bytes in each thread; a
 * null pointer where the product is 0 or there is no room.  upc_global_alloc: by one thread, which
 * alone gets it (7.2.2.1); upc_all_alloc: collective, all get the same (7.2.2.2). */
AMPHORA_INLINE upc_pts_t upc_global_alloc(size_t nblocks, size_t nbytes)
{
    return upc_pts_of_wide(amphora_upc_global_alloc(nblocks, nbytes));
}

AMPHORA_INLINE upc_pts_t upc_all_alloc(size_t nblocks, size_t nbytes)
{
    return upc_pts_of_wide(amphora_upc_all_alloc(nblocks, nbytes));
}

/* shared [] char[nbytes] with affinity to the caller; a null pointer for 0 bytes or where there is
 * no room (7.2.2.3). */
AMPHORA_INLINE upc_pts_t upc_alloc(size_t nbytes)
{
    return upc_pts_of_wide(amphora_upc_alloc(nbytes));
}

/* Gives back what one of the three gave, by any one thread (7.2.2.4), or collectively (7.2.2.5); a
 * null pointer: nothing. */
AMPHORA_INLINE void upc_free(upc_pts_t p)
{
    amphora_upc_free(upc_pts_wide(p));
}

AMPHORA_INLINE void upc_all_free(upc_pts_t p)
{
    amphora_upc_all_free(upc_pts_wide(p));
}

/* ---- copies (RL 7.2.5): n bytes of shared [] char each, with affinity to one thread; they are
 * relaxed ---- */

void amphora_upc_memcpy(struct upc_wide dst, struct upc_wide src, size_t n);
void amphora_upc_memset(struct upc_wide dst, int c, size_t n);

AMPHORA_INLINE void upc_memget(void *dst, upc_pts_t src, size_t n)
{
    struct upc_wide w = upc_pts_wide(src);

    if (AMPHORA_UNLIKELY(w.addr == 0 && n))
        upc_read_far(dst, w, n); /* says so */
    else if (n)
        (void)gex_RMA_GetBlocking(upc_self.tm, dst, w.thread,
                                  (void *)(upc_self.place[w.thread].owner + w.addr), n, 0);
}

AMPHORA_INLINE void upc_memput(upc_pts_t dst, const void *src, size_t n)
{
    struct upc_wide w = upc_pts_wide(dst);

    if (AMPHORA_UNLIKELY(w.addr == 0 && n))
        upc_write_far(w, src, n);
    else if (n)
        (void)gex_RMA_PutBlocking(upc_self.tm, w.thread,
                                  (void *)(upc_self.place[w.thread].owner + w.addr), src, n, 0);
}

AMPHORA_INLINE void upc_memcpy(upc_pts_t dst, upc_pts_t src, size_t n)
{
    amphora_upc_memcpy(upc_pts_wide(dst), upc_pts_wide(src), n);
}

AMPHORA_INLINE void upc_memset(upc_pts_t dst, int c, size_t n)
{
    amphora_upc_memset(upc_pts_wide(dst), c, n);
}

/* ---- non-blocking copies (OL 7.7) ---- */

/* The handle belongs to the thread that got it and is used up by upc_sync, or by upc_sync_attempt
 * where that gives non-zero. */
typedef struct amphora_upc_transfer *upc_handle_t;
#define UPC_COMPLETE_HANDLE ((upc_handle_t)0)

upc_handle_t amphora_upc_memcpy_nb(struct upc_wide dst, struct upc_wide src, size_t n);
upc_handle_t amphora_upc_memget_nb(void *dst, struct upc_wide src, size_t n);
upc_handle_t amphora_upc_memput_nb(struct upc_wide dst, const void *src, size_t n);
upc_handle_t amphora_upc_memset_nb(struct upc_wide dst, int c, size_t n);
void amphora_upc_memcpy_nbi(struct upc_wide dst, struct upc_wide src, size_t n);
void amphora_upc_memget_nbi(void *dst, struct upc_wide src, size_t n);
void amphora_upc_memput_nbi(struct upc_wide dst, const void *src, size_t n);
void amphora_upc_memset_nbi(struct upc_wide dst, int c, size_t n);

AMPHORA_INLINE upc_handle_t upc_memcpy_nb(upc_pts_t dst, upc_pts_t src, size_t n)
{
    return amphora_upc_memcpy_nb(upc_pts_wide(dst), upc_pts_wide(src), n);
}

AMPHORA_INLINE upc_handle_t upc_memget_nb(void *dst, upc_pts_t src, size_t n)
{
    return amphora_upc_memget_nb(dst, upc_pts_wide(src), n);
}

AMPHORA_INLINE upc_handle_t upc_memput_nb(upc_pts_t dst, const void *src, size_t n)
{
    return amphora_upc_memput_nb(upc_pts_wide(dst), src, n);
}

AMPHORA_INLINE upc_handle_t upc_memset_nb(upc_pts_t dst, int c, size_t n)
{
    return amphora_upc_memset_nb(upc_pts_wide(dst), c, n);
}

AMPHORA_INLINE void upc_memcpy_nbi(upc_pts_t dst, upc_pts_t src, size_t n)
{
    amphora_upc_memcpy_nbi(upc_pts_wide(dst), upc_pts_wide(src), n);
}

AMPHORA_INLINE void upc_memget_nbi(void *dst, upc_pts_t src, size_t n)
{
    amphora_upc_memget_nbi(dst, upc_pts_wide(src), n);
}

AMPHORA_INLINE void upc_memput_nbi(upc_pts_t dst, const void *src, size_t n)
{
    amphora_upc_memput_nbi(upc_pts_wide(dst), src, n);
}

AMPHORA_INLINE void upc_memset_nbi(upc_pts_t dst, int c, size_t n)
{
    amphora_upc_memset_nbi(upc_pts_wide(dst), c, n);
}

/* The attempts give non-zero where the transfer, or all implicit ones, are complete; they make
 * progress and never wait. */
void upc_sync(upc_handle_t handle);
int upc_sync_attempt(upc_handle_t handle);
void upc_synci(void);
int upc_synci_attempt(void);

#endif

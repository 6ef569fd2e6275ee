/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory accesses and copies that the headers do not implement inline, and non-blocking copies.
 * UPC RL 7.2.5, OL 7.7.
 *
 * Layer: upc-bridge.  Thread rule: one thread.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/upc.h"

#define BOUNCE 65536 /* bytes of the bounce buffer for copies between two remote threads */

void upc_not_local(struct upc_wide p)
{
    amph_upc_fail("a pointer to shared memory of thread %u was cast to a local pointer, "
                  "but that memory is not mapped in this process",
                  p.thread);
}

/* Return the address that a copy reads from, or writes to, in the process of its thread. */
static void *source(struct upc_wide p)
{
    if (p.addr == 0)
        amph_upc_fail("read through a null pointer-to-shared");

    return amph_upc_there(p.thread, p.addr);
}

static void *target(struct upc_wide p)
{
    if (p.addr == 0)
        amph_upc_fail("a null pointer-to-shared was written to");

    return amph_upc_there(p.thread, p.addr);
}

void upc_read_far(void *dst, struct upc_wide src, size_t n)
{
    (void)gex_RMA_GetBlocking(upc_self.tm, dst, src.thread, source(src), n, 0);
}

void upc_write_far(struct upc_wide dst, const void *src, size_t n)
{
    (void)gex_RMA_PutBlocking(upc_self.tm, dst.thread, target(dst), src, n, 0);
}

/* Returns its address in this process, or NULL. */
static void *near(struct upc_wide p)
{
    uintptr_t here = upc_self.place[p.thread].here;
    return here ? (void *)(here + p.addr) : NULL;
}

void amphora_upc_memcpy(struct upc_wide dst, struct upc_wide src, size_t n)
{
    upc_sync(amphora_upc_memcpy_nb(dst, src, n));
}

upc_handle_t amphora_upc_memcpy_nb(struct upc_wide dst, struct upc_wide src, size_t n)
{
    void *from = near(src);
    void *to = near(dst);
    char *bounce;

    if (n == 0)
        return UPC_COMPLETE_HANDLE;

    (void)source(src);
    (void)target(dst);
    if (from)
        return amphora_upc_memput_nb(dst, from, n);
    if (to)
        return amphora_upc_memget_nb(to, src, n);

    if (!(bounce = malloc(BOUNCE)))
        amph_upc_fail("upc_memcpy: no memory for %d bytes between two other threads", BOUNCE);

    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < BOUNCE ? n - done : BOUNCE;
        (void)gex_RMA_GetBlocking(upc_self.tm, bounce, src.thread,
                                  amph_upc_there(src.thread, src.addr + done), part, 0);
        (void)gex_RMA_PutBlocking(upc_self.tm, dst.thread,
                                  amph_upc_there(dst.thread, dst.addr + done), bounce, part, 0);
    }

    free(bounce);
    return UPC_COMPLETE_HANDLE;
}

void amphora_upc_memset(struct upc_wide dst, int c, size_t n)
{
    if (n)
        gasnet_memset(dst.thread, target(dst), c, n);
}

/* A handle is the event of the transfer. */

upc_handle_t amphora_upc_memget_nb(void *dst, struct upc_wide src, size_t n)
{
    if (n == 0)
        return UPC_COMPLETE_HANDLE;

    return (upc_handle_t)gex_RMA_GetNB(upc_self.tm, dst, src.thread, source(src), n, 0);
}

upc_handle_t amphora_upc_memput_nb(struct upc_wide dst, const void *src, size_t n)
{
    if (n == 0)
        return UPC_COMPLETE_HANDLE;

    return (upc_handle_t)gex_RMA_PutNB(upc_self.tm, dst.thread, target(dst), src, n,
                                       GEX_EVENT_DEFER, 0);
}

upc_handle_t amphora_upc_memset_nb(struct upc_wide dst, int c, size_t n)
{
    return n ? (upc_handle_t)gasnet_memset_nb(dst.thread, target(dst), c, n) : UPC_COMPLETE_HANDLE;
}

void amphora_upc_memcpy_nbi(struct upc_wide dst, struct upc_wide src, size_t n)
{
    void *from = near(src);
    void *to = near(dst);

    if (n == 0)
        return;

    (void)source(src);
    (void)target(dst);

    if (from)
        amphora_upc_memput_nbi(dst, from, n);
    else if (to)
        amphora_upc_memget_nbi(to, src, n);
    else
        amphora_upc_memcpy(dst, src, n);
}

void amphora_upc_memget_nbi(void *dst, struct upc_wide src, size_t n)
{
    if (n)
        (void)gex_RMA_GetNBI(upc_self.tm, dst, src.thread, source(src), n, 0);
}

void amphora_upc_memput_nbi(struct upc_wide dst, const void *src, size_t n)
{
    if (n)
        (void)gex_RMA_PutNBI(upc_self.tm, dst.thread, target(dst), src, n, GEX_EVENT_DEFER, 0);
}

void amphora_upc_memset_nbi(struct upc_wide dst, int c, size_t n)
{
    if (n)
        gasnet_memset_nbi(dst.thread, target(dst), c, n);
}

void upc_sync(upc_handle_t handle)
{
    gex_Event_Wait((gex_Event_t)handle);
}

int upc_sync_attempt(upc_handle_t handle)
{
    if (handle == UPC_COMPLETE_HANDLE)
        return 1;

    gasnet_AMPoll();
    return gex_Event_Test((gex_Event_t)handle) == GASNET_OK;
}

void upc_synci(void)
{
    gex_NBI_Wait(GEX_EC_ALL, 0);
}

int upc_synci_attempt(void)
{
    gasnet_AMPoll();
    return gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK;
}

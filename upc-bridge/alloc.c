/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates shared memory from two heaps in every thread's segment.
 *
 * The lower half [0, size/2) is the global heap.  An object in it has the same offset in all
 * threads, and thread 0 manages it for all of them.  The upper half is the local heap of the thread
 * (upc_alloc).  A thread that wants memory of a heap which another thread manages, or frees it,
 * sends that thread a message.
 *
 * Layer: upc-bridge.  Thread rule: one thread; the handlers use the heaps and the pending reply.
 */
#include <string.h>

#include "upc-bridge/heap.h"
#include "upc-bridge/upc.h"

#define GLOBAL_GRAIN 64
#define LOCAL_GRAIN 32

/* A reply that upc_global_alloc waits for. */
struct pending {
    uint64_t addr;
    bool done;
};

static void answer_handler(gex_Token_t token, gex_AM_Arg_t pending_high, gex_AM_Arg_t pending_low,
                           gex_AM_Arg_t addr_high, gex_AM_Arg_t addr_low)
{
    struct pending *pending = (struct pending *)(uintptr_t)UPC_JOIN(pending_high, pending_low);

    pending->addr = UPC_JOIN(addr_high, addr_low);
    pending->done = true;
}

static void ask_handler(gex_Token_t token, gex_AM_Arg_t pending_high, gex_AM_Arg_t pending_low,
                        gex_AM_Arg_t bytes_high, gex_AM_Arg_t bytes_low)
{
    uint64_t addr = amph_upc_heap_alloc(&amph_upc.heaps.global, UPC_JOIN(bytes_high, bytes_low));
    gex_AM_ReplyShort4(token, amph_upc.heaps.answer, 0, pending_high, pending_low, UPC_HIGH(addr),
                       UPC_LOW(addr));
}

static bool is_global(uint64_t addr)
{
    return addr < amph_upc.heaps.half;
}

static void release(uint64_t addr, unsigned who)
{
    if (!amph_upc_heap_free(is_global(addr) ? &amph_upc.heaps.global : &amph_upc.heaps.local, addr))
        amph_upc_fail("upc_free (called by thread %u): nothing is allocated at offset %#llx of "
                      "thread %d's shared memory",
                      who, (unsigned long long)addr, upc_self.mythread);
}

static void release_handler(gex_Token_t token, gex_AM_Arg_t addr_high, gex_AM_Arg_t addr_low)
{
    gex_Token_Info_t info = { .gex_srcrank = 0 };

    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    release(UPC_JOIN(addr_high, addr_low), info.gex_srcrank);
}

size_t amph_upc_alloc_handlers(gex_AM_Entry_t *rows)
{
    /* clang-format off */
    const gex_AM_Entry_t own[] = {
        { 0, (gex_AM_Fn_t)ask_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 4, NULL, "upc_ask" },
        { 0, (gex_AM_Fn_t)answer_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 4, NULL, "upc_answer" },
        { 0, (gex_AM_Fn_t)release_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 2, NULL, "upc_release" },
    };

    /* clang-format on */
    if (rows[0].gex_index) { /* the second call: the library has chosen the indices */
        amph_upc.heaps.ask = rows[0].gex_index;
        amph_upc.heaps.answer = rows[1].gex_index;
        amph_upc.heaps.release = rows[2].gex_index;
    } else {
        memcpy(rows, own, sizeof own);
    }

    return sizeof own / sizeof own[0];
}

int amph_upc_heaps_init(uint64_t size)
{
    uint8_t *base = amph_upc_mine(0);

    amph_upc.heaps.half = size / 2 / GLOBAL_GRAIN * GLOBAL_GRAIN;
    amph_upc_heap_init(&amph_upc.heaps.global, base, UPC_FIRST_OFFSET, amph_upc.heaps.half,
                       GLOBAL_GRAIN);
    amph_upc_heap_init(&amph_upc.heaps.local, base, amph_upc.heaps.half, size, LOCAL_GRAIN);

    return 0;
}

uint64_t amph_upc_static_alloc(uint64_t bytes)
{
    return amph_upc_heap_alloc(&amph_upc.heaps.global, bytes ? bytes : 1);
}

uint64_t amph_upc_scratch(uint64_t bytes, const char *call)
{
    uint64_t addr = amph_upc_heap_alloc(&amph_upc.heaps.local, bytes ? bytes : 1);

    if (!addr)
        amph_upc_fail("%s needs %llu bytes of temporary shared memory, and the heap is full; set "
                      "AMPHORA_UPC_HEAP to a larger size",
                      call, (unsigned long long)bytes);

    return addr;
}

void amph_upc_scratch_free(uint64_t addr)
{
    release(addr, (unsigned)upc_self.mythread);
}

/* Returns the bytes of each thread that an array needs; 0 if it is empty or larger than the
 * heap. */
static uint64_t bytes_each(size_t nblocks, size_t nbytes)
{
    uint64_t rounds = nblocks / (uint64_t)upc_self.threads +
                      (nblocks % (uint64_t)upc_self.threads != 0);
    return nbytes && rounds > amph_upc.heaps.half / nbytes ? 0 : rounds * nbytes;
}

static uint64_t global_alloc(uint64_t bytes)
{
    struct pending pending = { 0, false };

    if (bytes == 0)
        return 0;
    if (upc_self.mythread == 0)
        return amph_upc_heap_alloc(&amph_upc.heaps.global, bytes);

    gex_AM_RequestShort4(upc_self.tm, 0, amph_upc.heaps.ask, 0, UPC_HIGH((uintptr_t)&pending),
                         UPC_LOW((uintptr_t)&pending), UPC_HIGH(bytes), UPC_LOW(bytes));
    GASNET_BLOCKUNTIL(__atomic_load_n(&pending.done, __ATOMIC_ACQUIRE));
    return pending.addr;
}

struct upc_wide amphora_upc_global_alloc(size_t nblocks, size_t nbytes)
{
    return (struct upc_wide){ global_alloc(bytes_each(nblocks, nbytes)), 0, 0 };
}

struct upc_wide amphora_upc_all_alloc(size_t nblocks, size_t nbytes)
{
    uint64_t addr = upc_self.mythread == 0
                        ? amph_upc_heap_alloc(&amph_upc.heaps.global, bytes_each(nblocks, nbytes))
                        : 0;

    amph_upc_broadcast(0, &addr, sizeof addr);
    return (struct upc_wide){ addr, 0, 0 };
}

struct upc_wide amphora_upc_alloc(size_t nbytes)
{
    uint64_t addr = amph_upc_heap_alloc(&amph_upc.heaps.local, nbytes);
    return addr ? (struct upc_wide){ addr, (uint32_t)upc_self.mythread, 0 } : UPC_WIDE_NULL;
}

void amphora_upc_free(struct upc_wide p)
{
    if (p.addr == 0)
        return;

    if (p.thread >= (uint32_t)upc_self.threads || (is_global(p.addr) && p.thread != 0))
        amph_upc_fail(
            "upc_free: thread %u, offset %#llx was not returned by an allocation function",
            p.thread, (unsigned long long)p.addr);

    if (p.thread == (uint32_t)upc_self.mythread)
        release(p.addr, p.thread);
    else
        gex_AM_RequestShort2(upc_self.tm, p.thread, amph_upc.heaps.release, 0, UPC_HIGH(p.addr),
                             UPC_LOW(p.addr));
}

void amphora_upc_all_free(struct upc_wide p)
{
    amph_upc_sync();
    if (p.thread == (uint32_t)upc_self.mythread)
        amphora_upc_free(p);
}

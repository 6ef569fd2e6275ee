/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue locks.  UPC RL 7.2.4.
 *
 * A lock is one word in shared memory that names the last entry of its queue.  A thread that wants
 * the lock swaps its own entry into the word.  If there was an entry before, it sends that entry's
 * thread a message with its own entry, and sleeps.  A thread that releases the lock sends a message
 * to the next entry.  So threads get the lock in the order of their swaps, and the thread whose
 * memory contains the word does not have to take part if it is a neighbour.  A thread has a node
 * for each lock that it holds or waits for; an entry is a thread's number and a node's index.
 *
 * Layer: upc-bridge.  Thread rule: one thread; the handlers write `next` and `granted` of nodes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/upc.h"

#define ADDR_BITS 44

struct upc_lock_node {
    upc_lock_t *lock; /* NULL: the node is free */
    uint64_t next;    /* the queue's next entry, or 0 */
    bool granted;
};

/* ---- queue entries and pointers ---- */

static uint64_t word_of(uint32_t index)
{
    return ((uint64_t)(upc_self.mythread + 1) << 32) | index;
}

static uint32_t thread_of(uint64_t word)
{
    return (uint32_t)(word >> 32) - 1;
}

static upc_lock_t *pointer(struct upc_wide p)
{
    return p.addr ? (upc_lock_t *)(uintptr_t)(((uint64_t)p.thread << ADDR_BITS) | p.addr) : NULL;
}

/* Returns the position of the lock's word; ends the job if the pointer is invalid. */
static struct upc_wide position_of(const upc_lock_t *lock, const char *call)
{
    uint64_t value = (uintptr_t)lock;
    struct upc_wide p = { value & (((uint64_t)1 << ADDR_BITS) - 1), (uint32_t)(value >> ADDR_BITS),
                          0 };

    if (p.addr == 0 || p.thread >= (uint32_t)upc_self.threads || p.addr >= upc_self.size ||
        p.addr % 8)
        amph_upc_fail("%s: %p is not a lock", call, (const void *)lock);

    return p;
}

/* Changes a lock's word atomically and returns its old value.  op: SWAP or FCAS. */
static uint64_t change(struct upc_wide p, gex_OP_t op, uint64_t a, uint64_t b)
{
    uint64_t old = 0;

    gex_Event_Wait(gex_AD_OpNB_U64(amph_upc.locks.ad, &old, p.thread,
                                   amph_upc_there(p.thread, p.addr), op, a, b,
                                   GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL));
    return old;
}

/* ---- nodes ---- */

static uint32_t find(const upc_lock_t *lock)
{
    uint32_t i = 0;

    while (i < amph_upc.locks.count && amph_upc.locks.node[i].lock != lock)
        i++;

    return i;
}

/* Takes a free node for the lock.  The table may move here, because handlers run only in later
 * calls. */
static uint32_t take(upc_lock_t *lock)
{
    uint32_t i = find(NULL);

    if (i == amph_upc.locks.count) {
        struct upc_lock_node *more = realloc(amph_upc.locks.node,
                                             (amph_upc.locks.count * 2 + 8) * sizeof *more);

        if (!more)
            amph_upc_fail("upc_lock: out of memory with %u locks held by this thread",
                          amph_upc.locks.count);

        memset(more + amph_upc.locks.count, 0, (amph_upc.locks.count + 8) * sizeof *more);
        amph_upc.locks.node = more;
        amph_upc.locks.count = amph_upc.locks.count * 2 + 8;
    }

    amph_upc.locks.node[i] = (struct upc_lock_node){ .lock = lock };
    return i;
}

static void link_handler(gex_Token_t token, gex_AM_Arg_t index, gex_AM_Arg_t high, gex_AM_Arg_t low)
{
    if ((uint32_t)index < amph_upc.locks.count)
        amph_upc.locks.node[index].next = UPC_JOIN(high, low);
}

static void grant_handler(gex_Token_t token, gex_AM_Arg_t index)
{
    if ((uint32_t)index < amph_upc.locks.count)
        amph_upc.locks.node[index].granted = true;
}

size_t amph_upc_lock_handlers(gex_AM_Entry_t *rows)
{
    const gex_AM_Entry_t own[] = {
        { 0, (gex_AM_Fn_t)link_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 3, NULL,
          "upc_link" },
        { 0, (gex_AM_Fn_t)grant_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL,
          "upc_grant" },
    };

    if (rows[0].gex_index) {
        amph_upc.locks.link = rows[0].gex_index;
        amph_upc.locks.grant = rows[1].gex_index;
    } else {
        memcpy(rows, own, sizeof own);
    }

    return sizeof own / sizeof own[0];
}

void amph_upc_locks_init(void)
{
    gex_AD_Create(&amph_upc.locks.ad, upc_self.tm, GEX_DT_U64, GEX_OP_SWAP | GEX_OP_FCAS, 0);
}

/* ---- the library's calls ---- */

upc_lock_t *upc_global_lock_alloc(void)
{
    struct upc_wide p = amphora_upc_alloc(sizeof(uint64_t));

    if (p.addr)
        __atomic_store_n((uint64_t *)amph_upc_mine(p.addr), 0, __ATOMIC_SEQ_CST);

    return pointer(p);
}

upc_lock_t *upc_all_lock_alloc(void)
{
    uint64_t value = upc_self.mythread == 0 ? (uint64_t)(uintptr_t)upc_global_lock_alloc() : 0;

    amph_upc_broadcast(0, &value, sizeof value);
    return (upc_lock_t *)(uintptr_t)value;
}

void upc_lock_free(upc_lock_t *lock)
{
    if (!lock)
        return;

    uint32_t i = find(lock);

    if (i < amph_upc.locks.count)
        amph_upc.locks.node[i].lock = NULL; /* this thread held the lock */

    amphora_upc_free(position_of(lock, "upc_lock_free"));
}

void upc_all_lock_free(upc_lock_t *lock)
{
    amph_upc_sync();
    if (lock && position_of(lock, "upc_all_lock_free").thread == (uint32_t)upc_self.mythread)
        upc_lock_free(lock);
}

void upc_lock(upc_lock_t *lock)
{
    struct upc_wide p = position_of(lock, "upc_lock");
    uint64_t before;
    uint32_t i = find(lock);

    if (i < amph_upc.locks.count)
        amph_upc_fail("upc_lock: this thread holds the lock already");

    i = take(lock);
    before = change(p, GEX_OP_SWAP, word_of(i), 0);

    if (before) {
        gex_AM_RequestShort3(upc_self.tm, thread_of(before), amph_upc.locks.link, 0,
                             (gex_AM_Arg_t)(uint32_t)before, UPC_HIGH(word_of(i)),
                             UPC_LOW(word_of(i)));
        GASNET_BLOCKUNTIL(amph_upc.locks.node[i].granted);
    }

    upc_fence();
}

int upc_lock_attempt(upc_lock_t *lock)
{
    struct upc_wide p = position_of(lock, "upc_lock_attempt");
    uint32_t i;

    if (find(lock) < amph_upc.locks.count)
        amph_upc_fail("upc_lock_attempt: this thread holds the lock already");

    i = take(lock);
    if (change(p, GEX_OP_FCAS, 0, word_of(i)) != 0) {
        amph_upc.locks.node[i].lock = NULL;
        gasnet_AMPoll(); /* so that a loop of attempts handles the messages of other threads */
        return 0;
    }

    upc_fence();
    return 1;
}

void upc_unlock(upc_lock_t *lock)
{
    struct upc_wide p = position_of(lock, "upc_unlock");
    uint32_t i = find(lock);
    uint64_t next;

    if (i == amph_upc.locks.count)
        amph_upc_fail("upc_unlock: this thread does not hold the lock");

    upc_fence();
    if (!amph_upc.locks.node[i].next && change(p, GEX_OP_FCAS, word_of(i), 0) == word_of(i)) {
        amph_upc.locks.node[i].lock = NULL;
        return;
    }

    GASNET_BLOCKUNTIL(amph_upc.locks.node[i].next != 0);
    next = amph_upc.locks.node[i].next;
    amph_upc.locks.node[i].lock = NULL;
    gex_AM_RequestShort1(upc_self.tm, thread_of(next), amph_upc.locks.grant, 0,
                         (gex_AM_Arg_t)(uint32_t)next);
}

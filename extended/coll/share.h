/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that the processes of a neighbourhood share for collectives: one object, created by
 * the lowest of them at start.
 *
 * It begins with two lines for each process (does it sleep, on which core does it wait; behind
 * which process does it nap?) and a table of the teams that have a slot.  A slot contains a team's
 * barrier lines and, for each member, a ring of cells.  The object has one slot after the other; a
 * process maps the slots of its teams.  Untouched pages take no memory, and a slot's pages are
 * released when all its members have closed it.
 *
 * A member has three rings, of cells of three sizes: the smaller the cells, the more of them.  The longer a
 * ring, the further a member may be ahead of the others: if there are more processes than cores,
 * each process gets more done before it must yield its core.
 *
 * A cell is written by its member only.  Cell numbers of a team begin at 1 and are the same at all
 * members; they count the cells of all rings.  Cell n is entry n modulo the ring's length, and is
 * written only when all members are done with the previous cell of that entry.
 *
 * Layer: extended.
 * Thread rule: one thread at a time opens and closes (list_lock of coll.h); the team's lock guards
 * the rest.
 */
#ifndef AMPH_EXTENDED_COLL_SHARE_H
#define AMPH_EXTENDED_COLL_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/os/fence.h"
#include "base/platform.h"
#include "base/status.h"
#include "extended/coll/barrier.h"

enum {
    AMPH_SHARE_RING = 8,  /* number of large cells */
    AMPH_SHARE_WAKES = 4, /* readers check for waiting writers every this many cells */
    AMPH_SHARE_TEAMS = 4096
};
#define AMPH_SHARE_CELL_BYTES ((size_t)32 << 10) /* bytes of data in a large cell */

/* posted: number of the cell when its data is complete; folded: when its folded part is. */
struct amph_share_cell {
    uint64_t posted, folded;
    _Alignas(16) uint8_t data[];
};

/* done: this member reads no cell up to this number any more.  posted: the last cell that it has posted.
 * wanted: it waits until all members are done with the cells up to this number; 0: it does not wait.  That
 * has a line of its own, because readers look at it often and done changes with every cell. */
struct amph_share_done {
    uint64_t done, posted;
    uint64_t wanted AMPH_ALIGN_LINE;
} AMPH_ALIGN_LINE;

enum amph_share_size {
    AMPH_SHARE_TINY, /* a few numbers */
    AMPH_SHARE_SMALL,
    AMPH_SHARE_LARGE,
    AMPH_SHARE_SIZES
};

/* A member's ring of cells of one size. */
struct amph_share_ring {
    uint32_t cells; /* a power of 2 */
    size_t bytes;   /* of a cell with its numbers, whole cache lines */
    size_t data_bytes;
};

static const struct amph_share_ring amph_share_rings[AMPH_SHARE_SIZES] = {
    [AMPH_SHARE_TINY] = { 512, 128, 128 - sizeof(struct amph_share_cell) },
    [AMPH_SHARE_SMALL] = { 64, 512, 512 - sizeof(struct amph_share_cell) },
    [AMPH_SHARE_LARGE] = { AMPH_SHARE_RING, AMPH_SHARE_CELL_BYTES + AMPH_CACHE_LINE,
                           AMPH_SHARE_CELL_BYTES },
};

/* Returns the size of the cells for data of this many bytes; what does not fit into one takes several large ones. */
static inline enum amph_share_size amph_share_size(size_t data_bytes)
{
    enum amph_share_size size = AMPH_SHARE_TINY;

    while (size < AMPH_SHARE_LARGE && data_bytes > amph_share_rings[size].data_bytes)
        size++;

    return size;
}

struct amph_share_slot {
    void *base; /* NULL: none */
    size_t len_bytes;
    uint32_t entry;
    struct amph_barrier_line *line;   /* [AMPH_BARRIERS][nlocal + 1] */
    struct amph_share_done *done;     /* [nlocal] */
    uint8_t *cells[AMPH_SHARE_SIZES]; /* [nlocal], the rings of each size */
};

/* What writers look at after each part of an operation. */
struct amph_share_sleepers {
    uint32_t asleep; /* threads that sleep or are about to */
    uint32_t askers; /* processes that ask writers for full fences (base/os/fence.h) */
} AMPH_ALIGN_LINE;

struct amph_share {
    struct amph_share_head *head; /* NULL: no neighbours */
    struct amph_share_sleepers *sleepers;
    uint32_t count, self;
    int32_t pid, fd; /* the process and descriptor by which others open the object */
    bool own_fd;
    /* asymmetric, between writers and this process when it falls asleep; several threads may do so */
    uint32_t fence_lock,
        full_fences; /* full_fences: made for others, since this process slept last */
    struct amph_fence fence;
};

size_t amph_coll_share_bytes(uint32_t count);

/* Maps the beginning of the object of a neighbourhood of `count` processes, in which this process
 * has the number self. */
enum amph_status amph_coll_share_map(struct amph_share *s, uint32_t count, uint32_t self,
                                     int32_t pid, int32_t fd, bool own_fd);

/* Finds or creates the slot of the team with this id and lowest local member (job rank), which has
 * nlocal members here. */
enum amph_status amph_coll_share_open(struct amph_share *s, uint64_t id, uint32_t lowest,
                                      uint32_t nlocal, struct amph_share_slot *slot);
void amph_coll_share_close(struct amph_share *s, struct amph_share_slot *slot);

/* sleep: this process is about to sleep, and others must wake it by AMPH_GEX_WAKE.  What they have written before they
 * could know it is visible afterwards, so the caller looks once more.  awake: it no longer sleeps. */
void amph_coll_share_sleep(struct amph_share *s);
void amph_coll_share_awake(struct amph_share *s);

/* A full fence, because some process asks for it. */
void amph_coll_share_full_fence(struct amph_share *s);

/* Does any process of the neighbourhood sleep, or is about to?  For a process that has just written what others may
 * wait for.  If so, it must wake them.
 *
 * If a sleeper waits for what several processes write, the last of them wakes it: each looks what the others have
 * written after a full fence, so that one sees all.  A writer to which this returns false needs none: its data is
 * visible when the sleeper looks once more.  If others did not see that data because they looked sooner, theirs is
 * visible then, too, and the sleeper stays awake. */
static inline bool amph_coll_share_anyone_sleeps(struct amph_share *s)
{
    amph_fence_light();
    if (AMPH_UNLIKELY(!s->fence.works || __atomic_load_n(&s->sleepers->askers, __ATOMIC_ACQUIRE)))
        amph_coll_share_full_fence(s);

    return __atomic_load_n(&s->sleepers->asleep, __ATOMIC_RELAXED) != 0;
}

bool amph_coll_share_sleeps(const struct amph_share *s, uint32_t neighbour);
/* Wakes the neighbour in `neighbour` if it sleeps, and returns whether it does. */
bool amph_coll_share_wake(const struct amph_share *s, uint32_t neighbour);

/* Publishes that this process, which has neighbours, waits on this core. */
void amph_coll_share_set_core(struct amph_share *s, uint32_t core);
/* Has a neighbour last waited on this core, or is its core not known? */
bool amph_coll_share_maybe_on(const struct amph_share *s, uint32_t neighbour, uint32_t core);
/* Returns the number of such neighbours. */
uint32_t amph_coll_share_neighbours_on(const struct amph_share *s, uint32_t core);

/* Publishes that this process is about to yield its core. */
void amph_coll_share_yields(struct amph_share *s);
/* Sleeps until the neighbour has yielded and another process of the same core has noticed that
 * (amph_coll_share_end_naps), at most max_ns.  Not for processes with several threads. */
void amph_coll_share_nap(struct amph_share *s, uint32_t neighbour, uint64_t max_ns);
/* Wakes the neighbours that nap on this core and whose turn it is now. */
void amph_coll_share_end_naps(const struct amph_share *s, uint32_t core);
/* Does any process of the neighbourhood nap? */
bool amph_coll_share_naps(const struct amph_share *s);
/* Does this neighbour nap? */
bool amph_coll_share_napping(const struct amph_share *s, uint32_t neighbour);

static inline struct amph_share_cell *amph_share_cell(const struct amph_share_slot *slot,
                                                      uint32_t member, uint64_t n,
                                                      enum amph_share_size size)
{
    const struct amph_share_ring *ring = &amph_share_rings[size];
    const size_t index = (size_t)member * ring->cells + (n & (ring->cells - 1));

    return (struct amph_share_cell *)(slot->cells[size] + index * ring->bytes);
}

#endif

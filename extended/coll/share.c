/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory of collectives; see coll/share.h.  Layer: extended. */
#include "conduits/conduit.h"
#include "extended/coll/share.h"

#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "extended/coll/coll.h"
#include "extended/gex.h"

enum {
    AWAKE_FENCES = 20000 /* full fences without a sleep, after which this process asks for none */
};

/* A team with a slot.  Free if closed == members. */
struct entry {
    uint64_t id;
    uint32_t lowest, members, opened, closed;
};

/* A line that changes with each yield of its process. */
struct share_turn {
    uint32_t yields; /* counts them */
    uint32_t behind; /* it naps until this neighbour has yielded, plus 1; 0: it does not nap */
    uint32_t mark;   /* the neighbour's yields when the nap began */
} AMPH_ALIGN_LINE;

struct share_ctl {
    uint32_t asleep; /* threads of this process that sleep or are about to */
    uint32_t core;   /* where it last waited, plus 1; 0: not known */
    struct share_turn turn;
} AMPH_ALIGN_LINE;

struct amph_share_head {
    uint32_t locked, used; /* used: entries ever used */
    struct entry entry[AMPH_SHARE_TEAMS] AMPH_ALIGN_LINE;
    /* what waits read is in one page, as a rule */
    uint32_t napping AMPH_ALIGN_LINE; /* processes that nap */
    struct amph_share_sleepers sleepers;
    struct share_ctl ctl[];
};

static size_t head_bytes(uint32_t count)
{
    return amph_align_up(sizeof(struct amph_share_head) + count * sizeof(struct share_ctl),
                         amph_job.page_bytes);
}

/* The bytes of the rings of nlocal members. */
static size_t rings_bytes(enum amph_share_size size, uint32_t nlocal)
{
    return nlocal * amph_share_rings[size].cells * amph_share_rings[size].bytes;
}

/* The bytes of a slot for nlocal members. */
static size_t slot_bytes(uint32_t nlocal)
{
    size_t lines = (size_t)AMPH_BARRIERS * (nlocal + 1) * sizeof(struct amph_barrier_line);
    size_t done = nlocal * sizeof(struct amph_share_done);
    size_t rings = 0;

    for (int size = 0; size < AMPH_SHARE_SIZES; size++)
        rings += rings_bytes(size, nlocal);

    return amph_align_up(lines + done + rings, amph_job.page_bytes);
}

size_t amph_coll_share_bytes(uint32_t count)
{
    return head_bytes(count) + AMPH_SHARE_TEAMS * slot_bytes(count);
}

static enum amph_status map(const struct amph_share *s, uint64_t offset, size_t len_bytes,
                            void **at_p)
{
    if (!s->own_fd)
        return amph_shm_map_peer(s->pid, s->fd, offset, len_bytes, at_p);

    void *at = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)offset);
    if (at == MAP_FAILED)
        return AMPH_ERR_NOMEM;

    *at_p = at;
    return AMPH_OK;
}

/* This process asks writers for full fences, or does so no more. */
static void ask(struct amph_share *s, bool asks)
{
    __atomic_add_fetch(&s->sleepers->askers, asks ? 1 : -1u, __ATOMIC_SEQ_CST);
}

enum amph_status amph_coll_share_map(struct amph_share *s, uint32_t count, uint32_t self,
                                     int32_t pid, int32_t fd, bool own_fd)
{
    void *at;

    *s =
        (struct amph_share){ .count = count, .self = self, .pid = pid, .fd = fd, .own_fd = own_fd };

    enum amph_status st = map(s, 0, head_bytes(count), &at);

    if (st != AMPH_OK)
        return st;

    s->head = at;
    s->sleepers = &s->head->sleepers;
    amph_fence_join(&s->fence);
    if (s->fence.asks)
        ask(s, true);

    return AMPH_OK;
}

/* ---- slots ---- */

static void lock(struct amph_share_head *h)
{
    while (__atomic_exchange_n(&h->locked, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock(struct amph_share_head *h)
{
    __atomic_store_n(&h->locked, 0, __ATOMIC_RELEASE);
}

/* The index of the team's entry; AMPH_SHARE_TEAMS: all are taken.  Locked. */
static uint32_t find(struct amph_share_head *h, uint64_t id, uint32_t lowest, uint32_t nlocal)
{
    uint32_t unused = h->used;

    for (uint32_t i = 0; i < h->used; i++) {
        const struct entry *e = &h->entry[i];
        bool in_use = e->closed < e->members;

        if (in_use && e->id == id && e->lowest == lowest && e->opened < e->members)
            return i;

        if (!in_use && unused == h->used)
            unused = i;
    }

    if (unused == AMPH_SHARE_TEAMS)
        return unused;

    if (unused == h->used)
        h->used++;

    h->entry[unused] = (struct entry){ .id = id, .lowest = lowest, .members = nlocal };
    return unused;
}

enum amph_status amph_coll_share_open(struct amph_share *s, uint64_t id, uint32_t lowest,
                                      uint32_t nlocal, struct amph_share_slot *slot)
{
    lock(s->head);

    uint32_t i = find(s->head, id, lowest, nlocal);

    if (i < AMPH_SHARE_TEAMS)
        s->head->entry[i].opened++;

    unlock(s->head);
    if (i == AMPH_SHARE_TEAMS) {
        amph_error("the processes of this host have %d teams; destroy some before making more",
                   AMPH_SHARE_TEAMS);
        return AMPH_ERR_RANGE;
    }

    *slot = (struct amph_share_slot){ .entry = i, .len_bytes = slot_bytes(nlocal) };

    enum amph_status st = map(s, head_bytes(s->count) + i * (uint64_t)slot_bytes(s->count),
                              slot->len_bytes, &slot->base);

    if (st != AMPH_OK)
        return st;

    slot->line = slot->base;
    slot->done = (struct amph_share_done *)(slot->line + (size_t)AMPH_BARRIERS * (nlocal + 1));

    uint8_t *cells = (uint8_t *)(slot->done + nlocal);

    for (int size = 0; size < AMPH_SHARE_SIZES; size++) {
        slot->cells[size] = cells;
        cells += rings_bytes(size, nlocal);
    }

    return AMPH_OK;
}

void amph_coll_share_close(struct amph_share *s, struct amph_share_slot *slot)
{
    struct entry *e = &s->head->entry[slot->entry];

    lock(s->head);

    bool last = e->closed + 1 == e->members;

    /* Resets the slot for the next team. */
    if (last && madvise(slot->base, slot->len_bytes, MADV_REMOVE) != 0)
        memset(slot->base, 0, slot->len_bytes);

    e->closed++;
    unlock(s->head);
    munmap(slot->base, slot->len_bytes);
    slot->base = NULL;
}

/* ---- sleeping ---- */

/* Orders the announcement of a sleep with what others write. */
static void sleeper_fence(struct amph_share *s)
{
    bool heavy = true;

    __atomic_store_n(&s->full_fences, 0, __ATOMIC_RELAXED);
    if (amph_coll_spin_try(&s->fence_lock)) {
        const bool asked = s->fence.asks;

        heavy = amph_fence_needs_heavy(&s->fence, s->count);
        if (s->fence.asks != asked)
            ask(s, s->fence.asks);

        amph_coll_spin_unlock(&s->fence_lock);
    }

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (heavy)
        amph_fence_heavy();
}

void amph_coll_share_sleep(struct amph_share *s)
{
    if (!s->head)
        return;

    __atomic_add_fetch(&s->head->ctl[s->self].asleep, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->sleepers->asleep, 1, __ATOMIC_RELAXED);
    sleeper_fence(s);
}

void amph_coll_share_awake(struct amph_share *s)
{
    if (!s->head)
        return;

    __atomic_sub_fetch(&s->head->ctl[s->self].asleep, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&s->sleepers->asleep, 1, __ATOMIC_RELAXED);
}

/* If this process asks for full fences and has long been awake, it asks no more. */
void amph_coll_share_full_fence(struct amph_share *s)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);

    if (__atomic_add_fetch(&s->full_fences, 1, __ATOMIC_RELAXED) < AWAKE_FENCES ||
        !amph_coll_spin_try(&s->fence_lock))
        return;

    if (s->fence.works && s->fence.asks) {
        s->fence.asks = false;
        ask(s, false);
    }

    amph_coll_spin_unlock(&s->fence_lock);
}

bool amph_coll_share_sleeps(const struct amph_share *s, uint32_t neighbour)
{
    return __atomic_load_n(&s->head->ctl[neighbour].asleep, __ATOMIC_RELAXED) != 0;
}

bool amph_coll_share_wake(const struct amph_share *s, uint32_t neighbour)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_WAKE };

    if (!amph_coll_share_sleeps(s, neighbour))
        return false;

    /* Without room in its lane a member must be woken by messages. */
    amph_am_request(amph_gex()->ep.am, amph_gex()->nbrhd.info[neighbour].gex_jobrank, &am,
                    AMPH_AM_IMMEDIATE, NULL);
    amph_count(WAKES_SENT);
    return true;
}

/* ---- cores ---- */

bool amph_coll_share_maybe_on(const struct amph_share *s, uint32_t neighbour, uint32_t core)
{
    uint32_t published = __atomic_load_n(&s->head->ctl[neighbour].core, __ATOMIC_RELAXED);

    return published == 0 || published == core + 1;
}

void amph_coll_share_set_core(struct amph_share *s, uint32_t core)
{
    uint32_t *published = &s->head->ctl[s->self].core;

    if (__atomic_load_n(published, __ATOMIC_RELAXED) != core + 1)
        __atomic_store_n(published, core + 1, __ATOMIC_RELAXED);
}

uint32_t amph_coll_share_neighbours_on(const struct amph_share *s, uint32_t core)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->count; i++)
        count += i != s->self && amph_coll_share_maybe_on(s, i, core);

    return count;
}

/* ---- naps ---- */

bool amph_coll_share_naps(const struct amph_share *s)
{
    return s->head && __atomic_load_n(&s->head->napping, __ATOMIC_ACQUIRE) != 0;
}

bool amph_coll_share_napping(const struct amph_share *s, uint32_t neighbour)
{
    return __atomic_load_n(&s->head->ctl[neighbour].turn.behind, __ATOMIC_RELAXED) != 0;
}

void amph_coll_share_yields(struct amph_share *s)
{
    uint32_t *yields = &s->head->ctl[s->self].turn.yields;

    __atomic_store_n(yields, __atomic_load_n(yields, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}

void amph_coll_share_nap(struct amph_share *s, uint32_t neighbour, uint64_t max_ns)
{
    struct share_turn *turn = &s->head->ctl[s->self].turn;
    const struct timespec limit = { (time_t)(max_ns / AMPH_NS_PER_S),
                                    (long)(max_ns % AMPH_NS_PER_S) };
    const uint32_t behind = neighbour + 1;

    __atomic_store_n(&turn->mark,
                     __atomic_load_n(&s->head->ctl[neighbour].turn.yields, __ATOMIC_ACQUIRE),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&turn->behind, behind, __ATOMIC_RELEASE);
    __atomic_add_fetch(&s->head->napping, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &turn->behind, FUTEX_WAIT, behind, &limit, NULL, 0);
    __atomic_sub_fetch(&s->head->napping, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&turn->behind, 0, __ATOMIC_RELAXED);
}

void amph_coll_share_end_naps(const struct amph_share *s, uint32_t core)
{
    for (uint32_t i = 0; i < s->count; i++) {
        struct share_turn *turn = &s->head->ctl[i].turn;
        uint32_t behind = __atomic_load_n(&turn->behind, __ATOMIC_ACQUIRE);

        if (!behind || behind > s->count || !amph_coll_share_maybe_on(s, i, core))
            continue;

        uint32_t yields = __atomic_load_n(&s->head->ctl[behind - 1].turn.yields, __ATOMIC_ACQUIRE);

        if (yields != __atomic_load_n(&turn->mark, __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&turn->behind, &behind, 0, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            syscall(SYS_futex, &turn->behind, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

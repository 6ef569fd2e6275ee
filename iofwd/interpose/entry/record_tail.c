/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder beyond its budget: sums by call and file, the first errors and the slowest calls, in
 * the tail of the thread's file.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h; a signal handler that interrupts this is
 * counted as dropped.
 */
#include <stddef.h>
#include <unistd.h>

#include "iofwd/interpose/entry/record.h"

#include "iofwd/interpose/entry/catch.h"

enum {
    ERRORS = 512,
    SLOWEST = 128,
    ROWS = 1024, /* two slots each */
    TRIES = 16,
    TAIL_SLOTS = ERRORS + SLOWEST + 2 * ROWS
};

static union amph_trace_slot *tail_of(struct amph_ip_recording *t)
{
    struct amph_trace_header *h = (void *)t->base;

    if (t->tail_state == 0) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t from = (t->stream_end + page - 1) / page * page;

        t->tail = amph_ip_record_map(t, from, from + (uint64_t)TAIL_SLOTS * AMPH_TRACE_SLOT);
        t->tail_state = t->tail ? 1 : 2;
        if (t->tail) {
            h->tail_slots = TAIL_SLOTS;
            h->tail = from;
        }
    }

    return t->tail;
}

static void put(union amph_trace_slot *slot, const struct amph_trace_call *call)
{
    __atomic_store_n(&slot->commit, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);

    struct amph_trace_call copy = *call;

    copy.commit = 0;
    copy.has &= (uint8_t)~AMPH_TRACE_HAS_EXTRA;
    slot->call = copy;
    __atomic_store_n(&slot->commit,
                     AMPH_TRACE_COMMIT(AMPH_TRACE_CALL, AMPH_TRACE_DONE, call->commit),
                     __ATOMIC_RELEASE);
}

static uint64_t duration_ns(const struct amph_trace_call *call)
{
    return call->end_ns - call->start_ns;
}

/* Keeps the SLOWEST slowest calls: once all slots are in use, a slower call replaces the shortest one.
 * shortest_kept_ns is a lower bound of the durations that are kept, so most calls need no search. */
static void keep_slow(struct amph_ip_recording *t, union amph_trace_slot *slow,
                      const struct amph_trace_call *call)
{
    if (t->nslow < SLOWEST) {
        put(&slow[t->nslow++], call);
        return;
    }

    if (duration_ns(call) <= t->shortest_kept_ns)
        return;

    unsigned shortest = 0;

    for (unsigned i = 1; i < SLOWEST; i++)
        if (duration_ns(&slow[i].call) < duration_ns(&slow[shortest].call))
            shortest = i;

    t->shortest_kept_ns = duration_ns(&slow[shortest].call);
    if (duration_ns(call) > t->shortest_kept_ns)
        put(&slow[shortest], call);
}

static unsigned bucket_of(uint64_t len)
{
    unsigned b = len < 4 ? 0 : (63u - (unsigned)__builtin_clzll(len)) / 2;

    return b < AMPH_TRACE_BUCKETS ? b : AMPH_TRACE_BUCKETS - 1;
}

static bool sum_up(union amph_trace_slot *rows, const struct amph_trace_call *call)
{
    uint32_t word = AMPH_TRACE_COMMIT(AMPH_TRACE_SUM, AMPH_TRACE_DONE, call->commit);
    uint64_t at = (call->file ^ call->commit * UINT64_C(0x9e3779b97f4a7c15)) % ROWS;
    bool moves_data = call->has & AMPH_TRACE_HAS_LENGTH && !(call->has & AMPH_TRACE_HAS_FAILED);

    for (unsigned i = 0; i < TRIES; i++) {
        union amph_trace_slot *row = rows + 2 * ((at + i) % ROWS);
        struct amph_trace_sum *s = &row[0].sum;
        struct amph_trace_sizes *sizes = &row[1].sizes;

        if (s->commit && (s->commit != word || s->file != call->file))
            continue;

        if (!s->calls)
            s->first_ns = call->start_ns;

        s->file = sizes->file = call->file;
        s->calls++;
        s->errors += call->err != 0;
        s->bytes += moves_data && call->result > 0 ? (uint64_t)call->result : 0;
        s->total_ns += duration_ns(call);
        s->longest_ns = duration_ns(call) > s->longest_ns ? duration_ns(call) : s->longest_ns;
        s->last_ns = call->end_ns;
        if (moves_data)
            sizes->bucket[bucket_of(call->length)]++;

        __atomic_store_n(&sizes->commit,
                         AMPH_TRACE_COMMIT(AMPH_TRACE_SIZES, AMPH_TRACE_DONE, call->commit),
                         __ATOMIC_RELEASE);
        __atomic_store_n(&s->commit, word, __ATOMIC_RELEASE);
        return true;
    }

    return false;
}

void amph_ip_record_beyond(struct amph_ip_recording *t, const struct amph_trace_call *call)
{
    struct amph_trace_header *h = (void *)t->base;
    bool alone = !__atomic_exchange_n(&t->busy, 1, __ATOMIC_ACQUIRE);
    union amph_trace_slot *tail = alone ? tail_of(t) : NULL;

    if (tail && call->err && t->errors < ERRORS)
        put(&tail[t->errors++], call);

    if (tail)
        keep_slow(t, tail + ERRORS, call);

    if (tail && sum_up(tail + ERRORS + SLOWEST, call))
        h->summed_calls++;
    else
        h->dropped_calls++;

    if (alone)
        __atomic_store_n(&t->busy, 0, __ATOMIC_RELEASE);
}

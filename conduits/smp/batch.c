/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for which no slot is free, because the receiver computes and does not poll.
 * Layer: conduits (smp).  Thread rule: amph_smp_batch_add for the send side, the rest for the progress side.
 *
 * They are collected in a batch, an array of slots in the bulk bytes.  The batch itself is one message, for
 * which some slots are kept free, and it is sent with its first message in it.  Then both sides use its
 * count: the sender adds messages by increments, until the receiver exchanges it.  So there is no need for
 * slots of which most pairs never use more than a few: memory is touched as messages are added, and is the
 * start of the bulk again as soon as the receiver has caught up.
 *
 * Messages stay in order: nothing is added to a batch after which another message was sent.  Payloads in
 * the bulk are not for batches; their room is bounded anyway.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "conduits/smp/smp.h"

/* So often the receiver's position must be the same.  One that polls frees a slot sooner. */
#define STUCK_TRIES 32u

/* ---- sending ---- */

static bool is_stuck(struct amph_smp_out *out, uint32_t consumed)
{
    if (consumed != out->stuck_at)
        out->stuck = 0;

    out->stuck_at = consumed;
    out->stuck += out->stuck < STUCK_TRIES;

    return out->stuck == STUCK_TRIES;
}

/* Adds to the batch that was sent last.  Returns false if there is none, or it is full or taken. */
static bool add(struct amph_smp_out *out, const struct amph_am *am)
{
    struct amph_smp_batch *batch = out->batch;
    uint32_t n = out->batch_count;

    if (!batch || out->batch_at != out->produced || n == SMP_BATCH_MESSAGES)
        return false;

    amph_smp_slot_fill(&batch->message[n], am);
    if (__atomic_compare_exchange_n(&batch->count, &n, n + 1, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED)) {
        out->batch_count++;
        return true;
    }

    out->batch = NULL;
    return false;
}

/* Sends a new batch with one message. */
static bool begin(struct amph_smp_cx *s, struct amph_smp_peer *p, struct amph_smp_out *out,
                  const struct amph_am *am)
{
    const struct amph_am carrier = { .kind = SMP_KIND_BATCH,
                                     .nbytes = sizeof(struct amph_smp_batch) };
    uint32_t at;

    if (!amph_smp_bulk_take(out, p->seed_out, carrier.nbytes, &at))
        return false;

    struct amph_smp_batch *batch = (void *)(out->bulk + (at & (SMP_BULK_BYTES - 1)));

    amph_smp_slot_fill(&batch->message[0], am);
    __atomic_store_n(&batch->count, 1, __ATOMIC_RELAXED);
    amph_smp_put_bulk(out, &out->ring->slot[out->produced % SMP_SLOTS], at);
    amph_smp_slot_send(s, p, out, &carrier);

    out->limit = out->produced; /* whatever follows looks whether a slot is free */
    out->batch = batch;
    out->batch_at = out->produced;
    out->batch_count = 1;

    return true;
}

bool amph_smp_batch_add(struct amph_smp_cx *s, struct amph_smp_peer *p, struct amph_smp_out *out,
                        const struct amph_am *am)
{
    if (!amph_smp_fits_in_line(am))
        return false;
    if (add(out, am))
        return true;

    uint32_t consumed = amph_smp_consumed(out, p->seed_out);

    return is_stuck(out, consumed) && out->produced - consumed < SMP_SLOTS && begin(s, p, out, am);
}

/* ---- receiving ---- */

const struct amph_smp_batch *amph_smp_batch_take(struct amph_smp_in *in,
                                                 const struct amph_smp_slot *slot,
                                                 uint32_t *bulk_end_p)
{
    const volatile struct amph_smp_slot *from = slot;
    struct amph_am am = { .kind = SMP_KIND_BATCH, .nbytes = from->nbytes };

    if (am.nbytes != sizeof(struct amph_smp_batch) || from->where == SMP_INLINE ||
        !amph_smp_read_payload(in, slot, &am, bulk_end_p))
        return NULL;

    struct amph_smp_batch *batch = (void *)(uintptr_t)am.payload;

    if (in->batch_count)
        return batch;

    in->batch_next = 0;
    in->batch_count = __atomic_exchange_n(&batch->count, SMP_BATCH_TAKEN, __ATOMIC_ACQUIRE);
    if (in->batch_count - 1 < SMP_BATCH_MESSAGES)
        return batch;

    in->batch_count = 0;
    return NULL;
}

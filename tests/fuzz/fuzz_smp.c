/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of shared memory's rings: what a peer may have written into its slots, under the word
 * that makes them full, and into the positions that both sides look at.  Run by tests/fuzz/fuzz.sh.
 * An input is a row of slots: a byte (lane, and what else), then the slot's bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "conduits/smp/smp.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    PEERS = 2,
    SLOT_BYTES = 48
};

static struct amph_cx *sender, *owner;

/* All that a message names must lie in what its sender may write. */
static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    static volatile uint8_t sink;

    if (up != &owner)
        return;

    if (am->nargs > AMPH_AM_MAX_ARGS || am->kind > AMPH_AM_INTERNAL || peer != 0)
        abort();

    for (unsigned i = 0; i < am->nargs; i++)
        sink ^= (uint8_t)am->args[i];

    if (am->kind == AMPH_AM_SHORT || am->kind == AMPH_AM_LONG || am->nbytes == 0)
        return;

    const struct amph_smp_in *in = &amph_smp_of(owner)->source[0].in[lane];
    const uint8_t *at = am->payload;
    const uint8_t *slots = (const uint8_t *)in->ring->slot;
    bool in_bulk = at >= in->bulk && am->nbytes <= SMP_BULK_BYTES &&
                   at + am->nbytes <= in->bulk + SMP_BULK_BYTES;
    bool in_slot = at >= slots && at + am->nbytes <= slots + sizeof in->ring->slot &&
                   am->nbytes <= SMP_REST_BYTES;

    if (!in_bulk && !in_slot)
        abort();

    sink ^= at[0] ^ at[am->nbytes - 1];
}

static void on_peer_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    abort(); /* nothing that is written into a ring is the owner's trouble */
}

static const struct amph_upcalls upcalls = { on_am, on_peer_error };

static void start(void)
{
    struct amph_cx_config cfg = { .name = "fuzz", .max_peers = PEERS, .upcalls = &upcalls };

    cfg.up = &sender;
    if (amph_smp_ops.open(&cfg, &sender) != AMPH_OK)
        abort();

    cfg.up = &owner;
    if (amph_smp_ops.open(&cfg, &owner) != AMPH_OK)
        abort();

    const struct amph_peer_spec to = { .addr = owner->addr,
                                       .addr_len = owner->addr_len,
                                       .remote_index = 0,
                                       .cookie_out = 1,
                                       .cookie_in = 2 };
    const struct amph_peer_spec from = { .addr = sender->addr,
                                         .addr_len = sender->addr_len,
                                         .remote_index = 1,
                                         .cookie_out = 2,
                                         .cookie_in = 1 };

    if (amph_smp_ops.add_peer(sender, 1, &to) != AMPH_OK ||
        amph_smp_ops.add_peer(owner, 0, &from) != AMPH_OK)
        abort();

    amph_smp_ops.progress(owner, 3, 1);
}

static void write_slot(struct amph_smp_peer *p, struct amph_smp_out *out, const uint8_t *bytes)
{
    struct amph_smp_slot *slot = &out->ring->slot[out->produced % SMP_SLOTS];

    memcpy((uint8_t *)slot + 4, bytes, SLOT_BYTES);
    if (slot->kind == SMP_KIND_BATCH) {
        struct amph_smp_batch *batch = (void *)out->bulk;

        slot->nbytes = sizeof *batch;
        slot->bulk = slot->bulk_end & ~(SMP_BULK_BYTES - 1);
        slot->bulk_end = slot->bulk;
        batch->count = bytes[SLOT_BYTES - 1];
        memcpy((uint8_t *)&batch->message[bytes[SLOT_BYTES - 2]] + 4, bytes, SLOT_BYTES);
    }

    __atomic_store_n(&slot->word, amph_smp_word(p->seed_out, out->produced), __ATOMIC_RELEASE);
    __atomic_fetch_or(p->watched_word, p->watched_bit, __ATOMIC_RELAXED);
    out->produced++;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!owner)
        start();

    for (; len > SLOT_BYTES; bytes += 1 + SLOT_BYTES, len -= 1 + SLOT_BYTES) {
        struct amph_smp_peer *p = &amph_smp_of(sender)->peer[1];
        struct amph_smp_out *out = &p->out[bytes[0] & 1];

        if (bytes[0] & 2) /* what only the receiver writes by right */
            memcpy(p->positions, bytes + 1, SLOT_BYTES);

        write_slot(p, out, bytes + 1);
        if (bytes[0] & 4)
            amph_smp_of(owner)->base.ops->arm(owner, AMPH_ARM_FD, 0);

        amph_smp_ops.progress(owner, bytes[0] & 8 ? 1u << AMPH_LANE_REPLY : 3, 1 + (bytes[0] >> 4));
        for (int i = 0; i < 3; i++)
            amph_smp_ops.progress(owner, 3, 32);

        const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                    .nbytes = SLOT_BYTES,
                                    .payload = bytes + 1 };

        if (bytes[0] & 128)
            amph_smp_ops.am_send(sender, 1, AMPH_LANE_REQUEST, &am, NULL);
    }

    /* A sender that is held to be full for ever is its own loss; the next input begins with an
     * empty one. */
    while (amph_smp_ops.progress(owner, 3, 32))
        ;

    return 0;
}

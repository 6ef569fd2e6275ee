/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout of the memory that two processes of one host share: an instance's region and its rings.
 * Layer: conduits (smp).  Thread rule: pure functions; each field names its writer.
 *
 * Each instance owns one region (a memfd) with a pair of rings for every peer number: the peer
 * writes, the owner reads.  A ring is 64 slots of two cache lines; a message takes one slot, and
 * one line of it if its arguments and payload fit.  Larger payloads are in the ring's bulk bytes.
 * While the ring is full and its owner does not poll, messages without bulk are collected in a batch:
 * an array of slots in the bulk bytes, which takes one slot of the ring (batch.c).
 * Untouched pages use no memory, so a region for a thousand peers costs only the pages in use.  A
 * peer maps the front of the region and its own pair.
 *
 * A slot is full if its first word has the value that only the authenticated sender can form for
 * this lap (derived from the pair's cookie and the sender's nonce).  So the receiver reads one line,
 * and stale or unauthenticated words are ignored.
 *
 * Everything in a region is written by a peer and is not trusted: it is checked before it is used as
 * an index or a length.
 */
#ifndef AMPH_CONDUITS_SMP_RING_H
#define AMPH_CONDUITS_SMP_RING_H

#include <stdint.h>

#include "base/platform.h"
#include "conduits/conduit.h"

/* A power of two.  More slots would evict each other's lines from the first-level cache. */
#define SMP_SLOTS 64u
#define SMP_BULK_BYTES (1u << 20) /* a power of two, at least three times the largest medium */
#define SMP_MAX_MEDIUM 65536u
#define SMP_PLAIN_SLOTS 60u /* the others are for batches only */
#define SMP_BATCH_MESSAGES 511u
#define SMP_MAX_PEERS (UINT32_C(1) << 24)
#define SMP_ADDR_VERSION 4u
#define SMP_MAGIC UINT64_C(0x32706d7361687041)

/* Where a payload is: in the bulk bytes, or after the args.  PUBLISH: in the bulk bytes, and the
 * receiver publishes its position at once, because the message releases less than it uses. */
enum amph_smp_where {
    SMP_IN_BULK,
    SMP_INLINE,
    SMP_IN_BULK_PUBLISH
};

/* One message. */
struct amph_smp_slot {
    uint32_t word; /* full: amph_smp_word(); written last */
    uint8_t kind, handler, nargs, flags;
    uint16_t aux;
    uint16_t where; /* enum amph_smp_where */
    uint32_t nbytes;
    uint64_t dest;
    uint32_t bulk;     /* position of the payload in the bulk bytes, counted across laps */
    uint32_t bulk_end; /* position where the next payload may start */
    uint8_t rest[2 * AMPH_CACHE_LINE - 32]; /* args, then (aligned to 8) the payload */
} AMPH_ALIGN_LINE;

_Static_assert(sizeof(struct amph_smp_slot) == 2 * AMPH_CACHE_LINE, "a slot is two cache lines");

/* kind, handler, nargs and flags are copied together. */
_Static_assert(offsetof(struct amph_smp_slot, flags) == offsetof(struct amph_smp_slot, kind) + 3 &&
                   offsetof(struct amph_am, flags) == 3,
               "a slot begins like a message");

#define SMP_REST_BYTES (sizeof(((struct amph_smp_slot *)0)->rest))

/* The kind of a slot whose payload is a batch. */
#define SMP_KIND_BATCH (AMPH_AM_INTERNAL + 1)

/* The sender adds messages until the receiver takes the batch. */
struct amph_smp_batch {
    uint32_t count; /* complete messages; written by the sender until it is SMP_BATCH_TAKEN */
    struct amph_smp_slot message[SMP_BATCH_MESSAGES]; /* their first words are not used */
};

#define SMP_BATCH_TAKEN UINT32_MAX

_Static_assert(sizeof(struct amph_smp_batch) <= SMP_MAX_MEDIUM, "a batch is sent like a medium");

/* Offset of the payload in `rest`, after nargs words. */
static inline uint32_t amph_smp_payload_at(unsigned nargs)
{
    return (4u * nargs + 7) & ~7u;
}

/*
 * The positions of one pair.  A session is one sender instance under one cookie.  Its seed is part of
 * every word, so that words of an earlier peer of this number, or of an unauthenticated process, are
 * ignored.  A position is stored as seed << 32 | number and is valid for that session only.
 *
 * The positions of all pairs are together at the front of the region, so that adding a peer touches
 * no page of its rings.
 */
struct amph_smp_positions {
    /* Written by the receiver; the sender reads it only if the ring seems full. */
    struct {
        uint64_t consumed;      /* messages consumed, counted across laps */
        uint64_t bulk_consumed; /* bulk position up to which bytes are free */
    } in[AMPH_NLANES] AMPH_ALIGN_LINE;
    /* Written by the sender when it removes the peer: the position at which it continues if the peer
     * is added again. */
    struct {
        uint64_t produced;
        uint64_t bulk_at;
    } out[AMPH_NLANES] AMPH_ALIGN_LINE;
};

struct amph_smp_ring {
    struct amph_smp_slot slot[SMP_SLOTS];
};

static inline uint64_t amph_smp_mark(uint32_t seed, uint32_t n)
{
    return (uint64_t)seed << 32 | n;
}

/* The number in a position word of this session; 0 if the word is of another session. */
static inline uint32_t amph_smp_number(uint64_t word, uint32_t seed)
{
    return word >> 32 == seed ? (uint32_t)word : 0;
}

/* What one peer may write into the owner's region. */
struct amph_smp_pair {
    struct amph_smp_ring ring[AMPH_NLANES];
    uint8_t bulk[AMPH_NLANES][SMP_BULK_BYTES] __attribute__((aligned(4096)));
};

enum amph_smp_sleep {
    SMP_AWAKE,
    SMP_SLEEP_FUTEX,
    SMP_SLEEP_FD
};

/* The front of a region. */
struct amph_smp_region {
    uint64_t magic;
    uint64_t nonce; /* proves to a peer that it has opened the region of the address */
    uint32_t max_peers;
    uint64_t
        doorbell_ino; /* the doorbell's inode: proves that a descriptor number still means it */
    /* Two words that change rarely; each sender reads both at once. */
    uint32_t sleep
        AMPH_ALIGN_LINE; /* enum amph_smp_sleep; a sender resets it when it wakes the owner */
    /* the owner makes no asymmetric fence before it sleeps, so senders must make a full fence */
    uint32_t full_fence;
    /* One bit for each peer: the owner checks that peer's rings in every poll.  A sender sets its
     * bit if it is clear. */
    uint64_t watched[] AMPH_ALIGN_LINE;
};

static inline uint32_t amph_smp_watch_words(uint32_t max_peers)
{
    return (max_peers + 63) / 64;
}

static inline size_t amph_smp_positions_offset(uint32_t max_peers)
{
    return amph_align_up(sizeof(struct amph_smp_region) + 8 * amph_smp_watch_words(max_peers),
                         AMPH_CACHE_LINE);
}

static inline struct amph_smp_positions *amph_smp_positions_of(struct amph_smp_region *region,
                                                               uint32_t max_peers, uint32_t peer)
{
    return (struct amph_smp_positions *)((char *)region + amph_smp_positions_offset(max_peers)) +
           peer;
}

static inline size_t amph_smp_pairs_offset(uint32_t max_peers)
{
    return amph_align_up(amph_smp_positions_offset(max_peers) +
                             (size_t)max_peers * sizeof(struct amph_smp_positions),
                         4096);
}

static inline size_t amph_smp_pair_offset(uint32_t max_peers, uint32_t peer)
{
    return amph_smp_pairs_offset(max_peers) + (size_t)peer * sizeof(struct amph_smp_pair);
}

static inline size_t amph_smp_region_bytes(uint32_t max_peers)
{
    return amph_smp_pair_offset(max_peers, max_peers);
}

/* For the owner, which has mapped the whole region. */
static inline struct amph_smp_pair *amph_smp_pair_of(struct amph_smp_region *region,
                                                     uint32_t max_peers, uint32_t peer)
{
    return (struct amph_smp_pair *)(void *)((char *)region + amph_smp_pair_offset(max_peers, peer));
}

/* The word that marks slot number n (counted across laps) as full.  Never 0, so that new memory is
 * empty. */
static inline uint32_t amph_smp_word(uint32_t seed, uint32_t n)
{
    return (seed ^ ((n / SMP_SLOTS + 1) * UINT32_C(0x9e3779b1))) | 1u;
}

/* The seed of the session of a sender with this nonce and cookie.  Never 0. */
static inline uint32_t amph_smp_seed(uint64_t cookie, uint64_t nonce)
{
    uint64_t x = (cookie ^ (nonce << 31 | nonce >> 33)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32) | 1u;
}

#endif

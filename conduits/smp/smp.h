/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal structures of the smp conduit.
 * Layer: conduits (smp).  Thread rule: that of conduit.h; each structure belongs to one side.
 *
 *   ring.h      layout of the shared memory            progress.c  receiving
 *   smp.c       opening and closing an instance        source.c    receive side of a peer
 *   peers.c     adding and removing peers              wait.c      sleeping and waking
 *   send.c      sending                                mem.c       registered memory, put and get
 *   prepare.c   negotiated payload                     batch.c     messages for which no slot is free
 *
 * Includes base/, boot/ and conduits/conduit.h only.  No writable globals.
 *
 * A peer has two halves: struct amph_smp_peer belongs to the send side, struct amph_smp_source to
 * the progress side.  add_peer and del_peer run on the send side while the progress side may be in
 * another thread (or be the caller, in an upcall).  So they queue an update (struct
 * amph_smp_request_update), which the progress side applies before it looks at its sources again.
 */
#ifndef AMPH_CONDUITS_SMP_SMP_H
#define AMPH_CONDUITS_SMP_SMP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/os/fence.h"
#include "conduits/conduit.h"
#include "conduits/smp/ring.h"

/* Send side of one lane. */
struct amph_smp_out {
    struct amph_smp_ring *ring; /* in the peer's region */
    uint8_t *bulk;
    const uint64_t *consumed, *bulk_consumed_there;
    uint32_t produced; /* messages written */
    uint32_t limit;    /* may be written up to here before `consumed` must be read again */
    uint32_t bulk_at;  /* position of the next free bulk byte */
    uint32_t bulk_consumed;
    /* Prepared payloads that have not been committed (prepare.c).  While there are any, messages
     * release no bulk beyond hold_at. */
    uint32_t held;
    uint32_t hold_at;
    uint32_t last_at, last_from; /* start of the latest bulk, and bulk_at before it */
    /* When all bulk was free, bulk_at was moved from the first to the second position, the front of
     * the bulk.  The receiver learns that from the next message with bulk.  Equal: it has learnt. */
    uint32_t moved_from, moved_to;
    /* position up to which bulk is free once the last message with bulk has been consumed */
    uint32_t bulk_released;
    uint32_t
        publish_seq; /* `produced` after the last message that released less bulk than it used */
    /* The last message is this batch, to which messages may be added; or NULL. */
    struct amph_smp_batch *batch;
    uint32_t batch_at, batch_count; /* `produced` after it; messages in it */
    /* The receiver's position when the ring was last found full, and how often it was the same. */
    uint32_t stuck_at, stuck;
};

/* Writes to the slot of the next message where its payload is in the bulk, and up to which position
 * the bulk is free once the message has been consumed. */
static inline void amph_smp_put_bulk(struct amph_smp_out *out, struct amph_smp_slot *slot,
                                     uint32_t at)
{
    slot->where = SMP_IN_BULK;
    slot->bulk = at;
    slot->bulk_end = out->bulk_at;

    if (AMPH_UNLIKELY(out->held)) {
        slot->where = SMP_IN_BULK_PUBLISH;
        slot->bulk_end = out->hold_at;
        out->publish_seq = out->produced + 1;
    }

    out->bulk_released = slot->bulk_end;
}

/* A mapping made by mem_import, unmapped when the peer is removed. */
struct amph_smp_import {
    struct amph_smp_import *next;
    void *addr;
    size_t len_bytes;
    uint8_t key[AMPH_KEY_BLOB_MAX_BYTES];
    size_t key_len;
    struct amph_rmem rmem;
};

/* Send side of a peer. */
struct amph_smp_peer {
    bool up;
    uint32_t seed_out;
    struct amph_smp_out out[AMPH_NLANES];
    /* front of the peer's region, mapped here; for the process itself its own region */
    struct amph_smp_region *region;
    size_t front_bytes;
    struct amph_smp_pair *pair; /* our rings in the peer's region */
    void *rings;                /* mapping of the pages that hold them; NULL: the process itself */
    size_t rings_bytes;
    struct amph_smp_positions *positions; /* of this pair, in the peer's region */
    uint64_t *watched_word;               /* holds the peer's watch bit for us */
    uint64_t watched_bit;
    pid_t pid;
    int remote_doorbell_fd,
        doorbell_fd; /* write end of its doorbell: its number there, ours or -1 */
    struct amph_smp_import *imports;
} AMPH_ALIGN_LINE;

/* Progress side of one lane. */
struct amph_smp_in {
    struct amph_smp_ring *ring; /* in the own region */
    uint64_t *consumed_word, *bulk_consumed_word;
    const uint8_t *bulk;
    const uint32_t *next; /* the first word of the next slot */
    uint32_t expect;      /* what makes it full */
    uint32_t consumed, published;
    uint32_t bulk_consumed, bulk_published;
    bool publish_now;      /* the current message asks to publish its consumption at once */
    uint32_t counted_word; /* a stale or unauthenticated word that has been counted */
    uint32_t batch_next, batch_count; /* of the batch that has been taken; 0, 0: none */
};

/* Progress side of a peer. */
struct amph_smp_source {
    bool up;
    bool known;   /* had a session before, whose words are still in the rings */
    bool touched; /* has been polled, so its pages exist */
    uint32_t seed;
    uint32_t idle_polls;
    struct amph_smp_in in[AMPH_NLANES];
} AMPH_ALIGN_LINE;

/* A pending change of a source, queued by the send side.  Guarded by update_lock. */
struct amph_smp_request_update {
    bool listed, forget, up; /* forget the present session first; then bring it up */
    uint32_t seed;
    uint32_t next; /* next listed peer number, or UINT32_MAX */
};

/* Memory of this process that is registered. */
struct amph_smp_reg {
    struct amph_smp_reg *next;
    uint8_t key[AMPH_KEY_BLOB_MAX_BYTES];
    size_t key_len;
};

struct amph_smp_cx {
    struct amph_cx base;
    struct amph_smp_region *region;
    int region_fd;
    int doorbell[2];         /* doorbell pipe */
    pid_t pid;               /* process that opened the instance and owns its descriptors */
    struct amph_fence fence; /* asymmetric, between senders and this process when it falls asleep */

    /* send side */
    struct amph_smp_peer *peer; /* [max_peers] */
    struct amph_smp_reg *regs;

    /* pending updates */
    pthread_mutex_t update_lock;
    struct amph_smp_request_update *update; /* [max_peers] */
    /* head of the list, or UINT32_MAX; written under the lock, read by the progress side without */
    uint32_t first_update;

    /* progress side */
    struct amph_smp_source *source; /* [max_peers] */
    uint32_t nsources;              /* sources that are up have lower numbers */
    uint32_t last_active;           /* source of the last message, or UINT32_MAX */
    uint32_t next_visit; /* source at which a poll starts, so that a small budget serves all */
    uint32_t polls;
    uint32_t watched_count;
    /* in the last poll of all watched sources, others than last_active had messages */
    bool others_active;
    bool in_progress;
    enum amph_arm armed;
    uint32_t polls_at_arm;
};

static inline struct amph_smp_cx *amph_smp_of(struct amph_cx *cx)
{
    return (struct amph_smp_cx *)cx;
}

/* smp.c */
/* Maps len_bytes at offset of the sealed memory object that process pid holds as fd; its inode must
 * be ino where that is not 0. */
enum amph_status amph_smp_map(pid_t pid, int fd, uint64_t ino, uint64_t offset, size_t len_bytes,
                              void **addr_p);
/* The two steps of amph_smp_map: opens the object, and maps a part of it. */
enum amph_status amph_smp_open_memory(pid_t pid, int fd, int *own_p);
enum amph_status amph_smp_map_memory(pid_t pid, int own, uint64_t ino, uint64_t offset,
                                     size_t len_bytes, void **addr_p);
/* peers.c */
enum amph_status amph_smp_add_peer(struct amph_cx *cx, uint32_t peer,
                                   const struct amph_peer_spec *spec);
void amph_smp_del_peer(struct amph_cx *cx, uint32_t peer);
void amph_smp_drop_peer(struct amph_smp_cx *s, struct amph_smp_peer *p); /* send side only */
/* source.c */
/* Queues a change of a source.  up false: removes it. */
void amph_smp_request_update(struct amph_smp_cx *s, uint32_t peer, bool up, uint32_t seed);
/* Applies the pending updates.  Progress side, outside of upcalls. */
void amph_smp_apply_updates(struct amph_smp_cx *s);
static inline bool amph_smp_has_updates(struct amph_smp_cx *s)
{
    return __atomic_load_n(&s->first_update, __ATOMIC_RELAXED) != UINT32_MAX;
}

static inline bool amph_smp_slot_full(const struct amph_smp_in *in)
{
    return __atomic_load_n(in->next, __ATOMIC_ACQUIRE) == in->expect;
}

/* Consumes one message, after which bulk up to bulk_end is free. */
static inline void amph_smp_advance(struct amph_smp_source *src, struct amph_smp_in *in,
                                    uint32_t bulk_end)
{
    in->bulk_consumed = bulk_end;
    in->expect = amph_smp_word(src->seed, ++in->consumed);
    in->next = &in->ring->slot[in->consumed % SMP_SLOTS].word;
}

void amph_smp_publish(const struct amph_smp_source *src, struct amph_smp_in *in);
/* Finds the payload of a slot.  Returns false if the slot is malformed. */
bool amph_smp_read_payload(struct amph_smp_in *in, const struct amph_smp_slot *slot,
                           struct amph_am *am, uint32_t *bulk_end_p);
/* Reads the header of a full slot, each field once, because its writer may change it during the
 * check.  Returns false if it is malformed; *bulk_end_p is then the present position. */
static inline bool amph_smp_read_slot(struct amph_smp_in *in, const struct amph_smp_slot *slot,
                                      struct amph_am *am, uint32_t *bulk_end_p)
{
    const volatile struct amph_smp_slot *from = slot;
    const uint32_t head = __atomic_load_n((const uint32_t *)(const void *)&slot->kind,
                                          __ATOMIC_RELAXED);

    memcpy(am, &head, 4); /* kind, handler, nargs, flags */
    am->aux = from->aux;
    am->payload = NULL;
    am->nbytes = 0;
    am->dest = 0;
    *bulk_end_p = in->bulk_consumed;
    if (AMPH_UNLIKELY(am->nargs > AMPH_AM_MAX_ARGS || am->kind > AMPH_AM_INTERNAL))
        return false;
    if (am->kind == AMPH_AM_SHORT)
        return true;

    am->nbytes = from->nbytes;
    am->dest = from->dest;
    if (am->kind == AMPH_AM_LONG || am->nbytes == 0)
        return true;

    return amph_smp_read_payload(in, slot, am, bulk_end_p);
}

/* send.c */
enum amph_status amph_smp_am_send(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                  const struct amph_am *am, struct amph_op *lc);
static inline uint32_t amph_smp_consumed(const struct amph_smp_out *out, uint32_t seed)
{
    return amph_smp_number(__atomic_load_n(out->consumed, __ATOMIC_ACQUIRE), seed);
}

/* Returns true if a slot is free.  Reads the receiver's line only when the known room is used up. */
static inline bool amph_smp_have_slot(struct amph_smp_out *out, uint32_t seed)
{
    if (AMPH_LIKELY(out->produced != out->limit))
        return true;

    uint32_t consumed = amph_smp_consumed(out, seed);

    if (out->produced - consumed >= SMP_PLAIN_SLOTS) /* full, or the peer wrote nonsense */
        return false;

    out->limit = consumed + SMP_PLAIN_SLOTS;
    return true;
}

/* Allocates nbytes of contiguous bulk at *at_p.  Returns false if there is no room. */
bool amph_smp_bulk_take(struct amph_smp_out *out, uint32_t seed, uint32_t nbytes, uint32_t *at_p);
/* Returns the position at which the bulk continues if the peer is removed and added again: behind the payloads
 * that were sent, without those that were only prepared.  Undoes a move to the front of which the receiver
 * does not know. */
uint32_t amph_smp_bulk_end(struct amph_smp_out *out, uint32_t seed);
/* Fills slot number out->produced, whose payload is in place, and wakes the receiver if it sleeps. */
void amph_smp_slot_send(struct amph_smp_cx *s, struct amph_smp_peer *p, struct amph_smp_out *out,
                        const struct amph_am *am);
/* Does a slot hold all of the message? */
static inline bool amph_smp_fits_in_line(const struct amph_am *am)
{
    return am->kind == AMPH_AM_SHORT || am->kind == AMPH_AM_LONG || am->nbytes == 0 ||
           amph_smp_payload_at(am->nargs) + am->nbytes <= SMP_REST_BYTES;
}

/* Writes such a message to a slot, but not the word that makes it full. */
void amph_smp_slot_fill(struct amph_smp_slot *slot, const struct amph_am *am);
/* batch.c */
/* For a message for which no slot is free.  Returns false if there is no room in a batch, either. */
bool amph_smp_batch_add(struct amph_smp_cx *s, struct amph_smp_peer *p, struct amph_smp_out *out,
                        const struct amph_am *am);
/* The batch of a slot of that kind.  The first call for it counts its messages: in->batch_count.  NULL: it is
 * malformed.  *bulk_end_p as in amph_smp_read_slot. */
const struct amph_smp_batch *amph_smp_batch_take(struct amph_smp_in *in,
                                                 const struct amph_smp_slot *slot,
                                                 uint32_t *bulk_end_p);
/* prepare.c */
enum amph_status amph_smp_am_prepare(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                     size_t *len_bytes_p, void **buf_p);
enum amph_status amph_smp_am_commit(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                    const struct amph_am *am);
/* progress.c */
unsigned amph_smp_progress(struct amph_cx *cx, unsigned lanes, unsigned budget);
/* Returns true if any ring holds a message. */
bool amph_smp_has_work(struct amph_smp_cx *s);
/* wait.c */
void amph_smp_relax_fence(struct amph_smp_cx *s); /* after many polls without a sleep */
void amph_smp_wake(struct amph_smp_cx *s, struct amph_smp_peer *p);
enum amph_status amph_smp_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns);
int amph_smp_wait_fd(struct amph_cx *cx);
/* mem.c */
enum amph_status amph_smp_mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                  uint64_t fd_offset, struct amph_mem *mem);
void amph_smp_mem_dereg(struct amph_cx *cx, struct amph_mem *mem);
enum amph_status amph_smp_mem_import(struct amph_cx *cx, uint32_t peer, const void *key,
                                     size_t key_len, struct amph_rmem *rmem);
enum amph_status amph_smp_put(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, const void *src, size_t len_bytes,
                              struct amph_op *lc, struct amph_op *rc);
enum amph_status amph_smp_get(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem,
                              uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smp conduit's own structures.  Layer: conduits (smp).  Thread rule: that of conduit.h; each
 * structure belongs to one side.
 *
 * A peer has two halves: struct amph_smp_peer of the send side and struct amph_smp_source of the
 * progress side.  add_peer and del_peer run on the send side while the progress side may be in
 * another thread (or be the caller, in an upcall), so they leave a wish behind (struct
 * amph_smp_request_update), which the progress side grants before it looks at its sources again.
 */
#ifndef AMPH_CONDUITS_SMP_SMP_H
#define AMPH_CONDUITS_SMP_SMP_H

#include <pthread.h>
#include <string.h>
#include <sys/types.h>

#include "conduits/conduit.h"
#include "conduits/smp/ring.h"

/* Send side of one lane. */
struct amph_smp_out {
    struct amph_smp_ring *ring; /* in the peer's region */
    uint8_t *bulk;
    const uint64_t *consumed, *bulk_consumed_there;
    uint32_t produced; /* messages written */
    uint32_t limit;    /* may be written up to here before `consumed` must be read again */
    uint32_t bulk_at;  /* next free bulk position */
    uint32_t bulk_consumed;
    /* Payloads that are being put together in the ring (prepare.c).  While there are any, messages
     * free no bulk beyond hold_at. */
    uint32_t held;
    uint32_t hold_at;
    uint32_t last_at, last_from; /* where the latest bulk began, and bulk_at before it */
    /* what the last message with bulk says to be free when it has been taken */
    uint32_t told;
    uint32_t tell_seq; /* `produced` behind the last message that freed less than it used */
};

/* Says in the slot of the next message where its payload lies in the bulk, and what is free when it
 * has been taken. */
static inline void amph_smp_put_bulk(struct amph_smp_out *out, struct amph_smp_slot *slot,
                                     uint32_t at)
{
    slot->where = SMP_IN_BULK;
    slot->bulk = at;
    slot->bulk_end = out->bulk_at;

    if (AMPH_UNLIKELY(out->held)) {
        slot->where = SMP_IN_BULK_TELL;
        slot->bulk_end = out->hold_at;
        out->tell_seq = out->produced + 1;
    }

    out->told = slot->bulk_end;
}

/* A mapping made by mem_import, undone when the peer is forgotten. */
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
    /* the front of the peer's, mapped here (the own one for self) */
    struct amph_smp_region *region;
    size_t front_bytes;
    struct amph_smp_pair *pair; /* our rings there */
    void *rings;                /* the pages that hold them, mapped here; NULL: the own ones */
    size_t rings_bytes;
    struct amph_smp_positions *positions; /* of this pair, in the peer's region */
    uint64_t *watched_word;               /* where the peer's watch bit for us stands */
    uint64_t watched_bit;
    pid_t pid;
    int bell_fd_there, bell_fd; /* write end of its doorbell: its number there, ours or -1 */
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
    bool tell;      /* the message that is being taken asks for word */
    uint32_t stray; /* a word of no session of ours that has been counted */
};

/* Progress side of a peer. */
struct amph_smp_source {
    bool up;
    bool known; /* had a session before: what it left is still in the rings */
    bool warm;  /* has been looked at: its pages are there */
    uint32_t seed;
    uint32_t idle_polls;
    struct amph_smp_in in[AMPH_NLANES];
} AMPH_ALIGN_LINE;

/* What the send side wants of a source; wish_lock. */
struct amph_smp_request_update {
    bool listed, forget, up; /* forget what it is, then have it up */
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
    int bell[2];    /* doorbell pipe */
    pid_t pid;      /* of the process that opened it and has its descriptors */
    bool can_fence; /* this process takes part in the asymmetric fence */

    /* send side */
    struct amph_smp_peer *peer; /* [max_peers] */
    struct amph_smp_reg *regs;

    /* wishes */
    pthread_mutex_t wish_lock;
    struct amph_smp_request_update *wish; /* [max_peers] */
    /* first listed, or UINT32_MAX; written under the lock, looked at by the progress side */
    uint32_t wished;

    /* progress side */
    struct amph_smp_source *source; /* [max_peers] */
    uint32_t nsources;              /* sources that are up lie below this number */
    uint32_t last_found;            /* source of the last message, or UINT32_MAX */
    uint32_t next_visit;            /* where a poll starts, so that a small budget serves all */
    uint32_t polls;
    uint32_t watched_count;
    /* at the last look at all watched sources not only last_found had messages */
    bool others_speak;
    bool in_progress;
    enum amph_arm armed;
    uint64_t armed_ns; /* when it last slept */
    uint32_t polls_at_arm;
    unsigned quick_arms; /* sleeps in quick succession */
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
/* peers.c */
enum amph_status amph_smp_add_peer(struct amph_cx *cx, uint32_t peer,
                                   const struct amph_peer_spec *spec);
void amph_smp_del_peer(struct amph_cx *cx, uint32_t peer);
void amph_smp_drop_peer(struct amph_smp_cx *s, struct amph_smp_peer *p); /* send side only */
/* source.c */
/* up false: forget it */
void amph_smp_request_update(struct amph_smp_cx *s, uint32_t peer, bool up, uint32_t seed);
/* progress side, outside of upcalls */
void amph_smp_publish_pending(struct amph_smp_cx *s);
static inline bool amph_smp_has_pending(struct amph_smp_cx *s)
{
    return __atomic_load_n(&s->wished, __ATOMIC_RELAXED) != UINT32_MAX;
}

static inline bool amph_smp_slot_full(const struct amph_smp_in *in)
{
    return __atomic_load_n(in->next, __ATOMIC_ACQUIRE) == in->expect;
}

/* One message more has been taken; bulk up to bulk_end is free. */
static inline void amph_smp_advance(struct amph_smp_source *src, struct amph_smp_in *in,
                                    uint32_t bulk_end)
{
    in->bulk_consumed = bulk_end;
    in->expect = amph_smp_word(src->seed, ++in->consumed);
    in->next = &in->ring->slot[in->consumed % SMP_SLOTS].word;
}

void amph_smp_publish(const struct amph_smp_source *src, struct amph_smp_in *in);
/* Where a slot's payload lies; false: malformed. */
bool amph_smp_read_payload(struct amph_smp_in *in, const struct amph_smp_slot *slot,
                           struct amph_am *am, uint32_t *bulk_end_p);
/* Reads a full slot's header, each field once: its writer may change it while it is being checked.
 * false: malformed; *bulk_end_p is then where it was. */
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
/* Is there a slot?  Asks the receiver's line only when the known room is used up. */
static inline bool amph_smp_have_slot(struct amph_smp_out *out, uint32_t seed)
{
    if (AMPH_LIKELY(out->produced != out->limit))
        return true;

    uint32_t consumed = amph_smp_number(__atomic_load_n(out->consumed, __ATOMIC_ACQUIRE), seed);
    if (out->produced - consumed >= SMP_SLOTS) /* full, or the peer wrote nonsense */
        return false;

    out->limit = consumed + SMP_SLOTS;
    return true;
}

/* Takes nbytes of bulk in one piece, from *at_p; false: no room. */
bool amph_smp_bulk_take(struct amph_smp_out *out, uint32_t seed, uint32_t nbytes, uint32_t *at_p);
/* Makes slot number out->produced full, its payload being in place, and rings. */
void amph_smp_slot_send(struct amph_smp_cx *s, struct amph_smp_peer *p, struct amph_smp_out *out,
                        const struct amph_am *am);
/* prepare.c */
enum amph_status amph_smp_am_prepare(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                     size_t *len_bytes_p, void **buf_p);
enum amph_status amph_smp_am_commit(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                                    const struct amph_am *am);
/* progress.c */
unsigned amph_smp_progress(struct amph_cx *cx, unsigned lanes, unsigned budget);
/* every ring of every source that may have a message is looked at */
bool amph_smp_has_work(struct amph_smp_cx *s);
/* wait.c */
bool amph_smp_fence_setup(void); /* can this process make and receive the asymmetric fence? */
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* The smp conduit's own structures.  Layer: conduits (smp).  Thread rule: that of conduit.h; sides are named at the fields. */
#ifndef AMPH_CONDUITS_SMP_SMP_H
#define AMPH_CONDUITS_SMP_SMP_H

#include <sys/types.h>

#include "conduits/conduit.h"
#include "conduits/smp/ring.h"

/* Send side of one lane. */
struct smp_out {
    struct smp_ring *ring; /* in the peer's region */
    uint8_t *bulk;
    uint32_t produced;     /* messages written */
    uint32_t limit;        /* may be written up to here before `consumed` must be read again */
    uint32_t bulk_at;      /* next free bulk position */
    uint32_t bulk_consumed;
};

/* Progress side of one lane. */
struct smp_in {
    struct smp_ring *ring; /* in the own region */
    const uint8_t *bulk;
    uint32_t consumed, published;
    uint32_t bulk_consumed, bulk_published;
};

struct smp_peer {
    bool up;
    bool failed;                 /* broke the framing: nothing more is read */
    uint32_t seed_in, seed_out;
    struct smp_out out[AMPH_NLANES];
    struct smp_in in[AMPH_NLANES];
    struct smp_region *region;   /* the peer's, mapped here (the own one for self) */
    size_t region_bytes;
    uint64_t *watched_word;      /* where the peer's watch bit for us stands */
    uint64_t watched_bit;
    pid_t pid;
    int bell_fd_there, bell_fd;  /* write end of its doorbell: its number there, ours or -1 */
    uint32_t idle_polls;
} AMPH_ALIGN_LINE;

/* A mapping made by mem_import, to be undone at close. */
struct smp_import {
    struct smp_import *next;
    void *addr;
    size_t len_bytes;
};

struct smp_cx {
    struct amph_cx base;
    struct smp_region *region;
    int region_fd;
    int bell[2];              /* doorbell pipe */
    bool sender_must_fence;   /* this process cannot take part in the asymmetric fence */
    struct smp_peer *peer;    /* [max_peers] */
    uint32_t npeers;          /* peers that are up lie below this number */
    uint32_t polls;
    uint32_t watched_count;
    enum amph_arm armed;
    struct smp_import *imports;
};

static inline struct smp_cx *smp_of(struct amph_cx *cx)
{
    return (struct smp_cx *)cx;
}

/* send.c */
enum amph_status smp_am_send(struct amph_cx *cx, uint32_t peer, enum amph_lane lane, const struct amph_am *am, struct amph_op *lc);
/* progress.c */
unsigned smp_progress(struct amph_cx *cx, unsigned lanes, unsigned budget);
bool smp_has_work(struct smp_cx *s); /* every ring of every peer is looked at */
/* wait.c */
bool smp_fence_setup(void); /* can this process make and receive the asymmetric fence? */
void smp_wake(struct smp_cx *s, struct smp_peer *p);
enum amph_status smp_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns);
int smp_wait_fd(struct amph_cx *cx);
/* mem.c */
enum amph_status smp_mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd, uint64_t fd_offset, struct amph_mem *mem);
void smp_mem_dereg(struct amph_cx *cx, struct amph_mem *mem);
enum amph_status smp_mem_import(struct amph_cx *cx, uint32_t peer, const void *key, size_t key_len, struct amph_rmem *rmem);
enum amph_status smp_put(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem, uint64_t offset, const void *src,
                         size_t len_bytes, struct amph_op *lc, struct amph_op *rc);
enum amph_status smp_get(struct amph_cx *cx, uint32_t peer, const struct amph_rmem *rmem, uint64_t offset, void *dst, size_t len_bytes,
                         struct amph_op *done);

#endif

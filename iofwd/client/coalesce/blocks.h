/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run of small consecutive calls on one file, and the blocks in which it travels; see
 * coalesce/blocks.c.  Layer: iofwd.
 * Thread rule: the caller is inside the collector
 * (coalesce/coalesce.c).
 */
#ifndef AMPH_IOFWD_CLIENT_BLOCKS_H
#define AMPH_IOFWD_CLIENT_BLOCKS_H

#include "iofwd/client/internal.h"

#define BLOCKS_MOST 16u

enum mode {
    IDLE,
    WRITING,
    READING
};

/* A piece of a run: being filled, under way, or come back. */
struct block {
    struct amph_client_pending *pend; /* NULL: not sent */
    union amph_fwd_args args;
    unsigned slot;
    off_t off;
    size_t len, got; /* bytes asked for; that have come or gone */
    bool back;
};

struct collector {
    struct collector *next;  /* in its bucket; never unlinked */
    _Atomic uint64_t handle; /* of the file's first part; 0: free */
    uint32_t server;
    _Atomic uintptr_t owner; /* the thread inside */
    struct amph_fwd_file file;
    struct amph_fwd_client *cl;
    struct amph_client_link *link;
    /* set by set_mode in coalesce/coalesce.c; without entering, only looked at */
    _Atomic(enum mode) mode;
    bool by_offset; /* a run of read() or write(), not of pread() or pwrite() */
    /* opened by this process, and no other has come to it since: nobody else moves its offset */
    _Atomic bool alone;
    _Atomic uint64_t identity; /* of the file: equal for all its open files; 0: not asked */
    bool uncrowded;            /* its crowd had no room */
    bool checked, able, append;
    int access; /* O_RDONLY, O_WRONLY, O_RDWR */
    off_t pos;  /* the next byte of the run; with append: of the run's own bytes */
    /* what the last calls were like */
    enum mode last;
    bool last_by_offset;
    off_t last_end;
    /* announced */
    enum mode announced;
    uint64_t bytes_left;
    unsigned calls_left;
    int late; /* errno of a write that had been reported as done */
    size_t block_bytes;
    uint8_t *heap; /* instead of slots */
    bool on_heap;
    unsigned head, n, most; /* ring of blocks */
    size_t taken;           /* of the head block, when reading */
    bool ended;             /* reading: a block came back short */
    struct block ring[BLOCKS_MOST];
};

/* Chooses where a run's blocks lie: spare slots of the transfer area, else memory of their own.
 * false: no server, no memory. */
bool amph_client_blocks_room(struct collector *c);
/* Take the call's bytes; give the call what has been fetched.  d->done_p gets how many; false:
 * none, and the server is to be asked. */
bool amph_client_blocks_append(struct collector *c, const struct amph_client_data *d);
bool amph_client_blocks_serve(struct collector *c, const struct amph_client_data *d);
/* Is anything of [from, to) gathered, or fetched and not yet given? */
bool amph_client_blocks_touch(struct collector *c, off_t from, off_t to);
/* Have the next len bytes been fetched, so that giving them asks for no more? */
bool amph_client_blocks_hold(struct collector *c, size_t len);
/* Sends what has been gathered, and waits for all that is under way. */
void amph_client_blocks_flush(struct collector *c);
/* The first error of data whose calls have returned is kept for a call that may say it. */
void amph_client_blocks_error(struct collector *c, int err);
/* In a forked child: its client has an area of its own. */
void amph_client_blocks_forget(void);

#endif

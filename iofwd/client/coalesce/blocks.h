/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The coalescer of one open file: a sequence of small consecutive calls, and the blocks in which
 * its data is transferred.
 *
 * Layer: iofwd.  Thread rule: the caller owns the coalescer (amph_client_coalesce_enter).
 */
#ifndef AMPH_IOFWD_CLIENT_BLOCKS_H
#define AMPH_IOFWD_CLIENT_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "iofwd/client/internal.h"

#define BLOCKS_MAX 16u

enum mode {
    IDLE,
    WRITING,
    READING
};

/* A piece of a sequence: being filled, in flight, or complete. */
struct block {
    struct amph_client_pending *pend; /* NULL: not sent */
    union amph_fwd_args args;
    unsigned slot;
    off_t off;
    size_t len, got; /* bytes requested; bytes transferred */
    bool back;       /* complete */
};

struct coalescer {
    struct coalescer *next;  /* in its bucket; never unlinked */
    _Atomic uint64_t handle; /* of the file's first part; 0: free */
    uint32_t server;
    _Atomic uintptr_t owner; /* the thread that uses it, or 0 */
    struct amph_fwd_file file;
    struct amph_fwd_client *cl;
    struct amph_client_link *link;
    /* written by set_mode of coalesce/coalesce.c; other threads may read it */
    _Atomic(enum mode) mode;
    bool by_offset; /* a sequence of read() or write(), not of pread() or pwrite() */
    /* only this process has the open file, so no other one moves its offset */
    _Atomic bool alone;
    /* calls at the offset that go to the server beside this coalescer (pass_beside) */
    _Atomic uint32_t passing;
    _Atomic bool broke;        /* one of them ended at the end of the file */
    bool flags_known;          /* append, access, plain are those of the open file */
    bool plain;                /* opened without O_DIRECT, O_SYNC, O_PATH */
    uint32_t line;             /* index of the file's versions, once checked */
    unsigned nsequential;      /* consecutive reads */
    _Atomic uint64_t identity; /* of the file: equal for all its open files; 0: unknown */
    bool overflowed;           /* its active set was full */
    bool checked, able, append;
    int access; /* O_RDONLY, O_WRONLY, O_RDWR */
    off_t pos;  /* the next byte of the sequence; with append, counted from its first byte */
    /* the last call */
    enum mode last;
    bool last_by_offset;
    off_t last_end;
    /* what was announced and is not done yet */
    enum mode announced;
    uint64_t bytes_left;
    unsigned calls_left;
    int late; /* errno of a coalesced write whose call has already returned success */
    size_t block_bytes;
    uint8_t *heap; /* the block, if on_heap */
    bool on_heap;
    unsigned head, n, blocks_max; /* ring of blocks */
    size_t taken;                 /* bytes of the head block that reads have consumed */
    bool ended;                   /* reading: a block was short */
    struct block ring[BLOCKS_MAX];
    /* a sequence of reads that is answered from one block while the file's version stays the same
     * (coalesce/ahead.c); it uses nothing of the ring */
    bool versioned;
    struct {
        uint8_t *data;
        size_t len;  /* bytes in the block */
        off_t off;   /* offset of the first byte */
        size_t next; /* how much to fetch next */
        uint32_t line, version;
        bool known; /* the version was read while no change was in progress */
        uint64_t asked_ns;
        unsigned pauses; /* reads until the next attempt, after others changed the file */
    } ahead;
};

#define AMPH_CLIENT_BUCKETS 1024u
#define AMPH_CLIENT_ACTIVE_SETS 64u
#define AMPH_CLIENT_ACTIVE_SLOTS 8u
#define AMPH_CLIENT_SPARE_DATA 4

/* The state of the room. */
struct amph_client_coalesce_state {
    /* coalesce.c, any thread: coalescers by handle; entries are never unlinked */
    struct coalescer *_Atomic bucket[AMPH_CLIENT_BUCKETS];
    _Atomic uint32_t dirty; /* number of coalescers that are not idle */
    /* active sets: coalescers that are not idle, by the identity of their file */
    /* clang-format off */
    _Alignas(64) struct coalescer *_Atomic
        active[AMPH_CLIENT_ACTIVE_SETS][AMPH_CLIENT_ACTIVE_SLOTS];
    /* clang-format on */
    _Atomic uint32_t overflowed; /* number of active coalescers that found their set full */
    _Atomic bool making;         /* a thread is in find_or_make */
    _Atomic bool in_use;         /* a sequence was announced, or session consistency is on */
    _Atomic bool over;           /* the process is ending */
    _Atomic uint32_t versioned;  /* number of versioned sequences, which do not count as dirty */
    _Atomic bool announced;      /* a sequence was announced */
    bool session;                /* IOFWD_CONSISTENCY=session */
    _Atomic bool ahead;          /* other reads: ahead, by versions */

    _Atomic uint32_t slots_held; /* blocks.c: of all links, by all coalescers */

    /* ahead.c: unused memory of blocks; any thread and signal handler */
    uint8_t *_Atomic spare_data[AMPH_CLIENT_SPARE_DATA];

    /* file.c: unused memory for nspare coalescers; of the thread that has set `making` */
    struct coalescer *spare;
    unsigned nspare;
};

extern struct amph_client_coalesce_state amph_client_coalesce AMPH_HIDDEN;

/* coalesce.c: makes this thread the owner.  Returns false if it already is: a signal handler
 * interrupted it inside. */
bool amph_client_coalesce_enter(struct coalescer *c);
/* Like enter, but returns false also if c no longer belongs to `file`: after a close, a coalescer
 * is reused for another file. */
bool amph_client_coalesce_enter_for(struct coalescer *c, const struct amph_fwd_file *file);
void amph_client_coalesce_leave(struct coalescer *c);
/* By the owner: writes what is coalesced, and discards what was read ahead. */
void amph_client_coalesce_flush(struct coalescer *c);
/* The AMPH_CLIENT_ACTIVE_SLOTS entries where c's file has its active coalescers. */
struct coalescer *_Atomic *amph_client_coalesce_active_set(const struct coalescer *c);

/* others.c: flushes other open files of c's file where the call conflicts with them. */
void amph_client_others_prepare(struct coalescer *c, struct amph_fwd_client *cl,
                                const struct amph_client_data *d, enum mode mode);
/* Completes a short read.  The file may be longer than the server reported, because other open
 * files hold coalesced writes: flushes them and reads the rest. */
void amph_client_others_read_past_end(struct coalescer *c, struct amph_fwd_client *cl,
                                      const struct amph_client_data *d);

/* Chooses where the blocks of a sequence are: free slots of the transfer area if there are enough,
 * or heap memory.  Returns false if the server cannot be reached or there is no memory. */
bool amph_client_blocks_room(struct coalescer *c);
/* Append accepts the bytes of a write; serve copies data that was read ahead.  Both store the
 * number of bytes in d->done_p, and return false if it is 0: the caller then asks the server. */
bool amph_client_blocks_append(struct coalescer *c, const struct amph_client_data *d);
bool amph_client_blocks_serve(struct coalescer *c, const struct amph_client_data *d);
/* Returns whether bytes of [from, to) are coalesced, or were read ahead and not consumed. */
bool amph_client_blocks_touch(struct coalescer *c, off_t from, off_t to);
/* Returns whether the next len bytes have arrived, so that serving them sends no request. */
bool amph_client_blocks_hold(struct coalescer *c, size_t len);
/* Sends coalesced data and waits for all blocks in flight. */
void amph_client_blocks_flush(struct coalescer *c);
/* Keeps the first error of data whose calls have returned, for a later call that may report it. */
void amph_client_blocks_error(struct coalescer *c, int err);
/* Returns zeroed memory for one coalescer, which is never freed; NULL: none.  Called by one thread
 * at a time.  Not by calloc: a signal handler may open a file while its thread allocates memory. */
struct coalescer *amph_client_file_memory(void);
/* Records the flags of the open file. */
void amph_client_file_flags(struct coalescer *c, int flags);
/* Returns whether the file's small calls may be coalesced.  Asks the server once, and again after
 * the file's flags were set. */
bool amph_client_file_allows(struct coalescer *c, enum mode mode);

/* Does a call on an open file leave alone what has been read ahead of it?  The others use or change
 * the file's offset or flags. */
bool amph_client_file_is_beside(const struct amph_fwd_call_desc *desc);

/* Versioned sequences.  ahead_begin is called before the first one of an open file, with the file's
 * line of versions.  serve copies data as amph_client_blocks_serve does, but returns true with 0
 * bytes at the end of the file; false: the caller ends the sequence and asks the server. */
void amph_client_ahead_begin(struct coalescer *c, uint32_t line);
bool amph_client_ahead_serve(struct coalescer *c, const struct amph_client_data *d);
/* May the next sequence be versioned?  To be asked once for each read. */
bool amph_client_ahead_may(struct coalescer *c);
void amph_client_ahead_free(struct coalescer *c);

/* In a forked child, whose client has its own transfer area: no slots are held. */
void amph_client_blocks_forget(void);

#endif

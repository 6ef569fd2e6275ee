/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder (IOFWD_TRACE_DIR): a slot in a mapped ring for each caught call; a full ring goes to
 * the end of its file in few bytes.  Pages of the ring get blocks on disk as slots need them, because
 * most processes are short.  iofwd/trace/format.h has the layout.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers; a buffer belongs to one
 * thread, and the next slot is taken by one instruction, so that a handler may interrupt anything.
 *
 * The files are shared mappings: what has been stored survives SIGKILL, abort and exec.  A child of
 * fork finds its thread's state wiped (MADV_WIPEONFORK), whichever way it was made, and begins a file
 * of its own.
 */
#ifndef AMPH_IOFWD_RECORD_H
#define AMPH_IOFWD_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "iofwd/interpose/entry/record_clock.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/trace/format.h"
#include "iofwd/trace/stream.h"
#include "iofwd/wire/show.h"

/* One thread's file. */
struct amph_ip_recording {
    char *base;                  /* of header and ring; NULL: no file yet, or wiped by a fork */
    union amph_trace_slot *ring; /* in it */
    uint64_t next;               /* number of the next slot */
    uint64_t flushed;            /* slots that are in the stream */
    uint64_t limit;              /* the first slot without a place in the ring */
    uint32_t places;             /* slots of the ring that have blocks on disk */
    uint32_t lap;                /* bit of the words of this lap */
    bool is_full;                /* the stream has no room left */
    uint64_t stream_end;         /* in the file */
    struct amph_ip_clock clock;
    uint32_t serial;
    union amph_trace_slot *tail;
    uint64_t shortest_kept_ns;       /* lower bound of the slow calls in the tail */
    uint32_t tail_state;             /* 0: not begun, 1: ready, 2: no room */
    uint32_t errors, nslow, busy;    /* slots used in the tail */
    struct amph_ip_recording *spare; /* the next one that no thread uses */
    uint8_t named[320];              /* a bit for each call whose name is in the file */
    uint64_t seen[512];              /* texts that are in the file: the last of each bucket */
    char path[512];
    uint8_t block[sizeof(struct amph_trace_block) + AMPH_TRACE_RING * AMPH_TRACE_SLOT_MAX];
};

/* Is an argument of this kind recorded as the call's flags? */
static inline bool amph_ip_record_is_flags(unsigned word)
{
    switch (word) {
    case FWD_IN_OFLAGS:
    case FWD_IN_ATFLAGS:
    case FWD_IN_WHENCE:
    case FWD_IN_AMODE:
    case FWD_IN_RFLAGS:
    case FWD_IN_LOCKOP:
    case FWD_IN_FALLOC:
    case AMPH_FWD_SHOW_HEX:
        return true;
    default:
        return false;
    }
}

/* Begins to record below the folder dir; constructor. */
void amph_ip_record_start(const char *dir, int64_t rank, uint64_t budget);

/* The thread's time. */
uint64_t amph_ip_record_now(void);
/* Gives the time at which the call begins. */
uint64_t amph_ip_record_begin(struct amph_ip_trace_frame *frame);
void amph_ip_record_end(struct amph_ip_trace_frame *frame, int64_t result, int err,
                        uint64_t end_ns);

/* record_file.c: this thread's file, made at its first call.  NULL: there can be none. */
struct amph_ip_recording *amph_ip_record_begin_file(void);
/* A thread has ended, whose recording this is. */
void amph_ip_record_give_back(void *recording);
/* Gives the ring more blocks on disk, or empties it, until slot `number` has a place in it.  false: the
 * file may not grow. */
bool amph_ip_record_make_room(struct amph_ip_recording *t, uint64_t number);

/* This thread's recording, for a call that is no function of the C library.  NULL: there can be
 * none. */
struct amph_ip_recording *amph_ip_record_this(void);
/* Writes the name of calls of a number, if the file does not have it yet. */
void amph_ip_record_name(struct amph_ip_recording *t, unsigned number, const char *name);
/* The number of a path of the program's. */
uint64_t amph_ip_record_path(struct amph_ip_recording *t, const char *path);
/* The number of the path behind a descriptor; 0: not known. */
uint64_t amph_ip_record_file(struct amph_ip_recording *t, int fd);

/* The number of a path that starts at a folder's descriptor. */
uint64_t amph_ip_record_path_at(struct amph_ip_recording *t, int dirfd, const char *path);
/* The descriptor is this file from here on; 0: not known. */
void amph_ip_record_set_file(int fd, uint64_t file);

/* record_async.c: writes records of the requests that a call has started, behind the call's own. */
void amph_ip_record_requests(const struct amph_ip_trace_frame *frame, int64_t result);

/* record_plain.c: where the arguments of a plain call belong in its record, by the number of its name. */
struct amph_ip_plan {
    uint8_t has; /* which members it sets; 0: not a plain call */
    uint8_t length_at, offset_at, flags_at;
};

extern struct amph_ip_plan amph_ip_plans[] AMPH_HIDDEN;

/* Finds out whether calls of the name are plain; none of them may have an effect on descriptors. */
void amph_ip_record_plan(int name);
/* Completes the record of a plain call.  false: it has none in the ring, and record.c writes another. */
bool amph_ip_record_end_plain(struct amph_ip_recording *t, struct amph_ip_trace_frame *frame,
                              int64_t result, int err, uint64_t end_ns);

/* The next slot, empty, and its number.  NULL: there are no more. */
static inline union amph_trace_slot *amph_ip_record_take(struct amph_ip_recording *t,
                                                         uint64_t *number_p)
{
    uint64_t number = amph_cpu_fetch_add_local(&t->next, 1);

    if (AMPH_UNLIKELY(number >= t->limit) && !amph_ip_record_make_room(t, number))
        return NULL;

    union amph_trace_slot *slot = &t->ring[number % AMPH_TRACE_RING];

    memset(slot, 0, sizeof *slot);
    *number_p = number;
    return slot;
}

static inline void amph_ip_record_commit(const struct amph_ip_recording *t, uint32_t *word,
                                         uint32_t kind, uint32_t state, uint32_t value)
{
    __atomic_store_n(word, AMPH_TRACE_COMMIT(kind, state, value) | t->lap, __ATOMIC_RELEASE);
}

/* record_tail.c: a call for which there is no slot left. */
void amph_ip_record_beyond(struct amph_ip_recording *t, const struct amph_trace_call *call);
/* The bytes from..to of the file, mapped; from is a multiple of a page.  NULL: there is no room. */
void *amph_ip_record_map(struct amph_ip_recording *t, uint64_t from, uint64_t to);

#endif

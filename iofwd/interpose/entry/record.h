/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder (IOFWD_TRACE_DIR): a slot in a mapped file for each caught call; iofwd/trace/format.h
 * has the layout.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers; a buffer belongs to one
 * thread, and the next slot is taken by one atomic addition, so that a handler may interrupt anything.
 *
 * The files are shared mappings: what has been stored survives SIGKILL, abort and exec.  A child of
 * fork finds its thread's state wiped (MADV_WIPEONFORK), whichever way it was made, and begins a file
 * of its own.
 */
#ifndef AMPH_IOFWD_RECORD_H
#define AMPH_IOFWD_RECORD_H

#include <stdint.h>

#include "iofwd/interpose/entry/trace.h"
#include "iofwd/trace/format.h"

/* One thread's file. */
struct amph_ip_recording {
    char *base;             /* of the mapping; NULL: no file yet, or wiped by a fork */
    uint64_t next;          /* of the next slot, in bytes */
    uint64_t ready;         /* bytes that the file has */
    uint64_t limit;         /* bytes that it may have, but for the tail */
    uint64_t budget_end;    /* with the tail */
    uint64_t least_slow_ns; /* of the slowest calls in the tail */
    uint32_t serial;
    uint32_t tail_state;             /* 0: not begun, 1: ready, 2: no room */
    uint32_t errors, slowest, busy;  /* slots used in the tail */
    struct amph_ip_recording *spare; /* the next one that no thread uses */
    uint8_t named[256];              /* a bit for each call whose name is in the file */
    uint64_t seen[512];              /* texts that are in the file: the last of each bucket */
    char path[512];
};

/* Begins to record below the folder dir; constructor. */
void amph_ip_record_start(const char *dir, int64_t rank, uint64_t budget);

void amph_ip_record_begin(struct amph_ip_trace_frame *frame);
void amph_ip_record_end(struct amph_ip_trace_frame *frame, int64_t result, int err,
                        uint64_t end_ns);

/* record_tail.c: a call for which there is no slot left. */
void amph_ip_record_beyond(struct amph_ip_recording *t, const struct amph_trace_call *call);
/* Makes the bytes up to end part of the file.  false: there is no room. */
bool amph_ip_record_grow(struct amph_ip_recording *t, uint64_t end);

#endif

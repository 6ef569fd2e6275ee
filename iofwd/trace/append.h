/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a file of recorded calls without ring and stream: slots follow on the header, in a mapping
 * that grows with the file.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: one thread at a time for each struct
 * amph_trace_append.
 *
 * For a process that records the calls of others, each at the cost of a request: a slot of 64 bytes
 * a call needs no packing on the way.  The mapping is shared and a slot's word is stored last, so
 * what has been recorded survives SIGKILL of the writer.
 */
#ifndef AMPH_IOFWD_TRACE_APPEND_H
#define AMPH_IOFWD_TRACE_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/trace/format.h"

enum {
    AMPH_TRACE_APPEND_CALLS = 768,  /* numbers of calls are below */
    AMPH_TRACE_APPEND_ERRORS = 1024 /* last slots of the budget, for calls that have failed */
};

/* In place of a slot's number: the call has none. */
#define AMPH_TRACE_APPEND_NONE UINT64_MAX

struct amph_trace_append {
    int fd;         /* valid while base is */
    char *base;     /* of the whole file; NULL: it is not open */
    uint64_t bytes; /* of file and mapping */
    uint64_t next;  /* number of the next slot */
    uint64_t max;   /* slots that the budget allows */
    int32_t tid;    /* the thread of the last call */
    int error;      /* an errno value: the file could not grow */
    bool named[AMPH_TRACE_APPEND_CALLS];
    uint64_t seen[512]; /* texts that are in the file: the last of each bucket */
};

/* Makes a file of the process that `who` describes: pid, tid, ppid, rank, recorder, began_ns, exe, cwd
 * and clock, the rest is filled here.  dir: absolute.  0 or an errno value. */
int amph_trace_append_begin(struct amph_trace_append *a, const char *dir,
                            const struct amph_trace_header *who, uint64_t budget);
/* Cuts off what was not used, and closes the file. */
void amph_trace_append_end(struct amph_trace_append *a);

/* The number of a text, which the file has afterwards if there is room. */
uint64_t amph_trace_append_text(struct amph_trace_append *a, const char *text);

/* The call has begun.  name: its name, for calls of this number.  Returns the slot's number, for
 * the next function. */
uint64_t amph_trace_append_start(struct amph_trace_append *a, int32_t tid, unsigned number,
                                 const char *name, const struct amph_trace_call *call);
/* It has returned.  extra: what it cost and its second file, or NULL. */
void amph_trace_append_done(struct amph_trace_append *a, int32_t tid, uint64_t slot,
                            unsigned number, const char *name, const struct amph_trace_call *call,
                            const struct amph_trace_extra *extra);
/* What it has returned is known only now. */
void amph_trace_append_result(struct amph_trace_append *a, uint64_t slot, int64_t result);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of caught calls: one line a call (IOFWD_TRACE), or one record (record.h), for each entry of
 * names.def.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 *
 * An entry that finds amph_ip_state.trace set hands the call to its traced twin, which names.awk
 * makes as well: it begins a frame, calls the entry again, and ends the frame.  Only the outermost
 * call of a thread has a frame: what a function of the interposer's or of the C library calls in turn
 * belongs to it.
 */
#ifndef AMPH_IOFWD_TRACE_H
#define AMPH_IOFWD_TRACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "iofwd/interpose/entry/state.h"
#include "iofwd/wire/show.h"

enum {
    AMPH_IP_SHAPE_ARGS = 7,
    AMPH_IP_TRACE_NAME = 512 /* bytes of the name of a descriptor */
};

/* How a call returns, if not once. */
enum amph_ip_shape_kind {
    AMPH_IP_SHAPE_RETURNS,
    AMPH_IP_SHAPE_FORKS, /* returns twice: only the parent's return is shown */
    AMPH_IP_SHAPE_LEAVES /* may not return: shown before it is made */
};

/* Functions of the C library's streams, which are caught for traces alone: what their result says of the
 * bytes that they move; names.def has the words. */
enum amph_ip_stdio {
    AMPH_IP_STDIO_NO, /* no such function */
    AMPH_IP_STDIO_ITEMS,
    AMPH_IP_STDIO_TEXT,
    AMPH_IP_STDIO_LINE,
    AMPH_IP_STDIO_FOUND,
    AMPH_IP_STDIO_COUNT,
    AMPH_IP_STDIO_SEEK,
    AMPH_IP_STDIO_FLUSH,
    AMPH_IP_STDIO_CLOSE
};

enum {
    AMPH_IP_STDIO_SHOWN = 64 /* calls that move fewer bytes and cause no call are left out */
};

/* The arguments and the result of one function of names.def, as names.awk reads them from its row. */
struct amph_ip_shape {
    uint8_t kind;    /* enum amph_ip_shape_kind */
    uint8_t outcome; /* enum amph_fwd_outcome */
    uint8_t stdio;   /* enum amph_ip_stdio */
    uint8_t nargs;
    uint8_t arg[AMPH_IP_SHAPE_ARGS]; /* enum amph_fwd_word, enum amph_fwd_show */
};

extern const struct amph_ip_shape amph_ip_shapes[] AMPH_HIDDEN;

/* Did a call with this result and errno fail? */
static inline bool amph_ip_shape_failed(const struct amph_ip_shape *shape, int64_t result, int err)
{
    switch (shape->outcome) {
    case AMPH_FWD_OUTCOME_NUMBER:
    case AMPH_FWD_OUTCOME_FD:
        return result < 0;
    case AMPH_FWD_OUTCOME_POINTER:
        return (result == 0 && err) || result == -1;
    case AMPH_FWD_OUTCOME_ERRNO:
        return result != 0;
    default:
        return false;
    }
}

/* Bits of amph_ip_state.trace. */
enum {
    AMPH_IP_TRACE_LINES = 1, /* a line for each forwarded call */
    AMPH_IP_TRACE_ALL = 2,   /* also for those that stay local */
    AMPH_IP_TRACE_RECORD = 4 /* a record for each call (record.h) */
};

struct amph_trace_call;
struct amph_ip_plan;

/* One traced call, in the memory of its caller. */
struct amph_ip_trace_frame {
    int name; /* enum amph_fwd_name */
    const uint64_t *arg;
    /* the same function and its arguments, or those that syscall() has been given the number of */
    int function;
    unsigned function_args;
    const uint64_t *function_arg;
    struct amph_ip_trace_frame *outer; /* the call that causes this one; NULL: the program's */
    uint64_t start_ns;
    struct amph_fwd_trace_sum sum;
    struct amph_fwd_trace_sum
        causes;                   /* of the calls that it causes, which have frames of their own */
    struct amph_trace_call *slot; /* of the recorder; NULL: none */
    uint64_t slot_number;         /* in its file */
    uint32_t serial;              /* of that file */
    const struct amph_ip_plan *plan; /* record_plain.c; NULL: not a plain call */
    uint64_t file;                   /* number of the path, as far as it is known before the call */
    uint8_t has;                     /* which members of its record mean something by then */
    int known_fd;                    /* the descriptor, if it is one of them */
    int saved_errno;
    bool recorded;
    bool caused;     /* a stream of the C library makes the call */
    bool has_caused; /* calls with frames of their own */
    bool is_forwarded_fd;
    bool is_on_map; /* it changes a map of a forwarded file */
    bool concerned; /* a descriptor or path among the arguments may be forwarded */
    bool leads_in;  /* a path was found to be forwarded */
    bool leads_out; /* a path was found to be local, although its guard had let it pass */
    int fd[2];      /* the first descriptors among the arguments, and their names before the call */
    char fd_name[2][AMPH_IP_TRACE_NAME];
};

/* Switches tracing on, if the setting says so; constructor. */
void amph_ip_trace_start(const char *setting);
/* The client has been loaded during this thread's traced call. */
void amph_ip_trace_client_loaded(void);

/* Records that a path was resolved, to a forwarded or a local file. */
void amph_ip_trace_resolved(bool forwarded);

/* Returns whether this call gets a frame. */
bool amph_ip_trace_wanted(void);
static inline bool amph_ip_traces(void)
{
    return AMPH_UNLIKELY(amph_ip_state.trace != 0) && amph_ip_trace_wanted();
}

void amph_ip_trace_begin(struct amph_ip_trace_frame *frame, int name, const uint64_t *arg);
void amph_ip_trace_end(struct amph_ip_trace_frame *frame, int64_t result);

/* Begins the frame of a call that a stream of the C library makes, within the frame of the function
 * that uses the stream, if that has one.  false: it gets none. */
bool amph_ip_trace_begin_caused(struct amph_ip_trace_frame *frame, int name, const uint64_t *arg);

/* trace.c: is it a call on memory, and is there a map of a forwarded file?  path: the file's, or "". */
bool amph_ip_trace_on_map(const struct amph_ip_trace_frame *frame, char path[PATH_MAX]);
/* trace.c: begins a frame whose outer and caused are set. */
void amph_ip_trace_begin_frame(struct amph_ip_trace_frame *frame, int name, const uint64_t *arg);

/* trace_stdio.c, of a function of streams: the bytes that it has moved, or its result if it moves none;
 * the bytes that it was asked to move; and whether it failed. */
int64_t amph_ip_stdio_moved(const struct amph_ip_trace_frame *frame, int64_t result);
uint64_t amph_ip_stdio_asked(const struct amph_ip_trace_frame *frame, int64_t moved);
bool amph_ip_stdio_failed(const struct amph_ip_trace_frame *frame, int64_t result, int err);
/* Does it move data?  Is it one of the many calls that move a few bytes, and has only used the buffer? */
bool amph_ip_stdio_moves(const struct amph_ip_trace_frame *frame);
bool amph_ip_stdio_is_small(const struct amph_ip_trace_frame *frame, int64_t result, int err);
/* The stream of such a function; NULL: none, or all. */
FILE *amph_ip_stdio_stream(const struct amph_ip_trace_frame *frame);

/* Prints a decision of the interposer (AMPHORA_LOG=debug). */
void amph_ip_debug_line(const char *format, ...) AMPH_PRINTF(1, 2);
#define amph_ip_debug(...) \
    do { \
        if (AMPH_UNLIKELY(amph_ip_state.debug)) \
            amph_ip_debug_line(__VA_ARGS__); \
    } while (0)

#endif

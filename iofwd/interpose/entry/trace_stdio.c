/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of the C library's streams: what a function of theirs has moved, and the calls that it causes;
 * see trace.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see trace.h.
 */
#include <string.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/trace.h"

/* ---- calls that streams make ---- */

bool amph_ip_trace_begin_caused(struct amph_ip_trace_frame *frame, int name, const uint64_t *arg)
{
    struct amph_ip_trace_frame *outer = amph_ip_thread.trace;

    if (AMPH_LIKELY(!amph_ip_state.trace) || amph_ip_inside)
        return false;

    /* a frame below the stack of the caller was left behind by longjmp */
    if ((uintptr_t)outer < (uintptr_t)__builtin_frame_address(0))
        outer = NULL;

    frame->caused = true;
    frame->outer = outer;
    amph_ip_trace_begin_frame(frame, name, arg);
    return true;
}

/* ---- what a function of streams has done ---- */

static const struct amph_ip_shape *shape_of(const struct amph_ip_trace_frame *frame)
{
    return &amph_ip_shapes[frame->name];
}

/* The index of the argument that is the stream; that of none: the number of arguments. */
static unsigned stream_at(const struct amph_ip_trace_frame *frame)
{
    const struct amph_ip_shape *shape = shape_of(frame);
    unsigned i = 0;

    while (i < shape->nargs && shape->arg[i] != AMPH_FWD_SHOW_STREAM)
        i++;

    return i;
}

FILE *amph_ip_stdio_stream(const struct amph_ip_trace_frame *frame)
{
    unsigned i = stream_at(frame);

    return i < shape_of(frame)->nargs ? (FILE *)(uintptr_t)frame->arg[i] : stdout;
}

/* May the end of the file be the reason for the result? */
static bool may_find_end(unsigned stdio)
{
    return stdio == AMPH_IP_STDIO_ITEMS || stdio == AMPH_IP_STDIO_FOUND ||
           stdio == AMPH_IP_STDIO_COUNT;
}

static bool is_done(const struct amph_ip_trace_frame *frame, int64_t result)
{
    switch (shape_of(frame)->stdio) {
    case AMPH_IP_STDIO_ITEMS:
        return (uint64_t)result == frame->arg[stream_at(frame) - 1];
    case AMPH_IP_STDIO_FOUND:
        return result != 0;
    default:
        return result >= 0;
    }
}

bool amph_ip_stdio_failed(const struct amph_ip_trace_frame *frame, int64_t result, int err)
{
    if (is_done(frame, result) || !err)
        return false;
    if (!may_find_end(shape_of(frame)->stdio))
        return true;

    FILE *f = amph_ip_stdio_stream(frame);

    return !f || ferror_unlocked(f) || !feof_unlocked(f);
}

uint64_t amph_ip_stdio_asked(const struct amph_ip_trace_frame *frame, int64_t moved)
{
    unsigned i = stream_at(frame);

    if (shape_of(frame)->stdio == AMPH_IP_STDIO_ITEMS)
        return frame->arg[i - 2] * frame->arg[i - 1];

    return moved > 0 ? (uint64_t)moved : 0;
}

int64_t amph_ip_stdio_moved(const struct amph_ip_trace_frame *frame, int64_t result)
{
    const char *text = (const char *)(uintptr_t)frame->arg[0];

    switch (shape_of(frame)->stdio) {
    case AMPH_IP_STDIO_ITEMS:
        return result * (int64_t)frame->arg[stream_at(frame) - 2];
    case AMPH_IP_STDIO_TEXT:
        return result < 0 ? -1 : (int64_t)strlen(text);
    case AMPH_IP_STDIO_LINE:
        return result < 0 ? -1 : (int64_t)strlen(text) + 1;
    case AMPH_IP_STDIO_FOUND:
        return result ? (int64_t)strlen((const char *)(intptr_t)result) : 0;
    default:
        return result;
    }
}

bool amph_ip_stdio_moves(const struct amph_ip_trace_frame *frame)
{
    unsigned stdio = shape_of(frame)->stdio;

    return stdio > AMPH_IP_STDIO_NO && stdio < AMPH_IP_STDIO_SEEK;
}

bool amph_ip_stdio_is_small(const struct amph_ip_trace_frame *frame, int64_t result, int err)
{
    return amph_ip_stdio_moves(frame) && !frame->has_caused &&
           amph_ip_stdio_moved(frame, result) < AMPH_IP_STDIO_SHOWN &&
           !amph_ip_stdio_failed(frame, result, err);
}

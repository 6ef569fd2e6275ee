/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of calls that are not the C library's; see record_event.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h.
 */
#include "iofwd/interpose/entry/record_event.h"

#include <string.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/trace.h"

bool amph_ip_event_wanted(void)
{
    return amph_ip_state.trace & AMPH_IP_TRACE_RECORD && !amph_ip_inside;
}

uint64_t amph_ip_event_path(const char *path)
{
    struct amph_ip_recording *t = amph_ip_record_this();

    return t ? amph_ip_record_path(t, path) : 0;
}

uint64_t amph_ip_event_now(void)
{
    return amph_ip_record_now();
}

void amph_ip_event_begin(struct amph_ip_event *event)
{
    struct amph_ip_recording *t = amph_ip_record_this();

    event->slot = NULL;
    event->call.start_ns = amph_ip_record_now();
    if (!t)
        return;

    amph_ip_record_name(t, event->number, event->name);

    union amph_trace_slot *slot = amph_ip_record_take(t, &event->slot_number);

    event->call.start_ns = amph_ip_clock_now(&t->clock);
    if (!slot)
        return;

    event->slot = slot;
    event->serial = t->serial;
    slot->call = event->call;
    slot->call.commit = 0;
    amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_CALL, AMPH_TRACE_STARTED, event->number);
}

/* The call's slot, or another one if its lap has ended meanwhile; see record.c. */
static union amph_trace_slot *slot_of(struct amph_ip_recording *t, struct amph_ip_event *event)
{
    if (event->slot && event->slot_number < t->flushed)
        return amph_ip_record_take(t, &event->slot_number);

    return event->slot;
}

void amph_ip_event_end(struct amph_ip_event *event)
{
    struct amph_ip_recording *t = amph_ip_thread.recording;

    if (!t || !t->base || (event->slot && event->serial != t->serial))
        return; /* in the child of a fork: the call is the parent's */

    union amph_trace_slot *slot = slot_of(t, event);

    if (!slot) {
        event->call.commit = event->number;
        amph_ip_record_beyond(t, &event->call);
        return;
    }

    event->call.commit = slot->commit; /* until all is there */
    slot->call = event->call;
    amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_CALL, AMPH_TRACE_DONE, event->number);
}

static unsigned kinds(void)
{
    return amph_ip_state.trace & AMPH_IP_TRACE_RECORD ? amph_ip_state.recorder.kinds : 0;
}

const struct amph_ip_event_calls amph_ip_event_calls = {
    .kinds = kinds,
    .wanted = amph_ip_event_wanted,
    .begin = amph_ip_event_begin,
    .now = amph_ip_event_now,
    .end = amph_ip_event_end,
};

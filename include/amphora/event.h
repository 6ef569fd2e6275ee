/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion of non-blocking operations.  GASNet-EX spec, "Event test/wait operations" and "NBI
 * access regions".
 *
 * Events and implicit operations belong to the thread that started them.  Test calls return 0 when
 * complete and never poll; wait calls run handlers until complete.  A successful call consumes a
 * root event and its leaves.  Not from handlers.
 */
#ifndef AMPHORA_EVENT_H
#define AMPHORA_EVENT_H

#include "amphora/types.h"

AMPHORA_BEGIN_C

int amphora_event_test(gex_Event_t event);
void amphora_event_wait(gex_Event_t event);

/* Is event nothing to look at?  Checked clients (GASNET_DEBUG) ask the library, which also looks
 * where the call comes from. */
AMPHORA_INLINE int amphora_event_none(gex_Event_t event)
{
#ifdef GASNET_DEBUG
    (void)event;
    return 0;
#else
    return event == GEX_EVENT_INVALID;
#endif
}

AMPHORA_INLINE int gex_Event_Test(gex_Event_t event)
{
    return amphora_event_none(event) ? GASNET_OK : amphora_event_test(event);
}

AMPHORA_INLINE void gex_Event_Wait(gex_Event_t event)
{
    if (!amphora_event_none(event))
        amphora_event_wait(event);
}

/* Arrays: completed events are overwritten with GEX_EVENT_INVALID.  Some: at least one, or none
 * there; All: every one. */
int gex_Event_TestSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
void gex_Event_WaitSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
int gex_Event_TestAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
void gex_Event_WaitAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);

/* The leaf of root for one category (GEX_EC_LC of a put; any of an access region);
 * GEX_EVENT_INVALID: it has happened. */
gex_Event_t gex_Event_QueryLeaf(gex_Event_t root, gex_EC_t event_category);

/* Implicit operations of the calling thread, those of the categories in event_mask. */
int gex_NBI_Test(gex_EC_t event_mask, gex_Flags_t flags);
void gex_NBI_Wait(gex_EC_t event_mask, gex_Flags_t flags);

/* Implicit operations started between these two are completed by the event that the second returns.
 * No nesting. */
void gex_NBI_BeginAccessRegion(gex_Flags_t flags);
gex_Event_t gex_NBI_EndAccessRegion(gex_Flags_t flags);

AMPHORA_END_C

#endif

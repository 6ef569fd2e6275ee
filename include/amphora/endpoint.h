/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints and segments as objects, and progress threads.  GASNet-EX spec, "Operations on
 * gex_EP_t", "Memory kinds"; what the text calls proposed is here as it is known.
 *
 * A process has up to GASNET_MAXEPS endpoints: that of gex_Client_Init (index 0), and others that
 * gex_EP_Create makes, each with the lowest free index.  Peers name them by gex_TM_Pair, or in a
 * team of gex_TM_Create.  All communication that the capabilities allow works over each; active
 * messages over those with an index below 16.
 */
#ifndef AMPHORA_ENDPOINT_H
#define AMPHORA_ENDPOINT_H

#include <stdint.h>

#include "amphora/team.h"

AMPHORA_BEGIN_C

/* ---- memory kinds (gasnet_mk.h makes others) ---- */

typedef struct amphora_mk *gex_MK_t;
#define GEX_MK_INVALID ((gex_MK_t)0)
#define GEX_MK_HOST ((gex_MK_t)(uintptr_t)1) /* this process's ordinary memory */

/* ---- segments ---- */

/* Makes a segment of length bytes (not 0) that is not bound yet.  address NULL: the library
 * allocates the memory, which neighbours then map; else it is the client's, stays the client's, and
 * must live as long as the segment; neighbours reach it by messages. kind: GEX_MK_HOST or one of
 * that class.  flags: 0.  Not collective. Returns GASNET_OK, GASNET_ERR_NOT_INIT,
 * GASNET_ERR_BAD_ARG, or GASNET_ERR_RESOURCE (no memory; the network cannot register it). */
int gex_Segment_Create(gex_Segment_t *segment_p, gex_Client_t client, gex_Addr_t address,
                       uintptr_t length, gex_MK_t kind, gex_Flags_t flags);

/* Ends a segment of gex_Segment_Create; no communication with it may be under way or follow, no
 * team may have scratch space in it. Endpoints that it was bound to have none then.  flags: 0.
 * GASNET_OK or GASNET_ERR_BAD_ARG (also for an attached segment). */
int gex_Segment_Destroy(gex_Segment_t segment, gex_Flags_t flags);

/* ---- endpoints ---- */

typedef uint32_t gex_EP_Capabilities_t;
#define GEX_EP_CAPABILITY_RMA 1u
#define GEX_EP_CAPABILITY_AM 2u
#define GEX_EP_CAPABILITY_VIS 4u
#define GEX_EP_CAPABILITY_COLL 8u
#define GEX_EP_CAPABILITY_AD 16u
#define GEX_EP_CAPABILITY_ALL 31u
/* Hints to gex_EP_Create that are accepted and have no effect. */
#define GEX_FLAG_HINT_ACCEL_AD 1u
#define GEX_FLAG_HINT_ACCEL_COLL 2u
#define GEX_FLAG_HINT_ACCEL_ALL 3u

/* Makes an endpoint with the lowest free index.  capabilities: at least one.  flags: 0 or hints.
 * Not collective; it lives to the end of the job.  GASNET_OK, GASNET_ERR_NOT_INIT,
 * GASNET_ERR_BAD_ARG, or GASNET_ERR_RESOURCE (no index is left, or none below 16 although
 * GEX_EP_CAPABILITY_AM is wanted; no memory). */
int gex_EP_Create(gex_EP_t *ep_p, gex_Client_t client, gex_EP_Capabilities_t capabilities,
                  gex_Flags_t flags);

/* Binds a segment to an endpoint that has none (also to endpoint 0 where nothing was attached).
 * flags: 0.  Local: others know of it after gex_EP_PublishBoundSegment.  GASNET_OK; misuse ends the
 * job with a sentence. */
int gex_EP_BindSegment(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags);

/* Tells the members of tm of the segments bound to this process's endpoints eps[0..num_eps-1]
 * (num_eps may differ, also 0); they can be used with any team or pair afterwards.  Collective over
 * tm; the endpoints must be idle.  flags: 0. GASNET_OK, GASNET_ERR_BAD_ARG, or GASNET_ERR_RESOURCE
 * (also where another member failed). */
int gex_EP_PublishBoundSegment(gex_TM_t tm, gex_EP_t *eps, size_t num_eps, gex_Flags_t flags);

/* ---- progress threads ---- */

/* A thread that the client starts (gex_Client_Init with GEX_FLAG_DEFER_THREADS):
 * gex_progress_fn(gex_progress_arg), which does not return, in a joinable pthread.
 * gex_device_list: what it serves, in words; gex_thread_roles: a mask of GEX_THREAD_ROLE_. */
typedef struct {
    const char *gex_device_list;
    unsigned int gex_thread_roles;
    void *(*gex_progress_fn)(void *);
    void *gex_progress_arg;
} gex_ProgressThreadInfo_t;
#define GEX_THREAD_ROLE_RCV 1u
#define GEX_THREAD_ROLE_SND 2u

/* The progress threads that the client has to start: there is one (receiving) where
 * AMPHORA_PROGRESS_THREAD or GASNET_RCV_THREAD asks for it and the client is PAR, else none.
 * *info_p is the library's.  Once.  flags: 0.  GASNET_OK, GASNET_ERR_BAD_ARG (NULL outputs, flags,
 * client), GASNET_ERR_RESOURCE (GEX_FLAG_DEFER_THREADS was not given; asked before). */
int gex_System_QueryProgressThreads(gex_Client_t client, unsigned int *count_p,
                                    const gex_ProgressThreadInfo_t **info_p, gex_Flags_t flags);

AMPHORA_END_C

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creates segments one by one, and binds them to endpoints.  Layer: extended.  Thread rule: any
 * thread; one segment or endpoint is handled by one thread at a time.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "am/am.h"
#include "base/os/arena.h"
#include "base/log.h"
#include "extended/check.h"
#include "extended/ep/endpoint.h"
#include "extended/team/team.h"

/* ---- creating ---- */

static int check_create(const struct amph_gex *g, gex_Segment_t *segment_p, gex_Client_t client,
                        gex_Addr_t address, uintptr_t length, gex_MK_t kind, gex_Flags_t flags)
{
    if (!segment_p || client != &g->client || flags) {
        amph_gex_complain("gex_Segment_Create: segment_p must not be NULL, client be that of "
                          "gex_Client_Init, and flags (%#x) 0",
                          (unsigned)flags);
        return GASNET_ERR_BAD_ARG;
    }

    if (!length || (uintptr_t)address > UINTPTR_MAX - length) {
        amph_gex_complain("gex_Segment_Create: %zu bytes at %p are no memory", (size_t)length,
                          address);
        return GASNET_ERR_BAD_ARG;
    }

    if (!amph_gex_mk_of(kind)) {
        amph_gex_complain("gex_Segment_Create: the memory kind %p is not valid; pass GEX_MK_HOST "
                          "or one of gex_MK_Create",
                          (void *)kind);
        return GASNET_ERR_BAD_ARG;
    }

    return GASNET_OK;
}

static size_t rounded(uintptr_t length)
{
    size_t page = amph_page_bytes();
    return (length + page - 1) / page * page;
}

/* Shared memory that neighbours can map. */
static enum amph_status allocate(struct amphora_segment *seg, uintptr_t length)
{
    if (length > SIZE_MAX / 2 || length > amph_phys_mem_bytes())
        return AMPH_ERR_NOMEM;

    enum amph_status st = amph_shm_create("amphora-segment", rounded(length), &seg->fd);
    if (st != AMPH_OK)
        return st;

    seg->base = amph_arena_map(rounded(length), seg->fd);
    if (seg->base != MAP_FAILED)
        return AMPH_OK;

    close(seg->fd);
    return AMPH_ERR_NOMEM;
}

static void release(struct amphora_segment *seg)
{
    if (seg->fd >= 0) {
        munmap(seg->base, rounded(seg->len_bytes));
        close(seg->fd);
    }

    free(seg);
}

static enum amph_status make(struct amph_gex *g, struct amphora_segment *seg, gex_Addr_t address,
                             uintptr_t length)
{
    enum amph_status st = AMPH_OK;

    seg->base = address;
    seg->len_bytes = length;
    if (!address)
        st = allocate(seg, length);

    if (st != AMPH_OK) {
        free(seg);
        return st;
    }

    st = amph_am_mem_reg(g->ep.am, seg->base, length, seg->fd, 0, &seg->mem);
    if (st != AMPH_OK)
        release(seg);

    return st;
}

int gex_Segment_Create(gex_Segment_t *segment_p, gex_Client_t client, gex_Addr_t address,
                       uintptr_t length, gex_MK_t kind, gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex();

    if (!g)
        return GASNET_ERR_NOT_INIT;

    amph_check_call("gex_Segment_Create");

    int err = check_create(g, segment_p, client, address, length, kind, flags);
    if (err)
        return err;

    struct amphora_segment *seg = calloc(1, sizeof *seg);
    if (!seg)
        return GASNET_ERR_RESOURCE;

    seg->client = client;
    seg->kind = amph_gex_mk_of(kind);
    seg->fd = -1;

    enum amph_status st = make(g, seg, address, length);

    if (st != AMPH_OK) {
        amph_gex_complain("gex_Segment_Create: a segment of %zu bytes cannot be made: %s",
                          (size_t)length, amph_status_text(st));
        return GASNET_ERR_RESOURCE;
    }

    __atomic_add_fetch(&seg->kind->segments, 1, __ATOMIC_RELAXED);
    *segment_p = seg;
    return GASNET_OK;
}

/* ---- destroying ---- */

/* Refuses to destroy a segment that holds a team's scratch space. */
static void check_scratch(struct amph_gex *g, const struct amphora_segment *seg)
{
    pthread_mutex_lock(&g->teams->lock);
    for (int i = 0; i < AMPH_TEAM_BUCKETS; i++)
        for (const struct amph_team *team = g->teams->bucket[i]; team; team = team->next)
            if (team->scratch.gex_len && team->ep->segment == seg)
                amph_fatal("gex_Segment_Destroy: a team of %u members has its scratch space in "
                           "this segment; destroy the team first",
                           team->pub.size);

    pthread_mutex_unlock(&g->teams->lock);
}

int gex_Segment_Destroy(gex_Segment_t segment, gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex();

    if (!g)
        return GASNET_ERR_NOT_INIT;

    amph_check_call("gex_Segment_Destroy");

    const char *wrong = NULL;

    if (flags)
        wrong = "flags must be 0";
    else if (segment == GEX_SEGMENT_INVALID)
        wrong = "GEX_SEGMENT_INVALID is no segment";
    else if (segment == &g->segment)
        wrong = "an attached segment lives as long as the job";

    if (wrong) {
        amph_gex_complain("gex_Segment_Destroy: %s", wrong);
        return GASNET_ERR_BAD_ARG;
    }

    check_scratch(g, segment);
    for (unsigned i = 0; i < GASNET_MAXEPS; i++)
        if (g->eps[i] && g->eps[i]->segment == segment) {
            g->eps[i]->segment = NULL;
            amph_gex_bound_own(g, g->eps[i], NULL);
        }

    amph_gex_teams_refresh(g);
    amph_am_mem_dereg(g->ep.am, &segment->mem);
    __atomic_sub_fetch(&segment->kind->segments, 1, __ATOMIC_RELAXED);
    release(segment);

    return GASNET_OK;
}

/* ---- binding ---- */

int gex_EP_BindSegment(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex_need("gex_EP_BindSegment");

    amph_check_call("gex_EP_BindSegment");
    if (!ep || !segment || flags)
        amph_fatal(
            "gex_EP_BindSegment: an endpoint and a segment are needed, and flags (%#x) must be 0",
            (unsigned)flags);

    if (ep->segment)
        amph_fatal("gex_EP_BindSegment: endpoint %u has a segment already, %zu bytes at %p; "
                   "destroy that first",
                   ep->index, ep->segment->len_bytes, ep->segment->base);

    ep->segment = segment;

    enum amph_status st = amph_gex_bound_own(g, ep, segment);

    if (st != AMPH_OK)
        amph_fatal("gex_EP_BindSegment: the segment cannot be bound: %s", amph_status_text(st));

    amph_gex_teams_refresh(g);
    return GASNET_OK;
}

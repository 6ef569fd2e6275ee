/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments: size limits, attaching, and the addresses of the members' segments.  Layer: extended.
 * Thread rule: attaching by one thread, with no transfer in flight.
 */
#include <stdlib.h>
#include <string.h>

#include "amphora/gasnet1.h"
#include "base/os/arena.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "conduits/conduit.h"
#include "extended/gex.h"

/* ---- limits ---- */

uintptr_t amphora_page_bytes(void)
{
    return amph_job.page_bytes ? amph_job.page_bytes : amph_page_bytes();
}

/* The alignment of segments: the page size, and if possible also the constant GASNET_PAGESIZE of
 * clients that need one (dropin/). */
static uintptr_t granule(void)
{
    const uintptr_t page = amphora_page_bytes();
    const uintptr_t constant = 65536;

    return page < constant && constant % page == 0 ? constant : page;
}

/* may be defined by a client: the limit of a process without a setting */
extern uint64_t gasnet_max_segsize __attribute__((weak));

static uint64_t wanted_limit(uint32_t procs_on_host)
{
    if (&gasnet_max_segsize && gasnet_max_segsize && !amph_env_is_set(AMPH_ENV_MAX_SEGSIZE))
        return gasnet_max_segsize;

    return amph_segsize_setting(procs_on_host);
}

uintptr_t amph_gex_segment_limit(uint32_t procs_on_host)
{
    if (amph_job.built_anywhere)
        return UINTPTR_MAX;

    uint64_t bytes = wanted_limit(procs_on_host);
    uint64_t page = amphora_page_bytes();

    if (bytes > amph_arena_segment_max())
        bytes = amph_arena_segment_max();

    bytes -= bytes % (bytes >= granule() ? granule() : page);
    return (uintptr_t)(bytes ? bytes : page);
}

uintptr_t gasnet_getMaxLocalSegmentSize(void)
{
    return amph_gex_need("gasnet_getMaxLocalSegmentSize")->max_local;
}

uintptr_t gasnet_getMaxGlobalSegmentSize(void)
{
    return amph_gex_need("gasnet_getMaxGlobalSegmentSize")->max_global;
}

/* ---- attaching ---- */

int (*gasnet_client_attach_hook)(void *segbase, uintptr_t segsize); /* the client's */

/* What a member publishes about its segment. */
struct record {
    uint32_t status; /* GASNET_OK or the reason why it has none */
    uint64_t base, len_bytes;
    uint32_t key_len;
};

enum {
    KEY_MAX = sizeof((struct amph_am_mem *)0)->key,
    RECORD_BYTES = 4 + 8 + 8 + 4 + KEY_MAX
};

static int check_size(struct amph_gex *g, uintptr_t size)
{
    if (size % amphora_page_bytes()) {
        amph_gex_complain("a segment of %zu bytes was asked for; the size must be a multiple of "
                          "the job's page size, %zu",
                          (size_t)size, (size_t)amphora_page_bytes());
        return GASNET_ERR_BAD_ARG;
    }

    if (size > g->max_local) {
        amph_gex_complain("a segment of %zu bytes was asked for; this process can have at most %zu "
                          "(its host has %llu bytes of memory; "
                          "see GASNET_MAX_SEGSIZE)",
                          (size_t)size, (size_t)g->max_local,
                          (unsigned long long)amph_phys_mem_bytes());
        return GASNET_ERR_RESOURCE;
    }

    return GASNET_OK;
}

/* GASNET_SEGMENT_EVERYTHING: all memory is the segment; size is ignored. */
static enum amph_status take_everything(struct amph_arena_part *part)
{
    *part = (struct amph_arena_part){ .base = NULL, .len_bytes = UINTPTR_MAX, .fd = -1 };
    return AMPH_OK;
}

static int make_segment(struct amph_gex *g, uintptr_t size)
{
    struct amph_arena_part part;
    struct amphora_segment *seg = &g->segment;
    enum amph_status st = amph_job.built_anywhere ? take_everything(&part)
                                                  : amph_arena_segment(size, granule(), &part);

    if (st != AMPH_OK)
        return amph_gex_error(st);

    if (amph_job.built_anywhere)
        size = part.len_bytes;

    st = amph_am_mem_reg(g->ep.am, part.base, size, part.fd, part.offset, &seg->mem);
    if (st != AMPH_OK) {
        amph_gex_complain("a segment of %zu bytes cannot be made known to the network: %s",
                          (size_t)size, amph_status_text(st));
        amph_arena_drop_segment();
        return amph_gex_error(st);
    }

    seg->client = &g->client;
    seg->base = part.base;
    seg->len_bytes = size;

    if (gasnet_client_attach_hook && gasnet_client_attach_hook(seg->base, size)) {
        amph_gex_complain("gasnet_client_attach_hook refused the segment of %zu bytes at %p",
                          (size_t)size, seg->base);
        return GASNET_ERR_RESOURCE; /* the caller releases it */
    }

    /* before any member can learn of it */
    amph_am_set_segment(g->ep.am, seg->base, seg->len_bytes);
    return GASNET_OK;
}

static void drop_segment(struct amph_gex *g)
{
    if (!g->segment.len_bytes)
        return;

    amph_am_set_segment(g->ep.am, NULL, 0);
    amph_am_mem_dereg(g->ep.am, &g->segment.mem);
    amph_arena_drop_segment();
    memset(&g->segment, 0, sizeof g->segment);
}

static void encode(const struct amph_gex *g, int status, uint8_t out[RECORD_BYTES])
{
    struct amph_wr w;

    memset(out, 0, RECORD_BYTES);
    amph_wr_init(&w, out, RECORD_BYTES);
    amph_wr_u32(&w, (uint32_t)status);
    amph_wr_u64(&w, (uintptr_t)g->segment.base);
    amph_wr_u64(&w, g->segment.len_bytes);
    amph_wr_blob(&w, g->segment.mem.key, g->segment.mem.key_len);
}

/* Makes member i's segment reachable. */
static enum amph_status import(struct amph_gex *g, uint32_t i, struct amph_rd *r)
{
    struct amph_rmem *rmem = &g->rmem[i];
    uint64_t base = amph_rd_u64(r);
    uint64_t len = amph_rd_u64(r);
    size_t key_len;
    const void *key = amph_rd_blob(r, &key_len);

    if (amph_job.built_anywhere && base <= UINTPTR_MAX && len > UINTPTR_MAX - base)
        /* a peer with wider pointers: addresses beyond ours cannot be expressed here */
        len = UINTPTR_MAX - base;

    if (r->bad || len > UINTPTR_MAX || base > UINTPTR_MAX - len)
        return AMPH_ERR_PROTO;
    if (!len)
        return AMPH_OK;

    enum amph_status st = amph_am_mem_import(g->ep.am, i, key, key_len, rmem);

    amph_job_await_cause(st);
    if (st != AMPH_OK) {
        amph_error("the segment of process %u cannot be reached: %s", i, amph_status_text(st));
        return st;
    }

    rmem->base = base;
    rmem->len_bytes = len;
    if (i == amph_job.rank)
        rmem->local = g->segment.base;

    amph_am_set_peer_segment(g->ep.am, i, rmem);
    amph_am_set_peer_process(g->ep.am, i,
                             (int32_t)amph_boot_job(amph_job.boot)->proc[amph_job.first + i].pid);
    return AMPH_OK;
}

/* Returns GASNET_OK, or the status of the first member that failed. */
static int take_records(struct amph_gex *g, const uint8_t *all)
{
    struct amph_rd r;
    enum amph_status st = AMPH_OK;

    for (uint32_t i = 0; i < amph_job.size; i++) {
        amph_rd_init(&r, all + (size_t)i * RECORD_BYTES, RECORD_BYTES);
        int status = (int)amph_rd_u32(&r);
        if (status != GASNET_OK)
            return status == GASNET_ERR_BAD_ARG ? GASNET_ERR_BAD_ARG : GASNET_ERR_RESOURCE;
    }

    for (uint32_t i = 0; i < amph_job.size && st == AMPH_OK; i++) {
        amph_rd_init(&r, all + (size_t)i * RECORD_BYTES + 4, RECORD_BYTES - 4);
        st = import(g, i, &r);
    }

    return amph_gex_error(st);
}

/*
 * No member leaves the attach before all have mapped all segments: a process that exits immediately
 * would otherwise take its memory away from members that still map it.  all: one byte for each
 * process.  Returns result, or the failure of another process.
 */
static int end_together(int result, uint8_t *all)
{
    const uint8_t mine = result == GASNET_OK;
    enum amph_status st = amph_job_allgather(&mine, sizeof mine, all);

    for (uint32_t i = 0; i < amph_job.size && st == AMPH_OK && result == GASNET_OK; i++)
        if (!all[i])
            result = GASNET_ERR_RESOURCE;

    return st == AMPH_OK ? result : amph_gex_error(st);
}

int amph_gex_segment_attach(struct amph_gex *g, uintptr_t size, int status)
{
    uint8_t mine[RECORD_BYTES], *all;

    if (g->attached || g->ep.segment) {
        amph_gex_complain("%s; gasnet_attach or gex_Segment_Attach may succeed once, on an "
                          "endpoint without segment",
                          g->attached ? "a segment is attached already"
                                      : "a segment has been bound to the first endpoint");
        return GASNET_ERR_RESOURCE;
    }

    all = malloc((size_t)amph_job.size * RECORD_BYTES);
    if (!all)
        return GASNET_ERR_RESOURCE;

    if (amph_job.built_anywhere)
        size = amphora_page_bytes(); /* the size given is ignored */

    if (status == GASNET_OK)
        status = check_size(g, size);

    if (status == GASNET_OK && size)
        status = make_segment(g, size);

    encode(g, status, mine);

    enum amph_status st = amph_job_allgather(mine, sizeof mine, all);
    int result = st == AMPH_OK ? end_together(take_records(g, all), all) : amph_gex_error(st);

    free(all);
    if (result == GASNET_OK) {
        g->ep.segment = size ? &g->segment : NULL;
        g->attached = true;
        amph_gex_teams_refresh(g);
        return GASNET_OK;
    }

    drop_segment(g);
    return status != GASNET_OK ? status : result;
}

int gex_Segment_Attach(gex_Segment_t *segment_p, gex_TM_t tm, uintptr_t size)
{
    struct amph_gex *g = amph_gex();
    int status = GASNET_OK;

    if (!g)
        return GASNET_ERR_NOT_INIT;

    if (tm != &g->team.pub || !segment_p) {
        amph_gex_complain(
            "gex_Segment_Attach: the team must be that of gex_Client_Init, and segment_p not NULL");
        return GASNET_ERR_BAD_ARG;
    }

    if (!size && !amph_job.built_anywhere) {
        amph_gex_complain("gex_Segment_Attach: the size must not be 0");
        status = GASNET_ERR_BAD_ARG;
    }

    status = amph_gex_segment_attach(g, size, status);
    if (status == GASNET_OK)
        *segment_p = &g->segment;

    return status;
}

/* ---- queries ---- */

gex_Client_t gex_Segment_QueryClient(gex_Segment_t segment)
{
    return segment->client;
}

gex_Flags_t gex_Segment_QueryFlags(gex_Segment_t segment)
{
    return 0;
}

void *gex_Segment_QueryAddr(gex_Segment_t segment)
{
    return segment->base;
}

uintptr_t gex_Segment_QuerySize(gex_Segment_t segment)
{
    return segment->len_bytes;
}

void gex_Segment_SetCData(gex_Segment_t segment, const void *val)
{
    segment->cdata = val;
}

void *gex_Segment_QueryCData(gex_Segment_t segment)
{
    return (void *)segment->cdata;
}

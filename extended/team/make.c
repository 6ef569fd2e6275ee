/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creates and destroys teams: gex_TM_Split, gex_TM_Create, gex_TM_Destroy.  Layer: extended.
 * Thread rule: collective calls; different threads may create different teams at once.
 *
 * Two exchanges over the parent.  In the first each caller states its request and proposes a
 * number; the process of a new team's rank 0 and that process's number identify the team.  After
 * the second all members have the team in their tables, so that any message over it finds it.  A
 * process receives 16 bytes from each member of the parent and sends log2(n) messages.
 */
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wire.h"
#include "extended/check.h"
#include "extended/team/team.h"

/* The scratch size that queries report to clients for collectives.  Collectives keep their
 * buffers elsewhere; any client can provide this size. */
enum {
    SCRATCH_BYTES = 64
};

#define SCRATCH_QUERIES (GEX_FLAG_TM_SCRATCH_SIZE_MIN | GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED)
#define SCRATCH_KINDS \
    (GEX_FLAG_TM_GLOBAL_SCRATCH | GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_TM_SYMMETRIC_SCRATCH | \
     GEX_FLAG_TM_NO_SCRATCH)

/* What a member of the parent states in the first exchange. */
struct ask {
    uint32_t number; /* its proposal; 0: it does not take part */
    uint32_t color;  /* split: the colour; create: a digest of the list of members */
    int32_t key;     /* split: the key; create: the number of members */
    uint32_t same;   /* a digest of the arguments that must be equal at all members */
};

enum {
    ASK_BYTES = 16
};

static void encode(const struct ask *a, uint8_t out[ASK_BYTES])
{
    struct amph_wr w;

    amph_wr_init(&w, out, ASK_BYTES);
    amph_wr_u32(&w, a->number);
    amph_wr_u32(&w, a->color);
    amph_wr_u32(&w, (uint32_t)a->key);
    amph_wr_u32(&w, a->same);
}

static struct ask decode(const uint8_t *table, uint32_t rank)
{
    struct amph_rd r;
    struct ask a;

    amph_rd_init(&r, table + (size_t)rank * ASK_BYTES, ASK_BYTES);
    a.number = amph_rd_u32(&r);
    a.color = amph_rd_u32(&r);
    a.key = (int32_t)amph_rd_u32(&r);
    a.same = amph_rd_u32(&r);

    return a;
}

static uint32_t digest(uint32_t h, const void *bytes, size_t len_bytes)
{
    const uint8_t *p = bytes; /* FNV-1a */

    for (size_t i = 0; i < len_bytes; i++)
        h = (h ^ p[i]) * 16777619u;

    return h;
}

static uint32_t digest_of(uint32_t h, uint64_t value)
{
    uint8_t bytes[8];
    struct amph_wr w;

    amph_wr_init(&w, bytes, sizeof bytes);
    amph_wr_u64(&w, value);
    return digest(h, bytes, sizeof bytes);
}

static uint32_t same_of(size_t scratch_size, gex_Flags_t flags)
{
    if (flags & GEX_FLAG_TM_NO_SCRATCH)
        scratch_size = 0;

    return digest_of(digest_of(2166136261u, flags), scratch_size);
}

static void *need(void *p, size_t members)
{
    if (!p)
        amph_fatal("no memory for a team of %zu members; give the process more memory", members);

    return p;
}

/* All-gather that ends the job on failure. */
static void exchange(struct amph_team *team, const void *mine, size_t len_bytes, void *all,
                     const char *call)
{
    enum amph_status st = amph_gex_team_exchange(team, mine, len_bytes, all);

    if (st == AMPH_ERR_STATE)
        amph_fatal("%s: another thread is in a collective call over the same team; each team takes "
                   "one such call at a time",
                   call);

    if (st != AMPH_OK)
        amph_fatal("%s: the members of the team cannot be reached: %s", call,
                   amph_job_failure_text(st));
}

/* Synchronises all members of the parent. */
static void sync_members(struct amph_team *team, const char *call)
{
    const uint8_t here = 1;
    exchange(team, &here, sizeof here, NULL, call);
}

/* The statements of all members; the caller frees them. */
static uint8_t *ask_all(struct amph_team *parent, const struct ask *mine, const char *call)
{
    uint8_t own[ASK_BYTES];
    uint8_t *table = need(malloc((size_t)parent->pub.size * ASK_BYTES), parent->pub.size);

    encode(mine, own);
    exchange(parent, own, sizeof own, table, call);
    return table;
}

/* ---- scratch space ---- */

/* Answers a query for the scratch size. */
static size_t scratch_size_for(bool member, gex_Flags_t flags, const char *call)
{
    if (flags & GEX_FLAG_TM_SCRATCH_SIZE_MIN)
        amph_warn_shared("%s: GEX_FLAG_TM_SCRATCH_SIZE_MIN is deprecated; ask with "
                         "GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED",
                         call);

    return member ? SCRATCH_BYTES : 0;
}

/* The scratch memory that the caller provided; checks that it lies in the segment of ep. */
static gex_Memvec_t scratch_in(const struct amphora_ep *ep, gex_Addr_t addr, size_t size,
                               gex_Flags_t flags, const char *call)
{
    const struct amphora_segment *seg = ep->segment;
    gex_Memvec_t none = { NULL, 0 };

    if (flags & GEX_FLAG_TM_NO_SCRATCH)
        return none;

    if (!size)
        amph_fatal("%s: the scratch space has no bytes; give %d or more in the bound segment, or "
                   "GEX_FLAG_TM_NO_SCRATCH",
                   call, SCRATCH_BYTES);

    if (!seg)
        amph_fatal("%s: scratch space was given, and the endpoint has no segment; attach one "
                   "first, or pass GEX_FLAG_TM_NO_SCRATCH",
                   call);

    uintptr_t offset = flags & GEX_FLAG_SCRATCH_SEG_OFFSET ? (uintptr_t)addr
                                                           : (uintptr_t)addr - (uintptr_t)seg->base;

    if (offset >= seg->len_bytes || size > seg->len_bytes - offset)
        amph_fatal("%s: scratch space of %zu bytes at %s %p lies outside the bound segment, which "
                   "is %zu bytes at %p",
                   call, size, flags & GEX_FLAG_SCRATCH_SEG_OFFSET ? "offset" : "address", addr,
                   seg->len_bytes, seg->base);

    return (gex_Memvec_t){ (char *)seg->base + offset, size };
}

/* ---- split ---- */

/* A member of the new team, during sorting. */
struct candidate {
    int32_t key;
    uint32_t rank; /* in the parent */
};

static int by_key(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;

    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The members that request the same team as the caller, in the new order.  The caller frees the
 * list. */
static struct candidate *candidates(const struct amph_team *parent, const uint8_t *table,
                                    const struct ask *mine, uint32_t *count_p)
{
    struct candidate *list = need(malloc((size_t)parent->pub.size * sizeof *list),
                                  parent->pub.size);
    uint32_t count = 0;

    for (uint32_t i = 0; i < parent->pub.size; i++) {
        const struct ask a = decode(table, i);

        if (!a.number || a.color != mine->color)
            continue;

        if (a.same != mine->same)
            amph_fatal("gex_TM_Split: ranks %u and %u of the parent ask for the team of colour %u "
                       "with different flags or scratch "
                       "sizes; these must be the same at all its members",
                       parent->pub.rank, i, mine->color);

        list[count++] = (struct candidate){ .key = a.key, .rank = i };
    }

    qsort(list, count, sizeof *list, by_key);
    *count_p = count;
    return list;
}

/* Stores the members by their ranks in the parent.  No table is kept if that is the job's own
 * order. */
static void name_members(const struct amph_gex *g, const struct amph_team *parent,
                         const struct candidate *list, struct amph_team_spec *spec)
{
    const uint32_t n = spec->size;
    bool same_as_job = n == g->team.pub.size && !parent->member_ep;

    for (uint32_t i = 0; i < n; i++) {
        same_as_job &= amph_gex_team_member(parent, list[i].rank) == i;
        if (list[i].rank == parent->pub.rank)
            spec->rank = i;
    }

    if (same_as_job)
        return;

    spec->member = need(malloc(n * sizeof *spec->member), n);
    spec->member_ep = parent->member_ep ? need(malloc(n), n) : NULL;
    spec->slot = parent->slot ? need(malloc(n), n) : NULL;

    for (uint32_t i = 0; i < n; i++) {
        spec->member[i] = amph_gex_team_member(parent, list[i].rank);
        if (spec->member_ep)
            spec->member_ep[i] = parent->member_ep[list[i].rank];

        if (spec->slot)
            spec->slot[i] = parent->slot[list[i].rank];
    }
}

static struct amph_team *make_split(struct amph_gex *g, struct amph_team *parent,
                                    const uint8_t *table, const struct ask *mine,
                                    struct amph_team_spec *spec)
{
    struct candidate *list = candidates(parent, table, mine, &spec->size);

    name_members(g, parent, list, spec);
    spec->id = amph_gex_team_id(amph_gex_team_member(parent, list[0].rank),
                                decode(table, list[0].rank).number,
                                spec->slot ? spec->slot[spec->rank] : 0);
    free(list);

    return amph_gex_team_make(g, spec);
}

size_t gex_TM_Split(gex_TM_t *new_tm_p, gex_TM_t parent_tm, int color, int key, void *scratch_addr,
                    size_t scratch_size, gex_Flags_t flags)
{
    struct amph_team *parent = amph_gex_team_of(parent_tm, "gex_TM_Split");

    amph_check_call("gex_TM_Split");

    struct amph_gex *g = amph_gex();
    struct ask mine = { 0 };

    if (flags & ~(SCRATCH_QUERIES | GEX_FLAG_TM_NO_SCRATCH))
        amph_fatal("gex_TM_Split: flags are %#x; GEX_FLAG_TM_NO_SCRATCH or one of "
                   "GEX_FLAG_TM_SCRATCH_SIZE_* is allowed",
                   (unsigned)flags);

    if (flags & SCRATCH_QUERIES)
        return scratch_size_for(new_tm_p != NULL, flags, "gex_TM_Split");

    if (new_tm_p && color < 0)
        amph_fatal("gex_TM_Split: the colour is %d and must not be negative", color);

    struct amph_team_spec spec = { .ep = parent->ep, .flags = flags };

    if (new_tm_p) {
        spec.scratch = scratch_in(parent->ep, scratch_addr, scratch_size, flags, "gex_TM_Split");
        mine = (struct ask){ amph_gex_team_number(g), (uint32_t)color, key,
                             same_of(scratch_size, flags) };
    }

    uint8_t *table = ask_all(parent, &mine, "gex_TM_Split");

    if (new_tm_p)
        *new_tm_p = &make_split(g, parent, table, &mine, &spec)->pub;

    free(table);
    sync_members(parent, "gex_TM_Split");
    return 0;
}

/* ---- create ---- */

/* The job rank of entry i of the list. */
static uint32_t process_of(const struct amph_team *parent, const gex_EP_Location_t *args, size_t i,
                           gex_Flags_t flags)
{
    bool direct = flags & GEX_FLAG_RANK_IS_JOBRANK;
    uint32_t max = direct ? amph_gex()->team.pub.size : parent->pub.size;

    if (args[i].gex_rank >= max)
        amph_fatal("gex_TM_Create: entry %zu names rank %u; there are %u", i, args[i].gex_rank,
                   max);

    if (args[i].gex_ep_index >= GASNET_MAXEPS)
        amph_fatal("gex_TM_Create: entry %zu names endpoint %u; a process has at most %d", i,
                   args[i].gex_ep_index, GASNET_MAXEPS);

    return direct ? args[i].gex_rank : amph_gex_team_member(parent, args[i].gex_rank);
}

/* Fills member and member_ep; returns the number of endpoints of this process. */
static size_t read_list(const struct amph_team *parent, const gex_EP_Location_t *args,
                        gex_Flags_t flags, struct amph_team_spec *spec)
{
    const uint32_t n = spec->size;
    size_t mine = 0;
    bool other_ep = false;

    spec->member = need(malloc(n * sizeof *spec->member), n);
    spec->member_ep = need(malloc(n), n);

    for (uint32_t i = 0; i < n; i++) {
        spec->member[i] = process_of(parent, args, i, flags);
        spec->member_ep[i] = (uint8_t)args[i].gex_ep_index;
        other_ep |= args[i].gex_ep_index != 0;
        mine += spec->member[i] == amph_job.rank;
    }

    if (!other_ep) {
        free(spec->member_ep);
        spec->member_ep = NULL;
    }

    return mine;
}

static int by_member(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Refuses an endpoint that is listed twice, and numbers the endpoints of processes that have
 * several, in order of rank. */
static void number_members(struct amph_team_spec *spec)
{
    const uint32_t n = spec->size;

    /* process | rank; all ranks are below 2^32 */
    uint64_t *member_slot = need(malloc((size_t)n * sizeof *member_slot), n);
    bool several = false;

    for (uint32_t i = 0; i < n; i++)
        member_slot[i] = (uint64_t)spec->member[i] << 32 | i;

    qsort(member_slot, n, sizeof *member_slot, by_member);
    for (uint32_t i = 1; i < n; i++)
        several |= member_slot[i] >> 32 == member_slot[i - 1] >> 32;

    if (several)
        spec->slot = need(calloc(n, 1), n);

    for (uint32_t i = 1; several && i < n; i++)
        if (member_slot[i] >> 32 == member_slot[i - 1] >> 32)
            spec->slot[(uint32_t)member_slot[i]] =
                (uint8_t)(spec->slot[(uint32_t)member_slot[i - 1]] + 1);

    for (uint32_t i = 0; several && i < n; i++)
        for (uint32_t j = i + 1; j < n && member_slot[j] >> 32 == member_slot[i] >> 32; j++) {
            uint32_t a = (uint32_t)member_slot[i];
            uint32_t b = (uint32_t)member_slot[j];

            if (j - i >= GASNET_MAXEPS || !spec->member_ep ||
                spec->member_ep[a] == spec->member_ep[b])
                amph_fatal("gex_TM_Create: entries %u and %u name the same endpoint of process %u",
                           a, b, spec->member[a]);
        }

    free(member_slot);
}

/* Checks that all listed processes have given the same list. */
static void check_askers(const struct amph_team *parent, const uint8_t *table,
                         const struct ask *mine, const struct amph_team_spec *spec)
{
    for (uint32_t i = 0; i < spec->size; i++) {
        uint32_t rank = gex_TM_TranslateJobrankToRank((gex_TM_t)&parent->pub, spec->member[i]);
        const struct ask a = rank == GEX_RANK_INVALID ? (struct ask){ 0 } : decode(table, rank);

        if (rank == GEX_RANK_INVALID)
            amph_fatal(
                "gex_TM_Create: entry %u names process %u, which has no member in the parent team",
                i, spec->member[i]);

        if (!a.number || a.color != mine->color || a.key != mine->key || a.same != mine->same)
            amph_fatal("gex_TM_Create: process %u is named as a member and gives another list, "
                       "other flags or another scratch size; "
                       "these must be the same at all members",
                       spec->member[i]);
    }
}

/* The scratch space of member `rank`, the nth of this process. */
static gex_Memvec_t scratch_of(const struct amph_team_spec *spec, uint32_t rank, size_t nth,
                               const gex_Addr_t *addrs, size_t size)
{
    size_t at = 0;
    bool none = spec->flags & GEX_FLAG_TM_NO_SCRATCH;

    if (spec->flags & GEX_FLAG_TM_LOCAL_SCRATCH)
        at = nth;
    else if (spec->flags & GEX_FLAG_TM_GLOBAL_SCRATCH)
        at = rank;

    if (!none && !addrs)
        amph_fatal(
            "gex_TM_Create: scratch_addrs is NULL; give addresses, or GEX_FLAG_TM_NO_SCRATCH");

    return scratch_in(spec->ep, none ? NULL : addrs[at], size, spec->flags, "gex_TM_Create");
}

static void *copy(const void *src, size_t len_bytes, size_t members)
{
    return src ? memcpy(need(malloc(len_bytes), members), src, len_bytes) : NULL;
}

/* Creates the team for each endpoint of this process in the list. */
static void make_listed(struct amph_gex *g, const struct amph_team_spec *listed, uint32_t number,
                        gex_TM_t *new_tms, const gex_Addr_t *addrs, size_t scratch_size)
{
    const uint32_t n = listed->size;
    size_t nth = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (listed->member[i] != amph_job.rank)
            continue;

        struct amph_team_spec spec = *listed;
        uint32_t index = listed->member_ep ? listed->member_ep[i] : 0;

        spec.ep = amph_gex_ep_find(g, index);
        if (!spec.ep)
            amph_fatal(
                "gex_TM_Create: entry %u names endpoint %u of this process, which does not exist",
                i, index);

        spec.rank = i;
        spec.id = amph_gex_team_id(listed->member[0], number, listed->slot ? listed->slot[i] : 0);
        spec.scratch = scratch_of(&spec, i, nth, addrs, scratch_size);
        spec.member = copy(listed->member, n * sizeof *listed->member, n);
        spec.member_ep = copy(listed->member_ep, n, n);
        spec.slot = copy(listed->slot, n, n);
        new_tms[nth++] = &amph_gex_team_make(g, &spec)->pub;
    }
}

static uint32_t list_digest(const struct amph_team_spec *spec)
{
    uint32_t h = 2166136261u;

    for (uint32_t i = 0; i < spec->size; i++)
        h = digest_of(h,
                      (uint64_t)spec->member[i] << 32 | (spec->member_ep ? spec->member_ep[i] : 0));

    return h;
}

static void check_create(const gex_TM_t *new_tms, size_t num_new_tms, const gex_EP_Location_t *args,
                         size_t numargs, gex_Flags_t flags)
{
    gex_Flags_t kind = flags & SCRATCH_KINDS;

    if (flags &
        ~(SCRATCH_QUERIES | SCRATCH_KINDS | GEX_FLAG_RANK_IS_JOBRANK | GEX_FLAG_SCRATCH_SEG_OFFSET))
        amph_fatal("gex_TM_Create: flags are %#x, of which some do not belong to this call",
                   (unsigned)flags);

    if (!(flags & SCRATCH_QUERIES) && numargs && (!kind || (kind & (kind - 1))))
        amph_fatal("gex_TM_Create: flags are %#x; exactly one of GEX_FLAG_TM_SYMMETRIC_SCRATCH, "
                   "_LOCAL_SCRATCH, _GLOBAL_SCRATCH and "
                   "_NO_SCRATCH must be among them",
                   (unsigned)flags);

    /* a query uses only the numbers of entries */
    if (numargs && ((!args && !(flags & SCRATCH_QUERIES)) ||
                    numargs > (size_t)GASNET_MAXNODES * GASNET_MAXEPS))
        amph_fatal("gex_TM_Create: a list of %zu members at %p is none", numargs,
                   (const void *)args);

    if (numargs && num_new_tms && !new_tms && !(flags & SCRATCH_QUERIES))
        amph_fatal("gex_TM_Create: new_tms is NULL");
}

size_t gex_TM_Create(gex_TM_t *new_tms, size_t num_new_tms, gex_TM_t parent_tm,
                     gex_EP_Location_t *args, size_t numargs, gex_Addr_t *scratch_addrs,
                     size_t scratch_size, gex_Flags_t flags)
{
    struct amph_team *parent = amph_gex_team_of(parent_tm, "gex_TM_Create");

    amph_check_call("gex_TM_Create");

    struct amph_gex *g = amph_gex();
    struct amph_team_spec spec = { .size = (uint32_t)numargs, .flags = flags };
    struct ask mine = { 0 };

    check_create(new_tms, num_new_tms, args, numargs, flags);
    if (flags & SCRATCH_QUERIES)
        return scratch_size_for(numargs && num_new_tms, flags, "gex_TM_Create");

    if (numargs) {
        size_t local = read_list(parent, args, flags, &spec);

        if (local != num_new_tms)
            amph_fatal(
                "gex_TM_Create: num_new_tms is %zu; the list names %zu endpoints of this process",
                num_new_tms, local);

        number_members(&spec);
        mine = (struct ask){ amph_gex_team_number(g), list_digest(&spec), (int32_t)numargs,
                             same_of(scratch_size, flags) };
    }

    uint8_t *table = ask_all(parent, &mine, "gex_TM_Create");

    if (numargs) {
        check_askers(parent, table, &mine, &spec);
        uint32_t first = gex_TM_TranslateJobrankToRank(parent_tm, spec.member[0]);

        make_listed(g, &spec, decode(table, first).number, new_tms, scratch_addrs, scratch_size);
    }

    free(spec.member);
    free(spec.member_ep);
    free(spec.slot);
    free(table);
    sync_members(parent, "gex_TM_Create");

    return 0;
}

/* ---- destroy ---- */

int gex_TM_Destroy(gex_TM_t tm, gex_Memvec_t *scratch_p, gex_Flags_t flags)
{
    struct amph_team *team = amph_gex_team_of(tm, "gex_TM_Destroy");

    amph_check_call("gex_TM_Destroy");

    struct amph_gex *g = amph_gex();

    if (flags & ~(GEX_FLAG_GLOBALLY_QUIESCED | GEX_FLAG_SCRATCH_SEG_OFFSET))
        amph_fatal("gex_TM_Destroy: flags are %#x; GEX_FLAG_GLOBALLY_QUIESCED is allowed",
                   (unsigned)flags);

    if (team == &g->team)
        amph_fatal("gex_TM_Destroy: the team of gex_Client_Init lives as long as the job and "
                   "cannot be destroyed");

    uint32_t domains = __atomic_load_n(&team->domains, __ATOMIC_RELAXED);

    if (domains)
        amph_fatal("gex_TM_Destroy: %u atomic domains over the team still exist; destroy them "
                   "first with gex_AD_Destroy",
                   domains);

    if (!(flags & GEX_FLAG_GLOBALLY_QUIESCED))
        sync_members(team, "gex_TM_Destroy");

    gex_Memvec_t scratch = team->scratch;

    if (scratch.gex_len && (flags & GEX_FLAG_SCRATCH_SEG_OFFSET))
        scratch.gex_addr = (void *)((uintptr_t)scratch.gex_addr -
                                    (uintptr_t)team->ep->segment->base);

    amph_gex_team_drop(g, team);
    if (!scratch_p || !scratch.gex_len)
        return 0;

    *scratch_p = scratch;
    return 1;
}

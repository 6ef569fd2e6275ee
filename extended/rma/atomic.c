/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote atomics: domains, and operations on memory that is not mapped here and that the header's
 * inline functions therefore cannot reach; the target's process executes them on request.  Layer:
 * extended.  Thread rule: any thread; creating and destroying as the API requires.
 */
#include "am/am.h"
#include "amphora/ad.h"
#include "base/status.h"
#include "conduits/conduit.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings/counters.h"
#include "base/log.h"
#include "extended/check.h"
#include "extended/event.h"
#include "extended/pending.h"

struct domain {
    struct amphora_ad pub;
    gex_Flags_t flags;
    const void *cdata;
    struct amph_team *team;
};

/* ---- types ---- */

enum {
    TYPES = 6
};
#define PLAIN_ALL \
    (GEX_OP_ADD | GEX_OP_MULT | GEX_OP_MIN | GEX_OP_MAX | GEX_OP_SUB | GEX_OP_INC | GEX_OP_DEC | \
     GEX_OP_SET | GEX_OP_CAS)
#define BITWISE (GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR)
#define OPS_FLOAT (PLAIN_ALL | GEX_OP_TO_FETCHING(PLAIN_ALL) | GEX_OP_GET)
#define OPS_INTEGER (OPS_FLOAT | BITWISE | GEX_OP_TO_FETCHING(BITWISE))

/* Execute an operation on memory of this process; operands and result are bytes. */
#define DEFINE_APPLY(NAME, T) \
    static void apply_##NAME(void *at, gex_OP_t op, const void *operand1, const void *operand2, \
                             void *result) \
    { \
        T a, b; \
        memcpy(&a, operand1, sizeof a); \
        memcpy(&b, operand2, sizeof b); \
        a = amphora_apply_##NAME(at, op, a, b); \
        memcpy(result, &a, sizeof a); \
    }
/* clang-format off */
DEFINE_APPLY(I32, int32_t)
DEFINE_APPLY(U32, uint32_t)
DEFINE_APPLY(I64, int64_t)
DEFINE_APPLY(U64, uint64_t)
DEFINE_APPLY(FLT, float)
DEFINE_APPLY(DBL, double)
/* clang-format on */

/* Indexed by the number of the type's bit. */
static const struct type {
    void (*apply)(void *at, gex_OP_t op, const void *operand1, const void *operand2, void *result);
    uint8_t nbytes;
    gex_OP_t ops;
} types[TYPES] = {
    { apply_I32, 4, OPS_INTEGER }, { apply_U32, 4, OPS_INTEGER }, { apply_I64, 8, OPS_INTEGER },
    { apply_U64, 8, OPS_INTEGER }, { apply_FLT, 4, OPS_FLOAT },   { apply_DBL, 8, OPS_FLOAT },
};

static const struct type *type_of(gex_DT_t dt)
{
    bool one = dt && !(dt & (dt - 1));
    return one && __builtin_ctz(dt) < TYPES ? &types[__builtin_ctz(dt)] : NULL;
}

static bool is_one_op(gex_OP_t op)
{
    return op && !(op & (op - 1));
}

/* ---- domains ---- */

void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops, gex_Flags_t flags)
{
    const struct type *type = type_of(dt);
    const gex_Flags_t favors = GEX_FLAG_AD_FAVOR_MY_RANK | GEX_FLAG_AD_FAVOR_MY_NBRHD |
                               GEX_FLAG_AD_FAVOR_REMOTE;
    const gex_Flags_t hints = GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET;
    const gex_Flags_t favored = flags & favors;

    amph_check_call("gex_AD_Create");

    struct amph_team *team = amph_gex_team_of(tm, "gex_AD_Create");

    if (!type)
        amph_fatal("gex_AD_Create: data type %#x is none that atomics have; give one of "
                   "GEX_DT_I32, U32, I64, U64, FLT, DBL",
                   (unsigned)dt);

    if (!ops || (ops & ~type->ops))
        amph_fatal("gex_AD_Create: operations %#x are none, or not all such that data type %#x has",
                   (unsigned)ops, (unsigned)dt);

    if ((flags & ~(favors | hints)) || (favored & (favored - 1)))
        amph_fatal("gex_AD_Create: flags %#x are not 0 or one GEX_FLAG_AD_FAVOR_*, with or without "
                   "GEX_FLAG_SELF_SEG_OFFSET and GEX_FLAG_PEER_SEG_OFFSET",
                   (unsigned)flags);

    struct domain *d = calloc(1, sizeof *d);

    if (!d)
        amph_fatal("gex_AD_Create: no memory");

    *d = (struct domain){ .pub = { .tm = tm, .ops = ops, .dt = dt }, .flags = flags, .team = team };
    __atomic_add_fetch(&team->domains, 1, __ATOMIC_RELAXED);
    *ad_p = &d->pub;
}

static struct domain *domain_of(gex_AD_t ad, const char *call)
{
    if (ad == GEX_AD_INVALID)
        amph_fatal("%s: the atomic domain is not valid", call);

    return AMPH_CONTAINER_OF(ad, struct domain, pub);
}

void gex_AD_Destroy(gex_AD_t ad)
{
    struct domain *d = domain_of(ad, "gex_AD_Destroy");

    amph_check_call("gex_AD_Destroy");
    __atomic_sub_fetch(&d->team->domains, 1, __ATOMIC_RELAXED);
    free(d);
}

gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad)
{
    return domain_of(ad, "gex_AD_QueryFlags")->flags;
}

gex_TM_t gex_AD_QueryTM(gex_AD_t ad)
{
    return domain_of(ad, "gex_AD_QueryTM")->pub.tm;
}

gex_DT_t gex_AD_QueryDT(gex_AD_t ad)
{
    return domain_of(ad, "gex_AD_QueryDT")->pub.dt;
}

gex_OP_t gex_AD_QueryOps(gex_AD_t ad)
{
    return domain_of(ad, "gex_AD_QueryOps")->pub.ops;
}

void gex_AD_SetCData(gex_AD_t ad, const void *val)
{
    domain_of(ad, "gex_AD_SetCData")->cdata = val;
}

void *gex_AD_QueryCData(gex_AD_t ad)
{
    return (void *)domain_of(ad, "gex_AD_QueryCData")->cdata;
}

/* ---- at the target ---- */

/* Request: slot, type's number, operation, endpoint, address, operands.  Reply: slot, previous
 * value. */
enum {
    ARGS = 10,
    DONE_ARGS = 3
};

static void split(uint64_t value, int32_t *args)
{
    args[0] = (int32_t)(uint32_t)(value >> 32);
    args[1] = (int32_t)(uint32_t)value;
}

static uint64_t join(const int32_t *args)
{
    return (uint64_t)(uint32_t)args[0] << 32 | (uint32_t)args[1];
}

/* Operands and results travel as integers of their size, so that hosts of either byte order
 * agree. */
static uint64_t widen(const void *at, size_t nbytes)
{
    uint64_t v8;
    uint32_t v4;

    memcpy(nbytes == 8 ? (void *)&v8 : (void *)&v4, at, nbytes);
    return nbytes == 8 ? v8 : v4;
}

static void narrow(void *at, uint64_t value, size_t nbytes)
{
    const uint32_t v4 = (uint32_t)value;
    memcpy(at, nbytes == 8 ? (const void *)&value : (const void *)&v4, nbytes);
}

/* Returns the target in this process's memory; NULL: not allowed. */
static void *target(struct amph_gex *g, gex_EP_Index_t index, uint64_t addr, size_t nbytes)
{
    const struct amphora_ep *ep = amph_gex_ep_find(g, index);

    if (addr > UINTPTR_MAX || addr % nbytes)
        return NULL;
    if (amph_job.built_anywhere && index == 0)
        return (void *)(uintptr_t)addr;

    uint64_t off = ep && ep->segment ? addr - (uintptr_t)ep->segment->base : UINT64_MAX;

    return off != UINT64_MAX && off < ep->segment->len_bytes &&
                   nbytes <= ep->segment->len_bytes - off
               ? (void *)(uintptr_t)addr
               : NULL;
}

static void on_ad(struct amph_token *token, const struct amph_am *am)
{
    struct amph_gex *g = amph_gex();
    const int32_t *a = am->args;
    const struct type *type = (uint32_t)a[1] < TYPES ? &types[a[1]] : NULL;
    gex_OP_t op = (gex_OP_t)a[2];
    void *at = g && type ? target(g, (gex_EP_Index_t)a[3], join(a + 4), type->nbytes) : NULL;

    if (!at || !is_one_op(op) || !(op & type->ops)) {
        amph_count(DROP_MALFORMED);
        return;
    }

    uint64_t one, two, old;
    int32_t done[DONE_ARGS] = { a[0] };

    narrow(&one, join(a + 6), type->nbytes);
    narrow(&two, join(a + 8), type->nbytes);
    type->apply(at, op, &one, &two, &old);
    split(widen(&old, type->nbytes), done + 1);

    const struct amph_am reply = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_AD_DONE, .nargs = DONE_ARGS, .args = done
    };

    amph_am_reply(token, &reply, 0, NULL);
}

static void on_ad_done(struct amph_token *token, const struct amph_am *am)
{
    struct amph_op *rc = amph_gex() ? amph_gex_pending_release(amph_gex(), AMPH_PENDING_AD,
                                                               (uint32_t)am->args[0])
                                    : NULL;

    if (!rc) {
        amph_count(DROP_MALFORMED);
        return;
    }

    struct amph_gex_op *op = AMPH_CONTAINER_OF(rc, struct amph_gex_op, rc);

    if (op->result)
        narrow(op->result, join(am->args + 1), op->nbytes);

    rc->done(rc, AMPH_OK);
}

enum amph_status amph_rma_ad_open(struct amph_gex *g)
{
    static const struct amph_am_entry entry[] = {
        { (void *)on_ad, false, 1, 1, ARGS, NULL, "ad" },
        { (void *)on_ad_done, false, 1, 2, DONE_ARGS, NULL, "ad_done" },
    };
    enum amph_status st = amph_am_register(g->ep.am, AMPH_GEX_AD, &entry[0]);

    return st == AMPH_OK ? amph_am_register(g->ep.am, AMPH_GEX_AD_DONE, &entry[1]) : st;
}

/* ---- at the caller ---- */

struct request {
    struct domain *domain;
    const struct type *type;
    struct amph_dest dest;
    void *addr, *result;
    gex_OP_t op;
    const void *operand1, *operand2;
    gex_Flags_t flags;
};

static void check(struct request *r, gex_DT_t dt, gex_Rank_t rank)
{
    const struct domain *d = r->domain;

    if (d->pub.dt != dt)
        amph_fatal("gex_AD_Op: the domain is of data type %#x, the call of %#x",
                   (unsigned)d->pub.dt, (unsigned)dt);

    if (!is_one_op(r->op) || !(r->op & d->pub.ops))
        amph_fatal(
            "gex_AD_Op: operation %#x is not one of those that the domain was created for (%#x)",
            (unsigned)r->op, (unsigned)d->pub.ops);

    gex_TM_t tm = r->flags & GEX_FLAG_RANK_IS_JOBRANK ? amphora_team0 : d->pub.tm;

    r->type = type_of(dt);
    r->dest = amph_gex_team_dest(tm, rank, "gex_AD_Op");
    if (r->flags & GEX_FLAG_PEER_SEG_OFFSET)
        r->addr = (void *)(uintptr_t)(r->dest.rmem->base + (uintptr_t)r->addr);

    uint64_t off = (uintptr_t)r->addr - r->dest.rmem->base;

    if ((uintptr_t)r->addr % r->type->nbytes)
        amph_fatal("gex_AD_Op: %p is not aligned to %u bytes", r->addr, r->type->nbytes);

    if (off >= r->dest.rmem->len_bytes || r->type->nbytes > r->dest.rmem->len_bytes - off)
        amph_fatal(
            "gex_AD_Op: %p lies outside the segment of process %u, which is %llu bytes at %#llx",
            r->addr, r->dest.peer, (unsigned long long)r->dest.rmem->len_bytes,
            (unsigned long long)r->dest.rmem->base);

    if (r->flags & GEX_FLAG_SELF_SEG_OFFSET)
        r->result = (char *)(r->dest.from->segment ? r->dest.from->segment->base : NULL) +
                    (uintptr_t)r->result;
}

/* Executes the operation here if the memory is mapped. false: the target must be asked. */
static bool execute_locally(const struct request *r)
{
    uint64_t old;
    const struct amph_rmem *rmem = r->dest.rmem;
    char *at = rmem->local ? (char *)rmem->local + ((uintptr_t)r->addr - rmem->base) : NULL;

    if (!at && amph_job.built_anywhere && r->dest.peer == amph_job.rank)
        at = r->addr;

    if (!at)
        return false;

    amph_gex_handle_own();
    amphora_ad_fence(r->flags, GEX_FLAG_AD_REL);
    r->type->apply(at, r->op, r->operand1, r->operand2, &old);
    amphora_ad_fence(r->flags, GEX_FLAG_AD_ACQ);
    if (r->op & AMPHORA_OP_GIVES)
        memcpy(r->result, &old, r->type->nbytes);

    return true;
}

/* Sends the request to the target.  false: no room now; op has been released. */
static bool ask(const struct request *r, struct amph_gex_op *op)
{
    struct amph_gex *g = amph_gex();
    int32_t args[ARGS];

    op->root.pending = 1;
    op->nbytes = r->type->nbytes;
    op->result = r->op & AMPHORA_OP_GIVES ? r->result : NULL;
    args[0] = (int32_t)amph_gex_pending_take(g, AMPH_PENDING_AD, &op->rc);
    args[1] = (int32_t)(r->type - types);
    args[2] = (int32_t)r->op;
    args[3] = (int32_t)r->dest.index;
    split((uintptr_t)r->addr, args + 4);
    split(widen(r->operand1, r->type->nbytes), args + 6);
    split(widen(r->operand2, r->type->nbytes), args + 8);

    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_AD, .nargs = ARGS, .args = args
    };
    enum amph_status st = amph_am_request(
        g->ep.am, r->dest.peer, &am, r->flags & GEX_FLAG_IMMEDIATE ? AMPH_AM_IMMEDIATE : 0, NULL);

    if (AMPH_LIKELY(st == AMPH_OK))
        return true;

    if (st != AMPH_AGAIN)
        amph_fatal("gex_AD_Op: process %u cannot be reached: %s", r->dest.peer,
                   amph_job_failure_text(st));

    amph_gex_pending_release(g, AMPH_PENDING_AD, (uint32_t)args[0]);
    amph_gex_op_retract(op);
    return false;
}

static bool prepare(struct request *r, gex_AD_t ad, gex_DT_t dt, gex_Rank_t rank)
{
    amph_check_call("gex_AD_Op");
    r->domain = domain_of(ad, "gex_AD_Op");
    check(r, dt, rank);
    return !execute_locally(r);
}

gex_Event_t amphora_ad_nb(gex_AD_t ad, gex_DT_t dt, void *result, gex_Rank_t rank, void *addr,
                          gex_OP_t op, const void *operand1, const void *operand2,
                          gex_Flags_t flags)
{
    struct request r = { .addr = addr,
                         .result = result,
                         .op = op,
                         .operand1 = operand1,
                         .operand2 = operand2,
                         .flags = flags };

    if (!prepare(&r, ad, dt, rank))
        return GEX_EVENT_INVALID;

    struct amph_gex_op *o = amph_gex_op_get();

    return ask(&r, o) ? amph_gex_op_event(o) : GEX_EVENT_NO_OP;
}

/* Returns the event category of an implicit operation, for gex_NBI_Wait.  An operation that only
 * reads is a get, one that only writes is a put, and one that does both is a read-modify-write. */
static int category_of(gex_OP_t op)
{
    bool reads_only = op == GEX_OP_GET;
    bool writes_only = op == GEX_OP_SET;

    if (writes_only)
        return AMPH_EC_PUT;

    return reads_only ? AMPH_EC_GET : AMPH_EC_RMW;
}

int amphora_ad_nbi(gex_AD_t ad, gex_DT_t dt, void *result, gex_Rank_t rank, void *addr, gex_OP_t op,
                   const void *operand1, const void *operand2, gex_Flags_t flags)
{
    struct request r = { .addr = addr,
                         .result = result,
                         .op = op,
                         .operand1 = operand1,
                         .operand2 = operand2,
                         .flags = flags };

    if (!prepare(&r, ad, dt, rank))
        return 0;

    struct amph_gex_op *o = amph_gex_op_get();

    amph_gex_op_detach(o, category_of(op));
    return ask(&r, o) ? 0 : 1;
}

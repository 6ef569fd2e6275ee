/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations: each UPC atomic domain is a gex atomic domain of the same type.  UPC OL 7.5.
 *
 * The pointer to a domain is its index in the table + 1, the same in all threads.  Packed
 * pointers-to-shared are 64-bit integers; their CSWAP is repeated if only the phase differs.  Wide
 * pointers-to-shared have no gex type, so each such domain has a lock that guards them.
 *
 * Layer: upc-bridge.  Thread rule: one thread.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/upc.h"

struct upc_atomic_domain {
    bool used;
    upc_type_t type;
    upc_op_t ops;
    gex_DT_t dt;
    gex_AD_t ad;
    upc_lock_t *lock; /* of wide pointers */
};

#define ACCESS_OPS (UPC_GET | UPC_SET | UPC_CSWAP)
#define NUMBER_OPS (UPC_ADD | UPC_SUB | UPC_MULT | UPC_INC | UPC_DEC | UPC_MIN | UPC_MAX)
#define BIT_OPS (UPC_AND | UPC_OR | UPC_XOR)

static const struct {
    upc_type_t type;
    gex_DT_t dt;
    upc_op_t ops;
} types[] = {
    { UPC_INT, GEX_DT_I32, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_UINT, GEX_DT_U32, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_LONG, GEX_DT_I64, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_ULONG, GEX_DT_U64, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_INT32, GEX_DT_I32, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_UINT32, GEX_DT_U32, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_INT64, GEX_DT_I64, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_UINT64, GEX_DT_U64, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_LLONG, GEX_DT_I64, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_ULLONG, GEX_DT_U64, ACCESS_OPS | NUMBER_OPS | BIT_OPS },
    { UPC_FLOAT, GEX_DT_FLT, ACCESS_OPS | NUMBER_OPS },
    { UPC_DOUBLE, GEX_DT_DBL, ACCESS_OPS | NUMBER_OPS },
    { UPC_PTS, GEX_DT_U64, ACCESS_OPS },
};

static const struct {
    upc_op_t op;
    gex_OP_t plain, fetching;
    int operands;
} operations[] = {
    { UPC_GET, GEX_OP_GET, GEX_OP_GET, 0 },    { UPC_SET, GEX_OP_SET, GEX_OP_SWAP, 1 },
    { UPC_CSWAP, GEX_OP_CAS, GEX_OP_FCAS, 2 }, { UPC_ADD, GEX_OP_ADD, GEX_OP_FADD, 1 },
    { UPC_SUB, GEX_OP_SUB, GEX_OP_FSUB, 1 },   { UPC_MULT, GEX_OP_MULT, GEX_OP_FMULT, 1 },
    { UPC_INC, GEX_OP_INC, GEX_OP_FINC, 0 },   { UPC_DEC, GEX_OP_DEC, GEX_OP_FDEC, 0 },
    { UPC_MIN, GEX_OP_MIN, GEX_OP_FMIN, 1 },   { UPC_MAX, GEX_OP_MAX, GEX_OP_FMAX, 1 },
    { UPC_AND, GEX_OP_AND, GEX_OP_FAND, 1 },   { UPC_OR, GEX_OP_OR, GEX_OP_FOR, 1 },
    { UPC_XOR, GEX_OP_XOR, GEX_OP_FXOR, 1 },
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

upc_atomicdomain_t *amphora_upc_atomicdomain_alloc(upc_type_t type, upc_op_t ops, int form)
{
    struct upc_atomic_domain d = { .used = true, .type = type, .ops = ops };
    upc_op_t allowed = 0;
    gex_OP_t codes = 0;
    size_t i;

    for (i = 0; i < COUNT(types); i++)
        if (types[i].type == type) {
            d.dt = types[i].dt;
            allowed = types[i].ops;
        }

    if (!allowed || (ops & ~allowed) || !ops)
        amph_upc_fail("upc_all_atomicdomain_alloc: type %d has no operations %#lx", type,
                      ops & ~allowed);

    for (i = 0; i < COUNT(operations); i++)
        if (ops & operations[i].op)
            codes |= operations[i].plain | operations[i].fetching;

    if (type == UPC_PTS)
        codes |= GEX_OP_FCAS | GEX_OP_GET;

    if (type == UPC_PTS && form != 1)
        d.lock = upc_all_lock_alloc();
    else
        gex_AD_Create(&d.ad, upc_self.tm, d.dt, codes, 0);

    for (i = 0; i < amph_upc.domains.count && amph_upc.domains.domain[i].used; i++)
        ;

    if (i == amph_upc.domains.count) {
        struct upc_atomic_domain *more = realloc(amph_upc.domains.domain, (i + 1) * sizeof *more);

        if (!more)
            amph_upc_fail("upc_all_atomicdomain_alloc: no memory");

        amph_upc.domains.domain = more;
        amph_upc.domains.count++;
    }

    amph_upc.domains.domain[i] = d;
    return (upc_atomicdomain_t *)(uintptr_t)(i + 1);
}

static struct upc_atomic_domain *find(const upc_atomicdomain_t *domain, const char *call)
{
    size_t i = (uintptr_t)domain;

    if (i == 0 || i > amph_upc.domains.count || !amph_upc.domains.domain[i - 1].used)
        amph_upc_fail("%s: %p is no atomic domain", call, (const void *)domain);

    return &amph_upc.domains.domain[i - 1];
}

void upc_all_atomicdomain_free(upc_atomicdomain_t *domain)
{
    if (!domain)
        return;

    struct upc_atomic_domain *d = find(domain, "upc_all_atomicdomain_free");

    amph_upc_sync();
    if (d->lock)
        upc_all_lock_free(d->lock);
    else
        gex_AD_Destroy(d->ad);

    d->used = false;
}

#define DEFINE_APPLY(NAME, T) \
    static void apply_##NAME(const struct upc_atomic_domain *d, void *fetch, gex_OP_t op, \
                             struct upc_wide target, const void *a, const void *b) \
    { \
        T x = 0, y = 0, old = 0; \
        if (a) \
            memcpy(&x, a, sizeof x); \
        if (b) \
            memcpy(&y, b, sizeof y); \
        gex_Event_Wait(gex_AD_OpNB_##NAME( \
            d->ad, &old, target.thread, amph_upc_there(target.thread, target.addr), op, x, y, 0)); \
        if (fetch) \
            memcpy(fetch, &old, sizeof old); \
    }
/* clang-format off */
DEFINE_APPLY(I32, int32_t)
DEFINE_APPLY(U32, uint32_t)
DEFINE_APPLY(I64, int64_t)
DEFINE_APPLY(U64, uint64_t)
DEFINE_APPLY(FLT, float)
DEFINE_APPLY(DBL, double)
/* clang-format on */

static const struct {
    gex_DT_t dt;
    void (*apply)(const struct upc_atomic_domain *, void *, gex_OP_t, struct upc_wide, const void *,
                  const void *);
} appliers[] = { { GEX_DT_I32, apply_I32 }, { GEX_DT_U32, apply_U32 }, { GEX_DT_I64, apply_I64 },

                 { GEX_DT_U64, apply_U64 }, { GEX_DT_FLT, apply_FLT }, { GEX_DT_DBL, apply_DBL } };

static bool same_object(struct upc_wide p, struct upc_wide q)
{
    return p.addr == q.addr && p.thread == q.thread;
}

/* CSWAP of packed pointers: what is there may have another phase than the operand has. */
static void swap_packed(const struct upc_atomic_domain *d, void *fetch, struct upc_wide target,
                        const void *operand1, const void *operand2)
{
    struct upc_packed wanted, seen, old;

    memcpy(&wanted, operand1, sizeof wanted);
    apply_U64(d, &seen, GEX_OP_GET, target, NULL, NULL);

    for (old = seen; same_object(upc_wide_of_packed(seen), upc_wide_of_packed(wanted));
         seen = old) {
        apply_U64(d, &old, GEX_OP_FCAS, target, &seen, operand2);
        if (old.bits == seen.bits)
            break;
    }

    if (fetch)
        memcpy(fetch, &old, sizeof old);
}

static void under_lock(const struct upc_atomic_domain *d, void *fetch, upc_op_t op,
                       struct upc_wide target, const void *operand1, const void *operand2)
{
    struct upc_wide old, wanted;
    void *there = amph_upc_there(target.thread, target.addr);

    upc_lock(d->lock);
    (void)gex_RMA_GetBlocking(upc_self.tm, &old, target.thread, there, sizeof old, 0);
    if (op == UPC_SET)
        (void)gex_RMA_PutBlocking(upc_self.tm, target.thread, there, operand1, sizeof old, 0);

    if (op == UPC_CSWAP) {
        memcpy(&wanted, operand1, sizeof wanted);
        if (same_object(old, wanted))
            (void)gex_RMA_PutBlocking(upc_self.tm, target.thread, there, operand2, sizeof old, 0);
    }

    upc_unlock(d->lock);
    if (fetch)
        memcpy(fetch, &old, sizeof old);
}

void amphora_upc_atomic(upc_atomicdomain_t *domain, void *fetch, upc_op_t op,
                        struct upc_wide target, const void *operand1, const void *operand2)
{
    const struct upc_atomic_domain *d = find(domain, "upc_atomic");
    size_t i = 0;
    size_t k = 0;

    while (i < COUNT(operations) && operations[i].op != op)
        i++;

    if (i == COUNT(operations) || !(d->ops & op))
        amph_upc_fail("upc_atomic: operation %#lx is not one of the domain's (%#lx)", op, d->ops);

    if ((operations[i].operands > 0) != (operand1 != NULL) ||
        (operations[i].operands > 1) != (operand2 != NULL) || (op == UPC_GET && !fetch))
        amph_upc_fail("upc_atomic: operation %#lx has %d operands; others are NULL", op,
                      operations[i].operands);

    upc_look();
    if (d->lock) {
        under_lock(d, fetch, op, target, operand1, operand2);
    } else if (d->type == UPC_PTS && op == UPC_CSWAP) {
        swap_packed(d, fetch, target, operand1, operand2);
    } else {
        while (appliers[k].dt != d->dt)
            k++;

        appliers[k].apply(d, fetch, fetch ? operations[i].fetching : operations[i].plain, target,
                          operand1, operand2);
    }
}

int amphora_upc_atomic_isfast(upc_type_t type, upc_op_t ops, struct upc_wide addr)
{
    (void)type, (void)ops;
    return addr.thread < (uint32_t)upc_self.threads && upc_self.place[addr.thread].here != 0;
}

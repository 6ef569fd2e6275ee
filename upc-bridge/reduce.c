/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upc_all_reduceT and upc_all_prefix_reduceT.  UPC RL 7.4.3.1 and 7.4.3.2.
 *
 * Only the functions that combine two values depend on the type (the X-macro below); all other code
 * works on untyped elements.  A row is one block of every thread, in the array's order.  Commutative
 * operations combine all blocks of a thread first; others combine row by row.
 *
 * Layer: upc-bridge.  Thread rule: one thread; all functions are collective.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/upc.h"

#define ROWS_AT_A_TIME 512

/* A value, if `has` is not 0. */
struct part {
    _Alignas(16) unsigned char value[16];
    uint64_t has;
};

struct how {
    size_t size;
    upc_op_t op;
    void (*func)(void);
    void (*combine)(const struct how *how, void *acc, const void *x); /* acc = acc op x */
    const char *call;
};

/* ---- how two values of a type are combined ---- */

#define COMBINE_SHARED(T) \
    case UPC_ADD: \
        r = (T)(a + b); \
        break; \
    case UPC_MULT: \
        r = (T)(a * b); \
        break; \
    case UPC_MIN: \
        r = b < a ? b : a; \
        break; \
    case UPC_MAX: \
        r = b > a ? b : a; \
        break; \
    case UPC_LOGAND: \
        r = (T)(a && b); \
        break; \
    case UPC_LOGOR: \
        r = (T)(a || b); \
        break; \
    case UPC_FUNC: \
    case UPC_NONCOMM_FUNC: \
        r = ((T(*)(T, T))how->func)(a, b); \
        break;
#define COMBINE_BITS(T) \
    case UPC_AND: \
        r = (T)(a & b); \
        break; \
    case UPC_OR: \
        r = (T)(a | b); \
        break; \
    case UPC_XOR: \
        r = (T)(a ^ b); \
        break;
#define NO_BITS(T)
#define BITS_C COMBINE_BITS
#define BITS_UC COMBINE_BITS
#define BITS_S COMBINE_BITS
#define BITS_US COMBINE_BITS
#define BITS_I COMBINE_BITS
#define BITS_UI COMBINE_BITS
#define BITS_L COMBINE_BITS
#define BITS_UL COMBINE_BITS
#define BITS_F NO_BITS
#define BITS_D NO_BITS
#define BITS_LD NO_BITS

#define DEFINE_COMBINE(NAME, T) \
    static void combine_##NAME(const struct how *how, void *acc, const void *x) \
    { \
        T a, b, r = 0; \
        memcpy(&a, acc, sizeof a); \
        memcpy(&b, x, sizeof b); \
        switch (how->op) { \
            COMBINE_SHARED(T) \
            BITS_##NAME(T) default : amph_upc_fail("%s: operation %#lx is not one for this type", \
                                                   how->call, how->op); \
        } \
        memcpy(acc, &r, sizeof r); \
    }
UPC_EACH_REDUCED(DEFINE_COMBINE)

static void add_value(const struct how *how, struct part *acc, const void *x)
{
    if (acc->has)
        how->combine(how, acc->value, x);
    else
        memcpy(acc->value, x, how->size);

    acc->has = 1;
}

/* The team's operator: second[i] = first[i] op second[i]. */
static void combine_parts(const void *arg1, void *arg2_and_out, size_t count, const void *cdata)
{
    const struct part *first = arg1;
    struct part *second = arg2_and_out;

    for (size_t i = 0; i < count; i++) {
        struct part acc = first[i];

        if (second[i].has)
            add_value(cdata, &acc, second[i].value);

        second[i] = acc;
    }
}

/* ---- which elements of an array are the caller's ---- */

struct layout {
    uint64_t first;       /* thread of the block that the array begins in */
    uint64_t addr;        /* where that block begins */
    uint64_t before, end; /* its elements before the array; those and the array's */
    uint64_t block, rows;
    size_t size;
};

static struct layout layout_of(struct upc_wide p, size_t nelems, size_t block, size_t size)
{
    uint64_t before = amph_upc_block_begin(&p, block, size);
    struct layout l = {
        p.thread, p.addr, before, before + nelems, block ? block : nelems, 0, size
    };
    uint64_t row = l.block * (uint64_t)upc_self.threads;

    l.rows = row ? l.end / row + (l.end % row != 0) : 0;
    return l;
}

/* Returns the number of elements of a row in thread t; *addr_p: their address there. */
static uint64_t run_of(const struct layout *l, uint64_t t, uint64_t row, uint64_t *addr_p)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t block = row * threads + (t + threads - l->first) % threads;
    uint64_t begin = block * l->block;
    uint64_t end = l->end - begin < l->block ? l->end : begin + l->block;
    uint64_t skip = block ? 0 : l->before;

    *addr_p = l->addr + ((l->first + block) / threads * l->block + skip) * l->size;
    return begin >= l->end ? 0 : end - begin - skip;
}

static void add_own_run(const struct how *how, const struct layout *l, uint64_t row,
                        struct part *acc)
{
    uint64_t addr;
    uint64_t n = run_of(l, (uint64_t)upc_self.mythread, row, &addr);
    const unsigned char *x = amph_upc_mine(addr);

    for (uint64_t i = 0; i < n; i++)
        add_value(how, acc, x + i * l->size);
}

/* ---- reduce ---- */

static void all_in_one(const struct how *how, struct upc_wide dst, struct part *parts, size_t count,
                       gex_OP_t op)
{
    gex_Event_Wait(gex_Coll_ReduceToOneNB(upc_self.tm, dst.thread, parts, parts, GEX_DT_USER,
                                          sizeof *parts, count, op, combine_parts,
                                          (void *)(uintptr_t)how, 0));
}

static void reduce_commuting(const struct how *how, struct upc_wide dst, const struct layout *l,
                             struct part *result)
{
    memset(result, 0, sizeof *result);
    for (uint64_t row = 0; row < l->rows; row++)
        add_own_run(how, l, row, result);

    all_in_one(how, dst, result, 1, GEX_OP_USER);
}

/* A row begins at thread l->first: the threads from there on come before those below it.  So a row
 * has two parts, each in the order of ranks. */
static void reduce_in_order(const struct how *how, struct upc_wide dst, const struct layout *l,
                            struct part *result)
{
    struct part *parts = calloc(ROWS_AT_A_TIME * 2, sizeof *parts);

    memset(result, 0, sizeof *result);
    if (!parts)
        amph_upc_fail("%s: no memory", how->call);

    for (uint64_t row = 0, n; row < l->rows; row += n) {
        n = l->rows - row < ROWS_AT_A_TIME ? l->rows - row : ROWS_AT_A_TIME;
        memset(parts, 0, n * 2 * sizeof *parts);
        for (uint64_t i = 0; i < n; i++)
            add_own_run(how, l, row + i, &parts[2 * i + ((uint64_t)upc_self.mythread < l->first)]);

        all_in_one(how, dst, parts, n * 2, GEX_OP_USER_NC);
        for (uint64_t i = 0; i < n * 2 && dst.thread == (uint32_t)upc_self.mythread; i++)
            if (parts[i].has)
                add_value(how, result, parts[i].value);
    }

    free(parts);
}

static void reduce(const struct how *how, struct upc_wide dst, struct upc_wide src, size_t nelems,
                   size_t block, upc_flag_t flags)
{
    struct part result;
    struct layout l = layout_of(src, nelems, block, how->size);

    /* each thread reads its own data */
    amph_upc_enter(flags & UPC_IN_MYSYNC ? UPC_IN_NOSYNC : flags, how->call);
    if (nelems) {
        (how->op == UPC_NONCOMM_FUNC ? reduce_in_order : reduce_commuting)(how, dst, &l, &result);
        if (dst.thread == (uint32_t)upc_self.mythread)
            memcpy(amph_upc_mine(dst.addr), result.value, how->size);
    }

    amph_upc_leave(flags & UPC_OUT_MYSYNC ? UPC_OUT_NOSYNC : flags);
}

/* ---- prefix reduce ---- */

/* Memory for the partial results of each row, which other threads read. */
struct board {
    struct upc_wide parts; /* [ROWS_AT_A_TIME] in every thread */
    struct part *copy;     /* [threads][ROWS_AT_A_TIME] */
};

/* Turns this thread's run into prefixes that continue acc. */
static void write_prefixes(const struct how *how, const struct layout *from,
                           const struct layout *to, uint64_t row, struct part acc)
{
    uint64_t addr, to_addr;
    uint64_t n = run_of(from, (uint64_t)upc_self.mythread, row, &addr);

    (void)run_of(to, (uint64_t)upc_self.mythread, row, &to_addr);

    const unsigned char *x = amph_upc_mine(addr);
    unsigned char *y = amph_upc_mine(to_addr);

    for (uint64_t i = 0; i < n; i++) {
        add_value(how, &acc, x + i * from->size);
        memcpy(y + i * to->size, acc.value, how->size);
    }
}

static void prefix_rows(const struct how *how, const struct layout *from, const struct layout *to,
                        const struct board *board, uint64_t row, uint64_t n, struct part *carry)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    struct part *own = amph_upc_mine(board->parts.addr);

    memset(own, 0, n * sizeof *own);
    for (uint64_t i = 0; i < n; i++)
        add_own_run(how, from, row + i, &own[i]);

    amph_upc_sync();
    for (uint64_t t = 0; t < threads; t++)
        amphora_upc_memget_nbi(board->copy + t * ROWS_AT_A_TIME,
                               (struct upc_wide){ board->parts.addr, (uint32_t)t, 0 },
                               n * sizeof *own);

    upc_synci();
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < threads; k++) {
            uint64_t t = (from->first + k) % threads;
            const struct part *p = &board->copy[t * ROWS_AT_A_TIME + i];

            if (t == (uint64_t)upc_self.mythread)
                write_prefixes(how, from, to, row + i, *carry);

            if (p->has)
                add_value(how, carry, p->value);
        }

    amph_upc_sync();
}

static void prefix(const struct how *how, struct upc_wide dst, struct upc_wide src, size_t nelems,
                   size_t block, upc_flag_t flags)
{
    struct layout from = layout_of(src, nelems, block, how->size);
    struct layout to = layout_of(dst, nelems, block, how->size);
    struct part carry = { .has = 0 };
    struct board board;

    if (dst.thread != src.thread || from.before != to.before)
        amph_upc_fail("%s: dst begins in thread %u with phase %u, src in thread %u with phase %u",
                      how->call, dst.thread, dst.phase, src.thread, src.phase);

    amph_upc_enter(flags & UPC_IN_MYSYNC ? UPC_IN_NOSYNC : flags, how->call);
    if (nelems) {
        board.parts = amphora_upc_all_alloc((size_t)upc_self.threads,
                                            ROWS_AT_A_TIME * sizeof(struct part));
        board.copy = calloc((size_t)upc_self.threads * ROWS_AT_A_TIME, sizeof(struct part));
        if (!board.parts.addr || !board.copy)
            amph_upc_fail("%s: no memory", how->call);

        for (uint64_t row = 0; row < from.rows; row += ROWS_AT_A_TIME)
            prefix_rows(how, &from, &to, &board, row,
                        from.rows - row < ROWS_AT_A_TIME ? from.rows - row : ROWS_AT_A_TIME,
                        &carry);

        free(board.copy);
        amphora_upc_all_free(board.parts);
    }

    amph_upc_leave(flags & UPC_OUT_MYSYNC ? UPC_OUT_NOSYNC : flags);
}

#define DEFINE_CALLS(NAME, T) \
    void amphora_upc_reduce##NAME(struct upc_wide dst, struct upc_wide src, upc_op_t op, \
                                  size_t nelems, size_t blk_size, T (*func)(T, T), \
                                  upc_flag_t flags) \
    { \
        const struct how how = { sizeof(T), op, (void (*)(void))func, combine_##NAME, \
                                 "upc_all_reduce" #NAME }; \
        reduce(&how, dst, src, nelems, blk_size, flags); \
    } \
    void amphora_upc_prefix##NAME(struct upc_wide dst, struct upc_wide src, upc_op_t op, \
                                  size_t nelems, size_t blk_size, T (*func)(T, T), \
                                  upc_flag_t flags) \
    { \
        const struct how how = { sizeof(T), op, (void (*)(void))func, combine_##NAME, \
                                 "upc_all_prefix_reduce" #NAME }; \
        prefix(&how, dst, src, nelems, blk_size, flags); \
    }
UPC_EACH_REDUCED(DEFINE_CALLS)

/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of extended/: what barriers make of values, codes before there is a job, values in
 * registers, and a job of one. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "amphora.h"
#include "amphora/barrier.h"
#include "amphora/gasnet1.h"
#include "extended/coll/coll.h"
#include "extended/event.h"

static struct amph_barrier_value value(uint32_t kind, int32_t id)
{
    return (struct amph_barrier_value){ .kind = kind, .id = id };
}

Test(barrier, combine)
{
    const struct amph_barrier_value v[] = {
        value(AMPH_BARRIER_ANONYMOUS, 0), value(AMPH_BARRIER_NAMED, 0),
        value(AMPH_BARRIER_NAMED, 5), value(AMPH_BARRIER_NAMED, -5), value(AMPH_BARRIER_MISMATCH, 0)
    };

    for (size_t i = 0; i < AMPH_COUNTOF(v); i++) {
        for (size_t j = 0; j < AMPH_COUNTOF(v); j++) {
            struct amph_barrier_value a = amph_coll_barrier_combine(v[i], v[j]);
            struct amph_barrier_value b = amph_coll_barrier_combine(v[j], v[i]);
            uint32_t want = AMPH_BARRIER_MISMATCH;

            if (i == j || !j)
                want = v[i].kind;
            else if (!i)
                want = v[j].kind;

            cr_assert_eq(a.kind, want, "%zu with %zu", i, j);
            cr_assert(a.kind == b.kind && (a.kind != AMPH_BARRIER_NAMED || a.id == b.id));
        }
    }

    cr_assert_eq(amph_coll_barrier_combine(v[0], v[3]).id, -5);
}

Test(errors, names)
{
    cr_assert_str_eq(gasnet_ErrorName(GASNET_OK), "GASNET_OK");
    cr_assert_str_eq(gasnet_ErrorName(GASNET_ERR_NOT_READY), "GASNET_ERR_NOT_READY");
    cr_assert_str_eq(gasnet_ErrorName(-1), "unknown error");
    cr_assert(strlen(gasnet_ErrorDesc(GASNET_ERR_BAD_ARG)) > 0 && strlen(gasnet_ErrorDesc(-1)) > 0);
    cr_assert_eq(amph_gex_error(AMPH_OK), GASNET_OK);
    cr_assert_eq(amph_gex_error(AMPH_ERR_RANGE), GASNET_ERR_BAD_ARG);
    cr_assert_eq(amph_gex_error(AMPH_ERR_NOMEM), GASNET_ERR_RESOURCE);
}

Test(values, any_size)
{
    for (size_t n = 1; n <= sizeof(gex_RMA_Value_t); n++) {
        unsigned char mem[10];
        gex_RMA_Value_t v = (gex_RMA_Value_t)UINT64_C(0xf1e2d3c4b5a69788);
        gex_RMA_Value_t mask = n == sizeof v ? ~(gex_RMA_Value_t)0
                                             : ((gex_RMA_Value_t)1 << 8 * n) - 1;

        memset(mem, 0x55, sizeof mem);
        amphora_store_val(mem + 1, v, n);
        cr_assert(mem[0] == 0x55 && mem[n + 1] == 0x55, "%zu bytes stay inside", n);
        cr_assert_eq(amphora_load_val(mem + 1, n), v & mask);
    }
}

Test(before, codes)
{
    gex_Segment_t seg;

    cr_assert_eq(gasnet_attach(NULL, 0, 0, 0), GASNET_ERR_NOT_INIT);
    cr_assert_eq(gex_Segment_Attach(&seg, NULL, 4096), GASNET_ERR_NOT_INIT);
    cr_assert_eq(gex_EP_RegisterHandlers(NULL, NULL, 0), GASNET_ERR_NOT_INIT);
    cr_assert_eq(gasnet_getSegmentInfo(NULL, 0), GASNET_ERR_NOT_INIT);
    cr_assert(GASNET_PAGESIZE > 0);
    cr_assert_eq(amphora_absolute(), AMPHORA_NONE);
    cr_assert_eq(amphora_group_size(AMPHORA_COMPUTE), 0);
    cr_assert_eq(amphora_server_of(0), AMPHORA_NONE);
    cr_assert_eq(amphora_proc(0, NULL), GASNET_ERR_NOT_INIT);
    cr_assert_null(amphora_reach_addr(amphora_team0, 0, &seg, 1),
                   "the team before the job has no member");
}

static void start_alone(int threadmode)
{
    unsetenv("AMPHORA_JOB");
    unsetenv("PMI_FD");
    unsetenv("PMI_PORT");
    cr_assert_eq(amphora_client_init(NULL, NULL, NULL, "UNIT", NULL, NULL, GEX_FLAG_USES_GASNET1,
                                     threadmode),
                 GASNET_OK);
}

/* Operations that are counted and completed by hand. */
static void implicit_operations(void)
{
    struct amph_gex_op *op[3];

    for (int i = 0; i < 3; i++) {
        op[i] = amph_gex_op_get();
        op[i]->root.pending = 1;
        amph_gex_op_detach(op[i], i == 2 ? AMPH_EC_GET : AMPH_EC_PUT);
    }

    cr_assert_eq(gex_NBI_Test(GEX_EC_PUT, 0), GASNET_ERR_NOT_READY);
    op[0]->rc.done(&op[0]->rc, AMPH_OK);
    cr_assert_eq(gex_NBI_Test(GEX_EC_PUT, 0), GASNET_ERR_NOT_READY);
    op[1]->rc.done(&op[1]->rc, AMPH_OK);
    cr_assert_eq(gex_NBI_Test(GEX_EC_PUT | GEX_EC_LC, 0), GASNET_OK);
    cr_assert_eq(gex_NBI_Test(GEX_EC_ALL, 0), GASNET_ERR_NOT_READY);
    op[2]->rc.done(&op[2]->rc, AMPH_OK);
    cr_assert_eq(gex_NBI_Test(GEX_EC_ALL, 0), GASNET_OK);
}

static void explicit_operation(void)
{
    struct amph_gex_op *op = amph_gex_op_get();

    op->root.pending = 2;
    op->leaf.pending = 1;

    gex_Event_t root = amph_gex_op_event(op);
    gex_Event_t leaf = gex_Event_QueryLeaf(root, GEX_EC_LC);

    cr_assert(root != GEX_EVENT_INVALID && leaf == &op->leaf);
    cr_assert(gex_Event_Test(root) != GASNET_OK && gex_Event_Test(leaf) != GASNET_OK);
    op->lc.done(&op->lc, AMPH_OK);
    cr_assert(gex_Event_Test(leaf) == GASNET_OK && gex_Event_Test(root) != GASNET_OK);
    op->rc.done(&op->rc, AMPH_OK);
    cr_assert_eq(gex_Event_Test(root), GASNET_OK);
    cr_assert_eq(amph_gex_op_get(), op, "a consumed operation is used again");
    amph_gex_op_put(op);
}

static void region_operations(void)
{
    gex_NBI_BeginAccessRegion(0);

    struct amph_gex_op *op = amph_gex_op_get();

    op->root.pending = 2;
    op->leaf.pending = 1;
    amph_gex_op_detach(op, AMPH_EC_PUT);
    amph_gex_op_count_lc(op);

    gex_Event_t region = gex_NBI_EndAccessRegion(0);
    gex_Event_t array[3] = { GEX_EVENT_INVALID, region, GEX_EVENT_INVALID };

    cr_assert_eq(gex_NBI_Test(GEX_EC_ALL, 0), GASNET_OK);
    cr_assert(gex_Event_QueryLeaf(region, GEX_EC_LC) != GEX_EVENT_INVALID);
    cr_assert_eq(gex_Event_QueryLeaf(region, GEX_EC_GET), GEX_EVENT_INVALID);
    op->lc.done(&op->lc, AMPH_OK);
    cr_assert_eq(gex_Event_QueryLeaf(region, GEX_EC_LC), GEX_EVENT_INVALID);
    cr_assert_eq(gex_Event_TestSome(array, 3, 0), GASNET_ERR_NOT_READY);
    op->rc.done(&op->rc, AMPH_OK);
    cr_assert_eq(gex_Event_TestAll(array, 3, 0), GASNET_OK);
    cr_assert_eq(array[1], GEX_EVENT_INVALID);
    gex_NBI_BeginAccessRegion(0);
    cr_assert_eq(gex_NBI_EndAccessRegion(0), GEX_EVENT_INVALID, "nothing was started in it");
}

Test(events, one_thread)
{
    start_alone(1);
    implicit_operations();
    explicit_operation();
    region_operations();
}

Test(events, threads)
{
    start_alone(3);
    implicit_operations();
    explicit_operation();
    region_operations();
}

Test(barrier, many_phases)
{
    struct amph_barrier *b;

    start_alone(1);
    b = &amph_gex()->team.coll->barrier[AMPH_BARRIER_NAMED_ONE];
    b->phase = (1u << 30) - 3; /* over the end of the counter */

    for (int i = 0; i < 10; i++) {
        cr_assert_eq(gasnet_barrier(i, 0), GASNET_OK);
        gex_Event_Wait(gex_Coll_BarrierNB(amphora_team0, 0));
    }

    cr_assert_eq(amph_gex()->colls->active, 0);
}

Test(segment, given_back)
{
    gex_Segment_t seg;

    start_alone(1);
    gex_System_SetVerboseErrors(0);
    cr_assert_eq(gex_Segment_Attach(&seg, amphora_team0,
                                    UINTPTR_MAX / 2 / GASNET_PAGESIZE * GASNET_PAGESIZE),
                 GASNET_ERR_RESOURCE);
    cr_assert_eq(gex_Segment_Attach(&seg, amphora_team0, 100), GASNET_ERR_BAD_ARG);
    cr_assert_eq(gex_Segment_Attach(&seg, amphora_team0, 4 * GASNET_PAGESIZE), GASNET_OK);
    memset(gex_Segment_QueryAddr(seg), 1, gex_Segment_QuerySize(seg));

    uint64_t v = 42;
    uint64_t w = 0;

    cr_assert_eq(gex_RMA_PutBlocking(amphora_team0, 0, gex_Segment_QueryAddr(seg), &v, sizeof v, 0),
                 0);
    cr_assert_eq(gex_RMA_GetBlocking(amphora_team0, &w, 0, gex_Segment_QueryAddr(seg), sizeof w, 0),
                 0);
    cr_assert_eq(w, 42);
}

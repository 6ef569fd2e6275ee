/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided transfers: each process puts a block into its right neighbour's segment, without
 * waiting, does something else, waits, and after a barrier gets a block from the left; both are
 * checked.
 *
 *   amphora-run -n 3 examples/put_get
 */
#include <gasnetex.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    COUNT = 10000
};

/* The segment: what the left neighbour puts here, and what the right one may get. */
struct shared {
    double from_left[COUNT];
    double offer[COUNT];
};

static void barrier(gex_TM_t tm)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

/* The address of member rank's segment in its own address space. */
static struct shared *segment_of(gex_TM_t tm, gex_Rank_t rank)
{
    void *addr = NULL;

    if (gex_Segment_QueryBound(tm, rank, &addr, NULL, NULL))
        gasnet_exit(2);

    return (struct shared *)addr;
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;

    if (gex_Client_Init(&client, &ep, &tm, "PUT_GET", &argc, &argv, 0) != GASNET_OK)
        return 1;

    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t bytes = (sizeof(struct shared) + page - 1) / page * page;

    if (gex_Segment_Attach(&segment, tm, bytes) != GASNET_OK)
        gasnet_exit(1);

    gex_Rank_t me = gex_TM_QueryRank(tm);
    gex_Rank_t size = gex_TM_QuerySize(tm);
    gex_Rank_t right = (me + 1) % size;
    gex_Rank_t left = (me + size - 1) % size;
    struct shared *mine = segment_of(tm, me);
    double *block = malloc(sizeof mine->offer);
    double *got = malloc(sizeof mine->offer);

    if (!block || !got)
        gasnet_exit(1);

    for (int i = 0; i < COUNT; i++) {
        block[i] = me * 1000.0 + i;
        mine->offer[i] = me * 2000.0 + i;
    }

    barrier(tm);

    /* Start, work on something else, wait. */
    gex_Event_t put = gex_RMA_PutNB(tm, right, segment_of(tm, right)->from_left, block,
                                    sizeof mine->from_left, GEX_EVENT_DEFER, 0);
    double other_work = 0;

    for (int i = 0; i < COUNT; i++)
        other_work += block[i];

    gex_Event_Wait(put);
    gex_RMA_GetBlocking(tm, got, left, segment_of(tm, left)->offer, sizeof mine->offer, 0);
    barrier(tm); /* all puts have been made */

    int errors = 0;

    for (int i = 0; i < COUNT; i++)
        errors += mine->from_left[i] != left * 1000.0 + i || got[i] != left * 2000.0 + i;

    printf("process %u: %d numbers from process %u, %d errors, sum of its own block %g\n", me,
           2 * COUNT, left, errors, other_work);
    free(block);
    free(got);
    barrier(tm);
    gasnet_exit(errors != 0);
}

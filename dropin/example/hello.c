/* SPDX-License-Identifier: BSD-3-Clause */
/* A GASNet-1 client: each node puts its number into its neighbour's segment and sends it an active message. */
#include <gasnet.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    H_GREET = 128
};

static volatile int greeted;

static void greet(gasnet_token_t token, gasnet_handlerarg_t from)
{
    (void)token;
    greeted = (int)from + 1;
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t handlers[] = { { H_GREET, (void (*)())greet } };
    static char page[GASNET_PAGESIZE]; /* a constant, as the specification wants */
    if (gasnet_init(&argc, &argv) != GASNET_OK ||
        gasnet_attach(handlers, 1, sizeof page, 0) != GASNET_OK)
        return 1;
    gasnet_node_t me = gasnet_mynode();
    gasnet_node_t nodes = gasnet_nodes();
    gasnet_node_t right = (me + 1) % nodes;
    gasnet_node_t left = (me + nodes - 1) % nodes;
    gasnet_seginfo_t *seg = malloc(nodes * sizeof *seg);
    if (!seg || gasnet_getSegmentInfo(seg, (int)nodes) != GASNET_OK)
        gasnet_exit(2);
    int *there = (int *)seg[right].addr;
    int *here = (int *)seg[me].addr;
    gasnet_put_val(right, there, me + 100, sizeof *there);
    gasnet_AMRequestShort1(right, H_GREET, (gasnet_handlerarg_t)me);
    GASNET_BLOCKUNTIL(greeted == (int)left + 1);
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (*here != (int)left + 100)
        gasnet_exit(3);
    printf("C: node %u of %u heard from %u (%s)\n", me, nodes, left, GASNET_CONFIG_STRING);
    fflush(stdout);
    gasnet_exit(0);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A token that goes round a ring of processes ten times, as a short message; each process adds its
 * number, and process 0 checks the sum and says how long a hop took.  Written on the GASNet-1 API.
 *
 *   amphora-run -n 4 examples/ring
 */
#include <gasnet.h>
#include <stdio.h>
#include <time.h>

enum {
    H_TOKEN = 200,
    ROUNDS = 10
};

static volatile int here;
static volatile gasnet_handlerarg_t sum, round_number;

/* A handler must not send on by itself (only replies are allowed there): it leaves the token to the
 * main program. */
static void token_came(gasnet_token_t token, gasnet_handlerarg_t s, gasnet_handlerarg_t r)
{
    (void)token;
    sum = s;
    round_number = r;
    here = 1;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t handlers[] = { { H_TOKEN, (gex_AM_Fn_t)token_came } };

    if (gasnet_init(&argc, &argv) != GASNET_OK || gasnet_attach(handlers, 1, 0, 0) != GASNET_OK)
        return 1;

    gasnet_node_t me = gasnet_mynode();
    gasnet_node_t nodes = gasnet_nodes();
    gasnet_node_t next = (me + 1) % nodes;
    gasnet_handlerarg_t in_one_round = (gasnet_handlerarg_t)(nodes * (nodes - 1) / 2);
    int errors = 0;

    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);

    double start = seconds();

    for (int r = 0; r < ROUNDS; r++) {
        if (me == 0)
            gasnet_AMRequestShort2(next, H_TOKEN, r * in_one_round, r);

        GASNET_BLOCKUNTIL(here);
        here = 0;

        if (me != 0)
            gasnet_AMRequestShort2(next, H_TOKEN, sum + (gasnet_handlerarg_t)me, round_number);
        else if (sum != (r + 1) * in_one_round || round_number != r)
            errors++;
    }

    if (me == 0)
        printf("%d rounds over %u processes: sum %d, %s; %.2f us a hop\n", ROUNDS, nodes, (int)sum,
               errors ? "wrong" : "right", (seconds() - start) / ROUNDS / nodes * 1e6);

    gasnet_barrier_notify(1, 0);
    gasnet_barrier_wait(1, 0);
    gasnet_exit(errors != 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A node that catches SIGQUIT gets it when another one ends the job (argument "exit") or dies
 * ("die"); one that does not is ended. */
#include "gasnet.h"

#include <signal.h>
#include <unistd.h>

#include "tests/gex/gex_common.h"

static volatile int never, told;

static void on_quit(int sig)
{
    static const char text[] = "this node was told to quit\n";

    told = sig == SIGQUIT;
    if (write(1, text, sizeof text - 1) < 0)
        told = 0;

    gasnet_exit(told ? 3 : 4);
}

int main(int argc, char **argv)
{
    if (argc != 2 || gasnet_init(&argc, &argv) != GASNET_OK ||
        gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0) != GASNET_OK)
        return 1;

    if (gasnet_mynode() % 2 == 0)
        signal(SIGQUIT, on_quit);

    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (gasnet_mynode() == 1 && strcmp(argv[1], "exit") == 0)
        gasnet_exit(9);

    if (gasnet_mynode() == 1)
        _exit(9);

    GASNET_BLOCKUNTIL(never);
    return 0;
}

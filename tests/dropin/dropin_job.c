/* SPDX-License-Identifier: BSD-3-Clause */
/* A small client for the tests of launchers: meets the others, sums their numbers, and says who and
 * what it is in one line. */
#include <amphora.h>
#include <gasnet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    H_ADD = 130
};

static volatile unsigned sum, count;

static void on_add(gasnet_token_t token, gasnet_handlerarg_t what)
{
    (void)token;
    sum += (unsigned)what;
    count++;
}

/* gasnet_init as clients call it that were given no arguments (none), or that copied them without
 * the NULL at their end, behind which something else stands (no-end). */
static int start(int *argc, char ***argv)
{
    const char *how = getenv("DROPIN_ARGUMENTS");
    size_t count = (size_t)*argc;

    if (!how)
        return gasnet_init(argc, argv);

    if (!strcmp(how, "none"))
        return gasnet_init(NULL, NULL);

    char **copy = malloc((count + 1) * sizeof *copy);
    int copied = *argc;

    memcpy(copy, *argv, count * sizeof *copy);
    copy[count] = (char *)"3";
    return gasnet_init(&copied, &copy);
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = { { H_ADD, (gex_AM_Fn_t)on_add } };
    gasnet_nodeinfo_t info[64];
    unsigned supernodes = 0;
    unsigned hosts = 0;
    char words[256] = "";

    if (start(&argc, &argv) != GASNET_OK ||
        gasnet_attach(table, 1, GASNET_PAGESIZE, 0) != GASNET_OK)
        return 1;

    gasnet_node_t me = gasnet_mynode();
    gasnet_node_t nodes = gasnet_nodes();

    for (gasnet_node_t i = 0; i < nodes; i++)
        gasnet_AMRequestShort1(i, H_ADD, (gasnet_handlerarg_t)me + 1);

    GASNET_BLOCKUNTIL(count == nodes);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_getNodeInfo(info, nodes < 64 ? (int)nodes : 64);

    for (gasnet_node_t i = 0; i < nodes && i < 64; i++) {
        supernodes = info[i].supernode >= supernodes ? info[i].supernode + 1 : supernodes;
        hosts = info[i].host >= hosts ? info[i].host + 1 : hosts;
    }

    for (int i = 1; i < argc; i++) {
        strncat(words, " ", sizeof words - strlen(words) - 1);
        strncat(words, argv[i], sizeof words - strlen(words) - 1);
    }

    printf("node %u/%u sum %u over %s built %s hosts %u supernodes %u args%s\n", me, nodes, sum,
           amphora_conduit(), GASNET_CONDUIT_NAME_STR, hosts, supernodes, words);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(0);
}

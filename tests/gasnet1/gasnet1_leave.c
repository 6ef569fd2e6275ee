/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes that leave early.  "attach": odd ones end right after gasnet_attach, while the others still
 * look around and write to each other. "last": one makes an error of use when all the others have
 * ended well.
 */
#include <gasnet.h>
#include <unistd.h>

#include "tests/gex/gex_common.h"

enum {
    NODES_MAX = 64
};

static void write_to_even(const gasnet_seginfo_t *seg, gasnet_node_t me, gasnet_node_t nodes)
{
    for (gasnet_node_t i = 0; i < nodes; i += 2) {
        uint32_t value = me + 7;
        uint32_t back = 0;
        uint32_t *at = (uint32_t *)seg[i].addr + me;

        gasnet_put(i, at, &value, sizeof value);
        gasnet_get(&back, i, at, sizeof back);
        CHECK(back == value);
    }
}

int main(int argc, char **argv)
{
    gasnet_seginfo_t seg[NODES_MAX];

    CHECK(argc == 2 && gasnet_init(&argc, &argv) == GASNET_OK);
    CHECK(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0) == GASNET_OK);

    gasnet_node_t me = gasnet_mynode();
    gasnet_node_t nodes = gasnet_nodes();

    CHECK(nodes <= NODES_MAX);
    if (me % 2)
        return 0;

    CHECK(gasnet_getSegmentInfo(seg, (int)nodes) == GASNET_OK);
    if (!strcmp(argv[1], "attach") && me == 0)
        write_to_even(seg, me, 1); /* the other even ones may have gone, too */

    if (!strcmp(argv[1], "last") && me == 0) {
        for (int left = 300; left > 0; left--) { /* no message tells when the others are gone */
            gasnet_AMPoll();
            usleep(1000);
        }

        gasnet_put(nodes, seg[0].addr, &me, sizeof me);
    }

    return 0;
}

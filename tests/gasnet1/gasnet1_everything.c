/* SPDX-License-Identifier: BSD-3-Clause */
/* GASNET_SEGMENT_EVERYTHING: heap, stack and static memory of every process, by put, get, memset,
 * values and long messages. */
#define GASNET_SEGMENT_EVERYTHING 1
#include "gasnet.h"
#include "gasnet_ratomic.h"
#include <signal.h>
#include <sys/mman.h>

#include "tests/gex/gex_common.h"

#define NODES 8
#define BYTES (200 * 1000) /* several messages */
#define ALL_BYTES \
    (2 * NODES * BYTES) /* a part for each other node's transfers, and one for its replies */

enum {
    H_WHERE = 150,
    H_LONG,
    H_LONG_BACK,
    H_ASYNC
};

enum {
    HEAP,
    STACK,
    STATIC,
    PLACES
};

static gasnet_node_t me, nodes;
static char fixed[ALL_BYTES];
static uint64_t where[NODES][PLACES];
static volatile unsigned told, longs, backs;
static uint64_t seed;

static void on_where(gasnet_token_t token, void *buf, size_t nbytes)
{
    gasnet_node_t src;

    CHECK(gasnet_AMGetMsgSource(token, &src) == GASNET_OK && nbytes == sizeof where[0]);
    memcpy(where[src], buf, nbytes);
    told++;
}

static void on_long(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t place,
                    gasnet_handlerarg_t back)
{
    gasnet_node_t src;

    CHECK(gasnet_AMGetMsgSource(token, &src) == GASNET_OK);
    CHECK((uintptr_t)buf == where[me][place] + (size_t)src * BYTES &&
          right(buf, nbytes, src, 77) == nbytes);
    longs++;

    void *home = (void *)(uintptr_t)(where[src][place] + (size_t)(NODES + me) * BYTES);

    CHECK(gasnet_AMReplyLong1(token, (gasnet_handler_t)back, buf, nbytes, home, place) ==
          GASNET_OK);
}

static void on_long_back(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t place)
{
    gasnet_node_t src;

    CHECK(gasnet_AMGetMsgSource(token, &src) == GASNET_OK);
    CHECK((uintptr_t)buf == where[me][place] + (size_t)(NODES + src) * BYTES &&
          right(buf, nbytes, me, 77) == nbytes);
    backs++;
}

/* The part of `node` that belongs to me, at `place`. */
static char *mine_at(gasnet_node_t node, int place)
{
    return (char *)(uintptr_t)(where[node][place] + (size_t)me * BYTES);
}

static void meet(void)
{
    CHECK(gasnet_barrier(3, 0) == GASNET_OK);
}

static void transfers(gasnet_node_t node, int place, char *out, char *in)
{
    const size_t sizes[] = { 1, 8, 4096, 65408, 65409, BYTES };

    for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t n = sizes[s] - (sizes[s] > 8 ? next_random(&seed) % 8 : 0);
        char *there = mine_at(node, place);

        fill(out, n, me, s);
        gasnet_put_bulk(node, there, out, n);
        memset(in, 0, n);
        gasnet_get_bulk(in, node, there, n);
        CHECK(right(in, n, me, s) == n);
        fill(out, n, me, s + 10);

        gasnet_handle_t h[2];

        h[0] = gasnet_put_nb(node, there, out, n);
        memset(out, 1, n); /* free again */
        gasnet_wait_syncnb(h[0]);
        h[0] = gasnet_get_nb(in, node, there, n / 2 + 1);
        h[1] = gasnet_get_nb_bulk(in + n / 2, node, there + n / 2, n - n / 2);
        gasnet_wait_syncnb_all(h, 2);
        CHECK(right(in, n, me, s + 10) == n);
        gasnet_memset_nbi(node, there, 0x5a, n);
        gasnet_wait_syncnbi_all();
        gasnet_get_nbi_bulk(in, node, there, n);
        while (gasnet_try_syncnbi_gets() != GASNET_OK)
            ;

        for (size_t i = 0; i < n; i++)
            CHECK(in[i] == 0x5a);
    }

    for (int i = 0; i < 2000; i++)
        gasnet_put_nbi_val(node, mine_at(node, place) + 8 * i, (gasnet_register_value_t)i * 7 + me,
                           8);

    gasnet_wait_syncnbi_puts();
    CHECK(gasnet_get_val(node, mine_at(node, place) + 8 * 1999, 8) ==
          (gasnet_register_value_t)1999 * 7 + me);
    CHECK(gasnet_wait_syncnb_valget(gasnet_get_nb_val(node, mine_at(node, place) + 16, 4)) ==
          14 + me);
}

static void long_messages(gasnet_node_t node, int place, char *out)
{
    size_t most = gasnet_AMMaxLongRequest() < gasnet_AMMaxLongReply() ? gasnet_AMMaxLongRequest()
                                                                      : gasnet_AMMaxLongReply();
    const size_t sizes[] = { 1, 1000, 20000, most < BYTES ? most : BYTES };

    for (unsigned s = 0; s < 4; s++) {
        unsigned before = backs;

        fill(out, sizes[s], me, 77);
        if (s % 2)
            CHECK(gasnet_AMRequestLongAsync2(node, H_LONG, out, sizes[s], mine_at(node, place),
                                             place, H_LONG_BACK) == GASNET_OK);
        else
            CHECK(gasnet_AMRequestLong2(node, H_LONG, out, sizes[s], mine_at(node, place), place,
                                        H_LONG_BACK) == GASNET_OK);

        GASNET_BLOCKUNTIL(backs == before + 1);
    }

    gex_System_SetVerboseErrors(0);
    CHECK(gasnet_AMRequestLong2(node, H_LONG, out, most + 1, mine_at(node, place), place,
                                H_LONG_BACK) == GASNET_ERR_BAD_ARG);
}

/* Pieces of a row here against rows of a matrix there. */
static void pieces(gasnet_node_t node, int place, char *out, char *in)
{
    enum {
        ROWS = 50,
        ROW = 40,
        DISTANCE = 300
    };

    char *there = mine_at(node, place);
    const size_t far[] = { DISTANCE };
    const size_t near[] = { ROW };
    const size_t count[] = { ROW, ROWS };
    gasnet_memvec_t from[2] = { { out + 5, 700 }, { out + 1000, ROWS * ROW - 700 } };
    gasnet_memvec_t to[ROWS];

    fill(out, ROWS * ROW + 400, me, 5);
    gasnet_puts_bulk(node, there, far, out, near, count, 1);
    memset(in, 0, ROWS * ROW);
    gasnet_gets_bulk(in, near, node, there, far, count, 1);
    CHECK(right(in, ROWS * ROW, me, 5) == ROWS * ROW);
    for (int i = 0; i < ROWS; i++)
        to[i] = (gasnet_memvec_t){ there + i * 2 * ROW, ROW };

    gasnet_putv_bulk(node, ROWS, to, 2, from);
    memset(in, 0, ROWS * ROW);
    gasnet_getv_bulk(1, &(gasnet_memvec_t){ in, ROWS * ROW }, node, ROWS, to);
    CHECK(memcmp(in, out + 5, 700) == 0 && memcmp(in + 700, out + 1000, ROWS * ROW - 700) == 0);
}

/* Every node adds to every node's counter on the heap; then a broadcast of it. */
static void together(char *heap)
{
    static uint64_t sum[NODES];
    uint64_t *counter = (uint64_t *)heap;
    uint64_t had = 0;
    uint64_t mine, first;
    gex_AD_t ad;

    *counter = 0;
    gasnet_barrier(4, 0);
    gex_AD_Create(&ad, amphora_team0, GEX_DT_U64, GEX_OP_FADD | GEX_OP_GET, 0);

    for (gasnet_node_t i = 0; i < nodes; i++)
        for (int k = 0; k < 10; k++)
            gex_Event_Wait(gex_AD_OpNB_U64(ad, &had, i, (void *)(uintptr_t)where[i][HEAP],
                                           GEX_OP_FADD, me + 1, 0, 0));

    gasnet_barrier(5, 0);
    gex_Event_Wait(gex_AD_OpNB_U64(ad, &mine, me, counter, GEX_OP_GET, 0, 0, 0));
    CHECK(mine == UINT64_C(5) * nodes * (nodes + 1));
    gex_AD_Destroy(ad);
    first = me == nodes - 1 ? mine + 1 : 0;
    gex_Event_Wait(
        gex_Coll_BroadcastNB(amphora_team0, nodes - 1, &sum[me], &first, sizeof first, 0));
    CHECK(sum[me] == mine + 1);
}

static void check_segments(void)
{
    gasnet_seginfo_t seg[NODES];
    gasnet_nodeinfo_t info[NODES];

    CHECK(gasnet_getSegmentInfo(seg, (int)nodes) == GASNET_OK &&
          gasnet_getNodeInfo(info, (int)nodes) == GASNET_OK);
    for (gasnet_node_t i = 0; i < nodes; i++)
        CHECK(seg[i].addr == NULL && seg[i].size == (uintptr_t)-1 && info[i].offset == 0);
}

/* ---- distributed memory by page faults, as Shray has it ---- */

#define FAULT_PAGES 24

static struct {
    char *mem; /* pages of the next process; not accessible before the first access */
    char *copy;
    size_t page;
    gasnet_handle_t handle[FAULT_PAGES]; /* gets of every third page to copy */
    int faults;
} dsm;

static void *dsm_source(size_t page)
{
    return (void *)(uintptr_t)(where[(me + 1) % nodes][STATIC] + page * dsm.page);
}

/* A blocking get, or a wait for an earlier one, in the handler of the fault. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    const size_t off = (uintptr_t)info->si_addr - (uintptr_t)dsm.mem;
    const size_t page = off / dsm.page;

    (void)context;
    if (off >= FAULT_PAGES * dsm.page) {
        signal(sig, SIG_DFL);
        return;
    }

    dsm.faults++;
    CHECK(mprotect(dsm.mem + page * dsm.page, dsm.page, PROT_READ | PROT_WRITE) == 0);
    if (page % 3 == 0) {
        gasnet_wait_syncnb(dsm.handle[page]);
        memcpy(dsm.mem + page * dsm.page, dsm.copy + page * dsm.page, dsm.page);
    } else {
        gasnet_get_bulk(dsm.mem + page * dsm.page, (me + 1) % nodes, dsm_source(page), dsm.page);
    }
}

static void page_faults(void)
{
    struct sigaction catch = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    struct sigaction before;

    dsm.page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(FAULT_PAGES * dsm.page <= sizeof fixed);
    dsm.mem = mmap(NULL, FAULT_PAGES * dsm.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    dsm.copy = malloc(FAULT_PAGES * dsm.page);
    CHECK(dsm.mem != MAP_FAILED && dsm.copy);
    CHECK(sigemptyset(&catch.sa_mask) == 0 && sigaction(SIGSEGV, &catch, &before) == 0);
    for (size_t i = 0; i < FAULT_PAGES * dsm.page; i++)
        fixed[i] = (char)(me * 41 + i / dsm.page * 3 + i);

    meet();
    for (size_t page = 0; page < FAULT_PAGES; page += 3)
        dsm.handle[page] = gasnet_get_nb_bulk(dsm.copy + page * dsm.page, (me + 1) % nodes,
                                              dsm_source(page), dsm.page);

    for (size_t i = 0; i < FAULT_PAGES * dsm.page; i += 7)
        CHECK(dsm.mem[i] == (char)((me + 1) % nodes * 41 + i / dsm.page * 3 + i));

    CHECK(dsm.faults == FAULT_PAGES && sigaction(SIGSEGV, &before, NULL) == 0);
    CHECK(munmap(dsm.mem, FAULT_PAGES * dsm.page) == 0);
    free(dsm.copy);
    meet();
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = { { H_WHERE, (gex_AM_Fn_t)on_where },
                                      { H_LONG, (gex_AM_Fn_t)on_long },
                                      { H_LONG_BACK, (gex_AM_Fn_t)on_long_back } };

    if (gasnet_init(&argc, &argv) != GASNET_OK)
        return 1;

    me = gasnet_mynode();
    nodes = gasnet_nodes();
    seed = me + 1;
    CHECK(nodes <= NODES);
    CHECK(gasnet_getMaxLocalSegmentSize() == (uintptr_t)-1 &&
          gasnet_getMaxGlobalSegmentSize() == (uintptr_t)-1);
    CHECK(gasnet_attach(table, 3, 12345, 0) == GASNET_OK); /* the size is ignored */
    check_segments();

    char on_stack[ALL_BYTES];
    char *heap = malloc(ALL_BYTES);
    char *out = malloc(BYTES);
    char *in = malloc(BYTES);

    CHECK(heap && out && in);

    const uint64_t mine[PLACES] = { (uintptr_t)heap, (uintptr_t)on_stack, (uintptr_t)fixed };

    memset(on_stack, 0, sizeof on_stack);
    for (gasnet_node_t i = 0; i < nodes; i++)
        CHECK(gasnet_AMRequestMedium0(i, H_WHERE, (void *)mine, sizeof mine) == GASNET_OK);

    GASNET_BLOCKUNTIL(told == nodes);
    meet();

    for (gasnet_node_t step = 0; step < nodes; step++)
        for (int place = 0; place < PLACES; place++) {
            transfers((me + step) % nodes, place, out, in);
            long_messages((me + step) % nodes, place, out);
            pieces((me + step) % nodes, place, out, in);
        }

    meet();
    together(heap);
    meet();
    page_faults();
    gasnet_exit(0);

    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The GASNet-1 API: everything in gasnet.h, with data checks. */
#include "gasnet.h"

#include "tests/gex/gex_common.h"

enum {
    H_SHORT = 200,
    H_MEDIUM,
    H_LONG,
    H_ACK,
    H_MEDIUM_BACK,
    H_LONG_BACK,
    NHANDLERS = 7
};
#define PART (128 * 1024)

static gasnet_node_t me, nodes;
static gasnet_seginfo_t *seg;
static gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;
static volatile unsigned acks, requests;
static char out[PART], in[PART];

/* A long message is as large as a part, or as the network lets it be: where put and get travel as
 * messages that is less. */
static size_t long_bytes(void)
{
    size_t most = gasnet_AMMaxLongRequest() < gasnet_AMMaxLongReply() ? gasnet_AMMaxLongRequest()
                                                                      : gasnet_AMMaxLongReply();
    return most < PART ? most : PART;
}

static void on_short(gasnet_token_t token, gasnet_handlerarg_t a, gasnet_handlerarg_t b)
{
    gasnet_node_t src = nodes;

    CHECK(gasnet_AMGetMsgSource(token, &src) == GASNET_OK && (gasnet_handlerarg_t)src == a &&
          b == -a - 1);
    gasnet_hsl_lock(&lock);
    requests++;
    gasnet_hsl_unlock(&lock);
    CHECK(gasnet_AMReplyShort2(token, H_ACK, a, b) == GASNET_OK);
}

static void on_medium(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t a)
{
    CHECK(right(buf, nbytes, (uint32_t)a, 1) == nbytes);
    requests++;
    CHECK(gasnet_AMReplyMedium1(token, H_MEDIUM_BACK, buf, nbytes, a) == GASNET_OK);
}

static void on_long(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t a)
{
    CHECK(right(buf, nbytes, (uint32_t)a, 2) == nbytes &&
          (char *)buf == (char *)seg[me].addr + (size_t)a * PART);
    requests++;
    CHECK(gasnet_AMReplyLong1(token, H_LONG_BACK, buf, nbytes,
                              (char *)seg[a].addr + (size_t)(nodes + me) * PART, a) == GASNET_OK);
}

static void on_ack(gasnet_token_t token, gasnet_handlerarg_t a, gasnet_handlerarg_t b)
{
    (void)token;
    CHECK((gasnet_node_t)a == me && b == -a - 1);
    acks++;
}

static void on_medium_back(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t a)
{
    (void)token;
    CHECK((gasnet_node_t)a == me && right(buf, nbytes, me, 1) == nbytes);
    acks++;
}

static void on_long_back(gasnet_token_t token, void *buf, size_t nbytes, gasnet_handlerarg_t a)
{
    gasnet_node_t src;

    CHECK(gasnet_AMGetMsgSource(token, &src) == GASNET_OK);
    CHECK((gasnet_node_t)a == me && right(buf, nbytes, me, 2) == nbytes);
    CHECK((char *)buf == (char *)seg[me].addr + (size_t)(nodes + src) * PART);
    acks++;
}

static void never(gasnet_token_t token)
{
    (void)token;
    CHECK(!"called");
}

/* clang-format off */
static gasnet_handlerentry_t table[NHANDLERS] = {
    { H_SHORT, (gex_AM_Fn_t)on_short },  { H_MEDIUM, (gex_AM_Fn_t)on_medium },           { H_LONG, (gex_AM_Fn_t)on_long },
    { H_ACK, (gex_AM_Fn_t)on_ack },      { H_MEDIUM_BACK, (gex_AM_Fn_t)on_medium_back }, { H_LONG_BACK, (gex_AM_Fn_t)on_long_back },
    { 0, (gex_AM_Fn_t)never },
};
/* clang-format on */

static char *place(gasnet_node_t to)
{
    return (char *)seg[to].addr + (size_t)me * PART;
}

static void barrier(void)
{
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
}

static void test_messages(void)
{
    unsigned want = 0;
    gasnet_handlerarg_t id = (gasnet_handlerarg_t)me;

    size_t most = gasnet_AMMaxMedium() < PART ? gasnet_AMMaxMedium() : PART;

    for (gasnet_node_t to = 0; to < nodes; to++) {
        size_t n = to % 2 ? 100 : most;

        CHECK(gasnet_AMRequestShort2(to, H_SHORT, id, -id - 1) == GASNET_OK);
        CHECK(gasnet_AMRequestShort(to, H_SHORT, id, -id - 1) == GASNET_OK);
        fill(out, PART, me, 1);
        CHECK(gasnet_AMRequestMedium1(to, H_MEDIUM, out, n, id) == GASNET_OK);
        CHECK(gasnet_AMRequestMedium(to, H_MEDIUM, out, 1, id) == GASNET_OK);
        want += 4;
        GASNET_BLOCKUNTIL(acks == want);
        fill(out, PART, me, 2);
        CHECK(gasnet_AMRequestLong1(to, H_LONG, out, long_bytes(), place(to), id) == GASNET_OK);
        want++;
        GASNET_BLOCKUNTIL(acks == want);
        CHECK(gasnet_AMRequestLongAsync1(to, H_LONG, out, long_bytes(), place(to), id) ==
              GASNET_OK);
        want++;
        GASNET_BLOCKUNTIL(acks == want);
    }

    while (requests < want)
        CHECK(gasnet_AMPoll() == GASNET_OK);

    barrier();
    CHECK(requests == want);
}

static void test_blocking(gasnet_node_t to)
{
    uint64_t word = UINT64_C(0x1122334455667788) + me;
    uint64_t back = 0;

    gasnet_put(to, place(to), &word, 8);
    gasnet_get(&back, to, place(to), 8);
    CHECK(back == word);
    fill(out, PART, me, 3);
    gasnet_put_bulk(to, place(to) + 1, out, PART - 1);
    gasnet_get_bulk(in, to, place(to) + 1, PART - 1);
    CHECK(right(in, PART - 1, me, 3) == PART - 1);
    gasnet_memset(to, place(to) + 5, 0xa7, 1000);
    gasnet_get_bulk(in, to, place(to), 1006);
    CHECK((unsigned char)in[4] == pattern(me, 3, 3) &&
          (unsigned char)in[1005] == pattern(me, 3, 1004));
    for (int i = 5; i < 1005; i++)
        CHECK((unsigned char)in[i] == 0xa7);

    gasnet_put_val(to, place(to), 0x4321, 2);
    CHECK(gasnet_get_val(to, place(to), 2) == 0x4321 && gasnet_get_val(to, place(to), 1) == 0x21);
}

static void test_explicit(gasnet_node_t to)
{
    gasnet_handle_t h[6];

    fill(out, 9000, me, 4);
    h[0] = gasnet_put_nb(to, place(to), out, 1000);
    memset(out, 0, 1000); /* not bulk: the source is free */
    h[1] = gasnet_put_nb_bulk(to, place(to) + 1001, out + 1001, 7000);
    h[2] = gasnet_memset_nb(to, place(to) + 20000, 0x3c, 500);
    h[3] = gasnet_put_nb_val(to, place(to) + 30000, 0x77, 1);
    h[4] = GASNET_INVALID_HANDLE;
    h[5] = gasnet_memset_nb(to, place(to), 0, 0);
    gasnet_wait_syncnb_some(h, 6);
    while (gasnet_try_syncnb_some(h, 6) != GASNET_OK)
        ;

    while (gasnet_try_syncnb_all(h, 3) != GASNET_OK)
        ;

    gasnet_wait_syncnb_all(h, 6);
    for (int i = 0; i < 6; i++)
        CHECK(h[i] == GASNET_INVALID_HANDLE);

    gasnet_handle_t one = gasnet_get_nb(in, to, place(to), 1000);
    gasnet_handle_t two = gasnet_get_nb_bulk(in + 1001, to, place(to) + 1001, 7000);

    while (gasnet_try_syncnb(one) != GASNET_OK)
        ;

    gasnet_wait_syncnb(two);
    CHECK(gasnet_try_syncnb(GASNET_INVALID_HANDLE) == GASNET_OK && right(in, 1000, me, 4) == 1000);
    for (size_t i = 1001; i < 8001; i++)
        CHECK((unsigned char)in[i] == pattern(me, 4, i));

    gasnet_get(in, to, place(to) + 20000, 500);
    for (int i = 0; i < 500; i++)
        CHECK(in[i] == 0x3c);

    gasnet_valget_handle_t v[3];

    for (int i = 0; i < 3; i++)
        v[i] = gasnet_get_nb_val(to, place(to) + 30000 - i, (size_t)i + 1);

    CHECK(gasnet_wait_syncnb_valget(v[0]) == 0x77);
    CHECK((gasnet_wait_syncnb_valget(v[1]) & 0xff) == gasnet_get_val(to, place(to) + 29999, 1));
    gasnet_wait_syncnb_valget(v[2]);
}

static void test_implicit(gasnet_node_t to)
{
    fill(out, 40000, me, 5);
    for (int i = 0; i < 40; i++) {
        if (i % 2)
            gasnet_put_nbi(to, place(to) + i * 1000, out + i * 1000, 1000);
        else
            gasnet_put_nbi_bulk(to, place(to) + i * 1000, out + i * 1000, 1000);
    }

    gasnet_wait_syncnbi_puts();
    CHECK(gasnet_try_syncnbi_puts() == GASNET_OK);

    for (int i = 0; i < 40; i++) {
        if (i % 2)
            gasnet_get_nbi(in + i * 1000, to, place(to) + i * 1000, 1000);
        else
            gasnet_get_nbi_bulk(in + i * 1000, to, place(to) + i * 1000, 1000);
    }

    gasnet_wait_syncnbi_gets();
    CHECK(gasnet_try_syncnbi_gets() == GASNET_OK && right(in, 40000, me, 5) == 40000);
    gasnet_begin_nbi_accessregion();
    gasnet_put_nbi_val(to, place(to), 0x5a5a, 2);
    gasnet_memset_nbi(to, place(to) + 50000, 0x11, 3000);
    gasnet_get_nbi(in, to, place(to) + 1000, 1000);

    gasnet_handle_t region = gasnet_end_nbi_accessregion();

    CHECK(gasnet_try_syncnbi_all() == GASNET_OK);
    gasnet_wait_syncnb(region);
    CHECK(gasnet_get_val(to, place(to), 2) == 0x5a5a &&
          gasnet_get_val(to, place(to) + 52999, 1) == 0x11);
    gasnet_memset_nbi(to, place(to) + 50000, 0x12, 3000);
    gasnet_put_nbi_val(to, place(to) + 8, 7, 1);
    gasnet_wait_syncnbi_all();
    CHECK(gasnet_get_val(to, place(to) + 50000, 1) == 0x12 &&
          gasnet_get_val(to, place(to) + 8, 1) == 7);
}

static void test_small_things(void)
{
    gex_TM_t tm;
    gex_EP_t ep;
    gex_Client_t client;
    gex_Segment_t segment;
    gasnet_hsl_t l;

    gasnet_QueryGexObjects(&client, &ep, &tm, &segment);
    gasnet_QueryGexObjects(NULL, NULL, NULL, NULL);
    CHECK(gex_TM_QueryEP(tm) == ep && gex_EP_QuerySegment(ep) == segment &&
          gex_Segment_QueryAddr(segment) == seg[me].addr);
    CHECK(gex_Client_QueryFlags(client) == GEX_FLAG_USES_GASNET1);
    gasnet_hsl_init(&l);
    CHECK(gasnet_hsl_trylock(&l) == GASNET_OK && gasnet_hsl_trylock(&l) == GASNET_ERR_NOT_READY);
    gasnet_hsl_unlock(&l);
    gasnet_hsl_lock(&l);
    gasnet_hsl_unlock(&l);
    gasnet_hsl_destroy(&l);
    gasnet_hold_interrupts();
    gasnet_resume_interrupts();
    CHECK(gasnet_AMMaxArgs() == 16 && gasnet_AMMaxMedium() >= 65408 &&
          gasnet_AMMaxLongRequest() >= 60000 && gasnet_AMMaxLongReply() >= 60000);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BARRIER_MISMATCH), "GASNET_ERR_BARRIER_MISMATCH") ==
          0);
    CHECK(strlen(gasnet_ErrorDesc(GASNET_ERR_RESOURCE)) > 10 && strlen(gasnet_ErrorName(12)) > 3);
    CHECK(gasnet_set_waitmode(GASNET_WAIT_BLOCK) == GASNET_OK);
    barrier();
    CHECK(gasnet_set_waitmode(GASNET_WAIT_SPIN) == GASNET_OK &&
          gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK) == GASNET_OK);
    CHECK(table[6].index == 255); /* any handler: the highest free */
    gex_System_SetVerboseErrors(0);
    CHECK(gasnet_init(NULL, NULL) == GASNET_ERR_RESOURCE &&
          gasnet_attach(NULL, 0, 0, 0) == GASNET_ERR_RESOURCE);
    gex_System_SetVerboseErrors(1);
}

static void test_attach(int argc, char **argv)
{
    gasnet_handlerentry_t twice[] = { { 201, (gex_AM_Fn_t)never }, { 201, (gex_AM_Fn_t)never } };

    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    GASNET_BEGIN_FUNCTION();
    me = gasnet_mynode();
    nodes = gasnet_nodes();

    uintptr_t page = GASNET_PAGESIZE;
    uintptr_t size = ((uintptr_t)2 * nodes * PART + page - 1) / page * page;

    CHECK(gasnet_getMaxGlobalSegmentSize() >= size && gasnet_getMaxLocalSegmentSize() >= size);
    gex_System_SetVerboseErrors(0);
    CHECK(gasnet_attach(twice, 2, page, 0) == GASNET_ERR_BAD_ARG &&
          gasnet_attach(NULL, 1, page, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_attach(NULL, 0, page - 1, 0) == GASNET_ERR_BAD_ARG);
    gex_System_SetVerboseErrors(1);
    CHECK(gasnet_attach(table, NHANDLERS, size, 0) == GASNET_OK);
    seg = calloc(nodes + 1, sizeof *seg);
    seg[nodes].size = 99;
    CHECK(gasnet_getSegmentInfo(seg, (int)nodes + 1) == GASNET_OK && seg[nodes].size == 99);
    for (gasnet_node_t i = 0; i < nodes; i++)
        CHECK(seg[i].size == size && seg[i].addr);
}

int main(int argc, char **argv)
{
    gasnet_threadinfo_t info = GASNET_GET_THREADINFO();

    GASNET_POST_THREADINFO(info);
    test_attach(argc, argv);
    test_small_things();
    test_messages();

    for (gasnet_node_t to = 0; to < nodes; to++) {
        test_blocking(to);
        test_explicit(to);
        test_implicit(to);
    }

    barrier();
    gasnet_exit(0);
}

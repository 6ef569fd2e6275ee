/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory kinds: the host's is real, device kinds are refused with the reason; segments keep their
 * kind. */
#include "gasnet_mk.h"

#include "tests/gex/gex_common.h"

#if defined(GASNET_HAVE_MK_CLASS_CUDA_UVA) || defined(GASNET_HAVE_MK_CLASS_HIP) || \
    defined(GASNET_HAVE_MK_CLASS_ZE) || defined(GASNET_HAVE_MK_CLASS_MULTIPLE)
#error "no device kind is there"
#endif

static gex_Client_t client;

static void test_errors(void)
{
    gex_MK_Create_args_t args = { 0, GEX_MK_CLASS_CUDA_UVA, { { 0 } } };
    gex_MK_t mk = GEX_MK_INVALID;

    /* one process says the sentences, which the script looks for */
    gex_System_SetVerboseErrors(gex_System_QueryJobRank() == 0);
    CHECK(gex_MK_Create(&mk, client, &args, 0) == GASNET_ERR_BAD_ARG);
    args.gex_class = GEX_MK_CLASS_HIP;
    args.gex_args.gex_class_hip.gex_hipDevice = 0;
    CHECK(gex_MK_Create(&mk, client, &args, 0) == GASNET_ERR_BAD_ARG);
    args.gex_class = GEX_MK_CLASS_ZE;
    args.gex_args.gex_class_ze.gex_zeMemoryOrdinal = 0;
    CHECK(gex_MK_Create(&mk, client, &args, 0) == GASNET_ERR_BAD_ARG);
    args.gex_class = GEX_MK_CLASS_HOST;
    CHECK(gex_MK_Create(NULL, client, &args, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_MK_Create(&mk, client, NULL, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_MK_Create(&mk, GEX_CLIENT_INVALID, &args, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_MK_Create(&mk, client, &args, 4) == GASNET_ERR_BAD_ARG);
    args.gex_flags = 1;
    CHECK(gex_MK_Create(&mk, client, &args, 0) == GASNET_ERR_BAD_ARG);
    CHECK(mk == GEX_MK_INVALID);
    gex_System_SetVerboseErrors(1);
}

static void test_host(void)
{
    gex_MK_Create_args_t args = { 0, GEX_MK_CLASS_HOST, { { 0 } } };
    gex_MK_t mk;
    gex_Segment_t seg;
    int data;

    CHECK(gex_MK_QueryClass(GEX_MK_HOST) == GEX_MK_CLASS_HOST &&
          gex_MK_QueryClient(GEX_MK_HOST) == GEX_CLIENT_INVALID);
    CHECK(gex_MK_QueryFlags(GEX_MK_HOST) == 0 && gex_MK_QueryCData(GEX_MK_HOST) == NULL);
    CHECK(gex_MK_Create(&mk, client, &args, 0) == GASNET_OK && mk != GEX_MK_HOST &&
          mk != GEX_MK_INVALID);
    CHECK(gex_MK_QueryClass(mk) == GEX_MK_CLASS_HOST && gex_MK_QueryClient(mk) == client &&
          gex_MK_QueryFlags(mk) == 0);
    CHECK(gex_MK_QueryCData(mk) == NULL);
    gex_MK_SetCData(mk, &data);
    CHECK(gex_MK_QueryCData(mk) == &data && gex_MK_QueryCData(GEX_MK_HOST) == NULL);
    CHECK(gex_Segment_Create(&seg, client, NULL, 12345, mk, 0) == GASNET_OK &&
          gex_Segment_QueryFlags(seg) == 0);
    memset(gex_Segment_QueryAddr(seg), 7, gex_Segment_QuerySize(seg));
    CHECK(gex_Segment_Destroy(seg, 0) == GASNET_OK);
    gex_MK_Destroy(mk, 0);
}

int main(int argc, char **argv)
{
    gex_TM_t tm;

    if (gex_Client_Init(&client, NULL, &tm, "TEST_MK", &argc, &argv, 0) != GASNET_OK)
        return 2;

    CHECK(GASNET_MAXEPS > 1 && GEX_MK_INVALID == 0);
    CHECK(gex_Client_QueryFlags(client) == 0 &&
          strcmp(gex_Client_QueryName(client), "TEST_MK") == 0);
    test_errors();
    test_host();
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory kinds: host memory; device kinds are refused with the reason.  Layer: extended.  Thread
 * rule: any thread; client data is guarded by the client.
 */
#include "amphora/mk.h"

#include <stdlib.h>

#include "base/log.h"
#include "extended/ep/endpoint.h"

/* clang-format off */
static const char *const class_name[] = {
    [GEX_MK_CLASS_HOST] = "GEX_MK_CLASS_HOST",
    [GEX_MK_CLASS_CUDA_UVA] = "GEX_MK_CLASS_CUDA_UVA",
    [GEX_MK_CLASS_HIP] = "GEX_MK_CLASS_HIP",
    [GEX_MK_CLASS_ZE] = "GEX_MK_CLASS_ZE",
};
/* clang-format on */

struct amphora_mk *amph_gex_mk_of(gex_MK_t kind)
{
    return kind == GEX_MK_HOST ? amph_gex()->bounds->host : kind;
}

/* Returns the kind, or ends the job with a message. */
static struct amphora_mk *need(gex_MK_t kind, const char *call)
{
    amph_gex_need(call);
    if (!kind)
        amph_fatal("%s: GEX_MK_INVALID is no memory kind", call);

    return amph_gex_mk_of(kind);
}

int gex_MK_Create(gex_MK_t *memkind_p, gex_Client_t client, const gex_MK_Create_args_t *args,
                  gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex();

    if (!g)
        return GASNET_ERR_NOT_INIT;

    if (!memkind_p || !args || client != &g->client || flags || args->gex_flags ||
        (size_t)args->gex_class >= AMPH_COUNTOF(class_name)) {
        amph_gex_complain("gex_MK_Create: memkind_p and args must not be NULL, client be that of "
                          "gex_Client_Init, flags and gex_flags "
                          "0, and gex_class a GEX_MK_CLASS_");
        return GASNET_ERR_BAD_ARG;
    }

    if (args->gex_class != GEX_MK_CLASS_HOST) {
        amph_gex_complain("gex_MK_Create: %s is for device memory, for which this library was not "
                          "built; use GEX_MK_HOST",
                          class_name[args->gex_class]);
        return GASNET_ERR_BAD_ARG;
    }

    struct amphora_mk *mk = calloc(1, sizeof *mk);
    if (!mk)
        return GASNET_ERR_RESOURCE;

    mk->client = client;
    *memkind_p = mk;
    return GASNET_OK;
}

void gex_MK_Destroy(gex_MK_t memkind, gex_Flags_t flags)
{
    struct amphora_mk *mk = need(memkind, "gex_MK_Destroy");
    uint32_t segments = __atomic_load_n(&mk->segments, __ATOMIC_RELAXED);

    if (memkind == GEX_MK_HOST || flags)
        amph_fatal("gex_MK_Destroy: GEX_MK_HOST cannot be destroyed, and flags (%#x) must be 0",
                   (unsigned)flags);

    if (segments)
        amph_fatal("gex_MK_Destroy: %u segments of this kind still exist; destroy them first",
                   segments);

    free(mk);
}

gex_MK_Class_t gex_MK_QueryClass(gex_MK_t memkind)
{
    need(memkind, "gex_MK_QueryClass");
    return GEX_MK_CLASS_HOST;
}

gex_Client_t gex_MK_QueryClient(gex_MK_t memkind)
{
    return need(memkind, "gex_MK_QueryClient")->client;
}

gex_Flags_t gex_MK_QueryFlags(gex_MK_t memkind)
{
    return need(memkind, "gex_MK_QueryFlags")->flags;
}

void gex_MK_SetCData(gex_MK_t memkind, const void *val)
{
    need(memkind, "gex_MK_SetCData")->cdata = val;
}

void *gex_MK_QueryCData(gex_MK_t memkind)
{
    return (void *)need(memkind, "gex_MK_QueryCData")->cdata;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory kinds, for gasnet_mk.h: what kind of memory a segment has.  GASNet-EX spec, "Memory kinds".
 *
 * Host memory is the kind that this library has; of GASNET_HAVE_MK_CLASS_CUDA_UVA, _HIP, _ZE and
 * _MULTIPLE none is defined.
 */
#ifndef AMPHORA_MK_H
#define AMPHORA_MK_H

#include <stdint.h>

#include "amphora/endpoint.h"

AMPHORA_BEGIN_C

typedef enum {
    GEX_MK_CLASS_HOST,
    GEX_MK_CLASS_CUDA_UVA,
    GEX_MK_CLASS_HIP,
    GEX_MK_CLASS_ZE
} gex_MK_Class_t;

/* Which device a kind is for; the member that belongs to gex_class.  gex_flags: 0. */
typedef struct {
    uint64_t gex_flags;
    gex_MK_Class_t gex_class;
    union {
        struct {
            int gex_CUdevice;
        } gex_class_cuda_uva;
        struct {
            int gex_hipDevice;
        } gex_class_hip;
        struct {
            void *gex_zeDevice;
            void *gex_zeContext;
            uint32_t gex_zeMemoryOrdinal;
        } gex_class_ze;
    } gex_args;
} gex_MK_Create_args_t;

/* Makes a kind.  Not collective.  flags: 0.  GASNET_OK, GASNET_ERR_NOT_INIT, GASNET_ERR_BAD_ARG
 * (NULL, flags, no such class, or a device class: this library was built without),
 * GASNET_ERR_RESOURCE. */
int gex_MK_Create(gex_MK_t *memkind_p, gex_Client_t client, const gex_MK_Create_args_t *args,
                  gex_Flags_t flags);

/* Ends a kind of gex_MK_Create that no segment uses; else the job ends with a sentence. */
void gex_MK_Destroy(gex_MK_t memkind, gex_Flags_t flags);

/* GEX_MK_HOST belongs to no client (GEX_CLIENT_INVALID); its client data is the process's. */
gex_MK_Class_t gex_MK_QueryClass(gex_MK_t memkind);
gex_Client_t gex_MK_QueryClient(gex_MK_t memkind);
gex_Flags_t gex_MK_QueryFlags(gex_MK_t memkind);
void gex_MK_SetCData(gex_MK_t memkind, const void *val);
void *gex_MK_QueryCData(gex_MK_t memkind);

AMPHORA_END_C

#endif

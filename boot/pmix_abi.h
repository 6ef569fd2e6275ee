/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types and constants of PMIx that Amphora uses, declared here because its headers may not be
 * installed.  Their layout is fixed by the standard (version 4, "Data structures", "Constants").
 * Used by boot/pmix.c, which loads libpmix.so.2, and by the interposer, which intercepts its calls.
 *
 * Layer: boot.  Thread rule: declarations only.
 */
#ifndef AMPH_BOOT_PMIX_ABI_H
#define AMPH_BOOT_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PMIX_NSPACE_BYTES = 256,
    PMIX_KEY_BYTES = 512
};

enum {
    PMIX_OK = 0
};

enum {
    PMIX_TYPE_BOOL = 1,
    PMIX_TYPE_STRING = 3,
    PMIX_TYPE_UINT32 = 14,
    PMIX_TYPE_BYTES = 27
};

enum {
    PMIX_SCOPE_GLOBAL = 3
};
#define PMIX_RANK_ALL (UINT32_MAX - 1) /* the standard's wildcard */

struct pmix_proc {
    char nspace[PMIX_NSPACE_BYTES];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        bool flag;
        uint32_t number;
        char *string;
        struct {
            char *bytes;
            size_t size;
        } object;
        struct { /* the largest member of the standard's union */
            char *name, *value;
            char separator;
        } variable;
    } data;
};

struct pmix_info {
    char key[PMIX_KEY_BYTES];
    uint32_t flags;
    struct pmix_value value;
};

_Static_assert(sizeof(void *) != 8 || sizeof(struct pmix_proc) == 260,
               "the layout of the standard's types");
_Static_assert(sizeof(void *) != 8 || sizeof(struct pmix_value) == 32,
               "the layout of the standard's types");
_Static_assert(sizeof(void *) != 8 || sizeof(struct pmix_info) == 552,
               "the layout of the standard's types");

typedef int pmix_init_fn(struct pmix_proc *proc, struct pmix_info *info, size_t ninfo);
typedef int pmix_finalize_fn(const struct pmix_info *info, size_t ninfo);
typedef int pmix_get_fn(const struct pmix_proc *proc, const char *key, const struct pmix_info *info,
                        size_t ninfo, struct pmix_value **value_p);
typedef int pmix_fence_fn(const struct pmix_proc *procs, size_t nprocs,
                          const struct pmix_info *info, size_t ninfo);
typedef int pmix_fence_nb_fn(const struct pmix_proc *procs, size_t nprocs,
                             const struct pmix_info *info, size_t ninfo,
                             void (*done)(int status, void *arg), void *arg);

#endif

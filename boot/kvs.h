/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service of another launcher's process manager: rank, size, a key space and a fence over all
 * processes that it started.  Each protocol (PMI-1, PMI-2, PMIx) has one table of operations;
 * foreign.c makes a job from it.
 *
 * Layer: boot; internal.  Thread rule: one thread at a time.  Every call blocks until the process
 * manager answers or its connection ends.
 */
#ifndef AMPH_BOOT_KVS_H
#define AMPH_BOOT_KVS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct amph_kvs;

struct amph_kvs_ops {
    const char *name;
    /* connects and gets rank and size; logs its errors */
    enum amph_status (*open)(struct amph_kvs **kvs_p);
    /* name: letters, digits, '-'; unique in the job; at most AMPH_CONTROL_VALUE_MAX bytes */
    enum amph_status (*put)(struct amph_kvs *kvs, const char *name, const void *data,
                            size_t len_bytes);
    /* returns the value that process `owner` put before the last fence; data is allocated with one
     * spare byte.  AMPH_ERR_NOENT: no such value */
    enum amph_status (*get)(struct amph_kvs *kvs, uint32_t owner, const char *name, void **data_p,
                            size_t *len_p);
    enum amph_status (*fence)(struct amph_kvs *kvs);
    enum amph_status (*finalize)(struct amph_kvs *kvs);
    /* callable from any thread and from signal handlers */
    void (*abort)(struct amph_kvs *kvs, int code);
    void (*close)(struct amph_kvs *kvs); /* frees it */
};

struct amph_kvs {
    const struct amph_kvs_ops *ops;
    uint32_t rank, size;
};

extern const struct amph_kvs_ops amph_boot_kvs_pmi1, amph_boot_kvs_pmi2, amph_boot_kvs_pmix;

/* Reads a number of at least `min` from the environment; false: not set, or not such a number. */
bool amph_boot_kvs_env_number(const char *name, long min, long *value_p);
/* Bytes as hex digits and back; text has room for 2 * len_bytes + 1. */
void amph_boot_kvs_to_hex(char *text, const void *data, size_t len_bytes);
bool amph_boot_kvs_from_hex(void *data, const char *text, size_t len_bytes);

#endif

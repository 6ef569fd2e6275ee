/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of what processes under another launcher tell each other through its process manager,
 * PMIx or PMI: hosts, the job's secret, facts, published values, addresses of servers.  Run by
 * tests/fuzz/fuzz.sh.  An input is a row of values, each a byte of length (0: not set) and
 * its bytes, in the order in which they are asked for; the first byte gives the number of processes
 * and of servers.
 */
#include <stdlib.h>
#include <string.h>

#include "base/settings/env.h"
#include "boot/control.h"
#include "boot/kind.h"
#include "boot/kvs.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* What is offered to file clients is kept for ever, in the environment too. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static const uint8_t *at;
static size_t left;
static struct amph_kvs kvs;

static enum amph_status open_kvs(struct amph_kvs **kvs_p)
{
    *kvs_p = &kvs;
    return AMPH_OK;
}

static enum amph_status put(struct amph_kvs *k, const char *name, const void *data,
                            size_t len_bytes)
{
    return AMPH_OK;
}

static enum amph_status get(struct amph_kvs *k, uint32_t owner, const char *name, void **data_p,
                            size_t *len_p)
{
    size_t n = left ? at[0] : 0;

    if (n == 0) {
        left -= left > 0;
        at += left > 0;
        return AMPH_ERR_NOENT;
    }

    n = n < left - 1 ? n : left - 1;
    *data_p = malloc(n + 1); /* as the contract has it: one byte more, so that text can be ended */
    memcpy(*data_p, at + 1, n);
    *len_p = n;
    at += 1 + n;
    left -= 1 + n;

    return AMPH_OK;
}

static enum amph_status nothing(struct amph_kvs *k)
{
    return AMPH_OK;
}

static void abort_kvs(struct amph_kvs *k, int code)
{
}

static void close_kvs(struct amph_kvs *k)
{
}

#define KVS(words) \
    { \
        .name = words, .open = open_kvs, .put = put, .get = get, .fence = nothing, \
        .finalize = nothing, .abort = abort_kvs, .close = close_kvs \
    }
const struct amph_kvs_ops amph_boot_kvs_pmi1 = KVS("pmi1");
const struct amph_kvs_ops amph_boot_kvs_pmi2 = KVS("pmi2");
const struct amph_kvs_ops amph_boot_kvs_pmix = KVS("pmix");

static void touch(const void *bytes, size_t len)
{
    static volatile uint8_t sink;
    for (size_t i = 0; i < len; i++)
        sink ^= ((const uint8_t *)bytes)[i];
}

static void join(void)
{
    struct amph_boot *boot;
    void *value;
    size_t n;

    if (amph_boot_pmix.open(true, &boot) != AMPH_OK)
        return;

    boot->kind = &amph_boot_pmix;
    boot->joined = true;
    boot->job.proc[boot->self].stated = true;
    boot->job.proc[boot->self].pointer_bytes = 8;
    boot->job.proc[boot->self].page_bytes = 4096;
    boot->kind->publish(boot, "am", "mine", 4);

    if (boot->kind->exchange(boot, "am") == AMPH_OK) {
        boot->exchanged = true;
        for (uint32_t i = 0; i < boot->job.nproc[boot->group]; i++)
            touch(boot->value[i], boot->value_len[i]);

        for (uint32_t i = 0; i < boot->job.nhosts; i++)
            touch(boot->job.host_name[i], strlen(boot->job.host_name[i]));

        if (boot->kind->lookup(boot, 0, "seg", 0, &value, &n) == AMPH_OK) {
            touch(value, n);
            free(value);
        }
    }

    boot->kind->close(boot);
    amph_boot_jobdesc_free(&boot->job);
    free(boot->value);
    free(boot->value_len);
    free(boot->value_mem);
    free(boot);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 1)
        return 0;

    const bool servers = bytes[0] & 8;

    setenv("AMPHORA_SERVERS", servers ? "1" : "0", 1);
    amph_env_reload();
    kvs = (struct amph_kvs){ .ops = &amph_boot_kvs_pmix, .rank = 0, .size = 2 + bytes[0] % 4 };
    at = bytes + 1;
    left = len - 1;
    join();

    return 0;
}

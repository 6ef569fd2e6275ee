/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMIx, client side (mpirun of Open MPI, prun, srun --mpi=pmix).  libpmix.so.2 is loaded only if
 * such a launcher has started this process, so that neither the build nor programs depend on it.
 *
 * Layer: boot.  Thread rule: as kvs.h.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <signal.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "boot/control.h"
#include "boot/kvs.h"
#include "boot/pmix_abi.h"

enum {
    ABORT_LIMIT_S = 2
};

/* The functions of libpmix that are used, in the order of names[]. */
static struct {
    pmix_init_fn *init;
    pmix_finalize_fn *finalize;
    int (*abort)(int status, const char *message, struct pmix_proc *procs, size_t nprocs);
    int (*put)(uint8_t scope, const char *key, struct pmix_value *value);
    int (*commit)(void);
    pmix_fence_fn *fence;
    pmix_get_fn *get;
    const char *(*text)(int status);
} fn;

static const char *const names[] = { "PMIx_Init", "PMIx_Finalize",    "PMIx_Abort",
                                     "PMIx_Put",  "PMIx_Commit",      "PMIx_Fence",
                                     "PMIx_Get",  "PMIx_Error_string" };
_Static_assert(sizeof fn == sizeof names, "a name for each function");

struct pmix {
    struct amph_kvs base;
    struct pmix_proc self;
};

static struct pmix *own(struct amph_kvs *kvs)
{
    return (struct pmix *)kvs;
}

static bool load(void)
{
    static const char *const files[] = { "libpmix.so.2", "libpmix.so" };
    void *library = NULL;
    void *found[AMPH_COUNTOF(names)];

    if (fn.init)
        return true;

    for (size_t i = 0; i < AMPH_COUNTOF(files) && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        amph_error("a PMIx launcher has started this process, but libpmix.so.2 cannot be loaded "
                   "(%s); install it (Debian: libpmix2), or "
                   "let another launcher start the job",
                   dlerror());
        return false;
    }

    for (size_t i = 0; i < AMPH_COUNTOF(names); i++)
        if (!(found[i] = dlsym(library, names[i]))) {
            amph_error("libpmix.so.2 has no function %s; a newer version is needed", names[i]);
            return false;
        }

    memcpy(&fn, found, sizeof fn);
    return true;
}

static enum amph_status check(int status, const char *what)
{
    if (status == PMIX_OK)
        return AMPH_OK;

    amph_error("the PMIx server of this job fails: %s gives %s", what,
               fn.text(status));
    return AMPH_ERR_PEER;
}

static enum amph_status greet(struct pmix *p)
{
    struct pmix_value *value = NULL;
    enum amph_status st = check(fn.init(&p->self, NULL, 0), "PMIx_Init");

    if (st != AMPH_OK)
        return st;

    struct pmix_proc all = p->self;

    all.rank = PMIX_RANK_ALL;
    st = check(fn.get(&all, "pmix.job.size", NULL, 0, &value), "PMIx_Get of the job's size");

    if (st == AMPH_OK &&
        (!value || value->type != PMIX_TYPE_UINT32 || p->self.rank >= value->data.number))
        st = AMPH_ERR_PROTO;

    if (st == AMPH_OK) {
        p->base.rank = p->self.rank;
        p->base.size = value->data.number;
    }

    free(value);
    return st;
}

static void pmix_close(struct amph_kvs *kvs)
{
    free(kvs);
}

static enum amph_status pmix_open(struct amph_kvs **kvs_p)
{
    struct pmix *p = calloc(1, sizeof *p);

    if (!p)
        return AMPH_ERR_NOMEM;

    p->base.ops = &amph_boot_kvs_pmix;

    enum amph_status st = load() ? greet(p) : AMPH_ERR_NOENT;

    if (st == AMPH_OK)
        *kvs_p = &p->base;
    else
        pmix_close(&p->base);

    return st;
}

static enum amph_status pmix_put(struct amph_kvs *kvs, const char *name, const void *data,
                                 size_t len_bytes)
{
    /* one byte in front, because PMIx has no empty values */
    uint8_t bytes[1 + AMPH_CONTROL_VALUE_MAX] = { 0 };
    struct pmix_value value = { .type = PMIX_TYPE_BYTES };

    if (len_bytes > AMPH_CONTROL_VALUE_MAX)
        return AMPH_ERR_RANGE;

    if (len_bytes)
        memcpy(bytes + 1, data, len_bytes);

    value.data.object.bytes = (char *)bytes;
    value.data.object.size = 1 + len_bytes;
    return check(fn.put(PMIX_SCOPE_GLOBAL, name, &value), "PMIx_Put");
}

static enum amph_status pmix_get(struct amph_kvs *kvs, uint32_t owner, const char *name,
                                 void **data_p, size_t *len_p)
{
    struct pmix_proc from = own(kvs)->self;

    /* the fence has delivered all values: a missing one has not been put */
    struct pmix_info here = { .key = "pmix.optional",
                              .value = { .type = PMIX_TYPE_BOOL, .data.flag = true } };
    struct pmix_value *value = NULL;

    from.rank = owner;
    if (fn.get(&from, name, &here, 1, &value) != PMIX_OK || !value)
        return AMPH_ERR_NOENT;

    bool ok = value->type == PMIX_TYPE_BYTES && value->data.object.bytes &&
              value->data.object.size >= 1 && value->data.object.size <= 1 + AMPH_CONTROL_VALUE_MAX;
    size_t len = ok ? value->data.object.size - 1 : 0;
    char *copy = ok ? malloc(len + 1) : NULL;

    if (copy) {
        memcpy(copy, value->data.object.bytes + 1, len);
        *data_p = copy;
        *len_p = len;
    }

    if (value->type == PMIX_TYPE_BYTES)
        free(value->data.object.bytes);

    free(value);
    if (!ok)
        return AMPH_ERR_PROTO;

    return copy ? AMPH_OK : AMPH_ERR_NOMEM;
}

static enum amph_status pmix_fence(struct amph_kvs *kvs)
{
    struct pmix_info collect = { .key = "pmix.collect",
                                 .value = { .type = PMIX_TYPE_BOOL, .data.flag = true } };
    enum amph_status st = check(fn.commit(), "PMIx_Commit");
    sigset_t before;

    if (st != AMPH_OK)
        return st;

    amph_thread_wait_begin(&before); /* lasts until the last process enters it */
    st = check(fn.fence(NULL, 0, &collect, 1), "PMIx_Fence");
    amph_thread_wait_end(&before);
    return st;
}

static enum amph_status pmix_finalize(struct amph_kvs *kvs)
{
    return check(fn.finalize(NULL, 0), "PMIx_Finalize");
}

static void pmix_abort(struct amph_kvs *kvs, int code)
{
    /* the library is not async-signal-safe: if it hangs, an alarm ends the process and thereby the
     * job */
    signal(SIGALRM, SIG_DFL);
    alarm(ABORT_LIMIT_S);
    fn.abort(code, "amphora ends the job", NULL, 0);
}

const struct amph_kvs_ops amph_boot_kvs_pmix = {
    .name = "pmix",
    .open = pmix_open,
    .put = pmix_put,
    .get = pmix_get,
    .fence = pmix_fence,
    .finalize = pmix_finalize,
    .abort = pmix_abort,
    .close = pmix_close,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kind "single": a job of one process that no launcher started.  It is always available.
 *
 * Layer: boot.  Thread rule: as boot.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auth.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/kind.h"

struct single {
    struct amph_boot base;
    struct amph_values values;
};

static bool never(void)
{
    return false;
}

static enum amph_status single_open(bool join, struct amph_boot **boot_p)
{
    struct single *s = calloc(1, sizeof *s);
    char name[256] = "localhost";

    if (!s)
        return AMPH_ERR_NOMEM;

    if (gethostname(name, sizeof name - 1) != 0)
        snprintf(name, sizeof name, "localhost");

    struct amph_jobdesc *job = &s->base.job;

    job->nproc[AMPH_COMPUTE] = 1;
    job->host_name = calloc(1, sizeof *job->host_name);
    job->proc = calloc(1, sizeof *job->proc);

    if (!job->host_name || !job->proc || !(job->host_name[0] = strdup(name))) {
        free(job->host_name);
        free(job->proc);
        free(s);
        return AMPH_ERR_NOMEM;
    }

    job->nhosts = 1;
    job->proc[0].pid = (uint64_t)getpid();
    amph_random(&job->id, sizeof job->id);
    amph_random(job->key, sizeof job->key);
    *boot_p = &s->base;

    return AMPH_OK;
}

static enum amph_status single_publish(struct amph_boot *boot, const char *key, const void *value,
                                       size_t len_bytes)
{
    return amph_boot_values_set(&((struct single *)boot)->values, key, value, len_bytes);
}

static enum amph_status single_state(struct amph_boot *boot)
{
    return AMPH_OK;
}

static enum amph_status single_exchange(struct amph_boot *boot, const char *key)
{
    enum amph_status st = amph_boot_alloc_values(boot, 1);
    const struct amph_value *v = amph_boot_values_get(&((struct single *)boot)->values, key);

    if (st == AMPH_OK && v) {
        if (!(boot->value_mem = malloc(v->len_bytes + 1)))
            return AMPH_ERR_NOMEM;

        memcpy(boot->value_mem, v->data, v->len_bytes);
        boot->value[0] = boot->value_mem;
        boot->value_len[0] = v->len_bytes;
    }

    return st;
}

static enum amph_status single_lookup(struct amph_boot *boot, uint32_t rank, const char *key,
                                      uint64_t timeout_ns, void **value_p, size_t *len_p)
{
    const struct amph_value *v = amph_boot_values_get(&((struct single *)boot)->values, key);

    if (!v)
        return AMPH_ERR_NOENT;

    void *copy = malloc(v->len_bytes + 1);
    if (!copy)
        return AMPH_ERR_NOMEM;

    memcpy(copy, v->data, v->len_bytes);
    *value_p = copy;
    *len_p = v->len_bytes;

    return AMPH_OK;
}

static enum amph_status single_wait_servers(struct amph_boot *boot, uint64_t timeout_ns)
{
    return AMPH_OK;
}

static int single_fd(const struct amph_boot *boot)
{
    return -1;
}

static enum amph_status single_progress(struct amph_boot *boot, struct amph_boot_event *event_p)
{
    return AMPH_AGAIN;
}

static enum amph_status single_leave(struct amph_boot *boot, bool exit_called, int code)
{
    return AMPH_OK;
}

static void single_abort(struct amph_boot *boot, int code)
{
    /* the caller ends the process, which ends the job */
}

static void single_close(struct amph_boot *boot)
{
    amph_boot_values_free(&((struct single *)boot)->values);
}

const struct amph_boot_kind amph_boot_single = {
    .name = "single",
    .belongs = never,
    .open = single_open,
    .publish = single_publish,
    .state = single_state,
    .exchange = single_exchange,
    .lookup = single_lookup,
    .wait_servers = single_wait_servers,
    .fd = single_fd,
    .progress = single_progress,
    .leave = single_leave,
    .abort = single_abort,
    .close = single_close,
};

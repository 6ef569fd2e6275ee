/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public functions of boot.h, over one table of kinds.
 *
 * Layer: boot.  Thread rule: as boot.h.
 */
#include "boot/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/platform.h"
#include "boot/control.h"
#include "boot/kind.h"

static const struct amph_boot_kind *const kinds[AMPH_BOOT_KINDS] = {
    [AMPH_BOOT_STANDING] = &amph_boot_standing, [AMPH_BOOT_LAUNCHER] = &amph_boot_launcher,
    [AMPH_BOOT_PMIX] = &amph_boot_pmix,         [AMPH_BOOT_PMI2] = &amph_boot_pmi2,
    [AMPH_BOOT_PMI1] = &amph_boot_pmi1,         [AMPH_BOOT_SINGLE] = &amph_boot_single
};

static void fatal_hook(int exit_code)
{
    if (amph_boot_process.joined)
        amph_boot_abort(amph_boot_process.joined, exit_code);
}

static void set_identity(const struct amph_boot *boot)
{
    static const char *const words[AMPH_NGROUPS] = { "compute", "server" };
    char who[96];

    if (boot->self == AMPH_RANK_NONE || amph_boot_jobdesc_total(&boot->job) == 1)
        return;

    snprintf(who, sizeof who, "%s %u (%.60s)", words[boot->group],
             boot->self - amph_boot_first(boot, boot->group),
             boot->job.host_name[boot->job.proc[boot->self].host]);
    amph_log_identity(who);
}

/* The first kind by which this process can attach; AMPH_BOOT_KINDS: none. */
static enum amph_boot_number find_belonging(void)
{
    unsigned forced = amph_env_enum(AMPH_ENV_BOOT);
    unsigned i = 0;

    while (i < AMPH_BOOT_KINDS && ((forced && forced - 1 != i) || !kinds[i]->belongs()))
        i++;

    return (enum amph_boot_number)i;
}

static enum amph_status choose(bool join, const struct amph_boot_kind **kind_p)
{
    enum amph_boot_number number = join ? amph_boot_present() : find_belonging();

    if (number < AMPH_BOOT_KINDS) {
        *kind_p = kinds[number];
        return AMPH_OK;
    }

    if (join)
        amph_error(
            "AMPHORA_BOOT=%s: this process was not started in that way; leave AMPHORA_BOOT unset",
            amph_env_str(AMPH_ENV_BOOT));

    return AMPH_ERR_NOENT;
}

static enum amph_status open_handle(bool join, struct amph_boot **boot_p)
{
    const struct amph_boot_kind *kind;
    struct amph_boot *boot = NULL;
    enum amph_status st = choose(join, &kind);

    if (st == AMPH_OK)
        st = kind->open(join, &boot);

    if (st != AMPH_OK)
        return st;

    boot->kind = kind;
    boot->joined = join;
    set_identity(boot);
    *boot_p = boot;

    return AMPH_OK;
}

enum amph_status amph_boot_join(struct amph_boot **boot_p)
{
    if (amph_boot_process.joined) {
        amph_error("this process has joined its job already; a process takes its place once");
        return AMPH_ERR_STATE;
    }

    enum amph_status st = open_handle(true, boot_p);

    if (st == AMPH_OK) {
        amph_boot_process.joined = *boot_p;
        amph_fatal_hooks.end_job = fatal_hook;
    }

    return st;
}

enum amph_status amph_boot_attach(struct amph_boot **boot_p)
{
    return open_handle(false, boot_p);
}

const char *amph_boot_kind(const struct amph_boot *boot)
{
    return boot->kind->name;
}

const struct amph_jobdesc *amph_boot_job(const struct amph_boot *boot)
{
    return &boot->job;
}

uint32_t amph_boot_self(const struct amph_boot *boot)
{
    return boot->self;
}

enum amph_group amph_boot_group(const struct amph_boot *boot)
{
    return boot->group;
}

uint32_t amph_boot_first(const struct amph_boot *boot, enum amph_group group)
{
    return group == AMPH_COMPUTE ? 0 : boot->job.nproc[AMPH_COMPUTE];
}

enum amph_status amph_boot_publish(struct amph_boot *boot, const char *key, const void *value,
                                   size_t len_bytes)
{
    if (!boot->joined || boot->left)
        return AMPH_ERR_STATE;

    if (!amph_boot_key_ok(key) || len_bytes > AMPH_CONTROL_VALUE_MAX) {
        amph_error("cannot publish \"%s\" of %zu bytes: a key is 1 to %d of a-z 0-9 -, a value at "
                   "most %d bytes",
                   key, len_bytes, AMPH_CONTROL_KEY_MAX, AMPH_CONTROL_VALUE_MAX);
        return AMPH_ERR_ARG;
    }

    return boot->kind->publish(boot, key, value, len_bytes);
}

enum amph_status amph_boot_state(struct amph_boot *boot, uint64_t memory_bytes, uint64_t area_bytes)
{
    if (!boot->joined || boot->left || boot->self == AMPH_RANK_NONE)
        return AMPH_ERR_STATE;

    struct amph_proc *p = &boot->job.proc[boot->self];

    p->stated = true;
    p->big_endian = (AMPH_BIG_ENDIAN != 0) != amph_env_bool(AMPH_ENV_TEST_SWAP);
    p->pointer_bytes = amph_pointer_bytes();
    p->page_bytes = (uint32_t)amph_page_bytes();
    p->memory_bytes = memory_bytes;
    p->area_bytes = area_bytes;
    p->pid = (uint64_t)getpid();

    return boot->kind->state(boot);
}

enum amph_status amph_boot_alloc_values(struct amph_boot *boot, uint32_t n)
{
    boot->value = calloc(n, sizeof *boot->value);
    boot->value_len = calloc(n, sizeof *boot->value_len);
    return boot->value && boot->value_len ? AMPH_OK : AMPH_ERR_NOMEM;
}

enum amph_status amph_boot_exchange(struct amph_boot *boot, const char *key,
                                    const void *const **value_p, const size_t **len_p)
{
    if (!boot->joined || boot->left || boot->exchanged)
        return AMPH_ERR_STATE;
    if (!amph_boot_key_ok(key))
        return AMPH_ERR_ARG;

    boot->exchanged = true;

    enum amph_status st = boot->kind->exchange(boot, key);

    if (st == AMPH_OK) {
        *value_p = boot->value;
        *len_p = boot->value_len;
    }

    return st;
}

void amph_boot_forget(struct amph_boot *boot)
{
    free(boot->value);
    free(boot->value_len);
    free(boot->value_mem);
    boot->value = NULL;
    boot->value_len = NULL;
    boot->value_mem = NULL;
}

enum amph_status amph_boot_lookup(struct amph_boot *boot, uint32_t rank, const char *key,
                                  uint64_t timeout_ns, void **value_p, size_t *len_p)
{
    if (rank >= amph_boot_jobdesc_total(&boot->job))
        return AMPH_ERR_RANGE;
    if (!amph_boot_key_ok(key))
        return AMPH_ERR_ARG;

    return boot->kind->lookup(boot, rank, key, timeout_ns, value_p, len_p);
}

enum amph_status amph_boot_wait_servers(struct amph_boot *boot, uint64_t timeout_ns)
{
    return boot->job.nproc[AMPH_SERVER] == 0 ? AMPH_OK : boot->kind->wait_servers(boot, timeout_ns);
}

int amph_boot_fd(const struct amph_boot *boot)
{
    return boot->kind->fd(boot);
}

enum amph_status amph_boot_progress(struct amph_boot *boot, struct amph_boot_event *event_p)
{
    return boot->kind->progress(boot, event_p);
}

enum amph_status amph_boot_leave(struct amph_boot *boot, bool exit_called, int code)
{
    if (!boot->joined)
        return AMPH_ERR_STATE;
    if (boot->left)
        return AMPH_OK;

    boot->left = true;
    return boot->kind->leave(boot, exit_called, code);
}

void amph_boot_abort(struct amph_boot *boot, int code)
{
    boot->kind->abort(boot, code);
}

void amph_boot_close(struct amph_boot *boot)
{
    if (!boot)
        return;

    if (amph_boot_process.joined == boot) {
        amph_boot_process.joined = NULL;
        amph_fatal_hooks.end_job = NULL;
    }

    boot->kind->close(boot);
    amph_boot_jobdesc_free(&boot->job);
    amph_boot_forget(boot);
    free(boot);
}

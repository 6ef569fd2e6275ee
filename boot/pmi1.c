/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kind `pmi1`: joining under another launcher's PMI-1 server.  Layer: boot.  Thread rule: as boot.h.
 *
 * PMI gives one key space and one fence to all processes of the job.  Joining takes a first fence, after which everybody knows each
 * process's host (node name and boot id), the key that process 0 has made, and, by AMPHORA_SERVERS, which processes are servers;
 * the exchange takes a second one.  Names in the key space: aj (job), aN-h (host), aN-f (facts), aN-v-KEY (values) of process N.
 */
#include "boot/pmi1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "boot/control.h"
#include "boot/kind.h"

struct pmi1 {
    struct amph_boot base;
    struct amph_pmi pmi;
    struct amph_values values; /* published before the exchange */
};

static struct pmi1 *own(struct amph_boot *boot)
{
    return (struct pmi1 *)boot;
}

static bool pmi1_never(void)
{
    return false;
}

/* ---- joining ---- */

/* "NODE BOOT-ID": two processes are on one host when both agree (containers share boot ids, clones share node names). */
static void host_text(char *text, size_t cap)
{
    struct utsname u;
    char boot_id[40] = "-";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, boot_id, sizeof boot_id - 1) : 0;
    if (fd >= 0)
        close(fd);
    if (n > 0)
        boot_id[n] = 0;
    boot_id[strcspn(boot_id, "\n")] = 0;
    if (uname(&u) != 0)
        snprintf(u.nodename, sizeof u.nodename, "localhost");
    snprintf(text, cap, "%s %s", u.nodename, boot_id);
}

static enum amph_status put_own(struct pmi1 *p)
{
    char name[32], host[160];
    uint8_t secret[8 + AMPH_KEY_BYTES];
    host_text(host, sizeof host);
    snprintf(name, sizeof name, "a%u-h", p->pmi.rank);
    enum amph_status st = amph_pmi_put(&p->pmi, name, host, strlen(host));
    if (st == AMPH_OK && p->pmi.rank == 0) {
        amph_random(secret, sizeof secret);
        st = amph_pmi_put(&p->pmi, "aj", secret, sizeof secret);
    }
    return st == AMPH_OK ? amph_pmi_barrier(&p->pmi) : st;
}

static enum amph_status get_secret(struct pmi1 *p)
{
    void *data;
    size_t len;
    enum amph_status st = amph_pmi_get(&p->pmi, "aj", &data, &len);
    if (st != AMPH_OK)
        return st;
    struct amph_rd r;
    amph_rd_init(&r, data, len);
    p->base.job.id = amph_rd_u64(&r);
    const void *key = amph_rd_bytes(&r, AMPH_KEY_BYTES);
    if (key)
        memcpy(p->base.job.key, key, AMPH_KEY_BYTES);
    free(data);
    return key ? AMPH_OK : AMPH_ERR_PROTO;
}

/* Gives the index of a host text, adding it where it is new; the boot id is cut off at the end (name_hosts). */
static uint32_t host_index(struct amph_jobdesc *job, char *text)
{
    for (uint32_t h = job->nhosts; h-- > 0;) /* processes of one host mostly follow each other */
        if (strcmp(job->host_name[h], text) == 0) {
            free(text);
            return h;
        }
    job->host_name[job->nhosts] = text;
    return job->nhosts++;
}

static enum amph_status get_hosts(struct pmi1 *p)
{
    struct amph_jobdesc *job = &p->base.job;
    char name[32];
    job->host_name = calloc(p->pmi.size, sizeof *job->host_name);
    job->proc = calloc(p->pmi.size, sizeof *job->proc);
    if (!job->host_name || !job->proc)
        return AMPH_ERR_NOMEM;
    for (uint32_t i = 0; i < p->pmi.size; i++) {
        void *text;
        size_t len;
        snprintf(name, sizeof name, "a%u-h", i);
        enum amph_status st = amph_pmi_get(&p->pmi, name, &text, &len);
        if (st != AMPH_OK)
            return st;
        ((char *)text)[len] = 0;
        job->proc[i].host = host_index(job, text);
    }
    for (uint32_t h = 0; h < job->nhosts; h++)
        *strchrnul((char *)job->host_name[h], ' ') = 0;
    return AMPH_OK;
}

static enum amph_status split(struct pmi1 *p)
{
    struct amph_jobdesc *job = &p->base.job;
    uint32_t servers = (uint32_t)amph_env_int(AMPH_ENV_SERVERS), size = p->pmi.size;
    if (servers >= size) {
        amph_error("AMPHORA_SERVERS=%u leaves no compute process in a job of %u; start more processes or fewer servers", servers,
                   size);
        return AMPH_ERR_ARG;
    }
    uint32_t compute = size - servers;
    job->nproc[AMPH_COMPUTE] = compute;
    job->nproc[AMPH_SERVER] = servers;
    p->base.self = p->pmi.rank;
    p->base.group = p->pmi.rank >= compute ? AMPH_SERVER : AMPH_COMPUTE;
    if (servers == 0)
        return AMPH_OK;
    if (!(job->server_of = calloc(compute, sizeof *job->server_of)))
        return AMPH_ERR_NOMEM;
    for (uint32_t c = 0; c < compute; c++)
        job->server_of[c] = compute + c % servers;
    return AMPH_OK;
}

static void pmi1_close(struct amph_boot *boot)
{
    amph_values_free(&own(boot)->values);
    if (own(boot)->pmi.fd >= 0)
        close(own(boot)->pmi.fd);
}

static enum amph_status pmi1_open(bool join, struct amph_boot **boot_p)
{
    struct pmi1 *p = calloc(1, sizeof *p);
    if (!p)
        return AMPH_ERR_NOMEM;
    enum amph_status st = amph_pmi_open(&p->pmi);
    if (st == AMPH_OK)
        st = split(p);
    if (st == AMPH_OK)
        st = put_own(p);
    if (st == AMPH_OK)
        st = get_secret(p);
    if (st == AMPH_OK)
        st = get_hosts(p);
    if (st != AMPH_OK) {
        pmi1_close(&p->base);
        amph_jobdesc_free(&p->base.job);
        free(p);
        return st;
    }
    *boot_p = &p->base;
    return AMPH_OK;
}

/* ---- publishing and asking ---- */

static enum amph_status put_value(struct pmi1 *p, const char *key, const void *value, size_t len_bytes)
{
    char name[64];
    snprintf(name, sizeof name, "a%u-v-%s", p->pmi.rank, key);
    return amph_pmi_put(&p->pmi, name, value, len_bytes);
}

static enum amph_status pmi1_publish(struct amph_boot *boot, const char *key, const void *value, size_t len_bytes)
{
    /* Kept until the exchange: a key may be put once, and the last value counts. */
    if (boot->exchanged)
        return put_value(own(boot), key, value, len_bytes);
    return amph_values_set(&own(boot)->values, key, value, len_bytes);
}

static enum amph_status pmi1_state(struct amph_boot *boot)
{
    return boot->exchanged ? AMPH_ERR_STATE : AMPH_OK; /* the facts go out with the exchange */
}

static enum amph_status put_all(struct pmi1 *p)
{
    uint8_t facts[AMPH_CONTROL_FACTS_BYTES];
    char name[32];
    struct amph_wr w;
    amph_wr_init(&w, facts, sizeof facts);
    amph_facts_put(&w, &p->base.job.proc[p->pmi.rank]);
    snprintf(name, sizeof name, "a%u-f", p->pmi.rank);
    enum amph_status st = amph_pmi_put(&p->pmi, name, facts, amph_wr_len(&w));
    for (size_t i = 0; i < p->values.n && st == AMPH_OK; i++)
        st = put_value(p, p->values.at[i].key, p->values.at[i].data, p->values.at[i].len_bytes);
    return st;
}

static enum amph_status get_facts(struct pmi1 *p, uint32_t rank)
{
    char name[32];
    void *data;
    size_t len;
    struct amph_rd r;
    snprintf(name, sizeof name, "a%u-f", rank);
    enum amph_status st = amph_pmi_get(&p->pmi, name, &data, &len);
    if (st != AMPH_OK)
        return st;
    amph_rd_init(&r, data, len);
    amph_facts_get(&r, &p->base.job.proc[rank]);
    free(data);
    return r.bad ? AMPH_ERR_PROTO : AMPH_OK;
}

static enum amph_status pmi1_lookup(struct amph_boot *boot, uint32_t rank, const char *key, uint64_t timeout_ns, void **value_p,
                                    size_t *len_p)
{
    char name[64];
    snprintf(name, sizeof name, "a%u-v-%s", rank, key);
    return amph_pmi_get(&own(boot)->pmi, name, value_p, len_p);
}

/* All values in one piece of memory, which the handle keeps. */
static enum amph_status collect_values(struct amph_boot *boot, const char *key)
{
    uint32_t n = boot->job.nproc[boot->group], first = amph_boot_first(boot, boot->group);
    uint8_t *mem = malloc((size_t)n * AMPH_CONTROL_VALUE_MAX);
    size_t at = 0;
    if (!(boot->value_mem = mem))
        return AMPH_ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        void *data;
        enum amph_status st = pmi1_lookup(boot, first + i, key, 0, &data, &boot->value_len[i]);
        boot->value[i] = mem + at;
        if (st == AMPH_ERR_NOENT)
            continue; /* published nothing: an empty value, as under the launcher */
        if (st != AMPH_OK)
            return st;
        memcpy(mem + at, data, boot->value_len[i]);
        at += boot->value_len[i];
        free(data);
    }
    return AMPH_OK;
}

static enum amph_status pmi1_exchange(struct amph_boot *boot, const char *key)
{
    enum amph_status st = amph_boot_alloc_values(boot, boot->job.nproc[boot->group]);
    if (st == AMPH_OK)
        st = put_all(own(boot));
    if (st == AMPH_OK)
        st = amph_pmi_barrier(&own(boot)->pmi);
    for (uint32_t i = 0; i < amph_jobdesc_total(&boot->job) && st == AMPH_OK; i++)
        st = get_facts(own(boot), i);
    return st == AMPH_OK ? collect_values(boot, key) : st;
}

static enum amph_status pmi1_wait_servers(struct amph_boot *boot, uint64_t timeout_ns)
{
    return boot->exchanged ? AMPH_OK : AMPH_ERR_STATE; /* the fence of the exchange covers them */
}

/* ---- leaving ---- */

static int pmi1_fd(const struct amph_boot *boot)
{
    return -1;
}

static enum amph_status pmi1_progress(struct amph_boot *boot, struct amph_boot_event *event_p)
{
    return AMPH_AGAIN; /* PMI-1 has no events */
}

static void pmi1_abort(struct amph_boot *boot, int code)
{
    amph_pmi_abort(&own(boot)->pmi, code);
}

static enum amph_status pmi1_leave(struct amph_boot *boot, bool exit_called, int code)
{
    if (!exit_called || code == 0)
        return amph_pmi_finalize(&own(boot)->pmi);
    pmi1_abort(boot, code);
    return AMPH_OK;
}

const struct amph_boot_kind amph_boot_pmi1 = {
    .name = "pmi1",
    .present = amph_pmi_present,
    .belongs = pmi1_never,
    .open = pmi1_open,
    .publish = pmi1_publish,
    .state = pmi1_state,
    .exchange = pmi1_exchange,
    .lookup = pmi1_lookup,
    .wait_servers = pmi1_wait_servers,
    .fd = pmi1_fd,
    .progress = pmi1_progress,
    .leave = pmi1_leave,
    .abort = pmi1_abort,
    .close = pmi1_close,
};

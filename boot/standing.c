/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind "standing"; see standing.h.  Layer: boot.  Thread rule: as boot.h. */
#include "boot/standing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "boot/control.h"
#include "boot/kind.h"

/* The text of amph_boot_standing_own, or the text that an ancestor process has put into the
 * environment (with ';' for newlines); NULL: use the file. */
static const char *given_text(void)
{
    const char *text = amph_env_str(AMPH_ENV_IOFWD_OWN_SERVERS);

    if (amph_boot_process.own_text || !text[0] || amph_env_str(AMPH_ENV_JOB)[0])
        return amph_boot_process.own_text;

    if (!amph_boot_process.inherited_text) {
        char *copy = strdup(text);

        if (!copy)
            amph_fatal("there is no memory for the address of the process's own I/O server");

        for (char *c = copy; *c; c++)
            *c = *c == ';' ? '\n' : *c;

        amph_boot_process.inherited_text = copy;
    }

    return amph_boot_process.inherited_text;
}

struct standing {
    struct amph_boot base;
    struct amph_standing set;           /* of a client */
    struct amph_standing_config config; /* of a server */
    bool ended;
};

void amph_boot_standing_own(const char *text)
{
    amph_boot_process.own_text = text;
}

static const enum amph_env_id foreign[] = { AMPH_ENV_OMPI_RANK, AMPH_ENV_PMIX_RANK,
                                            AMPH_ENV_PMI_RANK, AMPH_ENV_SLURM_PROCID };
#define MPIRUN_ROWS 2 /* the first rows, which amphora-run itself never sets */

static uint32_t rank_among(const enum amph_env_id *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = amph_env_str(rows[i]);
        char *end;
        unsigned long v = strtoul(text, &end, 10);

        if (text[0] >= '0' && text[0] <= '9' && *end == 0 && v < AMPH_RANK_NONE)
            return (uint32_t)v;
    }

    return AMPH_RANK_NONE;
}

uint32_t amph_boot_foreign_rank(void)
{
    return rank_among(foreign, AMPH_COUNTOF(foreign));
}

uint32_t amph_boot_rank_inside(const struct amph_boot *boot)
{
    uint32_t rank = strcmp(amph_boot_kind(boot), "launcher") == 0 ? rank_among(foreign, MPIRUN_ROWS)
                                                                  : AMPH_RANK_NONE;
    return rank == AMPH_RANK_NONE ? 0 : rank;
}

/* ---- the kind ---- */

/* Does an address file of standing servers exist?  Clients may start before the servers, so this
 * waits up to AMPHORA_JOB_WAIT for the file to appear. */
static bool standing_belongs(void)
{
    const char *path = amph_env_str(AMPH_ENV_JOB);
    uint64_t deadline = amph_now_ns() + amph_env_ns(AMPH_ENV_JOB_WAIT);
    struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

    if (given_text())
        return true;
    if (!path[0])
        return false;

    /* usually the file is there */
    if (access(path, R_OK) != 0) {
        sigset_t before;

        amph_thread_wait_begin(&before);
        while (access(path, R_OK) != 0 && amph_now_ns() < deadline)
            nanosleep(&pause, NULL);

        amph_thread_wait_end(&before);
    }

    return amph_boot_standing_is(path);
}

/* Returns the host's index, with a new one for a new name; UINT32_MAX: no memory. */
static uint32_t host_index(struct amph_jobdesc *job, const char *name)
{
    uint32_t i = 0;

    while (i < job->nhosts && strcmp(job->host_name[i], name) != 0)
        i++;

    if (i == job->nhosts && (job->host_name[i] = strdup(name)) != NULL)
        job->nhosts++;

    return i < job->nhosts ? i : UINT32_MAX;
}

/* Fills the job description: the servers, usually without compute processes. */
static enum amph_status describe(struct standing *s, uint32_t n, const char *conduit)
{
    struct amph_jobdesc *job = &s->base.job;
    char name[256] = "localhost";
    uint32_t compute = s->set.ncompute;

    job->nproc[AMPH_COMPUTE] = compute;
    job->nproc[AMPH_SERVER] = n;
    job->host_name = calloc(n + 1, sizeof *job->host_name);
    job->proc = calloc(compute + n, sizeof *job->proc);
    job->server_of = compute && n ? calloc(compute, sizeof *job->server_of) : NULL;
    if (!job->host_name || !job->proc || (compute && n && !job->server_of))
        return AMPH_ERR_NOMEM;

    if (gethostname(name, sizeof name - 1) != 0)
        snprintf(name, sizeof name, "localhost");

    for (uint32_t i = 0; i < n; i++) {
        job->proc[compute + i].host = host_index(job, s->set.n ? s->set.server[i].host : name);
        job->proc[compute + i].pid = s->set.n ? s->set.server[i].pid : 0;

        if (job->proc[compute + i].host == UINT32_MAX)
            return AMPH_ERR_NOMEM;
    }

    job->self_host = host_index(job, name);
    if (job->self_host == UINT32_MAX)
        return AMPH_ERR_NOMEM;

    /* a file client does not need the hosts of the others */
    for (uint32_t c = 0; c < compute; c++) {
        job->proc[c].host = job->self_host;
        job->server_of[c] = compute + c % n;
    }

    snprintf(job->conduit, sizeof job->conduit, "%s", conduit);
    job->several_machines = conduit[0] != 0;
    return AMPH_OK;
}

static enum amph_status standing_open(bool join, struct amph_boot **boot_p)
{
    struct standing *s = calloc(1, sizeof *s);

    if (!s)
        return AMPH_ERR_NOMEM;

    const char *path = amph_env_str(AMPH_ENV_JOB);
    enum amph_status st = given_text()
                              ? amph_boot_standing_parse(
                                    given_text(), "what the process's own I/O server said", &s->set)
                              : amph_boot_standing_read(path, &s->set);

    if (st == AMPH_OK)
        st = describe(s, s->set.n, s->set.conduit);

    if (st != AMPH_OK) {
        amph_boot_standing_free(&s->set);
        amph_boot_jobdesc_free(&s->base.job);
        free(s);
        return st;
    }

    s->config.control_fd = -1;

    int64_t rank = amph_env_int(AMPH_ENV_RANK);

    s->base.self = rank >= 0 && rank < s->set.ncompute ? (uint32_t)rank : AMPH_RANK_NONE;
    s->base.group = AMPH_COMPUTE;
    s->base.job.id = s->set.id;
    memcpy(s->base.job.key, s->set.key, sizeof s->set.key);
    *boot_p = &s->base;

    return AMPH_OK;
}

enum amph_status amph_boot_stand(const struct amph_standing_config *config,
                                 struct amph_boot **boot_p)
{
    struct standing *s = calloc(1, sizeof *s);

    if (!s)
        return AMPH_ERR_NOMEM;

    enum amph_status st = describe(s, config->n, config->conduit);

    if (st != AMPH_OK) {
        amph_boot_jobdesc_free(&s->base.job);
        free(s);
        return st;
    }

    s->config = *config;
    s->base.kind = &amph_boot_standing;
    s->base.joined = true;
    s->base.self = config->index;
    s->base.group = AMPH_SERVER;
    s->base.job.id = config->id;
    memcpy(s->base.job.key, config->key, sizeof config->key);
    *boot_p = &s->base;

    return AMPH_OK;
}

static enum amph_status standing_publish(struct amph_boot *boot, const char *key, const void *value,
                                         size_t len_bytes)
{
    struct standing *s = (struct standing *)boot;
    return s->config.published(s->config.arg, value, len_bytes) ? AMPH_OK : AMPH_ERR_SYS;
}

static enum amph_status standing_state(struct amph_boot *boot)
{
    return AMPH_OK;
}

/* Servers of a set do not wait for each other: the process that started them collects their
 * values. */
static enum amph_status standing_exchange(struct amph_boot *boot, const char *key)
{
    return amph_boot_alloc_values(boot, boot->job.nproc[AMPH_SERVER]);
}

static enum amph_status standing_lookup(struct amph_boot *boot, uint32_t rank, const char *key,
                                        uint64_t timeout_ns, void **value_p, size_t *len_p)
{
    const struct standing *s = (const struct standing *)boot;

    if (rank < s->set.ncompute || rank - s->set.ncompute >= s->set.n)
        return AMPH_ERR_NOENT;

    const struct amph_standing_server *server = &s->set.server[rank - s->set.ncompute];
    void *copy = malloc(server->value_len + 1);

    if (!copy)
        return AMPH_ERR_NOMEM;

    memcpy(copy, server->value, server->value_len);
    *value_p = copy;
    *len_p = server->value_len;

    return AMPH_OK;
}

static enum amph_status standing_wait_servers(struct amph_boot *boot, uint64_t timeout_ns)
{
    return AMPH_OK;
}

static int standing_fd(const struct amph_boot *boot)
{
    return ((const struct standing *)boot)->config.control_fd;
}

static enum amph_status standing_progress(struct amph_boot *boot, struct amph_boot_event *event_p)
{
    struct standing *s = (struct standing *)boot;
    char word = 0;
    ssize_t n = s->config.control_fd >= 0 && !s->ended ? read(s->config.control_fd, &word, 1) : -1;

    if (n < 0 || (n == 1 && word != 'D'))
        return AMPH_AGAIN;

    s->ended = n == 0;
    *event_p = (struct amph_boot_event){ .kind = n == 0 ? AMPH_BOOT_SHUTDOWN : AMPH_BOOT_DRAIN,
                                         .rank = AMPH_RANK_NONE };
    return AMPH_OK;
}

static enum amph_status standing_leave(struct amph_boot *boot, bool exit_called, int code)
{
    return AMPH_OK;
}

static void standing_abort(struct amph_boot *boot, int code)
{
    /* no other process depends on this one, so there is nothing to end */
}

static void standing_close(struct amph_boot *boot)
{
    struct standing *s = (struct standing *)boot;

    if (s->config.control_fd >= 0)
        close(s->config.control_fd);

    amph_boot_standing_free(&s->set);
}

const struct amph_boot_kind amph_boot_standing = {
    .name = "standing",
    .belongs = standing_belongs,
    .open = standing_open,
    .publish = standing_publish,
    .state = standing_state,
    .exchange = standing_exchange,
    .lookup = standing_lookup,
    .wait_servers = standing_wait_servers,
    .fd = standing_fd,
    .progress = standing_progress,
    .leave = standing_leave,
    .abort = standing_abort,
    .close = standing_close,
};

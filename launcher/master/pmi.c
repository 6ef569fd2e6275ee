/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI-1 servers, one for each group: key space and fence, so that a group can run any PMI program.
 * The processes' lines arrive through their agents.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "boot/pmi1.h"
#include "launcher/master/launch.h"
#include "launcher/common/message.h"

enum {
    KEY_MAX = 64,
    VALUE_MAX = 1024,
    ENTRIES_MAX = 1 << 20
};

struct amph_pmi_entry {
    char *key, *value;
    struct amph_pmi_entry *next;
};

/* ---- key space ---- */

static struct amph_pmi_entry **find(struct amph_pmi_space *space, const char *key)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (const char *c = key; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;

    struct amph_pmi_entry **at = &space->bucket[hash % AMPH_COUNTOF(space->bucket)];

    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;

    return at;
}

static const char *store(struct amph_pmi_space *space, const char *key, const char *value)
{
    struct amph_pmi_entry **at = find(space, key);

    if (*at)
        return "duplicate_key";

    struct amph_pmi_entry *e = space->nentries < ENTRIES_MAX ? calloc(1, sizeof *e) : NULL;

    if (!e || !(e->key = strdup(key)) || !(e->value = strdup(value))) {
        if (e)
            free(e->key);

        free(e);
        return "out_of_memory";
    }

    *at = e;
    space->nentries++;
    return NULL;
}

/* ---- answers ---- */

static void reply(struct amph_lproc *p, const char *fmt, ...) AMPH_PRINTF(2, 3);
static void reply(struct amph_lproc *p, const char *fmt, ...)
{
    char line[AMPH_PMI_LINE_BYTES];
    uint8_t body[4 + sizeof line];
    struct amph_wr w;
    va_list ap;

    va_start(ap, fmt);

    int n = vsnprintf(line, sizeof line, fmt, ap);

    va_end(ap);
    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, p->rank);
    amph_wr_bytes(&w, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    amph_tree_report(amph_launch_agent_of(p), AMPH_AGENT_PMI, body, amph_wr_len(&w));
}

static uint32_t group_size(const struct amph_lproc *p)
{
    return p->launch->job.nproc[p->group];
}

static struct amph_lproc *group_first(const struct amph_lproc *p)
{
    return &p->launch->procs[p->group == AMPH_COMPUTE ? 0 : p->launch->job.nproc[AMPH_COMPUTE]];
}

static struct amph_pmi_space *space_of(const struct amph_lproc *p)
{
    return &p->launch->pmi[p->group];
}

/* ---- commands ---- */

static void do_init(struct amph_lproc *p, const char *line)
{
    char version[8] = "";

    amph_boot_pmi_word(line, "pmi_version", version, sizeof version);
    p->pmi_joined = true;
    reply(p, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=%d\n",
          strcmp(version, "1") == 0 ? 0 : -1);
}

static void do_maxes(struct amph_lproc *p, const char *line)
{
    reply(p, "cmd=maxes kvsname_max=256 keylen_max=%d vallen_max=%d\n", KEY_MAX, VALUE_MAX);
}

static void do_appnum(struct amph_lproc *p, const char *line)
{
    reply(p, "cmd=appnum appnum=0\n");
}

static void do_kvsname(struct amph_lproc *p, const char *line)
{
    reply(p, "cmd=my_kvsname kvsname=amphora_%d\n", (int)p->group);
}

static void do_universe(struct amph_lproc *p, const char *line)
{
    reply(p, "cmd=universe_size size=%u\n", group_size(p));
}

static void do_put(struct amph_lproc *p, const char *line)
{
    char key[KEY_MAX], value[VALUE_MAX];
    const char *error = NULL;

    if (!amph_boot_pmi_word(line, "key", key, sizeof key))
        error = "bad_key";
    else if (!amph_boot_pmi_word(line, "value", value, sizeof value))
        error = "bad_value";
    else
        error = store(space_of(p), key, value);

    reply(p, "cmd=put_result rc=%d msg=%s\n", error ? -1 : 0, error ? error : "success");
}

static void do_get(struct amph_lproc *p, const char *line)
{
    char key[KEY_MAX];
    struct amph_pmi_entry *e = amph_boot_pmi_word(line, "key", key, sizeof key)
                                   ? *find(space_of(p), key)
                                   : NULL;

    if (e)
        reply(p, "cmd=get_result rc=0 msg=success value=%s\n", e->value);
    else
        reply(p, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

static void do_barrier(struct amph_lproc *p, const char *line)
{
    struct amph_pmi_space *space = space_of(p);
    struct amph_lproc *first = group_first(p);

    if (p->pmi_waits)
        return;

    p->pmi_waits = true;
    if (++space->nwaiting < group_size(p)) {
        amph_launch_check_absent(p->launch, p->group, "in a PMI barrier");
        return;
    }

    space->nwaiting = 0;
    for (uint32_t i = 0; i < group_size(p); i++) {
        first[i].pmi_waits = false;
        reply(&first[i], "cmd=barrier_out\n");
    }
}

static void do_finalize(struct amph_lproc *p, const char *line)
{
    p->pmi_left = true;
    reply(p, "cmd=finalize_ack\n");
}

static void do_abort(struct amph_lproc *p, const char *line)
{
    char code[16] = "1";

    amph_boot_pmi_word(line, "exitcode", code, sizeof code);
    amph_launch_proc_abort(p, atoi(code));
}

/* Service names are not supported; the reply says so. */
static void do_publish(struct amph_lproc *p, const char *line)
{
    reply(p, "cmd=publish_result rc=-1 msg=no_name_service info=error\n");
}

static void do_unpublish(struct amph_lproc *p, const char *line)
{
    reply(p, "cmd=unpublish_result rc=-1 msg=no_name_service info=error\n");
}

static void do_lookup(struct amph_lproc *p, const char *line)
{
    reply(p, "cmd=lookup_result rc=-1 msg=no_name_service info=error\n");
}

static const struct {
    const char *name;
    void (*fn)(struct amph_lproc *p, const char *line);
} commands[] = {
    { "init", do_init },
    { "get_maxes", do_maxes },
    { "get_appnum", do_appnum },
    { "get_my_kvsname", do_kvsname },
    { "get_universe_size", do_universe },
    { "put", do_put },
    { "get", do_get },
    { "barrier_in", do_barrier },
    { "finalize", do_finalize },
    { "abort", do_abort },
    { "publish_name", do_publish },
    { "unpublish_name", do_unpublish },
    { "lookup_name", do_lookup },
};

static void do_line(struct amph_lproc *p, const char *line)
{
    char cmd[64];

    /* spawn is not supported; its request ends with the line "endcmd" */
    if (strncmp(line, "mcmd=", 5) == 0)
        return;

    if (strcmp(line, "endcmd") == 0) {
        reply(p, "cmd=spawn_result rc=-1 status=no_spawning\n");
        return;
    }

    if (!amph_boot_pmi_word(line, "cmd", cmd, sizeof cmd))
        return; /* a line of a multi-line command */

    for (size_t i = 0; i < AMPH_COUNTOF(commands); i++)
        if (strcmp(commands[i].name, cmd) == 0) {
            commands[i].fn(p, line);
            return;
        }

    reply(p, "cmd=%s_result rc=-1 msg=unknown_command\n", cmd);
}

void amph_launch_pmi_bytes(struct amph_lproc *p, const void *bytes, size_t len_bytes)
{
    struct amph_bytes *b = &p->pmi_line;

    if (!amph_boot_bytes_add(b, bytes, len_bytes))
        return;

    uint8_t *end;

    while ((end = amph_boot_bytes_left(b) ? memchr(b->buf + b->at, '\n', amph_boot_bytes_left(b))
                                          : NULL)) {
        const char *line = (const char *)b->buf + b->at;

        *end = 0;
        b->at = (size_t)(end - b->buf) + 1;
        do_line(p, line);
    }

    if (amph_boot_bytes_left(b) > AMPH_PMI_LINE_BYTES)
        b->at = b->len; /* no PMI line is that long, so this is not a PMI client */
}

/* Stores "PMI_process_mapping", which MPI libraries read: blocks of (host, 1, consecutive processes
 * on it). */
static enum amph_status store_mapping(struct amph_launch *l, enum amph_group group)
{
    uint32_t n = l->job.nproc[group];
    uint32_t first = group == AMPH_COMPUTE ? 0 : l->job.nproc[AMPH_COMPUTE];
    char text[VALUE_MAX] = "(vector";
    size_t len = strlen(text);

    for (uint32_t i = 0; i < n;) {
        uint32_t run = 1;
        uint32_t host = l->job.proc[first + i].host;

        while (i + run < n && l->job.proc[first + i + run].host == host)
            run++;

        len += (size_t)snprintf(text + len, sizeof text - len, ",(%u,1,%u)", host, run);
        if (len >= sizeof text - 2)
            return AMPH_OK; /* too long for a value; clients compare host names instead */

        i += run;
    }

    memcpy(text + len, ")", 2);
    return store(&l->pmi[group], "PMI_process_mapping", text) ? AMPH_ERR_NOMEM : AMPH_OK;
}

enum amph_status amph_launch_pmi_start(struct amph_launch *l)
{
    enum amph_status st = store_mapping(l, AMPH_COMPUTE);
    return st == AMPH_OK ? store_mapping(l, AMPH_SERVER) : st;
}

void amph_launch_pmi_stop(struct amph_launch *l)
{
    for (int group = 0; group < AMPH_NGROUPS; group++)
        for (size_t i = 0; i < AMPH_COUNTOF(l->pmi[group].bucket); i++)
            for (struct amph_pmi_entry *e = l->pmi[group].bucket[i]; e;) {
                struct amph_pmi_entry *next = e->next;

                free(e->key);
                free(e->value);
                free(e);
                e = next;
            }

    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        amph_boot_bytes_free(&l->procs[i].pmi_line);
}

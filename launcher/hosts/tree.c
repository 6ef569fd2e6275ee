/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree of agents on other hosts.  The first AMPHORA_SSH_FANOUT hosts are children of the
 * launcher, each further host is a child of an earlier one.
 *
 * When an agent is ready, the launcher has it start its children, so the start takes as many steps
 * as the tree is high.  A frame for a host further down is wrapped in one ROUTE for each step on
 * its way.  A frame from a host further down is wrapped in FROM, which names the host.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/log.h"
#include "base/settings/env.h"
#include "base/status.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "launcher/master/launch.h"
#include "launcher/common/message.h"
#include "launcher/master/environment.h"

/* ---- sending ---- */

/* A frame that is left out could be a part of a process's input, or a process. */
static AMPH_NORETURN void no_memory(void)
{
    amph_fatal("there is no memory for what the launcher sends to the job's hosts");
}

static void send_local(struct amph_lagent *agent, uint16_t type, const void *body, size_t len_bytes)
{
    enum amph_status st = amph_boot_frames_send(&agent->frames, type, body, len_bytes);

    if (st == AMPH_ERR_NOMEM)
        no_memory();

    /* The event loop handles a broken stream. */
    if (st == AMPH_OK && amph_boot_frames_pending(&agent->frames))
        amph_watch_want(agent->watch, EPOLLIN | EPOLLOUT);
}

void amph_tree_report(struct amph_lagent *agent, uint16_t type, const void *body, size_t len_bytes)
{
    if (agent->gone)
        return;

    if (!agent->remote) {
        send_local(agent, type, body, len_bytes);
    } else if (!agent->above) {
        amph_remote_send(&agent->link, type, body, len_bytes);
    } else {
        uint8_t *wrapped = malloc(6 + len_bytes);
        struct amph_wr w;

        if (!wrapped)
            no_memory();

        amph_wr_init(&w, wrapped, 6 + len_bytes);
        amph_wr_u32(&w, agent->host);
        amph_wr_u16(&w, type);
        amph_wr_bytes(&w, body, len_bytes);
        amph_tree_report(agent->above, AMPH_AGENT_ROUTE, wrapped, amph_wr_len(&w));
        free(wrapped);
    }
}

/* ---- the same for many ---- */

/* The way of a SPREAD frame: the connections of one agent, and the ways of the agents below it. */
struct way {
    uint32_t nconns, nbelow;
    struct amph_bytes conns, below;
};

static bool add_word(struct amph_bytes *b, uint32_t word)
{
    uint8_t bytes[4];
    struct amph_wr w;

    amph_wr_init(&w, bytes, sizeof bytes);
    amph_wr_u32(&w, word);
    return amph_boot_bytes_add(b, bytes, sizeof bytes);
}

static bool finish_way(const struct way *way, struct amph_bytes *out)
{
    return add_word(out, way->nconns) && amph_boot_bytes_add(out, way->conns.buf, way->conns.len) &&
           add_word(out, way->nbelow) && amph_boot_bytes_add(out, way->below.buf, way->below.len);
}

/* Visits agents from the last to the first, because a host comes after its parent: each way is put
 * into the way of the parent, and ways without a parent are sent. */
static bool fold_ways(struct amph_launch *l, struct way *way, const void *bytes, size_t len_bytes)
{
    bool ok = true;

    for (uint32_t i = l->nagents; ok && i-- > 0;) {
        struct amph_lagent *agent = &l->agents[i];
        struct amph_bytes own = { 0 };

        if (!agent->remote || agent->gone || way[i].nconns + way[i].nbelow == 0)
            continue;

        ok = finish_way(&way[i], &own);
        if (ok && agent->above) {
            struct way *above = &way[agent->above - l->agents];

            above->nbelow++;
            ok = add_word(&above->below, agent->host) &&
                 add_word(&above->below, (uint32_t)own.len) &&
                 amph_boot_bytes_add(&above->below, own.buf, own.len);
        } else if (ok) {
            struct amph_bytes body = { 0 };

            ok = add_word(&body, (uint32_t)own.len) &&
                 amph_boot_bytes_add(&body, own.buf, own.len) &&
                 amph_boot_bytes_add(&body, bytes, len_bytes);
            if (ok)
                amph_tree_report(agent, AMPH_AGENT_SPREAD, body.buf, body.len);

            amph_boot_bytes_free(&body);
        }

        amph_boot_bytes_free(&own);
    }

    return ok;
}

bool amph_tree_spread(struct amph_launch *l, struct amph_lagent *const *via, const uint32_t *number,
                      uint32_t n, const void *bytes, size_t len_bytes)
{
    struct way *way = calloc(l->nagents, sizeof *way);
    bool ok = way != NULL;

    for (uint32_t i = 0; ok && i < n; i++) {
        struct way *w = &way[via[i] - l->agents];

        w->nconns++;
        ok = add_word(&w->conns, number[i]);
    }

    ok = ok && fold_ways(l, way, bytes, len_bytes);
    for (uint32_t i = 0; way && i < l->nagents; i++) {
        amph_boot_bytes_free(&way[i].conns);
        amph_boot_bytes_free(&way[i].below);
    }

    free(way);
    return ok;
}

/* ---- paths ---- */

static const char *path_of(const struct amph_lagent *agent, enum amph_path which)
{
    return amph_hostset_path(agent->launch->hosts, agent->host, agent->machine, which);
}

const char *amph_tree_program(struct amph_lproc *p)
{
    const struct amph_options *o = p->launch->o;
    const struct amph_lagent *agent = amph_launch_agent_of(p);
    const char *own = path_of(agent,
                              p->group == AMPH_SERVER ? AMPH_PATH_SERVER : AMPH_PATH_PROGRAM);

    if (own)
        return own;
    if (p->group == AMPH_COMPUTE)
        return o->program[0];

    /* The installation on another host may be in another directory. */
    return !o->server_given && agent->server_program && *agent->server_program
               ? agent->server_program
               : o->server_program;
}

/* ---- starting ---- */

static char *run_path(const struct amph_lagent *agent)
{
    char self[4096];
    const char *given = path_of(agent, AMPH_PATH_RUN);

    if (given)
        return strdup(given);

    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    return n > 0 ? strndup(self, (size_t)n) : NULL;
}

static const struct amph_remote_calls calls;

static void start_agent(struct amph_lagent *agent)
{
    struct amph_launch *l = agent->launch;
    char *run = run_path(agent);
    char *line = run ? amph_remote_line(run, amph_env_ns(AMPH_ENV_HEARTBEAT)) : NULL;
    struct amph_remote_spec spec = { .ssh = l->o->ssh ? l->o->ssh : amph_env_str(AMPH_ENV_SSH),
                                     .name = l->job.host_name[agent->host],
                                     .line = line,
                                     .start_limit_ns = amph_env_ns(AMPH_ENV_SSH_TIMEOUT),
                                     .silence_ns = amph_env_ns(AMPH_ENV_HEARTBEAT) };
    uint8_t body[16384];
    struct amph_wr w;

    free(run);
    if (line && !agent->above) {
        agent->link.calls = &calls;
        agent->link.user = agent;
        agent->link.host = agent->host;

        if (amph_remote_start(&agent->link, &l->loop, &l->inherit, &spec) != AMPH_OK)
            amph_launch_host_lost(
                agent, 1,
                "cannot be reached: its ssh cannot be started (no memory or descriptors)");
    } else if (line) {
        amph_wr_init(&w, body, sizeof body);
        amph_wr_u32(&w, agent->host);
        amph_wr_blob(&w, spec.name, strlen(spec.name));
        amph_wr_blob(&w, spec.ssh, strlen(spec.ssh));
        amph_wr_blob(&w, line, strlen(line));
        amph_wr_u32(&w, (uint32_t)(spec.start_limit_ns / AMPH_NS_PER_MS));
        amph_wr_u32(&w, (uint32_t)(spec.silence_ns / AMPH_NS_PER_MS));
        amph_tree_report(agent->above, AMPH_AGENT_ADOPT, body, amph_wr_len(&w));
    }

    free(line);
}

enum amph_status amph_tree_start(struct amph_launch *l)
{
    struct amph_lagent **order = calloc(l->nagents, sizeof *order);
    uint32_t n = 0;
    uint32_t fanout = (uint32_t)amph_env_int(AMPH_ENV_SSH_FANOUT);

    if (!order)
        return AMPH_ERR_NOMEM;

    for (uint32_t i = 0; i < l->nagents; i++)
        if (l->agents[i].remote)
            order[n++] = &l->agents[i];

    l->nunready = n;
    for (uint32_t i = fanout; i < n; i++)
        order[i]->above = order[(i - fanout) / fanout];

    for (uint32_t i = 0; i < n && i < fanout; i++)
        start_agent(order[i]);

    free(order);
    return AMPH_OK;
}

/* ---- what comes ---- */

static char *take_text(struct amph_rd *r)
{
    size_t len;
    const char *text = amph_rd_blob(r, &len);

    return text ? strndup(text, len) : NULL;
}

static void on_ready(struct amph_lagent *agent, struct amph_rd *r)
{
    struct amph_launch *l = agent->launch;
    uint32_t version = amph_rd_u32(r);

    if (agent->ready)
        return;

    if (version != AMPH_AGENT_VERSION) {
        amph_launch_host_lost(
            agent, 1,
            "has another version of amphora-run; use one version everywhere (run=PATH "
            "in the host file)");
        return;
    }

    agent->machine = take_text(r);
    agent->seen_from = take_text(r);
    agent->address = take_text(r);
    agent->server_program = take_text(r);
    agent->preload = take_text(r);
    agent->ready = !r->bad;

    if (r->bad) {
        amph_launch_host_lost(agent, 1, "has an agent that does not speak this version's protocol");
        return;
    }

    for (uint32_t i = 0; i < l->nagents; i++)
        if (l->agents[i].above == agent)
            start_agent(&l->agents[i]);

    if (--l->nunready == 0 && l->phase == AMPH_PHASE_RUN && amph_launch_spawn(l) != AMPH_OK)
        amph_launch_host_lost(agent, 1, "cannot be given its processes: no memory");
}

static void say_line(const struct amph_lagent *agent, const char *line, size_t len)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "%s: %.*s\n", agent->launch->job.host_name[agent->host],
                     (int)(len > 700 ? 700 : len), line);

    while (write(STDERR_FILENO, text, (size_t)n) < 0 && errno == EINTR)
        ;
}

bool amph_tree_is_above(const struct amph_lagent *agent, const struct amph_lagent *of)
{
    while (of && of != agent)
        of = of->above;

    return of != NULL;
}

/* Handles frames that begin with the host that they are about.  It must be below the agent that
 * sent them. */
static struct amph_lagent *host_below(struct amph_lagent *agent, struct amph_rd *r)
{
    uint32_t host = amph_rd_u32(r);
    struct amph_launch *l = agent->launch;

    if (r->bad || host >= l->nagents || &l->agents[host] == agent ||
        !amph_tree_is_above(agent, &l->agents[host]) || l->agents[host].gone)
        return NULL;

    return &l->agents[host];
}

bool amph_tree_take(struct amph_lagent *agent, const struct amph_frame *frame)
{
    struct amph_rd r;
    size_t len;

    amph_rd_init(&r, frame->body, frame->len_bytes);
    if (frame->type == AMPH_AGENT_READY) {
        on_ready(agent, &r);
        return true;
    }

    if (frame->type != AMPH_AGENT_FROM && frame->type != AMPH_AGENT_LOST &&
        frame->type != AMPH_AGENT_SAID)
        return false;

    struct amph_lagent *of = host_below(agent, &r);
    if (!of)
        return true;

    if (frame->type == AMPH_AGENT_FROM) {
        uint16_t type = amph_rd_u16(&r);
        const struct amph_frame inner = { .type = type,
                                          .len_bytes = amph_rd_left(&r),
                                          .body = r.at };

        if (!r.bad)
            amph_launch_take(of, &inner);
    } else if (frame->type == AMPH_AGENT_SAID) {
        say_line(of, (const char *)r.at, amph_rd_left(&r));
    } else {
        char why[768];
        int code = (int)amph_rd_u32(&r);
        const char *text = amph_rd_blob(&r, &len);

        snprintf(why, sizeof why, "%.*s", text ? (int)len : 0, text ? text : "");
        amph_launch_host_lost(of, code > 0 && code < 256 ? code : 1, why);
    }

    return true;
}

static void on_frame(struct amph_remote *r, const struct amph_frame *frame)
{
    amph_launch_take(r->user, frame);
}

static void on_said(struct amph_remote *r, const char *line)
{
    say_line(r->user, line, strlen(line));
}

static void on_gone(struct amph_remote *r, int code, const char *why)
{
    amph_launch_host_lost(r->user, code, why);
}

static const struct amph_remote_calls calls = { on_frame, on_said, on_gone };

/* ---- the end ---- */

void amph_tree_set_silence(struct amph_launch *l, uint64_t silence_ns)
{
    for (uint32_t i = 0; i < l->nagents; i++) {
        struct amph_remote *link = &l->agents[i].link;

        if (l->agents[i].remote && !l->agents[i].above &&
            (link->silence_ns == 0 || link->silence_ns > silence_ns))
            link->silence_ns = silence_ns;
    }
}

void amph_tree_drop(struct amph_launch *l)
{
    for (uint32_t i = 0; i < l->nagents; i++) {
        struct amph_lagent *agent = &l->agents[i];

        if (!agent->remote)
            continue;

        if (!agent->above && agent->link.pid)
            amph_remote_drop(&agent->link);

        agent->gone = true;
    }
}

void amph_tree_stop(struct amph_launch *l)
{
    amph_tree_drop(l);
    for (uint32_t i = 0; i < l->nagents; i++) {
        struct amph_lagent *agent = &l->agents[i];
        char *texts[] = { agent->machine, agent->seen_from, agent->address, agent->server_program,
                          agent->preload };

        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            free(texts[k]);

        free(agent->conn);
    }
}

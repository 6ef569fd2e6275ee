/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent of a host other than the launcher's: its guardian process, its link to the agent above
 * it, and the agents that it starts on further hosts.
 *
 * On the launcher's host, the launcher ends the processes of an agent that dies.  On other hosts a
 * guardian process, the parent of the agent, does that: it ends and reaps the processes that the
 * agent leaves behind, and passes the agent's exit code to ssh.  The agent notices the end of the
 * guardian at a pipe.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "launcher/agent/internal.h"
#include "launcher/master/jobdir.h"
#include "launcher/common/program.h"
#include "launcher/common/reap.h"
#include "launcher/hosts/remote.h"

enum {
    GUARD_LIMIT_MS = 10000
};

struct amph_agent_child {
    struct amph_remote link;
    struct amph_agent *agent;
    struct amph_agent_child *next;
};

/* ---- agents below this one ---- */

/* Sends a frame, which begins with the number of the host that it is about, to the agent above. */
static void send_about(struct amph_agent *a, uint16_t type, uint32_t host, const void *bytes,
                       size_t len)
{
    uint8_t *body = malloc(4 + len);
    struct amph_wr w;

    if (!body)
        amph_agent_finish(a, 1);

    amph_wr_init(&w, body, 4 + len);
    amph_wr_u32(&w, host);
    amph_wr_bytes(&w, bytes, len);
    amph_agent_send(a, type, body, amph_wr_len(&w));
    free(body);
}

static void on_child_frame(struct amph_remote *r, const struct amph_frame *frame)
{
    struct amph_agent *a = ((struct amph_agent_child *)r->user)->agent;

    if (frame->type == AMPH_AGENT_FROM || frame->type == AMPH_AGENT_LOST ||
        frame->type == AMPH_AGENT_SAID) {
        /* from an agent further down; it names its host already */
        amph_agent_send(a, frame->type, frame->body, frame->len_bytes);
        return;
    }

    uint8_t *body = malloc(2 + frame->len_bytes);
    struct amph_wr w;

    if (!body)
        amph_agent_finish(a, 1);

    amph_wr_init(&w, body, 2 + frame->len_bytes);
    amph_wr_u16(&w, frame->type);
    amph_wr_bytes(&w, frame->body, frame->len_bytes);
    send_about(a, AMPH_AGENT_FROM, r->host, body, amph_wr_len(&w));
    free(body);
}

static void on_child_said(struct amph_remote *r, const char *line)
{
    send_about(((struct amph_agent_child *)r->user)->agent, AMPH_AGENT_SAID, r->host, line,
               strlen(line));
}

static void report_lost(struct amph_agent *a, uint32_t host, int code, const char *why)
{
    uint8_t body[1024];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, (uint32_t)code);
    amph_wr_blob(&w, why, strnlen(why, sizeof body - 16));
    send_about(a, AMPH_AGENT_LOST, host, body, amph_wr_len(&w));
}

static void on_child_gone(struct amph_remote *r, int code, const char *why)
{
    struct amph_agent *a = ((struct amph_agent_child *)r->user)->agent;

    if (!a->quitting)
        report_lost(a, r->host, code, why);
    else if (amph_agent_children(a, NULL) == 0)
        amph_agent_finish(a, 0);
}

static const struct amph_remote_calls child_calls = { on_child_frame, on_child_said,
                                                      on_child_gone };

size_t amph_agent_children(const struct amph_agent *a, pid_t *pid)
{
    size_t n = 0;

    for (const struct amph_agent_child *c = a->children; c; c = c->next)
        if (!c->link.gone) {
            if (pid)
                pid[n] = c->link.pid;

            n++;
        }

    return n;
}

bool amph_agent_child_reaped(struct amph_agent *a, pid_t pid, int status)
{
    for (struct amph_agent_child *c = a->children; c; c = c->next)
        if (amph_remote_reaped(&c->link, pid, status))
            return true;

    return false;
}

static char *take_text(struct amph_rd *r)
{
    size_t len;
    const char *text = amph_rd_blob(r, &len);

    return text ? strndup(text, len) : NULL;
}

void amph_agent_adopt(struct amph_agent *a, struct amph_rd *r)
{
    struct amph_agent_child *c = calloc(1, sizeof *c);
    uint32_t host = amph_rd_u32(r);
    char *name = take_text(r);
    char *ssh = take_text(r);
    char *line = take_text(r);
    struct amph_remote_spec spec = { .ssh = ssh, .name = name, .line = line };

    spec.start_limit_ns = amph_rd_u32(r) * AMPH_NS_PER_MS;
    spec.silence_ns = amph_rd_u32(r) * AMPH_NS_PER_MS;
    if (r->bad || !c || !name || !ssh || !line)
        amph_agent_finish(a, 1);

    c->agent = a;
    c->link.calls = &child_calls;
    c->link.user = c;
    c->link.host = host;

    if (amph_remote_start(&c->link, &a->loop, a->inherit, &spec) != AMPH_OK) {
        report_lost(a, host, 1,
                    "cannot be reached: its ssh cannot be started (no memory or descriptors)");
        free(c);
    } else {
        c->next = a->children;
        a->children = c;
    }

    free(name);
    free(ssh);
    free(line);
}

/* Sends the part of a SPREAD frame that is for the agent of host and those below it. */
static void pass_on(struct amph_agent *a, uint32_t host, const void *way, size_t way_len,
                    const void *bytes, size_t len)
{
    uint8_t *body = malloc(4 + way_len + len);
    struct amph_wr w;

    if (!body)
        amph_agent_finish(a, 1);

    amph_wr_init(&w, body, 4 + way_len + len);
    amph_wr_blob(&w, way, way_len);
    amph_wr_bytes(&w, bytes, len);

    for (struct amph_agent_child *c = a->children; c; c = c->next)
        if (c->link.host == host)
            amph_remote_send(&c->link, AMPH_AGENT_SPREAD, body, amph_wr_len(&w));

    free(body);
}

void amph_agent_spread(struct amph_agent *a, struct amph_rd *r)
{
    size_t way_len, below_len;
    struct amph_rd way;
    const void *bytes = amph_rd_blob(r, &way_len);

    if (!bytes)
        return;

    amph_rd_init(&way, bytes, way_len);
    for (uint32_t n = amph_rd_u32(&way); n > 0 && !way.bad; n--) {
        uint32_t number = amph_rd_u32(&way);
        if (!way.bad)
            amph_agent_relay_give(a, number, r->at, amph_rd_left(r));
    }

    for (uint32_t n = amph_rd_u32(&way); n > 0 && !way.bad; n--) {
        uint32_t host = amph_rd_u32(&way);
        const void *below = amph_rd_blob(&way, &below_len);

        if (below)
            pass_on(a, host, below, below_len, r->at, amph_rd_left(r));
    }
}

void amph_agent_route(struct amph_agent *a, struct amph_rd *r)
{
    uint32_t host = amph_rd_u32(r);
    uint16_t type = amph_rd_u16(r);

    for (struct amph_agent_child *c = a->children; c && !r->bad; c = c->next)
        if (c->link.host == host)
            amph_remote_send(&c->link, type, r->at, amph_rd_left(r));
}

/* ---- upwards ---- */

static void on_beat(void *arg)
{
    struct amph_agent *a = arg;
    uint64_t now = amph_now_ns();

    if (a->launcher_stopped || amph_remote_beat_is_late(&a->beat, now))
        a->heard_ns = now;

    if (a->silence_ns && now - a->heard_ns > a->silence_ns)
        amph_agent_finish(
            a, 1); /* the link is broken: the launcher regards this host as lost, or will soon */

    amph_agent_send(a, AMPH_AGENT_BEAT, NULL, 0);
    amph_timer_set(&a->loop, &a->beat, AMPH_REMOTE_BEAT_NS, on_beat, a);
}

/* Returns word `index` of SSH_CONNECTION: client address, client port, server address, server port. */
static void ssh_address(int index, char *text, size_t cap)
{
    const char *at = amph_env_foreign("SSH_CONNECTION");

    for (; at && index > 0; index--)
        at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;

    snprintf(text, cap, "%.*s", at ? (int)strcspn(at, " ") : 0, at ? at : "");
}

static void put_text(struct amph_wr *w, const char *text)
{
    amph_wr_blob(w, text ? text : "", text ? strlen(text) : 0);
}

static void report_ready(struct amph_agent *a)
{
    uint8_t body[16384];
    char client[64], server[64];
    struct utsname u = { .machine = "" };
    struct amph_wr w;

    uname(&u);
    ssh_address(0, client, sizeof client);
    ssh_address(2, server, sizeof server);
    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, AMPH_AGENT_VERSION);
    put_text(&w, u.machine);
    put_text(&w, client);
    put_text(&w, server);
    put_text(&w, amph_program_own("iofwd-server"));
    put_text(&w, amph_program_library(AMPH_PRELOAD_NAME));
    amph_agent_send(a, AMPH_AGENT_READY, body, amph_wr_len(&w));
}

static void on_guardian(void *arg, uint32_t events)
{
    amph_agent_finish(arg, 1);
}

/* ---- the guardian ---- */

static void guard(pid_t agent, const char *directory) AMPH_NORETURN;
static void guard(pid_t agent, const char *directory)
{
    int status = 0;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_NAME, "amphora-guard");
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    while (waitpid(agent, &status, 0) < 0 && errno == EINTR)
        ;

    amph_reap_kill(NULL, 0, GUARD_LIMIT_MS);
    amph_launch_jobdir_remove(directory);
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

void amph_agent_remote_main(uint64_t silence_ns)
{
    struct amph_agent a = { .remote = true, .silence_ns = silence_ns };
    struct amph_inherit inherit;
    sigset_t chld;
    int alive[2];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    amph_inherit_save(&inherit, &chld);
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    a.directory = amph_launch_jobdir_name(false);
    if (!a.directory || null < 0 || pipe2(alive, O_CLOEXEC) < 0)
        amph_fatal("the agent of this host cannot start: %m");

    pid_t agent = fork();

    if (agent < 0)
        amph_fatal("the agent of this host cannot start: %m");

    if (agent > 0) {
        close(alive[0]);
        guard(agent, a.directory);
    }

    close(alive[1]);

    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

    dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* so that printed text does not get into the stream */
    a.inherit = &inherit;
    a.heard_ns = amph_now_ns();
    amph_agent_open(&a, in, out);
    if (!amph_watch_add(&a.loop, alive[0], EPOLLIN, on_guardian, &a))
        _exit(1);

    report_ready(&a);
    amph_timer_set(&a.loop, &a.beat, AMPH_REMOTE_BEAT_NS, on_beat, &a);
    amph_agent_loop(&a);
}

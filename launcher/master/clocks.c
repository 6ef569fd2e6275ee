/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clocks of a recorded job's hosts: agents are asked for theirs, and what the answers say goes to a
 * file beside the records, for iofwd-trace (iofwd/trace/format.h, doc/trace-format.md).
 *
 * Layer: launcher.  Thread rule: one thread; see launch.h.
 *
 * An answer's clock was read between question and arrival, so its offset is known to half that time.
 * Of several answers in succession the one that took the shortest time is written down.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/wire.h"
#include "launcher/common/message.h"
#include "launcher/master/launch.h"

#define AGAIN_NS (10 * AMPH_NS_PER_S)

enum {
    FIRST_QUESTIONS = 16,
    LATER_QUESTIONS = 4
};

static void write_line(struct amph_launch *l, const char *line, int len)
{
    if (l->clocks.fd < 0 || write(l->clocks.fd, line, (size_t)len) == len)
        return;

    amph_say(
        "-record: the clocks of the hosts cannot be written down: %m; iofwd-trace will compare "
        "real times");
    close(l->clocks.fd);
    l->clocks.fd = -1;
}

static void write_measured(struct amph_lagent *agent, uint64_t at_ns, int64_t offset_ns,
                           uint64_t error_ns)
{
    char line[128];
    int len = snprintf(line, sizeof line, "%llu %llu %lld %llu\n",
                       (unsigned long long)amph_launch_clocks_number(agent),
                       (unsigned long long)at_ns, (long long)offset_ns,
                       (unsigned long long)error_ns);

    write_line(agent->launch, line, len);
}

static void ask(struct amph_lagent *agent)
{
    uint8_t body[8];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u64(&w, amph_now_ns());
    amph_tree_report(agent, AMPH_AGENT_CLOCK, body, amph_wr_len(&w));
}

static void ask_all(struct amph_launch *l, unsigned questions)
{
    for (uint32_t i = 0; i < l->nagents && l->clocks.fd >= 0; i++) {
        struct amph_lagent *agent = &l->agents[i];

        if (!agent->remote || agent->gone)
            continue;

        agent->clock.left = questions;
        agent->clock.error_ns = UINT64_MAX;
        ask(agent);
    }
}

static void on_time(void *arg)
{
    struct amph_launch *l = arg;

    ask_all(l, LATER_QUESTIONS);
    amph_timer_set(&l->loop, &l->clocks.timer, AGAIN_NS, on_time, l);
}

void amph_launch_clocks_answer(struct amph_lagent *agent, struct amph_rd *r)
{
    uint64_t now_ns = amph_now_ns();
    uint64_t asked_ns = amph_rd_u64(r);
    uint64_t host_ns = amph_rd_u64(r);

    if (r->bad || asked_ns > now_ns || !agent->clock.left)
        return;

    uint64_t error_ns = (now_ns - asked_ns) / 2 + 1;

    if (error_ns < agent->clock.error_ns) {
        agent->clock.error_ns = error_ns;
        agent->clock.at_ns = host_ns;
        agent->clock.offset_ns = (int64_t)(asked_ns + (now_ns - asked_ns) / 2 - host_ns);
    }

    if (--agent->clock.left)
        ask(agent);
    else
        write_measured(agent, agent->clock.at_ns, agent->clock.offset_ns, agent->clock.error_ns);
}

uint64_t amph_launch_clocks_number(const struct amph_lagent *agent)
{
    const struct amph_launch *l = agent->launch;

    return l->clocks.job ? l->clocks.job << 16 | (agent->host & 0xffff) : 0;
}

void amph_launch_clocks_finish(struct amph_launch *l)
{
    amph_timer_stop(&l->loop, &l->clocks.timer);
    ask_all(l, 1);
}

void amph_launch_clocks_start(struct amph_launch *l)
{
    const char *dir = amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR);
    struct timespec real;
    char line[128];
    char path[4096];

    l->clocks.fd = -1;
    if (!dir[0])
        return;

    uint64_t before_ns = amph_now_ns();

    clock_gettime(CLOCK_REALTIME, &real);

    uint64_t now_ns = before_ns + (amph_now_ns() - before_ns) / 2;
    uint64_t real_ns = (uint64_t)real.tv_sec * AMPH_NS_PER_S + (uint64_t)real.tv_nsec;
    uint64_t job = (real_ns / 1000 ^ (uint64_t)getpid() << 28) & UINT64_C(0x7fffffffffff);

    snprintf(path, sizeof path, "%s/%llx.clocks", dir, (unsigned long long)job);
    l->clocks.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (l->clocks.fd < 0) {
        amph_say("-record: %s cannot be made: %m; iofwd-trace will compare the real times of hosts",
                 path);
        return;
    }

    l->clocks.job = job;
    int len = snprintf(line, sizeof line, "AMPHCLK1 %llu %llu %llu\n", (unsigned long long)job,
                       (unsigned long long)now_ns, (unsigned long long)real_ns);

    write_line(l, line, len);
    for (uint32_t i = 0; i < l->nagents; i++)
        if (!l->agents[i].remote)
            write_measured(&l->agents[i], now_ns, 0, 0); /* this machine's own clock */

    ask_all(l, FIRST_QUESTIONS);
    amph_timer_set(&l->loop, &l->clocks.timer, AGAIN_NS, on_time, l);
}

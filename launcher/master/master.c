/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts agents and processes, and handles the agents' frames.
 *
 * Agents are forked before the launcher opens any descriptor that they could inherit.  Everything
 * that they need later arrives in frames.
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
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "launcher/common/inherit.h"
#include "launcher/master/jobdir.h"
#include "launcher/master/launch.h"
#include "launcher/common/reap.h"
#include "launcher/common/message.h"
#include "launcher/master/environment.h"

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

/* ---- talking to agents ---- */

static void agent_gone(struct amph_lagent *agent)
{
    int status = 0;

    if (agent->gone)
        return;

    amph_watch_del(agent->watch);
    agent->watch = NULL;
    amph_boot_frames_close(&agent->frames);

    /* Its stream is closed, so it is exiting or hangs; the signal does no harm to one that
     * exits. */
    kill(agent->pid, SIGKILL);
    while (waitpid(agent->pid, &status, 0) < 0 && errno == EINTR)
        ;

    amph_launch_agent_lost(agent, status);
}

struct amph_lagent *amph_launch_agent_of(struct amph_lproc *p)
{
    return &p->launch->agents[p->launch->job.proc[p->rank].host];
}

static void send_signal(struct amph_lagent *agent, uint32_t rank, int sig)
{
    uint8_t body[8];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, rank);
    amph_wr_u32(&w, (uint32_t)sig);
    amph_tree_report(agent, AMPH_AGENT_SIGNAL, body, sizeof body);
}

void amph_launch_signal_all(struct amph_launch *l, int sig)
{
    for (uint32_t i = 0; i < l->nagents; i++)
        send_signal(&l->agents[i], AMPH_RANK_NONE, sig);
}

void amph_launch_signal_proc(struct amph_lproc *p, int sig)
{
    send_signal(amph_launch_agent_of(p), p->rank, sig);
}

/* ---- what agents say ---- */

static void on_started(struct amph_lagent *agent, struct amph_lproc *p, struct amph_rd *r)
{
    p->pid = (pid_t)amph_rd_u64(r);
    p->started = true;
}

static void on_failed(struct amph_lagent *agent, struct amph_lproc *p, struct amph_rd *r)
{
    amph_launch_proc_failed_to_start(p, (int)amph_rd_u32(r));
}

static void on_output(struct amph_lagent *agent, struct amph_lproc *p, struct amph_rd *r)
{
    uint8_t stream = amph_rd_u8(r);
    if (!r->bad && (stream == 1 || stream == 2))
        amph_launch_stdio_output(p, stream, r->at, amph_rd_left(r));
}

static void on_input_taken(struct amph_lagent *agent, struct amph_lproc *p, struct amph_rd *r)
{
    amph_launch_stdio_input_taken(p->launch, amph_rd_u8(r));
}

static void on_pmi(struct amph_lagent *agent, struct amph_lproc *p, struct amph_rd *r)
{
    amph_launch_pmi_bytes(p, r->at, amph_rd_left(r));
}

static void on_ended(struct amph_lagent *agent, struct amph_lproc *p, struct amph_rd *r)
{
    bool by_signal = amph_rd_u8(r);
    int number = (int)amph_rd_u32(r);

    amph_launch_proc_ended(p, by_signal, number, amph_rd_u8(r));
}

/* All these frames begin with the rank of a process. */
static void (*const news[AMPH_AGENT_NTYPES])(struct amph_lagent *agent, struct amph_lproc *p,
                                             struct amph_rd *r) = {
    [AMPH_AGENT_STARTED] = on_started, [AMPH_AGENT_FAILED] = on_failed,
    [AMPH_AGENT_OUTPUT] = on_output,   [AMPH_AGENT_INPUT_TAKEN] = on_input_taken,
    [AMPH_AGENT_PMI] = on_pmi,         [AMPH_AGENT_ENDED] = on_ended,
};

void amph_launch_take(struct amph_lagent *agent, const struct amph_frame *frame)
{
    struct amph_launch *l = agent->launch;
    struct amph_rd r;

    if (agent->gone || (agent->remote && amph_tree_take(agent, frame)))
        return;

    if (frame->type == AMPH_AGENT_ORPHANS_GONE) {
        amph_launch_orphans_gone(agent);
        return;
    }

    amph_rd_init(&r, frame->body, frame->len_bytes);
    if (frame->type == AMPH_AGENT_CLOCK) {
        amph_launch_clocks_answer(agent, &r);
        return;
    }

    if (frame->type == AMPH_AGENT_PACKED) {
        amph_launch_packed(agent, &r);
        return;
    }

    if (frame->type == AMPH_AGENT_CONN) {
        amph_launch_control_carried(agent, &r);
        return;
    }

    uint32_t rank = amph_rd_u32(&r);
    if (r.bad || frame->type >= AMPH_AGENT_NTYPES || !news[frame->type] ||
        rank >= amph_boot_jobdesc_total(&l->job) || l->job.proc[rank].host != agent->host)
        return;

    news[frame->type](agent, &l->procs[rank], &r);
}

static void on_agent(void *arg, uint32_t events)
{
    struct amph_lagent *agent = arg;
    struct amph_frame frame;
    enum amph_status st;

    if ((events & EPOLLOUT) && amph_boot_frames_flush(&agent->frames) == AMPH_OK)
        amph_watch_want(agent->watch, EPOLLIN);

    enum amph_status filled = amph_boot_frames_fill(&agent->frames);

    while ((st = amph_boot_frames_next(&agent->frames, &frame)) == AMPH_OK)
        amph_launch_take(agent, &frame);

    if (filled == AMPH_ERR_NOMEM)
        amph_say("there is no memory for what an agent sends");
    if (st == AMPH_ERR_PROTO || (filled != AMPH_OK && filled != AMPH_AGAIN))
        agent_gone(agent);
}

/* ---- starting ---- */

/* In the child: closes the launcher's descriptors and becomes the agent. */
static void become_agent(struct amph_launch *l, uint32_t index, int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (uint32_t i = 0; i < index; i++)
        if (!l->agents[i].remote)
            close(l->agents[i].frames.fd); /* so that those agents notice the launcher's end */

    close(l->loop.epfd);
    if (null >= 0)
        dup2(null, STDIN_FILENO);

    amph_agent_main(fd, &l->inherit, l->directory);
}

static enum amph_status fork_agent(struct amph_launch *l, uint32_t index)
{
    struct amph_lagent *agent = &l->agents[index];
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        amph_say("cannot create a stream to the agent of %s: %m", l->job.host_name[index]);
        return AMPH_ERR_SYS;
    }

    agent->pid = fork();
    if (agent->pid == 0) {
        close(pair[0]);
        become_agent(l, index, pair[1]);
    }

    close(pair[1]);
    amph_boot_frames_open(&agent->frames, pair[0], AMPH_AGENT_BODY_MAX);
    if (agent->pid > 0 &&
        (agent->watch = amph_watch_add(&l->loop, pair[0], EPOLLIN, on_agent, agent)))
        return AMPH_OK;

    amph_say("cannot start the agent of %s: %m", l->job.host_name[index]);
    return AMPH_ERR_SYS;
}

static enum amph_status start_agents(struct amph_launch *l)
{
    enum amph_status st = AMPH_OK;

    l->agents = calloc(l->job.nhosts, sizeof *l->agents);
    if (!l->agents)
        return AMPH_ERR_NOMEM;

    l->nagents = l->job.nhosts;
    for (uint32_t i = 0; i < l->nagents; i++) {
        l->agents[i] = (struct amph_lagent){
            .launch = l, .host = i, .remote = l->hosts->remote[i], .gone = !l->hosts->remote[i]
        };
        l->agents[i].frames.fd = l->agents[i].frames.out_fd = -1;
    }

    for (uint32_t i = 0; i < l->nagents && st == AMPH_OK; i++)
        if (!l->agents[i].remote) {
            l->agents[i].gone = false;
            st = fork_agent(l, i);
        }

    return st;
}

enum amph_status amph_launch_spawn(struct amph_launch *l)
{
    enum amph_status st = AMPH_OK;
    uint32_t total = amph_boot_jobdesc_total(&l->job);

    l->spawned = true;
    for (uint32_t i = 0; i < l->nagents && st == AMPH_OK; i++)
        st = amph_launch_setting_agent(l, &l->agents[i]);

    amph_launch_clocks_start(l);

    /* Servers first, so that they open their listeners while the compute processes start. */
    for (uint32_t i = l->job.nproc[AMPH_COMPUTE]; i < total && st == AMPH_OK; i++)
        st = amph_launch_setting_spawn(l, &l->procs[i]);

    for (uint32_t i = 0; i < l->job.nproc[AMPH_COMPUTE] && st == AMPH_OK; i++)
        st = amph_launch_setting_spawn(l, &l->procs[i]);

    amph_watch_want(l->input, EPOLLIN);
    return st;
}

static bool some_here(const struct amph_launch *l)
{
    for (uint32_t i = 0; i < l->nagents; i++)
        if (!l->agents[i].remote)
            return true;

    return false;
}

/* Creates the job's directory on this machine, unless all processes are on other hosts: then no
 * agent here would remove it. */
static enum amph_status make_directory(struct amph_launch *l)
{
    enum amph_status st = amph_launch_jobdir_create(l->directory);
    return st == AMPH_OK ? amph_launch_setting_write_file(l) : st;
}

static enum amph_status make_procs(struct amph_launch *l)
{
    uint32_t total = amph_boot_jobdesc_total(&l->job);

    l->procs = calloc(total, sizeof *l->procs);
    if (!l->procs)
        return AMPH_ERR_NOMEM;

    for (uint32_t i = 0; i < total; i++) {
        l->procs[i].launch = l;
        l->procs[i].rank = i;
        l->procs[i].group = i < l->job.nproc[AMPH_COMPUTE] ? AMPH_COMPUTE : AMPH_SERVER;
    }

    return AMPH_OK;
}

/* ---- signals ---- */

struct signals {
    struct amph_launch *launch;
    int fd;
};

static void on_signal(void *arg, uint32_t events)
{
    struct signals *s = arg;
    struct signalfd_siginfo info;

    while (read(s->fd, &info, sizeof info) == sizeof info)
        switch (info.ssi_signo) {
        case SIGCHLD: /* only ends a sleep; ends of agents are noticed at their streams */
            break;
        case SIGTSTP:
            amph_launch_suspend(s->launch);
            break;
        case SIGCONT:
            amph_launch_continue(s->launch);
            break;
        default:
            amph_launch_job_signal(s->launch, (int)info.ssi_signo);
        }
}

static void handled_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SIGTSTP);
    sigaddset(set, SIGCONT);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        sigaddset(set, forwarded[i]);
}

static enum amph_status watch_signals(struct amph_launch *l, struct signals *s)
{
    sigset_t set;

    handled_signals(&set);
    s->launch = l;
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

    if (s->fd >= 0 && amph_watch_add(&l->loop, s->fd, EPOLLIN, on_signal, s))
        return AMPH_OK;

    amph_say("cannot wait for signals: %m");
    return AMPH_ERR_SYS;
}

/* ---- the job ---- */

static enum amph_status start(struct amph_launch *l, struct signals *s)
{
    sigset_t set;

    handled_signals(&set);
    amph_inherit_save(&l->inherit, &set);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* for the processes that a killed agent leaves behind */

    enum amph_status st = amph_loop_open(&l->loop);

    if (st == AMPH_OK)
        st = start_agents(l);

    if (st == AMPH_OK)
        st = amph_launch_control_start(l);

    if (st == AMPH_OK && some_here(l))
        st = make_directory(l);

    if (st == AMPH_OK)
        st = watch_signals(l, s);

    if (st == AMPH_OK)
        st = amph_launch_stdio_start(l);

    if (st == AMPH_OK)
        st = amph_launch_pmi_start(l);

    if (st == AMPH_OK)
        amph_launch_ending_start(l);

    if (st == AMPH_OK)
        st = amph_tree_start(l);

    return st == AMPH_OK && l->nunready == 0 ? amph_launch_spawn(l) : st;
}

static bool all_agents_gone(const struct amph_launch *l)
{
    for (uint32_t i = 0; i < l->nagents; i++)
        if (!l->agents[i].gone)
            return false;

    return true;
}

static void stop(struct amph_launch *l)
{
    amph_launch_stdio_finish(l);
    amph_launch_progress_stop(l);
    amph_launch_cause_print(l);
    amph_launch_control_stop(l);
    amph_launch_pmi_stop(l);
    for (uint32_t i = 0; i < l->nagents; i++)
        amph_boot_frames_close(&l->agents[i].frames);

    amph_tree_stop(l);
    amph_reap_kill(NULL, 0, 5000);
    amph_launch_jobdir_remove(l->directory);
    amph_loop_close(&l->loop);
    amph_hostset_free(l->hosts, l->job.nhosts);
    amph_boot_jobdesc_free(&l->job);
    free(l->agents);
    free(l->procs);
    free(l->directory);
    l->directory = NULL;
    free(l->prefixes);
    free(l->preload);
}

/* The other errors have been reported where they occurred. */
static void say_no_memory(enum amph_status st)
{
    if (st == AMPH_ERR_NOMEM)
        amph_say("there is no memory to start the job");
}

int amph_launch_run(struct amph_launch *l, const struct amph_options *o,
                    const struct amph_jobdesc *job, struct amph_hostset *hosts)
{
    struct signals s = { .fd = -1 };

    l->o = o;
    l->listen_fd = -1;
    l->job = *job;
    l->hosts = hosts;
    l->directory = amph_launch_jobdir_name(o->nservers > 0);

    enum amph_status st = l->directory ? make_procs(l) : AMPH_ERR_NOMEM;

    if (st == AMPH_OK)
        st = amph_launch_setting_prepare(l);

    if (st != AMPH_OK) {
        say_no_memory(st);
        return 1;
    }

    st = start(l, &s);
    say_no_memory(st);

    if (st == AMPH_OK) {
        amph_launch_table_start(l);
        if (o->progress)
            amph_launch_progress_start(l);

        while (!all_agents_gone(l))
            amph_loop_step(&l->loop);
    } else {
        l->code = 1;
    }

    stop(l);
    return l->code ? l->code : l->output_lost;
}

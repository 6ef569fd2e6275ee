/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Job control: SIGTSTP (^Z) stops the processes of the job on all hosts and then the launcher, as a
 * shell stops a pipeline; SIGCONT continues all of them.
 *
 * A stopped launcher sends no heartbeats, so the agents of other hosts are informed before.  Agents and
 * ssh are in process groups or sessions of their own and are not stopped.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "base/os/clock.h"
#include "launcher/agent/agent.h"
#include "launcher/master/launch.h"

#define SEND_NS \
    AMPH_NS_PER_S /* for all agents together; a host that takes nothing is not waited for */

static void signal_processes(struct amph_launch *l, int sig)
{
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        if (!l->procs[i].ended)
            amph_launch_signal_proc(&l->procs[i], sig);
}

/* Sends a heartbeat to each agent that ssh connects to this process; the agents below them hear theirs. */
static void beat(struct amph_launch *l, bool last)
{
    uint8_t body = 1;

    for (uint32_t i = 0; i < l->nagents; i++) {
        struct amph_lagent *agent = &l->agents[i];

        if (agent->remote && !agent->above && !agent->gone && agent->link.ready)
            amph_remote_send(&agent->link, AMPH_AGENT_BEAT, &body, last ? 1 : 0);
    }
}

static void flush(struct amph_frames *f, uint64_t deadline_ns)
{
    while (amph_boot_frames_pending(f)) {
        struct pollfd room = { .fd = f->out_fd, .events = POLLOUT };
        uint64_t now = amph_now_ns();

        if (now >= deadline_ns || amph_boot_frames_flush(f) != AMPH_AGAIN)
            return; /* the event loop handles a broken stream */

        poll(&room, 1, (int)((deadline_ns - now) / AMPH_NS_PER_MS) + 1);
    }
}

static void flush_all(struct amph_launch *l)
{
    uint64_t deadline_ns = amph_now_ns() + SEND_NS;

    for (uint32_t i = 0; i < l->nagents; i++) {
        struct amph_lagent *agent = &l->agents[i];

        if (!agent->gone && !agent->above)
            flush(agent->remote ? &agent->link.frames : &agent->frames, deadline_ns);
    }
}

/* Stops this process as the kernel would have done.  Returns when it is continued, or at once if it has
 * no shell that could do that (an orphaned process group). */
static void stop_here(void)
{
    sigset_t stop, before;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void amph_launch_suspend(struct amph_launch *l)
{
    struct sigaction action;

    if (sigaction(SIGTSTP, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        return; /* inherited: whoever started the launcher wants no job control */

    signal_processes(l, SIGTSTP);
    beat(l, true);
    flush_all(l);
    stop_here();
    amph_launch_continue(l);
}

void amph_launch_continue(struct amph_launch *l)
{
    beat(l, false);
    signal_processes(l, SIGCONT);
}

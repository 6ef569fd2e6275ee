/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles the ends of processes and ends the job.
 *
 * The phases of a job without failure are RUN -> ORPHANS -> DRAIN -> DONE.  The first failure
 * changes any phase to ENDING: the launcher sends a shutdown event to all members, and then SIGTERM
 * and SIGKILL.  The first failure determines the exit code and the one message; failures that follow
 * from it are not reported.  The message is printed after the job's other output, so that nothing
 * buries it.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "boot/boot.h"
#include "launcher/master/launch.h"
#include "launcher/common/reap.h"
#include "launcher/common/message.h"

/* How long the launcher waits ... */
#define SHUTDOWN_NS (300 * AMPH_NS_PER_MS) /* after the shutdown event, before SIGTERM */
#define TERM_NS (600 * AMPH_NS_PER_MS)     /* after SIGTERM, before SIGKILL */
#define KILL_NS (500 * AMPH_NS_PER_MS)     /* between repeated SIGKILLs */
#define LOST_NS (300 * AMPH_NS_PER_MS)     /* after a connection closed, for its process's end */
#define DRAIN_NS (120 * AMPH_NS_PER_S)     /* for servers to write their buffered data */
#define QUIT_NS (15 * AMPH_NS_PER_S)       /* for agents of this machine to exit */
#define QUIT_FAR_NS (3 * AMPH_NS_PER_S)    /* for agents of other hosts to exit */
#define PACK_NS (60 * AMPH_NS_PER_S)       /* for agents of other hosts to compress their records */
#define CAUSE_NS (2 * AMPH_NS_PER_S)       /* for other output, before the message of the cause */
#define SILENCE_NS (2 * AMPH_NS_PER_S)     /* for a frame of a host, while the job is being ended */

/* An abort is held back for this time, because it may be a consequence of another process's death
 * that was not reported yet. */
#define ABORT_NS (100 * AMPH_NS_PER_MS)

enum {
    KILL_STEPS_MAX = 20,
    TIMEOUT_CODE = 124,
    EXIT_PATIENCE = 4,
    ABORT_WAITS_MAX = 20
};

static void advance(struct amph_launch *l);

static void send_agents(struct amph_launch *l, uint16_t type)
{
    for (uint32_t i = 0; i < l->nagents; i++)
        amph_tree_report(&l->agents[i], type, NULL, 0);
}

static bool some_joined(const struct amph_launch *l)
{
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        if (l->procs[i].joined && !l->procs[i].ended)
            return true;

    return false;
}

/* ---- the end ---- */

static void on_quit_late(void *arg)
{
    struct amph_launch *l = arg;

    for (uint32_t i = 0; i < l->nagents; i++)
        if (!l->agents[i].gone && !l->agents[i].remote)
            kill(l->agents[i].pid, SIGKILL);
}

/* Agents of other hosts end by themselves when their connection does. */
static void on_quit_late_far(void *arg)
{
    struct amph_launch *l = arg;

    amph_tree_drop(l);
    amph_timer_set(&l->loop, &l->step, QUIT_NS - QUIT_FAR_NS, on_quit_late, l);
}

static void quit_agents(struct amph_launch *l)
{
    if (l->phase == AMPH_PHASE_DONE)
        return;

    l->phase = AMPH_PHASE_DONE;
    amph_launch_table_print(l);
    amph_launch_stdio_stop_input(l);

    /* those further down first: those above wait for them */
    for (uint32_t i = l->nagents; i-- > 0;)
        amph_tree_report(&l->agents[i], AMPH_AGENT_QUIT, NULL, 0);

    amph_timer_set(&l->loop, &l->step, QUIT_FAR_NS, on_quit_late_far, l);
}

static void on_pack_late(void *arg)
{
    amph_launch_records_give_up(arg);
    quit_agents(arg);
}

/* Ends the job, all of whose processes have ended. */
static void quit(struct amph_launch *l)
{
    if (l->phase >= AMPH_PHASE_PACK)
        return;

    l->phase = AMPH_PHASE_PACK;
    if (amph_launch_records_pack(l))
        amph_timer_set(&l->loop, &l->step, PACK_NS, on_pack_late, l);
    else
        quit_agents(l);
}

void amph_launch_packed(struct amph_lagent *agent, struct amph_rd *r)
{
    if (amph_launch_records_packed(agent, r) && agent->launch->phase == AMPH_PHASE_PACK)
        quit_agents(agent->launch);
}

/* Shuts the servers down when no compute process needs them any more, and not earlier: a call that
 * fails because its server has ended makes the client print an error that is not the cause. */
static void shut_servers_down(struct amph_launch *l)
{
    if (!l->servers_shut_down)
        amph_launch_control_event(
            l, AMPH_SERVER, false,
            (struct amph_boot_event){ AMPH_BOOT_SHUTDOWN, l->blamed, l->code });

    l->servers_shut_down = true;
}

static void on_kill_step(void *arg)
{
    struct amph_launch *l = arg;

    shut_servers_down(l);
    amph_launch_signal_all(l, l->kill_step == 0 ? SIGTERM : SIGKILL);
    if (l->kill_step++ < KILL_STEPS_MAX)
        amph_timer_set(&l->loop, &l->step, l->kill_step == 1 ? TERM_NS : KILL_NS, on_kill_step, l);
    else
        quit_agents(l);
}

void amph_launch_cause_print(struct amph_launch *l)
{
    if (l->cause[0])
        amph_say("%s; the job ends", l->cause);

    l->cause[0] = 0;
}

static void on_cause_due(void *arg)
{
    amph_launch_cause_print(arg);
}

static void fail(struct amph_launch *l, uint32_t rank, int code, const char *fmt, ...)
    AMPH_PRINTF(4, 5);
static void fail(struct amph_launch *l, uint32_t rank, int code, const char *fmt, ...)
{
    va_list ap;

    if (l->phase >= AMPH_PHASE_ENDING)
        return;

    l->phase = AMPH_PHASE_ENDING;
    l->code = code;
    l->blamed = rank;
    l->kill_step = 0;
    va_start(ap, fmt);
    vsnprintf(l->cause, sizeof l->cause, fmt, ap);
    va_end(ap);
    amph_timer_set(&l->loop, &l->cause_timer, CAUSE_NS, on_cause_due, l);
    amph_launch_stdio_stop_input(l);
    amph_tree_set_silence(l, SILENCE_NS);

    if (!l->spawned) { /* no process was started */
        for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
            l->procs[i].ended = true;
        l->nliving[AMPH_COMPUTE] = l->nliving[AMPH_SERVER] = 0;
    }

    amph_launch_control_event(l, AMPH_COMPUTE, true,
                              (struct amph_boot_event){ AMPH_BOOT_SHUTDOWN, rank, code });
    amph_timer_set(&l->loop, &l->step, some_joined(l) ? SHUTDOWN_NS : 0, on_kill_step, l);
    advance(l);
}

static void on_drain_late(void *arg)
{
    struct amph_launch *l = arg;
    fail(l, AMPH_RANK_NONE, 1, "%u servers have not finished %u s after the last compute process",
         l->nliving[AMPH_SERVER], (unsigned)(DRAIN_NS / AMPH_NS_PER_S));
}

static bool survives_server_deaths(const struct amph_launch *l)
{
    return strcmp(l->o->on_server_death, "end") != 0;
}

/* Notes the servers that have died while the job ran, although their ends were not reported yet.  The kernel
 * closes a killed process's connections at once, and takes longer to release its memory: the compute
 * processes may go on with another server, and end, before that. */
static void note_dead_servers(struct amph_launch *l)
{
    for (uint32_t i = l->job.nproc[AMPH_COMPUTE]; i < amph_boot_jobdesc_total(&l->job); i++) {
        struct amph_lproc *p = &l->procs[i];

        if (p->ended || !p->joined || p->left)
            continue;

        amph_launch_control_receive_event(p);
        p->died_in_run = !p->conn && !p->left;
    }
}

static void drain(struct amph_launch *l)
{
    bool joined = false;

    if (survives_server_deaths(l))
        note_dead_servers(l);

    l->phase = AMPH_PHASE_DRAIN;
    amph_launch_control_event(l, AMPH_SERVER, false,
                              (struct amph_boot_event){ AMPH_BOOT_DRAIN, AMPH_RANK_NONE, 0 });
    for (uint32_t i = l->job.nproc[AMPH_COMPUTE]; i < amph_boot_jobdesc_total(&l->job); i++)
        joined = joined || (l->procs[i].joined && !l->procs[i].ended);

    /* If one server has joined, the others will: they meet in the exchange of addresses, and
     * receive the drain event then. */
    for (uint32_t i = l->job.nproc[AMPH_COMPUTE]; i < amph_boot_jobdesc_total(&l->job) && !joined;
         i++)
        if (!l->procs[i].ended) {
            l->procs[i].signalled = true; /* it has no clients, or is not an iofwd-server */
            amph_launch_signal_proc(&l->procs[i], SIGTERM);
        }

    amph_timer_set(&l->loop, &l->step, DRAIN_NS, on_drain_late, l);
}

static bool all_orphans_gone(const struct amph_launch *l)
{
    for (uint32_t i = 0; i < l->nagents; i++)
        if (!l->agents[i].gone && !l->agents[i].orphans_gone)
            return false;

    return true;
}

static void on_abort_due(void *arg);

/* Returns whether a process whose death ends the job is dying: its connection has closed, but its
 * end was not reported yet.  The kernel closes the connections of a killed process first, so
 * another process may fail, and end, before the launcher learns of the death that caused it. */
static bool one_is_dying(struct amph_launch *l)
{
    uint32_t n = survives_server_deaths(l) ? l->job.nproc[AMPH_COMPUTE]
                                           : amph_boot_jobdesc_total(&l->job);

    for (uint32_t i = 0; i < n; i++) {
        struct amph_lproc *p = &l->procs[i];

        if (p->ended || !p->joined || p->left)
            continue;

        amph_launch_control_receive_event(p);
        if (!p->conn && !p->left)
            return true;
    }

    return false;
}

/* Handles a pending abort at once if its process was the last of its group, and no server lives whose
 * death may be the cause. */
static void check_pending_abort(struct amph_launch *l)
{
    if (l->abort_rank == AMPH_RANK_NONE || l->phase >= AMPH_PHASE_ENDING ||
        l->nliving[l->procs[l->abort_rank].group] > 0)
        return;
    if (!survives_server_deaths(l) && l->nliving[AMPH_SERVER] > 0)
        return;

    amph_timer_stop(&l->loop, &l->abort_timer);
    on_abort_due(l);
}

/* Enters the next phase if everything that the present phase waits for has happened. */
static void advance(struct amph_launch *l)
{
    check_pending_abort(l);
    if (l->phase == AMPH_PHASE_RUN && l->nliving[AMPH_COMPUTE] == 0) {
        l->phase = AMPH_PHASE_ORPHANS;
        amph_timer_stop(&l->loop, &l->step);
        amph_launch_clocks_finish(l); /* the answers come before those that follow */
        send_agents(l, AMPH_AGENT_ORPHANS);
    }

    if (l->phase == AMPH_PHASE_ORPHANS && all_orphans_gone(l))
        drain(l);

    if (l->phase == AMPH_PHASE_DRAIN && l->nliving[AMPH_SERVER] == 0)
        quit(l);

    if (l->phase == AMPH_PHASE_ENDING && l->nliving[AMPH_COMPUTE] == 0)
        shut_servers_down(l);

    if (l->phase == AMPH_PHASE_ENDING && l->nliving[AMPH_COMPUTE] + l->nliving[AMPH_SERVER] == 0)
        quit(l);

    if (l->phase == AMPH_PHASE_PACK && !amph_launch_records_wait(l))
        on_pack_late(l);
}

void amph_launch_orphans_gone(struct amph_lagent *agent)
{
    agent->orphans_gone = true;
    advance(agent->launch);
}

/* ---- processes ---- */

bool amph_launch_proc_is_replaced(const struct amph_lproc *p)
{
    return p->group == AMPH_SERVER && (p->ended || p->death_code) &&
           survives_server_deaths(p->launch);
}

/* Reports a death to all processes.  Ends the job, unless it is a server's death and
 * -on-server-death says that the job continues. */
static void died(struct amph_lproc *p, int code, const char *how)
{
    struct amph_launch *l = p->launch;

    p->death_code = code;
    amph_launch_control_event(l, AMPH_NGROUPS, true,
                              (struct amph_boot_event){ AMPH_BOOT_DEATH, p->rank, code });

    if (p->group == AMPH_SERVER && survives_server_deaths(l) &&
        (l->phase < AMPH_PHASE_DRAIN || p->died_in_run))
        amph_say("%s %s; %s", amph_launch_proc_name(p), how,
                 strcmp(l->o->on_server_death, "failover") == 0
                     ? "the next server takes over"
                     : "calls on its files fail with EIO from now on");
    else
        fail(l, p->rank, code, "%s %s", amph_launch_proc_name(p), how);
}

void amph_launch_check_absent(struct amph_launch *l, enum amph_group group, const char *what)
{
    uint32_t first = group == AMPH_COMPUTE ? 0 : l->job.nproc[AMPH_COMPUTE];
    bool pmi = l->pmi[group].nwaiting > 0;
    bool exchange = l->nexchanged[group] > 0 && !l->exchange_done[group];

    for (uint32_t i = 0; i < l->job.nproc[group]; i++) {
        const struct amph_lproc *p = &l->procs[first + i];

        if (p->rank == l->abort_rank || p == l->reporting)
            continue; /* its end is reported soon */

        bool awaited = exchange && !p->exchanged && !amph_launch_proc_is_replaced(p);

        if (p->ended && ((pmi && !p->pmi_waits) || awaited))
            fail(l, p->rank, 1, "%s has ended, but other processes wait for it %s",
                 amph_launch_proc_name(p), what);
    }
}

static void set_pending_abort(struct amph_lproc *p, int code, enum amph_pending what,
                              const char *how);

/* Handles the end of p with an error.  If that may be the consequence of another process's death,
 * the other one is reported. */
static void ended_badly(struct amph_lproc *p, int code, const char *how)
{
    struct amph_launch *l = p->launch;
    bool servers = l->job.nproc[AMPH_SERVER] > 0 && !survives_server_deaths(l);

    /* the report of the other death may arrive later */
    if (p->group == AMPH_COMPUTE && (servers || one_is_dying(l)))
        set_pending_abort(p, code, AMPH_PENDING_END, how);
    else
        died(p, code, how);
}

/* Reports the end of a process if it is a failure. */
static void report_end(struct amph_lproc *p, bool by_signal, int number, bool core)
{
    struct amph_launch *l = p->launch;
    char how[160];

    if (by_signal) {
        snprintf(how, sizeof how, "was killed by signal %d (%s%s)", number, strsignal(number),
                 core ? ", core dumped" : "");
        ended_badly(p, 128 + number, how);
    } else if (number != 0) {
        snprintf(how, sizeof how, "ended with exit code %d", number);
        ended_badly(p, number, how);
    } else if (p->joined && !p->left) {
        died(p, 1,
             "ended with exit code 0 without leaving the job (by _exit, or by a main program that "
             "went on without it)");
    } else if (p->pmi_joined && !p->pmi_left && !p->joined) {
        died(p, 1, "ended with exit code 0 without finalizing PMI");
    } else if (p->group == AMPH_SERVER && l->phase < AMPH_PHASE_DRAIN) {
        died(p, 1, "ended with exit code 0 while compute processes still run");
    }
}

static void check_end(struct amph_lproc *p, bool by_signal, int number, bool core)
{
    struct amph_launch *l = p->launch;

    if (l->phase >= AMPH_PHASE_ENDING || p->signalled || p->death_code)
        return;
    if (p->rank == l->abort_rank || p->aborted)
        return; /* an abort is pending */

    l->reporting = p; /* meanwhile messages of others are handled, which may wait for it */
    report_end(p, by_signal, number, core);
    l->reporting = NULL;
    amph_launch_check_absent(l, p->group, "to start");
}

static void on_exit_late(void *arg)
{
    struct amph_launch *l = arg;
    bool first = l->kill_step++ == 0;

    if (l->phase != AMPH_PHASE_RUN)
        return;

    if (first) {
        amph_say(
            "%u compute processes are still running %.3g s after the first gasnet_exit(0); they "
            "are ended now",
            l->nliving[AMPH_COMPUTE], (double)(amph_now_ns() - l->exit_ns) / 1e9);
        amph_launch_control_event(
            l, AMPH_COMPUTE, false,
            (struct amph_boot_event){ AMPH_BOOT_SHUTDOWN, AMPH_RANK_NONE, 0 });
    }

    for (uint32_t i = 0; i < l->job.nproc[AMPH_COMPUTE] && !first; i++)
        if (!l->procs[i].ended) {
            l->procs[i].signalled = true;
            amph_launch_signal_proc(&l->procs[i], l->kill_step == 2 ? SIGTERM : SIGKILL);
        }

    amph_timer_set(&l->loop, &l->step, first ? SHUTDOWN_NS : TERM_NS, on_exit_late, l);
}

/* Restarts the time limit after gasnet_exit(0) whenever a process ends, because a loaded machine
 * needs time for many ends.  The total is at most EXIT_PATIENCE times the limit.  A limit that
 * the user has set is not extended. */
static void extend_exit_limit(struct amph_launch *l)
{
    uint64_t limit = amph_env_exit_timeout_ns(l->job.nproc[AMPH_COMPUTE]);
    uint64_t now = amph_now_ns();
    uint64_t last = l->exit_ns + EXIT_PATIENCE * limit;
    bool waiting = l->exit_called && l->kill_step == 0 && l->phase == AMPH_PHASE_RUN &&
                   l->nliving[AMPH_COMPUTE] > 0;

    if (!waiting || amph_env_is_set(AMPH_ENV_EXITTIMEOUT))
        return;

    uint64_t left = now < last ? last - now : 0;

    amph_timer_set(&l->loop, &l->step, limit < left ? limit : left, on_exit_late, l);
}

void amph_launch_proc_ended(struct amph_lproc *p, bool by_signal, int number, bool core)
{
    struct amph_launch *l = p->launch;

    amph_launch_control_receive_event(p);
    if (p->ended)
        return;

    p->ended = true;
    l->nliving[p->group]--;
    amph_timer_stop(&l->loop, &p->lost_timer);
    if (p->rank == 0)
        amph_launch_stdio_stop_input(l);

    check_end(p, by_signal, number, core);
    amph_launch_control_changed(p);
    extend_exit_limit(l);
    advance(l);
}

void amph_launch_proc_failed_to_start(struct amph_lproc *p, int error)
{
    struct amph_launch *l = p->launch;

    p->ended = true;
    l->nliving[p->group]--;

    if (l->phase < AMPH_PHASE_ENDING) {
        const struct amph_lagent *agent = amph_launch_agent_of(p);
        int code = amph_program_explain(
            amph_tree_program(p), agent->remote ? l->job.host_name[agent->host] : NULL, error);

        fail(l, p->rank, code, "%s %u could not be started",
             p->group == AMPH_COMPUTE ? "compute" : "server", amph_launch_proc_number(p));
    }

    advance(l);
}

/* Will the agent report the end of the process?  On a busy machine that may take longer than LOST_NS. */
static bool end_is_due(struct amph_lproc *p)
{
    const struct amph_lagent *agent = amph_launch_agent_of(p);

    return !agent->remote && !agent->gone && (!p->started || amph_reap_has_ended(p->pid));
}

static void on_lost(void *arg)
{
    struct amph_lproc *p = arg;

    if (p->ended || p->left)
        return;

    if (end_is_due(p)) {
        amph_timer_set(&p->launch->loop, &p->lost_timer, LOST_NS, on_lost, p);
        return;
    }

    died(p, 1,
         "closed its connection to the job without leaving it (its program was replaced, or "
         "ended below the process that was "
         "started)");
    amph_launch_control_changed(p);
}

void amph_launch_proc_lost(struct amph_lproc *p)
{
    if (p->launch->phase < AMPH_PHASE_ENDING && !p->ended)
        amph_timer_set(&p->launch->loop, &p->lost_timer, LOST_NS, on_lost, p);
}

/* ---- exit and abort ---- */

static void on_abort_due(void *arg)
{
    struct amph_launch *l = arg;
    struct amph_lproc *p = &l->procs[l->abort_rank];
    int code = l->abort_code & 255;

    if (l->phase >= AMPH_PHASE_ENDING)
        return;

    if (l->abort_waits++ < ABORT_WAITS_MAX && one_is_dying(l)) {
        amph_timer_set(&l->loop, &l->abort_timer, ABORT_NS, on_abort_due, l);
        return;
    }

    switch (l->abort_what) {
    case AMPH_PENDING_EXIT:
        fail(l, p->rank, code, "%s called gasnet_exit(%d)", amph_launch_proc_name(p),
             l->abort_code);
        break;
    case AMPH_PENDING_ABORT:
        fail(l, p->rank, code ? code : 1, "%s ended the job with exit code %d",
             amph_launch_proc_name(p), code ? code : 1);
        break;
    case AMPH_PENDING_END:
        died(p, code, l->abort_how);
        break;
    }
}

/* Makes a failure of p pending, because it may be a consequence of another process's death.  how: of
 * AMPH_PENDING_END, what follows the process's name in the message. */
static void set_pending_abort(struct amph_lproc *p, int code, enum amph_pending what,
                              const char *how)
{
    struct amph_launch *l = p->launch;

    if (l->abort_rank != AMPH_RANK_NONE || l->phase >= AMPH_PHASE_ENDING)
        return;

    l->abort_rank = p->rank;
    l->abort_code = code;
    l->abort_what = what;
    snprintf(l->abort_how, sizeof l->abort_how, "%s", how);
    amph_timer_set(&l->loop, &l->abort_timer, ABORT_NS, on_abort_due, l);
}

void amph_launch_proc_left(struct amph_lproc *p, bool exit_called, int code)
{
    struct amph_launch *l = p->launch;

    p->left = true;
    if (!exit_called || l->phase != AMPH_PHASE_RUN)
        return;

    if (code & 255 && (l->nagents > 1 || one_is_dying(l))) {
        /* a client's reaction to a death may arrive before the death is reported */
        set_pending_abort(p, code, AMPH_PENDING_EXIT, "");
    } else if (code & 255) {
        fail(l, p->rank, code & 255, "%s called gasnet_exit(%d)", amph_launch_proc_name(p), code);
    } else if (!l->exit_called) {
        /* The other processes get time, so that one that prints results after the last barrier does
         * not lose them. */
        l->exit_called = true;
        l->exit_ns = amph_now_ns();
        amph_timer_set(&l->loop, &l->step, amph_env_exit_timeout_ns(l->job.nproc[AMPH_COMPUTE]),
                       on_exit_late, l);
    }
}

void amph_launch_proc_abort(struct amph_lproc *p, int code)
{
    p->left = p->aborted = true;
    set_pending_abort(p, code, AMPH_PENDING_ABORT, "");
}

/* ---- agents, signals, time ---- */

/* Kills the processes of a dead agent, which have become children of the launcher. */
static void kill_strays(struct amph_launch *l)
{
    size_t n = 0;
    pid_t *living = calloc(l->nagents, sizeof *living);

    for (uint32_t i = 0; i < l->nagents && living; i++)
        if (!l->agents[i].gone && (!l->agents[i].remote || l->agents[i].link.pid))
            living[n++] = l->agents[i].remote ? l->agents[i].link.pid : l->agents[i].pid;

    if (living)
        amph_reap_kill(living, n, 2000);

    free(living);
}

/* Returns whether the loss of this host, and of the hosts below it in the tree, is only a loss of
 * servers in a job that continues without them. */
static bool host_is_replaced(const struct amph_lagent *agent)
{
    const struct amph_launch *l = agent->launch;

    if (!l->spawned || l->phase >= AMPH_PHASE_DRAIN || !survives_server_deaths(l))
        return false;

    for (uint32_t i = 0; i < l->job.nproc[AMPH_COMPUTE]; i++)
        if (!l->procs[i].ended && amph_tree_is_above(agent, &l->agents[l->job.proc[i].host]))
            return false;

    return true;
}

/* Marks all processes of a lost host as ended.  Returns how many servers lived there. */
static uint32_t forget_host(struct amph_lagent *agent)
{
    struct amph_launch *l = agent->launch;
    uint32_t nservers = 0;

    agent->gone = true;
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        if (l->job.proc[i].host == agent->host && !l->procs[i].ended) {
            l->procs[i].ended = true;
            l->nliving[l->procs[i].group]--;
            nservers += l->procs[i].group == AMPH_SERVER;
        }

    return nservers;
}

/* Reports the deaths of a lost host's servers to all processes: their connections to that host may
 * stay open for ever. */
static void replace_servers(struct amph_lagent *agent, int code)
{
    struct amph_launch *l = agent->launch;

    for (uint32_t i = l->job.nproc[AMPH_COMPUTE]; i < amph_boot_jobdesc_total(&l->job); i++) {
        struct amph_lproc *p = &l->procs[i];

        if (l->job.proc[i].host != agent->host || p->death_code)
            continue;

        amph_timer_stop(&l->loop, &p->lost_timer);
        p->death_code = code;
        amph_launch_control_event(l, AMPH_NGROUPS, true,
                                  (struct amph_boot_event){ AMPH_BOOT_DEATH, p->rank, code });
        amph_launch_control_changed(p);
    }
}

/* Handles the loss of a host.  sentence: what has happened to it, with its name. */
static void lose_host(struct amph_lagent *agent, int code, const char *sentence)
{
    struct amph_launch *l = agent->launch;
    bool replaced = host_is_replaced(agent);
    uint32_t nservers = forget_host(agent);

    if (!replaced) {
        fail(l, AMPH_RANK_NONE, code, "%s", sentence);
        return;
    }

    if (!agent->remote)
        kill_strays(l); /* no two servers may write the same file */

    replace_servers(agent, code);
    amph_say(strcmp(l->o->on_server_death, "failover") == 0
                 ? "%s; other servers take over from its %u %s"
                 : "%s; calls on files of its %u %s fail with EIO from now on",
             sentence, nservers, nservers == 1 ? "server" : "servers");
    amph_launch_check_absent(l, AMPH_SERVER, "to start");
}

void amph_launch_host_lost(struct amph_lagent *agent, int code, const char *why)
{
    struct amph_launch *l = agent->launch;
    char sentence[1024];

    snprintf(sentence, sizeof sentence, "the host %s %s", l->job.host_name[agent->host], why);
    if (!agent->gone)
        lose_host(agent, code, sentence);

    amph_launch_control_agent_gone(agent);
    if (agent->remote && !agent->above && agent->link.pid)
        amph_remote_drop(&agent->link);

    for (uint32_t i = 0; i < l->nagents; i++)
        if (l->agents[i].above == agent && !l->agents[i].gone)
            amph_launch_host_lost(&l->agents[i], code,
                                  "is lost, because the host above it in the tree is lost");

    advance(l);
}

void amph_launch_agent_lost(struct amph_lagent *agent, int status)
{
    struct amph_launch *l = agent->launch;
    const char *host = l->job.host_name[agent->host];
    char sentence[1024];

    if (l->phase == AMPH_PHASE_DONE) {
        agent->gone = true;
        return;
    }

    if (WIFSIGNALED(status)) {
        snprintf(sentence, sizeof sentence,
                 "the agent of host %s (process %d) was killed by signal %d (%s)", host,
                 (int)agent->pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
        lose_host(agent, 128 + WTERMSIG(status), sentence);
    } else {
        snprintf(sentence, sizeof sentence,
                 "the agent of host %s (process %d) ended with exit code %d", host, (int)agent->pid,
                 WEXITSTATUS(status));
        lose_host(agent, 1, sentence);
    }

    kill_strays(l);
    advance(l);
}

/* Ends the job after -grace.  A sender of SIGTERM (a batch system, timeout(1)) sends it only
 * once and relies on the job's end. */
static void on_grace_over(void *arg)
{
    struct amph_launch *l = arg;

    if (l->phase == AMPH_PHASE_RUN)
        fail(l, AMPH_RANK_NONE, 128 + SIGTERM,
             "%u of %u compute processes have not ended %g s (-grace) after signal %d (%s)",
             l->nliving[AMPH_COMPUTE], l->job.nproc[AMPH_COMPUTE], l->o->grace_s, SIGTERM,
             strsignal(SIGTERM));
}

void amph_launch_job_signal(struct amph_launch *l, int sig)
{
    bool ends = sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;

    if (ends && l->phase == AMPH_PHASE_PACK) { /* the job's own exit code stays */
        on_pack_late(l);
        return;
    }

    if (ends && (l->nsignals++ > 0 || l->phase != AMPH_PHASE_RUN)) {
        fail(l, AMPH_RANK_NONE, 128 + sig, "received signal %d (%s)%s", sig, strsignal(sig),
             l->nsignals > 1 ? " again" : "");
        return;
    }

    for (uint32_t i = 0; i < l->job.nproc[AMPH_COMPUTE]; i++)
        if (!l->procs[i].ended)
            amph_launch_signal_proc(&l->procs[i], sig);

    if (sig == SIGTERM)
        amph_timer_set(&l->loop, &l->grace, (uint64_t)(l->o->grace_s * 1e9), on_grace_over, l);
}

static void on_timeout(void *arg)
{
    struct amph_launch *l = arg;

    fail(l, AMPH_RANK_NONE, TIMEOUT_CODE,
         "the time limit of %g s (-timeout) has passed with %u of %u processes still running",
         l->o->timeout_s, l->nliving[AMPH_COMPUTE] + l->nliving[AMPH_SERVER],
         amph_boot_jobdesc_total(&l->job));
}

void amph_launch_ending_start(struct amph_launch *l)
{
    l->phase = AMPH_PHASE_RUN;
    l->blamed = l->abort_rank = AMPH_RANK_NONE;
    l->nliving[AMPH_COMPUTE] = l->job.nproc[AMPH_COMPUTE];
    l->nliving[AMPH_SERVER] = l->job.nproc[AMPH_SERVER];
    if (l->o->timeout_s > 0)
        amph_timer_set(&l->loop, &l->timeout, (uint64_t)(l->o->timeout_s * 1e9), on_timeout, l);
}

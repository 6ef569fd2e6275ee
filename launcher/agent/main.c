/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent's main program; see agent.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "base/wire.h"
#include "launcher/agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/log.h"
#include "base/platform.h"
#include "boot/boot.h"
#include "launcher/agent/internal.h"
#include "launcher/master/jobdir.h"
#include "launcher/common/reap.h"
#include "launcher/common/record_pack.h"

#define ORPHAN_GRACE_NS (200 * AMPH_NS_PER_MS)
#define ORPHAN_ROUND_NS (5 * AMPH_NS_PER_MS)
#define ORPHANS_LIMIT_NS (2 * AMPH_NS_PER_S) /* before records are compressed */
enum {
    KILL_LIMIT_MS = 10000,
    ORPHAN_ROUNDS_MAX = 1000
};

void amph_agent_finish(struct amph_agent *a, int code)
{
    amph_reap_kill(NULL, 0, KILL_LIMIT_MS);
    amph_launch_jobdir_remove(a->directory);
    _exit(code);
}

void amph_agent_send(struct amph_agent *a, uint16_t type, const void *body, size_t len_bytes)
{
    enum amph_status st = amph_boot_frames_send(&a->frames, type, body, len_bytes);

    if (st == AMPH_ERR_NOMEM)
        amph_error("there is no memory for what is sent to the launcher");
    if (st != AMPH_OK)
        amph_agent_finish(a, 1);

    if (!amph_boot_frames_pending(&a->frames))
        return;

    if (a->out_watch)
        amph_watch_want(a->out_watch, EPOLLOUT);
    else
        amph_watch_want(a->watch, EPOLLIN | EPOLLOUT);
}

static struct amph_agent_proc *find(struct amph_agent *a, uint32_t rank)
{
    struct amph_agent_proc *p = a->procs;

    while (p && p->rank != rank)
        p = p->next;

    return p;
}

/* ---- ends of processes ---- */

static void report_end(struct amph_agent_proc *p, int status)
{
    uint8_t body[10];
    struct amph_wr w;

    amph_agent_drain(p);
    amph_agent_relay_drain(p->agent); /* so that messages sent before the end count */
    p->pid = 0;
    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, p->rank);
    amph_wr_u8(&w, WIFSIGNALED(status));
    amph_wr_u32(&w,
                WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : (uint32_t)WEXITSTATUS(status));
    amph_wr_u8(&w, WIFSIGNALED(status) && WCOREDUMP(status));
    amph_agent_send(p->agent, AMPH_AGENT_ENDED, body, amph_wr_len(&w));
}

static void report_packed(struct amph_agent *a, bool failed)
{
    uint8_t body = failed;

    a->packs = 0;
    amph_agent_send(a, AMPH_AGENT_PACKED, &body, 1);
}

static void on_end(struct amph_agent *a, pid_t pid, int status)
{
    if (amph_agent_child_reaped(a, pid, status))
        return;

    if (pid == a->packs) {
        report_packed(a, status != 0);
        return;
    }

    for (struct amph_agent_proc *p = a->procs; p; p = p->next)
        if (p->pid == pid) {
            report_end(p, status);
            return;
        }
}

static void on_signal(void *arg, uint32_t events)
{
    struct amph_agent *a = arg;
    struct signalfd_siginfo info;
    pid_t pid;
    int status;

    while (read(a->signal_fd, &info, sizeof info) == sizeof info)
        ;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        on_end(a, pid, status);
}

/* ---- orphans: what ended processes left behind ---- */

static size_t signal_orphans(struct amph_agent *a, int sig)
{
    size_t n = 0;
    size_t cap = 0;

    for (struct amph_agent_proc *p = a->procs; p; p = p->next)
        cap++;

    size_t nssh = amph_agent_children(a, NULL);
    pid_t *living = calloc(cap + nssh + 1, sizeof *living);

    for (struct amph_agent_proc *p = a->procs; p && living; p = p->next)
        if (p->pid)
            living[n++] = p->pid;

    if (living)
        n += amph_agent_children(a, living + n);

    size_t left = amph_reap_signal(sig, living, n);

    free(living);
    return left;
}

/* Is one of the processes ending whose end was not reported yet? */
static bool one_is_ending(const struct amph_agent *a)
{
    for (const struct amph_agent_proc *p = a->procs; p; p = p->next)
        if (p->pid && amph_reap_is_ending(p->pid))
            return true;

    return false;
}

/* Sends SIGTERM first, then SIGKILL every few milliseconds.  The answer follows the reports of all servers that died
 * while the job ran, since the launcher takes one that dies after it for a server that has lost data. */
static void end_orphans(void *arg)
{
    struct amph_agent *a = arg;
    bool first = a->orphan_rounds == 0;
    bool left = signal_orphans(a, first ? SIGTERM : SIGKILL) > 0;

    if ((!left && !one_is_ending(a)) || a->orphan_rounds++ > ORPHAN_ROUNDS_MAX)
        amph_agent_send(a, AMPH_AGENT_ORPHANS_GONE, NULL, 0);
    else
        amph_timer_set(&a->loop, &a->orphan_timer,
                       first && left ? ORPHAN_GRACE_NS : ORPHAN_ROUND_NS, end_orphans, a);
}

/* ---- orders ---- */

static void on_setup(struct amph_agent *a, struct amph_rd *r)
{
    size_t cwd_len, key_len;
    const char *cwd = amph_rd_blob(r, &cwd_len);

    a->bind = (enum amph_bind)amph_rd_u8(r);

    const uint8_t *key = amph_rd_blob(r, &key_len);

    errno = 0;

    char *cwd_text = cwd ? strndup(cwd, cwd_len) : NULL;

    if (r->bad || a->env || !cwd_text || !(a->env = amph_agent_read_texts(r))) {
        amph_error(errno == ENOMEM
                       ? "there is no memory for the environment of the job's processes"
                       : "the launcher's first order cannot be read; use one version of "
                         "amphora everywhere");
        amph_agent_finish(a, 1);
    }

    if (a->remote && amph_agent_relay_open(a, key, key_len) != AMPH_OK)
        amph_agent_finish(a, 1);

    if (chdir(cwd_text) < 0)
        amph_warn("cannot go to the working directory %s: %m; processes start in another one",
                  cwd_text);

    free(cwd_text);
    if (a->bind != AMPH_BIND_NONE && amph_topo_open(&a->topo) != AMPH_OK)
        amph_warn("the machine's topology cannot be read; processes are not bound");
}

static void on_spawn(struct amph_agent *a, struct amph_rd *r)
{
    amph_agent_spawn(a, r);
}

static void on_input(struct amph_agent *a, struct amph_rd *r)
{
    struct amph_agent_proc *p = find(a, amph_rd_u32(r));

    if (p && !r->bad)
        amph_agent_input(p, r->at, amph_rd_left(r));
}

static void on_pmi(struct amph_agent *a, struct amph_rd *r)
{
    struct amph_agent_proc *p = find(a, amph_rd_u32(r));

    if (p && !r->bad)
        amph_agent_pmi(p, r->at, amph_rd_left(r));
}

static void on_signal_order(struct amph_agent *a, struct amph_rd *r)
{
    uint32_t rank = amph_rd_u32(r);
    int sig = (int)amph_rd_u32(r);

    if (r->bad || sig <= 0 || sig >= NSIG)
        return;

    if (rank == AMPH_RANK_NONE) {
        size_t n = amph_agent_children(a, NULL);

        /* these lead to other hosts, whose agents send the signal to their processes */
        pid_t *ssh = calloc(n + 1, sizeof *ssh);

        if (ssh)
            amph_reap_signal(sig, ssh, amph_agent_children(a, ssh));

        free(ssh);
        return;
    }

    struct amph_agent_proc *p = find(a, rank);

    if (p && p->pid && kill(-p->pid, sig) < 0)
        kill(p->pid, sig); /* it has not created its process group yet, or has left it */
}

static void on_orphans(struct amph_agent *a, struct amph_rd *r)
{
    a->orphan_rounds = 0;
    end_orphans(a);
}

static void on_output_taken(struct amph_agent *a, struct amph_rd *r)
{
    amph_agent_output_taken(a, amph_rd_u32(r));
}

static void on_close_output(struct amph_agent *a, struct amph_rd *r)
{
    int which = amph_rd_u8(r) == 2 ? AMPH_END_ERR : AMPH_END_OUT;

    for (struct amph_agent_proc *p = a->procs; p; p = p->next)
        amph_agent_close_end(&p->end[which]);
}

static void on_quit(struct amph_agent *a, struct amph_rd *r)
{
    a->quitting = true;

    /* otherwise the last process to end reports it */
    if (amph_agent_children(a, NULL) == 0)
        amph_agent_finish(a, 0);
}

static void on_clock(struct amph_agent *a, struct amph_rd *r)
{
    uint8_t body[16];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u64(&w, amph_rd_u64(r));
    amph_wr_u64(&w, amph_now_ns());
    amph_agent_send(a, AMPH_AGENT_CLOCK, body, amph_wr_len(&w));
}

/* Waits until no process of the job is left, since the records of one that still runs are not compressed.  After a
 * failed job, processes that it has left behind have got their signal, but may not have ended yet. */
static void await_orphans(struct amph_agent *a)
{
    const struct timespec between = { .tv_nsec = 2 * (long)AMPH_NS_PER_MS };
    const uint64_t end_ns = amph_now_ns() + ORPHANS_LIMIT_NS;

    while (signal_orphans(a, SIGKILL) > 0 && amph_now_ns() < end_ns)
        nanosleep(&between, NULL);
}

static void on_pack(struct amph_agent *a, struct amph_rd *r)
{
    size_t len;
    const char *dir = amph_rd_blob(r, &len);
    uint64_t min_bytes = amph_rd_u64(r);
    char *text = r->bad ? NULL : strndup(dir, len);

    await_orphans(a);
    a->packs = text ? amph_record_pack_begin(text, min_bytes, a->inherit) : -1;
    free(text);
    if (a->packs <= 0)
        report_packed(a, a->packs < 0);
}

static void on_beat(struct amph_agent *a, struct amph_rd *r)
{
    a->launcher_stopped = amph_rd_left(r) > 0;
}

static void (*const orders[AMPH_AGENT_NTYPES])(struct amph_agent *a, struct amph_rd *r) = {
    [AMPH_AGENT_SETUP] = on_setup,
    [AMPH_AGENT_SPAWN] = on_spawn,
    [AMPH_AGENT_INPUT] = on_input,
    [AMPH_AGENT_PMI] = on_pmi,
    [AMPH_AGENT_SIGNAL] = on_signal_order,
    [AMPH_AGENT_ORPHANS] = on_orphans,
    [AMPH_AGENT_OUTPUT_TAKEN] = on_output_taken,
    [AMPH_AGENT_CLOSE_OUTPUT] = on_close_output,
    [AMPH_AGENT_QUIT] = on_quit,
    [AMPH_AGENT_CONN] = amph_agent_relay_take,
    [AMPH_AGENT_SPREAD] = amph_agent_spread,
    [AMPH_AGENT_ADOPT] = amph_agent_adopt,
    [AMPH_AGENT_ROUTE] = amph_agent_route,
    [AMPH_AGENT_CLOCK] = on_clock,
    [AMPH_AGENT_PACK] = on_pack,
    [AMPH_AGENT_BEAT] = on_beat,
};

static void on_frames(void *arg, uint32_t events)
{
    struct amph_agent *a = arg;
    struct amph_frame frame;
    struct amph_rd r;

    if (amph_boot_frames_flush(&a->frames) == AMPH_OK)
        amph_watch_want(a->watch, EPOLLIN);

    enum amph_status st = amph_boot_frames_fill(&a->frames);

    if (st == AMPH_ERR_NOMEM)
        amph_error("there is no memory for what the launcher sends");
    if (st != AMPH_OK && st != AMPH_AGAIN)
        amph_agent_finish(a, 1); /* the launcher is gone */

    if (st == AMPH_OK)
        a->heard_ns = amph_now_ns();

    while ((st = amph_boot_frames_next(&a->frames, &frame)) == AMPH_OK) {
        amph_rd_init(&r, frame.body, frame.len_bytes);
        if (frame.type < AMPH_AGENT_NTYPES && orders[frame.type])
            orders[frame.type](a, &r);
    }

    if (st == AMPH_ERR_PROTO)
        amph_agent_finish(a, 1);
}

/* Names the process so that "killall amphora-run" does not kill the agent, which must end the job's processes. */
static void name_process(void)
{
    prctl(PR_SET_NAME, "amphora-agent");
}

static void on_out(void *arg, uint32_t events)
{
    struct amph_agent *a = arg;
    enum amph_status st = amph_boot_frames_flush(&a->frames);

    if (st == AMPH_OK)
        amph_watch_want(a->out_watch, 0);
    else if (st != AMPH_AGAIN)
        amph_agent_finish(a, 1);
}

void amph_agent_open(struct amph_agent *a, int in_fd, int out_fd)
{
    sigset_t chld;

    name_process();
    setsid(); /* so that the launcher forwards the terminal's signals, and the agent does not receive them */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    a->listen_fd = -1;

    if (in_fd == out_fd)
        amph_boot_frames_open(&a->frames, in_fd, AMPH_AGENT_BODY_MAX);
    else
        amph_boot_frames_open_pair(&a->frames, in_fd, out_fd, AMPH_AGENT_BODY_MAX);

    a->signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->signal_fd < 0 || amph_loop_open(&a->loop) != AMPH_OK)
        amph_fatal("the agent of this host cannot start: %m");

    a->watch = amph_watch_add(&a->loop, in_fd, EPOLLIN, on_frames, a);
    if (!a->watch || !amph_watch_add(&a->loop, a->signal_fd, EPOLLIN, on_signal, a))
        _exit(1);

    if (in_fd != out_fd && !(a->out_watch = amph_watch_add(&a->loop, out_fd, 0, on_out, a)))
        _exit(1);
}

void amph_agent_loop(struct amph_agent *a)
{
    for (;;)
        amph_loop_step(&a->loop);
}

void amph_agent_main(int fd, const struct amph_inherit *inherit, char *directory)
{
    struct amph_agent a = { .inherit = inherit, .directory = directory };

    amph_agent_open(&a, fd, fd);
    amph_agent_loop(&a);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher's own process (the master): its state and what its files give each other.  Layer:
 * launcher. Thread rule: one thread; everything runs from one event loop.
 *
 *   master.c    starting agents and processes, what agents say
 *   tree.c      agents on other hosts
 *   control.c   the control socket: joining, exchange, look-ups, events
 *   pmi.c       PMI-1 servers, one a group
 *   stdio.c     output in whole lines, standard input
 *   ending.c    who ended how, what that means for the job, and the way to its end
 *   report.c    the mapping table, names of processes
 */
#ifndef AMPH_LAUNCHER_LAUNCH_H
#define AMPH_LAUNCHER_LAUNCH_H

#include "boot/control.h"
#include "boot/frames.h"
#include "boot/kind.h"
#include "launcher/agent/agent.h"
#include "launcher/common/loop.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/master/options.h"
#include "launcher/common/program.h"
#include "launcher/hosts/remote.h"

struct amph_launch;
struct amph_conn;

/* Bytes of a process's output that are not a whole line yet. */
struct amph_line {
    struct amph_bytes held;
    bool inside;   /* the next byte goes on with a line whose label is printed */
    bool after_cr; /* the last byte was a carriage return, which a newline may follow */
};

struct amph_lproc {
    struct amph_launch *launch;
    uint32_t rank; /* absolute */
    enum amph_group group;
    pid_t pid;
    bool started, ended; /* ended: the agent has told, or the agent is gone */
    bool joined, left, exchanged;
    bool signalled;         /* ended because the launcher asked for it */
    int death_code;         /* not 0: it has died, and this is what others are told */
    struct amph_conn *conn; /* of the joined process */
    char exchange_key[AMPH_CONTROL_KEY_MAX + 1];
    struct amph_values values;
    struct amph_timer lost_timer; /* its connection has closed, its end is to come */
    struct amph_line line[2];     /* standard output, standard error */
    struct amph_bytes pmi_line;
    bool pmi_joined, pmi_left, pmi_waits;
};

/* One agent: a host.  Those of this machine are the launcher's children; the others are reached by
 * ssh, from here or, where there are many, through an agent above them. */
struct amph_lagent {
    struct amph_launch *launch;
    uint32_t host;
    bool gone, orphans_gone;
    size_t owed_bytes; /* output that has not been acknowledged */

    /* of this machine */
    pid_t pid;
    struct amph_frames frames;
    struct amph_watch *watch;

    /* elsewhere */
    bool remote, ready;
    struct amph_remote link;   /* where no other agent is above it */
    struct amph_lagent *above; /* or NULL */
    char *machine, *seen_from, *address, *server_program, *preload; /* what READY said */
    struct amph_conn **conn; /* connections of its processes, by number - 1 */
    uint32_t nconns;
};

struct amph_pmi_entry;
struct amph_pmi_space {
    struct amph_pmi_entry *bucket[1024];
    size_t nentries;
    uint32_t nwaiting;
};

enum amph_phase {
    AMPH_PHASE_RUN,     /* compute processes run */
    AMPH_PHASE_ORPHANS, /* they have ended; what they left behind is being ended */
    AMPH_PHASE_DRAIN,   /* servers finish */
    /* the job has failed or gasnet_exit was called with an error: everything is being ended */
    AMPH_PHASE_ENDING,
    AMPH_PHASE_DONE /* agents quit */
};

/* One of the launcher's own outputs. */
struct amph_outlet {
    int fd;
    struct amph_bytes bytes;
    struct amph_watch *watch;
    bool closed; /* its reader is gone */
};

struct amph_launch {
    const struct amph_options *o;
    struct amph_inherit inherit;
    struct amph_loop loop;
    struct amph_jobdesc job;
    uint8_t *desc; /* encoded job description */
    size_t desc_len;
    char *directory;
    struct amph_jobfile file;
    struct amph_lproc *procs;
    struct amph_lagent *agents;
    uint32_t nagents;
    struct amph_hostset *hosts;
    /* agents of other hosts that have not answered yet; processes start when all have */
    uint32_t nunready;
    bool spawned;

    /* control.c */
    int listen_fd;
    struct amph_conn *conns;
    uint32_t nexchanged[AMPH_NGROUPS], nstated[AMPH_NGROUPS];

    /* pmi.c */
    struct amph_pmi_space pmi[AMPH_NGROUPS];

    /* stdio.c */
    struct amph_outlet outlet[2];
    struct amph_watch *input;
    bool input_waits; /* a chunk is on its way to process 0 */

    /* ending.c */
    enum amph_phase phase;
    uint32_t nliving[AMPH_NGROUPS]; /* not ended */
    int code;                       /* of the launcher */
    uint32_t blamed;                /* who caused the end, or AMPH_RANK_NONE */
    int nsignals;                   /* SIGINT and the like, forwarded so far */
    int kill_step;
    bool exit_called; /* gasnet_exit(0) */
    uint64_t exit_ns; /* when the first one was */
    bool table_printed;
    struct amph_timer timeout, step, abort_timer, table_timer, grace;
    uint32_t abort_rank;
    int abort_code;
    bool abort_exit; /* it was gasnet_exit */
};

/* ---- master.c ---- */

/* Runs the job to its end; gives the exit code.  Takes over what job and hosts lead to. */
int amph_launch_run(const struct amph_options *o, const struct amph_jobdesc *job,
                    struct amph_hostset *hosts);
/* what an agent says */
void amph_launch_take(struct amph_lagent *agent, const struct amph_frame *frame);
/* all agents are there */
enum amph_status amph_launch_spawn(struct amph_launch *l);

/* ---- tree.c ---- */

/* Starts the agents of other hosts: those near the root by ssh from here, the others through them.
 * AMPH_ERR_SYS after a sentence. */
enum amph_status amph_tree_start(struct amph_launch *l);
/* The same bytes for n connections that agents carry: connection number[i] of the agent via[i].
 * false: no memory. */
bool amph_tree_spread(struct amph_launch *l, struct amph_lagent *const *via, const uint32_t *number,
                      uint32_t n, const void *bytes, size_t len_bytes);
void amph_tree_stop(struct amph_launch *l);
/* Frames that concern the tree: READY, FROM, LOST, SAID; false: another one. */
bool amph_tree_take(struct amph_lagent *agent, const struct amph_frame *frame);
/* The longest silence of a host from now on: while the job is being ended, a host that is cut off
 * must not hold it up. */
void amph_tree_hurry(struct amph_launch *l, uint64_t silence_ns);
void amph_tree_drop(struct amph_launch *l); /* ends the connections that are left */
/* The file that this host's processes of a group run: the host file's, for the host or its kind of
 * machine, or the common one. */
const char *amph_tree_program(struct amph_lproc *p);
void amph_agent_report(struct amph_lagent *agent, uint16_t type, const void *body,
                       size_t len_bytes);
struct amph_lagent *amph_agent_of(struct amph_lproc *p);
/* every process that descends from an agent */
void amph_signal_all(struct amph_launch *l, int sig);
void amph_signal_proc(struct amph_lproc *p, int sig); /* one process group */

/* ---- control.c ---- */

enum amph_status amph_control_start(struct amph_launch *l);
void amph_control_stop(struct amph_launch *l);
/* Sends an event to the joined members of a group (AMPH_NGROUPS: all) and, where attached is set,
 * to attached file clients. */
void amph_control_event(struct amph_launch *l, int group, bool attached,
                        struct amph_boot_event event);
/* Takes what the process has sent so far, so that a word said before its end counts. */
void amph_control_receive_event(struct amph_lproc *p);
/* Bytes of a process on another host, carried by its agent (CONN); and the end of all that one
 * carries. */
void amph_control_carried(struct amph_lagent *agent, struct amph_rd *r);
void amph_control_agent_gone(struct amph_lagent *agent);
/* it has published or ended: answers who waits for it */
void amph_control_changed(struct amph_lproc *p);

/* ---- pmi.c ---- */

void amph_pmi_bytes(struct amph_lproc *p, const void *bytes, size_t len_bytes);
void amph_pmi_stop(struct amph_launch *l);
/* stores the process mapping of each group */
enum amph_status amph_pmi_start(struct amph_launch *l);

/* ---- stdio.c ---- */

enum amph_status amph_stdio_start(struct amph_launch *l);
void amph_stdio_output(struct amph_lproc *p, int stream, const void *bytes, size_t len_bytes);
void amph_stdio_input_taken(struct amph_launch *l, bool taken);
void amph_stdio_stop_input(struct amph_launch *l);
void amph_stdio_finish(struct amph_launch *l); /* writes out what is left */

/* ---- ending.c ---- */

void amph_ending_start(struct amph_launch *l); /* the time limit */
void amph_proc_ended(struct amph_lproc *p, bool by_signal, int number, bool core);
void amph_proc_failed_to_start(struct amph_lproc *p, int error);
void amph_proc_left(struct amph_lproc *p, bool exit_called, int code);
void amph_proc_abort(struct amph_lproc *p, int code);
void amph_proc_lost(struct amph_lproc *p); /* its control connection closed without a word */
void amph_agent_lost(struct amph_lagent *agent, int status);
/* An agent of another host, and all that were reached through it; why: "cannot be reached: ..." and
 * the like. */
void amph_host_lost(struct amph_lagent *agent, int code, const char *why);
void amph_orphans_gone(struct amph_lagent *agent);
void amph_job_signal(struct amph_launch *l, int sig);
/* Somebody of `group` waits for all its members: fails the job if one of them has ended without
 * having come. */
void amph_check_absent(struct amph_launch *l, enum amph_group group, const char *what);

/* ---- report.c ---- */

/* "compute 3 (process 1234) on hostA", in static storage. */
const char *amph_proc_name(const struct amph_lproc *p);
void amph_table_start(struct amph_launch *l);
/* prints the table once everybody has stated its facts */
void amph_table_check(struct amph_launch *l);
void amph_table_print(struct amph_launch *l);

#endif

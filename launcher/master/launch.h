/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The master: the process of amphora-run.  This header has its state and the functions that its
 * files share.
 *
 *   main.c         the main program
 *   options.c      the command line
 *   environment.c  environment and arguments of the job's processes
 *   jobdir.c       the job's private directory
 *   master.c       starts agents and processes, handles the agents' frames
 *   control.c      the control socket: joining, exchange, look-ups, events
 *   pmi.c          PMI-1 servers, one for each group
 *   stdio.c        standard output in whole lines, standard input
 *   ending.c       ends of processes, their consequences, and the end of the job
 *   mapping.c      which server serves which compute process
 *   report.c       the mapping table, names of processes
 *   suspend.c      job control: ^Z and fg
 *   progress.c     iofwd-ctl progress beside the job
 *   clocks.c       the clocks of a recorded job's hosts
 *   records.c      the end of a recorded job: other hosts compress their records
 *
 * The other rooms of the launcher:
 *
 *   ../agent/      the agent (agent.h)
 *   ../hosts/      hostfile.c   host files and slots
 *                  local.c      whether a host name is this machine's
 *                  remote.c     one agent on another host, over ssh
 *                  tree.c       the agents of all other hosts
 *   ../common/     loop.c       event loop
 *                  reap.c       signals to descendants
 *                  inherit.c    signal state of the user's shell, for the job's processes
 *                  program.c    paths of programs and libraries
 *                  forwarded.c  programs that only the servers have, below a prefix
 *                  message.c    messages to the user
 *                  mpi.c        programs whose MPI library cannot join a job of amphora-run
 *                  record_dir.c the folder of -record and -trace
 *                  record_pack.c its files are compressed at the end of the run
 *   ../attach/     quick/       iofwd-run's quick start (quick.h), for usual programs
 *                  main.c       all of iofwd-run, which is then named iofwd-attach
 *                  options.c    its command line
 *                  exported.h   do the servers export what -iofwd names?
 *                  way.c, .h    which way into the program, and what it needs
 *                  mount.c      who is in the namespace of iofwd-run -mount
 *                  namespace.c, .h   how it is made and entered
 *                  root.c       mount points that the host does not have
 *
 * May include: the launcher's other rooms, am, conduits, boot, base.  All writable state is in struct amph_launch,
 * the options and the hosts, which main.c owns.
 *
 * Layer: launcher.  Thread rule: one thread; everything runs in one event loop.
 */
#ifndef AMPH_LAUNCHER_LAUNCH_H
#define AMPH_LAUNCHER_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

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

/* Output of a process that is not a whole line yet. */
struct amph_line {
    struct amph_bytes held;
    bool inside;   /* the next byte continues a line whose label is printed */
    bool after_cr; /* the last byte was a carriage return; a newline may follow */
};

struct amph_lproc {
    struct amph_launch *launch;
    uint32_t rank; /* absolute */
    enum amph_group group;
    pid_t pid;
    bool started, ended; /* ended: the agent has reported it, or the agent is gone */
    bool joined, left, exchanged;
    bool died_in_run; /* a server whose connection was closed before the launcher has ended it */
    bool aborted;     /* it has asked the launcher to end the job */
    bool signalled;   /* ended because the launcher asked for it */
    int death_code;   /* 0, or the code of the death event that is sent to the others */
    struct amph_conn *conn; /* its control connection, or NULL */
    char exchange_key[AMPH_CONTROL_KEY_MAX + 1];
    struct amph_values values;
    struct amph_timer lost_timer; /* its connection has closed; its end must follow */
    struct amph_line line[2];     /* standard output, standard error */
    struct amph_bytes pmi_line;
    bool pmi_joined, pmi_left, pmi_waits;
};

/* One agent, that is, one host.  Agents of this machine are children of the master.  The others are
 * started by ssh, from here or, if there are many, by an agent above them in the tree. */
struct amph_lagent {
    struct amph_launch *launch;
    uint32_t host;
    bool gone, orphans_gone;
    bool packs;                  /* it compresses its host's records (records.c) */
    size_t unacknowledged_bytes; /* output that was not acknowledged yet */

    /* only on this machine */
    pid_t pid;
    struct amph_frames frames;
    struct amph_watch *watch;

    /* only on other hosts */
    bool remote, ready;
    struct amph_remote link;   /* if no other agent is above it */
    struct amph_lagent *above; /* its parent in the tree, or NULL */
    char *machine, *seen_from, *address, *server_program, *preload; /* from READY */
    struct amph_conn **conn; /* connections of its processes, by number - 1 */
    uint32_t nconns;
    struct {
        unsigned left; /* questions to come */
        uint64_t at_ns, error_ns;
        int64_t offset_ns;
    } clock; /* the best answer of this round (clocks.c) */
};

struct amph_pmi_entry;
struct amph_pmi_space {
    struct amph_pmi_entry *bucket[1024];
    size_t nentries;
    uint32_t nwaiting;
};

enum amph_phase {
    AMPH_PHASE_RUN,     /* compute processes run */
    AMPH_PHASE_ORPHANS, /* they have ended; processes that they left behind are being ended */
    AMPH_PHASE_DRAIN,   /* servers finish */
    /* the job has failed or gasnet_exit was called with an error: all processes are being ended */
    AMPH_PHASE_ENDING,
    AMPH_PHASE_PACK, /* no process is left; other hosts compress their records */
    AMPH_PHASE_DONE  /* agents quit */
};

/* A failure that is held back, because it may be a consequence of another process's death. */
enum amph_pending {
    AMPH_PENDING_EXIT,  /* gasnet_exit with a code that is not 0 */
    AMPH_PENDING_ABORT, /* the process has asked the launcher to end the job */
    AMPH_PENDING_END    /* the process has ended with an error */
};

/* Standard output or standard error of the master. */
struct amph_outlet {
    int fd;
    struct amph_bytes bytes;
    struct amph_watch *watch;
    bool closed; /* its reader is gone */
};

struct amph_launch {
    struct {
        int fd;       /* the file; -1: none */
        uint64_t job; /* 0: not recorded */
        struct amph_timer timer;
    } clocks; /* clocks.c */
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
    /* agents of other hosts that have not sent READY yet; processes start when all have */
    uint32_t nunready;
    bool spawned;

    /* environment.c: set before the agents start, and equal for all processes of a group */
    char *prefixes; /* with absolute directories, or NULL */
    char *preload;  /* path of the preload library, or NULL */

    char proc_name[384]; /* report.c: the last process name that was asked for */

    pid_t progress_pid; /* progress.c; 0: none */

    /* control.c */
    int listen_fd;
    struct amph_conn *conns;
    uint32_t nexchanged[AMPH_NGROUPS], nstated[AMPH_NGROUPS];
    bool exchange_done[AMPH_NGROUPS];

    /* pmi.c */
    struct amph_pmi_space pmi[AMPH_NGROUPS];

    /* stdio.c */
    struct amph_outlet outlet[2];
    struct amph_watch *input;
    bool input_waits; /* a chunk is in flight to process 0 */

    /* ending.c */
    enum amph_phase phase;
    uint32_t nliving[AMPH_NGROUPS]; /* not ended */
    int code;                       /* exit code of the launcher */
    uint32_t blamed;                /* the process that caused the end, or AMPH_RANK_NONE */
    int nsignals;                   /* SIGINT and the like, forwarded so far */
    int kill_step;
    bool exit_called; /* gasnet_exit(0) */
    bool output_lost; /* an output could not be written */
    uint64_t exit_ns; /* when it was first called */
    bool table_printed;
    bool servers_shut_down; /* the shutdown event was sent to the servers */
    char cause[1024];       /* the message about the failure, until it is printed */
    struct amph_timer timeout, step, abort_timer, table_timer, grace, cause_timer;
    uint32_t abort_rank;
    int abort_code;
    enum amph_pending abort_what;
    int abort_waits;     /* how often an abort was delayed again because a process is dying */
    char abort_how[160]; /* of AMPH_PENDING_END */
    const struct amph_lproc *reporting; /* has ended, and its end is about to be reported */
};

/* ---- master.c ---- */

/* Runs the job to its end and returns the exit code.  l is all zero at first.  Takes ownership of the
 * contents of job and hosts. */
int amph_launch_run(struct amph_launch *l, const struct amph_options *o,
                    const struct amph_jobdesc *job, struct amph_hostset *hosts);
/* Handles a frame of an agent. */
void amph_launch_take(struct amph_lagent *agent, const struct amph_frame *frame);
/* Starts the processes, once all agents are ready. */
enum amph_status amph_launch_spawn(struct amph_launch *l);

/* ---- hosts/tree.c ---- */

/* Starts the agents of other hosts: those next to the root by ssh from here, the others through
 * them.  AMPH_ERR_SYS after a message. */
enum amph_status amph_tree_start(struct amph_launch *l);
/* Sends the same bytes to n connections that agents forward: connection number[i] of agent via[i].
 * Returns false if memory is exhausted. */
bool amph_tree_spread(struct amph_launch *l, struct amph_lagent *const *via, const uint32_t *number,
                      uint32_t n, const void *bytes, size_t len_bytes);
void amph_tree_stop(struct amph_launch *l);
/* Handles a frame that concerns the tree: READY, FROM, LOST, SAID.  Returns false for any other. */
bool amph_tree_take(struct amph_lagent *agent, const struct amph_frame *frame);
/* Sets the time without a frame after which a host is lost.  It is shorter while the job is being
 * ended, so that an unreachable host does not delay the end. */
void amph_tree_set_silence(struct amph_launch *l, uint64_t silence_ns);
void amph_tree_drop(struct amph_launch *l); /* ends the remaining connections */
/* Returns whether `agent` is on the way from the launcher to `of`, or is `of`. */
bool amph_tree_is_above(const struct amph_lagent *agent, const struct amph_lagent *of);
/* Returns the file that a process executes: the host file's, for its host or its machine type, or
 * the one of the command line. */
const char *amph_tree_program(struct amph_lproc *p);
void amph_tree_report(struct amph_lagent *agent, uint16_t type, const void *body, size_t len_bytes);
struct amph_lagent *amph_launch_agent_of(struct amph_lproc *p);
/* Signals every descendant of the agents. */
void amph_launch_signal_all(struct amph_launch *l, int sig);
/* Signals the process group of p. */
void amph_launch_signal_proc(struct amph_lproc *p, int sig);

/* ---- control.c ---- */

enum amph_status amph_launch_control_start(struct amph_launch *l);
void amph_launch_control_stop(struct amph_launch *l);
/* Sends an event to the joined members of a group (AMPH_NGROUPS: all) and, where attached is set,
 * to attached file clients. */
void amph_launch_control_event(struct amph_launch *l, int group, bool attached,
                               struct amph_boot_event event);
/* Handles all messages that the process has sent so far, so that those sent before its end count. */
void amph_launch_control_receive_event(struct amph_lproc *p);
/* Handles a CONN frame: bytes of a process on another host.  amph_launch_control_agent_gone closes all
 * connections that the agent forwards. */
void amph_launch_control_carried(struct amph_lagent *agent, struct amph_rd *r);
void amph_launch_control_agent_gone(struct amph_lagent *agent);
/* Answers pending look-ups and a pending exchange after p has published a value or ended. */
void amph_launch_control_changed(struct amph_lproc *p);

/* ---- pmi.c ---- */

void amph_launch_pmi_bytes(struct amph_lproc *p, const void *bytes, size_t len_bytes);
void amph_launch_pmi_stop(struct amph_launch *l);
/* Stores the process mapping of each group. */
enum amph_status amph_launch_pmi_start(struct amph_launch *l);

/* ---- stdio.c ---- */

enum amph_status amph_launch_stdio_start(struct amph_launch *l);
void amph_launch_stdio_output(struct amph_lproc *p, int stream, const void *bytes,
                              size_t len_bytes);
void amph_launch_stdio_input_taken(struct amph_launch *l, bool taken);
void amph_launch_stdio_stop_input(struct amph_launch *l);
/* Writes all remaining output. */
void amph_launch_stdio_finish(struct amph_launch *l);

/* ---- suspend.c ---- */

/* Stops all processes of the job and then this process.  Returns when it was continued, with the job. */
void amph_launch_suspend(struct amph_launch *l);
void amph_launch_continue(struct amph_launch *l);

/* ---- ending.c ---- */

/* Starts the timer of the time limit. */
void amph_launch_ending_start(struct amph_launch *l);
void amph_launch_proc_ended(struct amph_lproc *p, bool by_signal, int number, bool core);
void amph_launch_proc_failed_to_start(struct amph_lproc *p, int error);
void amph_launch_proc_left(struct amph_lproc *p, bool exit_called, int code);
void amph_launch_proc_abort(struct amph_lproc *p, int code);
/* The control connection of p closed although p has not left the job. */
void amph_launch_proc_lost(struct amph_lproc *p);
void amph_launch_agent_lost(struct amph_lagent *agent, int status);
/* An agent of another host is lost, and with it all agents below it.  why: for example "cannot be
 * reached: ...". */
void amph_launch_host_lost(struct amph_lagent *agent, int code, const char *why);
/* Prints why the job has failed, unless that was printed. */
void amph_launch_cause_print(struct amph_launch *l);
void amph_launch_orphans_gone(struct amph_lagent *agent);
void amph_launch_job_signal(struct amph_launch *l, int sig);
/* Returns whether p is a server that has died in a job that continues without it
 * (-on-server-death): nobody waits for it. */
bool amph_launch_proc_is_replaced(const struct amph_lproc *p);
/* A member of `group` waits for all members: fails the job if one of them has ended before it
 * arrived. */
void amph_launch_check_absent(struct amph_launch *l, enum amph_group group, const char *what);

/* ---- report.c ---- */

/* The number in its group: servers are 0 to S-1 in every message, as in iofwd-ctl. */
uint32_t amph_launch_proc_number(const struct amph_lproc *p);
/* Returns for example "compute 3 (process 1234) on hostA", valid until the next
 * call. */
const char *amph_launch_proc_name(const struct amph_lproc *p);
/* Starts iofwd-ctl progress, and waits for its end after the servers'. */
void amph_launch_progress_start(struct amph_launch *l);
void amph_launch_progress_stop(struct amph_launch *l);
void amph_launch_table_start(struct amph_launch *l);
/* Prints the table once all processes have reported. */
void amph_launch_table_check(struct amph_launch *l);
void amph_launch_table_print(struct amph_launch *l);

/* ---- clocks.c: of a recorded job ---- */

/* Before the first process is started. */
void amph_launch_clocks_start(struct amph_launch *l);
/* When the last compute process has ended. */
void amph_launch_clocks_finish(struct amph_launch *l);
void amph_launch_clocks_answer(struct amph_lagent *agent, struct amph_rd *r);
/* The number of the clock of an agent's host; 0: the job is not recorded. */
uint64_t amph_launch_clocks_number(const struct amph_lagent *agent);

/* ---- records.c ---- */

/* When no process is left: asks the agents of other hosts to compress their hosts' records.  false: there
 * is nothing to wait for. */
bool amph_launch_records_pack(struct amph_launch *l);
/* Do some still do that? */
bool amph_launch_records_wait(const struct amph_launch *l);
/* An agent has answered.  true: it was the last one. */
bool amph_launch_records_packed(struct amph_lagent *agent, struct amph_rd *r);
/* Says which hosts have not answered, because the time for it is over or they are lost. */
void amph_launch_records_give_up(struct amph_launch *l);
/* In ending.c: an agent has answered PACK. */
void amph_launch_packed(struct amph_lagent *agent, struct amph_rd *r);

#endif

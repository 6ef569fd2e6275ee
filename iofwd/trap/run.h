/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: the three processes of a run, and what they send each other.
 *
 *   front       the process that iofwd-run was: it ends as the program ends, passes signals on, and
 *               ends all processes of the program if the supervisor dies
 *   supervisor  its child: parent of the program, subreaper, client of the servers; it stays as long
 *               as any process of the program does
 *   program     installs the filter in itself and executes the program
 *
 * Layer: iofwd.  Thread rule: each process's first thread.
 */
#ifndef AMPH_IOFWD_TRAP_RUN_H
#define AMPH_IOFWD_TRAP_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/platform.h"

/* What the supervisor tells the program's process before exec. */
enum amph_trap_order {
    AMPH_TRAP_ORDER_FORWARD = 'f',
    AMPH_TRAP_ORDER_PLAIN = 'p', /* without forwarding */
    AMPH_TRAP_ORDER_GO = 'g'
};

/* What the supervisor tells the front. */
struct amph_trap_news {
    enum {
        AMPH_TRAP_STARTED,
        AMPH_TRAP_STOPPED,
        AMPH_TRAP_ENDED
    } what;
    pid_t pid;
    int status;
};

/* What the program's process has done: a listener's number, or below 0 an errno value. */
struct amph_trap_answer {
    int listener;
};

/* ---- front.c ---- */

/* Waits for the supervisor's news.  Returns the exit code, or ends by the program's signal. */
int amph_trap_front(int socket);

/* ---- supervisor.c ---- */

/* Starts the program and stays until all of its processes have ended.  Returns an exit code, which
 * nobody reads: the front already has the program's. */
int amph_trap_supervise(const char *path, char **argv, int front);

/* ---- program.c ---- */

/* In the program's process: installs the filter if ordered to, and executes the program. */
AMPH_NORETURN void amph_trap_program(const char *path, char **argv, int socket);
/* Says why the filter could not be installed. */
void amph_trap_explain_filter(int err);

/* ---- check.c ---- */

/* iofwd-trap -check: says whether -trap is possible here.  Returns the exit code. */
int amph_trap_check(void);

/* ---- run.c: what they share ---- */

/* Copies the listener of the child, where it has that number, to amph_trap.listener.  False after a
 * sentence. */
bool amph_trap_listener_copy(pid_t child, int number);
/* Starts a process with a connection to this one, whose end *socket_p is of the process that it returns in.  Returns
 * as fork does; -1 after a sentence. */
pid_t amph_trap_fork(int *socket_p);
bool amph_trap_send(int fd, const void *data, size_t len);
bool amph_trap_receive(int fd, void *data, size_t len);
/* Closes all descriptors but these and standard error, so that no reader or writer of the program's
 * waits for an end that we hold open. */
void amph_trap_leave_descriptors(int keep, int keep2);
/* Sends SIGKILL to all children.  What they leave becomes our child as they die, so a caller repeats
 * this after each child that it has waited for. */
void amph_trap_kill_children(void);
/* Signals from a terminal reach the program by themselves, and end neither front nor supervisor. */
void amph_trap_ignore_signals(void);

#endif

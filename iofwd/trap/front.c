/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: the front, which ends as the program ends.
 *
 * Layer: iofwd.  Thread rule: one thread.
 */
#include "iofwd/trap/run.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iofwd/trap/trap.h"

static const int passed[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT };
static volatile pid_t target;             /* of signals; 0: not known yet */
static volatile sig_atomic_t early[NSIG]; /* have come before */

static void pass_on(int sig, siginfo_t *info, void *unused)
{
    int err = errno;

    /* a terminal's signals reach the program by themselves */
    if (info->si_code <= 0) {
        if (target > 0)
            kill(target, sig);
        else
            early[sig] = 1;
    }

    errno = err;
}

static void begin_to_pass_on(pid_t program)
{
    target = program;
    for (unsigned i = 0; i < sizeof passed / sizeof *passed; i++)
        if (early[passed[i]])
            kill(program, passed[i]);
}

/* Kills what has become our child, until there is nothing left. */
static void end_tree(void)
{
    do
        amph_trap_kill_children();
    while (waitpid(-1, NULL, 0) > 0 || errno != ECHILD);
}

/* Ends as the program has ended. */
static int end_like(int status)
{
    const struct rlimit none = { 0, 0 };

    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);

    sigset_t set;
    int sig = WTERMSIG(status);

    setrlimit(RLIMIT_CORE, &none);
    signal(sig, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), sig);
    return 128 + sig;
}

int amph_trap_front(int socket)
{
    struct sigaction sa = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct amph_trap_news news;

    amph_trap_ignore_signals();
    for (unsigned i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaction(passed[i], &sa, NULL);

    amph_trap_leave_descriptors(socket, socket);
    while (amph_trap_receive(socket, &news, sizeof news)) {
        if (news.what == AMPH_TRAP_STARTED)
            begin_to_pass_on(news.pid);
        else if (news.what == AMPH_TRAP_STOPPED)
            kill(getpid(), SIGSTOP);
        else
            return end_like(news.status);
    }

    amph_trap_say("the supervisor has died, and the program cannot go on without it: its processes "
                  "are ended");
    end_tree();
    return 1;
}

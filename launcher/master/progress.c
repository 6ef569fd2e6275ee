/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amphora-run -progress: runs iofwd-ctl progress beside the job, which asks the I/O servers.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "launcher/common/inherit.h"
#include "launcher/common/message.h"
#include "launcher/master/jobdir.h"
#include "launcher/master/launch.h"

#define END_MS 3000 /* time for the last line, after the servers have ended */

/* In the child: becomes iofwd-ctl.  It ignores SIGINT, which a terminal sends to all processes of the
 * job: its last line comes after the servers' end. */
static void become(const struct amph_launch *l, const char *program, char *file)
{
    char *words[] = { "iofwd-ctl", "progress", "-servers", file, NULL };

    amph_inherit_restore(&l->inherit);
    signal(SIGINT, SIG_IGN);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    unsetenv(amph_env_name(AMPH_ENV_RANK));
    execv(program, words);
    _exit(127);
}

void amph_launch_progress_start(struct amph_launch *l)
{
    char file[4096];

    if (l->o->nservers == 0) {
        amph_say("-progress shows nothing: the job has no I/O servers (-servers S)");
        return;
    }

    char *program = amph_program_own("iofwd-ctl");

    if (!program) {
        amph_say("the program iofwd-ctl is not beside amphora-run, so -progress shows nothing");
        return;
    }

    snprintf(file, sizeof file, "%s/%s", l->directory, AMPH_JOBDIR_FILE);
    fflush(NULL);

    l->progress_pid = fork();
    if (l->progress_pid == 0)
        become(l, program, file);

    if (l->progress_pid < 0)
        amph_say("-progress shows nothing: no process can be started: %s", strerror(errno));

    free(program);
}

/* Waits for the end of a child, at most END_MS.  Returns whether it has ended. */
static bool has_ended(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    bool ended = fd >= 0 && poll(&p, 1, END_MS) > 0;

    if (fd >= 0)
        close(fd);

    return ended;
}

void amph_launch_progress_stop(struct amph_launch *l)
{
    if (l->progress_pid <= 0)
        return;

    if (!has_ended(l->progress_pid))
        kill(l->progress_pid, SIGKILL);

    while (waitpid(l->progress_pid, NULL, 0) < 0 && errno == EINTR)
        ;

    l->progress_pid = 0;
}

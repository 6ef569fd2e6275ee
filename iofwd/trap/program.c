/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: the program's process until it executes the program.
 *
 * Layer: iofwd.  Thread rule: one thread.
 */
#include "iofwd/trap/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "iofwd/trap/trap.h"

enum {
    NOT_EXECUTABLE = 126
};

extern char **environ;

void amph_trap_explain_filter(int err)
{
    if (err == EBUSY)
        amph_trap_say("another supervisor already receives the calls of this process: -trap inside "
                      "of -trap, or in such a container, is impossible; iofwd-run -mount runs the "
                      "program");
    else if (err == EINVAL)
        amph_trap_say("this kernel lacks what -trap needs (Linux 5.19, "
                      "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV); iofwd-run -mount runs the program");
    else
        amph_trap_say("the kernel refuses a seccomp filter with a listener: %s; iofwd-run -mount "
                      "runs the program",
                      strerror(err));
}

static void explain_exec(const char *path, int err)
{
    const char *why = strerror(err);

    if (err == ENOEXEC)
        why = "it is neither a program for this machine nor a script that starts with \"#!\"";
    else if (err == ENOENT && access(path, F_OK) == 0)
        why = "the interpreter or loader that it names does not exist";

    amph_trap_say("%s cannot be executed: %s", path, why);
}

void amph_trap_program(const char *path, char **argv, int socket)
{
    char order;

    /* the front ends what the supervisor leaves, unless it has been killed, too */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsetenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    if (!amph_trap_receive(socket, &order, 1))
        _exit(1);

    if (order == AMPH_TRAP_ORDER_FORWARD) {
        int listener = amph_trap_filter_install(amph_trap.low_fds, amph_trap.first_fd,
                                                amph_trap.last_fd);
        struct amph_trap_answer answer = { .listener = listener < 0 ? -errno : listener };

        /* the supervisor explains what is wrong */
        if (!amph_trap_send(socket, &answer, sizeof answer) ||
            !amph_trap_receive(socket, &order, 1))
            _exit(1);
    }

    close(socket);
    execve(path, argv, environ);
    explain_exec(path, errno);
    _exit(NOT_EXECUTABLE);
}

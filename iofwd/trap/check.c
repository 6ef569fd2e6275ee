/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap -check: is -trap possible on this host, for this user?  A child installs the filter and
 * makes one call, which must be reported, read and answered as the supervisor does.
 *
 * Layer: iofwd.  Thread rule: one thread.
 */
#include "iofwd/trap/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iofwd/trap/trap.h"

static const char asked[] = "/dev/null";

AMPH_NORETURN static void be_program(int socket)
{
    char go;

    prctl(PR_SET_PDEATHSIG, SIGKILL);

    int listener = amph_trap_filter_install(amph_trap.low_fds, amph_trap.first_fd,
                                            amph_trap.last_fd);
    struct amph_trap_answer answer = { .listener = listener < 0 ? -errno : listener };

    if (!amph_trap_send(socket, &answer, sizeof answer) || !amph_trap_receive(socket, &go, 1))
        _exit(1);

    _exit(open(asked, O_RDONLY) == amph_trap.first_fd ? 0 : 1);
}

/* Carries out the one call. */
static bool answer_call(void)
{
    struct amph_trap_call c;
    char path[sizeof asked] = "";
    int own_fd = open(asked, O_RDONLY | O_CLOEXEC);

    memset(&c, 0, sizeof c);
    if (own_fd < 0 || ioctl(amph_trap.listener, SECCOMP_IOCTL_NOTIF_RECV, &c.n) != 0)
        return false;

    int at = c.n.data.nr == SYS_openat ? 1 : 0;
    int err = amph_trap_get_text(&c, path, sizeof path, AMPH_TRAP_ARG(&c, at));

    if (!err && strcmp(path, asked) == 0)
        err = amph_trap_reply_fd(&c, own_fd, amph_trap.first_fd, true);

    close(own_fd);
    return err == AMPH_TRAP_SENT;
}

static bool try_child(pid_t child, int socket)
{
    struct amph_trap_answer answer;
    int status;

    if (!amph_trap_receive(socket, &answer, sizeof answer)) {
        amph_trap_say("the process that tries it has died");
        return false;
    }

    if (answer.listener < 0) {
        amph_trap_explain_filter(-answer.listener);
        return false;
    }

    if (!amph_trap_listener_copy(child, answer.listener))
        return false;

    if (amph_trap_send(socket, "g", 1) && answer_call() && waitpid(child, &status, 0) == child &&
        status == 0)
        return true;

    amph_trap_say(
        "a call that the kernel has reported cannot be carried out; iofwd-run -mount runs "
        "the program");
    return false;
}

int amph_trap_check(void)
{
    int other;
    pid_t child = amph_trap_fork(&other);

    if (child < 0)
        return 1;
    if (child == 0)
        be_program(other);

    bool possible = try_child(child, other);

    kill(child, SIGKILL);
    if (possible)
        printf("iofwd-run -trap is possible on this host\n");

    return possible ? 0 : 1;
}

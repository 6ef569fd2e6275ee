/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a run that was recorded; see record_pack.h.
 *
 * Layer: launcher.  Thread rule: see record_pack.h.
 */
#include "launcher/common/record_pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"

/* ---- a child ---- */

struct signals {
    sigset_t mask;
    struct sigaction child;
};

/* Holds back signals, until wait_for passes them on. */
static void hold_signals(struct signals *before)
{
    /* a terminal stops and continues the caller with its child */
    static const int job_control[] = { SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };
    struct sigaction plain = { .sa_handler = SIG_DFL };
    sigset_t held;

    sigfillset(&held);
    for (size_t i = 0; i < sizeof job_control / sizeof *job_control; i++)
        sigdelset(&held, job_control[i]);

    sigaction(SIGCHLD, &plain, &before->child);
    sigprocmask(SIG_BLOCK, &held, &before->mask);
}

static void release_signals(const struct signals *before)
{
    sigaction(SIGCHLD, &before->child, NULL);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* Returns the child's status after its end.  A signal of the terminal has reached the child by itself; one
 * that a process has sent to the caller is meant for it. */
static int wait_for(pid_t child)
{
    sigset_t held;
    siginfo_t info;
    int status = 0;

    sigprocmask(SIG_BLOCK, NULL, &held);
    sigaddset(&held, SIGCHLD);
    while (waitpid(child, &status, WNOHANG) == 0) {
        int sig = sigwaitinfo(&held, &info);

        if (sig > 0 && sig != SIGCHLD && info.si_code <= 0)
            kill(child, sig);
    }

    return status;
}

/* ---- the records ---- */

/* A record that is not compressed (doc/trace-format.md). */
static bool is_plain(const char *name)
{
    static const char suffix[] = ".trace";
    size_t n = strlen(name);
    size_t m = sizeof suffix - 1;

    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Bytes that plain records take on disk. */
static uint64_t bytes_of(const char *dir)
{
    DIR *d = opendir(dir);
    uint64_t bytes = 0;
    struct dirent *e;
    struct stat st;

    while (d && (e = readdir(d)))
        if (is_plain(e->d_name) && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
            bytes += (uint64_t)st.st_blocks * 512;

    if (d)
        closedir(d);

    return bytes;
}

/* In the child.  Its own calls are no part of the run. */
static _Noreturn void execute_pack(char *program, const char *dir)
{
    char *words[] = { program, "pack", "-ended", (char *)dir, NULL };
    int null = open("/dev/null", O_RDWR);

    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDOUT_FILENO; fd++)
        dup2(null, fd);

    unsetenv(amph_env_name(AMPH_ENV_IOFWD_TRACE_DIR));
    unsetenv(amph_env_name(AMPH_ENV_IOFWD_TRACE));
    execv(program, words);
    amph_say("%s cannot be executed: %s", program, strerror(errno));
    _exit(127);
}

static bool has_enough(const char *dir, uint64_t min_bytes)
{
    return dir && dir[0] && min_bytes && bytes_of(dir) >= min_bytes;
}

static void say_not_installed(const char *dir)
{
    amph_say("the records below %s are not compressed: iofwd-trace is not installed "
             "(IOFWD_TRACE_PACK=0 leaves them as they are)",
             dir);
}

pid_t amph_record_pack_begin(const char *dir, uint64_t min_bytes,
                             const struct amph_inherit *inherit)
{
    if (!has_enough(dir, min_bytes))
        return 0;

    char *program = amph_program_own("iofwd-trace");

    if (!program) {
        say_not_installed(dir);
        return -1;
    }

    pid_t child = fork();

    if (child == 0) {
        amph_inherit_restore(inherit);
        execute_pack(program, dir);
    }

    free(program);
    return child;
}

void amph_record_pack(void)
{
    char *dir = strdup(amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR));
    uint64_t min_bytes = amph_env_size(AMPH_ENV_IOFWD_TRACE_PACK);

    if (!has_enough(dir, min_bytes)) {
        free(dir);
        return;
    }

    char *program = amph_program_own("iofwd-trace");
    struct signals before;

    hold_signals(&before);

    pid_t child = program ? fork() : -1;

    if (child == 0) {
        release_signals(&before);
        execute_pack(program, dir);
    }

    int status = child > 0 ? wait_for(child) : -1;

    release_signals(&before);
    if (!program)
        say_not_installed(dir);
    else if (status != 0)
        amph_say("the records below %s are not all compressed; iofwd-trace pack %s tries it again "
                 "(IOFWD_TRACE_PACK=0 leaves them as they are)",
                 dir, dir);

    free(program);
    free(dir);
}

/* ---- the program ---- */

/* The program's core file, if there is one, is enough. */
static _Noreturn void end_by(int sig)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };
    sigset_t set;

    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    sigaction(sig, &plain, NULL);
    sigemptyset(&set);
    sigaddset(&set, sig);
    raise(sig);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + sig);
}

int amph_record_pack_after(int *code_p)
{
    pid_t caller = getpid();
    struct signals before;

    if (!amph_env_size(AMPH_ENV_IOFWD_TRACE_PACK))
        return -1;

    hold_signals(&before);

    pid_t child = fork();

    if (child == 0) {
        /* SIGKILL of the caller is meant for the program, too */
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != caller)
            raise(SIGKILL);
    }

    if (child <= 0) {
        release_signals(&before);
        return child;
    }

    int status = wait_for(child);

    release_signals(&before);
    amph_record_pack();
    if (WIFSIGNALED(status))
        end_by(WTERMSIG(status));

    *code_p = WEXITSTATUS(status);
    return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes and threads of this program: shells, threads, the end; fork.c has fork and its relatives.  Layer: iofwd (preload).
 * Thread rule: as the C library's functions.
 */
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/process/relay.h"
#include "iofwd/interpose/stdio/stream.h"
#include "iofwd/interpose/entry/targets.h"

/* Where the C library starts a shell by itself, what is gathered comes to rest first, as before a fork: the shell's programs find files and
 * offsets as this one has left them, and do not wait for what only this one, which waits for them, can finish. */
static void come_to_rest(void)
{
    if (fwd_inside || !fwd_core.loaded)
        return;
    fwd_core.fork_before();
    fwd_core.fork_parent(-1);
}

int x_system(const char *command)
{
    if (command)
        come_to_rest();
    return real_system(command);
}

FILE *x_popen(const char *command, const char *type)
{
    come_to_rest();
    return fwd_note_stream(real_popen(command, type));
}

/* _exit runs no destructors, and so ends what the client has gathered here. */
void fwd_exit_now(enum fwd_way way, int status)
{
    /* an overwritten _exit comes here again */
    static __thread bool ending __attribute__((tls_model("initial-exec")));

    if (fwd_inside == 0 && !ending) {
        fwd_maps_flush(NULL);
        fwd_rank_end();
        if (fwd_core.loaded)
            fwd_core.ending();
    }
    if (way == FWD_LIBC && !ending) {
        ending = true;
        real__Exit(status);
    }
    real_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

void x_exit_now(int status)
{
    fwd_exit_now(FWD_LIBC, status);
}

int x_daemon(int no_chdir, int no_close)
{
    pid_t pid = x_fork();
    if (pid < 0)
        return -1;
    if (pid > 0)
        _exit(0);
    if (setsid() < 0)
        return -1;
    if (!no_chdir)
        (void)!x_chdir("/");
    if (!no_close) {
        int fd = real_open64("/dev/null", O_RDWR, 0);
        if (fd < 0)
            return -1;
        for (int i = 0; i < 3; i++)
            x_dup2(fd, i);
        if (fd > 2)
            x_close(fd);
    }
    return 0;
}

/* ---- threads: those that Amphora starts are inside of it for ever ---- */

struct start {
    void *(*fn)(void *);
    void *arg;
};

static void *run_inside(void *p)
{
    struct start start = *(struct start *)p;
    free(p);
    fwd_inside = 1;
    return start.fn(start.arg);
}

int x_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    if (!fwd_inside) {
        unsigned until = fwd_cancels_now();
        int failed = real_pthread_create(thread, attr, fn, arg);
        if (!failed)
            fwd_cancel_forget(*thread, until); /* it may have been cancelled by now */
        return failed;
    }
    struct start *start = malloc(sizeof *start);
    if (!start)
        return EAGAIN;
    *start = (struct start){ fn, arg };
    int err = real_pthread_create(thread, attr, run_inside, start);
    if (err)
        free(start);
    return err;
}

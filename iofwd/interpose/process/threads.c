/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads and the end of the process; fork and its relatives are in fork.c, shells in shells.c.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/path/own_cwd.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/process/bypass.h"
#include "iofwd/interpose/process/relay.h"
#include "iofwd/interpose/process/state.h"
#include "iofwd/interpose/stdio/stream.h"
#include "iofwd/interpose/entry/targets.h"

/* _exit and quick_exit run no destructors, so the client's coalesced data and the changes of mapped
 * files are written here. */
static void end_without_destructors(void)
{
    if (amph_ip_inside != 0 || amph_ip_thread.ending || amph_ip_table_exit())
        return;

    amph_ip_log_put();
    amph_ip_maps_flush(NULL);
    amph_ip_rank_end();
    if (amph_ip_client.loaded)
        amph_ip_client.fwd.ending();
}

/* The C library's quick_exit ends the process by a call of its own.  Its functions run in reverse order,
 * so that the program's may still write. */
void amph_ip_quick_exit_watch(void)
{
    (void)at_quick_exit(end_without_destructors);
}

/* A forked child opens a connection of its own at its first forwarded call.  If that were the flush of its streams, or
 * of its maps, it would come too late: the destructors of libfabric, which the child has from its parent, have run. */
static void connect_before_destructors(void)
{
    int saved = errno;

    if (!amph_ip_state.on || amph_ip_inside || amph_ip_client.fwd.process_if_open())
        return;

    if ((__atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED) || amph_ip_stream_any_pending()) &&
        amph_ip_client_enter() == 0)
        amph_ip_client.fwd.connect_all();

    errno = saved;
}

void amph_ip_exit_watch(void)
{
    (void)atexit(connect_before_destructors);
}

void amph_ip_exit_now(enum amph_client_route way, int status)
{
    end_without_destructors();

    if (way == AMPH_IP_LIBC && !amph_ip_thread.ending) {
        amph_ip_thread.ending = true;
        libc__Exit(status);
    }

    libc_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

void amph_do_exit_now(int status)
{
    amph_ip_exit_now(AMPH_IP_LIBC, status);
}

int amph_do_daemon(int no_chdir, int no_close)
{
    pid_t pid = amph_do_fork();

    if (pid < 0)
        return -1;

    if (pid > 0)
        _exit(0);

    if (setsid() < 0)
        return -1;

    if (!no_chdir)
        (void)!amph_do_chdir("/");

    if (!no_close) {
        int fd = libc_open64("/dev/null", O_RDWR, 0);

        if (fd < 0)
            return -1;

        for (int i = 0; i < 3; i++)
            amph_do_dup2(fd, i);

        if (fd > 2)
            amph_do_close(fd);
    }

    return 0;
}

/* ---- threads ---- */

struct start {
    void *(*fn)(void *);
    void *arg;
    int inside; /* those that Amphora starts count as inside of it from start to end */
    struct amph_fdtab *table; /* the starter's */
    struct amph_ip_cwd *cwd;  /* its own one, or NULL */
};

static void *run(void *p)
{
    struct start start = *(struct start *)p;

    free(p);
    amph_ip_inside = start.inside;
    amph_ip_table_thread_enter(start.table);
    if (start.cwd)
        amph_ip_cwd_use(start.cwd);

    void *result = start.fn(start.arg);

    /* If it is the last thread, the C library calls exit here: what the program does then is not
     * Amphora's. */
    amph_ip_inside = 0;
    return result;
}

int amph_ip_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                         void *arg)
{
    struct start *start = malloc(sizeof *start);

    if (!start)
        return EAGAIN;

    *start = (struct start){ fn, arg, amph_ip_inside != 0, amph_ip_table_thread_begin(),
                             amph_ip_cwd_join() };

    struct amph_fdtab *table = start->table;
    struct amph_ip_cwd *cwd = start->cwd;
    int err = libc_pthread_create(thread, attr, run, start);

    if (err) {
        amph_ip_table_thread_cancel(table);
        amph_ip_cwd_leave(cwd);
        free(start);
    }

    return err;
}

int amph_do_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                           void *arg)
{
    if (amph_ip_inside)
        return amph_ip_thread_start(thread, attr, fn, arg);

    unsigned until = amph_ip_cancels_now();
    int failed = amph_fdtab_current() == &amph_fdtab_first && !amph_ip_thread.cwd.own
                     ? libc_pthread_create(thread, attr, fn, arg)
                     : amph_ip_thread_start(thread, attr, fn, arg);

    if (!failed)
        amph_ip_cancel_forget(*thread, until); /* it may have been cancelled by now */

    return failed;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork and its relatives.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 *
 * A child with memory of its own is a new client, which the servers must know before it runs.  A
 * child that shares the parent's memory uses the parent's client.
 *
 * fork runs the handlers of pthread_atfork, which may use files and wait for the program's locks.
 * The work around a fork is therefore done by handlers too, set up first: the last ones before the fork, and the first
 * ones after it.  The C library's own forks (forkpty) then run it as well.  But a malloc that is not the C library's
 * is locked by handlers, and this work needs memory: it is set up after that malloc then, just before main.
 */
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/fd/libaio.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/fd/passed.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/syscall_numbers.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/stdio/stream.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/own_cwd.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/interpose/loader/elf_deps.h"
#include "iofwd/interpose/process/state.h"

static void prepare(void)
{
    amph_ip_libc_find_all();

    /* a child that inherits forwarded descriptors must be known to the servers before it runs */
    amph_ip_client_adopt();
}

/* Takes the locks that a child must not find held by another thread, and those of the client, if there is one.  Signals
 * are blocked until they are given back: a handler that uses files could wait for one of them. */
static void begin(struct amph_ip_forking *f)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &f->mask);
    f->loaded = __atomic_load_n(&amph_ip_client.loaded, __ATOMIC_ACQUIRE);
    if (f->loaded) /* those without a handler may end a wait for a server */
        amph_ip_client.fwd.set_program_mask(&f->mask);

    amph_ip_shells_fork_lock(true);
    amph_ip_spawn_fork_lock(true);
    amph_ip_loader_fork_lock(true);
    amph_ip_stream_fork_lock(true);
    amph_ip_maps_fork_lock(true);
    amph_ip_epoll_fork_lock(true);
    amph_ip_tables_fork_lock(true);
    f->alone = __libc_single_threaded && amph_ip_tables_alone();
    amph_ip_tables_forking();
    amph_ip_near_fork_lock(true);
    amph_ip_client_fork_lock(true);

    /* another thread may have loaded it meanwhile */
    if (!f->loaded && amph_ip_client.loaded)
        amph_ip_client.fwd.set_program_mask(&f->mask);

    f->loaded = amph_ip_client.loaded;
    if (f->loaded)
        amph_ip_client.fwd.fork_before();
}

/* What the child does first.  If other threads may have held references to open files, which they do not drop here,
 * the references are counted again.  Otherwise none is lost: a child of a signal handler may return to the call that
 * was interrupted, and drop those that this call holds. */
static void begin_child(const struct amph_ip_forking *f)
{
    amph_ip_near_versions_forked();
    amph_ip_lost_forked();
    amph_ip_log_forked();
    amph_ip_stream_forked();
    amph_ip_aio_forked();
    amph_ip_libaio_forked();
    amph_ip_tables_forked();
    if (!f->alone) {
        amph_ip_passed_forked();
        amph_fdtab_recount();
    }

    if (f->loaded) {
        amph_ip_maps_forked(!f->alone);
        amph_ip_forget_locks();
        amph_ip_client.fwd.fork_child();
    }

    amph_ip_tables_forked_last();
}

static void end(const struct amph_ip_forking *f, pid_t pid)
{
    int saved = errno;

    if (pid == 0)
        begin_child(f);
    else if (f->loaded)
        amph_ip_client.fwd.fork_parent(pid);

    amph_ip_client_fork_lock(false);
    amph_ip_near_fork_lock(false);
    amph_ip_tables_fork_lock(false);
    amph_ip_epoll_fork_lock(false);
    amph_ip_maps_fork_lock(false);
    amph_ip_stream_fork_lock(false);
    amph_ip_loader_fork_lock(false);
    amph_ip_spawn_fork_lock(false);
    amph_ip_shells_fork_lock(false);

    if (f->loaded)
        amph_ip_client.fwd.set_program_mask(NULL);

    pthread_sigmask(SIG_SETMASK, &f->mask, NULL);
    errno = saved;
}

static void before_fork(void)
{
    struct amph_ip_forking now;
    bool takes = amph_ip_state.on && !amph_ip_inside;

    if (takes) {
        begin(&now);

        /* no handler, which might fork too, runs from here on */
        amph_ip_thread.fork.now = now;
        amph_ip_thread.fork.taken = true;
    }

    errno = 0; /* in_parent reads in errno whether there is a child */
}

/* Once the signals are let in, a handler may fork. */
static void end_fork(pid_t pid)
{
    struct amph_ip_forking now = amph_ip_thread.fork.now;
    bool taken = amph_ip_thread.fork.taken;

    amph_ip_thread.fork.taken = false;
    if (taken)
        end(&now, pid);
}

static void in_parent(void)
{
    end_fork(errno ? -1 : 1);
}

static void in_child(void)
{
    end_fork(0);
}

void amph_ip_fork_watch(void)
{
    if (amph_ip_state.forks_watched)
        return;

    amph_ip_state.forks_watched = true;
    pthread_atfork(before_fork, in_parent, in_child);
}

pid_t amph_do_fork(void)
{
    int saved = errno;

    if (amph_ip_state.on && !amph_ip_inside) {
        prepare(); /* a handler may not load libraries (glibc before 2.36) */
        amph_ip_fork_watch();
    }

    pid_t pid = libc_fork();

    if (pid >= 0)
        errno = saved;

    return pid;
}

/* vfork and clone run no handlers.  In a static program the C library's fork calls _Fork by its name:
 * the handlers have done the work then. */
pid_t amph_do__Fork(void)
{
    if (!amph_ip_state.on || amph_ip_inside || amph_ip_thread.fork.taken)
        return libc__Fork();

    struct amph_ip_forking f;

    prepare();
    begin(&f);

    pid_t pid = libc__Fork();

    end(&f, pid);
    return pid;
}

struct child {
    int (*fn)(void *);
    void *arg;
    struct amph_ip_forking forking;
};

static int run_child(void *p)
{
    struct child *c = p; /* the child's copy of the parent's stack */

    end(&c->forking, 0);
    amph_do_exit_now(c->fn(c->arg));
    return 0;
}

/* Does a child that shares our memory change its own working directory, while the caller waits? */
static bool has_own_cwd(int flags)
{
    return (flags & (CLONE_FS | CLONE_VFORK | CLONE_SETTLS)) == CLONE_VFORK;
}

/* A child that shares our memory, and perhaps our descriptor table. */
static int clone_sharing(int (*fn)(void *), void *stack, int flags, void *arg, void *parent_tid,
                         void *tls, void *child_tid)
{
    struct amph_ip_table_child *child;
    struct amph_ip_cwd *before = amph_ip_thread.cwd.own;
    struct amph_ip_cwd *own = NULL;

    if (has_own_cwd(flags) && !(own = amph_ip_cwd_copy()))
        return -1;

    if (amph_ip_table_child_begin(flags, fn, arg, &child) != 0) {
        amph_ip_cwd_leave(own);
        return -1;
    }

    if (own)
        amph_ip_thread.cwd.own = own; /* as a child that shares the thread-local storage finds it */

    int pid = libc_clone(amph_ip_table_child_run, stack, flags, child, parent_tid, tls, child_tid);
    int err = errno;

    amph_ip_thread.cwd.own = before;
    amph_ip_table_child_end(child, flags, pid);
    amph_ip_cwd_leave(own);
    errno = err;
    return pid;
}

int amph_do_clone(int (*fn)(void *), void *stack, int flags, void *arg, void *parent_tid, void *tls,
                  void *child_tid)
{
    if (!amph_ip_state.on || amph_ip_inside || !fn || !stack || (flags & CLONE_THREAD))
        return libc_clone(fn, stack, flags, arg, parent_tid, tls, child_tid);

    if (flags & CLONE_VM)
        return clone_sharing(fn, stack, flags, arg, parent_tid, tls, child_tid);

    /* Two memories cannot both describe one descriptor table: the child gets a copy of the
     * table. */
    struct child c = { .fn = fn, .arg = arg };

    prepare();
    begin(&c.forking);

    pid_t pid = libc_clone(run_child, stack, flags & ~CLONE_FILES, &c, parent_tid, tls, child_tid);

    end(&c.forking, pid);
    return pid;
}

/* ---- a descriptor table or a working directory of one's own ---- */

struct unsharing {
    enum amph_client_route way;
    int flags;
};

static int unshare_by(void *arg)
{
    const struct unsharing *u = arg;

    return u->way == AMPH_IP_LIBC ? libc_unshare(u->flags)
                                  : (int)libc_syscall(SYS_unshare, u->flags, 0, 0, 0, 0, 0);
}

static int unshare_table(struct unsharing *u)
{
    return u->flags & CLONE_FILES && !amph_ip_table_is_unshared()
               ? amph_ip_table_unshare(unshare_by, u)
               : unshare_by(u);
}

int amph_ip_unshare(enum amph_client_route way, int flags)
{
    struct unsharing u = { way, flags };

    if (!amph_ip_state.on || amph_ip_inside)
        return unshare_by(&u);

    /* the kernel gives a task with a mount space of its own a directory of its own, too */
    if (!(flags & (CLONE_FS | CLONE_NEWNS)) || __libc_single_threaded)
        return unshare_table(&u);

    struct amph_ip_cwd *own = amph_ip_cwd_copy();

    if (!own)
        return -1;

    int result = unshare_table(&u);
    int saved = errno;

    if (result == 0)
        amph_ip_cwd_use(own);
    else
        amph_ip_cwd_leave(own);

    errno = saved;
    return result;
}

int amph_do_unshare(int flags)
{
    return amph_ip_unshare(AMPH_IP_LIBC, flags);
}

/* ---- by syscall() ---- */

#ifdef __s390x__
#define CLONE_FLAGS 1 /* index of the flags among the arguments */
#else
#define CLONE_FLAGS 0
#endif

long amph_do_fork_call(long number, const long *a)
{
    long b[6] = { a[0], a[1], a[2], a[3], a[4], a[5] };
    struct clone_args args;
    struct amph_ip_forking f;

    if (number == SYS_clone3) {
        /* Calls that the kernel will refuse, and children with memory or a stack of the caller's
         * choice, go to the kernel. */
        if ((size_t)a[1] < CLONE_ARGS_SIZE_VER0 ||
            !amph_ip_can_read((void *)a[0], CLONE_ARGS_SIZE_VER0))
            return libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);

        memcpy(&args, (void *)a[0], CLONE_ARGS_SIZE_VER0);
        if (args.flags & (CLONE_VM | CLONE_FILES))
            return libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    } else if (number == SYS_clone) {
        /* with a stack, the new thread or process does not return through this function */
        if (a[1 - CLONE_FLAGS])
            return libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);

        b[CLONE_FLAGS] &= ~(CLONE_VM | CLONE_VFORK | CLONE_FILES);
    }

    prepare();
    begin(&f);

    long pid = libc_syscall(number, b[0], b[1], b[2], b[3], b[4], b[5]);

    end(&f, (pid_t)pid);
    return pid;
}

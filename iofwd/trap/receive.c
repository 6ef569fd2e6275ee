/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: threads that receive the program's calls, have them carried out, and reply.  Each thread
 * carries out the call that it has received, and one more is started when none is left to receive, so
 * that calls that wait keep no other call out.
 *
 * Layer: iofwd.  Thread rule: as each function says in trap.h.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/thread.h"

#define STACK_BYTES ((size_t)512 << 10)
#define IDLE_MAX 8 /* threads beyond them end */

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif

/* Threads that wait for a call now. */
static _Atomic int idle;

bool amph_trap_call_lives(const struct amph_trap_call *c)
{
    uint64_t id = c->n.id;

    return ioctl(amph_trap.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

char *amph_trap_buffer(void)
{
    static _Thread_local char *buffer;

    if (!buffer) {
        void *at = mmap(NULL, AMPH_TRAP_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);

        buffer = at == MAP_FAILED ? NULL : at;
    }

    return buffer;
}

/* ---- replies ---- */

/* The program has lowered its limit of descriptors below our numbers.  Gives one all the same if only
 * the soft limit is so low: with that raised for the moment.  Returns ioctl's result. */
static int add_above_limit(const struct amph_trap_call *c, struct seccomp_notif_addfd *add)
{
    pid_t pid = (pid_t)c->n.pid;
    struct rlimit is;

    if (prlimit(pid, RLIMIT_NOFILE, NULL, &is) == 0 && add->newfd < is.rlim_max) {
        struct rlimit raised = { add->newfd + 1, is.rlim_max };

        if (prlimit(pid, RLIMIT_NOFILE, &raised, NULL) == 0) {
            int r = ioctl(amph_trap.listener, SECCOMP_IOCTL_NOTIF_ADDFD, add);
            int err = errno;

            prlimit(pid, RLIMIT_NOFILE, &is, NULL);
            errno = err;
            return r;
        }
    }

    if (!atomic_exchange(&amph_trap.limit_said, true))
        amph_trap_say("process %d has lowered its limit of open files (ulimit -n) below %d, from "
                      "where -trap numbers forwarded files, so that no more can be opened; lower "
                      "it before iofwd-run, or set IOFWD_TRAP_FDS",
                      (int)pid, amph_trap.first_fd);

    errno = EMFILE;
    return -1;
}

static int add_fd(struct amph_trap_call *c, int own_fd, int number, bool cloexec, unsigned flags)
{
    struct seccomp_notif_addfd add = { .id = c->n.id,
                                       .srcfd = (uint32_t)own_fd,
                                       .flags = flags,
                                       .newfd = number < 0 ? 0 : (uint32_t)number,
                                       .newfd_flags = cloexec ? O_CLOEXEC : 0 };

    if (number >= 0)
        add.flags |= SECCOMP_ADDFD_FLAG_SETFD;

    int r = ioctl(amph_trap.listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);

    if (r < 0 && errno == EBADF)
        r = add_above_limit(c, &add);

    if (r >= 0)
        return 0;

    return errno == ENOENT || errno == EINPROGRESS ? AMPH_TRAP_GONE : errno;
}

int amph_trap_reply_fd(struct amph_trap_call *c, int own_fd, int number, bool cloexec)
{
    int err = add_fd(c, own_fd, number, cloexec, SECCOMP_ADDFD_FLAG_SEND);

    return err ? err : AMPH_TRAP_SENT;
}

int amph_trap_give_fd(struct amph_trap_call *c, int own_fd, int number, bool cloexec)
{
    return add_fd(c, own_fd, number, cloexec, 0);
}

static void reply(const struct amph_trap_call *c, int ret)
{
    struct seccomp_notif_resp r = { .id = c->n.id };

    if (ret == AMPH_TRAP_CONTINUE)
        r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (ret > 0)
        r.error = -ret;
    else
        r.val = c->value;

    /* it fails if the caller has ended, and then nobody waits */
    ioctl(amph_trap.listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

/* ---- calls ---- */

/* A program of another machine's kind would pass its numbers and structures in other forms. */
static int refuse_architecture(struct amph_trap_call *c)
{
    amph_trap_say(
        "process %d makes calls of another architecture (32-bit or x32), which -trap cannot "
        "forward: it is ended; iofwd-run -mount runs it",
        (int)c->n.pid);
    kill((pid_t)c->n.pid, SIGKILL);
    return AMPH_TRAP_GONE;
}

/* The call's only descriptor, or -1. */
static int descriptor_of(const struct amph_trap_call *c, const struct amph_trap_row *row)
{
    unsigned args = row->descriptors;

    return args && !(args & (args - 1)) ? AMPH_TRAP_INT(c, __builtin_ctz(args)) : -1;
}

/* The absolute form of a path that the call was given, or what the program gave, or "". */
static void name_looked(struct amph_trap_call *c, unsigned i, char out[PATH_MAX])
{
    struct amph_trap_path p;

    out[0] = 0;
    if (i >= c->nlooked)
        return;

    int dir = c->looked[i].dir;

    if (amph_trap_look(c, dir, c->looked[i].path, AT_SYMLINK_NOFOLLOW, &p) != 0 ||
        amph_trap_absolute(c, &p, dir, out) != 0)
        snprintf(out, PATH_MAX, "%s", p.raw);

    amph_trap_look_end(&p);
}

/* A call that never became a forwarded one. */
static void trace_refused(struct amph_trap_call *c, const struct amph_trap_row *row, int err,
                          uint64_t since)
{
    char path[PATH_MAX], path2[PATH_MAX];
    unsigned nlooked = c->nlooked;

    name_looked(c, 0, path);
    c->nlooked = nlooked;
    name_looked(c, 1, path2);

    const struct amph_fwd_refused refused = { .number = (unsigned)c->n.data.nr,
                                              .name = row->name,
                                              .path = path,
                                              .path2 = path2,
                                              .err = err,
                                              .since = since };

    amph_fwd_trace_refused(&refused);
}

static int carry_out(struct amph_trap_call *c)
{
    unsigned number = (unsigned)c->n.data.nr;

#ifdef __x86_64__
    const uint32_t arch = 0xc000003eu;
#else
    const uint32_t arch = 0xc00000b7u;
#endif

    if (c->n.data.arch != arch || number >= AMPH_TRAP_NUMBERS || !amph_trap_rows[number].handle)
        return amph_trap_call_lives(c) ? refuse_architecture(c) : AMPH_TRAP_GONE;

    const struct amph_trap_row *row = &amph_trap_rows[number];
    const struct amph_fwd_caller caller = { (pid_t)c->n.pid, descriptor_of(c, row) };

    amph_fwd_set_caller(caller);
    amph_trap_map_over(c);

    uint64_t since = amph_fwd_traces() ? amph_now_ns() : 0;
    uint64_t calls = amph_fwd_traced_calls();
    int ret = row->handle(c);

    if (AMPH_UNLIKELY(since && ret > 0) && (c->refused || amph_fwd_traced_calls() == calls))
        trace_refused(c, row, ret, since);

    amph_fwd_record_descriptor(-1);
    amph_fwd_set_caller(AMPH_FWD_NO_CALLER);
    return ret;
}

static void start_one(void);

static void *serve(void *unused)
{
    struct amph_trap_call c;

    for (;;) {
        memset(&c, 0, sizeof c);
        if (ioctl(amph_trap.listener, SECCOMP_IOCTL_NOTIF_RECV, &c.n) != 0) {
            if (errno == EINTR || errno == ENOENT)
                continue;

            break;
        }

        if (atomic_fetch_sub(&idle, 1) == 1)
            start_one();

        int ret = carry_out(&c);

        amph_trap_process_end(&c);
        if (ret != AMPH_TRAP_SENT && ret != AMPH_TRAP_GONE)
            reply(&c, ret);

        if (atomic_fetch_add(&idle, 1) >= IDLE_MAX)
            break;
    }

    atomic_fetch_sub(&idle, 1);
    if (amph_trap_buffer())
        munmap(amph_trap_buffer(), AMPH_TRAP_BUFFER);

    return NULL;
}

static void start_one(void)
{
    pthread_t thread;

    atomic_fetch_add(&idle, 1);
    if (amph_thread_start(&thread, true, STACK_BYTES, serve, NULL) != 0)
        atomic_fetch_sub(&idle, 1); /* the threads that are busy will receive */
}

int amph_trap_receive_begin(void)
{
    pthread_t thread;

#ifdef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
    /* on one core, since the two never run at the same time */
    ioctl(amph_trap.listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
#elif defined(SECCOMP_IOC_MAGIC)
    /* the headers may be older than the kernel */
    ioctl(amph_trap.listener, SECCOMP_IOW(4, uint64_t), 1UL);
#endif

    atomic_fetch_add(&idle, 1);
    return amph_thread_start(&thread, true, STACK_BYTES, serve, NULL);
}

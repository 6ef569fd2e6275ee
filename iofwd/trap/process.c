/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: processes of the program.
 *
 * A process is found by the thread of a call, and recorded when it makes the first call that needs
 * it.
 *
 * Layer: iofwd.  Thread rule: any thread; one lock guards the table.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/thread.h"
#include "iofwd/trap/process.h"

#define BUCKETS 256
#define THREADS 1024 /* slots of the cache that says to which process a thread belongs */

static struct {
    pthread_mutex_t lock;
    pthread_mutex_t reaping;
    struct amph_trap_process *bucket[BUCKETS];
    struct {
        pid_t tid;
        struct amph_trap_process *process;
    } thread[THREADS];
    int epoll; /* of pidfds */
} processes = { .lock = PTHREAD_MUTEX_INITIALIZER, .reaping = PTHREAD_MUTEX_INITIALIZER };

static void process_put(struct amph_trap_process *p)
{
    if (atomic_fetch_sub(&p->refs, 1) != 1)
        return;

    amph_trap_fs_end(p);
    amph_trap_map_closed(p, -1);
    close(p->pidfd);
    pthread_mutex_destroy(&p->numbering);
    free(p->used);
    free(p);
}

static bool is_alive(const struct amph_trap_process *p)
{
    return syscall(SYS_pidfd_send_signal, p->pidfd, 0, NULL, 0) == 0 || errno == EPERM;
}

/* What /proc/TID/status says of a thread. */
struct status {
    pid_t tgid, ppid;
    mode_t umask;
    unsigned uid, gid; /* effective */
    bool is_known;     /* the file could be read */
};

static struct status status_of(pid_t tid)
{
    struct status s = { 0 };
    char path[40], line[256];

    snprintf(path, sizeof path, "/proc/%d/status", (int)tid);

    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f)) {
        unsigned mask;

        if (sscanf(line, "Umask: %o", &mask) == 1)
            s.umask = mask;

        s.is_known |= sscanf(line, "Tgid: %d", &s.tgid) == 1;
        sscanf(line, "PPid: %d", &s.ppid);
        sscanf(line, "Uid: %*u %u", &s.uid);
        if (sscanf(line, "Gid: %*u %u", &s.gid) == 1)
            break;
    }

    if (f)
        fclose(f);

    return s;
}

static struct amph_trap_process *find(pid_t pid)
{
    struct amph_trap_process *p = processes.bucket[(unsigned)pid % BUCKETS];

    while (p && p->pid != pid)
        p = p->next;

    return p;
}

static void take_out(struct amph_trap_process *p)
{
    struct amph_trap_process **at = &processes.bucket[(unsigned)p->pid % BUCKETS];

    while (*at != p)
        at = &(*at)->next;

    *at = p->next;
    p->gone = true;
    for (unsigned i = 0; i < THREADS; i++)
        if (processes.thread[i].process == p)
            processes.thread[i].process = NULL;
}

/* Ends the record of a process that has ended. */
static void end_process(struct amph_trap_process *p)
{
    pthread_mutex_lock(&processes.lock);

    bool first = !p->gone;

    if (first)
        take_out(p);

    pthread_mutex_unlock(&processes.lock);
    if (!first)
        return;

    epoll_ctl(processes.epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
    amph_trap_lock_drop(NULL, p->pid);
    process_put(p);
}

void amph_trap_process_reap(void)
{
    struct epoll_event e[16];
    int n;
    struct amph_fwd_caller caller = amph_fwd_set_caller(AMPH_FWD_NO_CALLER);

    pthread_mutex_lock(&processes.reaping);
    while ((n = epoll_wait(processes.epoll, e, 16, 0)) > 0)
        for (int i = 0; i < n; i++)
            end_process(e[i].data.ptr);

    pthread_mutex_unlock(&processes.reaping);
    amph_fwd_set_caller(caller);
}

static void *watch(void *unused)
{
    for (;;) {
        struct epoll_event e;

        if (epoll_wait(processes.epoll, &e, 1, -1) > 0)
            amph_trap_process_reap();
    }

    return NULL;
}

int amph_trap_process_begin(void)
{
    pthread_t thread;

    processes.epoll = epoll_create1(EPOLL_CLOEXEC);
    return processes.epoll < 0 ? errno : amph_thread_start(&thread, true, 0, watch, NULL);
}

static struct amph_trap_process *make(const struct status *s)
{
    struct amph_trap_process *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;

    *p = (struct amph_trap_process){ .refs = 1, .pid = s->tgid, .pidfd = -1 };
    pthread_mutex_init(&p->numbering, NULL);
    p->used = amph_trap_number_table();
    p->pidfd = (int)syscall(SYS_pidfd_open, s->tgid, 0);
    if (p->used && p->pidfd >= 0 && amph_trap_fs_inherit(p, s->umask))
        return p;

    process_put(p);
    return NULL;
}

/* Puts a new process into the table, unless another thread was faster. */
static struct amph_trap_process *enter(struct amph_trap_process *fresh, const struct status *s)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = fresh };
    struct amph_trap_process *p = find(fresh->pid);

    if (p) {
        process_put(fresh);
        return p;
    }

    struct amph_trap_process *parent = find(s->ppid);

    if (parent)
        amph_trap_fs_share(parent, fresh);

    struct amph_trap_process **bucket = &processes.bucket[(unsigned)fresh->pid % BUCKETS];

    fresh->next = *bucket;
    *bucket = fresh;
    epoll_ctl(processes.epoll, EPOLL_CTL_ADD, fresh->pidfd, &e);
    return fresh;
}

/* Finds or makes the record of the process whose thread is not in the cache, and enters it there. */
static int find_process_of_thread(struct amph_trap_call *c)
{
    pid_t tid = (pid_t)c->n.pid;
    struct status s = status_of(tid);
    struct amph_trap_process *fresh = NULL;

    if (!s.is_known || !amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    for (;;) {
        pthread_mutex_lock(&processes.lock);

        struct amph_trap_process *p = find(s.tgid);

        if (p && !is_alive(p)) { /* an earlier process of this number */
            atomic_fetch_add(&p->refs, 1);
            pthread_mutex_unlock(&processes.lock);
            end_process(p);
            process_put(p);
            continue;
        }

        if (!p && fresh)
            p = enter(fresh, &s);
        else if (fresh)
            process_put(fresh);

        if (p) {
            processes.thread[(unsigned)tid % THREADS].tid = tid;
            processes.thread[(unsigned)tid % THREADS].process = p;
            atomic_fetch_add(&p->refs, 1);
            c->process = p;
        }

        pthread_mutex_unlock(&processes.lock);
        if (p)
            return 0;

        fresh = make(&s);
        if (!fresh)
            return amph_trap_call_lives(c) ? ENOMEM : AMPH_TRAP_GONE;
    }
}

int amph_trap_process_of(struct amph_trap_call *c, struct amph_trap_process **process_p)
{
    pid_t tid = (pid_t)c->n.pid;
    int err = 0;

    if (!c->process) {
        pthread_mutex_lock(&processes.lock);

        struct amph_trap_process *p = processes.thread[(unsigned)tid % THREADS].process;

        if (p && processes.thread[(unsigned)tid % THREADS].tid == tid) {
            atomic_fetch_add(&p->refs, 1);
            c->process = p;
        }

        pthread_mutex_unlock(&processes.lock);

        /* the numbers may be those of others by now */
        if (c->process &&
            (syscall(SYS_tgkill, c->process->pid, tid, 0) != 0 || !is_alive(c->process)))
            amph_trap_process_end(c);

        if (!c->process)
            err = find_process_of_thread(c);
    }

    if (process_p)
        *process_p = c->process;

    return err;
}

int amph_trap_process_likely_fd(struct amph_trap_call *c, int fd)
{
    pid_t tid = (pid_t)c->n.pid;
    int own_fd = -1;
    bool known = false;

    pthread_mutex_lock(&processes.lock);

    const struct amph_trap_process *p = processes.thread[(unsigned)tid % THREADS].process;

    if (p && processes.thread[(unsigned)tid % THREADS].tid == tid) {
        known = true;
        own_fd = (int)syscall(SYS_pidfd_getfd, p->pidfd, fd, 0);
    }

    pthread_mutex_unlock(&processes.lock);
    if (!known && amph_trap_process_of(c, NULL) == 0)
        own_fd = amph_trap_fd_of(c->process, fd);

    return own_fd;
}

void amph_trap_process_end(struct amph_trap_call *c)
{
    if (c->process)
        process_put(c->process);

    c->process = NULL;
}

struct amph_trap_process *amph_trap_process_find(pid_t pid)
{
    pthread_mutex_lock(&processes.lock);

    struct amph_trap_process *p = find(pid);

    if (p && is_alive(p))
        atomic_fetch_add(&p->refs, 1);
    else
        p = NULL;

    pthread_mutex_unlock(&processes.lock);
    return p;
}

void amph_trap_process_put(struct amph_trap_process *p)
{
    process_put(p);
}

pid_t amph_trap_process_pid(const struct amph_trap_process *p)
{
    return p->pid;
}

bool amph_trap_first_time(struct amph_trap_call *c, enum amph_trap_said what)
{
    return amph_trap_process_of(c, NULL) == 0 &&
           !(atomic_fetch_or(&c->process->said, (unsigned)what) & (unsigned)what);
}

int amph_trap_same_user(struct amph_trap_call *c)
{
    struct status s = status_of((pid_t)c->n.pid);

    if (!s.is_known || !amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    return s.uid == geteuid() && s.gid == getegid() ? 0 : EACCES;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll on forwarded FIFOs and devices.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; the lock is held over requests, never over a
 * wait.
 *
 * A server keeps one epoll set for each set of the program that contains such files, with the
 * program's events, flags and data.  The server's kernel then handles edge triggering, one-shot
 * events and closed files.  A notification descriptor in the program's set becomes readable when the
 * server's set has events; the thread that is woken fetches them.  A forked child shares the set and
 * the notification descriptor with its parent.  Copies of the set's descriptor are names of one set.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/process/state.h"
#include "iofwd/wire/file.h"

#define EVENTS_MAX 64 /* fetched by one request */

/* The data of a notification descriptor in the program's set.  By it a process also recognises a
 * descriptor that its parent or child has added to a shared set. */
#define NOTIFIER_DATA UINT64_C(0xb5c93e17d2f4a086)

/* What lock saves. */
struct guard {
    sigset_t signals;
    void (*set_program_mask)(const sigset_t *mask); /* of the client, if there is one */
};

/* No handler runs under the lock: it might fork, or close a set.  The program's signals end a wait for a server all the
 * same. */
static void lock(struct guard *g)
{
    amph_ip_process_lock(&amph_ip_fds.epoll.lock, &g->signals);
    g->set_program_mask = amph_ip_client.fwd.set_program_mask;
    if (g->set_program_mask)
        g->set_program_mask(&g->signals);
}

static void unlock(const struct guard *g)
{
    if (g->set_program_mask)
        g->set_program_mask(NULL);

    amph_ip_process_unlock(&amph_ip_fds.epoll.lock, &g->signals);
}

static struct amph_ip_epoll_name *find_name(int fd)
{
    const struct amph_fdtab *table = amph_fdtab_current();

    for (int i = 0; i < AMPH_IP_EPOLL_NAMES; i++)
        if (amph_ip_fds.epoll.names[i].set && amph_ip_fds.epoll.names[i].fd == fd &&
            amph_ip_fds.epoll.names[i].table == table)
            return &amph_ip_fds.epoll.names[i];

    return NULL;
}

static struct amph_ip_epoll_set *find_set(int fd)
{
    const struct amph_ip_epoll_name *name = amph_fdtab_class(fd) == FDTAB_EPOLL ? find_name(fd)
                                                                                : NULL;
    return name ? name->set : NULL;
}

static void free_set(struct amph_ip_epoll_set *s)
{
    for (unsigned i = 0; i < s->nnotifiers; i++)
        /* it watches files, so it must not be reused for another wait */
        amph_ip_client.fwd.notifier_release(&s->notifier[i], true);

    for (size_t i = 0; i < amph_ip_fds.epoll.nwatches; i++)
        if (amph_ip_fds.epoll.watches[i].set == s)
            amph_ip_fds.epoll.watches[i].set = NULL;

    *s = (struct amph_ip_epoll_set){ .names = 0 };
}

static void free_name(struct amph_ip_epoll_name *name)
{
    struct amph_ip_epoll_set *s = name->set;

    name->set = NULL;
    if (--s->names == 0)
        free_set(s);
}

static void drop_name(int fd)
{
    struct amph_ip_epoll_name *name = find_name(fd);

    if (name)
        free_name(name);
}

/* Adds a name of s; false: the table of names is full. */
static bool add_name_in(const struct amph_fdtab *table, int fd, struct amph_ip_epoll_set *s)
{
    for (int i = 0; i < AMPH_IP_EPOLL_NAMES; i++)
        if (!amph_ip_fds.epoll.names[i].set) {
            amph_ip_fds.epoll.names[i] =
                (struct amph_ip_epoll_name){ .set = s, .table = table, .fd = fd };
            s->names++;
            return true;
        }

    return false;
}

/* Makes fd a name of s and of no other set; false: the table of names is full. */
static bool add_name(int fd, struct amph_ip_epoll_set *s)
{
    drop_name(fd);
    return add_name_in(amph_fdtab_current(), fd, s);
}

bool amph_ip_epoll_table_copied(const struct amph_fdtab *from, const struct amph_fdtab *to)
{
    struct guard g;
    bool copied = true;

    lock(&g);

    for (int i = 0; i < AMPH_IP_EPOLL_NAMES && copied; i++)
        if (amph_ip_fds.epoll.names[i].set && amph_ip_fds.epoll.names[i].table == from)
            copied = add_name_in(to, amph_ip_fds.epoll.names[i].fd, amph_ip_fds.epoll.names[i].set);

    unlock(&g);
    if (!copied)
        amph_ip_epoll_table_left(to);

    return copied;
}

void amph_ip_epoll_table_left(const struct amph_fdtab *table)
{
    struct guard g;

    lock(&g);

    for (int i = 0; i < AMPH_IP_EPOLL_NAMES; i++)
        if (amph_ip_fds.epoll.names[i].set && amph_ip_fds.epoll.names[i].table == table)
            free_name(&amph_ip_fds.epoll.names[i]);

    unlock(&g);
}

void amph_ip_epoll_tables_forked(const struct amph_fdtab *table)
{
    for (int i = 0; i < AMPH_IP_EPOLL_NAMES; i++) {
        struct amph_ip_epoll_name *name = &amph_ip_fds.epoll.names[i];

        if (name->set && name->table == table)
            name->table = &amph_fdtab_first;
        else if (name->set) {
            name->set->names--; /* its notifiers are descriptors of a table that is not here */
            name->set = NULL;
        }
    }
}

void amph_ip_epoll_closed(int fd)
{
    struct guard g;
    int saved = errno;

    lock(&g);
    drop_name(fd);
    unlock(&g);
    errno = saved;
}

int amph_ip_epoll_copied(int from, int to)
{
    struct guard g;
    int saved = errno;

    lock(&g);

    struct amph_ip_epoll_set *s = to < 0 ? NULL : find_set(from);

    if (s && add_name(to, s))
        amph_fdtab_mark(to, FDTAB_EPOLL);

    unlock(&g);
    errno = saved;
    return to;
}

void amph_ip_epoll_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_fds.epoll.lock);
    else
        pthread_mutex_unlock(&amph_ip_fds.epoll.lock);
}

/* ---- changing a set ---- */

static struct amph_ip_epoll_set *make_set(int fd)
{
    struct amph_ip_epoll_set *s = find_set(fd);

    if (s)
        return s;

    for (int i = 0; i < AMPH_IP_EPOLL_SETS && !s; i++)
        if (!amph_ip_fds.epoll.sets[i].names)
            s = &amph_ip_fds.epoll.sets[i];

    return s && add_name(fd, s) ? s : NULL;
}

/* The notifier of a server in a set, or NULL. */
static struct amph_fwd_notifier *find_notifier(struct amph_ip_epoll_set *s, uint32_t server)
{
    for (unsigned i = 0; i < s->nnotifiers; i++)
        if (s->notifier[i].server == server)
            return &s->notifier[i];

    return NULL;
}

/* Acquires a notifier of a server and adds it to the program's set.  0 or an errno value. */
static int add_notifier(int ep, struct amph_ip_epoll_set *s, uint32_t server,
                        struct amph_fwd_notifier **notifier_p)
{
    *notifier_p = &s->notifier[s->nnotifiers];
    if (s->nnotifiers == AMPH_IP_EPOLL_NOTIFIERS)
        return ENOSPC;

    int err = amph_ip_client.fwd.notifier_acquire(amph_ip_client.client, server, true, *notifier_p);
    if (err)
        return err == EMFILE ? ENOSPC : err;

    struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = NOTIFIER_DATA };

    if (amph_ip_kernel_epoll_ctl(ep, EPOLL_CTL_ADD, (*notifier_p)->fd, &ev) != 0) {
        err = errno;
        amph_ip_client.fwd.notifier_release(*notifier_p, true);
        return err;
    }

    s->nnotifiers++;
    return 0;
}

/* Records the result of a change.  If memory is short the watch is not recorded, and the end of its
 * server is then not reported for it. */
static void record_watch(struct amph_ip_epoll_set *s, int op, int fd, uint32_t server,
                         uint64_t data)
{
    size_t at = 0;
    size_t had = amph_ip_fds.epoll.nwatches;

    while (at < had &&
           !(amph_ip_fds.epoll.watches[at].set == s && amph_ip_fds.epoll.watches[at].fd == fd &&
             amph_ip_fds.epoll.watches[at].server == server))
        at++;

    if (at == had && op != EPOLL_CTL_DEL)
        for (at = 0; at < had && amph_ip_fds.epoll.watches[at].set; at++)
            ;

    if (at == had && op != EPOLL_CTL_DEL) {
        size_t more = had ? 2 * had : 16;
        struct amph_ip_epoll_watch *bigger = realloc(amph_ip_fds.epoll.watches,
                                                     more * sizeof *bigger);

        if (bigger) {
            memset(bigger + had, 0, (more - had) * sizeof *bigger);
            amph_ip_fds.epoll.watches = bigger;
            amph_ip_fds.epoll.nwatches = more;
        }
    }

    if (at < amph_ip_fds.epoll.nwatches)
        amph_ip_fds.epoll.watches[at] = (struct amph_ip_epoll_watch){
            .set = op == EPOLL_CTL_DEL ? NULL : s, .fd = fd, .server = server, .data = data
        };
}

/* 0 or an errno value; the lock is held. */
static int change(int ep, struct amph_ip_epoll_set *s, int op, int fd,
                  const struct amph_fwd_file *file, const struct epoll_event *event)
{
    uint32_t server = file->part[0].server;
    struct amph_fwd_notifier *notifier = find_notifier(s, server);
    uint64_t data = event ? event->data.u64 : 0;
    int err = 0;

    if (!notifier)
        err = op == EPOLL_CTL_ADD ? add_notifier(ep, s, server, &notifier) : ENOENT;

    if (!err)
        err = amph_ip_client.fwd.watch(amph_ip_client.client, file, notifier->number, (size_t)op,
                                       event ? event->events : 0, data, (size_t)fd);

    if (!err)
        record_watch(s, op, fd, server, data);

    return err;
}

int amph_do_epoll_ctl(int ep, int op, int fd, struct epoll_event *event)
{
    struct guard g;
    struct amph_fd_file *of;
    int saved = errno;
    bool known = op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL;

    /* The kernel checks the set and, on the placeholder, whether the file can be watched.  It
     * refuses a placeholder with EPERM, so any other error is the program's. */
    if (!known || (op != EPOLL_CTL_DEL && !amph_ip_can_read(event, sizeof *event)) ||
        amph_ip_fd(ep) || !amph_ip_waits(fd) ||
        (amph_ip_kernel_epoll_ctl(ep, op, fd, event) != 0 && errno != EPERM))
        return amph_ip_kernel_epoll_ctl(ep, op, fd, event);

    errno = saved;
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    lock(&g);

    struct amph_ip_epoll_set *s = make_set(ep);
    int err = ENOSPC;

    if (s)
        err = change(ep, s, op, fd, &of->file, op == EPOLL_CTL_DEL ? NULL : event);

    if (s && s->nnotifiers)
        amph_fdtab_mark(ep, FDTAB_EPOLL);
    else if (s)
        drop_name(ep);

    unlock(&g);
    return amph_ip_file_end(of, err);
}

/* ---- waiting ---- */

/* Reports an error on each watched file of a server that has ended. */
static int report_ended_server(struct amph_ip_epoll_set *s, uint32_t server,
                               struct epoll_event *out, int max)
{
    int n = 0;

    for (size_t i = 0; i < amph_ip_fds.epoll.nwatches && n < max; i++)
        if (amph_ip_fds.epoll.watches[i].set == s && amph_ip_fds.epoll.watches[i].server == server)
            out[n++] = (struct epoll_event){ .events = EPOLLERR | EPOLLHUP,
                                             .data.u64 = amph_ip_fds.epoll.watches[i].data };

    return n;
}

static int fetch_from(struct amph_ip_epoll_set *s, const struct amph_fwd_notifier *notifier,
                      struct epoll_event *out, int max)
{
    struct amph_fwd_happened happened[EVENTS_MAX];
    size_t got;
    bool lives = amph_ip_client.fwd.notifier_drain(notifier);

    if (!lives ||
        amph_ip_client.fwd.notifier_collect(amph_ip_client.client, notifier, happened,
                                            max < EVENTS_MAX ? (size_t)max : EVENTS_MAX, &got) != 0)
        return report_ended_server(s, notifier->server, out, max);

    for (size_t i = 0; i < got; i++)
        out[i] = (struct epoll_event){ .events = happened[i].events, .data.u64 = happened[i].data };

    return (int)got;
}

/* Fetches the events of the forwarded files from their servers. */
static int fetch(int ep, struct epoll_event *out, int max)
{
    struct guard g;
    int n = 0;

    if (!amph_ip_epoll(ep))
        return 0;

    lock(&g);

    struct amph_ip_epoll_set *s = find_set(ep);

    for (unsigned i = 0; s && i < s->nnotifiers && n < max && amph_ip_client_enter() == 0; i++)
        n += fetch_from(s, &s->notifier[i], out + n, max - n);

    unlock(&g);
    return n;
}

/* A caller with room for one event gets the kernel's and the servers' events in turn, so that
 * neither starves. */
static bool is_locals_turn(int ep, int max)
{
    struct guard g;

    lock(&g);

    struct amph_ip_epoll_set *s = find_set(ep);
    bool locals = s && max == 1 && (s->turn++ & 1);

    unlock(&g);
    return locals;
}

static int without_notifications(struct epoll_event *out, int n)
{
    int left = 0;

    for (int i = 0; i < n; i++)
        if (AMPH_LIKELY(out[i].data.u64 != NOTIFIER_DATA))
            out[left++] = out[i];

    return left;
}

bool amph_ip_epoll_within(void)
{
    return amph_ip_thread.epoll_waits > 0;
}

/* Waits in the kernel for the local events.  *notified_p: a server has notified the set.  The kernel
 * reports that to one waiter only. */
static int wait_local(int ep, struct epoll_event *out, int max, int64_t left, const sigset_t *mask,
                      bool *notified_p)
{
    int64_t ms = left / 1000000 + (left % 1000000 != 0);

    amph_ip_thread.epoll_waits++;

    int timeout = -1;

    if (left != INT64_MAX)
        timeout = ms < INT_MAX ? (int)ms : INT_MAX;

    int n = libc_epoll_pwait(ep, out, max, timeout, mask);

    amph_ip_thread.epoll_waits--;

    int kept = n < 0 ? -1 : without_notifications(out, n);

    *notified_p = kept < n;
    return kept;
}

/* Rearms the notifiers after a wait that was notified but returns without fetching: another thread
 * or process may be asleep. */
static void rearm(int ep)
{
    struct guard g;
    int saved = errno;

    lock(&g);

    const struct amph_ip_epoll_set *s = find_set(ep);
    struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = NOTIFIER_DATA };

    for (unsigned i = 0; s && i < s->nnotifiers; i++)
        amph_ip_kernel_epoll_ctl(ep, EPOLL_CTL_MOD, s->notifier[i].fd, &ev);

    unlock(&g);
    errno = saved;
}

static int wait_here(int ep, struct epoll_event *out, int max, int64_t until, const sigset_t *mask)
{
    for (;;) {
        bool notified = false;
        bool locals = is_locals_turn(ep, max);
        int64_t left = 0;
        int n = 0;

        if (!locals)
            n = fetch(ep, out, max > 1 ? max - 1 : max);

        if (!n && !locals)
            left = until == INT64_MAX ? INT64_MAX : amph_ip_left(until);

        int more = n == max ? 0 : wait_local(ep, out + n, max - n, left, mask, &notified);

        if (more < 0)
            return n && errno == EINTR ? n : -1;

        n += more;
        if (n && notified)
            rearm(ep);

        if (n || (!notified && !locals && amph_ip_left(until) == 0))
            return n;
    }
}

/* Removes notifications from n events of a set that has no forwarded files in this process: a parent
 * or child may have added a notifier to it.  false: no event remains, and the caller waits again. */
bool amph_ip_epoll_filter(struct epoll_event *out, int n, int *n_p)
{
    *n_p = n > 0 ? without_notifications(out, n) : n;
    return n <= 0 || *n_p > 0;
}

int amph_do_epoll_pwait(int ep, struct epoll_event *out, int max, int timeout, const sigset_t *mask)
{
    const struct timespec limit = { .tv_sec = timeout / 1000,
                                    .tv_nsec = timeout % 1000 * 1000000L };
    int n;

    if (AMPH_LIKELY(!amph_ip_epoll(ep)) &&
        amph_ip_epoll_filter(out, libc_epoll_pwait(ep, out, max, timeout, mask), &n))
        return n;

    return amph_do_epoll_pwait2(ep, out, max, timeout < 0 ? NULL : &limit, mask);
}

int amph_do_epoll_pwait2(int ep, struct epoll_event *out, int max, const struct timespec *limit,
                         const sigset_t *mask)
{
    int n;
    int saved = errno;

    if (AMPH_LIKELY(!amph_ip_epoll(ep)) &&
        amph_ip_epoll_filter(out, libc_epoll_pwait2(ep, out, max, limit, mask), &n))
        return n;
    if (max <= 0 || (size_t)max > INT_MAX / sizeof *out)
        return amph_ip_fail(EINVAL);
    if (!amph_ip_can_write(out, (size_t)max * sizeof *out) ||
        (limit && !amph_ip_can_read(limit, sizeof *limit)))
        return amph_ip_fail(EFAULT);
    if (limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= 1000000000))
        return amph_ip_fail(EINVAL);

    n = wait_here(ep, out, max, amph_ip_until(limit), mask);
    errno = n < 0 ? errno : saved;
    return n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll on forwarded FIFOs and devices.  Layer: iofwd (preload).  Thread rule: any thread; the lock
 * is held over requests, never over a wait.
 *
 * The servers keep epoll sets of their own for such files, one for each set of the program that has
 * some, with the program's events, flags and data, so that edges, one-shots and what goes when a
 * file is closed are the kernel's business there.  A bell in the program's set says that there is
 * something to collect.  A forked child has the bell, as it has the set: parent and child share
 * both, and who is woken collects.  Copies of the set's descriptor are names of one set.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/entry/targets.h"

#define SETS 64
#define NAMES 256
#define BELLS 8 /* servers of one set */
#define AT_ONCE 64
#define MARK \
    UINT64_C( \
        0xb5c93e17d2f4a086) /* a bell's data in the program's set; one that a relative has made since is known by it, too */

/* A set of the program with forwarded files in it. */
struct set {
    unsigned names; /* 0: free */
    unsigned turn, nbells;
    struct amph_fwd_notifier bell[BELLS];
};

struct name {
    struct set *set; /* NULL: free */
    int fd;
};

/* What all_gone has to tell. */
struct watch {
    struct set *set; /* NULL: free */
    int fd;
    uint32_t server;
    uint64_t data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct set sets[SETS];
static struct name names[NAMES];
static struct watch *watches;
static size_t nwatches;

static struct name *find_name(int fd)
{
    for (int i = 0; i < NAMES; i++)
        if (names[i].set && names[i].fd == fd)
            return &names[i];

    return NULL;
}

static struct set *find_set(int fd)
{
    const struct name *name = amph_fdtab_class(fd) == FDTAB_EPOLL ? find_name(fd) : NULL;
    return name ? name->set : NULL;
}

static void free_set(struct set *s)
{
    for (unsigned i = 0; i < s->nbells; i++)
        /* it watches files: nobody else is to hear of them */
        amph_ip_client.fwd.notifier_release(&s->bell[i], true);

    for (size_t i = 0; i < nwatches; i++)
        if (watches[i].set == s)
            watches[i].set = NULL;

    *s = (struct set){ .names = 0 };
}

static void drop_name(int fd)
{
    struct name *name = find_name(fd);

    if (!name)
        return;

    struct set *s = name->set;

    name->set = NULL;
    if (--s->names == 0)
        free_set(s);
}

/* fd is a name of s and of no other set; false: there are too many. */
static bool add_name(int fd, struct set *s)
{
    drop_name(fd);
    for (int i = 0; i < NAMES; i++)
        if (!names[i].set) {
            names[i] = (struct name){ .set = s, .fd = fd };
            s->names++;
            return true;
        }

    return false;
}

void amph_ip_epoll_closed(int fd)
{
    int saved = errno;

    pthread_mutex_lock(&lock);
    drop_name(fd);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

int amph_ip_epoll_copied(int from, int to)
{
    int saved = errno;

    pthread_mutex_lock(&lock);

    struct set *s = to < 0 ? NULL : find_set(from);

    if (s && add_name(to, s))
        amph_fdtab_mark(to, FDTAB_EPOLL);

    pthread_mutex_unlock(&lock);
    errno = saved;
    return to;
}

void amph_ip_epoll_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}

/* ---- changing a set ---- */

static struct set *make_set(int fd)
{
    struct set *s = find_set(fd);

    if (s)
        return s;

    for (int i = 0; i < SETS && !s; i++)
        if (!sets[i].names)
            s = &sets[i];

    return s && add_name(fd, s) ? s : NULL;
}

/* The bell of a server in a set, or NULL. */
static struct amph_fwd_notifier *find_bell(struct set *s, uint32_t server)
{
    for (unsigned i = 0; i < s->nbells; i++)
        if (s->bell[i].server == server)
            return &s->bell[i];

    return NULL;
}

/* A bell that has not been there; it stands in the program's set.  0 or an errno value. */
static int make_bell(int ep, struct set *s, uint32_t server, struct amph_fwd_notifier **bell_p)
{
    *bell_p = &s->bell[s->nbells];
    if (s->nbells == BELLS)
        return ENOSPC;

    int err = amph_ip_client.fwd.notifier_acquire(amph_ip_client.client, server, true, *bell_p);
    if (err)
        return err == EMFILE ? ENOSPC : err;

    struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = MARK };

    if (amph_ip_kernel_epoll_ctl(ep, EPOLL_CTL_ADD, (*bell_p)->fd, &ev) != 0) {
        err = errno;
        amph_ip_client.fwd.notifier_release(*bell_p, true);
        return err;
    }

    s->nbells++;
    return 0;
}

/* Notes what a change has left of a watch; where there is no memory nobody hears of the server's
 * end. */
static void note(struct set *s, int op, int fd, uint32_t server, uint64_t data)
{
    size_t at = 0;
    size_t had = nwatches;

    while (at < had &&
           !(watches[at].set == s && watches[at].fd == fd && watches[at].server == server))
        at++;

    if (at == had && op != EPOLL_CTL_DEL)
        for (at = 0; at < had && watches[at].set; at++)
            ;

    if (at == had && op != EPOLL_CTL_DEL) {
        size_t more = had ? 2 * had : 16;
        struct watch *bigger = realloc(watches, more * sizeof *bigger);

        if (bigger) {
            memset(bigger + had, 0, (more - had) * sizeof *bigger);
            watches = bigger;
            nwatches = more;
        }
    }

    if (at < nwatches)
        watches[at] = (struct watch){
            .set = op == EPOLL_CTL_DEL ? NULL : s, .fd = fd, .server = server, .data = data
        };
}

/* 0 or an errno value; the lock is held. */
static int change(int ep, struct set *s, int op, int fd, const struct amph_fwd_file *file,
                  const struct epoll_event *event)
{
    uint32_t server = file->part[0].server;
    struct amph_fwd_notifier *bell = find_bell(s, server);
    uint64_t data = event ? event->data.u64 : 0;
    int err = bell ? 0 : op == EPOLL_CTL_ADD ? make_bell(ep, s, server, &bell) : ENOENT;

    if (!err)
        err = amph_ip_client.fwd.watch(amph_ip_client.client, file, bell->number, (size_t)op,
                                       event ? event->events : 0, data, (size_t)fd);

    if (!err)
        note(s, op, fd, server, data);

    return err;
}

int amph_do_epoll_ctl(int ep, int op, int fd, struct epoll_event *event)
{
    struct amph_fd_file *of;
    int saved = errno;
    bool known = op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL;

    /* what is wrong with the set, and that a file cannot be watched, the kernel says of the
     * placeholder */
    if (!known || (op != EPOLL_CTL_DEL && !amph_ip_can_read(event, sizeof *event)) ||
        amph_ip_fd(ep) || !amph_ip_waits(fd) ||
        (amph_ip_kernel_epoll_ctl(ep, op, fd, event) != 0 && errno != EPERM))
        return amph_ip_kernel_epoll_ctl(ep, op, fd, event);

    errno = saved;
    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    pthread_mutex_lock(&lock);

    struct set *s = make_set(ep);
    int err = s ? change(ep, s, op, fd, &of->file, op == EPOLL_CTL_DEL ? NULL : event) : ENOSPC;

    if (s && s->nbells)
        amph_fdtab_mark(ep, FDTAB_EPOLL);
    else if (s)
        drop_name(ep);

    pthread_mutex_unlock(&lock);
    return amph_ip_file_end(of, err);
}

/* ---- waiting ---- */

/* What a server that has gone leaves of its files. */
static int all_gone(struct set *s, uint32_t server, struct epoll_event *out, int most)
{
    int n = 0;

    for (size_t i = 0; i < nwatches && n < most; i++)
        if (watches[i].set == s && watches[i].server == server)
            out[n++] = (struct epoll_event){ .events = EPOLLERR | EPOLLHUP,
                                             .data.u64 = watches[i].data };

    return n;
}

static int collect_from(struct set *s, const struct amph_fwd_notifier *bell,
                        struct epoll_event *out, int most)
{
    struct amph_fwd_happened happened[AT_ONCE];
    size_t got;
    bool lives = amph_ip_client.fwd.notifier_drain(bell);

    if (!lives ||
        amph_ip_client.fwd.notifier_collect(amph_ip_client.client, bell, happened,
                                            most < AT_ONCE ? (size_t)most : AT_ONCE, &got) != 0)
        return all_gone(s, bell->server, out, most);

    for (size_t i = 0; i < got; i++)
        out[i] = (struct epoll_event){ .events = happened[i].events, .data.u64 = happened[i].data };

    return (int)got;
}

/* The servers' part of the events. */
static int collect(int ep, struct epoll_event *out, int most)
{
    int n = 0;

    if (!amph_ip_epoll(ep))
        return 0;

    pthread_mutex_lock(&lock);

    struct set *s = find_set(ep);

    for (unsigned i = 0; s && i < s->nbells && n < most && amph_ip_client_enter() == 0; i++)
        n += collect_from(s, &s->bell[i], out + n, most - n);

    pthread_mutex_unlock(&lock);
    return n;
}

/* Whoever has room for one event only is told of the kernel's and of the servers' in turn. */
static bool is_locals_turn(int ep, int most)
{
    pthread_mutex_lock(&lock);

    struct set *s = find_set(ep);
    bool locals = s && most == 1 && (s->turn++ & 1);

    pthread_mutex_unlock(&lock);
    return locals;
}

static int without_bells(struct epoll_event *out, int n)
{
    int left = 0;

    for (int i = 0; i < n; i++)
        if (AMPH_LIKELY(out[i].data.u64 != MARK))
            out[left++] = out[i];

    return left;
}

/* Where epoll_pwait has been overwritten, the call that it makes by syscall() is the kernel's. */
static __thread int within __attribute__((tls_model("initial-exec")));

bool amph_ip_epoll_within(void)
{
    return within > 0;
}

/* The kernel's part; *rung_p: and the word that a bell has rung, which the kernel gives to one
 * waiter only. */
static int wait_local(int ep, struct epoll_event *out, int most, int64_t left, const sigset_t *mask,
                      bool *rung_p)
{
    int64_t ms = left / 1000000 + (left % 1000000 != 0);

    within++;

    int n = libc_epoll_pwait(ep, out, most,
                             left == INT64_MAX ? -1
                             : ms < INT_MAX    ? (int)ms
                                               : INT_MAX,
                             mask);

    within--;

    int told = n < 0 ? -1 : without_bells(out, n);

    *rung_p = told < n;
    return told;
}

/* Who has that word and goes without collecting hands it on: another thread or process may be
 * asleep. */
static void hand_on(int ep)
{
    int saved = errno;

    pthread_mutex_lock(&lock);

    const struct set *s = find_set(ep);
    struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = MARK };

    for (unsigned i = 0; s && i < s->nbells; i++)
        amph_ip_kernel_epoll_ctl(ep, EPOLL_CTL_MOD, s->bell[i].fd, &ev);

    pthread_mutex_unlock(&lock);
    errno = saved;
}

static int wait_here(int ep, struct epoll_event *out, int most, int64_t until, const sigset_t *mask)
{
    for (;;) {
        bool rung = false;
        bool locals = is_locals_turn(ep, most);
        int n = locals ? 0 : collect(ep, out, most > 1 ? most - 1 : most);
        int64_t left = n || locals ? 0 : until == INT64_MAX ? INT64_MAX : amph_ip_left(until);
        int more = n == most ? 0 : wait_local(ep, out + n, most - n, left, mask, &rung);

        if (more < 0)
            return n && errno == EINTR ? n : -1;

        n += more;
        if (n && rung)
            hand_on(ep);

        if (n || (!rung && !locals && amph_ip_left(until) == 0))
            return n;
    }
}

/* A set without forwarded files, as far as is known here: a relative may have put a bell into it,
 * which is nothing to tell of. */
bool amph_ip_epoll_told(struct epoll_event *out, int n, int *n_p)
{
    *n_p = n > 0 ? without_bells(out, n) : n;
    return n <= 0 || *n_p > 0;
}

int amph_do_epoll_pwait(int ep, struct epoll_event *out, int most, int timeout,
                        const sigset_t *mask)
{
    const struct timespec limit = { .tv_sec = timeout / 1000,
                                    .tv_nsec = timeout % 1000 * 1000000L };
    int n;

    if (AMPH_LIKELY(!amph_ip_epoll(ep)) &&
        amph_ip_epoll_told(out, libc_epoll_pwait(ep, out, most, timeout, mask), &n))
        return n;

    return amph_do_epoll_pwait2(ep, out, most, timeout < 0 ? NULL : &limit, mask);
}

int amph_do_epoll_pwait2(int ep, struct epoll_event *out, int most, const struct timespec *limit,
                         const sigset_t *mask)
{
    int n;
    int saved = errno;

    if (AMPH_LIKELY(!amph_ip_epoll(ep)) &&
        amph_ip_epoll_told(out, libc_epoll_pwait2(ep, out, most, limit, mask), &n))
        return n;
    if (most <= 0 || (size_t)most > INT_MAX / sizeof *out)
        return amph_ip_fail(EINVAL);
    if (!amph_ip_can_write(out, (size_t)most * sizeof *out) ||
        (limit && !amph_ip_can_read(limit, sizeof *limit)))
        return amph_ip_fail(EFAULT);
    if (limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= 1000000000))
        return amph_ip_fail(EINVAL);

    n = wait_here(ep, out, most, amph_ip_until(limit), mask);
    errno = n < 0 ? errno : saved;
    return n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll on forwarded FIFOs and devices.  Layer: iofwd (preload).  Thread rule: any thread; the lock is held over requests, never over a
 * wait.
 *
 * The servers keep epoll sets of their own for such files, one for each set of the program that has some, with the program's events and
 * flags, so that edges, one-shots and what goes when a file is closed are the kernel's business there.  A bell in the program's set says
 * that there is something to collect.  The program's data stay here: what travels is the number of the watch.
 */
#include <poll.h>
#include <sys/epoll.h>

#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/reach.h"
#include "iofwd/preload/ready.h"
#include "iofwd/preload/targets.h"

#define SETS 64
#define BELLS 8 /* servers of one set */
#define AT_ONCE 64

/* A set of the program with forwarded files in it. */
struct set {
    int fd; /* the program's */
    bool used, ours; /* ours: made by this process, and not by the one that forked it */
    unsigned turn, nbells;
    struct amph_fwd_bell bell[BELLS];
};

struct watch {
    struct set *set; /* NULL: free */
    int fd;
    struct amph_fwd_ref file;
    uint64_t data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct set sets[SETS];
static struct watch *watches;
static size_t nwatches;

static struct set *find_set(int fd)
{
    for (int i = 0; i < SETS; i++)
        if (sets[i].used && sets[i].fd == fd)
            return &sets[i];
    return NULL;
}

static void free_set(struct set *s)
{
    for (unsigned i = 0; i < s->nbells && s->ours; i++)
        fwd_core.bell_give(&s->bell[i], true); /* it watches files: nobody else is to hear of them */
    for (size_t i = 0; i < nwatches; i++)
        if (watches[i].set == s)
            watches[i].set = NULL;
    *s = (struct set){ .used = false };
}

void fwd_epoll_closed(int fd)
{
    int saved = errno;
    pthread_mutex_lock(&lock);
    struct set *s = find_set(fd);
    if (s)
        free_set(s);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

void fwd_epoll_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    for (int i = 0; i < SETS; i++)
        sets[i].ours = false;
}

/* ---- changing a set ---- */

static struct set *make_set(int fd)
{
    struct set *s = find_set(fd);
    if (s && (fdtab_class(fd) != FDTAB_EPOLL || !s->ours)) { /* the number is another set's now */
        free_set(s);
        s = NULL;
    }
    for (int i = 0; i < SETS && !s; i++)
        if (!sets[i].used)
            s = &sets[i];
    if (!s)
        return NULL;
    *s = s->used ? *s : (struct set){ .fd = fd, .used = true, .ours = true };
    return s;
}

/* The bell of a server in a set; it stands in the program's set, with data that the program cannot have.  0 or an errno value. */
static int bell_of(struct set *s, uint32_t server, struct amph_fwd_bell **bell_p)
{
    unsigned i = 0;
    while (i < s->nbells && s->bell[i].server != server)
        i++;
    *bell_p = &s->bell[i];
    if (i < s->nbells)
        return 0;
    if (i == BELLS)
        return ENOSPC;
    int err = fwd_core.bell_take(fwd_core.client, server, true, &s->bell[i]);
    if (err)
        return err == EMFILE ? ENOSPC : err;
    struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = (uintptr_t)s };
    if (real_epoll_ctl(s->fd, EPOLL_CTL_ADD, s->bell[i].fd, &ev) != 0) {
        err = errno;
        fwd_core.bell_give(&s->bell[i], true);
        return err;
    }
    s->nbells++;
    return 0;
}

static bool is_for(const struct watch *w, const struct set *s, int fd, const struct amph_fwd_ref *file)
{
    return w->set == s && w->fd == fd && w->file.server == file->server && w->file.handle == file->handle;
}

static struct watch *find_watch(const struct set *s, int fd, const struct amph_fwd_ref *file)
{
    for (size_t i = 0; i < nwatches; i++)
        if (is_for(&watches[i], s, fd, file))
            return &watches[i];
    return NULL;
}

static struct watch *new_watch(const struct set *s, int fd)
{
    for (size_t i = 0; i < nwatches; i++)
        if (!watches[i].set || (watches[i].set == s && watches[i].fd == fd)) /* or of a file that has been closed since */
            return &watches[i];
    size_t had = nwatches, more = had ? 2 * had : 16;
    struct watch *bigger = realloc(watches, more * sizeof *bigger);
    if (!bigger)
        return NULL;
    memset(bigger + had, 0, (more - had) * sizeof *bigger);
    watches = bigger;
    nwatches = more;
    return &watches[had];
}

/* 0 or an errno value; the lock is held. */
static int change(struct set *s, int op, int fd, const struct amph_fwd_file *file, const struct epoll_event *event)
{
    struct amph_fwd_bell *bell;
    struct watch *w = find_watch(s, fd, &file->part[0]);
    int err = w ? (op == EPOLL_CTL_ADD ? EEXIST : 0) : op == EPOLL_CTL_ADD ? 0 : ENOENT;
    if (!err)
        err = bell_of(s, file->part[0].server, &bell);
    if (!err && !w && !(w = new_watch(s, fd)))
        err = ENOMEM;
    if (!err)
        err = fwd_core.watch(fwd_core.client, file, bell->number, (size_t)op, event ? event->events : 0, (size_t)(w - watches));
    if (err)
        return err;
    *w = (struct watch){ .set = op == EPOLL_CTL_DEL ? NULL : s, .fd = fd, .file = file->part[0], .data = event ? event->data.u64 : 0 };
    return 0;
}

int x_epoll_ctl(int ep, int op, int fd, struct epoll_event *event)
{
    struct fwd_ofile *of;
    int saved = errno;
    bool known = op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL;
    /* what is wrong with the set, and that a file cannot be watched, the kernel says of the placeholder */
    if (!known || (op != EPOLL_CTL_DEL && !fwd_can_read(event, sizeof *event)) || fwd_fd(ep) || !fwd_waits(fd) ||
        (real_epoll_ctl(ep, op, fd, event) != 0 && errno != EPERM))
        return real_epoll_ctl(ep, op, fd, event);
    errno = saved;
    if (fwd_file_begin(fd, &of) != 0)
        return -1;
    pthread_mutex_lock(&lock);
    struct set *s = make_set(ep);
    int err = s ? change(s, op, fd, &of->file, op == EPOLL_CTL_DEL ? NULL : event) : ENOSPC;
    if (s && s->nbells)
        fdtab_mark(ep, FDTAB_EPOLL);
    else if (s)
        free_set(s);
    pthread_mutex_unlock(&lock);
    return fwd_file_end(of, err);
}

/* ---- waiting ---- */

/* What a server that has gone leaves of its files. */
static int all_gone(struct set *s, uint32_t server, struct epoll_event *out, int most)
{
    int n = 0;
    for (size_t i = 0; i < nwatches && n < most; i++)
        if (watches[i].set == s && watches[i].file.server == server)
            out[n++] = (struct epoll_event){ .events = EPOLLERR | EPOLLHUP, .data.u64 = watches[i].data };
    return n;
}

static int collect_from(struct set *s, const struct amph_fwd_bell *bell, struct epoll_event *out, int most)
{
    struct amph_fwd_happened happened[AT_ONCE];
    size_t got;
    int n = 0;
    bool lives = fwd_core.bell_hear(bell);
    if (!lives || fwd_core.bell_collect(fwd_core.client, bell, happened, most < AT_ONCE ? (size_t)most : AT_ONCE, &got) != 0)
        return all_gone(s, bell->server, out, most);
    for (size_t i = 0; i < got; i++)
        if (happened[i].key < nwatches && watches[happened[i].key].set == s)
            out[n++] = (struct epoll_event){ .events = happened[i].events, .data.u64 = watches[happened[i].key].data };
    return n;
}

/* The servers' part of the events.  A set that another process made: none. */
static int collect(int ep, struct epoll_event *out, int most)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    struct set *s = find_set(ep);
    for (unsigned i = 0; s && s->ours && i < s->nbells && n < most && fwd_core_enter() == 0; i++)
        n += collect_from(s, &s->bell[i], out + n, most - n);
    pthread_mutex_unlock(&lock);
    return n;
}

/* Whoever has room for one event only is told of the kernel's and of the servers' in turn.  *mark_p: the data by which bells are known. */
static bool is_locals_turn(int ep, int most, uint64_t *mark_p)
{
    pthread_mutex_lock(&lock);
    struct set *s = find_set(ep);
    *mark_p = (uintptr_t)s;
    bool locals = s && most == 1 && (s->turn++ & 1);
    pthread_mutex_unlock(&lock);
    return locals;
}

static int without_bells(struct epoll_event *out, int n, uint64_t mark)
{
    int left = 0;
    for (int i = 0; i < n; i++)
        if (!mark || out[i].data.u64 != mark)
            out[left++] = out[i];
    return left;
}

static int wait_here(int ep, struct epoll_event *out, int most, int64_t until, const sigset_t *mask)
{
    uint64_t mark;
    for (;;) {
        bool locals = is_locals_turn(ep, most, &mark);
        int n = locals ? 0 : collect(ep, out, most > 1 ? most - 1 : most);
        int64_t left = n || locals ? 0 : fwd_left(until), ms = left / 1000000 + (left % 1000000 != 0);
        int timeout = until == INT64_MAX && left ? -1 : ms < INT_MAX ? (int)ms : INT_MAX;
        int more = n == most ? 0 : real_epoll_pwait(ep, out + n, most - n, timeout, mask);
        if (more < 0)
            return n && errno == EINTR ? n : -1;
        n += without_bells(out + n, more, mark);
        if (n || (!locals && fwd_left(until) == 0))
            return n;
    }
}

int x_epoll_pwait(int ep, struct epoll_event *out, int most, int timeout, const sigset_t *mask)
{
    const struct timespec limit = { .tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L };
    return x_epoll_pwait2(ep, out, most, timeout < 0 ? NULL : &limit, mask);
}

int x_epoll_pwait2(int ep, struct epoll_event *out, int most, const struct timespec *limit, const sigset_t *mask)
{
    int saved = errno;
    if (most <= 0 || (size_t)most > INT_MAX / sizeof *out)
        return fwd_fail(EINVAL);
    if (!fwd_can_write(out, (size_t)most * sizeof *out) || (limit && !fwd_can_read(limit, sizeof *limit)))
        return fwd_fail(EFAULT);
    if (limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= 1000000000))
        return fwd_fail(EINVAL);
    int n = wait_here(ep, out, most, fwd_until(limit), mask);
    errno = n < 0 ? errno : saved;
    return n;
}

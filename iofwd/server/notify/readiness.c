/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Readiness notifications of files that can block: FIFOs and devices.
 *
 * A client waits in its own kernel, together with its local descriptors, so no worker of the server
 * waits and nothing must be cancelled when the client's wait ends.  It waits on a notification
 * connection, on which the server sends one byte when a file has become ready.  Each notifier has
 * an epoll set of its files.  The sets of all notifiers are in one epoll set, each armed for one
 * event, which the listener thread watches.
 *
 * The notifier of a client's epoll set contains that set's files with the client's data.  Processes
 * that inherit the set by fork share the notifier, as they would share the set in the kernel; it
 * exists until the last of them has closed the connection.
 *
 * Layer: iofwd.
 * Thread rule: progress thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wire.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/server/internal.h"

#define PEER_NOTIFIERS_MAX 256

#define DUPLICATES_MAX 64

/* A file in the set, for one descriptor of the client. */
struct watch {
    struct watch *next;
    const struct amph_server_handle *file;
    uint64_t client_fd;
    /* the file's own, or a duplicate if another descriptor has added the file */
    int fd;
};

struct amph_server_notifier {
    struct amph_server_notifier *next;
    struct amph_server_peer *peer; /* its creator; NULL: it has gone */
    uint32_t family;
    struct amph_server_conn *conn;
    uint64_t number;
    int set;
    struct watch *watches;
    uint32_t nduplicates;
};

enum amph_status amph_server_notify_open(struct amph_server *s)
{
    s->notify_fd = epoll_create1(EPOLL_CLOEXEC);
    return s->notify_fd < 0 ? AMPH_ERR_SYS : AMPH_OK;
}

static struct amph_server_notifier *find(const struct amph_server *s,
                                         const struct amph_server_peer *p, uint64_t number)
{
    struct amph_server_notifier *b = s->progress.notifiers;

    while (b && (b->number != number || b->family != p->family || b->set < 0))
        b = b->next;

    return b;
}

/* Arms the notifier for one event of its set. */
static int arm(struct amph_server *s, const struct amph_server_notifier *b, int op)
{
    struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = (void *)b };
    return epoll_ctl(s->notify_fd, op, b->set, &ev) == 0 ? 0 : errno;
}

/* Replaces the notifier's set by an empty one, so that files of an earlier wait cause no
 * notification. */
static int renew(struct amph_server *s, struct amph_server_notifier *b)
{
    int fresh = epoll_create1(EPOLL_CLOEXEC);

    if (fresh < 0)
        return errno;

    if (b->set >= 0)
        close(b->set);

    b->set = fresh;
    return arm(s, b, EPOLL_CTL_ADD);
}

uint64_t amph_server_notifier_create(struct amph_server *s, struct amph_server_peer *p,
                                     struct amph_server_conn *c)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_notifier *b = p->nnotifiers < PEER_NOTIFIERS_MAX &&
                                             amph_server_limits_file(s, p) == 0
                                         ? calloc(1, sizeof *b)
                                         : NULL;

    if (!b)
        return 0;

    b->set = -1;
    if (renew(s, b) != 0) {
        if (b->set >= 0)
            close(b->set);

        free(b);
        return 0;
    }

    b->peer = p;
    b->family = p->family;
    b->conn = c;
    b->number = ++s->progress.next_notifier;
    b->next = s->progress.notifiers;
    s->progress.notifiers = b;
    c->progress.notifier = b;
    p->nnotifiers++;

    return b->number;
}

uint32_t amph_server_notify_descriptors(const struct amph_server *s,
                                        const struct amph_server_peer *p)
{
    uint32_t n = 0;

    for (const struct amph_server_notifier *b = s->progress.notifiers; b; b = b->next)
        if (b->peer == p)
            n += 2 + b->nduplicates;

    return n;
}

static void end_watch(struct amph_server_notifier *b, struct watch **at)
{
    struct watch *w = *at;

    if (w->fd != w->file->fd) {
        close(w->fd);
        b->nduplicates--;
    }

    *at = w->next;
    free(w);
}

static void release(struct amph_server_notifier *b)
{
    while (b->watches)
        end_watch(b, &b->watches);

    if (b->peer)
        b->peer->nnotifiers--;

    b->peer = NULL;
    if (b->set >= 0)
        close(b->set);

    b->set = -1;
}

void amph_server_notifier_destroy(struct amph_server *s, struct amph_server_notifier *b)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_notifier **at = &s->progress.notifiers;

    while (*at != b)
        at = &(*at)->next;

    *at = b->next;
    release(b);
    free(b);
}

static bool has_relatives(const struct amph_server *s, const struct amph_server_peer *p)
{
    for (uint32_t i = 0; i < s->max_peers; i++)
        if (s->progress.peer[i] && s->progress.peer[i] != p && !s->progress.peer[i]->gone &&
            s->progress.peer[i]->family == p->family)
            return true;

    return false;
}

void amph_server_notify_drop_peer(struct amph_server *s, struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    for (struct amph_server_notifier *b = s->progress.notifiers; b; b = b->next) {
        if (b->peer != p)
            continue;

        b->peer = NULL;
        if (!has_relatives(s, p)) {
            release(b);
            shutdown(b->conn->fd, SHUT_RDWR);
        }
    }
}

void amph_server_notify_drop_file(struct amph_server *s, const struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    for (struct amph_server_notifier *b = s->progress.notifiers; b; b = b->next)
        for (struct watch **at = &b->watches; *at;)
            if ((*at)->file == h)
                end_watch(b, at);
            else
                at = &(*at)->next;
}

void amph_server_notify_send(struct amph_server *s)
{
    amph_server_assert_owner(&s->progress.owner);

    struct epoll_event ev[32];
    int n;

    do {
        n = epoll_wait(s->notify_fd, ev, AMPH_COUNTOF(ev), 0);
        for (int i = 0; i < n; i++) {
            const struct amph_server_notifier *b = ev[i].data.ptr;

            /* if the socket is full, the client has unread notifications anyway */
            ssize_t sent = send(b->conn->fd, "!", 1, MSG_NOSIGNAL | MSG_DONTWAIT);

            (void)sent;
        }
    } while (n == (int)AMPH_COUNTOF(ev));
}

int amph_server_notifier_collect(struct amph_server *s, const struct amph_server_peer *p,
                                 uint64_t number, uint64_t max, struct amph_wr *w)
{
    amph_server_assert_owner(&s->progress.owner);

    struct epoll_event ev[FWD_NOTIFICATIONS_MAX];
    const struct amph_server_notifier *b = find(s, p, number);

    if (!b || max == 0)
        return b ? EINVAL : EBADF;

    int n = epoll_wait(b->set, ev, max < FWD_NOTIFICATIONS_MAX ? (int)max : FWD_NOTIFICATIONS_MAX,
                       0);

    for (int i = 0; i < n; i++) {
        amph_wr_u64(w, ev[i].events);
        amph_wr_u64(w, ev[i].data.u64);
    }

    return n < 0 ? errno : arm(s, b, EPOLL_CTL_MOD);
}

/* Returns what is ready now, and adds the file to the notifier.  first: the first file of a wait,
 * so the notifier's old set is discarded. */
int amph_server_do_poll(struct amph_server_request *rq, struct amph_server_args_poll *a)
{
    struct pollfd p = { .fd = a->file->fd, .events = (short)a->events };
    struct amph_server_notifier *b = a->notifier ? find(rq->server, rq->peer, a->notifier) : NULL;

    if (a->notifier && !b)
        return EBADF;

    int err = b && a->first ? renew(rq->server, b) : 0;

    if (err)
        return err;

    struct epoll_event ev = { .events = (uint32_t)a->events & 0xffffu };

    if (b) /* files that cannot be watched are always ready or invalid; poll reports which */
        epoll_ctl(b->set, EPOLL_CTL_ADD, p.fd, &ev);

    if (poll(&p, 1, 0) < 0)
        return errno;

    a->ready = (size_t)(unsigned short)p.revents;
    return 0;
}

/* Returns the watch of a file by a descriptor of the client, or the end of the list.  *other_p:
 * another descriptor's watch uses the file's own descriptor. */
static struct watch **watch_of(struct amph_server_notifier *b,
                               const struct amph_server_args_watch *a, bool *other_p)
{
    struct watch **found = NULL;
    struct watch **at = &b->watches;

    *other_p = false;
    for (; *at; at = &(*at)->next) {
        if ((*at)->file != a->file)
            continue;

        if ((*at)->client_fd == a->fd)
            found = at;
        else
            *other_p = *other_p || (*at)->fd == a->file->fd;
    }

    return found ? found : at;
}

static int add_watch(struct amph_server_notifier *b, struct watch **at,
                     const struct amph_server_args_watch *a, bool duplicate, struct epoll_event *ev)
{
    int refused = duplicate && b->peer ? amph_server_limits_file(b->conn->server, b->peer) : 0;

    if (refused)
        return refused;

    struct watch *w = duplicate && b->nduplicates >= DUPLICATES_MAX ? NULL : calloc(1, sizeof *w);
    if (!w)
        return duplicate && b->nduplicates >= DUPLICATES_MAX ? ENOSPC : ENOMEM;

    *w = (struct watch){ .file = a->file,
                         .client_fd = a->fd,
                         .fd = duplicate ? fcntl(a->file->fd, F_DUPFD_CLOEXEC, 0) : a->file->fd };
    if (w->fd < 0 || epoll_ctl(b->set, EPOLL_CTL_ADD, w->fd, ev) != 0) {
        int err = errno;

        if (duplicate && w->fd >= 0)
            close(w->fd);

        free(w);
        return err;
    }

    b->nduplicates += duplicate;
    *at = w;
    return 0;
}

/* Works like epoll_ctl.  The set contains a file once for each descriptor of the client. */
int amph_server_do_watch(struct amph_server_request *rq, struct amph_server_args_watch *a)
{
    struct epoll_event ev = { .events = (uint32_t)a->events, .data.u64 = a->data };
    struct amph_server_notifier *b = find(rq->server, rq->peer, a->notifier);
    bool other;

    if (!b)
        return EBADF;

    struct watch **at = watch_of(b, a, &other);
    if (a->op == EPOLL_CTL_ADD)
        return *at ? EEXIST : add_watch(b, at, a, other, &ev);
    if (!*at)
        return ENOENT;
    if (epoll_ctl(b->set, (int)a->op, (*at)->fd, &ev) != 0)
        return errno;

    if (a->op == EPOLL_CTL_DEL)
        end_watch(b, at);

    return 0;
}

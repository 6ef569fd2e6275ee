/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening sockets, the control connections and the job's events.
 *
 * Layer: iofwd.
 * Thread rule: listener_main runs in the listener thread, which it alone is;
 * amph_server_listener_open, _start and _stop are called by the progress thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/os/work.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "boot/control.h"
#include "conduits/inet.h"
#include "iofwd/server/internal.h"

#define TICK_MS 500
#define PAUSE_MS 100
#define PAUSE_NS (PAUSE_MS * AMPH_NS_PER_MS)
#define ACCEPT_MAX 64 /* connections accepted in a row, before silent ones are looked for */
#define UNAUTHENTICATED_MAX 256u /* connections without a HELLO that may belong to other users */

/* ---- sockets ---- */

static int listen_unix(struct amph_server *s)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    int n = snprintf(s->address.unix_name, sizeof s->address.unix_name,
                     "amphora-control-%016" PRIx64 "-%u", s->job->id, s->self);

    memcpy(sun.sun_path + 1, s->address.unix_name, (size_t)n);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 ||
        bind(fd, (struct sockaddr *)&sun,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0 ||
        listen(fd, 1024) != 0) {
        amph_error("the I/O server cannot listen on its local socket @%s: %m",
                   s->address.unix_name);
        if (fd >= 0)
            close(fd);

        return -1;
    }

    return fd;
}

static int listen_tcp(struct amph_server *s)
{
    struct sockaddr_storage sa;

    if (amph_conduit_inet_choose("the I/O server", !s->job->several_machines,
                                 amph_env_str(AMPH_ENV_INTERFACE), &sa) != AMPH_OK)
        return -1;

    socklen_t len = (socklen_t)amph_conduit_inet_len(&sa);
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0) {
        amph_conduit_inet_report(&sa, errno);
        if (fd >= 0)
            close(fd);

        return -1;
    }

    s->address.tcp = sa;
    return fd;
}

static bool watch(struct amph_server *s, int fd, void *tag)
{
    struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = tag };
    return fd < 0 || epoll_ctl(s->listener.epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* Watches the set of notifiers, edge-triggered: the progress thread takes the events out. */
static bool watch_notifiers(struct amph_server *s)
{
    struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = &s->notify_fd };
    return amph_server_notify_open(s) == AMPH_OK &&
           epoll_ctl(s->listener.epoll_fd, EPOLL_CTL_ADD, s->notify_fd, &ev) == 0;
}

enum amph_status amph_server_listener_open(struct amph_server *s)
{
    bool tcp = amph_fwd_needs_network(s->job);

    s->listener.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->listener.epoll_fd >= 0)
        s->listener.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (s->listener.epoll_fd < 0 || s->listener.stop_fd < 0) {
        amph_error("the I/O server has no descriptor for its listening thread: %m; raise the limit "
                   "of open files (ulimit -n)");
        return AMPH_ERR_SYS;
    }

    s->listener.unix_fd = listen_unix(s);
    s->listener.tcp_fd = tcp ? listen_tcp(s) : -1;
    if (s->listener.unix_fd < 0 || (tcp && s->listener.tcp_fd < 0))
        return AMPH_ERR_SYS; /* after a message */

    if (!watch(s, s->listener.unix_fd, &s->listener.unix_fd) ||
        !watch(s, s->listener.tcp_fd, &s->listener.tcp_fd) ||
        !watch(s, s->listener.stop_fd, &s->listener.stop_fd) ||
        !watch(s, amph_boot_fd(s->boot), &s->boot) || !watch_notifiers(s)) {
        amph_error("the I/O server cannot watch its listening sockets: %s%s", strerror(errno),
                   amph_limit_remedy(errno));
        return AMPH_ERR_SYS;
    }

    return AMPH_OK;
}

/* ---- events for the progress thread ---- */

static void post_event(struct amph_server *s, struct amph_server_event *event)
{
    event->next = NULL;
    pthread_mutex_lock(&s->shared.lock);
    *s->shared.events_tail = event;
    s->shared.events_tail = &event->next;
    __atomic_store_n(&s->shared.posted, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->shared.lock);
    amph_am_kick(s->ep);
}

static struct amph_server_event *make_event(int kind, struct amph_server_conn *conn, size_t len)
{
    struct amph_server_event *event = calloc(1, sizeof *event + len);

    if (!event)
        amph_fatal("the I/O server has no memory for an event");

    event->kind = kind;
    event->conn = conn;
    event->len = len;

    return event;
}

/* ---- connections ---- */

static bool send_frame(struct amph_server_conn *c, enum amph_fwd_frame type, const void *body,
                       size_t len)
{
    uint8_t out[FWD_FRAME_HEAD_BYTES + 512];
    size_t n = amph_fwd_frame_build(out, type, body, len);

    return send(c->fd, out, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

static bool greet(struct amph_server_conn *c)
{
    amph_random(c->listener.nonce, sizeof c->listener.nonce);
    return send_frame(c, FWD_FRAME_GREET, c->listener.nonce, sizeof c->listener.nonce);
}

/* Drains the server when the last plain compute process and all that it has started have gone. */
static void end_stay(struct amph_server *s, struct amph_server_conn *c)
{
    s->listener.present -= c->listener.stays;
    if (c->listener.stays && s->listener.present == 0 &&
        s->listener.arrived == s->job->nproc[AMPH_COMPUTE])
        post_event(s, make_event(AMPH_SERVER_EVENT_DRAIN, NULL, 0));
}

/* Forgets a connection that has ended.  The progress thread then ends its client and frees it.  A connection without a
 * HELLO, of which that thread has not heard, is closed here: many of them would use up the descriptors while it is
 * busy. */
static void end_conn(struct amph_server *s, struct amph_server_conn *c)
{
    amph_server_assert_owner(&s->listener.owner);

    end_stay(s, c);
    epoll_ctl(s->listener.epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);

    if (c->listener.prev)
        c->listener.prev->listener.next = c->listener.next;
    else
        s->listener.conns = c->listener.next;

    if (c->listener.next)
        c->listener.next->listener.prev = c->listener.prev;

    if (c->listener.greeted) {
        post_event(s, make_event(AMPH_SERVER_EVENT_GONE, c, 0));
        return;
    }

    close(c->fd);
    free(c);
}

static void add_conn(struct amph_server *s, int fd, bool same_user)
{
    amph_server_assert_owner(&s->listener.owner);

    struct amph_server_conn *c = calloc(1, sizeof *c);

    if (!c || !watch(s, fd, c)) {
        amph_error("the I/O server cannot take a client's connection: %m; it is closed");
        free(c);
        close(fd);
        return;
    }

    amph_fwd_watch_host(fd);
    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(const int){ 1 }, sizeof(int));
    c->fd = fd;
    c->server = s;
    c->listener.unauthenticated = !same_user;
    c->listener.same_user = same_user;
    c->listener.begin_ns = amph_now_ns();
    c->listener.next = s->listener.conns;
    if (s->listener.conns)
        s->listener.conns->listener.prev = c;

    s->listener.conns = c;
    if (!greet(c))
        end_conn(s, c);
}

/* Refuses a connection that got one of the last descriptors. */
static void refuse_last(int fd)
{
    struct amph_server_conn c = { .fd = fd };
    static const char why[] =
        "it is out of descriptors; raise its hard limit of open files (ulimit -Hn)";

    amph_count_exact(IOFWD_REFUSED, 1);
    send_frame(&c, FWD_FRAME_REFUSE, why, sizeof why - 1);
    close(fd);
}

/* Stops or resumes accepting.  Without a free descriptor, a waiting connection would wake this
 * thread in a busy loop. */
static void set_accepting(struct amph_server *s, bool on)
{
    amph_server_assert_owner(&s->listener.owner);

    int *listener[] = { &s->listener.unix_fd, &s->listener.tcp_fd };

    s->listener.paused_until_ns = on ? 0 : amph_now_ns() + PAUSE_NS;
    for (size_t i = 0; i < AMPH_COUNTOF(listener); i++) {
        struct epoll_event ev = { .events = on ? EPOLLIN | EPOLLRDHUP : 0,
                                  .data.ptr = listener[i] };

        if (*listener[i] >= 0)
            epoll_ctl(s->listener.epoll_fd, EPOLL_CTL_MOD, *listener[i], &ev);
    }
}

/* Connections without a HELLO may hold a quarter of the descriptors that clients use, at most. */
static unsigned unauthenticated_max(const struct amph_server *s)
{
    uint32_t quarter = s->fds_usable / 4;

    return quarter && quarter < UNAUTHENTICATED_MAX ? quarter : UNAUTHENTICATED_MAX;
}

static void accept_connections(struct amph_server *s, int listener)
{
    unsigned max = unauthenticated_max(s);

    for (unsigned i = 0; i < ACCEPT_MAX && i < max; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                set_accepting(s, false);

            return;
        }

        if (s->fds_last && (uint32_t)fd >= s->fds_last)
            refuse_last(fd);
        else
            add_conn(s, fd, listener == s->listener.unix_fd && amph_boot_control_same_user(fd));
    }
}

/* Counts a connection that makes no client, and logs the 1st, 2nd, 4th, 8th and so on. */
static void count_rejected(struct amph_server *s, const char *why)
{
    amph_server_assert_owner(&s->listener.owner);

    uint64_t n = ++s->listener.rejected;

    amph_count_exact(DROP_STRANGER, 1);
    if ((n & (n - 1)) == 0)
        amph_warn("connections that made no client: %llu so far; the last one: %s",
                  (unsigned long long)n, why);
}

/* Refuses an unauthenticated client or one of another version, with a sentence.  Returns false. */
static bool refuse(struct amph_server *s, struct amph_server_conn *c, const char *why)
{
    count_rejected(s, why);
    send_frame(c, FWD_FRAME_REFUSE, why, strlen(why));
    return false;
}

/* Answers a HELLO that makes no client. */
static bool welcome(struct amph_server *s, struct amph_server_conn *c,
                    const struct amph_fwd_hello *h)
{
    uint8_t body[128];
    struct amph_fwd_welcome reply = { .number = FWD_NUMBER_NONE, .server = s->self };

    return send_frame(c, FWD_FRAME_WELCOME, body,
                      amph_fwd_welcome_build(body, sizeof body, &reply, s->job->key,
                                             c->listener.nonce, h->nonce));
}

/* The connection belongs to a watcher from now on. */
static bool register_watcher(struct amph_server *s, struct amph_server_conn *c,
                             const struct amph_fwd_hello *h)
{
    c->listener.watches = true;
    return welcome(s, c, h);
}

/* Registers a compute process that needs only the connection, which shows when it ends. */
static bool register_process(struct amph_server *s, struct amph_server_conn *c,
                             const struct amph_fwd_hello *h)
{
    amph_server_assert_owner(&s->listener.owner);

    if (!c->listener.stays && h->rank < s->job->nproc[AMPH_COMPUTE]) {
        c->listener.stays = true;
        s->listener.arrived++;
        s->listener.present++;
    }

    return welcome(s, c, h);
}

/* Passes a watcher's query to the progress thread. */
static void post_query(struct amph_server *s, struct amph_server_conn *c,
                       const struct amph_fwd_frame_in *in)
{
    struct amph_server_event *event = make_event(AMPH_SERVER_EVENT_QUERY, c, in->len);

    memcpy(event->body, in->body, in->len);
    post_event(s, event);
}

/* The connection that was greeted last with this nonce, and has not answered yet; NULL: it has ended. */
static struct amph_server_conn *find_greeted(struct amph_server *s,
                                             const uint8_t nonce[FWD_NONCE_BYTES])
{
    struct amph_server_conn *c = s->listener.conns;

    while (c && (c->listener.greeted || memcmp(c->listener.nonce, nonce, FWD_NONCE_BYTES) != 0))
        c = c->listener.next;

    return c;
}

/* The files that a client keeps over exec. */
static bool take_keep(struct amph_server *s, struct amph_server_conn *c,
                      const struct amph_fwd_frame_in *in)
{
    struct amph_server_conn *successor = NULL;
    struct amph_fwd_keep keep;

    if (!amph_fwd_keep_parse(in->body, in->len, &keep))
        return refuse(s, c, "the client's list of files does not parse");

    if (amph_fwd_keep_has_successor(&keep)) {
        successor = find_greeted(s, keep.nonce);
        if (!successor) /* it has ended: the exec has failed */
            return true;

        successor->listener.greeted = true; /* it belongs to a client */
    }

    struct amph_server_event *event = make_event(AMPH_SERVER_EVENT_KEEP, c, in->len);

    memcpy(event->body, in->body, in->len);
    event->successor = successor;
    post_event(s, event);
    return true;
}

/* Takes a greeting: the kinds that concern this thread alone at once, the others by the progress thread. */
static bool take_hello(struct amph_server *s, struct amph_server_conn *c,
                       const struct amph_fwd_frame_in *in)
{
    static bool (*const at_once[FWD_HELLO_KINDS])(struct amph_server *, struct amph_server_conn *,
                                                  const struct amph_fwd_hello *) = {
        [FWD_HELLO_STAY] = register_process,
        [FWD_HELLO_WATCH] = register_watcher,
    };
    struct amph_server_event *event = make_event(AMPH_SERVER_EVENT_HELLO, c, in->len);

    memcpy(event->body, in->body, in->len);
    memcpy(event->nonce, c->listener.nonce, sizeof c->listener.nonce);
    event->sender = c->listener.sender;

    enum amph_status st = amph_fwd_hello_parse(event->body, event->len, &event->hello, s->job->key,
                                               c->listener.nonce);

    if (st != AMPH_OK) {
        free(event);
        return refuse(s, c,
                      st == AMPH_ERR_DENIED
                          ? "it does not know the key of these servers; give it their "
                            "present address or job file"
                          : "the client's HELLO does not parse");
    }

    bool here = at_once[event->hello.kind] != NULL;
    bool ok = !here || at_once[event->hello.kind](s, c, &event->hello);

    amph_random(c->listener.nonce, sizeof c->listener.nonce); /* a nonce is used once */
    c->listener.greeted = true;

    if (here)
        free(event);
    else
        post_event(s, event);

    return ok;
}

static bool take_frame(struct amph_server *s, struct amph_server_conn *c,
                       const struct amph_fwd_frame_in *in)
{
    char why[160];

    if (in->version != FWD_VERSION) {
        snprintf(why, sizeof why,
                 "this I/O server speaks version %d of the iofwd protocol, the client version %u; "
                 "use one version of Amphora for the whole job",
                 FWD_VERSION, in->version);
        return refuse(s, c, why);
    }

    if (in->type == FWD_FRAME_ASK)
        return greet(c);
    if (in->type == FWD_FRAME_QUERY && c->listener.watches) {
        const char *sentence = amph_server_watch_take(s, c, in, post_query);

        return !sentence || refuse(s, c, sentence);
    }

    if (in->type == FWD_FRAME_KEEP && c->listener.greeted && !c->listener.watches)
        return take_keep(s, c, in);

    if (in->type != FWD_FRAME_HELLO || c->listener.watches)
        return refuse(s, c, "the I/O server expected a HELLO");

    return take_hello(s, c, in);
}

/* recv; stores which process has sent it.  A connection may be inherited, so its other end changes. */
static ssize_t receive(struct amph_server_conn *c, void *buf, size_t len)
{
    /* no room for descriptors, which would have to be closed */
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec iov = { buf, len };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT);

    if (n <= 0)
        return n;

    const struct cmsghdr *head = CMSG_FIRSTHDR(&m);
    struct ucred who = { .pid = 0 };

    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS)
        memcpy(&who, CMSG_DATA(head), sizeof who);

    c->listener.sender = who.pid;
    return n;
}

static bool read_conn(struct amph_server *s, struct amph_server_conn *c)
{
    for (;;) {
        struct amph_fwd_frame_in in;
        size_t used;
        ssize_t n = receive(c, c->listener.buf + c->listener.have,
                            sizeof c->listener.buf - c->listener.have);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n < 0)
            return true;

        c->listener.have += (size_t)n;

        enum amph_status st;

        while ((st = amph_fwd_frame_parse(c->listener.buf, c->listener.have, &in, &used)) ==
               AMPH_OK) {
            if (!take_frame(s, c, &in))
                return false;

            c->listener.have -= used;
            memmove(c->listener.buf, c->listener.buf + used, c->listener.have);
        }

        if (st != AMPH_AGAIN)
            return refuse(s, c, "this is not the iofwd protocol");
    }
}

/* ---- the job's events ---- */

static void handle_job_events(struct amph_server *s)
{
    struct amph_boot_event ev;

    while (amph_boot_progress(s->boot, &ev) == AMPH_OK) {
        bool stop = ev.kind == AMPH_BOOT_SHUTDOWN || ev.kind == AMPH_BOOT_LOST;

        /* The descriptor may stay readable.  Under real-time priority, a loop of this thread would
         * keep the progress thread from the core that both share. */
        if (stop)
            epoll_ctl(s->listener.epoll_fd, EPOLL_CTL_DEL, amph_boot_fd(s->boot), NULL);

        if (ev.kind == AMPH_BOOT_DRAIN || stop) {
            struct amph_server_event *event = make_event(
                stop ? AMPH_SERVER_EVENT_STOP : AMPH_SERVER_EVENT_DRAIN, NULL, 0);

            event->hello.number = (uint32_t)ev.code;
            post_event(s, event);
        }
    }
}

/* The first server sends nothing on this connection; its end means that the job ends. */
static void handle_first_end(struct amph_server *s)
{
    epoll_ctl(s->listener.epoll_fd, EPOLL_CTL_DEL, s->listener.first_fd, NULL);
    post_event(s, make_event(AMPH_SERVER_EVENT_DRAIN, NULL, 0));
}

/* Has the connection been silent for too long?  A process of this user that waits for a processor gets more time:
 * thousands of clients may start at once. */
static bool is_late(const struct amph_server_conn *c, uint64_t now)
{
    struct amph_work work;

    if (now <= c->listener.begin_ns + FWD_CONTROL_TIMEOUT_NS)
        return false;

    bool waits = c->listener.same_user && now <= c->listener.begin_ns + FWD_CONTROL_PATIENCE_NS &&
                 amph_work_look(amph_work_peer(c->fd), &work) && work.wants;

    return !waits;
}

/* Closes connections that send no HELLO in time, and counts them.  If many newer unauthenticated
 * connections exist, closes them at once: they use descriptors that clients' files need. */
static void close_silent(struct amph_server *s)
{
    uint64_t now = amph_now_ns();
    unsigned unauthenticated = 0;

    for (struct amph_server_conn *c = s->listener.conns, *next; c; c = next) {
        next = c->listener.next;
        if (c->listener.greeted)
            continue;

        unauthenticated += c->listener.unauthenticated;
        if (is_late(c, now) ||
            (c->listener.unauthenticated && unauthenticated > unauthenticated_max(s))) {
            count_rejected(s, "it did not say that it knows the key");
            end_conn(s, c);
        }
    }
}

static void *listener_main(void *arg)
{
    struct amph_server *s = arg;
    struct epoll_event ev[32];

    amph_server_own(&s->listener.owner);

    for (;;) {
        int n = epoll_wait(s->listener.epoll_fd, ev, 32,
                           s->listener.paused_until_ns ? PAUSE_MS : TICK_MS);

        for (int i = 0; i < n; i++) {
            void *tag = ev[i].data.ptr;

            if (tag == &s->listener.stop_fd)
                return NULL;

            if (tag == &s->listener.unix_fd || tag == &s->listener.tcp_fd)
                accept_connections(s, *(int *)tag);
            else if (tag == &s->boot)
                handle_job_events(s);
            else if (tag == &s->notify_fd)
                post_event(s, make_event(AMPH_SERVER_EVENT_NOTIFY, NULL, 0));
            else if (tag == &s->listener.first_fd)
                handle_first_end(s);
            else if (!read_conn(s, tag))
                end_conn(s, tag);
        }

        if (s->listener.paused_until_ns && amph_now_ns() >= s->listener.paused_until_ns)
            set_accepting(s, true);

        close_silent(s);
        handle_job_events(s);
        if (amph_now_ns() >= s->listener.repair_ns) {
            s->listener.repair_ns = amph_now_ns() + TICK_MS * AMPH_NS_PER_MS;
            amph_server_versions_repair(s);
        }
    }
}

/* In a job of plain compute processes only the first server learns of their ends; the others watch
 * a connection to it. */
static enum amph_status follow_first(struct amph_server *s)
{
    uint32_t first = s->job->nproc[AMPH_COMPUTE];
    struct amph_fwd_server_addr where;
    void *value;
    size_t len;
    enum amph_status st = amph_boot_lookup(s->boot, first, FWD_CONTROL_KEY, FWD_CONTROL_TIMEOUT_NS,
                                           &value, &len);

    if (st == AMPH_OK) {
        st = amph_fwd_server_addr_parse(value, len, &where) ? AMPH_OK : AMPH_ERR_PROTO;
        free(value);
    }

    if (st == AMPH_OK)
        st = amph_fwd_control_keep(&where, s->job->proc[first].host == s->job->proc[s->self].host,
                                   s->job->key, s->self, &s->listener.first_fd);

    if (st == AMPH_OK && !watch(s, s->listener.first_fd, &s->listener.first_fd))
        st = AMPH_ERR_SYS;

    if (st != AMPH_OK)
        amph_error("the I/O server cannot reach the first one, which tells the others of the job's "
                   "end: %s",
                   amph_status_text(st));

    return st;
}

enum amph_status amph_server_listener_start(struct amph_server *s)
{
    if (s->job->plain && s->self > s->job->nproc[AMPH_COMPUTE]) {
        enum amph_status st = follow_first(s);
        if (st != AMPH_OK)
            return st;
    }

    int err = amph_thread_start(&s->listener.thread, false, AMPH_SERVER_STACK_BYTES, listener_main,
                                s);

    if (err) {
        amph_error("the I/O server cannot start its listener thread: %s%s", strerror(err),
                   amph_limit_remedy(err));
        return AMPH_ERR_NOMEM;
    }

    s->listener.running = true;
    return AMPH_OK;
}

void amph_server_listener_stop(struct amph_server *s)
{
    uint64_t one = 1;

    if (s->listener.running && write(s->listener.stop_fd, &one, sizeof one) == sizeof one)
        pthread_join(s->listener.thread, NULL);

    s->listener.running = false;
    s->listener.owner.set = false;
    for (struct amph_server_conn *c = s->listener.conns, *next; c; c = next) {
        next = c->listener.next;
        amph_server_watch_end(s, c);
        close(c->fd);
        free(c);
    }

    s->listener.conns = NULL;

    int fds[] = { s->listener.unix_fd,  s->listener.tcp_fd, s->listener.stop_fd,
                  s->listener.first_fd, s->notify_fd,       s->listener.epoll_fd };

    for (size_t i = 0; i < AMPH_COUNTOF(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);

    s->listener.unix_fd = s->listener.tcp_fd = s->listener.stop_fd = s->listener.first_fd =
        s->notify_fd = s->listener.epoll_fd = -1;
}

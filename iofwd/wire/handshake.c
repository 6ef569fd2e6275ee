/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames and proofs of the handshake, and the client's side of it; see wire/handshake.h.
 * Layer: iofwd.
 */
#include "iofwd/wire/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/descriptors.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/platform.h"
#include "base/os/thread.h"
#include "conduits/conduit.h"
#include "conduits/inet.h"
#include "iofwd/wire/marshal.h"
#include "iofwd/wire/patience.h"

size_t amph_fwd_frame_build(uint8_t *out, enum amph_fwd_frame type, const void *body, size_t len)
{
    struct amph_wr w;

    amph_wr_init(&w, out, FWD_FRAME_HEAD_BYTES + len);
    amph_wr_u32(&w, FWD_FRAME_MAGIC);
    amph_wr_u8(&w, FWD_VERSION);
    amph_wr_u8(&w, (uint8_t)type);
    amph_wr_u16(&w, 0);
    amph_wr_u32(&w, (uint32_t)len);
    if (body != out + FWD_FRAME_HEAD_BYTES)
        amph_wr_bytes(&w, body, len);

    return FWD_FRAME_HEAD_BYTES + len;
}

enum amph_status amph_fwd_frame_parse(const uint8_t *buf, size_t have, struct amph_fwd_frame_in *in,
                                      size_t *used_p)
{
    struct amph_rd r;

    if (have < FWD_FRAME_HEAD_BYTES)
        return AMPH_AGAIN;

    amph_rd_init(&r, buf, have);

    uint32_t magic = amph_rd_u32(&r);

    in->version = amph_rd_u8(&r);
    in->type = amph_rd_u8(&r);
    amph_rd_u16(&r);
    in->len = amph_rd_u32(&r);
    if (magic != FWD_FRAME_MAGIC || in->len > FWD_FRAME_BODY_MAX)
        return AMPH_ERR_PROTO;
    if (amph_rd_left(&r) < in->len)
        return AMPH_AGAIN;

    in->body = r.at;
    *used_p = FWD_FRAME_HEAD_BYTES + in->len;
    return AMPH_OK;
}

/* ---- proofs ---- */

static const uint8_t no_nonce[FWD_NONCE_BYTES];

static bool proof(const char *label, const uint8_t key[AMPH_KEY_BYTES], const uint8_t *server_nonce,
                  const uint8_t *client_nonce, const void *body, size_t len,
                  uint8_t mac[AMPH_MAC_BYTES])
{
    uint8_t text[8 + 2 * FWD_NONCE_BYTES + FWD_FRAME_BODY_MAX];
    struct amph_wr w;

    amph_wr_init(&w, text, sizeof text);
    amph_wr_bytes(&w, label, 8);
    amph_wr_bytes(&w, server_nonce, FWD_NONCE_BYTES);
    amph_wr_bytes(&w, client_nonce, FWD_NONCE_BYTES);
    amph_wr_bytes(&w, body, len);
    if (w.bad)
        return false;

    amph_mac(key, text, amph_wr_len(&w), mac);
    return true;
}

static size_t seal(struct amph_wr *w, const char *label, const uint8_t *key,
                   const uint8_t *server_nonce, const uint8_t *client_nonce)
{
    uint8_t mac[AMPH_MAC_BYTES];

    if (w->bad || !proof(label, key, server_nonce, client_nonce, w->base, amph_wr_len(w), mac))
        return 0;

    amph_wr_bytes(w, mac, sizeof mac);
    return w->bad ? 0 : amph_wr_len(w);
}

static enum amph_status unseal(const uint8_t *body, size_t len, const char *label,
                               const uint8_t *key, const uint8_t *server_nonce,
                               const uint8_t *client_nonce, struct amph_rd *r)
{
    uint8_t mac[AMPH_MAC_BYTES];

    if (len < AMPH_MAC_BYTES ||
        !proof(label, key, server_nonce, client_nonce, body, len - AMPH_MAC_BYTES, mac))
        return AMPH_ERR_PROTO;
    if (!amph_mac_equal(mac, body + len - AMPH_MAC_BYTES, AMPH_MAC_BYTES))
        return AMPH_ERR_DENIED;

    amph_rd_init(r, body, len - AMPH_MAC_BYTES);
    return AMPH_OK;
}

/* ---- HELLO and WELCOME ---- */

size_t amph_fwd_hello_build(uint8_t *out, size_t room, const struct amph_fwd_hello *h,
                            const uint8_t key[AMPH_KEY_BYTES],
                            const uint8_t server_nonce[FWD_NONCE_BYTES])
{
    struct amph_wr w;

    amph_wr_init(&w, out, room);
    amph_wr_u8(&w, h->kind);
    amph_wr_u8(&w, h->big_endian);
    amph_wr_u8(&w, h->pointer_bytes);
    amph_wr_u8(&w, 0);
    amph_wr_u32(&w, h->page_bytes);
    amph_wr_u32(&w, h->rank);
    amph_wr_u32(&w, h->number);
    amph_wr_u32(&w, h->child);
    amph_wr_u32(&w, h->pid);
    amph_wr_u32(&w, h->index);
    amph_wr_bytes(&w, h->nonce, sizeof h->nonce);
    amph_wr_blob(&w, h->addr, h->addr_len);
    amph_wr_blob(&w, h->area_key, h->area_key_len);
    amph_wr_u64(&w, h->part_at);
    amph_wr_u64(&w, h->part_len);

    return seal(&w, "fwdhello", key, server_nonce, no_nonce);
}

enum amph_status amph_fwd_hello_parse(const uint8_t *body, size_t len, struct amph_fwd_hello *h,
                                      const uint8_t key[AMPH_KEY_BYTES],
                                      const uint8_t server_nonce[FWD_NONCE_BYTES])
{
    struct amph_rd r;
    enum amph_status st = unseal(body, len, "fwdhello", key, server_nonce, no_nonce, &r);

    if (st != AMPH_OK)
        return st;

    h->kind = amph_rd_u8(&r);
    h->big_endian = amph_rd_u8(&r);
    h->pointer_bytes = amph_rd_u8(&r);
    amph_rd_u8(&r);
    h->page_bytes = amph_rd_u32(&r);
    h->rank = amph_rd_u32(&r);
    h->number = amph_rd_u32(&r);
    h->child = amph_rd_u32(&r);
    h->pid = amph_rd_u32(&r);
    h->index = amph_rd_u32(&r);

    const void *nonce = amph_rd_bytes(&r, FWD_NONCE_BYTES);

    h->addr = amph_rd_blob(&r, &h->addr_len);
    h->area_key = amph_rd_blob(&r, &h->area_key_len);
    h->part_at = amph_rd_u64(&r);
    h->part_len = amph_rd_u64(&r);
    if (r.bad || h->kind >= FWD_HELLO_KINDS || h->addr_len > AMPH_AM_ADDR_MAX_BYTES ||
        h->area_key_len > FWD_AREA_KEY_MAX)
        return AMPH_ERR_PROTO;

    memcpy(h->nonce, nonce, FWD_NONCE_BYTES);
    return AMPH_OK;
}

size_t amph_fwd_welcome_build(uint8_t *out, size_t room, const struct amph_fwd_welcome *wc,
                              const uint8_t key[AMPH_KEY_BYTES],
                              const uint8_t server_nonce[FWD_NONCE_BYTES],
                              const uint8_t client_nonce[FWD_NONCE_BYTES])
{
    struct amph_wr w;

    amph_wr_init(&w, out, room);
    amph_wr_u32(&w, wc->number);
    amph_wr_u32(&w, wc->index);
    amph_wr_u32(&w, wc->server);
    amph_wr_u32(&w, wc->nservers);
    for (uint32_t i = 0; i < wc->nservers && i < AMPH_FWD_PARTS_MAX; i++)
        amph_wr_u32(&w, wc->servers[i]);

    amph_wr_blob(&w, wc->addr, wc->addr_len);
    return seal(&w, "fwdwelco", key, server_nonce, client_nonce);
}

enum amph_status amph_fwd_welcome_parse(const uint8_t *body, size_t len,
                                        struct amph_fwd_welcome *wc,
                                        const uint8_t key[AMPH_KEY_BYTES],
                                        const uint8_t server_nonce[FWD_NONCE_BYTES],
                                        const uint8_t client_nonce[FWD_NONCE_BYTES])
{
    struct amph_rd r;
    enum amph_status st = unseal(body, len, "fwdwelco", key, server_nonce, client_nonce, &r);

    if (st != AMPH_OK)
        return st;

    wc->number = amph_rd_u32(&r);
    wc->index = amph_rd_u32(&r);
    wc->server = amph_rd_u32(&r);
    wc->nservers = amph_rd_u32(&r);
    if (wc->nservers > AMPH_FWD_PARTS_MAX)
        return AMPH_ERR_PROTO;

    for (uint32_t i = 0; i < wc->nservers; i++)
        wc->servers[i] = amph_rd_u32(&r);

    wc->addr = amph_rd_blob(&r, &wc->addr_len);
    return r.bad ? AMPH_ERR_PROTO : AMPH_OK;
}

/* ---- addresses of listeners ---- */

/* A network that was requested is used even if all processes share a host, because the machines may
 * differ (emulation). */
bool amph_fwd_needs_network(const struct amph_jobdesc *job)
{
    return job->nhosts > 1 || job->conduit[0] || !amph_env_bool(AMPH_ENV_SMP) ||
           amph_conduit_network_is_named();
}

void amph_fwd_note_oversubscribed(const struct amph_jobdesc *job, uint32_t host)
{
    unsigned here = 0;

    for (uint32_t i = 0; i < job->nproc[AMPH_COMPUTE] + job->nproc[AMPH_SERVER]; i++)
        here += job->proc[i].host == host;

    amph_am_set_oversubscribed(here);
}

enum amph_status amph_fwd_choose_network(const struct amph_jobdesc *job,
                                         const struct amph_conduit_ops **ops_p)
{
    return amph_conduit_choose_for(job->conduit[0] ? job->conduit : NULL, false, ops_p);
}

size_t amph_fwd_server_addr_build(uint8_t *out, size_t room, const struct amph_fwd_server_addr *a)
{
    uint8_t tcp[AMPH_INET_BLOB_BYTES];
    struct amph_wr w;

    amph_wr_init(&w, out, room);
    amph_wr_u8(&w, FWD_VERSION);
    amph_wr_blob(&w, a->unix_name, strlen(a->unix_name));
    amph_wr_blob(&w, tcp, a->tcp.ss_family == AF_UNSPEC ? 0 : amph_conduit_inet_put(&a->tcp, tcp));
    amph_wr_u64(&w, a->versions);

    return w.bad ? 0 : amph_wr_len(&w);
}

bool amph_fwd_server_addr_parse(const uint8_t *buf, size_t len, struct amph_fwd_server_addr *a)
{
    struct amph_rd r;
    size_t n, tcp_len;

    memset(a, 0, sizeof *a);
    amph_rd_init(&r, buf, len);

    uint8_t version = amph_rd_u8(&r);
    const void *name = amph_rd_blob(&r, &n);

    if (!name || n >= sizeof a->unix_name || version != FWD_VERSION)
        return false;

    memcpy(a->unix_name, name, n);

    const void *tcp = amph_rd_blob(&r, &tcp_len);

    a->versions = amph_rd_u64(&r);
    return tcp && !r.bad &&
           (tcp_len == 0 || amph_conduit_inet_get(tcp, tcp_len, &a->tcp) == AMPH_OK);
}

/* ---- the client's end ---- */

#define BRIEF_NS (2 * AMPH_NS_PER_MS)

/* Limits how long connect may block; deadline_ns 0: no limit.  False: the deadline has passed. */
static bool limit_connect(int fd, uint64_t deadline_ns)
{
    uint64_t now = amph_now_ns();
    struct timeval left = { 0 };

    if (deadline_ns && now >= deadline_ns)
        return false;

    if (deadline_ns) {
        left.tv_sec = (time_t)((deadline_ns - now) / AMPH_NS_PER_S);
        left.tv_usec = (suseconds_t)((deadline_ns - now) % AMPH_NS_PER_S / 1000 + 1);
        if (left.tv_usec >= 1000000)
            left = (struct timeval){ .tv_sec = left.tv_sec + 1 };
    }

    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left) == 0;
}

/* connect, which may block while the listener's backlog is full and while a host does not answer. */
static int connect_blocking(int fd, const void *sa, socklen_t len, uint64_t deadline_ns,
                            bool *in_time_p)
{
    sigset_t before;
    int ret = -1;

    amph_thread_wait_begin(&before);
    do {
        *in_time_p = limit_connect(fd, deadline_ns);
        ret = *in_time_p ? connect(fd, sa, len) : -1;
    } while (*in_time_p && ret != 0 && errno == EINTR);

    amph_thread_wait_end(&before);
    if (*in_time_p && (ret == 0 || errno == EISCONN)) {
        limit_connect(fd, 0);
        return 0;
    }

    return -1;
}

static enum amph_status connect_to(int fd, const void *sa, socklen_t len, uint64_t deadline_ns,
                                   int *fd_p)
{
    bool in_time = true;

    if (connect_blocking(fd, sa, len, deadline_ns, &in_time) == 0) {
        *fd_p = fd;
        return AMPH_OK;
    }

    bool late = !in_time || errno == EAGAIN || errno == EINPROGRESS || errno == EALREADY;

    close(fd);
    return late ? AMPH_ERR_TIMEOUT : AMPH_ERR_PEER;
}

#define BACKLOG_NS (50 * AMPH_NS_PER_S) /* more time for a local server with a full backlog */

/* Connects to a local socket, which works at once unless the listener's backlog is full: a blocking
 * call would have to look at the actions of all signals first. */
static enum amph_status connect_local(const char *name, uint64_t deadline_ns, int *fd_p)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    size_t n = strlen(name);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return AMPH_ERR_NOMEM;

    memcpy(sun.sun_path + 1, name, n);

    int ret = connect(fd, (const struct sockaddr *)&sun, len);
    int err = errno;

    fcntl(fd, F_SETFL, 0); /* blocking, as the descriptor's later users expect it */
    if (ret == 0) {
        *fd_p = fd;
        return AMPH_OK;
    }

    /* many others are waiting, too; the end of the server ends the call */
    if (err == EAGAIN || err == EINTR)
        return connect_to(fd, &sun, len, deadline_ns ? deadline_ns + BACKLOG_NS : 0, fd_p);

    close(fd);
    return AMPH_ERR_PEER;
}

void amph_fwd_watch_host(int fd)
{
    const int one = 1;
    const int idle_s = 5;
    const int count = 3;
    const int limit_ms = 15000;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

enum amph_status amph_fwd_control_connect(const struct amph_fwd_server_addr *a, bool same_host,
                                          uint64_t deadline_ns, int *fd_p)
{
    if (same_host && a->unix_name[0])
        return connect_local(a->unix_name, deadline_ns, fd_p);

    if (a->tcp.ss_family == AF_UNSPEC)
        return AMPH_ERR_PEER;

    int fd = socket(a->tcp.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return AMPH_ERR_NOMEM;

    amph_fwd_watch_host(fd);
    return connect_to(fd, &a->tcp, (socklen_t)amph_conduit_inet_len(&a->tcp), deadline_ns, fd_p);
}

/* Waits without letting signals in: most servers answer within this time. */
static int wait_briefly(struct pollfd *p)
{
    const struct timespec brief = { .tv_nsec = BRIEF_NS };

    return ppoll(p, 1, &brief, NULL);
}

static int wait_long(struct pollfd *p, uint64_t left_ns)
{
    const struct timespec left = { .tv_sec = (time_t)(left_ns / AMPH_NS_PER_S),
                                   .tv_nsec = (long)(left_ns % AMPH_NS_PER_S) };
    sigset_t before;

    amph_thread_wait_begin(&before);

    int n = ppoll(p, 1, &left, NULL);

    amph_thread_wait_end(&before);
    return n;
}

static enum amph_status wait_fd(int fd, short events, struct amph_fwd_patience *patience)
{
    struct pollfd p = { .fd = fd, .events = events };
    int n = wait_briefly(&p);

    for (;;) {
        if (n > 0)
            return AMPH_OK;
        if (n < 0 && errno != EINTR)
            return AMPH_ERR_SYS;

        amph_fwd_patience_begin(patience, fd);

        uint64_t now = amph_now_ns();

        if (now >= patience->deadline_ns && !amph_fwd_patience_extend(patience, now))
            return AMPH_ERR_TIMEOUT;

        n = wait_long(&p, patience->deadline_ns - now);
    }
}

static enum amph_status send_until(int fd, const void *buf, size_t len,
                                   struct amph_fwd_patience *patience)
{
    const uint8_t *at = buf;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            enum amph_status st = wait_fd(fd, POLLOUT, patience);
            if (st != AMPH_OK)
                return st;
        } else if (errno != EINTR)
            return AMPH_ERR_PEER;
    }

    return AMPH_OK;
}

enum amph_status amph_fwd_control_send(int fd, const void *buf, size_t len)
{
    struct amph_fwd_patience patience = amph_fwd_patience_until(amph_now_ns() +
                                                                FWD_CONTROL_TIMEOUT_NS);

    return send_until(fd, buf, len, &patience);
}

/* recv; a descriptor that comes along is put into *passed_p, in the place of one that came before. */
static ssize_t receive_some(int fd, void *buf, size_t len, int *passed_p)
{
    struct amph_descriptors_room room;
    struct iovec iov = { buf, len };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    amph_descriptors_expect(&m, &room);

    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int came = n > 0 ? amph_descriptors_detach(&m) : -1;

    if (came >= 0 && *passed_p >= 0)
        close(*passed_p);
    if (came >= 0)
        *passed_p = came;

    return n;
}

static enum amph_status receive(int fd, uint8_t *buf, size_t len,
                                struct amph_fwd_patience *patience, int *passed_p)
{
    while (len > 0) {
        ssize_t n = receive_some(fd, buf, len, passed_p);

        if (n > 0) {
            buf += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            enum amph_status st = wait_fd(fd, POLLIN, patience);
            if (st != AMPH_OK)
                return st;
        } else if (n == 0 || errno != EINTR)
            return AMPH_ERR_PEER;
    }

    return AMPH_OK;
}

static enum amph_status receive_frame(int fd, uint8_t *buf, struct amph_fwd_frame_in *in,
                                      struct amph_fwd_patience *patience, int *passed_p)
{
    size_t used;
    enum amph_status st = receive(fd, buf, FWD_FRAME_HEAD_BYTES, patience, passed_p);

    if (st != AMPH_OK)
        return st;

    st = amph_fwd_frame_parse(buf, FWD_FRAME_HEAD_BYTES, in, &used);
    if (st != AMPH_AGAIN)
        return st;

    st = receive(fd, buf + FWD_FRAME_HEAD_BYTES, in->len, patience, passed_p);
    return st == AMPH_OK ? amph_fwd_frame_parse(buf, FWD_FRAME_HEAD_BYTES + in->len, in, &used)
                         : st;
}

/* Receives one frame of the handshake.  Those with descriptors of files are left from a previous image of this
 * process. */
static enum amph_status receive_until(int fd, uint8_t *buf, struct amph_fwd_patience *patience,
                                      struct amph_fwd_frame_in *in)
{
    enum amph_status st;

    do {
        int passed = -1;

        st = receive_frame(fd, buf, in, patience, &passed);
        if (passed >= 0)
            close(passed);
    } while (st == AMPH_OK && in->type == FWD_FRAME_DESCRIPTOR);

    return st;
}

static uint64_t handle_in(const struct amph_fwd_frame_in *in)
{
    struct amph_rd r;

    amph_rd_init(&r, in->body, in->len);
    return amph_rd_u64(&r);
}

enum amph_status amph_fwd_control_take(int fd, uint64_t handle, int *fd_p)
{
    uint8_t buf[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    struct amph_fwd_patience patience = amph_fwd_patience_until(amph_now_ns() +
                                                                FWD_CONTROL_TIMEOUT_NS);
    struct amph_fwd_frame_in in;

    for (;;) {
        *fd_p = -1;

        enum amph_status st = receive_frame(fd, buf, &in, &patience, fd_p);

        if (st == AMPH_OK && in.type != FWD_FRAME_DESCRIPTOR)
            st = AMPH_ERR_PROTO;

        bool found = st == AMPH_OK && handle_in(&in) == handle;

        if (found && *fd_p >= 0)
            return AMPH_OK;

        if (*fd_p >= 0)
            close(*fd_p);

        *fd_p = -1;
        if (st != AMPH_OK || found)
            return found ? AMPH_ERR_NOMEM : st; /* no descriptor number was free */
    }
}

bool amph_fwd_control_pass(int fd, const void *frame, size_t len, int pass_fd)
{
    struct amph_descriptors_room room;
    struct iovec iov = { (void *)frame, len };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    amph_descriptors_attach(&m, &room, pass_fd);
    return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

enum amph_status amph_fwd_control_receive(int fd, uint8_t *buf, struct amph_fwd_frame_in *in)
{
    struct amph_fwd_patience patience = amph_fwd_patience_until(amph_now_ns() +
                                                                FWD_CONTROL_TIMEOUT_NS);

    return receive_until(fd, buf, &patience, in);
}

static enum amph_status receive_greet(int fd, uint8_t *buf, struct amph_fwd_patience *patience,
                                      uint8_t nonce[FWD_NONCE_BYTES])
{
    struct amph_fwd_frame_in in;
    enum amph_status st = receive_until(fd, buf, patience, &in);

    if (st != AMPH_OK)
        return st;

    if (in.version != FWD_VERSION) {
        amph_error(
            "this client speaks version %d of the iofwd protocol, the I/O server version %u; "
            "use one version of Amphora for the "
            "whole job",
            FWD_VERSION, in.version);
        return AMPH_ERR_PROTO;
    }

    /* a refusal before the HELLO concerns the server, not this client */
    if (in.type == FWD_FRAME_REFUSE) {
        amph_error("the I/O server refuses this client: %.*s", (int)in.len, (const char *)in.body);
        return AMPH_ERR_FULL;
    }

    if (in.type != FWD_FRAME_GREET || in.len != FWD_NONCE_BYTES)
        return AMPH_ERR_PROTO;

    memcpy(nonce, in.body, FWD_NONCE_BYTES);
    return AMPH_OK;
}

/* Reports a refusal of this client with the server's reason.  Returns its status, or AMPH_OK if the frame
 * is no refusal. */
static enum amph_status check_refusal(const struct amph_fwd_frame_in *in)
{
    static const struct {
        uint8_t frame;
        enum amph_status st;
    } refusals[] = { { FWD_FRAME_REFUSE, AMPH_ERR_DENIED },
                     { FWD_FRAME_NO_MEMORY, AMPH_ERR_NOMEM },
                     { FWD_FRAME_FULL, AMPH_ERR_FULL },
                     { FWD_FRAME_UNREACHABLE, AMPH_ERR_NOSYS } };

    for (size_t i = 0; i < AMPH_COUNTOF(refusals); i++)
        if (in->type == refusals[i].frame) {
            amph_error("the I/O server refuses this client: %.*s", (int)in->len,
                       (const char *)in->body);
            return refusals[i].st;
        }

    return AMPH_OK;
}

enum amph_status amph_fwd_control_greet(int fd, const uint8_t key[AMPH_KEY_BYTES],
                                        struct amph_fwd_hello *h, bool ask, uint64_t deadline_ns,
                                        uint8_t *buf, struct amph_fwd_welcome *wc)
{
    uint8_t server_nonce[FWD_NONCE_BYTES];
    struct amph_fwd_frame_in in;
    struct amph_fwd_patience patience = amph_fwd_patience_until(deadline_ns);
    int passed = -1;
    enum amph_status st = AMPH_OK;

    if (ask)
        st = send_until(fd, buf, amph_fwd_frame_build(buf, FWD_FRAME_ASK, NULL, 0), &patience);

    if (st == AMPH_OK)
        st = receive_greet(fd, buf, &patience, server_nonce);

    if (st != AMPH_OK)
        return st;

    amph_random(h->nonce, sizeof h->nonce);

    size_t n = amph_fwd_hello_build(buf + FWD_FRAME_HEAD_BYTES, FWD_FRAME_BODY_MAX, h, key,
                                    server_nonce);

    st = n ? send_until(fd, buf,
                        amph_fwd_frame_build(buf, FWD_FRAME_HELLO, buf + FWD_FRAME_HEAD_BYTES, n),
                        &patience)
           : AMPH_ERR_RANGE;
    if (st == AMPH_OK)
        st = receive_frame(fd, buf, &in, &patience, &passed);

    if (st == AMPH_OK)
        st = check_refusal(&in);

    if (st == AMPH_OK && in.type != FWD_FRAME_WELCOME)
        st = AMPH_ERR_PROTO;

    if (st == AMPH_OK)
        st = amph_fwd_welcome_parse(in.body, in.len, wc, key, server_nonce, h->nonce);

    if (st == AMPH_OK && (h->kind == FWD_HELLO_MEMORY || h->kind == FWD_HELLO_PIPE))
        wc->passed_fd = passed;
    else if (passed >= 0)
        close(passed);

    return st;
}

/* ---- what a program keeps that is executed ---- */

static size_t build_keep(uint8_t *out, const uint8_t nonce[FWD_NONCE_BYTES],
                         const uint64_t *handles, uint32_t n)
{
    uint8_t *body = out + FWD_FRAME_HEAD_BYTES;
    struct amph_wr w;

    amph_wr_init(&w, body, FWD_FRAME_BODY_MAX);
    amph_wr_bytes(&w, nonce, FWD_NONCE_BYTES);
    amph_wr_u32(&w, n);
    for (uint32_t i = 0; n != FWD_KEEP_ALL && i < n; i++)
        amph_wr_u64(&w, handles[i]);

    return w.bad ? 0 : amph_fwd_frame_build(out, FWD_FRAME_KEEP, body, amph_wr_len(&w));
}

bool amph_fwd_keep_parse(const uint8_t *body, size_t len, struct amph_fwd_keep *keep)
{
    struct amph_rd r;

    amph_rd_init(&r, body, len);

    const void *nonce = amph_rd_bytes(&r, FWD_NONCE_BYTES);

    if (nonce)
        memcpy(keep->nonce, nonce, FWD_NONCE_BYTES);

    keep->n = amph_rd_u32(&r);
    if (r.bad || (keep->n > FWD_KEEP_MAX && keep->n != FWD_KEEP_ALL))
        return false;

    for (uint32_t i = 0; keep->n != FWD_KEEP_ALL && i < keep->n; i++)
        keep->handles[i] = amph_rd_u64(&r);

    return !r.bad && amph_rd_left(&r) == 0;
}

bool amph_fwd_keep_has_successor(const struct amph_fwd_keep *keep)
{
    static const uint8_t none[FWD_NONCE_BYTES];

    return memcmp(keep->nonce, none, sizeof none) != 0;
}

static enum amph_status send_keep(int fd, const uint8_t nonce[FWD_NONCE_BYTES],
                                  const uint64_t *handles, uint32_t n)
{
    uint8_t frame[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    size_t len = build_keep(frame, nonce, handles, n);

    return len ? amph_fwd_control_send(fd, frame, len) : AMPH_ERR_RANGE;
}

enum amph_status amph_fwd_control_keep_only(int fd, const uint64_t *handles, uint32_t n)
{
    static const uint8_t none[FWD_NONCE_BYTES];

    return send_keep(fd, none, handles, n);
}

/* Connects to the server at the other end of fd once more. */
static enum amph_status connect_again(int fd, uint64_t deadline_ns, int *fd_p)
{
    struct amph_fwd_server_addr addr = { .tcp = { .ss_family = AF_UNSPEC } };
    struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
    const struct sockaddr_un *sun = (const void *)&peer;
    const size_t before = offsetof(struct sockaddr_un, sun_path) + 1; /* of an abstract name */
    socklen_t len = sizeof peer;

    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
        return AMPH_ERR_PEER;

    bool local = peer.ss_family == AF_UNIX;

    if (local && (len <= before || len - before >= sizeof addr.unix_name || sun->sun_path[0]))
        return AMPH_ERR_PEER;

    if (local)
        memcpy(addr.unix_name, sun->sun_path + 1, len - before);
    else
        addr.tcp = peer;

    return amph_fwd_control_connect(&addr, local, deadline_ns, fd_p);
}

enum amph_status amph_fwd_control_successor(int fd, const uint64_t *handles, uint32_t n,
                                            int *successor_p)
{
    uint8_t buf[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    uint8_t nonce[FWD_NONCE_BYTES];
    struct amph_fwd_patience patience = amph_fwd_patience_until(amph_now_ns() +
                                                                FWD_CONTROL_TIMEOUT_NS);
    int successor;
    enum amph_status st = connect_again(fd, patience.deadline_ns, &successor);

    if (st != AMPH_OK)
        return st;

    st = receive_greet(successor, buf, &patience, nonce);
    if (st == AMPH_OK)
        st = send_keep(fd, nonce, handles, n);

    if (st == AMPH_OK)
        *successor_p = successor;
    else
        close(successor);

    return st;
}

enum amph_status amph_fwd_control_keep(const struct amph_fwd_server_addr *a, bool same_host,
                                       const uint8_t key[AMPH_KEY_BYTES], uint32_t rank, int *fd_p)
{
    struct amph_fwd_hello h = { .kind = FWD_HELLO_STAY,
                                .big_endian = AMPH_BIG_ENDIAN,
                                .pointer_bytes = sizeof(void *),
                                .rank = rank,
                                .number = FWD_NUMBER_NONE,
                                .child = FWD_NUMBER_NONE,
                                .pid = (uint32_t)getpid() };
    uint8_t *buf = malloc(FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX);
    struct amph_fwd_welcome wc;
    int fd;
    uint64_t deadline = amph_now_ns() + FWD_CONTROL_TIMEOUT_NS;
    enum amph_status st = buf ? amph_fwd_control_connect(a, same_host, deadline, &fd)
                              : AMPH_ERR_NOMEM;

    if (st == AMPH_OK) {
        st = amph_fwd_control_greet(fd, key, &h, false, deadline, buf, &wc);
        if (st != AMPH_OK)
            close(fd);
    }

    free(buf);
    if (st == AMPH_OK)
        *fd_p = fd;

    return st;
}

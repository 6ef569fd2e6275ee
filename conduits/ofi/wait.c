/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until the provider has something to do.  Layer: conduits (ofi).
 * Thread rule: arm on the progress side; amph_ofi_notify on the send side.
 *
 * The tcp providers' own wait object is useless: a progress thread sets the completion queue's
 * descriptor and never clears it (in libfabric 1.17 it is always readable), and that thread uses
 * CPU time.  With FI_WAIT_NONE the provider has no thread and keeps one level-triggered epoll set
 * of its listening socket and all connections, which includes EPOLLOUT only while output is
 * pending.  An epoll set can itself be polled, so this file sleeps on that set.  It identifies the
 * set reliably: it is the only one of this process that watches the socket that listens at the
 * instance's address.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "conduits/ofi/ofi.h"

/* Is descriptor fd a TCP socket with the local address sa: the one that listens there, or one that was
 * accepted there? */
static bool is_tcp_at(int fd, const struct sockaddr_storage *sa, bool listening)
{
    struct sockaddr_storage own;
    int on = 0;
    int protocol = 0;
    socklen_t len = sizeof on;
    socklen_t protocol_len = sizeof protocol;

    /* another thread may open or close the descriptor meanwhile; getsockopt fails if it is no socket */
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) != 0 || (on != 0) != listening ||
        getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_len) != 0 ||
        protocol != IPPROTO_TCP)
        return false;

    memset(&own, 0, sizeof own);
    len = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 || own.ss_family != sa->ss_family)
        return false;

    uint8_t a[AMPH_ADDR_MAX_BYTES], b[AMPH_ADDR_MAX_BYTES];
    size_t na = amph_ofi_put_address(&own, a);
    size_t nb = amph_ofi_put_address(sa, b);

    return na == nb && memcmp(a, b, na) == 0;
}

/* Does fd hold an epoll set that watches `target`? */
static bool watches(int fd, int target)
{
    char path[64], link[64], line[256];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < 0)
        return false;

    link[n] = '\0';
    if (!strstr(link, "[eventpoll]"))
        return false;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);

    FILE *f = fopen(path, "re");
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f)) {
        int tfd;
        found = sscanf(line, "tfd: %d", &tfd) == 1 && tfd == target;
    }

    if (f)
        fclose(f);

    return found;
}

int amph_ofi_find_fd(bool (*test)(int fd, const void *arg), const void *arg)
{
    /* opendir would allocate memory, and silence.c may run inside a call of a signal handler */
    int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int found = -1;
    _Alignas(struct dirent64) char buf[4096];
    long n;

    if (dir < 0)
        return -1;

    while (found < 0 && (n = syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0)
        for (long at = 0; found < 0 && at < n;) {
            const struct dirent64 *d = (const struct dirent64 *)(const void *)(buf + at);
            char *end;
            long fd = strtol(d->d_name, &end, 10);

            if (end != d->d_name && *end == '\0' && fd != dir && test((int)fd, arg))
                found = (int)fd;

            at += d->d_reclen;
        }

    close(dir);
    return found;
}

static bool test_listens(int fd, const void *arg)
{
    return is_tcp_at(fd, arg, true);
}

static bool test_accepted(int fd, const void *arg)
{
    return is_tcp_at(fd, arg, false);
}

static bool test_watches(int fd, const void *arg)
{
    return watches(fd, *(const int *)arg);
}

static int inner_fd(struct amph_ofi_cx *cx)
{
    int listener = amph_ofi_find_fd(test_listens, &cx->listen_addr);
    int fd = listener < 0 ? -1 : amph_ofi_find_fd(test_watches, &listener);

    if (fd >= 0) {
        /* A program that this process executes must not inherit the port and the connections. */
        const struct timeval patience = { 0, 100 * 1000 };

        fcntl(listener, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFD, FD_CLOEXEC);

        /* The provider reads the greeting of a new connection with a call that blocks.  Accepted
         * sockets inherit this limit, so a peer that stops in the middle of it does not block this
         * process for long; later reads never block. */
        setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        amph_ofi_keep_alive(listener);
        cx->listen_fd = listener;
        cx->listened = true;
        amph_ofi_guard(listener, cx->base.cfg.max_peers);
    }

    return fd;
}

static int cq_fd(struct amph_ofi_cx *cx)
{
    int fd = -1;
    return fi_control(&cx->cq->fid, FI_GETWAIT, &fd) == 0 ? fd : -1;
}

/* Makes one descriptor that covers the provider and the send side's notifications. */
static enum amph_status join_doorbell(struct amph_ofi_cx *cx)
{
    struct epoll_event ev = { .events = EPOLLIN };

    cx->notify_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    cx->wait_fd = epoll_create1(EPOLL_CLOEXEC);

    if (cx->notify_fd < 0 || cx->wait_fd < 0 ||
        epoll_ctl(cx->wait_fd, EPOLL_CTL_ADD, cx->notify_fd, &ev) != 0 ||
        epoll_ctl(cx->wait_fd, EPOLL_CTL_ADD, cx->inner_fd, &ev) != 0)
        return amph_status_from_errno(errno);

    return AMPH_OK;
}

enum amph_status amph_ofi_wait_open(struct amph_ofi_cx *cx)
{
    cx->inner_fd = cx->wait == OFI_WAIT_INNER ? inner_fd(cx) : cq_fd(cx);
    cx->base.caps.fd_blocks = cx->inner_fd >= 0;
    if (cx->inner_fd < 0)
        return AMPH_ERR_NOSYS;

    if (cx->wait == OFI_WAIT_INNER)
        amph_ofi_cork_open(cx);

    amph_ofi_look_open(cx);
    if (!cx->base.cfg.threaded) {
        cx->wait_fd = cx->inner_fd;
        return AMPH_OK;
    }

    return join_doorbell(cx);
}

void amph_ofi_wait_close(struct amph_ofi_cx *cx)
{
    if (cx->listen_fd >= 0)
        amph_ofi_unguard(cx->listen_fd);

    amph_ofi_look_close(cx);
    cx->listen_fd = -1;
    if (cx->wait_fd >= 0 && cx->wait_fd != cx->inner_fd)
        close(cx->wait_fd);

    if (cx->notify_fd >= 0)
        close(cx->notify_fd);

    cx->wait_fd = cx->notify_fd = cx->inner_fd = -1;
}

void amph_ofi_close_accepted(struct amph_ofi_cx *cx)
{
    int fd;

    while (cx->listened && (fd = amph_ofi_find_fd(test_accepted, &cx->listen_addr)) >= 0) {
        amph_debug("%s: connection %d, which libfabric left open, is closed", cx->base.cfg.name,
                   fd);
        close(fd);
    }
}

int amph_ofi_wait_fd(struct amph_cx *base)
{
    return amph_ofi_of(base)->wait_fd;
}

void amph_ofi_notify(struct amph_ofi_cx *cx)
{
    if (AMPH_LIKELY(cx->notify_fd < 0))
        return;

    /* either an arm sees what was started, or this load sees the arm */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&cx->armed, __ATOMIC_RELAXED))
        return;

    uint64_t one = 1;
    ssize_t n = write(cx->notify_fd, &one, sizeof one);

    (void)n; /* full: it is readable already */
}

static void awake(struct amph_ofi_cx *cx)
{
    uint64_t count;

    if (!__atomic_exchange_n(&cx->armed, 0, __ATOMIC_RELAXED) || cx->notify_fd < 0)
        return;

    ssize_t n = read(cx->notify_fd, &count, sizeof count);

    (void)n; /* empty: it was not written */
}

/* Records that the provider ended the sleep.  Its work for others (a peer's get from this
 * process's memory) is visible nowhere else, and a process that slept again after each piece of
 * it would serve at half the speed.  So progress reports this as an event. */
static void notice_work(struct amph_ofi_cx *cx)
{
    struct pollfd pfd = { .fd = cx->inner_fd, .events = POLLIN };
    cx->woken_by_provider = poll(&pfd, 1, 0) == 1;
}

enum amph_status amph_ofi_arm(struct amph_cx *base, enum amph_arm how, uint64_t timeout_ns)
{
    struct amph_ofi_cx *cx = amph_ofi_of(base);

    if (how == AMPH_ARM_OFF) {
        if (__atomic_load_n(&cx->armed, __ATOMIC_RELAXED))
            notice_work(cx);

        awake(cx);
        return AMPH_OK;
    }

    if (how != AMPH_ARM_FD || cx->wait_fd < 0)
        return AMPH_ERR_NOSYS;

    __atomic_store_n(&cx->armed, 1, __ATOMIC_RELAXED);
    if (cx->notify_fd >= 0)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);

    struct fid *fid = &cx->cq->fid;

    /* without room, a pack and answers wait for an event of the provider */
    (void)amph_ofi_pack_first(cx, UINT32_MAX);

    /* Usually the progress call before has seen the queue empty, and there is no need to check
     * again. */
    bool seen_empty = __atomic_load_n(&cx->cq_empty, __ATOMIC_ACQUIRE) && cx->ev_at == cx->ev_end &&
                      cx->empty_looks == 0 && !(cx->looks && amph_ofi_look_holds());

    if (!seen_empty)
        amph_ofi_cq_touched(cx); /* the provider is called, and not only looked at */

    bool work = cx->deferred || cx->pack.failed || cx->rx_starved ||
                (cx->kicks && !cx->kicker_posted) ||
                __atomic_load_n(&cx->failed, __ATOMIC_RELAXED) ||
                (!seen_empty && amph_ofi_fill_batch(cx)) ||
                (cx->wait == OFI_WAIT_CQ && fi_trywait(cx->fabric, &fid, 1) != 0);

    if (!work)
        return AMPH_OK;

    awake(cx);
    return AMPH_AGAIN;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until a datagram comes or a timer of the protocol is due.  Layer: conduits (udp).
 * Thread rule: arm on the progress side; amph_udp_sent on the send side.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "conduits/port.h"
#include "conduits/udp/udp.h"

enum amph_status amph_udp_wait_open(struct amph_udp_cx *u)
{
    int port_fd = u->port->ops->fd(u->port);
    struct epoll_event ev = { .events = EPOLLIN };

    u->base.caps.fd_blocks = port_fd >= 0;
    if (port_fd < 0)
        return AMPH_OK;

    u->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    u->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    if (u->wait_fd < 0 || u->timer_fd < 0 ||
        epoll_ctl(u->wait_fd, EPOLL_CTL_ADD, port_fd, &ev) != 0 ||
        epoll_ctl(u->wait_fd, EPOLL_CTL_ADD, u->timer_fd, &ev) != 0) {
        int err = errno;

        amph_error("cannot make the descriptors to sleep on: %m; raise the limit of open files "
                   "(ulimit -n)");
        return amph_status_from_errno(err);
    }

    return AMPH_OK;
}

void amph_udp_wait_close(struct amph_udp_cx *u)
{
    if (u->wait_fd >= 0)
        close(u->wait_fd);

    if (u->timer_fd >= 0)
        close(u->timer_fd);

    u->wait_fd = u->timer_fd = -1;
}

int amph_udp_wait_fd(struct amph_cx *cx)
{
    return amph_udp_of(cx)->wait_fd;
}

static void set_alarm(struct amph_udp_cx *u, uint64_t at_ns)
{
    struct itimerspec t = { .it_value = { 0, 0 } };

    if (at_ns != RDP_NEVER) {
        t.it_value.tv_sec = (time_t)(at_ns / AMPH_NS_PER_S);
        t.it_value.tv_nsec = (long)(at_ns % AMPH_NS_PER_S);
    }

    timerfd_settime(u->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
    __atomic_store_n(&u->alarm_ns, at_ns, __ATOMIC_SEQ_CST);
}

void amph_udp_sent(struct amph_udp_cx *u)
{
    amph_udp_guard_wake(u);
    if (amph_rdp_is_corked(u->rdp))
        amph_udp_guard_hurry(u);

    if (AMPH_LIKELY(!u->base.cfg.threaded))
        return;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&u->armed, __ATOMIC_RELAXED))
        return;

    amph_rdp_lock(u->rdp);

    uint64_t due = u->rdp->timer_ns;

    if (u->rdp->nfinished || u->rdp->nfailed)
        due = 1; /* in the past: expires at once */

    if (__atomic_load_n(&u->armed, __ATOMIC_RELAXED) &&
        due < __atomic_load_n(&u->alarm_ns, __ATOMIC_RELAXED))
        set_alarm(u, due);

    amph_rdp_unlock(u->rdp);
}

static enum amph_status sleep_on_fd(struct amph_udp_cx *u)
{
    uint64_t due;

    for (unsigned i = 0; i < UDP_DEPTH; i++)
        if (u->set[i] && u->set[i]->at < u->set[i]->end)
            return AMPH_AGAIN;

    __atomic_store_n(&u->armed, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);

    bool idle = amph_rdp_quiesce(u->rdp, &due) && u->port->ops->idle(u->port);

    if (!idle) {
        __atomic_store_n(&u->armed, 0, __ATOMIC_RELAXED);
        return AMPH_AGAIN;
    }

    amph_rdp_lock(u->rdp);
    due = u->rdp->timer_ns < due ? u->rdp->timer_ns : due;
    if (due != __atomic_load_n(&u->alarm_ns, __ATOMIC_RELAXED))
        set_alarm(u, due);

    amph_rdp_unlock(u->rdp);
    return AMPH_OK;
}

enum amph_status amph_udp_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns)
{
    struct amph_udp_cx *u = amph_udp_of(cx);

    if (how == AMPH_ARM_FD && u->wait_fd >= 0)
        return sleep_on_fd(u);
    if (how != AMPH_ARM_OFF)
        return AMPH_ERR_NOSYS;
    if (!__atomic_exchange_n(&u->armed, 0, __ATOMIC_SEQ_CST))
        return AMPH_OK;

    /* Reads an expired timer, so that its descriptor is no longer readable.  A running timer
     * stays set. */
    uint64_t count;
    uint64_t alarm = __atomic_load_n(&u->alarm_ns, __ATOMIC_RELAXED);

    if (alarm != RDP_NEVER && amph_now_ns() >= alarm) {
        ssize_t n = read(u->timer_fd, &count, sizeof count);
        __atomic_store_n(&u->alarm_ns, n > 0 ? RDP_NEVER : alarm, __ATOMIC_RELAXED);
    }

    return AMPH_OK;
}

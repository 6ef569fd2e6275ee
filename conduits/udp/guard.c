/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard: a thread that retransmits lost segments while its process computes and makes no
 * progress.  Without it a peer would wait for as long as the computation takes.
 * Layer: conduits (udp).  Thread rule: its own thread, under the protocol's lock; makes no upcalls.
 *
 * It sleeps while nothing is in flight.  A send sets its timer if it is not set, and starts the thread if
 * it does not run.  When the timer expires, the guard handles deadlines and sets it again while anything
 * is in flight, at most fifty times a second.
 *
 * Every AMPH_THREAD_IDLE_NS it looks whether the process has made no progress for so long that its peers
 * could take it for dead, and sends them a keep-alive.  It ends if it is idle and no peer is connected,
 * or if no thread of the program is left: then the C library ends the process, and its exit makes
 * progress, which alone receives acknowledgements.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "base/status.h"
#include "conduits/udp/udp.h"

#define LOOK_ROUNDS 25         /* rounds in a row, between checks whether the program has ended */
#define RETRY_NS AMPH_NS_PER_S /* between attempts to start the thread */

static void set_round(struct amph_udp_cx *u, uint64_t ns)
{
    const struct itimerspec t = { .it_value = { 0, (long)ns } };
    timerfd_settime(u->guard_fd, 0, &t, NULL);
}

/* Has the thread nothing more to do, not even for peers that wait for this process? */
static bool is_needless(struct amph_udp_cx *u)
{
    return !amph_rdp_keep_alive(u->rdp) || amph_thread_program_ended();
}

/* Waits until the timer expires.  Returns false if the thread ends instead. */
static bool wait_for_round(struct amph_udp_cx *u)
{
    struct pollfd timer = { .fd = u->guard_fd, .events = POLLIN };
    const int idle_ms = (int)(AMPH_THREAD_IDLE_NS / AMPH_NS_PER_MS);
    uint64_t count;

    for (;;) {
        int n = poll(&timer, 1, idle_ms);

        if (__atomic_load_n(&u->guard_stop, __ATOMIC_ACQUIRE))
            return false;

        if (n > 0)
            return read(u->guard_fd, &count, sizeof count) > 0 || errno == EINTR || errno == EAGAIN;

        int idle = UDP_GUARD_IDLE;

        if (n == 0 && is_needless(u) &&
            __atomic_compare_exchange_n(&u->guarded, &idle, UDP_GUARD_NONE, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return false;
    }
}

static bool look(struct amph_udp_cx *u)
{
    return amph_rdp_guard(u->rdp, __atomic_load_n(&u->armed, __ATOMIC_RELAXED));
}

/* After a round that was due soon.  The thread looks less often at a process that sends by itself what waits. */
static void next_is_due(struct amph_udp_cx *u, bool was_soon)
{
    const uint32_t now_ns = __atomic_load_n(&u->guard_soon_ns, __ATOMIC_RELAXED);
    uint32_t next_ns = RDP_CORK_NS;

    if (was_soon && amph_rdp_corks_often(u->rdp))
        next_ns = 2 * now_ns < RDP_CORK_MAX_NS ? 2 * now_ns : RDP_CORK_MAX_NS;

    __atomic_store_n(&u->guard_soon_ns, next_ns, __ATOMIC_RELAXED);
}

static void *guard(void *arg)
{
    struct amph_udp_cx *u = arg;
    unsigned rounds = 0;

    while (wait_for_round(u)) {
        bool soon = __atomic_exchange_n(&u->guard_soon, false, __ATOMIC_SEQ_CST);
        bool more = look(u);

        next_is_due(u, soon);
        rounds = more ? rounds + 1 : 0;
        if (rounds >= LOOK_ROUNDS) {
            rounds = 0;
            amph_rdp_keep_alive(u->rdp);
            if (amph_thread_program_ended()) {
                __atomic_store_n(&u->guarded, UDP_GUARD_NONE, __ATOMIC_SEQ_CST);
                break;
            }
        }

        /* from now on a send sets the timer; a send that saw the flag set is seen here */
        if (!more)
            __atomic_store_n(&u->guarded, UDP_GUARD_IDLE, __ATOMIC_SEQ_CST);

        if (more || (look(u) && __atomic_exchange_n(&u->guarded, UDP_GUARD_SET, __ATOMIC_SEQ_CST) ==
                                    UDP_GUARD_IDLE))
            set_round(u, RDP_GUARD_NS);

        /* read after the timer was set, so that what is corked from now on sets it again */
        if (amph_rdp_is_corked(u->rdp))
            amph_udp_guard_hurry(u);
    }

    return NULL;
}

/* Waits for the end of the thread.  At a process's end it may be the caller: the C library calls exit in
 * the last thread. */
static void join(struct amph_udp_cx *u)
{
    if (u->has_guard && !pthread_equal(u->guard, pthread_self()))
        pthread_join(u->guard, NULL);

    u->has_guard = false;
}

/* Starts the thread.  A process that only receives, or forks before it sends, has no such thread.  Only
 * the caller that has changed UDP_GUARD_NONE into UDP_GUARD_SET may call this. */
static void start(struct amph_udp_cx *u)
{
    join(u);

    int err = amph_thread_start(&u->guard, false, 0, guard, u);

    u->has_guard = err == 0;
    __atomic_store_n(&u->guard_retry_ns, err ? amph_now_ns() + RETRY_NS : 0, __ATOMIC_RELAXED);
    if (!err)
        return;

    __atomic_store_n(&u->guarded, UDP_GUARD_NONE, __ATOMIC_SEQ_CST);
    if (u->guard_complained)
        return;

    u->guard_complained = true;
    amph_warn("the udp conduit has no thread to send lost messages again while this process "
              "computes: %s%s",
              strerror(err), amph_limit_remedy(err));
}

void amph_udp_guard_wake(struct amph_udp_cx *u)
{
    if (__atomic_load_n(&u->guarded, __ATOMIC_SEQ_CST) == UDP_GUARD_SET)
        return;

    uint64_t retry_ns = __atomic_load_n(&u->guard_retry_ns, __ATOMIC_RELAXED);

    if (AMPH_UNLIKELY(retry_ns) && amph_now_ns() < retry_ns)
        return;

    int was = __atomic_exchange_n(&u->guarded, UDP_GUARD_SET, __ATOMIC_SEQ_CST);

    if (was == UDP_GUARD_SET)
        return;

    if (was == UDP_GUARD_NONE)
        start(u);

    set_round(u, RDP_GUARD_NS);
}

void amph_udp_guard_hurry(struct amph_udp_cx *u)
{
    if (!__atomic_load_n(&u->guard_soon, __ATOMIC_SEQ_CST) &&
        !__atomic_exchange_n(&u->guard_soon, true, __ATOMIC_SEQ_CST))
        set_round(u, __atomic_load_n(&u->guard_soon_ns, __ATOMIC_RELAXED));
}

enum amph_status amph_udp_guard_open(struct amph_udp_cx *u)
{
    u->guard_soon_ns = RDP_CORK_NS;
    u->guard_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (u->guard_fd >= 0)
        return AMPH_OK;

    int err = errno;

    amph_error("cannot make a timer: %m; raise the limit of open files (ulimit -n)");
    return amph_status_from_errno(err);
}

void amph_udp_guard_close(struct amph_udp_cx *u)
{
    __atomic_store_n(&u->guard_stop, 1, __ATOMIC_RELEASE);
    if (u->guard_fd >= 0)
        set_round(u, 1);

    join(u);
    if (u->guard_fd >= 0)
        close(u->guard_fd);

    u->guard_fd = -1;
}

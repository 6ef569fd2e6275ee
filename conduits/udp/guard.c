/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard: a thread that retransmits lost segments while its process computes and makes no
 * progress.  Without it a peer would wait for as long as the computation takes.
 * Layer: conduits (udp).  Thread rule: its own thread, under the protocol's lock; makes no upcalls.
 *
 * It sleeps while nothing is in flight.  A send sets its timer if it is not set.  When the timer
 * expires, the guard handles deadlines and sets it again while anything is in flight, at most fifty
 * times a second.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "base/status.h"
#include "conduits/udp/udp.h"

#define ROUND_NS (20 * AMPH_NS_PER_MS)

static void set_round(struct amph_udp_cx *u, uint64_t ns)
{
    const struct itimerspec t = { .it_value = { 0, (long)ns } };
    timerfd_settime(u->guard_fd, 0, &t, NULL);
}

static void *guard(void *arg)
{
    struct amph_udp_cx *u = arg;
    uint64_t count;

    while (read(u->guard_fd, &count, sizeof count) > 0 || errno == EINTR) {
        if (__atomic_load_n(&u->guard_stop, __ATOMIC_ACQUIRE))
            break;

        bool more = amph_rdp_guard(u->rdp);

        /* from now on a send sets the timer; a send that saw the flag set is seen here */
        if (!more)
            __atomic_store_n(&u->guarded, 0, __ATOMIC_SEQ_CST);

        if (more ||
            (amph_rdp_guard(u->rdp) && !__atomic_exchange_n(&u->guarded, 1, __ATOMIC_SEQ_CST)))
            set_round(u, ROUND_NS);
    }

    return NULL;
}

/* Starts the thread at the first send.  A process that only receives, or forks before it sends,
 * has no such thread. */
static void start(struct amph_udp_cx *u)
{
    int err = amph_thread_start(&u->guard, false, 0, guard, u);

    u->has_guard = err == 0;
    u->guard_tried = true;

    if (err)
        amph_warn("the udp conduit has no thread to send lost messages again while this process "
                  "computes: %s%s",
                  strerror(err), amph_limit_remedy(err));
}

void amph_udp_guard_wake(struct amph_udp_cx *u)
{
    if (__atomic_load_n(&u->guarded, __ATOMIC_SEQ_CST) ||
        __atomic_exchange_n(&u->guarded, 1, __ATOMIC_SEQ_CST))
        return;

    if (AMPH_UNLIKELY(!u->guard_tried))
        start(u);

    set_round(u, ROUND_NS);
}

enum amph_status amph_udp_guard_open(struct amph_udp_cx *u)
{
    u->guard_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (u->guard_fd >= 0)
        return AMPH_OK;

    int err = errno;

    amph_error("cannot make a timer: %m; raise the limit of open files (ulimit -n)");
    return amph_status_from_errno(err);
}

void amph_udp_guard_close(struct amph_udp_cx *u)
{
    if (u->has_guard) {
        __atomic_store_n(&u->guard_stop, 1, __ATOMIC_RELEASE);
        set_round(u, 1);
        pthread_join(u->guard, NULL);
    }

    u->has_guard = false;
    if (u->guard_fd >= 0)
        close(u->guard_fd);

    u->guard_fd = -1;
}

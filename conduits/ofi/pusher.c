/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that sends messages which the kernel keeps back (cork.c), and puts in a pack (pack.c), of a process that
 * computes.
 * Layer: conduits (ofi).  Thread rule: its own thread, and the send side.
 *
 * The first message or put that is kept back sets a timer, unless it is set, and starts the thread, unless it
 * runs.  When the timer expires, the thread pushes whatever is kept back then; as a rule a progress call has done so
 * already.  A process that goes on opening packs sends them itself as a rule: it is looked at less often, up to
 * every OFI_PUSH_LATE_NS, because a look takes a core from somebody, and a pack is left to it until the second look.
 * The thread ends when it has had nothing to do for AMPH_THREAD_IDLE_NS.
 *
 * No message is left behind: the sender stores what it has kept back and then looks at `set`; the thread
 * clears `set` and then pushes.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/os/thread.h"
#include "conduits/ofi/ofi.h"

#define RETRY_NS AMPH_NS_PER_S /* between attempts to start the thread */

static void set_timer(struct amph_ofi_pusher *p, uint64_t ns)
{
    const struct itimerspec t = { .it_value = { 0, (long)ns } };

    timerfd_settime(p->fd, 0, &t, NULL);
}

/* Waits for the timer.  Returns false if the thread ends instead. */
static bool wait_for_timer(struct amph_ofi_pusher *p)
{
    struct pollfd timer = { .fd = p->fd, .events = POLLIN };
    uint64_t count;

    for (;;) {
        int n = poll(&timer, 1, (int)(AMPH_THREAD_IDLE_NS / AMPH_NS_PER_MS));

        if (__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE))
            return false;
        if (n > 0 && read(p->fd, &count, sizeof count) > 0)
            return true;
        if (n != 0)
            continue; /* a signal */

        __atomic_store_n(&p->runs, false, __ATOMIC_SEQ_CST);

        /* A sender that has set the timer meanwhile found the thread running. */
        if (!__atomic_load_n(&p->set, __ATOMIC_SEQ_CST) ||
            __atomic_exchange_n(&p->runs, true, __ATOMIC_SEQ_CST))
            return false;
    }
}

/* Sets the timer, unless it is set, and for a shorter time if `late` is set and a message cannot wait for so long. */
static void set_for_pack(struct amph_ofi_pusher *p)
{
    const uint64_t ns = __atomic_load_n(&p->pack_ns, __ATOMIC_RELAXED);

    __atomic_store_n(&p->late, ns > OFI_PUSH_NS, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&p->set, true, __ATOMIC_SEQ_CST))
        return;

    set_timer(p, ns);
    if (ns > OFI_PUSH_NS && !__atomic_load_n(&p->late, __ATOMIC_SEQ_CST))
        set_timer(p, OFI_PUSH_NS); /* a message has come meanwhile */
}

static void look_again(struct amph_ofi_pusher *p, enum amph_ofi_pack_found found)
{
    uint64_t ns = 2 * __atomic_load_n(&p->pack_ns, __ATOMIC_RELAXED);

    if (found != OFI_PACK_ACTIVE)
        ns = OFI_PUSH_NS;

    __atomic_store_n(&p->pack_ns, ns < OFI_PUSH_LATE_NS ? ns : OFI_PUSH_LATE_NS, __ATOMIC_RELAXED);
    if (found == OFI_PACK_ACTIVE)
        set_for_pack(p);
}

static void *run(void *arg)
{
    struct amph_ofi_cx *cx = arg;

    while (wait_for_timer(&cx->pusher)) {
        __atomic_store_n(&cx->pusher.set, false, __ATOMIC_SEQ_CST);

        enum amph_ofi_pack_found found = amph_ofi_pack_push(cx);

        amph_ofi_cork_push_sent(cx);
        look_again(&cx->pusher, found);
    }

    return NULL;
}

static void join(struct amph_ofi_pusher *p)
{
    /* At a process's end the C library may call exit in this thread. */
    if (p->has_thread && !pthread_equal(p->thread, pthread_self()))
        pthread_join(p->thread, NULL);

    p->has_thread = false;
}

/* Returns an errno value.  Most processes never send so many messages together: they have no timer. */
static int start_thread(struct amph_ofi_cx *cx)
{
    struct amph_ofi_pusher *p = &cx->pusher;

    if (p->fd < 0)
        p->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (p->fd < 0)
        return errno;

    join(p);

    int err = amph_thread_start(&p->thread, false, 0, run, cx);

    p->has_thread = err == 0;
    return err;
}

/* Makes the thread run.  false: it cannot be started. */
static bool start(struct amph_ofi_cx *cx)
{
    struct amph_ofi_pusher *p = &cx->pusher;

    if (__atomic_exchange_n(&p->runs, true, __ATOMIC_SEQ_CST))
        return true;

    int err = start_thread(cx);

    p->retry_ns = err ? amph_now_ns() + RETRY_NS : 0;
    if (err) {
        __atomic_store_n(&p->runs, false, __ATOMIC_SEQ_CST);
        amph_debug("%s: no thread to send messages together: %s", cx->base.cfg.name, strerror(err));
    }

    return err == 0;
}

bool amph_ofi_can_push_soon(struct amph_ofi_cx *cx)
{
    const struct amph_ofi_pusher *p = &cx->pusher;

    return cx->corks && (AMPH_LIKELY(!p->retry_ns) || amph_now_ns() >= p->retry_ns);
}

bool amph_ofi_push_soon(struct amph_ofi_cx *cx, bool pack)
{
    struct amph_ofi_pusher *p = &cx->pusher;

    if (__atomic_load_n(&p->set, __ATOMIC_SEQ_CST) ||
        __atomic_exchange_n(&p->set, true, __ATOMIC_SEQ_CST)) {
        if (!pack && AMPH_UNLIKELY(__atomic_load_n(&p->late, __ATOMIC_SEQ_CST)) &&
            __atomic_exchange_n(&p->late, false, __ATOMIC_SEQ_CST))
            set_timer(p, OFI_PUSH_NS);

        return true;
    }

    if (start(cx)) {
        const uint64_t ns = pack ? __atomic_load_n(&p->pack_ns, __ATOMIC_RELAXED) : OFI_PUSH_NS;

        __atomic_store_n(&p->late, ns > OFI_PUSH_NS, __ATOMIC_SEQ_CST);
        set_timer(p, ns);
        return true;
    }

    __atomic_store_n(&p->set, false, __ATOMIC_SEQ_CST);
    amph_ofi_cork_push_sent(cx);
    return false;
}

void amph_ofi_pusher_close(struct amph_ofi_cx *cx)
{
    struct amph_ofi_pusher *p = &cx->pusher;

    if (p->fd < 0)
        return;

    __atomic_store_n(&p->stop, true, __ATOMIC_RELEASE);
    set_timer(p, 1);
    join(p);
    close(p->fd);
    p->fd = -1;
}

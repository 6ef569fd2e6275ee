/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until a message comes, and waking sleepers.  Layer: conduits (smp).  Thread rule: arm on the progress side, wake on the
 * send side.
 *
 * The sleeper says so in its sleep word, then must be sure that every sender either sees that word or has written its message where the
 * sleeper still looks.  The sleeper pays for it: membarrier makes every core that runs one of our processes pass a fence, so
 * senders need none.  Where membarrier is missing, senders fence (region->full_fence, sender_must_fence).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "conduits/smp/smp.h"

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

bool smp_fence_setup(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

static void sleeper_fence(const struct smp_cx *s)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!s->region->full_fence)
        membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

/* Opens the peer's doorbell when it is first needed. */
static int bell_of(struct smp_peer *p)
{
    char path[64];
    if (p->bell_fd >= 0)
        return p->bell_fd;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)p->pid, p->bell_fd_there);
    p->bell_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (p->bell_fd < 0)
        amph_debug("cannot ring process %ld (%s): %m", (long)p->pid, path);
    return p->bell_fd;
}

void smp_wake(struct smp_cx *s, struct smp_peer *p)
{
    uint32_t how = __atomic_exchange_n(&p->region->sleep, SMP_AWAKE, __ATOMIC_SEQ_CST);
    if (how == SMP_AWAKE)
        return; /* another sender was faster */
    amph_count(WAKES_SENT);
    if (how == SMP_SLEEP_FUTEX) {
        syscall(SYS_futex, &p->region->sleep, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
        return;
    }
    int fd = bell_of(p);
    /* A full pipe is as good as a ring. */
    if (fd >= 0 && write(fd, "", 1) < 0 && errno != EAGAIN)
        amph_debug("ringing process %ld: %m", (long)p->pid);
}

static void drain_bell(struct smp_cx *s)
{
    char buf[64];
    while (read(s->bell[0], buf, sizeof buf) == (ssize_t)sizeof buf)
        ;
}

/* Awake again.  A sender may have taken the sleep word and not yet rung, so a byte may come late: then one sleep ends early. */
static void wake_up(struct smp_cx *s)
{
    __atomic_store_n(&s->region->sleep, SMP_AWAKE, __ATOMIC_SEQ_CST);
    if (s->armed == AMPH_ARM_FD)
        drain_bell(s);
    s->armed = AMPH_ARM_OFF;
}

enum amph_status smp_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns)
{
    struct smp_cx *s = smp_of(cx);
    if (how == AMPH_ARM_OFF) {
        if (s->armed != AMPH_ARM_OFF)
            wake_up(s);
        return AMPH_OK;
    }
    s->armed = how;
    __atomic_store_n(&s->region->sleep, how == AMPH_ARM_FD ? SMP_SLEEP_FD : SMP_SLEEP_FUTEX, __ATOMIC_SEQ_CST);
    sleeper_fence(s);
    if (smp_has_work(s)) {
        wake_up(s);
        return AMPH_AGAIN;
    }
    if (how == AMPH_ARM_SLEEP) {
        struct timespec ts = { (time_t)(timeout_ns / AMPH_NS_PER_S), (long)(timeout_ns % AMPH_NS_PER_S) };
        syscall(SYS_futex, &s->region->sleep, FUTEX_WAIT, SMP_SLEEP_FUTEX, &ts, NULL, 0);
        wake_up(s);
    }
    return AMPH_OK;
}

int smp_wait_fd(struct amph_cx *cx)
{
    return smp_of(cx)->bell[0];
}

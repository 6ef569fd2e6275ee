/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until a message comes, and waking sleepers.  Layer: conduits (smp).  Thread rule: arm on
 * the progress side, wake on the send side.
 *
 * The sleeper says so in its sleep word, then must be sure that every sender either sees that word
 * or has written its message where the sleeper still looks.  The sleeper pays for it: membarrier
 * makes every core that runs one of our processes pass a fence, so senders need none.  Where
 * membarrier is missing, or where the sleeper sleeps so often that it would cost more, senders
 * fence (region->full_fence; can_fence).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "conduits/smp/smp.h"

#define QUICK_NS \
    (500 * AMPH_NS_PER_US) /* sleeps that follow each other in less than this are quick */
#define QUICK_ARMS 4u      /* so many quick ones in a row: senders fence */
#define AWAKE_POLLS 20000u /* so many polls without a sleep: senders need not fence any more */

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

bool amph_smp_fence_setup(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

/*
 * Makes sure that every sender either sees the sleep word or has its message where has_work looks.
 * A membarrier interrupts each core that runs one of our processes (1 us when none does, 20 us on a
 * virtual machine when one does), so who sleeps often asks the senders to fence instead: the first
 * such sleep still needs the membarrier, so that the request itself is seen.
 */
static void sleeper_fence(struct amph_smp_cx *s)
{
    uint64_t now = amph_now_ns();
    bool quick = now - s->armed_ns < QUICK_NS;

    s->armed_ns = now;
    s->polls_at_arm = s->polls;
    s->quick_arms = quick ? s->quick_arms + 1 : 0;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!s->can_fence || (s->region->full_fence && quick))
        return;

    __atomic_store_n(&s->region->full_fence, s->quick_arms >= QUICK_ARMS, __ATOMIC_SEQ_CST);
    membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void amph_smp_relax_fence(struct amph_smp_cx *s)
{
    if (s->can_fence && s->region->full_fence && s->polls - s->polls_at_arm > AWAKE_POLLS)
        __atomic_store_n(&s->region->full_fence, 0, __ATOMIC_RELAXED);
}

/* Opens the peer's doorbell; only the pipe that the peer's region names, for the process may have
 * ended and its numbers may mean something else now.  Opened to read as well, so that ringing a
 * process that has ended is no SIGPIPE. */
static int open_doorbell(const struct amph_smp_peer *p)
{
    char path[64];
    struct stat sb;

    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)p->pid, p->remote_doorbell_fd);

    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 &&
        (fstat(fd, &sb) != 0 || !S_ISFIFO(sb.st_mode) || sb.st_ino != p->region->doorbell_ino)) {
        close(fd);
        fd = -1;
        errno = ESRCH;
    }

    if (fd < 0)
        amph_debug("cannot ring process %ld (%s): %m", (long)p->pid, path);

    return fd;
}

void amph_smp_wake(struct amph_smp_cx *s, struct amph_smp_peer *p)
{
    uint32_t how = __atomic_exchange_n(&p->region->sleep, SMP_AWAKE, __ATOMIC_SEQ_CST);

    if (how == SMP_AWAKE)
        return; /* another sender was faster */

    amph_count(WAKES_SENT);
    if (how == SMP_SLEEP_FUTEX) {
        syscall(SYS_futex, &p->region->sleep, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
        return;
    }

    /* A child by clone may send from our memory and have descriptors of its own: what it opens
     * means nothing here, and the reverse. */
    bool ours = getpid() == s->pid;
    int fd = ours && p->doorbell_fd >= 0 ? p->doorbell_fd : open_doorbell(p);

    /* A full pipe is as good as a ring. */
    if (fd >= 0 && write(fd, "", 1) < 0 && errno != EAGAIN)
        amph_debug("ringing process %ld: %m", (long)p->pid);

    if (ours)
        p->doorbell_fd = fd;
    else if (fd >= 0)
        close(fd);
}

static void drain_doorbell(struct amph_smp_cx *s)
{
    char buf[64];
    while (read(s->doorbell[0], buf, sizeof buf) == (ssize_t)sizeof buf)
        ;
}

/* Awake again.  A sender may have taken the sleep word and not yet rung, so a byte may come late:
 * then one sleep ends early. */
static void wake_up(struct amph_smp_cx *s)
{
    __atomic_store_n(&s->region->sleep, SMP_AWAKE, __ATOMIC_SEQ_CST);
    if (s->armed == AMPH_ARM_FD)
        drain_doorbell(s);

    s->armed = AMPH_ARM_OFF;
}

enum amph_status amph_smp_arm(struct amph_cx *cx, enum amph_arm how, uint64_t timeout_ns)
{
    struct amph_smp_cx *s = amph_smp_of(cx);

    if (amph_smp_has_updates(s))
        amph_smp_apply_updates(s);

    if (how == AMPH_ARM_OFF) {
        if (s->armed != AMPH_ARM_OFF)
            wake_up(s);

        return AMPH_OK;
    }

    s->armed = how;
    __atomic_store_n(&s->region->sleep, how == AMPH_ARM_FD ? SMP_SLEEP_FD : SMP_SLEEP_FUTEX,
                     __ATOMIC_SEQ_CST);
    sleeper_fence(s);

    if (amph_smp_has_work(s)) {
        wake_up(s);
        return AMPH_AGAIN;
    }

    if (how == AMPH_ARM_SLEEP) {
        struct timespec ts = { (time_t)(timeout_ns / AMPH_NS_PER_S),
                               (long)(timeout_ns % AMPH_NS_PER_S) };

        syscall(SYS_futex, &s->region->sleep, FUTEX_WAIT, SMP_SLEEP_FUTEX, &ts, NULL, 0);
        wake_up(s);
    }

    return AMPH_OK;
}

int amph_smp_wait_fd(struct amph_cx *cx)
{
    return amph_smp_of(cx)->doorbell[0];
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until a message arrives, and waking sleepers.
 * Layer: conduits (smp).  Thread rule: arm on the progress side, wake on the send side.
 *
 * The sleeper sets its sleep word.  Then every sender must either see that word or have written its
 * message before the sleeper's last check of the rings.  The sleeper pays for this order by an asymmetric fence
 * (base/os/fence.h); region->full_fence asks the senders for full ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "base/status.h"
#include "conduits/smp/smp.h"

#define AWAKE_POLLS 20000u /* polls without a sleep after which senders make none */

/* Orders the sleep word with the messages of all senders. */
static void sleeper_fence(struct amph_smp_cx *s)
{
    s->polls_at_arm = s->polls;

    if (amph_fence_needs_heavy(&s->fence, s->nsources)) {
        __atomic_store_n(&s->region->full_fence, s->fence.asks, __ATOMIC_SEQ_CST);
        amph_fence_heavy();
    } else {
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

void amph_smp_relax_fence(struct amph_smp_cx *s)
{
    if (s->fence.works && s->fence.asks && s->polls - s->polls_at_arm > AWAKE_POLLS) {
        s->fence.asks = false;
        __atomic_store_n(&s->region->full_fence, 0, __ATOMIC_RELAXED);
    }
}

/* Opens the peer's doorbell.  Checks that it is the pipe of the peer's region, because the process may
 * have ended and its pid and descriptor may belong to another.  Opens it for reading too, so that
 * writing to it after the peer has ended raises no SIGPIPE. */
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
        amph_debug("cannot wake process %ld (%s): %m", (long)p->pid, path);

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

    /* A thread, or a child made by clone that sends from this memory, may have a descriptor table of
     * its own: its descriptors are not valid here, and the reverse. */
    bool ours = amph_thread_fd_table() == 0 && getpid() == s->pid;
    int fd = ours && p->doorbell_fd >= 0 ? p->doorbell_fd : open_doorbell(p);

    /* A full pipe is readable already. */
    if (fd >= 0 && write(fd, "", 1) < 0 && errno != EAGAIN)
        amph_debug("waking process %ld: %m", (long)p->pid);

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

/* Awake again.  A sender may have reset the sleep word but not yet written to the pipe; its byte then
 * ends the next sleep early. */
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

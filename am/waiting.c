/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: spin, then yield, then sleep in the kernel.
 * Layer: am.  Thread rule: any thread.
 *
 * Of the threads that wait on one endpoint, one sleeps on the descriptors and the others on a futex,
 * the event count.  A thread whose poll handled something increments it and wakes them
 * (amph_ep_announce).  No wake-up is lost: a waiter reads the count before its caller checks the
 * condition, and sleeps only while the count is the same.  The one that has slept on the descriptors
 * may not wait any more, so another takes its place (hand_over).
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "am/ep.h"
#include "base/os/clock.h"
#include "base/platform.h"
#include "base/settings/env.h"
#include "base/status.h"
#include "conduits/conduit.h"

#define SLEEP_NS (10 * AMPH_NS_PER_MS)             /* longest sleep */
#define SLEEP_LATE_NS (40 * AMPH_NS_PER_MS)        /* after a second without an event */
#define SLEEP_UNANNOUNCED_NS (20 * AMPH_NS_PER_US) /* shortest sleep where waits end by stores */

/* A sleep that nobody ends costs 40 us of a core, and all processes but one may sleep.  So sleeps
 * are longer where a core has more than PROCS_ASLEEP processes: 256 of them, each waking up every
 * 10 ms, would leave the core to nothing else. */
#define PROCS_ASLEEP 8u
#define SLEEP_FACTOR_MAX 16u

#define NAP_MIN_NS (20 * AMPH_NS_PER_US) /* sleeps if a conduit has no descriptor that wakes us */
#define NAP_MAX_NS (1 * AMPH_NS_PER_MS)
#define NAP_LATE_NS (2 * AMPH_NS_PER_MS) /* after a second without an event */

/* Waking a process takes this long.  A wait yields at least until all processes of a core can have been woken:
 * if those that were woken first slept again before the last one was awake, all would sleep in each
 * barrier. */
#define WAKE_NS (20 * AMPH_NS_PER_US)

/* How long an adaptive wait yields before it sleeps: longer than a transfer of 1 MiB takes. */
#define YIELD_NS (500 * AMPH_NS_PER_US)

enum {
    ROUNDS_BETWEEN_CLOCKS = 64,
    ROUNDS_BETWEEN_TICKS = 4096,
    OVERSUBSCRIBED_YIELDS = 64,
    SOON_YIELDS = 1024,
    FEW_PROCS = 16, /* of a core; with more, waits yield less often, for as long */
    ROOM_SPINS = 64,
    ROOM_YIELDS = 512
};

enum {
    FAILED_SPINS_MAX = 4,
    STORE_WAITS = 64, /* after one that ended by a store */
    FEW_YIELDS = 2,
    WAITS_BETWEEN_SPINS =
        512, /* counted on both sides, so that less than one wait in a hundred spins in vain */
    SLEEPING_WAITS_MIN = 64,
    SLEEPING_WAITS_MAX = 4096
};

/* A yield that takes longer than this has let another process compute. */
#define LONG_YIELD_NS (100 * AMPH_NS_PER_US)

/* A yield that takes longer than this has given the core away for a scheduler time slice:
 * processes that do not wait for messages compete for it.  Each other process of the job on the same
 * core may have something to do before it yields, too. */
#define TIME_SLICE_NS (500 * AMPH_NS_PER_US)
#define TURN_NS (50 * AMPH_NS_PER_US)

/* ---- the policy of the process ---- */

void amph_am_set_wait_mode(enum amph_wait_mode mode)
{
    __atomic_store_n(&amph_job.wait_mode, (uint8_t)mode, __ATOMIC_RELAXED);
    amph_job.wait_mode_set = true;
}

void amph_ep_wait_setup(void)
{
    if (!amph_job.wait_mode_set)
        amph_am_set_wait_mode((enum amph_wait_mode)amph_env_enum(AMPH_ENV_WAIT));
}

static enum amph_wait_mode wait_mode(void)
{
    return (enum amph_wait_mode)__atomic_load_n(&amph_job.wait_mode, __ATOMIC_RELAXED);
}

/* Counts the cores of the job on this host.  A process that its launcher bound to one core sees only
 * that one, but the launcher, its parent, sees all. */
unsigned amph_am_cores(void)
{
    cpu_set_t own, parent;
    int n = 1;
    int m;

    if (sched_getaffinity(0, sizeof own, &own) == 0)
        n = CPU_COUNT(&own);

    if (sched_getaffinity(getppid(), sizeof parent, &parent) == 0 && (m = CPU_COUNT(&parent)) > n)
        n = m;

    return (unsigned)n;
}

void amph_am_set_oversubscribed(unsigned procs_on_host)
{
    const unsigned cores = amph_am_cores();
    const unsigned a_core = procs_on_host / cores;
    const unsigned factor = a_core / PROCS_ASLEEP;

    amph_job.oversubscribed = procs_on_host > cores;
    amph_job.procs_a_core = (uint16_t)(a_core < UINT16_MAX ? a_core : UINT16_MAX);
    amph_job.sleep_factor = (uint8_t)(factor < SLEEP_FACTOR_MAX ? factor : SLEEP_FACTOR_MAX);
}

/* ---- waking ---- */

static void futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* Wakes all sleepers.  Makes only async-signal-safe calls. */
static void wake(struct amph_am_ep *ep)
{
    int saved = errno;
    const uint64_t one = 1;

    __atomic_add_fetch(&ep->happened, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ep->sleepers, __ATOMIC_SEQ_CST)) {
        while (write(ep->kick_fd, &one, sizeof one) < 0 && errno == EINTR)
            ;

        futex(&ep->happened, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
    }

    errno = saved;
}

void amph_am_kick(struct amph_am_ep *ep)
{
    wake(ep);
}

int amph_am_kick_fd(const struct amph_am_ep *ep)
{
    return ep->kick_fd;
}

void amph_ep_announce(struct amph_am_ep *ep)
{
    wake(ep);
}

enum amph_status amph_am_watch_fd(struct amph_am_ep *ep, int fd)
{
    enum amph_status st = AMPH_ERR_NOMEM;

    amph_ep_lock(ep);
    if (ep->nwatch < AMPH_AM_WATCH_MAX) {
        ep->watch[ep->nwatch++] = fd;
        st = AMPH_OK;
    }

    amph_ep_unlock(ep);
    wake(ep); /* sleepers read the new list */
    return st;
}

void amph_am_unwatch_fd(struct amph_am_ep *ep, int fd)
{
    amph_ep_lock(ep);
    for (unsigned i = 0; i < ep->nwatch; i++)
        if (ep->watch[i] == fd)
            ep->watch[i--] = ep->watch[--ep->nwatch];

    amph_ep_unlock(ep);
    wake(ep);
}

/* ---- sleeping ---- */

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / AMPH_NS_PER_S),
                              .tv_nsec = (long)(ns % AMPH_NS_PER_S) };
}

static void disarm(struct amph_am_ep *ep)
{
    for (unsigned i = 0; ep->armed && i < ep->nactive; i++)
        if (ep->active[i].cx->caps.fd_blocks)
            ep->active[i].cx->ops->arm(ep->active[i].cx, AMPH_ARM_OFF, 0);

    ep->armed = false;
}

/* Arms the conduits and lists their descriptors.  Returns false if there is work.  *naps_p: some
 * conduit cannot wake us.  Poll lock held. */
static bool arm(struct amph_am_ep *ep, struct pollfd *fds, nfds_t *nfds_p, bool *naps_p)
{
    disarm(ep);
    for (unsigned i = 0; i < ep->nactive; i++) {
        struct amph_cx *cx = ep->active[i].cx;

        if (!cx->caps.fd_blocks) {
            *naps_p = true;
            continue;
        }

        ep->armed = true;
        if (cx->ops->arm(cx, AMPH_ARM_FD, 0) != AMPH_OK)
            return false;

        fds[(*nfds_p)++] = (struct pollfd){ .fd = cx->ops->wait_fd(cx), .events = POLLIN };
    }

    return true;
}

static uint64_t nap_length(struct amph_waiter *w)
{
    bool late = w->start_ns && amph_now_ns() - w->start_ns > AMPH_NS_PER_S;
    uint64_t max_ns = late ? NAP_LATE_NS : NAP_MAX_NS;

    if (w->nap_ns < NAP_MIN_NS)
        w->nap_ns = NAP_MIN_NS;
    else if (w->nap_ns * 2 > max_ns)
        w->nap_ns = max_ns;
    else
        w->nap_ns *= 2;

    return w->nap_ns;
}

/* Waking up costs 0.1 ms on some machines, so a wait that has lasted a second sleeps longer.  Where waits end by
 * stores, one looks again after half the time that it has lasted, and so ends at most that much late; until its sleeps
 * are as long as the others' it wakes up a dozen times more. */
static uint64_t sleep_length(const struct amph_waiter *w)
{
    const uint64_t waited_ns = w->start_ns ? amph_now_ns() - w->start_ns : 0;
    const uint64_t factor = amph_job.sleep_factor ? amph_job.sleep_factor : 1;
    const uint64_t most_ns = (waited_ns > AMPH_NS_PER_S ? SLEEP_LATE_NS : SLEEP_NS) * factor;

    if (!w->unannounced || !__atomic_load_n(&amph_job.store_waits, __ATOMIC_RELAXED))
        return most_ns;

    const uint64_t least_ns = SLEEP_UNANNOUNCED_NS * (1u + amph_job.procs_a_core);
    const uint64_t part_ns = waited_ns / 2 > least_ns ? waited_ns / 2 : least_ns;

    return part_ns < most_ns ? part_ns : most_ns;
}

/*
 * Sleeps on the descriptors of the conduits, the kick and the watched ones.  This thread has set
 * `sleeping`.
 *
 * Nobody reports that there is room for a deferred reply again, so while there are any it naps.  Requests
 * that have arrived are no reason to stay awake then, because they are not handled before.
 */
static void sleep_on_fds(struct amph_am_ep *ep, struct amph_waiter *w)
{
    struct pollfd fds[AMPH_NCX + 1 + AMPH_AM_WATCH_MAX];
    nfds_t n = 0;
    bool naps = false;
    uint64_t drain;

    if (!amph_ep_enter(ep)) {
        sched_yield(); /* another thread is polling */
        return;
    }

    bool idle = arm(ep, fds, &n, &naps);
    bool defers = ep->deferred != NULL;

    if (!idle)
        disarm(ep);

    amph_ep_leave(ep);
    if (!idle && !defers)
        return;

    if (!idle)
        n = 0;

    nfds_t kick = n++;

    fds[kick] = (struct pollfd){ .fd = ep->kick_fd, .events = POLLIN };
    amph_ep_lock(ep);
    for (unsigned i = 0; i < ep->nwatch; i++)
        fds[n++] = (struct pollfd){ .fd = ep->watch[i], .events = POLLIN };

    amph_ep_unlock(ep);

    struct timespec timeout = to_timespec(naps || defers ? nap_length(w) : sleep_length(w));

    if (__atomic_load_n(&ep->happened, __ATOMIC_SEQ_CST) == w->seen &&
        ppoll(fds, n, &timeout, NULL) > 0 && fds[kick].revents)
        while (read(ep->kick_fd, &drain, sizeof drain) < 0 && errno == EINTR)
            ;

    /* If another thread is polling, the conduits stay armed until the next sleeper disarms them. */
    if (amph_ep_enter(ep)) {
        disarm(ep);
        amph_ep_leave(ep);
    }
}

/* Returns the only conduit if it can sleep by itself and nothing else can wake us, else NULL. */
static struct amph_cx *sole_sleeper(const struct amph_am_ep *ep)
{
    bool sole = !ep->threaded && ep->nactive == 1 && ep->nwatch == 0 &&
                ep->active[0].cx->caps.can_sleep;
    return sole ? ep->active[0].cx : NULL;
}

/* The same on the only conduit. */
static void sleep_in(const struct amph_am_ep *ep, struct amph_cx *cx, struct amph_waiter *w)
{
    bool defers = ep->deferred != NULL;
    uint64_t most_ns = defers ? nap_length(w) : sleep_length(w);
    struct timespec nap = to_timespec(most_ns);

    if (cx->ops->arm(cx, AMPH_ARM_SLEEP, most_ns) == AMPH_AGAIN && defers)
        nanosleep(&nap, NULL);
}

/* This thread, which has slept on the descriptors, may leave without a poll, because another has made its condition
 * true.  So it polls here, if others sleep; if there was nothing, whose handling would have woken them, it wakes one,
 * which sleeps on the descriptors next. */
static void hand_over(struct amph_am_ep *ep, struct amph_waiter *w)
{
    if (__atomic_load_n(&ep->sleepers, __ATOMIC_SEQ_CST) == 1)
        return;

    if (amph_ep_poll_once(ep)) {
        amph_am_wait_found(w);
        return;
    }

    __atomic_add_fetch(&ep->happened, 1, __ATOMIC_SEQ_CST);
    futex(&ep->happened, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* After a sleep in which no message was handled: a store may end the wait. */
static void note_slept(const struct amph_am_ep *ep, const struct amph_waiter *w)
{
    if (w->unannounced && __atomic_load_n(&ep->happened, __ATOMIC_RELAXED) == w->seen)
        __atomic_store_n(&amph_job.slept, true, __ATOMIC_RELAXED);
}

static void do_sleep(struct amph_am_ep *ep, struct amph_waiter *w)
{
    struct amph_cx *cx = sole_sleeper(ep);
    struct timespec timeout = to_timespec(sleep_length(w));

    amph_count(BLOCKED);
    __atomic_add_fetch(&ep->sleepers, 1, __ATOMIC_SEQ_CST);

    if (__atomic_load_n(&ep->happened, __ATOMIC_SEQ_CST) != w->seen) {
        /* the condition may have come true since it was checked */
    } else if (cx) {
        sleep_in(ep, cx, w);
        note_slept(ep, w);
    } else if (__atomic_exchange_n(&ep->sleeping, true, __ATOMIC_SEQ_CST)) {
        futex(&ep->happened, FUTEX_WAIT_PRIVATE, w->seen, &timeout);
        note_slept(ep, w);
    } else {
        sleep_on_fds(ep, w);
        __atomic_store_n(&ep->sleeping, false, __ATOMIC_SEQ_CST);
        note_slept(ep, w);
        hand_over(ep, w);
    }

    __atomic_sub_fetch(&ep->sleepers, 1, __ATOMIC_SEQ_CST);
    amph_ep_tick(ep);
}

/* ---- waiting ---- */

/*
 * The first step of a wait whose condition may come true by a store.  If the one before it slept last and then handled
 * no message, a store has ended it, and the next ones expect this, too.  They alone have short sleeps: an early timer
 * costs 20 us on some machines, even if a message ends the sleep.
 */
static void begin_unannounced(void)
{
    const uint8_t waits = __atomic_load_n(&amph_job.store_waits, __ATOMIC_RELAXED);

    if (__atomic_load_n(&amph_job.slept, __ATOMIC_RELAXED)) {
        __atomic_store_n(&amph_job.slept, false, __ATOMIC_RELAXED);
        __atomic_store_n(&amph_job.store_waits, STORE_WAITS, __ATOMIC_RELAXED);
    } else if (waits) {
        __atomic_store_n(&amph_job.store_waits, waits - 1, __ATOMIC_RELAXED);
    }
}

/*
 * Spinning holds a core that the awaited process may need: other processes compute on the remaining
 * cores, or the number of processes is not known (clients of standing servers).  Such a wait ends
 * with its first yields.  After FAILED_SPINS_MAX of these in a row, waits start by yielding.  Every
 * 512th wait still spins, to detect a change; if its spin succeeds, all waits spin again.  If a first
 * yield took long, the awaited process may have a core of its own by now, so the next wait spins.
 */
static bool spin_is_useless(void)
{
    if (__atomic_load_n(&amph_job.failed_spins, __ATOMIC_RELAXED) < FAILED_SPINS_MAX)
        return false;

    unsigned skipped_spins = __atomic_load_n(&amph_job.skipped_spins, __ATOMIC_RELAXED) + 1u;

    skipped_spins %= WAITS_BETWEEN_SPINS;
    __atomic_store_n(&amph_job.skipped_spins, (uint16_t)skipped_spins, __ATOMIC_RELAXED);
    return skipped_spins != 0;
}

static void update_spin_policy(const struct amph_waiter *w)
{
    uint8_t vain = __atomic_load_n(&amph_job.failed_spins, __ATOMIC_RELAXED);

    if (w->phase == AMPH_WAITER_SPINS) {
        if (vain)
            __atomic_store_n(&amph_job.failed_spins, 0, __ATOMIC_RELAXED);
    } else if (w->phase == AMPH_WAITER_YIELDS && w->spun && w->yields <= FEW_YIELDS &&
               vain < FAILED_SPINS_MAX) {
        __atomic_store_n(&amph_job.failed_spins, vain + 1, __ATOMIC_RELAXED);
    }
}

/*
 * Should this wait sleep without yielding?  If other processes compute on this core, a yield
 * returns only after a time slice of each of them, so a wait that continues to yield notices its
 * message many slices late.  A sleeper, which has used no time, runs as soon as it is woken.  So
 * the first such yield ends the yields of this wait, and the next waits sleep at once; then one
 * tries to yield again.  Each attempt may cost a time slice, so the interval between attempts
 * doubles while yields stay long.
 */
static bool yields_are_long(void)
{
    uint16_t left = __atomic_load_n(&amph_job.waits_without_yields, __ATOMIC_RELAXED);

    if (left)
        __atomic_store_n(&amph_job.waits_without_yields, left - 1, __ATOMIC_RELAXED);

    return left != 0;
}

static void note_slow_yield(void)
{
    uint16_t waits = __atomic_load_n(&amph_job.slow_yield_waits, __ATOMIC_RELAXED);

    waits = waits < SLEEPING_WAITS_MIN ? SLEEPING_WAITS_MIN : waits;
    __atomic_store_n(&amph_job.waits_without_yields, waits, __ATOMIC_RELAXED);
    waits = waits < SLEEPING_WAITS_MAX ? waits * 2 : waits;
    __atomic_store_n(&amph_job.slow_yield_waits, waits, __ATOMIC_RELAXED);
}

/* Records a wait that ended while yielding, without a long yield. */
static void note_quiet(void)
{
    if (__atomic_load_n(&amph_job.slow_yield_waits, __ATOMIC_RELAXED))
        __atomic_store_n(&amph_job.slow_yield_waits, 0, __ATOMIC_RELAXED);
}

static uint64_t time_slice_ns(void)
{
    return TIME_SLICE_NS + amph_job.procs_a_core * TURN_NS;
}

/* Yields once, and reads the clock: a yield may take a time slice.  Returns true if it did. */
static bool yield_timed(struct amph_waiter *w)
{
    uint64_t before_ns = w->now_ns;

    w->yields++;
    sched_yield();
    w->now_ns = amph_now_ns();
    if (w->now_ns - before_ns <= time_slice_ns())
        return false;

    note_slow_yield();
    return true;
}

static void begin_wait(struct amph_waiter *w)
{
    w->start_ns = w->now_ns = amph_now_ns();
    w->yields = 0;
}

static void yield(struct amph_waiter *w, uint64_t yield_until_ns)
{
    if (w->yields == 0 && yields_are_long()) {
        w->phase = AMPH_WAITER_SLEEPS;
        return;
    }

    bool slow = yield_timed(w);

    if (w->yields == 1 && !w->spun && w->now_ns - w->start_ns > LONG_YIELD_NS)
        __atomic_store_n(&amph_job.skipped_spins, WAITS_BETWEEN_SPINS - 1, __ATOMIC_RELAXED);

    if (slow || w->now_ns >= yield_until_ns)
        w->phase = AMPH_WAITER_SLEEPS;
}

/* While it spins, the clock is read once in many rounds. */
static void spin_or_yield(struct amph_waiter *w)
{
    uint64_t spin_ns = amph_env_ns(AMPH_ENV_SPIN);

    if (w->rounds == 1) {
        begin_wait(w);
        w->spun = spin_ns && !w->yields_early && !spin_is_useless();
        if (!w->spun)
            w->phase = AMPH_WAITER_YIELDS;
    } else if (w->phase == AMPH_WAITER_SPINS && w->rounds % ROUNDS_BETWEEN_CLOCKS == 1) {
        w->now_ns = amph_now_ns();
        if (w->now_ns - w->start_ns >= spin_ns)
            w->phase = AMPH_WAITER_YIELDS;
    }

    if (w->phase == AMPH_WAITER_SPINS)
        amph_cpu_relax();
    else
        yield(w, w->start_ns + spin_ns + YIELD_NS);
}

/* Where processes outnumber cores: has a wait yielded often and long enough to sleep? */
static bool has_yielded_enough(const struct amph_waiter *w)
{
    const uint32_t a_core = amph_job.procs_a_core;
    const uint32_t yields = w->soon ? SOON_YIELDS : OVERSUBSCRIBED_YIELDS;
    const uint32_t min_rounds = a_core > FEW_PROCS ? yields * FEW_PROCS / a_core : yields;

    return w->rounds >= min_rounds && w->now_ns - w->start_ns >= a_core * WAKE_NS;
}

static void yield_oversubscribed(struct amph_waiter *w)
{
    if (w->rounds == 1)
        begin_wait(w);

    if (has_yielded_enough(w) || (w->rounds == 1 && yields_are_long()) || yield_timed(w)) {
        w->phase = AMPH_WAITER_SLEEPS;
        w->start_ns = w->now_ns;
    }
}

static void pause_round(struct amph_am_ep *ep, struct amph_waiter *w, enum amph_wait_mode mode)
{
    if (mode == AMPH_WAIT_SPIN) {
        amph_cpu_relax();
        if (w->rounds % ROUNDS_BETWEEN_TICKS == 0)
            amph_ep_tick(ep);
    } else if (w->phase == AMPH_WAITER_SLEEPS) {
        do_sleep(ep, w);
    } else if (mode == AMPH_WAIT_BLOCK) {
        w->phase = AMPH_WAITER_SLEEPS;
        w->start_ns = amph_now_ns();
    } else if (amph_am_oversubscribed()) {
        yield_oversubscribed(w);
    } else {
        spin_or_yield(w);
    }
}

void amph_am_wait_found(struct amph_waiter *w)
{
    if (w->rounds) {
        update_spin_policy(w);
        if (w->phase != AMPH_WAITER_SLEEPS && w->yields)
            note_quiet();
    }

    if (w->unannounced)
        __atomic_store_n(&amph_job.slept, false, __ATOMIC_RELAXED);

    w->rounds = 0;
    w->phase = AMPH_WAITER_SPINS;
    w->nap_ns = 0;
}

bool amph_am_may_spin(void)
{
    enum amph_wait_mode mode = wait_mode();

    if (amph_am_oversubscribed() || mode == AMPH_WAIT_BLOCK)
        return false;

    return mode == AMPH_WAIT_SPIN || !spin_is_useless();
}

void amph_am_wait_after_spin(struct amph_waiter *w, bool spun)
{
    if (wait_mode() != AMPH_WAIT_ADAPTIVE || amph_am_oversubscribed())
        return;

    begin_wait(w);
    w->rounds = 1;
    w->spun = spun;
    w->phase = AMPH_WAITER_YIELDS;
}

void amph_am_wait_step(struct amph_am_ep *ep, struct amph_waiter *w)
{
    if (w->unannounced && w->rounds == 0 && w->start_ns == 0)
        begin_unannounced();

    if (amph_ep_poll_once(ep)) {
        amph_am_wait_found(w);
    } else if (!amph_ep_in_handler(ep)) {
        w->rounds++;
        pause_round(ep, w, wait_mode());
    }

    w->seen = __atomic_load_n(&ep->happened, __ATOMIC_SEQ_CST);
}

void amph_ep_room_wait(struct amph_am_ep *ep, unsigned *rounds)
{
    if (amph_ep_poll_once(ep))
        return;

    unsigned round = ++*rounds;

    if (round < ROOM_SPINS && !amph_am_oversubscribed()) {
        amph_cpu_relax();
    } else if (round < ROOM_SPINS + ROOM_YIELDS) {
        uint64_t before_ns = amph_now_ns();

        sched_yield();
        if (amph_now_ns() - before_ns > time_slice_ns())
            *rounds = ROOM_SPINS + ROOM_YIELDS;
    } else {
        const struct timespec nap = { 0, (long)(50 * AMPH_NS_PER_US) };

        nanosleep(&nap, NULL);
        amph_ep_tick(ep);
    }
}

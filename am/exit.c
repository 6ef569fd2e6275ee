/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exit of a process of the job.
 * Layer: am.  Thread rule: any thread and handlers; the first thread that exits continues, the
 * others are blocked until the process ends.
 *
 * amph_job_exit ends the whole job.  Returning from main (or exit) ends only this process: a
 * destructor, which runs after all others, leaves the job in order.  _exit bypasses it and
 * counts as death.
 *
 * Before the process ends, messages that its conduits still hold must be sent.  So exiting members
 * continue to poll until all members are exiting (member 0 gathers this and informs all), or until
 * GASNET_EXITTIMEOUT has passed.  A member that returns an exit code other than 0 ends the job by its
 * end, so it waits for a moment only: as long as members that return together need for each other.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "am/check.h"
#include "am/ep.h"
#include "am/job.h"
#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "boot/boot.h"
#include "conduits/conduit.h"

#define FINAL_POLL_NS \
    (2 * \
     AMPH_NS_PER_MS) /* polling after all have met, so that the message which says so leaves too */
#define ACK_WAIT_NS \
    (250 * AMPH_NS_PER_MS) /* maximum wait for all answers: a network may have to retransmit */

#define FAILED_WAIT_NS \
    (250 * \
     AMPH_NS_PER_MS) /* maximum wait for the other members if an exit code has failed the job */

/* For the launcher, or this process, to say why a member was lost. */
#define CAUSE_WAIT_NS (AMPH_JOB_LOSS_NS + AMPH_NS_PER_S / 2)

enum {
    CAUSE_LOOK_MS = 10 /* interval of checks for what another thread has received */
};

static void watchdog(int signo)
{
    _exit(amph_job.exit_code);
}

/* Ends the process after limit_ns even if it hangs (a stream whose lock is held, a full pipe). */
static void start_watchdog(uint64_t limit_ns)
{
    struct sigaction sa = { .sa_handler = watchdog };
    struct itimerval when = { .it_value = { (time_t)(limit_ns / AMPH_NS_PER_S), 1000 } };
    sigset_t set;

    sigaction(SIGALRM, &sa, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &when, NULL);
}

static void send_notice(uint32_t member, int handler)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = (uint8_t)handler };

    /* an error means that the member has ended already */
    amph_am_request(amph_job.ep, member, &am, 0, NULL);
}

void amph_am_exiting_handler(struct amph_token *token, const struct amph_am *am)
{
    __atomic_add_fetch(&amph_job.exits_seen, 1, __ATOMIC_RELEASE);
}

void amph_am_all_exit_handler(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am heard = { .kind = AMPH_AM_SHORT, .handler = AMPH_AM_EXITING };

    __atomic_store_n(&amph_job.exits_seen, 1, __ATOMIC_RELEASE);
    amph_am_reply(token, &heard, 0, NULL);
}

/* Polls until exits_seen has reached `wanted`, a member has died or end_ns has passed. */
static void poll_until(unsigned wanted, uint64_t end_ns)
{
    struct amph_waiter w = AMPH_WAITER_INIT;

    while (__atomic_load_n(&amph_job.exits_seen, __ATOMIC_ACQUIRE) < wanted &&
           !amph_job.member_died && amph_now_ns() < end_ns)
        amph_am_wait_step(amph_job.ep, &w);
}

/* Waits for the other members to exit.  Returns true if all have met. */
static bool wait_for_exits(uint64_t limit_ns)
{
    struct amph_am_ep *ep = amph_job.ep;

    if (amph_job.size < 2)
        return true;
    if (!ep || amph_ep_in_handler(ep) || amph_job.member_died)
        return false;

    uint64_t end_ns = amph_now_ns() + limit_ns;
    unsigned awaited = amph_job.rank == 0 ? amph_job.size - 1 : 1;
    bool met;

    if (amph_job.rank == 0) {
        poll_until(awaited, end_ns);
        met = __atomic_load_n(&amph_job.exits_seen, __ATOMIC_ACQUIRE) >= awaited;
        for (uint32_t i = 1; i < amph_job.size && amph_now_ns() < end_ns; i++)
            send_notice(i, AMPH_AM_ALL_EXIT);

        /* those who have not come were sent nothing, and answer nothing */
        if (met)
            poll_until(2 * awaited, amph_now_ns() + ACK_WAIT_NS);
    } else {
        send_notice(0, AMPH_AM_EXITING);
        poll_until(awaited, end_ns);
        met = __atomic_load_n(&amph_job.exits_seen, __ATOMIC_ACQUIRE) >= awaited;
    }

    for (end_ns = amph_now_ns() + FINAL_POLL_NS; amph_now_ns() < end_ns;)
        amph_ep_poll_once(ep);

    return met;
}

/* A network may hold messages of this process; other conduits have delivered them. */
static bool network_is_used(void)
{
    struct amph_am_ep *ep = amph_job.ep;
    bool network = false;

    for (unsigned i = 0; ep && i < ep->nactive; i++)
        network |= ep->active[i].cx == ep->cx[AMPH_CX_NET];

    return network;
}

static void exit_barrier(uint64_t limit_ns)
{
    if (network_is_used())
        wait_for_exits(limit_ns);
}

static bool own_launcher(void)
{
    return strcmp(amph_boot_kind(amph_job.boot), "launcher") == 0;
}

/* Leaves after a return with an exit code other than 0, which ends the job.  Our own launcher does so
 * at the end of the process, so compute processes meet first, even where no message waits to be sent:
 * a member that is still in a barrier would find another one dead.  Other launchers do nothing after a
 * process has left in order, so there a compute process aborts the job unless all leave together. */
static void leave_failed(void)
{
    uint64_t limit_ns = amph_env_exit_timeout_ns(amph_job.size);
    bool aborts = false;

    if (limit_ns > FAILED_WAIT_NS)
        limit_ns = FAILED_WAIT_NS;

    if (amph_boot_group(amph_job.boot) == AMPH_COMPUTE)
        aborts = !wait_for_exits(limit_ns) && !own_launcher();
    else
        exit_barrier(limit_ns);

    amph_boot_leave(amph_job.boot, aborts, amph_job.exit_code);
}

static void final_actions(void)
{
    if (amph_env_bool(AMPH_ENV_FS_SYNC))
        sync();

    if (amph_env_bool(AMPH_ENV_STATS))
        amph_counters_print(stderr);
}

/* Returns for the first thread only and blocks the others.  A second call by that thread ends
 * the process at once. */
static void claim_exit(int code)
{
    struct amph_context *self = amph_am_context_self();

    if (!__atomic_exchange_n(&amph_job.exiting, true, __ATOMIC_ACQ_REL)) {
        self->exiting = true;
        amph_job.exit_code = code;
        return;
    }

    if (self->exiting)
        _exit(amph_job.exit_code);

    for (;;)
        pause();
}

void amph_job_exit(int code)
{
    bool ours = amph_job.joined && amph_job.pid == (int32_t)getpid();
    uint64_t limit_ns = amph_env_exit_timeout_ns(amph_job.size);

    claim_exit(code);
    start_watchdog(limit_ns + AMPH_NS_PER_S);
    fflush(NULL);

    if (ours) {
        /* Our own launcher informs the others at once.  With another launcher, leaving waits for
         * them in its last fence. */
        bool first = code != 0 || own_launcher();

        if (first)
            amph_boot_leave(amph_job.boot, !amph_job.shutdown_requested, code);

        exit_barrier(limit_ns);
        if (!first)
            amph_boot_leave(amph_job.boot, !amph_job.shutdown_requested, code);

        final_actions();
        fflush(NULL);
    }

    _exit(code);
}

static void record_status(int status, void *unused)
{
    amph_job.exit_code = status;
}

/* Runs after all other destructors, which have flushed forwarded files; fflush flushes the rest. */
__attribute__((destructor(101))) static void leave_at_return(void)
{
    if (!amph_job.joined || amph_job.exiting || amph_job.pid != (int32_t)getpid())
        return;

    amph_job.exiting = true;
    fflush(NULL);
    if (amph_job.exit_code == 0) {
        exit_barrier(amph_env_exit_timeout_ns(amph_job.size));
        amph_boot_leave(amph_job.boot, false, 0);
    } else {
        leave_failed();
    }

    final_actions();
}

static void on_fatal(int code)
{
    if (amph_job.joined && amph_job.pid == (int32_t)getpid())
        amph_boot_abort(amph_job.boot, code);
}

const char *amph_job_failure_text(enum amph_status st)
{
    if (st == AMPH_ERR_PEER)
        __atomic_store_n(&amph_job.member_lost, true, __ATOMIC_RELAXED);

    return amph_status_text(st);
}

/* A compute process that cannot reach another one any more fails as well, in whatever it does next.
 * The launcher knows why and ends the job; so this waits for its decision, and says nothing if the
 * launcher does.  If it reports nothing, a tick says that messages were lost.  Any error after such a
 * loss waits, because a wait costs little then. */
static void await_cause(void)
{
    const uint64_t end_ns = amph_now_ns() + CAUSE_WAIT_NS;

    if (!amph_job.joined || amph_job.pid != (int32_t)getpid() || !amph_job.ep ||
        !__atomic_load_n(&amph_job.member_lost, __ATOMIC_RELAXED) ||
        amph_boot_group(amph_job.boot) != AMPH_COMPUTE ||
        __atomic_exchange_n(&amph_job.cause_awaited, true, __ATOMIC_RELAXED))
        return;

    for (uint64_t now = amph_now_ns(); now < end_ns; now = amph_now_ns()) {
        struct pollfd p = { .fd = amph_boot_fd(amph_job.boot), .events = POLLIN };

        amph_ep_tick(amph_job.ep);
        if (amph_job.member_died || amph_job.shutdown_requested)
            _exit(1);

        poll(&p, 1, CAUSE_LOOK_MS);
    }
}

void amph_am_exit_setup(void)
{
    amph_fatal_hooks.await_cause = await_cause;
    amph_job.pid = (int32_t)getpid();
    amph_fatal_hooks.end_job = on_fatal;
    on_exit(record_status, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/client/recovery/shared_offset.c: an answered call and the process that reopens its
 * file agree on whether the call counts, wherever the caller is stopped. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "iofwd/client/recovery/record.h"
#include "iofwd/client/state.h"

_Thread_local struct amph_client_thread amph_client_thread;

enum {
    CALL_BYTES = 10,
    RACES = 24,
    STEP_NS = 50000,
    LEAD_NS = RACES / 2 * STEP_NS
};

static struct amph_client_shared *make_shared(size_t n)
{
    struct amph_client_shared *s = mmap(NULL, n * sizeof *s, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(s, MAP_FAILED);
    return s;
}

/* Records an answered call and ends it. */
static void record(struct amph_client_inflight *flight, struct amph_client_shared *s)
{
    atomic_fetch_add(&s->pos, CALL_BYTES);
    amph_client_inflight_end(flight);
}

/* A process with a call that is answered.  It is stopped before or after it commits, and goes on when it
 * is continued.  Its exit code says whether the call succeeds. */
static pid_t start_caller(struct amph_client_shared *s, bool commits_first)
{
    struct amph_client_inflight flight = { .shared = NULL };
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        amph_client_inflight_begin(&flight, s);
        amph_client_thread.offset_moves.calls = amph_client_thread.offset_moves.moves = 1;
        if (commits_first && !amph_client_inflight_commit(&flight))
            _exit(2);

        raise(SIGSTOP);

        bool succeeds = amph_client_inflight_commit(&flight);

        if (succeeds)
            record(&flight, s);
        else
            amph_client_inflight_end(&flight);

        _exit(succeeds);
    }

    cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
    cr_assert(WIFSTOPPED(status));
    return pid;
}

static int continue_caller(pid_t pid)
{
    int status;

    cr_assert_eq(kill(pid, SIGCONT), 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The file is reopened at the recorded offset, so the call must not succeed later. */
Test(inflight, stopped_before_commit)
{
    struct amph_client_shared *s = make_shared(1);
    pid_t caller = start_caller(s, false);

    cr_assert(amph_client_inflight_wait(s));
    cr_assert_eq(continue_caller(caller), 0);
    cr_assert_eq(atomic_load(&s->pos), 0);
    cr_assert_eq(atomic_load(&s->seat[0].answered), 0);
    cr_assert(amph_client_inflight_wait(s));
}

/* The call succeeds later, so the file must not be reopened at the offset before it. */
Test(inflight, stopped_after_commit)
{
    struct amph_client_shared *s = make_shared(1);
    pid_t caller = start_caller(s, true);

    cr_assert_not(amph_client_inflight_wait(s));
    cr_assert_eq(continue_caller(caller), 1);
    cr_assert_eq(atomic_load(&s->pos), CALL_BYTES);
    cr_assert_eq(atomic_load(&s->seat[0].answered), 1);
    cr_assert(amph_client_inflight_wait(s));
    cr_assert_eq(atomic_load(&s->flights), 0);
}

/* A call that was abandoned is made again, in the next round. */
Test(inflight, repeated_after_abandonment)
{
    struct amph_client_shared *s = make_shared(1);
    struct amph_client_inflight flight = { .shared = NULL };

    amph_client_inflight_begin(&flight, s);
    cr_assert(amph_client_inflight_wait(s));
    cr_assert(amph_client_inflight_is_abandoned(&flight));
    cr_assert_not(amph_client_inflight_commit(&flight));
    amph_client_inflight_strand(&flight);
    amph_client_inflight_begin(&flight, s);
    cr_assert(amph_client_inflight_commit(&flight));
    cr_assert(amph_client_inflight_commit(&flight));
    record(&flight, s);
    cr_assert(amph_client_inflight_wait(s));
}

/* A server that died without a reply, and one that answered the repetition: nobody waits for them. */
Test(inflight, stranded)
{
    struct amph_client_shared *s = make_shared(1);
    struct amph_client_inflight flight = { .shared = NULL };
    struct amph_client_inflight failed = { .shared = NULL };
    uint64_t begin_ns = amph_now_ns();

    amph_client_inflight_begin(&flight, s);
    amph_client_inflight_begin(&failed, s);
    amph_client_inflight_strand(&flight);
    amph_client_inflight_strand(&failed);
    cr_assert(amph_client_inflight_wait(s));
    amph_client_inflight_begin(&flight, s);
    cr_assert(amph_client_inflight_commit(&flight));
    record(&flight, s);
    amph_client_inflight_end(&failed);
    cr_assert_eq(atomic_load(&s->flights), 0);
    cr_assert_lt(amph_now_ns() - begin_ns, AMPH_NS_PER_S);
}

/* ---- the caller commits when the mover's patience ends, and loses the processor before it records ---- */

struct race {
    struct amph_client_shared *shared;
    pthread_barrier_t begun;
    uint64_t late_ns; /* from LEAD_NS before the end of the second that the mover waits */
    bool succeeds;
    int64_t seen; /* the offset at which the mover reopens the file */
};

static void *call_late(void *arg)
{
    const struct timespec preempted = { .tv_nsec = 20 * AMPH_NS_PER_MS };
    struct race *r = arg;
    struct amph_client_inflight flight = { .shared = NULL };

    amph_client_inflight_begin(&flight, r->shared);
    pthread_barrier_wait(&r->begun);

    uint64_t at_ns = amph_now_ns() + AMPH_NS_PER_S + r->late_ns - LEAD_NS;
    struct timespec at = { (time_t)(at_ns / AMPH_NS_PER_S), (long)(at_ns % AMPH_NS_PER_S) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;

    r->succeeds = amph_client_inflight_commit(&flight);
    nanosleep(&preempted, NULL);
    if (r->succeeds)
        record(&flight, r->shared);
    else
        amph_client_inflight_end(&flight);

    return NULL;
}

static void *move(void *arg)
{
    struct race *r = arg;

    pthread_barrier_wait(&r->begun);
    r->seen = amph_client_inflight_wait(r->shared) ? atomic_load(&r->shared->pos) : -1;
    return NULL;
}

/* Only a file that counts as lost has another offset than the calls that succeeded. */
Test(inflight, one_of_both_wins)
{
    static struct race race[RACES];
    pthread_t threads[RACES][2];
    struct amph_client_shared *s = make_shared(RACES);

    for (int i = 0; i < RACES; i++) {
        race[i].shared = &s[i];
        race[i].late_ns = (uint64_t)i * STEP_NS;
        pthread_barrier_init(&race[i].begun, NULL, 2);
        pthread_create(&threads[i][0], NULL, call_late, &race[i]);
        pthread_create(&threads[i][1], NULL, move, &race[i]);
    }

    for (int i = 0; i < RACES; i++) {
        pthread_join(threads[i][0], NULL);
        pthread_join(threads[i][1], NULL);
        cr_assert(race[i].seen == -1 || race[i].seen == (race[i].succeeds ? CALL_BYTES : 0));
    }
}

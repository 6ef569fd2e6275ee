/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops of polls that rarely find something, in jobs that may have more processes than cores: each
 * process polls a number of times, sends a message to the next one, and polls until the message of
 * the previous one has come.
 *
 * Layer: tools.
 */
#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnetex.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"
#include "tools/perf/state.h"

static void step(gex_Token_t token)
{
    perf_state.polls.steps++;
}

void perf_polls_register(void *ep)
{
    gex_AM_Entry_t table[] = {
        { 0, (gex_AM_Fn_t)step, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "step" },
    };

    gex_EP_RegisterHandlers((gex_EP_t)ep, table, AMPH_COUNTOF(table));
    perf_state.polls.step = table[0].gex_index;
}

/* count rounds; number: of the first one.  Returns the microseconds of a round. */
typedef double (*rounds)(struct perf_run *run, uint64_t number, uint64_t count, unsigned polls);

static double message_rounds(struct perf_run *run, uint64_t number, uint64_t count, unsigned polls)
{
    gex_TM_t tm = perf_state.am.tm;
    gex_Rank_t next = (run->rank + 1) % run->procs;
    uint64_t start_ns = amph_now_ns();

    for (uint64_t i = 0; i < count; i++) {
        for (unsigned p = 0; p < polls; p++)
            gasnet_AMPoll();

        gex_AM_RequestShort0(tm, next, perf_state.polls.step, 0);

        while (perf_state.polls.steps <= i)
            gasnet_AMPoll();
    }

    perf_state.polls.steps -= count;
    return (double)(amph_now_ns() - start_ns) / (double)count / 1e3;
}

/* The same without Amphora: a word of shared memory for each process; a process whose word has not
 * changed yields its core. */
static double word_rounds(struct perf_run *run, uint64_t number, uint64_t count, unsigned polls)
{
    _Atomic uint64_t *in = &run->shared->own[run->rank].word;
    _Atomic uint64_t *out = &run->shared->own[(run->rank + 1) % run->procs].word;
    uint64_t start_ns = amph_now_ns();

    for (uint64_t i = 0; i < count; i++) {
        for (unsigned p = 0; p < polls; p++)
            (void)atomic_load_explicit(in, memory_order_acquire);

        atomic_fetch_add_explicit(out, 1, memory_order_release);

        while (atomic_load_explicit(in, memory_order_acquire) < number + i + 1)
            sched_yield();
    }

    return (double)(amph_now_ns() - start_ns) / (double)count / 1e3;
}

/* Every process writes its word and waits until all others have written theirs. */
static double all_rounds(struct perf_run *run, uint64_t number, uint64_t count, unsigned polls)
{
    uint64_t start_ns = amph_now_ns();

    for (uint64_t i = 0; i < count; i++) {
        uint64_t round = number + i + 1;

        atomic_store_explicit(&run->shared->own[run->rank].word, round, memory_order_release);
        for (unsigned k = 1; k < run->procs; k++) {
            _Atomic uint64_t *in = &run->shared->own[(run->rank + k) % run->procs].word;

            while (atomic_load_explicit(in, memory_order_acquire) < round)
                sched_yield();
        }
    }

    return (double)(amph_now_ns() - start_ns) / (double)count / 1e3;
}

static double sample(struct perf_run *run, unsigned polls, rounds of)
{
    const unsigned first = 10;
    double us = of(run, 0, first, polls);

    us = of(run, first, perf_agree_rounds(run, us), polls);
    perf_sync(run);

    return us;
}

double perf_poll_1(struct perf_run *run, size_t bytes)
{
    return sample(run, 1, message_rounds);
}

double perf_poll_10(struct perf_run *run, size_t bytes)
{
    return sample(run, 10, message_rounds);
}

double perf_poll_100(struct perf_run *run, size_t bytes)
{
    return sample(run, 100, message_rounds);
}

double perf_poll_1000(struct perf_run *run, size_t bytes)
{
    return sample(run, 1000, message_rounds);
}

/* A sample without Amphora; every process begins with a word of 0. */
static double sample_of_words(struct perf_run *run, rounds of)
{
    run->shared->own[run->rank].word = 0;
    perf_sync(run);

    return sample(run, 1, of);
}

double perf_yield_ring(struct perf_run *run, size_t bytes)
{
    return sample_of_words(run, word_rounds);
}

double perf_yield_all(struct perf_run *run, size_t bytes)
{
    return sample_of_words(run, all_rounds);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/client_pace: which way large calls take, where their rates are those of a
 * machine with other work. */
#include <criterion/criterion.h>
#include <string.h>

#include "iofwd/client/data/tuning.h"

enum {
    NEAR_WAYS = 6,
    CALLS = 700,
    WARM = 64,
    RUNS = 500
};
#define CALL_BYTES ((uint64_t)1 << 20)

static uint64_t state;

/* In [0, 1). */
static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

/* What other work does: each second of calls has a rate of its own, and single calls are put
 * aside. */
struct noise {
    double spread, drift, stalled;
};

static const struct noise calm = { 0.02, 0, 0 };
static const struct noise busy = { 0.2, 0.3, 0.3 };

/* The share that a run reaches of what the best way gives; of the calls after the first WARM. */
static double run(struct amph_client_tuning *pace, const double rate[NEAR_WAYS],
                  const struct noise *noise)
{
    double took = 0;
    double best = 0;
    double drift = 1;

    for (int i = 0; i < NEAR_WAYS; i++)
        best = rate[i] > best ? rate[i] : best;

    for (int call = 0; call < CALLS; call++) {
        struct amph_client_route way;
        unsigned w = amph_client_tuning_choose(pace, true, &way);

        cr_assert_lt(w, NEAR_WAYS);
        if (call % WARM == 0)
            drift = 1 + noise->drift * (2 * draw() - 1);

        double seen = rate[w] * drift * (1 + noise->spread * (2 * draw() - 1));

        seen *= draw() < noise->stalled ? 0.15 + 0.5 * draw() : 1;
        amph_client_tuning_record(pace, w, CALL_BYTES, (uint64_t)((double)CALL_BYTES / seen / 4));
        took += call < WARM ? 0 : 1 / rate[w];
    }

    return (CALLS - WARM) / best / took;
}

/* The least and the mean of many runs. */
static double least_of(const double rate[NEAR_WAYS], const struct noise *noise, double *mean_p)
{
    double least = 1;
    double sum = 0;

    for (int i = 0; i < RUNS; i++) {
        struct amph_client_tuning pace;

        memset(&pace, 0, sizeof pace);
        state = (uint64_t)i * 7919 + 1;

        double share = run(&pace, rate, noise);

        least = share < least ? share : least;
        sum += share;
    }

    *mean_p = sum / RUNS;
    return least;
}

Test(pace, finds_a_better_way)
{
    static const double rate[NEAR_WAYS] = { 0.8, 1, 0.7, 0.75, 0.9, 0.6 };
    double mean;
    double least = least_of(rate, &calm, &mean);

    cr_assert(least > 0.94 && mean > 0.98, "least %.3f, mean %.3f", least, mean);
    least = least_of(rate, &busy, &mean);
    cr_assert(least > 0.7 && mean > 0.92, "busy: least %.3f, mean %.3f", least, mean);
}

Test(pace, keeps_the_best_way_whatever_else_the_machine_does)
{
    static const double rate[NEAR_WAYS] = { 1, 0.5, 0.5, 0.5, 0.5, 0.5 };
    double mean;
    double least = least_of(rate, &calm, &mean);

    cr_assert(least > 0.97, "least %.3f, mean %.3f", least, mean);
    least = least_of(rate, &busy, &mean);
    cr_assert(least > 0.85 && mean > 0.96, "busy: least %.3f, mean %.3f", least, mean);
}

Test(pace, follows_when_another_way_becomes_best)
{
    static const double before[NEAR_WAYS] = { 1, 0.6, 0.6, 0.6, 0.6, 0.6 };
    static const double after[NEAR_WAYS] = { 0.6, 0.6, 0.6, 1, 0.6, 0.6 };
    struct amph_client_tuning pace;

    memset(&pace, 0, sizeof pace);
    state = 1;
    run(&pace, before, &calm);
    run(&pace, after, &calm); /* tries have become rare: it may take most of this */

    double share = run(&pace, after, &calm);

    cr_assert(share > 0.95, "%.3f", share);
}

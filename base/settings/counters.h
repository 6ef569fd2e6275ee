/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the process.
 *
 * Layer: base.  Thread rule: any thread.  amph_count is a relaxed load and store, for hot paths: one
 * of two racing increments may be lost.  amph_count_exact loses none.
 */
#ifndef AMPH_BASE_COUNTERS_H
#define AMPH_BASE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/settings/counter_defs.h"

enum amph_counter_id {
#define AMPH_COUNTER_ID(id, ...) AMPH_COUNTER_##id,
    AMPH_COUNTER_TABLE(AMPH_COUNTER_ID)
#undef AMPH_COUNTER_ID
    AMPH_COUNTER_COUNT
};

extern uint64_t amph_counters[AMPH_COUNTER_COUNT];

static inline void amph_count_n(enum amph_counter_id id, uint64_t n)
{
    __atomic_store_n(&amph_counters[id], __atomic_load_n(&amph_counters[id], __ATOMIC_RELAXED) + n,
                     __ATOMIC_RELAXED);
}

/* Sets a LEVEL; its owner's thread only. */
static inline void amph_count_level(enum amph_counter_id id, uint64_t now)
{
    __atomic_store_n(&amph_counters[id], now, __ATOMIC_RELAXED);
}

static inline uint64_t amph_count_now(enum amph_counter_id id)
{
    return __atomic_load_n(&amph_counters[id], __ATOMIC_RELAXED);
}

#define amph_count(id) amph_count_n(AMPH_COUNTER_##id, 1)
#define amph_count_exact(id, n) \
    __atomic_fetch_add(&amph_counters[AMPH_COUNTER_##id], (n), __ATOMIC_RELAXED)

/* What a row says of its counter. */
struct amph_counters_row {
    const char *name, *unit, *help;
    bool is_level;
};

const struct amph_counters_row *amph_counters_row(enum amph_counter_id id);

/* Returns the row of that name, or NULL. */
const struct amph_counters_row *amph_counters_find(const char *name);

/* Prints all counters that are not 0, one a line with unit and help (AMPHORA_STATS=1). */
void amph_counters_print(FILE *out);

#endif

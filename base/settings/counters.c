/* SPDX-License-Identifier: BSD-3-Clause */
/* Storage and printing of the counters; see counters.h.  Layer: base. */
#include "base/settings/counters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t amph_counters[AMPH_COUNTER_COUNT];

enum {
    COUNT = false,
    LEVEL = true
};

static const struct amph_counters_row rows[] = {
#define ROW(id, name, kind, unit, help) { name, unit, help, kind },
    AMPH_COUNTER_TABLE(ROW)
#undef ROW
};

const struct amph_counters_row *amph_counters_row(enum amph_counter_id id)
{
    return &rows[id];
}

const struct amph_counters_row *amph_counters_find(const char *name)
{
    for (unsigned i = 0; i < AMPH_COUNTER_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];

    return NULL;
}

void amph_counters_print(FILE *out)
{
    for (unsigned i = 0; i < AMPH_COUNTER_COUNT; i++) {
        uint64_t now = amph_count_now((enum amph_counter_id)i); /* other threads may still count */

        if (now)
            fprintf(out, "%-20s %12" PRIu64 " %-11s %s\n", rows[i].name, now, rows[i].unit,
                    rows[i].help);
    }
}

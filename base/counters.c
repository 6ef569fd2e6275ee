/* SPDX-License-Identifier: BSD-3-Clause */
/* Storage and printing of the counters; see counters.h.  Layer: base. */
#include "base/counters.h"

#include <inttypes.h>

uint64_t amph_counters[AMPH_COUNTER_COUNT];

static const struct {
    const char *name, *unit, *help;
} rows[] = {
#define ROW(id, name, unit, help) { name, unit, help },
    AMPH_COUNTER_TABLE(ROW)
#undef ROW
};

void amph_counters_print(FILE *out)
{
    for (unsigned i = 0; i < AMPH_COUNTER_COUNT; i++)
        if (amph_counters[i])
            fprintf(out, "%-16s %12" PRIu64 " %-11s %s\n", rows[i].name, amph_counters[i],
                    rows[i].unit, rows[i].help);
}

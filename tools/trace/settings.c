/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of Amphora's settings; see trace.h.
 *
 * Layer: tools.  Thread rule: any thread.
 */
#include <string.h>

#include "base/settings/env_defs.h"
#include "tools/trace/trace.h"

bool trace_is_setting(const char *word, size_t len)
{
    static const char *const names[] = {
#define TRACE_SETTING(id, name, type, def, unit, min, max, group, help) name,
        AMPH_ENV_TABLE(TRACE_SETTING)
#undef TRACE_SETTING
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncmp(names[i], word, len) == 0)
            return true;

    return false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How this process was started, as its environment says.  Apart from the kinds themselves, because
 * iofwd-run asks too and is not to load them.
 *
 * Layer: boot.  Thread rule: as boot.h.
 */
#include <stdlib.h>

#include "base/settings/env.h"
#include "base/platform.h"
#include "boot/kind.h"
#include "boot/kvs.h"
#include "boot/pmi1.h"
#include "boot/pmi2.h"

bool amph_boot_kvs_env_number(const char *name, long min, long *value_p)
{
    const char *text = amph_env_foreign(name);
    char *end;

    if (!text || !*text)
        return false;

    *value_p = strtol(text, &end, 10);
    return *end == 0 && *value_p >= min;
}

/* No process becomes a member of standing servers by its environment: iofwd-server does. */
static bool is_standing(void)
{
    return false;
}

static bool is_launched(void)
{
    return amph_env_str(AMPH_ENV_JOB)[0] != 0 && amph_env_int(AMPH_ENV_RANK) >= 0;
}

static bool is_under_pmix(void)
{
    long v;
    const char *space = amph_env_foreign("PMIX_NAMESPACE");

    return space && *space && amph_boot_kvs_env_number("PMIX_RANK", 0, &v);
}

bool amph_boot_pmi2_present(void)
{
    long v;
    const char *job = amph_env_foreign("PMI_JOBID");

    return amph_boot_kvs_env_number("PMI_FD", 0, &v) &&
           amph_boot_kvs_env_number("PMI_RANK", 0, &v) && job && *job;
}

bool amph_boot_pmi_present(void)
{
    long v;
    return amph_boot_kvs_env_number("PMI_FD", 0, &v)
               ? amph_boot_kvs_env_number("PMI_SIZE", 1, &v) &&
                     amph_boot_kvs_env_number("PMI_RANK", 0, &v)
               : amph_env_foreign("PMI_PORT") && amph_boot_kvs_env_number("PMI_ID", 0, &v);
}

static bool is_single(void)
{
    return true;
}

enum amph_boot_number amph_boot_present(void)
{
    static bool (*const present[AMPH_BOOT_KINDS])(void) = {
        [AMPH_BOOT_STANDING] = is_standing,       [AMPH_BOOT_LAUNCHER] = is_launched,
        [AMPH_BOOT_PMIX] = is_under_pmix,         [AMPH_BOOT_PMI2] = amph_boot_pmi2_present,
        [AMPH_BOOT_PMI1] = amph_boot_pmi_present, [AMPH_BOOT_SINGLE] = is_single
    };
    unsigned forced = amph_env_enum(AMPH_ENV_BOOT);
    unsigned i = 0;

    while (i < AMPH_BOOT_KINDS && ((forced && forced - 1 != i) || !present[i]()))
        i++;

    return (enum amph_boot_number)i;
}

bool amph_boot_alone(void)
{
    return amph_env_enum(AMPH_ENV_BOOT) == 0 && amph_boot_present() == AMPH_BOOT_SINGLE;
}

bool amph_boot_among_servers(void)
{
    enum amph_boot_number number = amph_env_int(AMPH_ENV_SERVERS) > 0 ? amph_boot_present()
                                                                      : AMPH_BOOT_KINDS;

    return number == AMPH_BOOT_PMIX || number == AMPH_BOOT_PMI2 || number == AMPH_BOOT_PMI1;
}

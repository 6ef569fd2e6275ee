/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings that the interposer reads by itself; see settings.h.
 *
 * Layer: iofwd (interposer).
 */
#include "base/settings/env_parse.h"
#include "iofwd/interpose/entry/settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/calls/names.h"

/* Builds a row in a switch.  A table of rows would contain addresses that the dynamic linker must
 * fill in at each start. */
static struct amph_env_row row_of(enum amph_env_id id)
{
    switch (id) {
#define AMPH_IP_ROW(id, name, type, def, unit, min, max, group, help) \
    case AMPH_ENV_##id: \
        return (struct amph_env_row){ name, AMPH_ENV_TYPE_##type, def, min, max };
        AMPH_ENV_TABLE(AMPH_IP_ROW)
#undef AMPH_IP_ROW
    default:
        amph_ip_die(1, "setting %d is not in base/settings/env_defs.h; build amphora again",
                    (int)id);
    }
}

const char *amph_ip_private_name(enum amph_ip_env_private id)
{
    switch (id) {
#define AMPH_IP_PRIVATE_NAME(id, name, help) \
    case AMPH_IP_PRIVATE_##id: \
        return name;
        AMPH_ENV_PRIVATE(AMPH_IP_PRIVATE_NAME)
#undef AMPH_IP_PRIVATE_NAME
    default:
        amph_ip_die(1, "setting %d is not in base/settings/env_defs.h; build amphora again",
                    (int)id);
    }
}

static const char *foreign_name(enum amph_ip_env_foreign id)
{
    switch (id) {
#define AMPH_IP_FOREIGN_NAME(id, name, help) \
    case AMPH_IP_FOREIGN_##id: \
        return name;
        AMPH_ENV_FOREIGN(AMPH_IP_FOREIGN_NAME)
#undef AMPH_IP_FOREIGN_NAME
    default:
        amph_ip_die(1, "setting %d is not in base/settings/env_defs.h; build amphora again",
                    (int)id);
    }
}

static const char *look_up(char **env, const char *name)
{
    size_t len = strlen(name);

    for (; env && *env; env++)
        if (**env == *name && strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;

    return NULL;
}

/* Returns the value of a row that is a number; its default if the variable is not set or empty.  Runs
 * before main, so it allocates no memory (kept.h). */
static int64_t number_of(char **env, const struct amph_env_row *row)
{
    const char *text = look_up(env, row->name);
    struct amph_env_value v = { 0 };
    char why[AMPH_ENV_WHY_BYTES];

    if (text && !text[0])
        text = NULL;

    if (row->type == AMPH_ENV_TYPE_ENUM && amph_env_word_index(row, text, &v.number))
        return v.number;

    if (!text) {
        if (!amph_env_default(row, &v))
            amph_ip_die(1, "no memory for %s", row->name);
    } else if (!amph_env_parse(row, text, &v, why, sizeof why)) {
        amph_ip_die(1, "%s", why); /* in the format of amph_fatal */
    }

    return v.number;
}

/* Parses a launcher's number: a rank, a size or a descriptor. */
static int64_t foreign_number(char **env, const char *name)
{
    const struct amph_env_row row = { name, AMPH_ENV_TYPE_INT, "-1", -1, INT_MAX };

    return number_of(env, &row);
}

const char *amph_ip_setting_name(enum amph_env_id id)
{
    return row_of(id).name;
}

const char *amph_ip_setting_text(char **env, enum amph_env_id id)
{
    return look_up(env, row_of(id).name);
}

bool amph_ip_setting_bool(char **env, enum amph_env_id id)
{
    return amph_ip_setting_int(env, id) != 0;
}

int64_t amph_ip_setting_int(char **env, enum amph_env_id id)
{
    const struct amph_env_row row = row_of(id);

    return number_of(env, &row);
}

int64_t amph_ip_setting_rank(char **env, enum amph_env_id id)
{
    return foreign_number(env, row_of(id).name);
}

const char *amph_ip_private_text(char **env, enum amph_ip_env_private id)
{
    return look_up(env, amph_ip_private_name(id));
}

const char *amph_ip_foreign_text(char **env, enum amph_ip_env_foreign id)
{
    return look_up(env, foreign_name(id));
}

int64_t amph_ip_foreign_int(char **env, enum amph_ip_env_foreign id)
{
    return foreign_number(env, foreign_name(id));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads settings before libamphora, which has their registry, is loaded.  `env` is the environment
 * that the dynamic linker passes, and returned texts point into it.
 *
 * Layer: iofwd (interposer).  Thread rule: called by the constructor.
 *
 * Names, types and bounds come from base/settings/env_defs.h, and texts are parsed by base/settings/env_parse.h.  A
 * text that is not allowed ends the process with the message that the registry would print.
 */
#ifndef AMPH_IOFWD_SETTINGS_H
#define AMPH_IOFWD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings/env.h"

enum amph_ip_env_private {
#define AMPH_IP_PRIVATE_ID(id, name, help) AMPH_IP_PRIVATE_##id,
    AMPH_ENV_PRIVATE(AMPH_IP_PRIVATE_ID)
#undef AMPH_IP_PRIVATE_ID
};

enum amph_ip_env_foreign {
#define AMPH_IP_FOREIGN_ID(id, name, help) AMPH_IP_FOREIGN_##id,
    AMPH_ENV_FOREIGN(AMPH_IP_FOREIGN_ID)
#undef AMPH_IP_FOREIGN_ID
};

/* Returns the name of a setting's variable. */
const char *amph_ip_setting_name(enum amph_env_id id);

/* Returns the text of a setting; NULL: it is not set. */
const char *amph_ip_setting_text(char **env, enum amph_env_id id);

/* Returns a BOOL or INT setting; its default if it is not set or empty. */
bool amph_ip_setting_bool(char **env, enum amph_env_id id);
int64_t amph_ip_setting_int(char **env, enum amph_env_id id);

/* Returns the number in a row of type STR, which contains a launcher's rank; -1: it is not set. */
int64_t amph_ip_setting_rank(char **env, enum amph_env_id id);

/* Returns the text of a variable that Amphora's programs set for each other, and its name. */
const char *amph_ip_private_text(char **env, enum amph_ip_env_private id);
const char *amph_ip_private_name(enum amph_ip_env_private id);

/* Returns a variable of a launcher or of the system; as a number: -1 if it is not set. */
const char *amph_ip_foreign_text(char **env, enum amph_ip_env_foreign id);
int64_t amph_ip_foreign_int(char **env, enum amph_ip_env_foreign id);

#endif

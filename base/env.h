/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment registry: the only reader of the environment.  Layer: base.
 * Thread rule: values are read once, at the first call of any function here; then read-only.
 *
 * A value that does not parse or is out of bounds is reported in one sentence (naming variable,
 * value and what is allowed) and ends the process.  An unknown AMPHORA_* or IOFWD_* name gets one
 * warning with the nearest known name.
 */
#ifndef AMPH_BASE_ENV_H
#define AMPH_BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/env_defs.h"
#include "base/env_parse.h"

enum amph_env_id {
#define AMPH_ENV_ID(id, ...) AMPH_ENV_##id,
    AMPH_ENV_TABLE(AMPH_ENV_ID)
#undef AMPH_ENV_ID
    AMPH_ENV_COUNT
};

/* STR and ENUM: the text, "" if unset; owned by the registry */
const char *amph_env_str(enum amph_env_id id);
bool amph_env_bool(enum amph_env_id id);
int64_t amph_env_int(enum amph_env_id id);
uint64_t amph_env_size(enum amph_env_id id); /* SIZE: bytes */
uint64_t amph_env_ns(enum amph_env_id id);   /* DUR: nanoseconds */
unsigned amph_env_enum(enum amph_env_id id); /* ENUM: index of the word in the row's list */
bool amph_env_is_set(enum amph_env_id id);

/* A variable that is not ours (PMI_FD, HOME, a client's own): getenv, kept here so that the layer
 * check has one exception. */
const char *amph_env_foreign(const char *name);

/* How long gasnet_exit waits for nprocs processes: GASNET_EXITTIMEOUT, or what its _MIN, _FACTOR
 * and _MAX give. */
uint64_t amph_env_exit_timeout_ns(uint64_t nprocs);

/*
 * GASNET_VERBOSEENV: from now on tell(name, value, is_default) is called once for each row, at its
 * first use, and at once for those that have been used already, and for variables named GASNET_*
 * that are set and do nothing (value: with the reason).  By one thread, once.
 */
void amph_env_describe(void (*tell)(const char *name, const char *value, bool is_default));

/* Entries NAME=VALUE, up to a NULL, of the environment that the program started with: they hold for
 * settings that its environment lacks when they are read.  They stay the caller's, and in place.
 * Before the first question. */
void amph_env_keep(char *const *entries);

/* Reads the environment again: for the launcher after it changed its own, and for tests. */
void amph_env_reload(void);

/* Prints every row with the value in force and where it came from, and the accepted variables
 * (amphora-info -c). */
void amph_env_print(FILE *out);

/* The row's variable name. */
const char *amph_env_name(enum amph_env_id id);

/* Edit distance of two names of at most 63 characters (longer ones: 99), for "did you mean". */
unsigned amph_text_distance(const char *a, const char *b);

#endif

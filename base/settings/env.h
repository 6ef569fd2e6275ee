/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of settings: the only reader of the environment.
 *
 * Layer: base.  Thread rule: values are read once, at the first call of any function here, and are
 * read-only afterwards.
 *
 * A value that does not parse or is out of bounds ends the process with a message that names the
 * variable, its value and what is allowed.  An unknown AMPHORA_* or IOFWD_* name gets one
 * warning with the nearest known name.
 */
#ifndef AMPH_BASE_ENV_H
#define AMPH_BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/settings/env_defs.h"
#include "base/settings/env_parse.h"

enum amph_env_id {
#define AMPH_ENV_ID(id, ...) AMPH_ENV_##id,
    AMPH_ENV_TABLE(AMPH_ENV_ID)
#undef AMPH_ENV_ID
    AMPH_ENV_COUNT
};

/* The value of a setting, by its type.  STR and ENUM: the text, "" if unset; owned by the registry. */
const char *amph_env_str(enum amph_env_id id);
bool amph_env_bool(enum amph_env_id id);
int64_t amph_env_int(enum amph_env_id id);
uint64_t amph_env_size(enum amph_env_id id); /* SIZE: bytes */
uint64_t amph_env_ns(enum amph_env_id id);   /* DUR: nanoseconds */
unsigned amph_env_enum(enum amph_env_id id); /* ENUM: index of the word in the row's list */
bool amph_env_is_set(enum amph_env_id id);

/* Have the settings been read?  While they are read, asking for one would wait for ever: a message
 * about a wrong value looks here first. */
bool amph_env_is_loaded(void);

/* A variable that is no setting of Amphora (PMI_FD, HOME, a client's own): getenv.  It is here so that
 * getenv is called in one file only (tests/tree/layers.sh). */
const char *amph_env_foreign(const char *name);

/* How long gasnet_exit waits for nprocs processes: GASNET_EXITTIMEOUT, or what its _MIN, _FACTOR
 * and _MAX give. */
uint64_t amph_env_exit_timeout_ns(uint64_t nprocs);

/*
 * Reports settings (GASNET_VERBOSEENV): calls report(name, value, is_default) once for each row, now
 * for rows that have been used and otherwise at their first use.  Also reports variables named
 * GASNET_* that are set and have no effect, with the reason in value.  Called once, by one thread.
 */
void amph_env_describe(void (*report)(const char *name, const char *value, bool is_default));

/* Sets the environment that the program started with (entries NAME=VALUE up to a NULL).  It supplies
 * the settings that are missing from the environment when they are read.  The entries remain the
 * caller's and must not move.  Called before any other function here. */
void amph_env_keep(char *const *entries);

/* Reads the environment again.  For tests, and for the launcher after it has changed its own
 * environment. */
void amph_env_reload(void);

/* Prints every row with its value and the origin of the value, and the variables that are accepted
 * without effect (amphora-info -c). */
void amph_env_print(FILE *out);

/* Parses text as a value of the row, whose number (ENUM: index of the word) goes to *number_p; the value
 * in force does not change.  false: why says what is wrong.  Not for STR. */
bool amph_env_read(enum amph_env_id id, const char *text, int64_t *number_p, char *why,
                   size_t why_bytes);

/* The row's variable name. */
const char *amph_env_name(enum amph_env_id id);

/* Edit distance of two names of at most 63 characters (longer ones: 99), for "did you mean". */
unsigned amph_text_distance(const char *a, const char *b);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the text of a setting means: types, bounds, and the sentence for a text that is not allowed.
 * Layer: base. Thread rule: any thread; no state.
 *
 * Shared by the registry (base/env.c) and the interposer (iofwd/interpose/entry/settings.c), which
 * is loaded without libamphora: nothing here needs more than the C library.
 */
#ifndef AMPH_BASE_ENV_PARSE_H
#define AMPH_BASE_ENV_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum amph_env_type {
    AMPH_ENV_TYPE_STR,
    AMPH_ENV_TYPE_BOOL,
    AMPH_ENV_TYPE_INT,
    AMPH_ENV_TYPE_SIZE,
    AMPH_ENV_TYPE_DUR,
    AMPH_ENV_TYPE_ENUM
};

enum {
    AMPH_ENV_WHY_BYTES = 512
}; /* the longest sentence of amph_env_parse */

/* A row of base/env_defs.h, as far as its value depends on it. */
struct amph_env_row {
    const char *name;
    enum amph_env_type type;
    const char *def; /* ENUM: the words, with | between them */
    int64_t least, most;
};

struct amph_env_value {
    /* STR: the caller's text; ENUM: the word, allocated here and freed by the next call for the
     * same value */
    const char *text;
    int64_t number; /* BOOL, INT, SIZE, DUR; ENUM: the word's index */
};

/* Sets *v_p to what text means for the row.  False: text is not allowed or out of bounds, and why
 * has the sentence that says so. */
bool amph_env_parse(const struct amph_env_row *row, const char *text, struct amph_env_value *v_p,
                    char *why, size_t why_bytes);

/* Sets *v_p to the row's default. */
void amph_env_default(const struct amph_env_row *row, struct amph_env_value *v_p);

/* What the row takes, in words. */
const char *amph_env_allowed(const struct amph_env_row *row);

/* Writes the value as a user would type it. */
void amph_env_show(const struct amph_env_row *row, const struct amph_env_value *v, char *buf,
                   size_t len_bytes);

/* Parses "64K", "1.5G" and the like; false if it is no size. */
bool amph_parse_size(const char *text, uint64_t *bytes_p);

#endif

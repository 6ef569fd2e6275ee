/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing the text of a setting: its type, its bounds, and the message for a text that is not
 * allowed.
 *
 * Layer: base.  Thread rule: any thread; no state.
 *
 * Used by the registry (base/settings/env.c) and by the interposer (iofwd/interpose/entry/settings.c).  The
 * interposer is loaded without libamphora, so this file uses the C library only.
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

/* Room for the longest message of amph_env_parse. */
enum {
    AMPH_ENV_WHY_BYTES = 512
};

/* The columns of a row of base/settings/env_defs.h that parsing needs. */
struct amph_env_row {
    const char *name;
    enum amph_env_type type;
    const char *def;  /* ENUM: the words, separated by '|' */
    int64_t min, max; /* both 0: unbounded */
};

struct amph_env_value {
    /* STR: the caller's text; ENUM: the word, allocated here and freed by the next call for the
     * same value */
    const char *text;
    int64_t number; /* BOOL, INT, SIZE, DUR; ENUM: the word's index */
};

/* Parses text by the row's type into *v_p.  false: text is not allowed or out of bounds, and why
 * holds the message. */
bool amph_env_parse(const struct amph_env_row *row, const char *text, struct amph_env_value *v_p,
                    char *why, size_t why_bytes);

/* Finds the index of a word of an ENUM, the first one for NULL, and allocates no memory.  false: it is
 * none of the row's words. */
bool amph_env_word_index(const struct amph_env_row *row, const char *word, int64_t *index_p);

/* Sets *v_p to the row's default.  false: there is no memory for the word of an ENUM. */
bool amph_env_default(const struct amph_env_row *row, struct amph_env_value *v_p);

/* A phrase that says what the row accepts ("a size such as 64K"). */
const char *amph_env_allowed(const struct amph_env_row *row);

/* What IOFWD_RECORD may name. */
enum {
    AMPH_RECORD_AM = 1,
    AMPH_RECORD_RMA = 2,
    AMPH_RECORD_COLL = 4
};

/* The bits of the words in text, with commas between them.  *wrong_p, if it is not NULL: the first
 * word that is none of them, or NULL. */
unsigned amph_record_kinds(const char *text, const char **wrong_p);

/* Writes the value as a user would type it. */
void amph_env_show(const struct amph_env_row *row, const struct amph_env_value *v, char *buf,
                   size_t len_bytes);

/* Parses "64K", "1.5G" and the like; false: not a size. */
bool amph_parse_size(const char *text, uint64_t *bytes_p);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing the text of a setting; see env_parse.h.  Layer: base. */
#include "base/settings/env_parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/platform.h"

/* A unit that may follow a number. */
struct suffix {
    const char *text;
    double factor;
};

/* clang-format off */
static const struct suffix size_suffixes[] = {
    { "", 1 },         { "B", 1 },         { "K", 1 << 10 }, { "KB", 1 << 10 }, { "KiB", 1 << 10 }, { "M", 1 << 20 },
    { "MB", 1 << 20 }, { "MiB", 1 << 20 }, { "G", 1 << 30 }, { "GB", 1 << 30 }, { "GiB", 1 << 30 }, { "T", 1099511627776. },
    { "TB", 1099511627776. }, { "TiB", 1099511627776. },
};
/* clang-format on */
static const struct suffix time_suffixes[] = {
    { "", 1e9 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }
};

static const struct suffix no_suffix[] = { { "", 1 } };

/* Parses a number with one of the n suffixes; the whole text must match. */
static bool parse_number(const char *text, const struct suffix *suffixes, size_t n,
                         int64_t *number_p)
{
    char *end;

    errno = 0;

    double v = strtod(text, &end);
    if (end == text || errno || !(v > -9e18 && v < 9e18))
        return false;

    while (*end == ' ')
        end++;

    for (size_t i = 0; i < n; i++)
        if (strcasecmp(end, suffixes[i].text) == 0 && v * suffixes[i].factor < 9e18) {
            *number_p = (int64_t)(v * suffixes[i].factor);
            return true;
        }

    return false;
}

bool amph_parse_size(const char *text, uint64_t *bytes_p)
{
    int64_t n;

    if (!parse_number(text, size_suffixes, AMPH_COUNTOF(size_suffixes), &n) || n < 0)
        return false;

    *bytes_p = (uint64_t)n;
    return true;
}

static bool parse_bool(const char *text, int64_t *number_p)
{
    static const char *const words[] = { "0",  "1",     "no",   "yes", "off",
                                         "on", "false", "true", "n",   "y" };

    for (size_t i = 0; i < AMPH_COUNTOF(words); i++)
        if (strcasecmp(text, words[i]) == 0) {
            *number_p = i & 1;
            return true;
        }

    return false;
}

/* Finds word in a list "a|b|c".  word NULL: the first of the list.  Returns where it is, or NULL. */
static const char *find_word(const char *list, const char *word, int64_t *index_p)
{
    int64_t index = 0;

    for (const char *at = list; *at; index++) {
        size_t len = strcspn(at, "|");

        if (!word || (strlen(word) == len && strncasecmp(at, word, len) == 0)) {
            *index_p = index;
            return at;
        }

        at += len + (at[len] == '|');
    }

    return NULL;
}

bool amph_env_word_index(const struct amph_env_row *row, const char *word, int64_t *index_p)
{
    return find_word(row->def, word, index_p) != NULL;
}

static bool parse_enum(const char *list, const char *word, struct amph_env_value *v)
{
    const char *at = find_word(list, word, &v->number);

    if (!at)
        return false;

    free((char *)v->text);
    v->text = strndup(at, strcspn(at, "|"));
    return v->text != NULL;
}

static bool take_text(const char *def, const char *text, struct amph_env_value *v)
{
    v->text = text;
    return true;
}

static bool take_bool(const char *def, const char *text, struct amph_env_value *v)
{
    return parse_bool(text, &v->number);
}

static bool take_int(const char *def, const char *text, struct amph_env_value *v)
{
    return parse_number(text, no_suffix, AMPH_COUNTOF(no_suffix), &v->number);
}

static bool take_size(const char *def, const char *text, struct amph_env_value *v)
{
    return parse_number(text, size_suffixes, AMPH_COUNTOF(size_suffixes), &v->number);
}

static bool take_time(const char *def, const char *text, struct amph_env_value *v)
{
    return parse_number(text, time_suffixes, AMPH_COUNTOF(time_suffixes), &v->number);
}

/* The parser of each type.  def: the row's default; for an ENUM, its words. */
static const struct {
    bool (*take)(const char *def, const char *text, struct amph_env_value *v);
    const char *allowed; /* NULL: the ENUM's words */
} types[] = {
    [AMPH_ENV_TYPE_STR] = { take_text, "any text" },
    [AMPH_ENV_TYPE_BOOL] = { take_bool, "0 or 1" },
    [AMPH_ENV_TYPE_INT] = { take_int, "a whole number" },
    [AMPH_ENV_TYPE_SIZE] = { take_size, "a size such as 64K" },
    [AMPH_ENV_TYPE_DUR] = { take_time, "a time such as 5ms" },
    [AMPH_ENV_TYPE_ENUM] = { parse_enum, NULL },
};

const char *amph_env_allowed(const struct amph_env_row *row)
{
    return types[row->type].allowed ? types[row->type].allowed : row->def;
}

bool amph_env_parse(const struct amph_env_row *row, const char *text, struct amph_env_value *v_p,
                    char *why, size_t why_bytes)
{
    errno = 0;
    if (!types[row->type].take(row->def, text, v_p)) {
        if (errno == ENOMEM)
            snprintf(why, why_bytes, "no memory for %s", row->name);
        else
            snprintf(why, why_bytes, "%s=\"%.300s\" is not allowed; it takes %s", row->name, text,
                     amph_env_allowed(row));

        return false;
    }

    if ((row->min || row->max) && (v_p->number < row->min || v_p->number > row->max)) {
        snprintf(why, why_bytes,
                 "%s=\"%.300s\" is out of bounds; minimum %" PRId64 ", maximum %" PRId64, row->name,
                 text, row->min, row->max);
        return false;
    }

    return true;
}

bool amph_env_default(const struct amph_env_row *row, struct amph_env_value *v_p)
{
    const char *text = row->type == AMPH_ENV_TYPE_ENUM ? NULL : row->def;

    errno = 0;
    if (types[row->type].take(row->def, text, v_p))
        return true;

    if (errno != ENOMEM)
        abort(); /* the table is wrong: a default must parse */

    return false;
}

/* Prints ns in the largest unit that gives a number of at least 1. */
static void show_time(int64_t ns, char *buf, size_t len_bytes)
{
    size_t unit = 1; /* of time_suffixes: ns; the larger units follow */

    while (unit + 1 < AMPH_COUNTOF(time_suffixes) && (double)ns >= time_suffixes[unit + 1].factor)
        unit++;

    snprintf(buf, len_bytes, "%g%s", (double)ns / time_suffixes[unit].factor,
             time_suffixes[unit].text);
}

void amph_env_show(const struct amph_env_row *row, const struct amph_env_value *v, char *buf,
                   size_t len_bytes)
{
    if (row->type == AMPH_ENV_TYPE_STR || row->type == AMPH_ENV_TYPE_ENUM)
        snprintf(buf, len_bytes, "%s", v->text);
    else if (row->type == AMPH_ENV_TYPE_DUR)
        show_time(v->number, buf, len_bytes);
    else
        snprintf(buf, len_bytes, "%" PRId64, v->number);
}

unsigned amph_record_kinds(const char *text, const char **wrong_p)
{
    static const char *const words[] = { "am", "rma", "coll" };
    const char *wrong = NULL;
    unsigned kinds = 0;

    for (const char *at = text; at && *at;) {
        size_t len = strcspn(at, ",");
        size_t i = 0;

        while (i < AMPH_COUNTOF(words) &&
               (strlen(words[i]) != len || strncmp(at, words[i], len) != 0))
            i++;

        if (i < AMPH_COUNTOF(words))
            kinds |= 1u << i;
        else if (len && !wrong)
            wrong = at;

        at += len + (at[len] == ',');
    }

    if (wrong_p)
        *wrong_p = wrong;

    return kinds;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries of the environment that print the value they find (gasnet_tools.h).
 *
 * Layer: extended.  Thread rule: any thread; setenv and unsetenv, like the C library's, not while
 * another thread uses the environment.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "amphora/tools/debug.h"
#include "amphora/tools/env.h"
#include "base/settings/env.h"
#include "base/platform.h"
#include "extended/tools/tools.h"

#define VALUE_COLUMN 26 /* width of the column of values, in front of "(default)" */

/* ---- reports ---- */

int gasnett_verboseenv(void)
{
    return amph_env_bool(AMPH_ENV_VERBOSEENV) && amph_tools_is_first();
}

/* A setting that has been printed. */
struct amph_tools_reported {
    struct amph_tools_reported *next;
    char name[];
};

/* Adds key to the settings that have been printed; false: it is among them already.  Without memory
 * for the entry the setting may be printed twice. */
static bool first_report(const char *key)
{
    struct amph_tools_reported **head = &amph_tools_state.environ.reported;

    pthread_mutex_lock(&amph_tools_state.environ.lock);

    struct amph_tools_reported *r = *head;

    while (r && strcmp(r->name, key) != 0)
        r = r->next;

    bool first = !r;

    if (first)
        r = malloc(sizeof *r + strlen(key) + 1);

    if (first && r) {
        strcpy(r->name, key);
        r->next = *head;
        *head = r;
    }

    pthread_mutex_unlock(&amph_tools_state.environ.lock);
    return first;
}

static void report(const char *key, const char *value, bool is_default)
{
    char line[1280];
    int column = VALUE_COLUMN - (int)strnlen(value, VALUE_COLUMN);

    if (!first_report(key))
        return;

    snprintf(line, sizeof line, "ENV parameter: %.200s = %.1000s%*s\n", key, value,
             is_default ? column + 9 : 0, is_default ? "(default)" : "");
    amph_tools_write(2, line);
}

void gasnett_envstr_display(const char *key, const char *val, int is_dflt)
{
    const char *shown = val;

    if (!gasnett_verboseenv())
        return;

    if (!val)
        shown = "*not set*";
    else if (!val[0])
        shown = "*empty*";

    report(key, shown, is_dflt != 0);
}

void gasnett_envint_display(const char *key, int64_t val, int is_dflt, int is_mem_size)
{
    char text[64];
    gasnett_envstr_display(key, gasnett_format_number(val, text, sizeof text, is_mem_size),
                           is_dflt);
}

void gasnett_envdbl_display(const char *key, double val, int is_dflt)
{
    char text[64];

    snprintf(text, sizeof text, "%g", val);
    gasnett_envstr_display(key, text, is_dflt);
}

/* ---- queries ---- */

char *gasnett_getenv(const char *keyname)
{
    return (char *)amph_env_foreign(keyname);
}

char *gasnett_getenv_withdefault(const char *keyname, const char *defaultval)
{
    const char *value = amph_env_foreign(keyname);

    gasnett_envstr_display(keyname, value ? value : defaultval, !value);
    return (char *)(value ? value : defaultval);
}

/* The value, or NULL if it is unset or blank: for numbers, "NAME=" means the same as no NAME. */
static const char *nonblank(const char *keyname)
{
    const char *value = amph_env_foreign(keyname);
    return value && value[strspn(value, " \t")] ? value : NULL;
}

int gasnett_getenv_yesno_withdefault(const char *keyname, int defaultval)
{
    static const char *const words[] = { "n", "y",   "no", "yes",   "0",
                                         "1", "off", "on", "false", "true" };
    const char *value = nonblank(keyname);
    int answer = defaultval;

    if (value) {
        size_t i = 0;

        while (i < AMPH_COUNTOF(words) && strcasecmp(value, words[i]) != 0)
            i++;

        if (i == AMPH_COUNTOF(words))
            gasneti_fatalerror("%s=\"%s\" is not allowed; it takes yes or no", keyname, value);

        answer = i & 1;
    }

    gasnett_envstr_display(keyname, answer ? "YES" : "NO", !value);
    return answer;
}

int64_t gasnett_getenv_int_withdefault(const char *keyname, int64_t defaultval,
                                       uint64_t mem_size_multiplier)
{
    const char *value = nonblank(keyname);
    int64_t number = defaultval;

    /* not gasnett_parse_int, whose message does not name the variable */
    if (value && !amph_tools_parse(value, mem_size_multiplier, &number))
        gasneti_fatalerror("%s=\"%s\" is not allowed; it takes %s", keyname, value,
                           mem_size_multiplier ? "a size such as 64 KB or 1.5 GB"
                                               : "a whole number such as 123, -5 or 0x7f");

    gasnett_envint_display(keyname, number, !value, mem_size_multiplier != 0);
    return number;
}

/* "1.5", "-1e4" or "3/8". */
static bool parse_fraction(const char *text, double *number_p)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text)
        return false;

    end += strspn(end, " \t");
    if (*end == '/') {
        char *at = end + 1;
        double below = strtod(at, &end);

        if (end == at || below == 0)
            return false;

        v /= below;
        end += strspn(end, " \t");
    }

    *number_p = v;
    return *end == 0 && isfinite(v);
}

double gasnett_getenv_dbl_withdefault(const char *keyname, double defaultval)
{
    const char *value = nonblank(keyname);
    double number = defaultval;

    if (value && !parse_fraction(value, &number))
        gasneti_fatalerror(
            "%s=\"%s\" is not allowed; it takes a number or a fraction such as 1.5, -1e4 or 3/8",
            keyname, value);

    gasnett_envdbl_display(keyname, number, !value);
    return number;
}

/* ---- changes ---- */

void gasnett_setenv(const char *key, const char *value)
{
    if (setenv(key, value, 1) != 0)
        gasneti_fatalerror(
            "gasnett_setenv: \"%s\" is not a valid variable name, or memory has run out", key);
}

void gasnett_unsetenv(const char *key)
{
    if (unsetenv(key) != 0)
        gasneti_fatalerror("gasnett_unsetenv: \"%s\" is not a valid variable name", key);
}

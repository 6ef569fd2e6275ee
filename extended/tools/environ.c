/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries of the environment that report what they found (gasnet_tools.h).  Layer: extended. Thread
 * rule: any thread; setenv and unsetenv, as those of the C library, not beside other use of the
 * environment.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "amphora/tools/debug.h"
#include "amphora/tools/env.h"
#include "base/env.h"
#include "base/platform.h"
#include "extended/tools/tools.h"

#define VALUE_COLUMN 26 /* where "(default)" would stand after a value of no length */

/* ---- reports ---- */

int gasnett_verboseenv(void)
{
    return amph_env_bool(AMPH_ENV_VERBOSEENV) && amph_tools_is_first();
}

static bool first_time(const char *key)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    static struct key {
        struct key *next;
        char name[];
    } * keys;
    pthread_mutex_lock(&lock);

    struct key *k = keys;

    while (k && strcmp(k->name, key) != 0)
        k = k->next;

    bool first = !k;

    if (first && (k = malloc(sizeof *k + strlen(key) + 1))) {
        strcpy(k->name, key);
        k->next = keys;
        keys = k;
    }

    pthread_mutex_unlock(&lock);
    return first;
}

static void report(const char *key, const char *value, bool is_default)
{
    char line[1280];
    int column = VALUE_COLUMN - (int)strnlen(value, VALUE_COLUMN);

    if (!first_time(key))
        return;

    snprintf(line, sizeof line, "ENV parameter: %.200s = %.1000s%*s\n", key, value,
             is_default ? column + 9 : 0, is_default ? "(default)" : "");
    amph_tools_write(2, line);
}

void gasnett_envstr_display(const char *key, const char *val, int is_dflt)
{
    if (gasnett_verboseenv())
        report(key, !val ? "*not set*" : val[0] ? val : "*empty*", is_dflt != 0);
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

/* The value, NULL also where it is empty: where a number belongs, NAME= is as good as no NAME. */
static const char *filled(const char *keyname)
{
    const char *value = amph_env_foreign(keyname);
    return value && value[strspn(value, " \t")] ? value : NULL;
}

int gasnett_getenv_yesno_withdefault(const char *keyname, int defaultval)
{
    static const char *const words[] = { "n", "y",   "no", "yes",   "0",
                                         "1", "off", "on", "false", "true" };
    const char *value = filled(keyname);
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
    const char *value = filled(keyname);
    int64_t number = defaultval;

    /* The sentence of gasnett_parse_int itself would not say which variable is meant. */
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
    const char *value = filled(keyname);
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
            "gasnett_setenv: \"%s\" is no name for a variable, or there is no memory left", key);
}

void gasnett_unsetenv(const char *key)
{
    if (unsetenv(key) != 0)
        gasneti_fatalerror("gasnett_unsetenv: \"%s\" is no name for a variable", key);
}

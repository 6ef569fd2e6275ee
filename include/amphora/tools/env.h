/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment, and numbers as people write them.  GASNet tools spec, "Environment utilities".
 *
 * With GASNET_VERBOSEENV=1 each query with a default is reported once on standard error, by process
 * 0 only:
 *   ENV parameter: NAME = value   (default)
 * A value that does not parse ends the process with a sentence.
 */
#ifndef AMPHORA_TOOLS_ENV_H
#define AMPHORA_TOOLS_ENV_H

#include <stdint.h>

#include "amphora/tools/base.h"

AMPHORA_BEGIN_C

/* Writes val into buf (bufsz bytes, always terminated) and returns buf.  is_mem_size: with the
 * largest unit that divides it ("2 MB"), so that gasnett_parse_int gives the same number back. */
char *gasnett_format_number(int64_t val, char *buf, size_t bufsz, int is_mem_size);
/* mem_size_multiplier 0: a whole number, decimal or 0x hexadecimal.  Else a size in bytes, fraction
 * allowed, with B, KB, MB, GB, TB, PB or EB; without a unit it counts mem_size_multiplier bytes.
 * Anything else is fatal. */
int64_t gasnett_parse_int(const char *str, uint64_t mem_size_multiplier);

/* In this process only. */
void gasnett_setenv(const char *key, const char *value);
void gasnett_unsetenv(const char *key);

/* The value or NULL; not reported. */
char *gasnett_getenv(const char *keyname);
/* Returned pointers are the environment's or the caller's own default. */
char *gasnett_getenv_withdefault(const char *keyname, const char *defaultval);
int gasnett_getenv_yesno_withdefault(const char *keyname, int defaultval);
int64_t gasnett_getenv_int_withdefault(const char *keyname, int64_t defaultval,
                                       uint64_t mem_size_multiplier);
/* Also "3/8". */
double gasnett_getenv_dbl_withdefault(const char *keyname, double defaultval);

/* Is this the process that reports, and is it asked to? */
int gasnett_verboseenv(void);
void gasnett_envint_display(const char *key, int64_t val, int is_dflt, int is_mem_size);
void gasnett_envstr_display(const char *key, const char *val, int is_dflt);
void gasnett_envdbl_display(const char *key, double val, int is_dflt);

AMPHORA_END_C

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Quoting a word for a shell.  Layer: base.  Thread rule: that of the stream. */
#ifndef AMPH_BASE_QUOTE_H
#define AMPH_BASE_QUOTE_H

#include <stdio.h>

/* Writes text to out in single quotes, so that a POSIX shell reads it as one word, unchanged.  Errors
 * are those of the stream (ferror). */
void amph_quote_shell(FILE *out, const char *text);

#endif

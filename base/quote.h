/* SPDX-License-Identifier: BSD-3-Clause */
/* A word of a line that a shell reads.  Layer: base.  Thread rule: that of the stream. */
#ifndef AMPH_BASE_QUOTE_H
#define AMPH_BASE_QUOTE_H

#include <stdio.h>

/* Writes text to out in single quotes, so that a POSIX shell takes it for one word and changes
 * nothing in it.  Errors stay with out. */
void amph_quote_shell(FILE *out, const char *text);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Quoting a word for a shell; see quote.h.  Layer: base. */
#include "base/quote.h"

#include <stdio.h>

void amph_quote_shell(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);

    fputc('\'', out);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of words, and sentences; see cc.h.  Layer: iofwd/cc. */
#include "iofwd/cc/cc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void amph_cc_die(int code, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(code);
}

static void *checked(void *memory)
{
    if (!memory)
        amph_cc_die(1, "there is no memory left");

    return memory;
}

char *amph_cc_text(const char *fmt, ...)
{
    char *s;
    va_list ap;

    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);

    return checked(n < 0 ? NULL : s);
}

void amph_cc_words_add(struct amph_cc_words *w, const char *word)
{
    if (w->n + 1 >= w->cap) {
        w->cap = 2 * w->cap + 32;
        w->v = checked(realloc(w->v, w->cap * sizeof *w->v));
    }

    w->v[w->n++] = (char *)word;
    w->v[w->n] = NULL;
}

void amph_cc_words_add_all(struct amph_cc_words *to, const struct amph_cc_words *from)
{
    for (size_t i = 0; i < from->n; i++)
        amph_cc_words_add(to, from->v[i]);
}

/* Copies one word, without its quotes, and returns what follows it. */
static const char *take_word(const char *at, char *to)
{
    char quote = 0;

    for (; *at && (quote || !strchr(" \t\r\n", *at)); at++) {
        if (*at == '\\' && at[1] && quote != '\'')
            *to++ = *++at;
        else if (*at == quote)
            quote = 0;
        else if (!quote && (*at == '"' || *at == '\''))
            quote = *at;
        else
            *to++ = *at;
    }

    *to = 0;
    return at;
}

void amph_cc_words_split(struct amph_cc_words *to, const char *line)
{
    static const char blank[] = " \t\r\n";

    for (line += strspn(line, blank); *line; line += strspn(line, blank)) {
        char *word = checked(malloc(strlen(line) + 1));

        line = take_word(line, word);
        amph_cc_words_add(to, word);
    }
}

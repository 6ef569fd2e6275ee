/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: memory that lives until the end, strings, and the way out.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include "xlate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *block_new(size_t bytes)
{
    void **b = calloc(1, bytes + sizeof(void *) * 2);

    if (b == NULL)
        xl_fatal("out of memory (%zu bytes)", bytes);

    b[0] = xl.mem.blocks;
    xl.mem.blocks = b;
    return b + 2;
}

void *xl_alloc(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > 16384)
        return block_new(bytes);

    if (bytes > xl.mem.chunk_left_bytes) {
        xl.mem.chunk = block_new(1 << 18);
        xl.mem.chunk_left_bytes = 1 << 18;
    }

    void *p = xl.mem.chunk;

    xl.mem.chunk += bytes;
    xl.mem.chunk_left_bytes -= bytes;
    return p;
}

char *xl_strndup(const char *s, size_t n)
{
    char *p = xl_alloc(n + 1);

    memcpy(p, s, n);
    return p;
}

char *xl_fmt(const char *fmt, ...)
{
    va_list ap;
    char *p;

    va_start(ap, fmt);

    int n = vasprintf(&p, fmt, ap);

    va_end(ap);
    if (n < 0)
        xl_fatal("no memory, or the text of one expression is too long");

    return p;
}

void xl_buf_add(struct buf *b, const char *s, size_t n)
{
    if (b->len + n + 1 > b->cap) {
        size_t cap = (b->len + n + 1) * 2 + 64;
        char *s2 = xl_alloc(cap);

        if (b->len)
            memcpy(s2, b->s, b->len);

        b->s = s2;
        b->cap = cap;
    }

    memcpy(b->s + b->len, s, n);
    b->len += n;
    b->s[b->len] = 0;
}

void xl_buf_fmt(struct buf *b, const char *fmt, ...)
{
    char small[512];
    va_list ap;

    va_start(ap, fmt);

    int n = vsnprintf(small, sizeof small, fmt, ap);

    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof small) {
        xl_buf_add(b, small, (size_t)n);
        return;
    }

    if (n < 0)
        xl_fatal("the text of one expression is too long");

    char *big = xl_alloc((size_t)n + 1);

    va_start(ap, fmt);
    vsnprintf(big, (size_t)n + 1, fmt, ap);
    va_end(ap);
    xl_buf_add(b, big, (size_t)n);
}

void xl_refuse(int tok, const char *fmt, ...)
{
    va_list ap;

    if (tok >= xl.ntokens)
        tok = xl.ntokens - 1;

    if (tok >= 0)
        fprintf(stderr, "%s:%d: upcxlate: ", xl_lex_file_name(xl.tokens[tok].file),
                xl.tokens[tok].line);

    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

void xl_fatal(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("upcxlate: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes, numbers and strings of a page's data; see report.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/report.h"

static bool more(struct report_bytes *b, size_t len)
{
    if (b->failed || b->room - b->len >= len)
        return !b->failed;

    size_t room = b->room ? b->room * 2 : 4096;

    while (room - b->len < len)
        room *= 2;

    unsigned char *longer = realloc(b->at, room);

    if (!longer) {
        b->failed = true;
        return false;
    }

    b->at = longer;
    b->room = room;
    return true;
}

void report_put(struct report_bytes *b, const void *bytes, size_t len)
{
    if (len && more(b, len)) {
        memcpy(b->at + b->len, bytes, len);
        b->len += len;
    }
}

void report_printf(struct report_bytes *b, const char *format, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, format);

    int len = vsnprintf(text, sizeof text, format, ap);

    va_end(ap);
    if (len < 0 || (size_t)len >= sizeof text)
        b->failed = true; /* callers print numbers and short words */
    else
        report_put(b, text, (size_t)len);
}

void report_number(struct report_bytes *b, uint64_t value)
{
    if (!more(b, 10))
        return;

    for (; value >= 128; value >>= 7)
        b->at[b->len++] = (unsigned char)(value | 128);

    b->at[b->len++] = (unsigned char)value;
}

void report_signed(struct report_bytes *b, int64_t value)
{
    uint64_t shifted = (uint64_t)value << 1;

    report_number(b, value < 0 ? ~shifted : shifted);
}

void report_free(struct report_bytes *b)
{
    free(b->at);
    *b = (struct report_bytes){ 0 };
}

/* The bytes of the character of UTF-8 at text; 0: it is none. */
static size_t utf8_len(const unsigned char *text)
{
    /* the smallest second byte, the largest, and the bytes that follow, by the first byte */
    static const struct {
        unsigned char first, last, low, high, len;
    } forms[] = {
        { 0x01, 0x7f, 0, 0, 1 },       { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
        { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
        { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (text[0] < forms[i].first || text[0] > forms[i].last)
            continue;
        if (forms[i].len > 1 && (text[1] < forms[i].low || text[1] > forms[i].high))
            return 0;

        for (size_t k = 2; k < forms[i].len; k++)
            if (text[k] < 0x80 || text[k] > 0xbf)
                return 0;

        return forms[i].len;
    }

    return 0;
}

void report_string(struct report_bytes *b, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    report_put(b, "\"", 1);
    while (*at) {
        size_t len = utf8_len(at);

        if (len == 0)
            report_printf(b, "\\\\x%02x", *at);
        else if (*at == '"' || *at == '\\')
            report_printf(b, "\\%c", *at);
        else if (*at < ' ' || *at == 0x7f)
            report_printf(b, "\\u%04x", *at);
        else
            report_put(b, at, len);

        at += len ? len : 1;
    }

    report_put(b, "\"", 1);
}

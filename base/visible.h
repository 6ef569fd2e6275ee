/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for a terminal: a file's name may contain anything, also newlines and a terminal's commands.
 *
 * Layer: base.  Thread rule: pure function.
 */
#ifndef AMPH_BASE_VISIBLE_H
#define AMPH_BASE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    AMPH_VISIBLE_WIDEST = 4 /* bytes that one byte becomes, at most */
};

/* Is it a control character of ASCII, or the second byte of one of UTF-8 (U+0080 to U+009F)? */
static inline bool amph_is_control(unsigned char c, unsigned char before)
{
    return c < 0x20 || c == 0x7f || (before == 0xc2 && c >= 0x80 && c < 0xa0);
}

/* Copies text into out, which is terminated, with control characters as in a literal of C (\n, \033).
 * Cuts it where the room ends.  Returns out. */
static inline char *amph_visible(char *out, size_t room_bytes, const char *text)
{
    static const char special[] = "\n\t\r\v\f";
    static const char letters[] = "ntrvf";
    unsigned char before = 0;
    size_t len = 0;

    for (; *text && len + AMPH_VISIBLE_WIDEST < room_bytes; text++) {
        unsigned char c = (unsigned char)*text;
        size_t which = 0;

        while (special[which] && special[which] != *text)
            which++;

        if (!amph_is_control(c, before))
            out[len++] = *text;
        else if (special[which])
            len += (size_t)snprintf(out + len, room_bytes - len, "\\%c", letters[which]);
        else
            len += (size_t)snprintf(out + len, room_bytes - len, "\\%03o", c);

        before = c;
    }

    out[len] = 0;
    return out;
}

#endif

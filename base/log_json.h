/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text as JSON strings have it, for the log and for the preload library's lines of it.
 *
 * Layer: base.  Thread rule: pure function.
 */
#ifndef AMPH_BASE_LOG_JSON_H
#define AMPH_BASE_LOG_JSON_H

#include <stddef.h>
#include <stdio.h>

/* Writes text into out as the inside of a JSON string, without a 0 at its end, and cuts it where the room
 * ends.  Bytes that are no ASCII become code points of Latin-1, so that the line is valid whatever a
 * path contains.  Returns the bytes written. */
static inline size_t amph_log_json_text(char *out, size_t room_bytes, const char *text)
{
    size_t len = 0;

    for (; *text && len + 8 < room_bytes; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            len += (size_t)snprintf(out + len, room_bytes - len, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            len += (size_t)snprintf(out + len, room_bytes - len, "\\u%04x", c);
        else
            out[len++] = (char)c;
    }

    return len;
}

#endif

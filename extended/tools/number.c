/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as people write them, and small counts and sums over memory.  Layer: extended.  Thread
 * rule: any thread. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "amphora/tools/debug.h"
#include "amphora/tools/env.h"
#include "amphora/tools/system.h"
#include "base/platform.h"
#include "extended/tools/tools.h"

static const struct {
    const char *text;
    int shift;
} units[] = { { "B", 0 },   { "KB", 10 }, { "MB", 20 }, { "GB", 30 },

              { "TB", 40 }, { "PB", 50 }, { "EB", 60 } };

char *gasnett_format_number(int64_t val, char *buf, size_t bufsz, int is_mem_size)
{
    size_t unit = 0;

    if (!is_mem_size) {
        snprintf(buf, bufsz, "%" PRId64, val);
        return buf;
    }

    while (val && unit + 1 < AMPH_COUNTOF(units) &&
           val % (INT64_C(1) << units[unit + 1].shift) == 0)
        unit++;

    snprintf(buf, bufsz, "%" PRId64 " %s", val / (INT64_C(1) << units[unit].shift),
             units[unit].text);
    return buf;
}

/* Returns the factor of the unit in text ("", K, KB, KiB and so on); 0: not a unit. */
static uint64_t unit_factor(const char *text, uint64_t without)
{
    text += strspn(text, " \t");

    size_t len = strlen(text);

    while (len && isspace((unsigned char)text[len - 1]))
        len--;

    if (len == 0)
        return without;

    for (size_t i = 0; i < AMPH_COUNTOF(units); i++) {
        if (toupper((unsigned char)text[0]) != units[i].text[0])
            continue;
        if (len == 1 || (i && len == 2 && strncasecmp(text + 1, "B", 1) == 0) ||
            (i && len == 3 && strncasecmp(text + 1, "iB", 2) == 0))
            return UINT64_C(1) << units[i].shift;
    }

    return 0;
}

/* Parses a whole number, decimal or 0x; *end_p is the first character after it.  Hexadecimal
 * numbers may use all 64 bits. */
static bool whole(const char *str, int64_t *number_p, char **end_p)
{
    const char *digits = str + strspn(str, " \t");
    bool minus = *digits == '-';

    digits += minus || *digits == '+';

    bool hex = digits[0] == '0' && (digits[1] | 32) == 'x';

    errno = 0;
    if (hex && !minus)
        *number_p = (int64_t)strtoull(str, end_p, 16);
    else
        *number_p = strtoll(str, end_p, hex ? 16 : 10);

    return *end_p != str && errno == 0;
}

/* Computes number * factor. false: it does not fit. */
static bool scale(int64_t number, uint64_t factor, int64_t *product_p)
{
    return factor && factor <= INT64_MAX &&
           !__builtin_mul_overflow(number, (int64_t)factor, product_p);
}

static bool parse_size(const char *str, uint64_t without, int64_t *bytes_p)
{
    char *end;
    int64_t number;

    if (whole(str, &number, &end) && unit_factor(end, without))
        return scale(number, unit_factor(end, without), bytes_p);

    errno = 0;

    double v = strtod(str, &end) * (double)unit_factor(end, without);
    if (end == str || errno || !unit_factor(end, without) || !(v > -9.2e18 && v < 9.2e18))
        return false;

    *bytes_p = (int64_t)v;
    return true;
}

bool amph_tools_parse(const char *str, uint64_t mem_size_multiplier, int64_t *number_p)
{
    char *end;
    if (mem_size_multiplier)
        return parse_size(str, mem_size_multiplier, number_p);

    return whole(str, number_p, &end) && !end[strspn(end, " \t\r\n")];
}

int64_t gasnett_parse_int(const char *str, uint64_t mem_size_multiplier)
{
    int64_t number = 0;

    if (!amph_tools_parse(str, mem_size_multiplier, &number))
        gasneti_fatalerror("\"%s\" is no %s", str,
                           mem_size_multiplier
                               ? "size; write a number and B, KB, MB, GB or TB, such as 1.5 GB"
                               : "whole number; write it as 123, -5 or 0x7f");

    return number;
}

/* ---- bytes that are zero ---- */

#define LOW7 UINT64_C(0x7f7f7f7f7f7f7f7f)

int gasnett_count0s_uint64_t(uint64_t x)
{
    /* A byte's top bit ends up set if the byte is not zero. */
    uint64_t filled = (((x & LOW7) + LOW7) | x) & ~LOW7;
    return 8 - __builtin_popcountll(filled);
}

int gasnett_count0s_uint32_t(uint32_t x)
{
    return gasnett_count0s_uint64_t(x | UINT64_C(0xffffffff00000000));
}

int gasnett_count0s_uintptr_t(uintptr_t x)
{
    return sizeof x == 8 ? gasnett_count0s_uint64_t(x) : gasnett_count0s_uint32_t((uint32_t)x);
}

size_t gasnett_count0s(const void *p, size_t numbytes)
{
    const unsigned char *at = p;
    size_t zeros = 0;

    for (; numbytes >= 8; numbytes -= 8, at += 8) {
        uint64_t word;

        memcpy(&word, at, 8);
        zeros += (size_t)gasnett_count0s_uint64_t(word);
    }

    for (; numbytes; numbytes--)
        zeros += *at++ == 0;

    return zeros;
}

size_t gasnett_count0s_copy(void *GASNETT_RESTRICT dst, const void *GASNETT_RESTRICT src,
                            size_t numbytes)
{
    const unsigned char *from = src;
    unsigned char *to = dst;
    size_t zeros = 0;

    for (; numbytes >= 8; numbytes -= 8, from += 8, to += 8) {
        uint64_t word;

        memcpy(&word, from, 8);
        memcpy(to, &word, 8);
        zeros += (size_t)gasnett_count0s_uint64_t(word);
    }

    for (; numbytes; numbytes--)
        zeros += (*to++ = *from++) == 0;

    return zeros;
}

/* Each word of eight bytes is rotated in and multiplied by an odd constant, so that every bit
 * and the order matter. */
uint64_t gasnett_checksum(const void *p, int numbytes)
{
    const unsigned char *at = p;
    size_t left = numbytes > 0 ? (size_t)numbytes : 0;
    uint64_t sum = UINT64_C(0x9e3779b97f4a7c15) ^ left;

    while (left) {
        uint64_t word = 0;
        size_t n = left < 8 ? left : 8;

        memcpy(&word, at, n);
        sum = ((sum << 23 | sum >> 41) ^ word) * UINT64_C(0xff51afd7ed558ccd);
        at += n;
        left -= n;
    }

    return sum ^ sum >> 29;
}

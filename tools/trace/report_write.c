/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a page: its text with the data in it, compressed; see report.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/trace/report.h"

enum {
    NONCE = 16,       /* random bytes */
    LINE = 57 * 1024, /* bytes of the data that are written at once, a multiple of 3 */
    LEVEL = 6
};

/* Where the page's text has something else for each page. */
static const char nonce_here[] = "@NONCE@";
static const char data_here[] = "@DATA@";

bool report_deflate(const struct report_bytes *data, struct report_bytes *packed,
                    size_t *page_len_p)
{
    uLongf len = compressBound(data->len);

    packed->at = malloc(len);
    if (!packed->at || compress2(packed->at, &len, data->at, data->len, LEVEL) != Z_OK)
        return false;

    packed->len = len;
    *page_len_p = trace_page_len + (len + 2) / 3 * 4;
    return true;
}

static void put_base64(FILE *out, const struct report_bytes *packed)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(LINE / 3 * 4);

    if (!text) {
        errno = ENOMEM;
        return;
    }

    for (size_t at = 0; at < packed->len && !ferror(out);) {
        size_t n = 0;

        for (size_t end = at + LINE; at < packed->len && at < end; at += 3) {
            unsigned b = (unsigned)packed->at[at] << 16;

            if (at + 1 < packed->len)
                b |= (unsigned)packed->at[at + 1] << 8;
            if (at + 2 < packed->len)
                b |= packed->at[at + 2];

            text[n++] = digits[b >> 18];
            text[n++] = digits[b >> 12 & 63];
            text[n++] = at + 1 < packed->len ? digits[b >> 6 & 63] : '=';
            text[n++] = at + 2 < packed->len ? digits[b & 63] : '=';
        }

        fwrite(text, 1, n, out);
    }

    free(text);
}

/* The page's scripts and styles carry a number that no one can know before, and the page forbids all
 * others. */
static bool make_nonce(char *nonce)
{
    unsigned char bytes[NONCE];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;

    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(nonce + 2 * i, "%02x", bytes[i]);

    return true;
}

static bool is_here(const unsigned char *at, const char *word)
{
    size_t len = strlen(word);

    return (size_t)(trace_page + trace_page_len - at) >= len && memcmp(at, word, len) == 0;
}

static void put_page(FILE *out, const char *nonce, const struct report_bytes *packed)
{
    const unsigned char *end = trace_page + trace_page_len;
    const unsigned char *from = trace_page;

    for (const unsigned char *at = from; at < end; at++) {
        bool nonce_is_here = *at == '@' && is_here(at, nonce_here);

        if (!nonce_is_here && !(*at == '@' && is_here(at, data_here)))
            continue;

        fwrite(from, 1, (size_t)(at - from), out);
        if (nonce_is_here)
            fputs(nonce, out);
        else
            put_base64(out, packed);

        from = at + strlen(nonce_is_here ? nonce_here : data_here);
        at = from - 1;
    }

    fwrite(from, 1, (size_t)(end - from), out);
}

bool report_write(const char *path, const struct report_bytes *packed)
{
    bool to_stdout = strcmp(path, "-") == 0;
    char nonce[2 * NONCE + 1];
    struct stat st;

    if (!make_nonce(nonce))
        return !trace_fail("no random bytes for the page: %s", strerror(errno));

    FILE *out = to_stdout ? stdout : fopen(path, "wb");

    if (!out)
        return !trace_fail("%s cannot be written: %s; -o names another file", path,
                           strerror(errno));

    bool is_file = !to_stdout && fstat(fileno(out), &st) == 0 && S_ISREG(st.st_mode);

    errno = 0;
    put_page(out, nonce, packed);

    bool ok = fflush(out) == 0 && !ferror(out) && errno != ENOMEM;
    int why = errno;

    if (to_stdout && !ok) {
        trace_fail("the page cannot be written to the standard output: %s", strerror(why));
        _exit(1); /* one sentence, not a second one at exit */
    }

    if (!to_stdout && fclose(out) != 0 && ok) {
        ok = false;
        why = errno;
    }

    if (!ok) {
        if (is_file)
            unlink(path); /* a part of a page is none */

        trace_fail("%s cannot be written: %s; it needs %zu bytes", path, strerror(why),
                   trace_page_len + (packed->len + 2) / 3 * 4);
    }

    return ok;
}

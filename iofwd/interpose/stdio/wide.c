/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wide-character functions on our streams: on a stream of fopencookie the C library's own functions
 * fail or crash (glibc 2.36).
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 *
 * They convert in the locale's encoding, or in that of fopen's ",ccs=", and call the byte
 * functions; so byte calls on a wide stream of ours work too.
 */
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <wchar.h>

#include "base/platform.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/own_table.h"

int amph_do_fwide(FILE *f, int mode)
{
    return amph_ip_stream_orient(f, mode);
}

/* The first call on a stream sets its orientation; wide calls fail on a byte stream. */
static bool is_wide(FILE *f)
{
    return amph_ip_stream_orient(f, 1) > 0;
}

#define AT_END 0x10 /* end-of-file flag of a FILE, the same in every glibc */
#define HAS_ERROR 0x20

/* ---- ",ccs=" in fopen's mode ---- */

#define CODED_MAX 64 /* bytes of a character, including its transliteration */

struct amph_ip_charset {
    iconv_t in, out;
    /* offset after the last character; at any other offset the conversion state is reset */
    off_t at;
    unsigned count;  /* entries of next */
    wchar_t next[8]; /* characters that precede the next byte, in reverse order */
};

static size_t encode(struct amph_ip_charset *set, wchar_t c, char to[CODED_MAX])
{
    char *from = (char *)&c;
    size_t left = sizeof c;
    size_t room = CODED_MAX;

    return iconv(set->out, &from, &left, &to, &room) == (size_t)-1 ? (size_t)-1 : CODED_MAX - room;
}

bool amph_ip_charset_open(const char *mode, struct amph_ip_charset **set_p)
{
    const char *asked = strstr(mode, ",ccs=");
    const char *slash;
    char name[64], to[80], unused[CODED_MAX];

    *set_p = NULL;
    if (!asked)
        return true;

    size_t len = strcspn(asked += 5, ",");

    slash = memchr(asked, '/', len);

    struct amph_ip_charset *set = len && len < sizeof name && !slash ? calloc(1, sizeof *set)
                                                                     : NULL;

    if (!set) {
        errno = EINVAL;
        return false;
    }

    memcpy(name, asked, len);
    name[len] = 0;
    snprintf(to, sizeof to, "%s//TRANSLIT", name); /* as the C library does */
    set->in = iconv_open("WCHAR_T", name);
    set->out = iconv_open(to, "WCHAR_T");
    *set_p = set;

    if (set->in == (iconv_t)-1 || set->out == (iconv_t)-1) {
        amph_ip_charset_close(set);
        *set_p = NULL;
        errno = EINVAL;
        return false;
    }

    /* the C library writes no byte order mark: discard iconv's */
    encode(set, L'a', unused);
    return true;
}

void amph_ip_charset_close(struct amph_ip_charset *set)
{
    if (set && set->in != (iconv_t)-1)
        iconv_close(set->in);

    if (set && set->out != (iconv_t)-1)
        iconv_close(set->out);

    free(set);
}

/* Discards the conversion state if the program has moved the stream since the last call. */
static void follow_position(FILE *f, struct amph_ip_charset *set)
{
    if (ftello(f) != set->at) {
        iconv(set->in, NULL, NULL, NULL, NULL);
        set->count = 0;
    }
}

/* Feeds one more byte, or EOF, to the converter, after the bytes held back.  false: invalid. */
static bool decode(struct amph_ip_charset *set, int byte, char bytes[CODED_MAX], size_t *held_p)
{
    wchar_t got[AMPH_COUNTOF(set->next)];
    char *from = bytes;
    char *to = (char *)got;
    size_t room = sizeof got;

    if (byte == EOF) {
        /* some encodings return a character only when they see the next one */
        iconv(set->in, NULL, NULL, &to, &room);
    } else {
        bytes[(*held_p)++] = (char)byte;

        size_t left = *held_p;
        if (iconv(set->in, &from, &left, &to, &room) == (size_t)-1 &&
            (errno != EINVAL || left == CODED_MAX))
            return false;

        memmove(bytes, from, left);
        *held_p = left;
    }

    set->count = (unsigned)((wchar_t *)to - got);
    for (unsigned i = 0; i < set->count; i++)
        set->next[i] = got[set->count - 1 - i];

    return true;
}

/* Wide calls run between follow_position and keep_position, each of which may ask the server for the
 * offset. */
static wint_t next_char(FILE *f, struct amph_ip_charset *set)
{
    char bytes[CODED_MAX];
    size_t held = 0;
    bool more = true;
    bool valid = true;

    while (!set->count && more && valid) {
        int byte = fgetc(f);

        more = byte != EOF;
        valid = decode(set, byte, bytes, &held);
    }

    if (set->count)
        return (wint_t)set->next[--set->count];

    if (!valid || held) {
        f->_flags |= HAS_ERROR;
        errno = EILSEQ;
    }

    return WEOF;
}

static void keep_position(FILE *f, struct amph_ip_charset *set)
{
    int err = errno;

    set->at = ftello(f);
    errno = err;
}

static wint_t coded_getwc(FILE *f, struct amph_ip_charset *set)
{
    follow_position(f, set);
    wint_t c = next_char(f, set);

    keep_position(f, set);
    return c;
}

static wint_t coded_ungetwc(wint_t c, FILE *f, struct amph_ip_charset *set)
{
    follow_position(f, set);
    set->at = ftello(f);
    if (set->count == AMPH_COUNTOF(set->next))
        return WEOF;

    set->next[set->count++] = (wchar_t)c;
    f->_flags &= ~AT_END;
    return c;
}

/* ---- the functions ---- */

wint_t amph_do_fgetwc(FILE *f)
{
    mbstate_t *state = amph_ip_stream_state(f, false);
    struct amph_ip_charset *set = amph_ip_stream_charset(f);

    if (!is_wide(f))
        return WEOF;
    if (AMPH_UNLIKELY(set != NULL))
        return coded_getwc(f, set);

    for (;;) {
        wchar_t c;
        int byte = fgetc(f);

        if (byte == EOF) {
            if (!mbsinit(state))
                errno = EILSEQ;

            memset(state, 0, sizeof *state);
            return WEOF;
        }

        char one = (char)byte;
        size_t n = mbrtowc(&c, &one, 1, state);

        if (n == (size_t)-2)
            continue;

        if (n == (size_t)-1) {
            memset(state, 0, sizeof *state);
            f->_flags |= HAS_ERROR;
            return WEOF;
        }

        return (wint_t)c;
    }
}

wchar_t *amph_do_fgetws(wchar_t *buf, int n, FILE *f)
{
    int at = 0;
    struct amph_ip_charset *set = is_wide(f) ? amph_ip_stream_charset(f) : NULL;

    if (set)
        follow_position(f, set);

    while (at < n - 1) {
        wint_t c = set ? next_char(f, set) : amph_do_fgetwc(f);

        if (c == WEOF)
            break;

        buf[at++] = (wchar_t)c;
        if (c == L'\n')
            break;
    }

    if (set)
        keep_position(f, set);

    if (n <= 0 || (at == 0 && n > 1))
        return NULL;

    buf[at] = 0;
    return buf;
}

wint_t amph_do_ungetwc(wint_t c, FILE *f)
{
    char bytes[MB_LEN_MAX];
    mbstate_t state = { 0 };
    struct amph_ip_charset *set = amph_ip_stream_charset(f);

    if (AMPH_UNLIKELY(set != NULL))
        return c == WEOF ? WEOF : coded_ungetwc(c, f, set);

    size_t n = c == WEOF || !is_wide(f) ? (size_t)-1 : wcrtomb(bytes, (wchar_t)c, &state);
    if (n == (size_t)-1)
        return WEOF;

    while (n)
        if (ungetc((unsigned char)bytes[--n], f) == EOF)
            return WEOF;

    return c;
}

wint_t amph_do_fputwc(wchar_t c, FILE *f)
{
    char bytes[CODED_MAX > MB_LEN_MAX ? CODED_MAX : MB_LEN_MAX];
    struct amph_ip_charset *set = amph_ip_stream_charset(f);

    if (!is_wide(f))
        return WEOF;

    size_t n = set ? encode(set, c, bytes) : wcrtomb(bytes, c, amph_ip_stream_state(f, true));

    if (n == (size_t)-1 || fwrite(bytes, 1, n, f) != n)
        return WEOF;

    return (wint_t)c;
}

/* glibc's putwc and putwchar do not look at the orientation, as fputwc does: on a byte stream they put
 * the lowest byte of c.  That is how wcout reaches a standard output that cout has used. */
wint_t amph_do_putwc(wchar_t c, FILE *f)
{
    if (is_wide(f))
        return amph_do_fputwc(c, f);

    return putc((unsigned char)c, f) == EOF ? WEOF : (wint_t)(unsigned char)c;
}

int amph_do_fputws(const wchar_t *text, FILE *f)
{
    for (; *text; text++)
        if (amph_do_fputwc(*text, f) == WEOF)
            return -1;

    return 1;
}

int amph_do_vfwprintf(FILE *f, const wchar_t *format, va_list ap)
{
    wchar_t *text = NULL;
    size_t chars = 0;
    FILE *memory = open_wmemstream(&text, &chars);

    if (!memory)
        return -1;

    int n = vfwprintf(memory, format, ap);

    fclose(memory);
    for (size_t i = 0; n >= 0 && i < chars; i++)
        if (amph_do_fputwc(text[i], f) == WEOF)
            n = -1;

    free(text);
    return n;
}

/* The C library scans wide text from a copy of the next characters in memory.  Returns the result
 * of the scan, and the number of bytes consumed or -1. */
static int scan_copy(const void *text, size_t n, bool coded, const wchar_t *format, va_list ap,
                     off_t *taken_p)
{
    /* wchar_t, the encoding's name in fopen's mode */
    const char *mode = *(const char *)L"\1" ? "r,ccs=UCS-4LE" : "r,ccs=UCS-4BE";
    char name[40];
    int fd = libc_memfd_create("wide", MFD_CLOEXEC);
    bool made = fd >= 0 && libc_write(fd, text, n) == (ssize_t)n &&
                libc_lseek64(fd, 0, SEEK_SET) == 0;

    snprintf(name, sizeof name, "%s/%d", amph_ip_table_directory(), fd);

    FILE *copy = NULL;

    if (made)
        copy = coded ? libc_fopen(name, mode) : libc_fdopen(fd, "r");

    int got = copy ? libc_vfwscanf(copy, format, ap) : EOF;

    *taken_p = copy ? ftello(copy) : -1;
    if (copy)
        fclose(copy);

    if (fd >= 0 && (coded || !copy))
        libc_close(fd);

    return got;
}

/* The size of the copy: small at first, larger if all of it was consumed.  %ms allocates, so a scan
 * is not repeated for it; a FIFO cannot be read again, so its data is read once. */
#define SCAN_FIRST 2048
#define SCAN_BYTES 65536

static size_t next_room(size_t room, off_t at, const wchar_t *format)
{
    bool once = at < 0 || wcschr(format, L'm');

    if (once)
        return room ? 0 : SCAN_BYTES;

    return room ? 8 * room : SCAN_FIRST;
}

/* Scans in characters: the stream seeks back and skips the consumed ones. */
static int coded_scan(FILE *f, struct amph_ip_charset *set, const wchar_t *format, va_list ap)
{
    follow_position(f, set);

    const off_t at = ftello(f);
    const struct amph_ip_charset before = *set;
    wchar_t *text = NULL;
    wchar_t *longer;
    off_t taken = -1;
    int got = EOF;

    for (size_t room = next_room(0, at, format); room && (longer = realloc(text, room));
         room = next_room(room, at, format)) {
        size_t n = 0;
        va_list args;

        text = longer;
        for (wint_t c; n < room / sizeof *text && (c = next_char(f, set)) != WEOF; n++)
            text[n] = (wchar_t)c;

        va_copy(args, ap);
        got = scan_copy(text, n * sizeof *text, true, format, args, &taken);
        va_end(args);
        if (at < 0 || taken < 0)
            break;

        fseeko(f, at, SEEK_SET);
        iconv(set->in, NULL, NULL, NULL, NULL);
        *set = before;
        if ((size_t)taken < room)
            break;
    }

    free(text);
    for (off_t i = 0; at >= 0 && i < taken / (off_t)sizeof *text; i++)
        next_char(f, set);

    keep_position(f, set);
    return got;
}

/* Scans and then positions the stream behind the consumed bytes. */
int amph_do_vfwscanf(FILE *f, const wchar_t *format, va_list ap)
{
    struct amph_ip_charset *set = amph_ip_stream_charset(f);

    if (!is_wide(f))
        return EOF;
    if (AMPH_UNLIKELY(set != NULL))
        return coded_scan(f, set, format, ap);

    const off_t at = ftello(f);
    off_t taken = -1;
    char *text = NULL;
    char *longer;
    int got = EOF;

    for (size_t room = next_room(0, at, format); room && (longer = realloc(text, room));
         room = next_room(room, at, format)) {
        va_list args;

        text = longer;

        size_t n = fread(text, 1, room, f);

        va_copy(args, ap);
        got = scan_copy(text, n, false, format, args, &taken);
        va_end(args);

        /* the copy may end in the middle of a character */
        if (at < 0 || n < room || taken < 0 || (size_t)taken + MB_LEN_MAX <= n)
            break;

        fseeko(f, at, SEEK_SET);
    }

    if (at >= 0 && taken >= 0)
        fseeko(f, at + taken, SEEK_SET);

    free(text);
    return got;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wide-character functions on our streams: on a stream of fopencookie the C library's own fail or crash (glibc 2.36).
 * Layer: iofwd (preload).  Thread rule: as the C library's functions.
 *
 * They convert by the locale and use the byte functions, so byte calls on a wide stream of ours work.
 */
#include <sys/mman.h>
#include <wchar.h>

#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/targets.h"

int x_fwide(FILE *f, int mode)
{
    return fwd_stream_orient(f, mode);
}

/* The first call on a stream says what it is of; wide ones fail on one of bytes. */
static bool is_wide(FILE *f)
{
    return fwd_stream_orient(f, 1) > 0;
}

wint_t x_fgetwc(FILE *f)
{
    mbstate_t *state = fwd_stream_state(f, false);
    if (!is_wide(f))
        return WEOF;
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
            f->_flags |= 0x20; /* the stream's error mark */
            return WEOF;
        }
        return (wint_t)c;
    }
}

wchar_t *x_fgetws(wchar_t *buf, int n, FILE *f)
{
    int at = 0;
    while (at < n - 1) {
        wint_t c = x_fgetwc(f);
        if (c == WEOF)
            break;
        buf[at++] = (wchar_t)c;
        if (c == L'\n')
            break;
    }
    if (n <= 0 || (at == 0 && n > 1))
        return NULL;
    buf[at] = 0;
    return buf;
}

wint_t x_ungetwc(wint_t c, FILE *f)
{
    char bytes[MB_LEN_MAX];
    mbstate_t state = { 0 };
    size_t n = c == WEOF || !is_wide(f) ? (size_t)-1 : wcrtomb(bytes, (wchar_t)c, &state);
    if (n == (size_t)-1)
        return WEOF;
    while (n)
        if (ungetc((unsigned char)bytes[--n], f) == EOF)
            return WEOF;
    return c;
}

wint_t x_fputwc(wchar_t c, FILE *f)
{
    char bytes[MB_LEN_MAX];
    size_t n = is_wide(f) ? wcrtomb(bytes, c, fwd_stream_state(f, true)) : (size_t)-1;
    if (n == (size_t)-1 || fwrite(bytes, 1, n, f) != n)
        return WEOF;
    return (wint_t)c;
}

int x_fputws(const wchar_t *text, FILE *f)
{
    for (; *text; text++)
        if (x_fputwc(*text, f) == WEOF)
            return -1;
    return 1;
}

int x_vfwprintf(FILE *f, const wchar_t *format, va_list ap)
{
    wchar_t *text = NULL;
    size_t chars = 0;
    FILE *memory = open_wmemstream(&text, &chars);
    if (!memory)
        return -1;
    int n = vfwprintf(memory, format, ap);
    fclose(memory);
    for (size_t i = 0; n >= 0 && i < chars; i++)
        if (x_fputwc(text[i], f) == WEOF)
            n = -1;
    free(text);
    return n;
}

/* The C library reads wide text from a copy of what comes next, in memory; then the stream is put behind what was taken. */
#define SCAN_BYTES 65536
int x_vfwscanf(FILE *f, const wchar_t *format, va_list ap)
{
    if (!is_wide(f))
        return EOF;
    off_t at = ftello(f);
    char *text = malloc(SCAN_BYTES);
    int fd = text ? real_memfd_create("wide", MFD_CLOEXEC) : -1;
    size_t n = fd < 0 ? 0 : fread(text, 1, SCAN_BYTES, f);
    FILE *copy = fd >= 0 && real_write(fd, text, n) == (ssize_t)n && real_lseek64(fd, 0, SEEK_SET) == 0 ? real_fdopen(fd, "r") : NULL;
    int got = copy ? real_vfwscanf(copy, format, ap) : EOF;
    off_t taken = copy ? ftello(copy) : 0;
    if (at >= 0 && taken >= 0)
        fseeko(f, at + taken, SEEK_SET);
    if (copy)
        fclose(copy);
    else if (fd >= 0)
        real_close(fd);
    free(text);
    return got;
}

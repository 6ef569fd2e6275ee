/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends a process with a sentence; see die.h.  tests/tree/layers.sh checks that no other file of the
 * interposer and the client ends one.
 *
 * Layer: iofwd (interposer).
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iofwd/interpose/process/die.h"

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

void amph_ip_put_error(const char *text, size_t len_bytes)
{
    (void)!(amph_ip_fd(STDERR_FILENO) ? amph_do_write(STDERR_FILENO, text, len_bytes)
                                      : libc_write(STDERR_FILENO, text, len_bytes));
}

static void say(const char *fmt, va_list ap)
{
    char line[2048] = "amphora: ";
    size_t len = strlen(line);
    int n = vsnprintf(line + len, sizeof line - len - 1, fmt, ap);

    len += n > 0 ? (size_t)n : 0;
    if (len > sizeof line - 2)
        len = sizeof line - 2;

    line[len++] = '\n';
    amph_ip_put_error(line, len);
}

void amph_ip_die(int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    libc__Exit(code);
    __builtin_unreachable();
}

void amph_ip_die_say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

void amph_ip_die_overflow(size_t len_bytes, size_t cap_bytes)
{
    amph_ip_die_say(
        "*** buffer overflow detected ***: a call of this program is given a buffer of %zu "
        "bytes and a size of %zu",
        cap_bytes, len_bytes);
    libc_abort();
    __builtin_unreachable();
}

void amph_ip_die_reported(void)
{
    libc__Exit(1);
    __builtin_unreachable();
}

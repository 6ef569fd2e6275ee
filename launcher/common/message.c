/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the user; see message.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/common/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void amph_say(const char *fmt, ...)
{
    char line[2048];
    int saved = errno;
    int n = snprintf(line, sizeof line, "%s: ", program_invocation_short_name);
    va_list ap;

    va_start(ap, fmt);
    errno = saved;

    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);

    va_end(ap);

    size_t len = (size_t)n + (m > 0 ? (size_t)m : 0);

    if (len > sizeof line - 2)
        len = sizeof line - 2;

    line[len++] = '\n';
    while (write(STDERR_FILENO, line, len) < 0 && errno == EINTR)
        ;

    errno = saved;
}

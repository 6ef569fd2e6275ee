/* SPDX-License-Identifier: BSD-3-Clause */
/* Sentences for the user; see say.h.  Layer: launcher. */
#include "launcher/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void amph_say(const char *fmt, ...)
{
    char line[2048];
    int saved = errno;
    int n = snprintf(line, sizeof line, "amphora-run: ");
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

unsigned amph_text_distance(const char *a, const char *b)
{
    unsigned row[64], n = (unsigned)strlen(b);
    if (n > 63 || strlen(a) > 63)
        return 99;
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[n];
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text that functions of the C library print on standard error by system calls of their own: syslog
 * with LOG_PERROR, and herror.  The placeholder of a forwarded standard error refuses such a call, so
 * the text is written here.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, as the C library's functions.
 */
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/stdio/state.h"

static void write_all(const char *text, size_t len)
{
    while (len) {
        ssize_t n = amph_do_write(STDERR_FILENO, text, len);

        if (n <= 0)
            return;

        text += n;
        len -= (size_t)n;
    }
}

/* ---- syslog ---- */

void amph_do_openlog(const char *ident, int options, int facility)
{
    if (ident)
        __atomic_store_n(&amph_ip_stdio.log.ident, ident, __ATOMIC_RELAXED);

    __atomic_store_n(&amph_ip_stdio.log.options, options, __ATOMIC_RELAXED);
    libc_openlog(ident, options, facility);
}

void amph_do_closelog(void)
{
    __atomic_store_n(&amph_ip_stdio.log.ident, NULL, __ATOMIC_RELAXED);
    libc_closelog();
}

/* Prints "ident[process]: text" and the end of the line, as the C library does. */
static void print_log(const char *format, va_list ap, int options)
{
    const char *ident = __atomic_load_n(&amph_ip_stdio.log.ident, __ATOMIC_RELAXED);
    char process[24] = "";
    char *text = NULL;
    char *line = NULL;
    int len = vasprintf(&text, format, ap);

    if (len < 0)
        return;

    if (options & LOG_PID)
        snprintf(process, sizeof process, "[%d]", (int)getpid());

    int n = asprintf(&line, "%s%s: %s%s", ident ? ident : program_invocation_short_name, process,
                     text, len && text[len - 1] == '\n' ? "" : "\n");

    free(text);
    if (n < 0)
        return;

    write_all(line, (size_t)n);
    free(line);
}

/* Called only while standard error is forwarded.  In a static program the C library's own call is
 * caught, so it prints. */
void amph_do_vsyslog(int priority, const char *format, va_list ap)
{
    int before = errno;
    int options = __atomic_load_n(&amph_ip_stdio.log.options, __ATOMIC_RELAXED);
    bool prints = !amph_ip_client_is_linked && (options & LOG_PERROR) &&
                  (setlogmask(0) & LOG_MASK(LOG_PRI(priority)));
    va_list copy;

    va_copy(copy, ap);
    libc_vsyslog(priority, format, ap);
    errno = before; /* format may have %m */

    if (prints)
        print_log(format, copy, options);

    va_end(copy);
}

/* ---- names of hosts ---- */

/* Called only while standard error is forwarded. */
void amph_do_herror(const char *what)
{
    bool named = what && *what;
    char *line;

    if (asprintf(&line, "%s%s%s\n", named ? what : "", named ? ": " : "", hstrerror(h_errno)) < 0)
        return;

    write_all(line, strlen(line));
    free(line);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The log; see log.h.  Layer: base. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"

static char identity[96];

void (*amph_fatal_look)(void);
void (*amph_fatal_hook)(int exit_code);

static _Atomic bool error_said;

void amph_log_identity(const char *who)
{
    snprintf(identity, sizeof identity, "%s", who);
}

enum amph_log_level amph_log_level(void)
{
    /* The order of the words in AMPHORA_LOG's row, whose first is the default. */
    static const enum amph_log_level by_word[] = { AMPH_LOG_WARN, AMPH_LOG_ERROR, AMPH_LOG_INFO, AMPH_LOG_DEBUG };
    return by_word[amph_env_enum(AMPH_ENV_LOG)];
}

static void emit(const char *fmt, va_list ap)
{
    char line[1024];
    int saved = errno;
    int n = snprintf(line, sizeof line, "amphora: %s%s", identity, identity[0] ? ": " : "");
    errno = saved; /* for %m */
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    if (m < 0)
        m = 0;
    size_t len = (size_t)n + (size_t)m;
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    line[len++] = '\n';
    while (write(STDERR_FILENO, line, len) < 0 && errno == EINTR)
        ;
    errno = saved;
}

void amph_log(enum amph_log_level level, const char *fmt, ...)
{
    int saved = errno; /* reading the level may change what %m says */
    if (level > amph_log_level())
        return;
    va_list ap;
    errno = saved;
    va_start(ap, fmt);
    emit(fmt, ap);
    va_end(ap);
    if (level == AMPH_LOG_ERROR)
        error_said = true;
}

bool amph_log_error_said(void)
{
    return error_said;
}

void amph_fatal(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    emit(fmt, ap);
    va_end(ap);
    if (amph_fatal_look)
        amph_fatal_look();
    if (amph_fatal_hook)
        amph_fatal_hook(1);
    _exit(1);
}

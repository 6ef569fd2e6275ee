/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line a message, on standard error, written with one write(2) so that lines of
 * several processes never mix. Layer: base.  Thread rule: callable from any thread.
 *
 * Lines look like "amphora: compute 3 (node07): message".  AMPHORA_LOG chooses the level: error,
 * warn (default), info, debug.
 */
#ifndef AMPH_BASE_LOG_H
#define AMPH_BASE_LOG_H

#include <stdbool.h>

#include "base/platform.h"

enum amph_log_level {
    AMPH_LOG_ERROR,
    AMPH_LOG_WARN,
    AMPH_LOG_INFO,
    AMPH_LOG_DEBUG
};

/* Sets what stands between "amphora: " and the message ("compute 3 (node07)"); copied, at most 95
 * bytes are kept. */
void amph_log_identity(const char *who);

void amph_log(enum amph_log_level level, const char *fmt, ...) AMPH_PRINTF(2, 3);

/* by this process, so that what follows from it need not be said as loudly */
bool amph_log_error_said(void);
#define amph_error(...) amph_log(AMPH_LOG_ERROR, __VA_ARGS__)
#define amph_warn(...) amph_log(AMPH_LOG_WARN, __VA_ARGS__)
#define amph_info(...) amph_log(AMPH_LOG_INFO, __VA_ARGS__)
#define amph_debug(...) amph_log(AMPH_LOG_DEBUG, __VA_ARGS__)

/*
 * For what every process of the job on this host finds out and would say in the same words: the
 * first of them says it, the others keep quiet.  Under amphora-run a file in the job's directory
 * remembers it; elsewhere the first says it while it lives, to those with the same parent.
 */
void amph_log_shared(enum amph_log_level level, const char *fmt, ...) AMPH_PRINTF(2, 3);
#define amph_error_shared(...) amph_log_shared(AMPH_LOG_ERROR, __VA_ARGS__)
#define amph_warn_shared(...) amph_log_shared(AMPH_LOG_WARN, __VA_ARGS__)
#define AMPH_LOG_SHARED_FILE "said-" /* and a number: names in the job's directory */

/* Logs one sentence and ends the process with exit code 1 (by _exit, after telling the launcher:
 * see amph_fatal_hook). */
void amph_fatal(const char *fmt, ...) AMPH_PRINTF(1, 2) AMPH_NORETURN;

/* What amph_fatal calls when its sentence is out: a backtrace, a stop for the debugger, if they
 * were asked for.  NULL: nothing. */
extern void (*amph_fatal_look)(void);

/* What amph_fatal calls before it ends the process; boot sets it so that the job ends at once.
 * NULL: nothing. */
extern void (*amph_fatal_hook)(int exit_code);

#endif

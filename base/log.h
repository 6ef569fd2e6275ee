/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one line a message, on standard error.  Each line is written with one write(2), so that
 * lines of several processes never mix.
 *
 * Layer: base.  Thread rule: callable from any thread.
 *
 * Lines look like "amphora: compute 3 (node07): message".  AMPHORA_LOG chooses the level: error,
 * warn (default), info, debug.  With AMPHORA_LOG_FORMAT=json each line is an object:
 *
 *   {"time":1764110401.123456,"level":"warn","process":"compute 3 (node07)","pid":4711,
 *    "request":"3-128","message":"..."}
 *
 * "time" is in seconds since 1970 (UTC), which needs no time zone and so no file.  "request" is there
 * if the message concerns a forwarded call (amph_log_request_set); as text, the line then ends with
 * " [request 3-128]".
 */
#ifndef AMPH_BASE_LOG_H
#define AMPH_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"

enum amph_log_level {
    AMPH_LOG_ERROR,
    AMPH_LOG_WARN,
    AMPH_LOG_INFO,
    AMPH_LOG_DEBUG
};

#define AMPH_LOG_REQUEST_BYTES 48

/* Sets the name of this process in the log ("compute 3 (node07)").  who is copied, up to 95 bytes. */
void amph_log_identity(const char *who);

/* Gives each line to `take` first, which returns whether it has it; else, and for NULL, it goes to standard
 * error.  For a process whose standard error is a forwarded file. */
void amph_log_set_sink(bool (*take)(const char *line, size_t len_bytes));

/* Sets the level from now on: the index of a word of AMPHORA_LOG's row.  Any thread. */
void amph_log_set_level(unsigned word);

/* The word of the level in force. */
const char *amph_log_level_name(void);

/* Are messages of this level printed?  For callers whose message costs work. */
bool amph_log_is_on(enum amph_log_level level);

void amph_log(enum amph_log_level level, const char *fmt, ...) AMPH_PRINTF(2, 3);

/* Logs a message of level info whatever level is in force: for what happens once in a process
 * and belongs in every log file. */
void amph_log_always(const char *fmt, ...) AMPH_PRINTF(1, 2);

/* A request that messages concern: a client's number and the request's number among its own. */
struct amph_log_request {
    /* Writes the id of the request; NULL: the messages concern no request. */
    const char *(*name)(uint32_t client, uint64_t seq, char out[AMPH_LOG_REQUEST_BYTES]);
    uint32_t client;
    uint64_t seq;
};

/* The messages of the calling thread name this request from now on.  Returns the one before, which
 * the caller sets again when it has done its work. */
struct amph_log_request amph_log_request_set(struct amph_log_request request);

/* Has this process logged an error?  Then errors that follow from it are logged at a lower level. */
bool amph_log_error_said(void);
#define amph_error(...) amph_log(AMPH_LOG_ERROR, __VA_ARGS__)
#define amph_warn(...) amph_log(AMPH_LOG_WARN, __VA_ARGS__)
#define amph_info(...) amph_log(AMPH_LOG_INFO, __VA_ARGS__)
#define amph_debug(...) amph_log(AMPH_LOG_DEBUG, __VA_ARGS__)

/*
 * Logs a message that every process of the job on this host would log in the same words: the first
 * process logs it, the others do not.  Under amphora-run a file in the job's directory records it.
 * Elsewhere the processes with the same parent share it, for as long as the first one lives.
 */
void amph_log_shared(enum amph_log_level level, const char *fmt, ...) AMPH_PRINTF(2, 3);
#define amph_error_shared(...) amph_log_shared(AMPH_LOG_ERROR, __VA_ARGS__)
#define amph_warn_shared(...) amph_log_shared(AMPH_LOG_WARN, __VA_ARGS__)
#define AMPH_LOG_SHARED_FILE "said-" /* and a number: names of files in the job's directory */

/* Logs one sentence and ends the process with exit code 1 by _exit.  Calls the hooks below. */
void amph_fatal(const char *fmt, ...) AMPH_PRINTF(1, 2) AMPH_NORETURN;

/* What amph_fatal calls, in this order; NULL: nothing.  Other rooms set them. */
struct amph_fatal_hooks {
    /* before the message: does not return if the error is a consequence of another process's end,
     * which the launcher reports */
    void (*await_cause)(void);

    /* after the message: prints a backtrace or waits for a debugger, as the settings say */
    void (*look)(void);

    /* last: ends the job at once */
    void (*end_job)(int exit_code);
};

extern struct amph_fatal_hooks amph_fatal_hooks;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interposer's own sentences on standard error, and the only way by which it ends a process: with
 * one of them.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_DIE_H
#define AMPH_IOFWD_DIE_H

#include <stddef.h>

#include "base/platform.h"

/* Writes text to standard error, which may itself be a forwarded file: its placeholder would refuse
 * the kernel's write.  Not from inside the client, whose locks a forwarded write takes. */
void amph_ip_put_error(const char *text, size_t len_bytes) AMPH_COLD;

/* Prints "amphora: " and the message.  The caller then ends the process by amph_ip_die_reported. */
void amph_ip_die_say(const char *fmt, ...) AMPH_COLD AMPH_PRINTF(1, 2);

/* Prints "amphora: " and the message, and ends the process with this exit code at once. */
void amph_ip_die(int code, const char *fmt, ...) AMPH_NORETURN AMPH_COLD AMPH_PRINTF(2, 3);

/* A fortified call is given more bytes than its buffer has: ends the process by SIGABRT, as the C
 * library would. */
void amph_ip_die_overflow(size_t len_bytes, size_t cap_bytes) AMPH_NORETURN AMPH_COLD;

/* Ends the process with exit code 1 without a message: one has been printed. */
void amph_ip_die_reported(void) AMPH_NORETURN AMPH_COLD;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only way by which the interposer itself ends a process: with a sentence on standard error.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_DIE_H
#define AMPH_IOFWD_DIE_H

#include <stddef.h>

#include "base/platform.h"

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

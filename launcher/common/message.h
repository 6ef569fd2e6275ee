/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the launcher's programs to the user, on standard error.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_MESSAGE_H
#define AMPH_LAUNCHER_MESSAGE_H

#include <stddef.h>

#include "base/platform.h"

/* Prints "PROGRAM: sentence" (amphora-run, iofwd-run) as one line with one write. */
void amph_say(const char *fmt, ...) AMPH_PRINTF(1, 2);

#endif

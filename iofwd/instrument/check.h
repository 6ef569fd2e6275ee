/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program file is to forwarding: which of its calls are forwarded, and which way into it suits
 * (doc/ways-in.md).  Nothing is run, and nothing in the file is trusted.
 *
 * Layer: iofwd/instrument; launcher/attach uses it for iofwd-run -check.  Thread rule: one thread.
 */
#ifndef AMPH_IOFWD_CHECK_H
#define AMPH_IOFWD_CHECK_H

#include <stdio.h>

/* Prints the answers about the program at path; library: the preload library's path.  Returns the exit
 * code: 0 if the preload library forwards its calls, 1 if it needs another way, 2 if the file cannot be
 * read or is no program, after a sentence on standard error. */
int amph_check_print(FILE *out, const char *path, const char *library);

#endif

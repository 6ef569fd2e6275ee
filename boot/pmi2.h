/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client side of the PMI-2 wire protocol: a message is six characters that give its length,
 * right-aligned in blanks, and then "cmd=NAME;key=value;...", where a semicolon inside a value is
 * doubled.  Only the first exchange is a line of PMI-1.
 *
 * Layer: boot; internal.  Thread rule: as kvs.h.
 */
#ifndef AMPH_BOOT_PMI2_H
#define AMPH_BOOT_PMI2_H

#include <stdbool.h>
#include <stddef.h>

#define AMPH_PMI2_HEAD_BYTES 6
#define AMPH_PMI2_BODY_MAX 16384 /* of one message; longer ones from the server are a violation */

/* Does the environment name such a server (PMI_FD), and a job (PMI_JOBID)? */
bool amph_boot_pmi2_present(void);

/* Copies the value of `word` in a message's body (NUL-terminated).  false: no such word, or the
 * value does not fit. */
bool amph_boot_pmi2_word(const char *body, const char *word, char *value, size_t cap);
/* The length that a message's head states; -1: malformed or not allowed. */
long amph_boot_pmi2_length(const char head[AMPH_PMI2_HEAD_BYTES]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limits of this process (setrlimit, ulimit): what a user can do about one that was reached.
 *
 * Layer: base.  Thread rule: any thread.
 */
#ifndef AMPH_BASE_LIMITS_H
#define AMPH_BASE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the end of an error's sentence, with its "; ": the limit that errno value err says was reached,
 * and how to raise it.  Empty for errors that no limit causes. */
const char *amph_limit_remedy(int err);

/* What opening an endpoint takes of a stack, libfabric included, rounded up. */
#define AMPH_STACK_MIN_BYTES ((size_t)64 << 10)

/* Returns whether the stack may grow to min_bytes; if not, logs so.  who is the subject of that sentence:
 * "a client", for example. */
bool amph_limit_stack_suffices(const char *who, size_t min_bytes);

/* Returns whether the process can have `bytes` of memory more at the moment, for libraries that crash where
 * they get none. */
bool amph_limit_memory_suffices(size_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a thread of the client is doing, so that a build with --enable-debug can tell it that a call
 * is not allowed there. Layer: am.  Thread rule: a context is its thread's own.  Other builds
 * (AMPH_CHECKS 0) look at none of this, except that clients compiled with GASNET_DEBUG have their
 * handler-safe locks noted in any build.
 */
#ifndef AMPH_AM_CHECK_H
#define AMPH_AM_CHECK_H

#include <stdbool.h>

#include "base/platform.h"

struct amph_token;

enum {
    AMPH_HSL_MAX = 32
}; /* locks that one thread can be seen to hold */

struct amph_context {
    const struct amph_token *token; /* of the handler that runs, or NULL */
    unsigned held_before;           /* locks that were held when it began */
    const char *prepared;           /* the prepare call that waits for its commit, or NULL */
    unsigned nheld;
    const void *held[AMPH_HSL_MAX];
};

struct amph_context *amph_context(void);

/* Around each handler of the client's. */
void amph_context_enter(const struct amph_token *token);
void amph_context_leave(const struct amph_token *token);

#endif

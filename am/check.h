/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context of a client's thread, by which a build with --enable-debug reports calls that are not
 * allowed in it.
 * Layer: am.  Thread rule: each thread has its own context.
 *
 * Other builds (AMPH_CHECKS 0) do not use it, except that the handler-safe locks of clients
 * compiled with GASNET_DEBUG are recorded in any build.
 */
#ifndef AMPH_AM_CHECK_H
#define AMPH_AM_CHECK_H

#include <stdbool.h>

#include "base/platform.h"

struct amph_token;

enum {
    AMPH_HSL_MAX = 32 /* locks that are recorded for one thread */
};

struct amph_context {
    const struct amph_token *token; /* of the handler that runs, or NULL */
    unsigned held_before;           /* locks that were held when it began */
    const char *prepared;           /* the prepare call that has not been committed, or NULL */
    bool exiting;                   /* this thread has called amph_job_exit; in any build */
    unsigned nheld;
    const void *held[AMPH_HSL_MAX];
};

struct amph_context *amph_am_context_self(void);

/* Called around each handler of the client. */
void amph_am_context_enter(const struct amph_token *token);
void amph_am_context_leave(const struct amph_token *token);

#endif

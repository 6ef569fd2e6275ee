/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of the client's use of the API, made only by builds with --enable-debug; in other builds
 * these functions do nothing.  A violation ends the job with a message.
 *
 * Layer: extended.  Thread rule: any thread.
 */
#ifndef AMPH_EXTENDED_CHECK_H
#define AMPH_EXTENDED_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"
#include "extended/gex.h"

void amph_gex_checked_call(const char *call);
void amph_gex_checked_reply(const struct amph_token *token, const char *call);
void amph_gex_checked_token(const struct amph_token *token, const char *call);
void amph_gex_checked_transfer(uint32_t peer, const void *own, size_t nbytes, gex_Flags_t flags,
                               const char *call);
void amph_gex_checked_zero(gex_Flags_t flags, const char *call);

/* Checks a call that communicates, polls or tests events: not allowed before initialisation, in
 * handlers, while a handler-safe lock is held, and between a prepare and its commit. */
static inline void amph_check_call(const char *call)
{
    if (AMPH_CHECKS)
        amph_gex_checked_call(call);
}

/* Checks a reply: token must belong to the request handler that runs in this thread and has not
 * replied yet, and no lock may be held. */
static inline void amph_check_reply(const struct amph_token *token, const char *call)
{
    if (AMPH_CHECKS)
        amph_gex_checked_reply(token, call);
}

/* Checks a query of a token. */
static inline void amph_check_token(const struct amph_token *token, const char *call)
{
    if (AMPH_CHECKS)
        amph_gex_checked_token(token, call);
}

/* Checks that the flags of a message or transfer are true.  own: the local address or offset of
 * nbytes to or from peer. */
static inline void amph_check_transfer(uint32_t peer, const void *own, size_t nbytes,
                                       gex_Flags_t flags, const char *call)
{
    if (AMPH_CHECKS)
        amph_gex_checked_transfer(peer, own, nbytes, flags, call);
}

/* Checks that reserved flags are 0. */
static inline void amph_check_zero(gex_Flags_t flags, const char *call)
{
    if (AMPH_CHECKS)
        amph_gex_checked_zero(flags, call);
}

#endif

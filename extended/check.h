/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of the client's use of the API that only a build with --enable-debug makes.  Layer:
 * extended.  Thread rule: any thread. In other builds each of these is nothing.  What they find
 * ends the job with a sentence.
 */
#ifndef AMPH_EXTENDED_CHECK_H
#define AMPH_EXTENDED_CHECK_H

#include "extended/gex.h"

void amph_checked_call(const char *call);
void amph_checked_reply(const struct amph_token *token, const char *call);
void amph_checked_token(const struct amph_token *token, const char *call);
void amph_checked_transfer(uint32_t peer, const void *own, size_t nbytes, gex_Flags_t flags,
                           const char *call);
void amph_checked_zero(gex_Flags_t flags, const char *call);

/* A call that communicates, polls or looks at events: not before initialisation, not from handlers,
 * not while a handler-safe lock is held, not between a prepare and its commit. */
static inline void amph_check_call(const char *call)
{
    if (AMPH_CHECKS)
        amph_checked_call(call);
}

/* A reply: token is that of the handler which runs in this thread, of a request, without reply so
 * far; no lock is held. */
static inline void amph_check_reply(const struct amph_token *token, const char *call)
{
    if (AMPH_CHECKS)
        amph_checked_reply(token, call);
}

/* A question about a token. */
static inline void amph_check_token(const struct amph_token *token, const char *call)
{
    if (AMPH_CHECKS)
        amph_checked_token(token, call);
}

/* What is stated by the flags of a message or transfer of nbytes at own (or at that offset) to or
 * from peer. */
static inline void amph_check_transfer(uint32_t peer, const void *own, size_t nbytes,
                                       gex_Flags_t flags, const char *call)
{
    if (AMPH_CHECKS)
        amph_checked_transfer(peer, own, nbytes, flags, call);
}

/* Flags that are reserved. */
static inline void amph_check_zero(gex_Flags_t flags, const char *call)
{
    if (AMPH_CHECKS)
        amph_checked_zero(flags, call);
}

#endif

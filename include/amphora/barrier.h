/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers of all processes, by name.  GASNet-1 spec, "Barriers"; part of gasnetex.h as well, where
 * clients expect them.  Not from handlers.
 */
#ifndef AMPHORA_BARRIER_H
#define AMPHORA_BARRIER_H

#include "amphora/types.h"

AMPHORA_BEGIN_C

/* Named (flags 0), GASNET_BARRIERFLAG_ANONYMOUS, _MISMATCH, _UNNAMED (anonymous, and said so by every
 * process). */
void gasnet_barrier_notify(int id, int flags);
/* GASNET_OK or GASNET_ERR_BARRIER_MISMATCH; try also GASNET_ERR_NOT_READY. */
int gasnet_barrier_wait(int id, int flags);
int gasnet_barrier_try(int id, int flags);
/* Both in one. */
int gasnet_barrier(int id, int flags);
/* The name of the last barrier that this process has waited for: 0 and *id (which may be NULL),
 * where some process named it and none mismatched; 1: it was anonymous;
 * GASNET_ERR_BARRIER_MISMATCH. */
int gasnet_barrier_result(int *id);

AMPHORA_END_C

#endif

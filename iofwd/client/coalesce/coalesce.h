/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small consecutive calls that travel as few large ones; see coalesce/coalesce.c.  Layer: iofwd.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_COLLECT_H
#define AMPH_IOFWD_CLIENT_COLLECT_H

#include <inttypes.h>

#include "iofwd/client/internal.h"

/* Puts the layer into the list; before the first call, fwd_state.lock held. */
void fwd_collect_open(void);

/* Announces `calls` consecutive reads or writes of `bytes` together.  0, ENOMEM, or the late error of an earlier run. */
int fwd_collect_announce(struct amph_fwd_client *cl, const struct amph_fwd_file *file, bool write, uint64_t bytes, unsigned calls);

/* Before an exec: the open files that no other process has come to, as text for the new image, each by this format of server and handle.
 * Gives its length. */
#define FWD_ALONE_FORMAT "/%" PRIu32 ".%" PRIx64
size_t fwd_collect_tell_alone(char *buf, size_t len_bytes);
/* file is this process's alone, as a new one is. */
void fwd_collect_keep_alone(struct amph_fwd_client *cl, const struct amph_fwd_file *file);

/* Brings all files to rest: what was gathered is written, what was fetched too early is forgotten. */
void fwd_collect_settle_all(void);

#endif

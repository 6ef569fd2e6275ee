/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small consecutive calls that travel as few large ones; see coalesce/coalesce.c.  Layer: iofwd.
 * Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_COLLECT_H
#define AMPH_IOFWD_CLIENT_COLLECT_H

#include <inttypes.h>

#include "iofwd/client/internal.h"

/* Puts the layer into the list; before the first call, amph_client_state.lock held. */
void amph_client_coalesce_open(void);

/* Announces `calls` consecutive reads or writes of `bytes` together.  0, ENOMEM, or the late error
 * of an earlier run. */
int amph_client_coalesce_announce(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                                  bool write, uint64_t bytes, unsigned calls);

/* Before an exec: the open files that no other process has come to, as text for the new image, each
 * by this format of server and handle. Gives its length. */
#define AMPH_CLIENT_EXCLUSIVE_FORMAT "/%" PRIu32 ".%" PRIx64
size_t amph_client_coalesce_export_exclusive(char *buf, size_t len_bytes);
/* file is this process's alone, as a new one is. */
void amph_client_coalesce_import_exclusive(struct amph_fwd_client *cl,
                                           const struct amph_fwd_file *file);

/* Brings all files to rest: what was gathered is written, what was fetched too early is
 * forgotten. */
void amph_client_coalesce_flush_all(void);

#endif

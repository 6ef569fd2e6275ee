/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coalescing of small consecutive calls (write-behind and read-ahead).
 *
 * Layer: iofwd.  Thread rule: any thread.
 *
 * File map:
 *
 *   coalesce.c  the layer `coalesce`: which calls are coalesced, and when a file is flushed
 *   coalesce.h  the room's interface
 *   blocks.c    the blocks of one sequence: slots of the transfer area or heap memory
 *   ahead.c     read-ahead that is as exact as asking, by the versions of files
 *   others.c    other open files of the same file
 *   file.c      what is known of an open file
 *   blocks.h    the coalescer of one open file, shared by the files
 *
 * Writable state: struct amph_client_coalesce_state (blocks.h).
 */
#ifndef AMPH_IOFWD_CLIENT_COALESCE_H
#define AMPH_IOFWD_CLIENT_COALESCE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "iofwd/client/internal.h"

/* Adds the layer to the list.  Called before the first forwarded call with amph_client_state.lock
 * held. */
void amph_client_coalesce_open(void);

/* Announces `calls` consecutive reads or writes of `bytes` in total.  Returns 0, ENOMEM, or the
 * late error of an earlier sequence. */
int amph_client_coalesce_announce(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                                  bool write, uint64_t bytes, unsigned calls);

/* Before an exec: writes the open files that only this process has as text for the new image, each
 * in this format of server and handle.  Returns the length of the text. */
#define AMPH_CLIENT_EXCLUSIVE_FORMAT "/%" PRIu32 ".%" PRIx64
size_t amph_client_coalesce_export_exclusive(char *buf, size_t len_bytes);
/* In the new image: records that only this process has `file`. */
void amph_client_coalesce_import_exclusive(struct amph_fwd_client *cl,
                                           const struct amph_fwd_file *file);

/* Flushes all files: writes coalesced data and discards data that was read ahead. */
void amph_client_coalesce_flush_all(void);

#endif

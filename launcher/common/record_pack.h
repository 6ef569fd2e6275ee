/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a run that was recorded: its files are compressed by iofwd-trace pack.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_RECORD_PACK_H
#define AMPH_LAUNCHER_RECORD_PACK_H

#include <stdint.h>
#include <sys/types.h>

#include "launcher/common/inherit.h"

/* Compresses the records below IOFWD_TRACE_DIR whose processes have run on this host and have ended, if
 * they take IOFWD_TRACE_PACK bytes on disk.  Returns when that is done.  A failure is reported, and the
 * records stay as they are. */
void amph_record_pack(void);

/* Starts the same for the folder dir, and does not wait for it.  inherit: the signal state of the new
 * process.  Returns its number, 0 if there is nothing to do, or -1 after a message; its exit code is not
 * 0 if not all is compressed. */
pid_t amph_record_pack_begin(const char *dir, uint64_t min_bytes,
                             const struct amph_inherit *inherit);

/* Returns 0 in a new process, which is to execute the program.  In the caller, returns 1 after it has
 * ended and its records are compressed; *code_p is its exit code, and if a signal has ended it, that
 * signal ends the caller.  Signals that others send to the caller reach the new process.  -1: there is no
 * new process, and the caller is to execute the program. */
int amph_record_pack_after(int *code_p);

#endif

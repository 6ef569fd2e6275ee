/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of -record and -trace.  Layer: launcher.  Thread rule: one thread. */
#ifndef AMPH_LAUNCHER_RECORD_DIR_H
#define AMPH_LAUNCHER_RECORD_DIR_H

#include <stdbool.h>

/* Creates the folder if it does not exist, and sets IOFWD_TRACE_DIR to its absolute path.  Says if records
 * of an earlier run are there.  Returns false after a message. */
bool amph_record_dir(const char *option, const char *dir);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's private directory (mode 0700), which holds its address file.  Layer: launcher.  Thread
 * rule: one thread. */
#ifndef AMPH_LAUNCHER_JOBDIR_H
#define AMPH_LAUNCHER_JOBDIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define AMPH_JOBDIR_FILE "job" /* the address file's name in it */

/* A name that no other job has, in TMPDIR or /tmp; nothing is created.  forwards: the job has I/O
 * servers, and TMPDIR may be meant for its programs only.  Allocated. */
char *amph_jobdir_name(bool forwards);
enum amph_status amph_jobdir_create(const char *path);
/* Removes the address file and the directory; what is not there does not matter. */
void amph_jobdir_remove(const char *path);

#endif

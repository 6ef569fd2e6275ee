/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job's private directory (mode 0700), which contains its address file.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_JOBDIR_H
#define AMPH_LAUNCHER_JOBDIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define AMPH_JOBDIR_FILE "job" /* name of the address file in it */

/* Returns a name that no other job has, in TMPDIR or /tmp; creates nothing.  forwards: the job has
 * I/O servers, so TMPDIR may be a forwarded directory.  Allocated. */
char *amph_launch_jobdir_name(bool forwards);
enum amph_status amph_launch_jobdir_create(const char *path);
/* Removes the address file and the directory, if they exist. */
void amph_launch_jobdir_remove(const char *path);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl progress; see progress.c.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#ifndef AMPH_TOOLS_CTL_PROGRESS_H
#define AMPH_TOOLS_CTL_PROGRESS_H

#include "tools/ctl/ctl.h"

/* Prints on standard error what the servers have done, until the last one has ended.  set and ending
 * are two sets of the same address file.  Returns the exit code. */
int ctl_progress(struct ctl_set *set, struct ctl_set *ending, double interval_s);

#endif

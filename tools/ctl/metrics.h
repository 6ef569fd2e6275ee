/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl metrics; see metrics.c and listen.c.
 *
 * Layer: tools.  Thread rule: one thread at a time uses a set.
 */
#ifndef AMPH_TOOLS_CTL_METRICS_H
#define AMPH_TOOLS_CTL_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "tools/ctl/ctl.h"

#define CTL_METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Asks all servers and writes the metrics.  Returns how many servers could not be reached. */
uint32_t ctl_metrics_write(struct ctl_set *set, FILE *out);

/* Can the metrics be served there?  Returns 0, or the exit code after a sentence. */
int ctl_metrics_can_listen(const char *where);

/* Serves the metrics by HTTP at /metrics until SIGINT or SIGTERM: on a Unix socket (where contains
 * a slash), or on a port of the loopback interface.  ctl_metrics_can_listen has allowed it.  Returns
 * the exit code. */
int ctl_metrics_listen(struct ctl_set *set, const char *where);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all servers answer at one moment, and the rates between two moments.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#ifndef AMPH_TOOLS_CTL_SAMPLE_H
#define AMPH_TOOLS_CTL_SAMPLE_H

#include <stdint.h>

#include "tools/ctl/ctl.h"

/* One query to every server.  A server that cannot be reached has no rows. */
struct ctl_sample {
    enum amph_fwd_watch query;
    uint64_t at_ns;
    uint32_t n, reached;
    struct ctl_rows *server; /* owned; n of them */
};

void ctl_sample_take(struct ctl_set *set, enum amph_fwd_watch query, struct ctl_sample *sample_p);
void ctl_sample_free(struct ctl_sample *sample);

/* A sample and the one before it, for rates.  Zeroed: no sample yet. */
struct ctl_samples {
    struct ctl_sample now, before;
};

/* Takes the next sample; the one before is freed, and also the last one if it was of another
 * query. */
void ctl_samples_take(struct ctl_set *set, enum amph_fwd_watch query, struct ctl_samples *s);
void ctl_samples_free(struct ctl_samples *s);

/* Seconds between the two samples; 0: there is only one. */
double ctl_samples_seconds(const struct ctl_samples *s);

/* The row before that is about the same server, client or file; NULL: it is new. */
const struct ctl_row *ctl_samples_before(const struct ctl_samples *s, uint32_t server,
                                         const struct ctl_row *row);

/* The requests between two answers.  A server that was restarted counts from 0. */
struct amph_fwd_latency ctl_latency_since(const struct ctl_row *now, const struct ctl_row *before,
                                          const char *name);

/* A counter's growth a second; 0 if there is no row before. */
double ctl_rate(const struct ctl_row *now, const struct ctl_row *before, const char *name,
                double seconds);

#endif

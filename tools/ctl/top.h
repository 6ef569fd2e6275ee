/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl top; see top.c.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#ifndef AMPH_TOOLS_CTL_TOP_H
#define AMPH_TOOLS_CTL_TOP_H

#include <stdbool.h>

#include "tools/ctl/view.h"

struct ctl_top {
    struct ctl_set *set;
    double interval_s;
    unsigned long count; /* tables until the end; 0: no end */
    bool json;
    struct ctl_view view;
    struct ctl_samples status; /* of the servers, for the totals */
    struct ctl_samples list;   /* of clients or files */
};

/* Returns the list of that name ("server", "clients"); 0: no such list. */
enum amph_fwd_watch ctl_top_view_named(const char *name);

/* Asks the servers and fills the view. */
void ctl_top_sample(struct ctl_top *top);

/* Shows until the count is reached, standard output is closed, or the user ends it.  Returns the
 * exit code. */
int ctl_top(struct ctl_top *top);

/* The same on a terminal (screen.c). */
int ctl_screen(struct ctl_top *top);

#endif

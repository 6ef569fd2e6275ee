/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers end the changes of files that were under way in processes which were killed (versions.h, writers.h): those
 * that nobody claims.
 *
 * Layer: iofwd.  Thread rule: any thread; processes and servers make changes meanwhile.
 */
#ifndef AMPH_IOFWD_REPAIR_H
#define AMPH_IOFWD_REPAIR_H

#include <stdbool.h>

struct amph_fwd_versions;

/* Has a process that exists changes under way, or files open for writing? */
bool amph_fwd_writers_any(struct amph_fwd_versions *v);

/* Frees the records of processes that exist no more, and of those that have ended and whose parents have not waited
 * for them.  For a server that numbers processes as they do. */
void amph_fwd_writers_forget_dead(struct amph_fwd_versions *v);

/* Ends the changes that nobody claims.  Returns of how many versions. */
unsigned amph_fwd_versions_repair(struct amph_fwd_versions *v);

#endif

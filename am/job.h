/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a process's job that the files of am/ share.  Layer: am; internal.  Thread rule:
 * see the functions. */
#ifndef AMPH_AM_JOB_H
#define AMPH_AM_JOB_H

#include "am/am.h"

/* Handlers of am/ itself. */
enum {
    AMPH_AM_GATHER = AMPH_AM_INDEX_AM,
    AMPH_AM_EXITING,
    AMPH_AM_ALL_EXIT,
    AMPH_AM_CARRY_PUT,
    AMPH_AM_CARRY_GET,
    AMPH_AM_CARRY_DONE,
    AMPH_AM_CARRY_DATA
};

/* Lost messages to or from a member are reported after the first time, in which the launcher may report a
 * death that explains the loss.  The higher rank of the two waits for the second time as well, in which the
 * lower one may report it. */
#define AMPH_JOB_LOSS_GRACE_NS (2 * AMPH_NS_PER_S)
#define AMPH_JOB_SECOND_GRACE_NS (AMPH_NS_PER_S / 2)
#define AMPH_JOB_LOSS_NS (AMPH_JOB_LOSS_GRACE_NS + AMPH_JOB_SECOND_GRACE_NS)

enum amph_status amph_am_gather_setup(void);
void amph_am_gather_handler(struct amph_token *token, const struct amph_am *am);
void amph_am_exiting_handler(struct amph_token *token, const struct amph_am *am);
void amph_am_all_exit_handler(struct amph_token *token, const struct amph_am *am);

/* Arranges that returning from main leaves the job in order, and that a fatal error ends it. */
void amph_am_exit_setup(void);

#endif

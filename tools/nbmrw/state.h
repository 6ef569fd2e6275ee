/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of nbmrw that is not passed as an argument.
 *
 * Layer: tools.  Thread rule: one thread, and its signal handler.
 */
#ifndef AMPH_TOOLS_NBMRW_STATE_H
#define AMPH_TOOLS_NBMRW_STATE_H

#define GASNET_SEQ 1
#include <gasnetex.h>
#include <signal.h>

#include "tools/nbmrw/nbmrw.h"

struct nbmrw_state {
    /* main.c: the signal that ends this process, written by its handler, and the launcher's process
     * number, read there; 0: none. */
    volatile sig_atomic_t ended_by;
    volatile sig_atomic_t launcher;

    /* figures.c: the processes of its job. */
    gex_TM_t team;

    /* measure.c: the data of the calls, allocated at the first one. */
    char *buffer;

    /* stream.c: its connections, in the order of --streams. */
    int stream[NBMRW_STREAMS_MAX];
    unsigned nstreams;

    /* elsewhere.c: the directories that it has created. */
    char direct_dir[NBMRW_DIR_MAX], forwarded_dir[NBMRW_DIR_MAX];

    char *segment;       /* of figures.c, for measure.c: the GASNet segment */
    void (*ready)(void); /* called before the first timed call, or NULL */
};

extern struct nbmrw_state nbmrw_state;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of amphora-perf that handlers of messages and signals read, and what samplers keep from
 * one sample to the next.  Everything else is in struct perf_run.
 *
 * Layer: tools.  Thread rule: one thread, and its signal handlers.
 */
#ifndef AMPH_TOOLS_PERF_STATE_H
#define AMPH_TOOLS_PERF_STATE_H

#define GASNET_SEQ 1
#include <gasnet.h>
#include <gasnet_ratomic.h>
#include <gasnetex.h>
#include <signal.h>
#include <stdint.h>

struct perf_state {
    /* am.c: what its message handlers count. */
    struct {
        gex_TM_t tm;
        volatile uint64_t pongs;    /* replies that came back */
        volatile uint64_t floods;   /* requests of a flood that arrived */
        volatile uint64_t sent;     /* requests of floods that were given to the library */
        volatile uint64_t taken;    /* requests of floods that were taken, all samples together */
        volatile uint64_t releases; /* rank 0 has ended a sample */
        volatile int answer;        /* to COUNT_ASK; 0: none yet, 1: not all arrived, 2: all */
        uint64_t served;
        void *remote; /* the peer's segment */
    } am;

    /* inside.c: what is measured now; for the handler of SIGALRM. */
    struct {
        char what[200], who[32];
        unsigned deadline;
    } now;

    /* coll.c: buffers and their size, the team of the team tests. */
    struct {
        unsigned char *src, *dst;
        size_t bytes;
        gex_TM_t team;
    } coll;

    /* polls.c: messages of the previous process that have come, and the index of their handler. */
    struct {
        volatile uint64_t steps;
        gex_AM_Index_t step;
    } polls;

    gex_AD_t atomic_domain; /* atomic.c; NULL before its first sample */

    /* main.c: the launcher of the job that runs, or 0, and the signal that ends the tool, or 0; for handlers of
     * signals. */
    volatile sig_atomic_t launcher, ended_by;
    unsigned failed_jobs; /* each may have left out several figures */

    /* main.c: the directory in which the file tests make their own. */
    char work_dir[4096], work_file[4200];
};

extern struct perf_state perf_state;

#endif

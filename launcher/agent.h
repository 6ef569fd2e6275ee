/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent: one process a host, parent and guardian of that host's processes; and what it and the launcher say to each other.
 * Layer: launcher.  Thread rule: one thread.
 *
 * The agent knows nothing of jobs.  It starts what it is told to start, carries lines and bytes, tells of ends, and leaves nothing
 * behind: when the launcher's end of its stream closes, for whatever reason, it kills all that descends from it, removes the job's
 * directory and ends.  All it needs comes over the stream, so that it may run on another host.
 *
 *   launcher -> agent
 *     SETUP    { directory blob, working directory blob, how to bind u8, count u32, count x environment blob }
 *     SPAWN    { rank u32, flags u8 (1 takes standard input, 2 has a PMI server), place u32 of count u32,
 *                count u32 x argument blob, count u32 x setting blob (NAME=VALUE; without =: removed) }
 *                the first argument is the file to run
 *     INPUT    { rank u32, bytes (none: end of input) }            -> INPUT_TAKEN { rank u32, taken u8 (0: nobody reads it) }
 *     PMI      { rank u32, bytes }                                 both ways
 *     SIGNAL   { rank u32 (AMPH_RANK_NONE: all), signal u32 }      to process groups; to all: to every descendant
 *     ORPHANS  { }  end what processes that have ended left behind -> ORPHANS_GONE { }
 *     OUTPUT_TAKEN { bytes u32 }    CLOSE_OUTPUT { stream u8 }     the reader of standard output has gone
 *     QUIT     { }  kill what is left and end
 *   agent -> launcher
 *     STARTED  { rank u32, pid u64 }     FAILED { rank u32, errno u32 }
 *     OUTPUT   { rank u32, stream u8 (1, 2), bytes }
 *     ENDED    { rank u32, by_signal u8, number u32, core u8 }     after all its output
 */
#ifndef AMPH_LAUNCHER_AGENT_H
#define AMPH_LAUNCHER_AGENT_H

#include "boot/frames.h"
#include "launcher/inherit.h"

#define AMPH_AGENT_BODY_MAX (1u << 26)
#define AMPH_AGENT_CHUNK_BYTES 32768   /* of output or input in one frame */
#define AMPH_AGENT_WINDOW_BYTES 262144 /* of output on the way; more is not read from the processes */

enum amph_agent_type {
    AMPH_AGENT_SETUP = 1,
    AMPH_AGENT_SPAWN,
    AMPH_AGENT_INPUT,
    AMPH_AGENT_INPUT_TAKEN,
    AMPH_AGENT_PMI,
    AMPH_AGENT_SIGNAL,
    AMPH_AGENT_ORPHANS,
    AMPH_AGENT_ORPHANS_GONE,
    AMPH_AGENT_OUTPUT,
    AMPH_AGENT_OUTPUT_TAKEN,
    AMPH_AGENT_CLOSE_OUTPUT,
    AMPH_AGENT_QUIT,
    AMPH_AGENT_STARTED,
    AMPH_AGENT_FAILED,
    AMPH_AGENT_ENDED,
    AMPH_AGENT_NTYPES
};

enum { AMPH_SPAWN_INPUT = 1, AMPH_SPAWN_PMI = 2 };

/* The agent's main program on its end of the stream; does not return.  inherit: what the launcher changed for itself. */
void amph_agent_main(int fd, const struct amph_inherit *inherit) __attribute__((noreturn));

#endif

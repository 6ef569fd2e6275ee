/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent: one process a host, parent and guardian of that host's processes; and what it and the
 * launcher say to each other. Layer: launcher.  Thread rule: one thread.
 *
 * The agent knows nothing of jobs.  It starts what it is told to start, carries lines and bytes,
 * tells of ends, and leaves nothing behind: when the launcher's end of its stream closes, for
 * whatever reason, it kills all that descends from it, removes the job's directory and ends.  All
 * it needs comes over the stream, so that it may run on another host.
 *
 *   launcher -> agent
 *     SETUP    { working directory blob, how to bind u8, key blob, count u32, count x environment
 *              blob }
 *                on another host key is the job's: the agent makes a directory, a control socket
 *                and an address file of its
 *                own, and carries what comes to that socket (CONN)
 *     SPAWN    { rank u32, flags u8 (1 takes standard input, 2 has a PMI server), place u32 of
 *              count u32,
 *                count u32 x argument blob, count u32 x setting blob (NAME=VALUE; without =:
 *                removed) }
 *                the first argument is the file to run
 *     INPUT    { rank u32, bytes (none: end of input) }            -> INPUT_TAKEN { rank u32, taken
 *              u8 (0: nobody reads it) }
 *     PMI      { rank u32, bytes }                                 both ways
 *     SIGNAL   { rank u32 (AMPH_RANK_NONE: all), signal u32 }      to process groups; to all: to
 *              every descendant
 *     ORPHANS  { }  end what processes that have ended left behind -> ORPHANS_GONE { }
 *     OUTPUT_TAKEN { bytes u32 }    CLOSE_OUTPUT { stream u8 }     the reader of standard output
 *     has gone
 *     QUIT     { }  kill what is left and end
 *     CONN     { connection u32, what u8 (0 opened, 1 bytes, 2 closed), bytes }     both ways; of a
 *              process with the control socket
 *     ADOPT    { host u32, name, ssh, line blobs, start limit ms u32, silence ms u32 }    start the
 *              agent of a further host
 *     ROUTE    { host u32, type u16, body }  for the agent of that host, which this one has
 *              started: a frame, perhaps a ROUTE again
 *     SPREAD   { way blob, bytes }           the same bytes for connections of many hosts, once for
 *              each link of the tree
 *                way = { count u32, count x connection u32, count u32, count x (host u32, way blob)
 *                }: here, and below
 *     BEAT     { }                           both ways, over the network only: I am there
 *   agent -> launcher
 *     READY    { version u32, machine, parent's address, own address, server program, preload
 *              library blobs }    first of all
 *     FROM     { host u32, type u16, body }  what the agent of that host, somewhere below this one,
 *              says
 *     LOST     { host u32, code u32, sentence blob }     SAID { host u32, line }          of an
 *              agent below, of its ssh
 *     STARTED  { rank u32, pid u64 }     FAILED { rank u32, errno u32 }
 *     OUTPUT   { rank u32, stream u8 (1, 2), bytes }
 *     ENDED    { rank u32, by_signal u8, number u32, core u8 }     after all its output
 */
#ifndef AMPH_LAUNCHER_AGENT_H
#define AMPH_LAUNCHER_AGENT_H

#include "boot/frames.h"
#include "launcher/common/inherit.h"

#define AMPH_AGENT_BODY_MAX (1u << 26)
#define AMPH_AGENT_CHUNK_BYTES 32768 /* of output or input in one frame */
#define AMPH_AGENT_WINDOW_BYTES \
    262144 /* of output on the way; more is not read from the processes */

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
    AMPH_AGENT_CONN,
    AMPH_AGENT_ADOPT,
    AMPH_AGENT_ROUTE,
    AMPH_AGENT_SPREAD,
    AMPH_AGENT_BEAT,
    AMPH_AGENT_READY,
    AMPH_AGENT_FROM,
    AMPH_AGENT_LOST,
    AMPH_AGENT_SAID,
    AMPH_AGENT_NTYPES
};

enum {
    AMPH_SPAWN_INPUT = 1,
    AMPH_SPAWN_PMI = 2
};

enum {
    AMPH_CONN_OPENED,
    AMPH_CONN_BYTES,
    AMPH_CONN_CLOSED
};

#define AMPH_AGENT_VERSION 2

/* The agent's main program on another host: the stream is standard input and output.  silence_ns:
 * without a word from the launcher for so long it ends (0: never). */
void amph_agent_remote_main(uint64_t silence_ns) __attribute__((noreturn));

/* The agent's main program on its end of the stream; does not return.  inherit: what the launcher
 * changed for itself; directory: the job's, which it removes at its end as the launcher does, who
 * may have been killed by then. */
void amph_agent_main(int fd, const struct amph_inherit *inherit, char *directory)
    __attribute__((noreturn));

#endif

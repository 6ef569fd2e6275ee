/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * The agent: one process on each host, the parent of that host's processes of the job.  This header
 * has the protocol between launcher and agent; internal.h has the agent's state.
 *
 *   main.c    start, frames from the launcher, signals, end
 *   spawn.c   starts a process
 *   io.c      standard input, output and PMI bytes of the processes
 *   relay.c   connections of processes of this host to the launcher's control socket
 *   tree.c    agents on further hosts, started by this one
 *   internal.h   the state, and what these files share
 *
 * May include: the launcher's other rooms, am, conduits, boot, base.
 *
 * Layer: launcher.  Thread rule: one thread.
 *
 * The agent has no knowledge of jobs.  It starts the processes that the launcher asks for, forwards
 * their input and output, and reports their ends.  When the launcher's end of its stream closes, for
 * whatever reason, the agent kills all its descendants, removes the job's directory and exits.  All
 * its input comes over the stream, so that it can run on another host.
 *
 * Frames, launcher -> agent:
 *
 *   SETUP         { working directory blob, binding u8, key blob, count u32, count x environment blob }
 *                 On another host, key is the job's key: the agent creates a directory, a control
 *                 socket and an address file, and forwards the connections of that socket (CONN).
 *   SPAWN         { rank u32, flags u8 (AMPH_SPAWN_...), slot u32, slots u32, count u32,
 *                   count x argument blob, count u32, count x setting blob }
 *                 Starts a process.  The first argument is the file to execute.  A setting is
 *                 NAME=VALUE, or NAME to remove it from the environment.
 *   INPUT         { rank u32, bytes }            bytes of standard input; none: end of input
 *   PMI           { rank u32, bytes }            both ways
 *   SIGNAL        { rank u32, signal u32 }       to a process group; AMPH_RANK_NONE: to all descendants
 *   ORPHANS       { }                            end the processes that ended processes left behind
 *   OUTPUT_TAKEN  { bytes u32 }                  the launcher has written this much output
 *   CLOSE_OUTPUT  { stream u8 }                  the reader of the launcher's output has gone
 *   QUIT          { }                            kill all descendants and exit
 *   CONN          { connection u32, what u8 (AMPH_CONN_...), bytes }
 *                 Both ways: a control connection of a process of that host.
 *   ADOPT         { host u32, name blob, ssh blob, line blob, start limit ms u32, silence ms u32 }
 *                 Starts the agent of a further host.
 *   ROUTE         { host u32, type u16, body }
 *                 A frame for the agent of that host, which this agent has started; may be a ROUTE.
 *   SPREAD        { way blob, bytes }
 *                 The same bytes for connections of several hosts; they travel once over each link.
 *                 way = { count u32, count x connection u32, count u32, count x (host u32, way blob) }:
 *                 the connections of this host, and the ways below it.
 *   CLOCK         { stamp u64 }                  asks for this host's clock
 *   PACK          { folder blob, bytes u64 }     compress the records of this host's processes below the folder,
 *                                                if they take that many bytes
 *   BEAT          { } or { 1 u8 }                heartbeat, both ways, only over the network; with the
 *                                                byte, the launcher's last one until it is continued
 *
 * Frames, agent -> launcher:
 *
 *   READY         { version u32, machine, parent's address, own address, server program,
 *                   preload library blobs }      the first frame
 *   FROM          { host u32, type u16, body }   a frame of an agent below this one
 *   LOST          { host u32, code u32, sentence blob }   an agent below this one has gone
 *   SAID          { host u32, line }             a line of that agent's, or its ssh's, standard error
 *   INPUT_TAKEN   { rank u32, taken u8 }         answers INPUT; 0: nobody reads the input
 *   STARTED       { rank u32, pid u64 }          answers SPAWN
 *   FAILED        { rank u32, errno u32 }        answers SPAWN
 *   ORPHANS_GONE  { }                            answers ORPHANS
 *   CLOCK         { stamp u64, ns u64 }          answers CLOCK, at once
 *   PACKED        { failed u8 }                  answers PACK, when that is done
 *   OUTPUT        { rank u32, stream u8 (1, 2), bytes }
 *   ENDED         { rank u32, by_signal u8, number u32, core u8 }   follows all its output
 */
/* clang-format on */
#ifndef AMPH_LAUNCHER_AGENT_H
#define AMPH_LAUNCHER_AGENT_H

#include <stdint.h>

#include "boot/frames.h"
#include "launcher/common/inherit.h"

#define AMPH_AGENT_BODY_MAX (1u << 26)
#define AMPH_AGENT_CHUNK_BYTES 32768   /* of output or input in one frame */
#define AMPH_AGENT_WINDOW_BYTES 262144 /* unacknowledged output; with more, pipes are not read */

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
    AMPH_AGENT_CLOCK,
    AMPH_AGENT_PACK,
    AMPH_AGENT_PACKED,
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

#define AMPH_AGENT_VERSION 4

/* The agent's main program on another host.  The stream is standard input and output.  silence_ns:
 * the agent exits if it receives nothing for this time (0: never). */
void amph_agent_remote_main(uint64_t silence_ns) __attribute__((noreturn));

/* The agent's main program on the launcher's host.  fd: its end of the stream.  inherit: the signal
 * state to restore in processes of the job.  directory: the job's directory; the agent removes it
 * too, because the launcher may have been killed. */
void amph_agent_main(int fd, const struct amph_inherit *inherit, char *directory)
    __attribute__((noreturn));

#endif

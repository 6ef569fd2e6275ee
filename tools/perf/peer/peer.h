/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A benchmark that is one program for several libraries: peer.c has the loops, gasnet.c, mpi.c and ucx.c make the
 * calls.  compare.py builds it with each, runs them in turn and prints the ratios.
 *
 * Layer: tools.  Thread rule: one thread.  gasnet.c uses the public API alone, so it can also be built with GASNet.
 */
#ifndef AMPH_TOOLS_PEER_H
#define AMPH_TOOLS_PEER_H

#include <stddef.h>

#define PEER_MAX_BYTES ((size_t)4 << 20)

enum peer_coll {
    PEER_BROADCAST,
    PEER_REDUCE,
    PEER_REDUCE_ALL,
    PEER_SCATTER,
    PEER_GATHER,
    PEER_GATHER_ALL,
    PEER_EXCHANGE,
    PEER_COLLS
};

/* The library's name and version, for the output. */
const char *peer_name(void);
void peer_start(int *argc, char ***argv);
/* Leaves the library.  It may end the process, with this exit code. */
void peer_end(int code);
unsigned peer_rank(void);
unsigned peer_size(void);
/* A barrier of all processes. */
void peer_barrier(void);
/* Rank 0's count, at all ranks. */
unsigned long peer_agree(unsigned long count);

/* Ranks 0 and 1 call each of these together, count times the operation; others are in peer_barrier.  Data comes from
 * and ends in memory of the two processes. */
void peer_round_trips(size_t bytes, unsigned long count);
/* Messages one after the other, until rank 1 has all. */
void peer_flood(size_t bytes, unsigned long count);
/* Rank 0 alone; rank 1 is in peer_barrier.  Each is complete at the target before the next. */
void peer_puts(size_t bytes, unsigned long count);
void peer_gets(size_t bytes, unsigned long count);
void peer_fetch_adds(size_t bytes, unsigned long count);
/* The same, in windows of 64 that are waited for. */
void peer_put_windows(size_t bytes, unsigned long count);
void peer_get_windows(size_t bytes, unsigned long count);

/* One collective of all processes, of bytes a block, which are 8-byte integers that reductions add. */
void peer_collective(enum peer_coll kind, unsigned root, void *dst, void *src, size_t bytes);

#endif

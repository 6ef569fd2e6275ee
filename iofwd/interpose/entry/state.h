/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the interposer that several of its files share.  What only one file uses is in that
 * file's own `static struct ... state`.
 *
 * Layer: iofwd (interposer).  Thread rule: as said at each group of fields.
 *
 * Kept apart because every caught call reads them: the descriptor table (fd/fdtab.h), the thread's
 * depth amph_ip_inside (catch.h), the table of the C library's functions (libc_real.h), the ranges
 * of memory that a thread has checked (fault_check.h), and the client (client.h).
 */
#ifndef AMPH_IOFWD_INTERPOSE_STATE_H
#define AMPH_IOFWD_INTERPOSE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "iofwd/wire/prefix.h"

struct amph_ip_state {
    /* Written by the constructor (init.c), `on` last; until then every call goes to the C
     * library. */
    bool on;
    bool owned_fds; /* the client is open and may have descriptors of its own */
    struct amph_fwd_prefixes prefixes;
    const char *exe; /* the program's file, if it is a forwarded one and runs from a copy */
    unsigned umask;
    bool library_path_forwarded; /* LD_LIBRARY_PATH names forwarded directories */

    /* A process of another launcher's job (mpi.c); written by the constructor. */
    const char *mpi_space; /* PMIx's name of the job, or NULL */
    uint32_t mpi_ranks;    /* ranks of the program by PMIx; 0: not known */
    bool rank_guarded;     /* some descriptors are marked FDTAB_OWN */
    uint8_t trace; /* IOFWD_TRACE (trace.h); 0: off */
    bool debug;    /* AMPHORA_LOG=debug */
    bool io_uring; /* IOFWD_IO_URING: the program may have rings */
    /* The program was started in the slot of an I/O server but is not one: its first forwarded call
     * ends the job. */
    bool in_server_slot;

    /* The forwarded working directory (path/cwd.c): written by chdir, read by any thread.  The name
     * is NULL outside the prefixes and is never freed.  The descriptor is inherited by programs
     * that this process starts; 0: none. */
    const char *cwd;
    int cwd_fd;

    /* Counters and limits that any thread reads and writes atomically. */
    int maps;                 /* maps of forwarded files (memory/map.c) */
    unsigned cancels;         /* threads cancelled up to now (cancel.c) */
    unsigned turns;           /* descriptors that dup2 made forwarded or local (fd/fd.c) */
    uint32_t mem_epoch;       /* increases whenever the program may have unmapped memory */
    uint64_t file_size_limit; /* RLIMIT_FSIZE as last read; UINT64_MAX: unlimited */
};

extern struct amph_ip_state amph_ip_state AMPH_HIDDEN;

#endif

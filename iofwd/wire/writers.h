/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that change files by themselves (iofwd/interpose/path/near_versions.h), in the object of file versions
 * (versions.h).  Each has a record there.  A file that it has open for writing counts as one that is changed all the
 * time: clients hold nothing of it.  So its writes, maps and the like are the kernel's own calls.
 *
 * Servers end the changes of processes that exist no more (within a second).  A process that is killed between a
 * step and its record leaves a change for ever under way, which costs messages and no correctness.
 *
 * Layer: iofwd.  Uses the C library only.  Thread rule: any thread, and signal handlers; the members are atomic.
 */
#ifndef AMPH_IOFWD_WRITERS_H
#define AMPH_IOFWD_WRITERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FWD_WRITERS 512u     /* processes at a time; the calls of others go to the servers */
#define FWD_WRITER_FILES 28u /* of a process */

/* In `owner`: the process number, which Linux keeps below this; without one the record is free, or being emptied.
 * Above them is a count of its owners: who has found a process dead takes its record only if the number is not a new
 * process's meanwhile. */
#define FWD_WRITER_PID ((UINT32_C(1) << 22) - 1)
#define FWD_WRITER_TAKEN (UINT32_C(1) << 22)
#define FWD_WRITER_TURN (UINT32_C(1) << 23)

struct amph_fwd_writer {
    _Alignas(64) _Atomic uint32_t owner;
    _Atomic uint32_t names, cuts; /* changes of these versions that it has under way */
    /* 1 + that of a file's versions; 0: none */
    _Atomic uint32_t line[FWD_WRITER_FILES];
};

struct amph_fwd_versions;

/* In `line`: until the process ends, since its file is also used in ways that the process does not see. */
#define FWD_WRITER_KEPT (UINT32_C(1) << 31)

/* A record for this process, which has number pid.  If it has had one before an exec, it is that one, without its
 * changes, but with what is kept.  NULL: none is left. */
struct amph_fwd_writer *amph_fwd_writer_take(struct amph_fwd_versions *v, uint32_t pid);

/* Begins and ends changes of names, and of cuts (versions.h). */
void amph_fwd_writer_begin(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts);
void amph_fwd_writer_end(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts);

/* The file that has this line is open for writing from now on, and no longer; i: a number for it below
 * FWD_WRITER_FILES. */
void amph_fwd_writer_open(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i,
                          uint32_t line);
void amph_fwd_writer_close(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i);

/* Server: has a process that exists changes under way, or files open for writing? */
bool amph_fwd_writers_any(struct amph_fwd_versions *v);

/* Server: ends the changes of processes that exist no more. */
void amph_fwd_writers_end_dead(struct amph_fwd_versions *v);

/* Server, after all changes were ended: those of living processes are under way again.  Nobody moves versions
 * meanwhile but these. */
void amph_fwd_writers_begin_again(struct amph_fwd_versions *v);

#endif

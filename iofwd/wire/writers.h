/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that change files by themselves, in the object of file versions (versions.h): those that open files
 * themselves (iofwd/interpose/path/near_versions.h), and those that use descriptors which a server has passed to
 * them (passthrough.h). Each has a record there of what it changes. A file that a process of the first kind has open
 * for writing counts as one that is changed all the time: clients hold nothing of it. So its writes, maps and the
 * like are the kernel's own calls.
 *
 * A change is claimed in the record before it begins and until it has ended. What a process that exists no more has
 * left under way is therefore under way without a claim, and servers end it within a second.
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
#define FWD_PASSERS 512u     /* processes with passed descriptors; others share one claim */

/* In `owner`: the process number, which Linux keeps below this; 0: the record is free, whatever it claims.  Above it
 * is a count of its owners: a process that has found another one dead takes the record only if the count has not
 * changed, because a new process may have the number meanwhile. */
#define FWD_WRITER_PID ((UINT32_C(1) << 22) - 1)
#define FWD_WRITER_TURN (UINT32_C(1) << 22)

struct amph_fwd_writer {
    _Alignas(64) _Atomic uint32_t owner;
    _Atomic uint32_t names, cuts; /* changes of these versions that it makes */
    /* 1 + that of a file's versions; 0: none */
    _Atomic uint32_t line[FWD_WRITER_FILES];
};

struct amph_fwd_passer {
    _Alignas(64) _Atomic uint32_t owner;
    _Atomic uint32_t changes; /* that it makes, of any file */
};

struct amph_fwd_versions;

/* Gives a record to the process that has number pid, or to nobody (0), unless its owner is not the one that was
 * seen. */
bool amph_fwd_record_pass(_Atomic uint32_t *owner, uint32_t seen, uint32_t pid);
bool amph_fwd_process_exists(uint32_t pid);

/* In `line`: until the process ends, since its file is also used in ways that the process does not see. */
#define FWD_WRITER_KEPT (UINT32_C(1) << 31)
/* In `line`: the change is only beginning, or ending. */
#define FWD_WRITER_MOVES (UINT32_C(1) << 30)

/* A record for this process, which has number pid.  If it has had one before an exec, it is that one, without its
 * changes, but with what is kept.  NULL: none is left. */
struct amph_fwd_writer *amph_fwd_writer_take(struct amph_fwd_versions *v, uint32_t pid);

/* Begins and ends changes of names, and of cuts (versions.h). */
void amph_fwd_writer_begin(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts);
void amph_fwd_writer_end(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts);

/* The file that has this line is open for writing from now on, and no longer; i: a number for it below
 * FWD_WRITER_FILES, which one thread uses at a time. */
void amph_fwd_writer_open(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i,
                          uint32_t line);
void amph_fwd_writer_close(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i);

/* Where this process, which has number pid, counts the changes that it makes with passed descriptors: before each
 * begins, and until it has ended. */
_Atomic uint32_t *amph_fwd_passer_take(struct amph_fwd_versions *v, uint32_t pid);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovery records: what the client records of its open files, so that another server can reopen
 * them if theirs dies (failover).
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 *
 * File map:
 *
 *   failover.c       the layer's calls: chooses the server, repeats calls, updates the records
 *   failover.h       the room's interface
 *   record.c         the table of records
 *   record.h         types and functions that the room's files share
 *   reopen.c         reopens a file at another server with its offset and locks
 *   shared_offset.c  counts calls in flight at an offset that processes share
 *
 * Writable state: one struct in record.c.
 */
#ifndef AMPH_IOFWD_CLIENT_RECORD_H
#define AMPH_IOFWD_CLIENT_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "iofwd/client/recovery/failover.h"
#include "iofwd/wire/ranges.h"

#define AMPH_CLIENT_LOCKS_PASSED 8 /* locks of one file that an exec passes to the new image */
#define AMPH_CLIENT_POS_END (-1)   /* after an append: the end of the file */
#define AMPH_CLIENT_LOCK_OF_FILE 0 /* kind of a recorded lock: of the open file */
/* of the process (F_SETLK); plus the number of its descriptor table */
#define AMPH_CLIENT_LOCK_OF_PROCESS 1

/* The server and handle of an open file.  Written by the thread that allocated its number, before
 * the number is published in amph_client_shared.now. */
struct amph_client_location {
    uint64_t handle;
    uint32_t server; /* absolute number */
    int lost;        /* errno value if the file could not be reopened, else 0 */
    /* calls at the offset that were answered; the highest number of moves in a reply
     * (recovery/shared_offset.c) */
    _Atomic uint32_t answered, moves;
};
#define AMPH_CLIENT_LOCATIONS 8 /* locations in a row before an entry is reused */

/* The part of a record that all processes which share the open file have in common. */
struct amph_client_shared {
    /* processes; 0: free.  A process that was killed or called exec stays counted. */
    _Atomic uint32_t users;
    struct amph_fwd_ref name; /* as its users call it */
    /* thread that reopens the file at another server (recovery/reopen.c), or 0 */
    _Atomic uint64_t mover;
    _Atomic uint32_t turns, now; /* numbers of locations: the last allocated, and the valid one */
    /* by number mod AMPH_CLIENT_LOCATIONS */
    struct amph_client_location seat[AMPH_CLIENT_LOCATIONS];
    _Atomic int64_t pos;
    /* for a new image after exec; empty path: it was too long, and the image asks the server */
    _Atomic int oflags;
    dev_t dev;
    ino_t ino;
    char path[424];
    /* calls at the offset in flight (recovery/shared_offset.c) */
    _Atomic uint64_t flights;
    /* locks of a process that is calling exec */
    _Atomic int32_t locks_of; /* that process; 0: none */
    uint32_t nlocks;
    int flock_op;
    struct amph_fwd_range lock[AMPH_CLIENT_LOCKS_PASSED];
};

static inline struct amph_client_location *amph_client_location_now(struct amph_client_shared *s)
{
    return &s->seat[atomic_load(&s->now) % AMPH_CLIENT_LOCATIONS];
}

/* An open file. */
struct amph_client_record {
    struct amph_client_record *next;
    struct amph_fwd_ref name; /* as its users call it */
    struct amph_fwd_ref held; /* what this process holds at a server */
    struct amph_client_shared *shared;
    /* in use by amph_client_recover_locks; closed meanwhile, so that function frees it */
    bool pinned, gone;
    char *path;
    int oflags;
    dev_t dev;
    ino_t ino;
    int flock_op;                 /* LOCK_SH, LOCK_EX or 0 */
    struct amph_fwd_ranges locks; /* under the table's lock */
};

/* ---- recovery/failover.c: servers ---- */

bool amph_client_server_is_dead(const struct amph_fwd_client *cl, uint32_t server);
uint32_t amph_client_server_after(const struct amph_fwd_client *cl, uint32_t server,
                                  uint32_t steps);
/* Makes servers[0] a reachable server, for calls by path.  EIO: none is left. */
int amph_client_server_home(struct amph_fwd_client *cl);
bool amph_client_ref_same(const struct amph_fwd_ref *a, const struct amph_fwd_ref *b);

/* ---- recovery/record.c: the table ---- */

/* Is the table, which a program that keeps open files needs, closed by exec? */
void amph_client_records_close_at_exec(bool closes);
void amph_client_records_lock(struct amph_client_sigguard *g);
void amph_client_records_unlock(struct amph_client_sigguard *g);

/* Returns the record of a file, or NULL.  It is valid until the file is closed; the program must
 * not close a file while it uses it. */
struct amph_client_record *amph_client_record_find(const struct amph_fwd_file *file);
/* just opened */
void amph_client_record_add(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a);
/* closed */
void amph_client_record_remove(const struct amph_fwd_file *file);
void amph_client_record_renamed(const struct amph_fwd_args_rename *a);
/* a copy, to be freed: a rename may change the path at any time */
char *amph_client_record_path(const struct amph_client_record *e);

/* Returns a record with locks whose server has died and that was not reopened yet, or NULL.  It
 * stays allocated until amph_client_record_unpin. */
struct amph_client_record *amph_client_record_pin_locked(struct amph_fwd_client *cl);
void amph_client_record_unpin(struct amph_client_record *e);

/* ---- recovery/shared_offset.c ---- */

/* A call at the offset, as counted for the other processes that share the file. */
struct amph_client_inflight {
    struct amph_client_shared *shared; /* NULL: none */
    struct amph_client_location *seat; /* where the call is executed */
    uint32_t round;
    bool stranded;
    bool committing; /* it cannot be abandoned any more */
};

/* Counts a call before it is sent; called again for each repetition.  s NULL: not at the offset. */
void amph_client_inflight_begin(struct amph_client_inflight *f, struct amph_client_shared *s);
/* Records that the server died without a reply to the call. */
void amph_client_inflight_strand(struct amph_client_inflight *f);
/* Before the effect of an answered call is recorded.  From here to amph_client_inflight_end the call
 * cannot be abandoned.  Returns false if another process reopened the file without waiting for it; its
 * reply is then void. */
bool amph_client_inflight_commit(struct amph_client_inflight *f);
/* Ends the call: its effect is recorded, or it has failed. */
void amph_client_inflight_end(struct amph_client_inflight *f);

/* Returns whether another process reopened the file without waiting for this call. */
bool amph_client_inflight_is_abandoned(const struct amph_client_inflight *f);

/* Waits, before the recorded offset is used, until all answered calls are recorded.  A process that
 * was killed or stopped in between delays this for two seconds at most.  Returns false if it has
 * committed a call and not recorded it: the offset is unknown. */
bool amph_client_inflight_wait(struct amph_client_shared *s);

/* Returns whether a call at the offset was executed before one that was answered, and its own reply
 * is not recorded: the server died before it answered, or the process was killed before it recorded
 * the reply.  The offset is then unknown: the recorded one would put data over other data, and
 * repeating the call would duplicate data. */
bool amph_client_inflight_tangled(struct amph_client_shared *s);

/* ---- recovery/reopen.c ---- */

/* Makes sure that e's file is open at a live server and that this process holds it.  0 or EIO. */
int amph_client_record_recover(struct amph_fwd_client *cl, struct amph_client_record *e);

/* The same for all files with locks if a server has died since the last call, so that other clients
 * cannot acquire these locks first. */
void amph_client_recover_locks(struct amph_fwd_client *cl);

#endif

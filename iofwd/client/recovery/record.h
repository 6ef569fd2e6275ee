/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the client notes of its open files, so that another server can take over from one that dies.
 * Layer: iofwd.
 *
 * Thread rule: see client/internal.h.  recovery/record.c keeps the table, recovery/shared_offset.c
 * counts calls at shared offsets, recovery/reopen.c opens files anew, recovery/failover.c makes the
 * calls and notes what they leave behind.
 */
#ifndef AMPH_IOFWD_CLIENT_NOTED_H
#define AMPH_IOFWD_CLIENT_NOTED_H

#include <sys/stat.h>

#include "iofwd/client/recovery/failover.h"
#include "iofwd/wire/ranges.h"

#define AMPH_CLIENT_LOCKS_PASSED 8    /* of one file to the next image */
#define AMPH_CLIENT_POS_END (-1)      /* appended: where the file ends */
#define AMPH_CLIENT_LOCK_OF_FILE 0    /* kind of a noted lock: of the open file */
#define AMPH_CLIENT_LOCK_OF_PROCESS 1 /* of the process (F_SETLK) */

/* Where an open file is.  Written by the thread that has its number, before it counts
 * (amph_client_shared.now). */
struct amph_client_location {
    uint64_t handle;
    uint32_t server; /* absolute number */
    int lost;        /* it could not be taken over: why */
    /* calls at the offset that were; the most that an answer has counted before it
     * (recovery/shared_offset.c) */
    _Atomic uint32_t answered, moves;
};
#define AMPH_CLIENT_LOCATIONS \
    8 /* so many servers one after the other before a place is used again */

/* What the processes that share an open file share of it. */
struct amph_client_shared {
    /* processes; 0: free.  One that is killed or makes way for a new image stays counted. */
    _Atomic uint32_t users;
    struct amph_fwd_ref name; /* as its users call it */
    /* thread that is looking for another server (recovery/reopen.c), or 0 */
    _Atomic uint64_t mover;
    _Atomic uint32_t turns, now; /* numbers of seats: given out, and the one that counts */
    /* by number mod AMPH_CLIENT_LOCATIONS */
    struct amph_client_location seat[AMPH_CLIENT_LOCATIONS];
    _Atomic int64_t pos;
    /* for images that come to it by exec; empty path: too long, they ask the server */
    _Atomic int oflags;
    dev_t dev;
    ino_t ino;
    char path[424];
    /* calls at the offset that are under way (recovery/shared_offset.c) */
    _Atomic uint64_t flights;
    /* locks of a process that goes on as another program */
    _Atomic int32_t locks_of; /* which; 0: none */
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
    struct amph_fwd_ref held; /* what this process has a hold on */
    struct amph_client_shared *shared;
    /* amph_client_recover_locks is at it; closed meanwhile: it frees it */
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
/* sees to one for calls by path.  EIO: none is left. */
int amph_client_server_home(struct amph_fwd_client *cl);
bool amph_client_ref_same(const struct amph_fwd_ref *a, const struct amph_fwd_ref *b);

/* ---- recovery/record.c: the table ---- */

void amph_client_records_lock(struct amph_client_sigguard *g);
void amph_client_records_unlock(struct amph_client_sigguard *g);

/* NULL: nothing is noted of it.  An entry lives until its file is closed; not to close a file that
 * is in use is the program's business. */
struct amph_client_record *amph_client_record_find(const struct amph_fwd_file *file);
/* just opened */
void amph_client_record_add(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a);
/* closed */
void amph_client_record_remove(const struct amph_fwd_file *file);
void amph_client_record_renamed(const struct amph_fwd_args_rename *a);
/* a copy, to be freed: a rename may change the path at any time */
char *amph_client_record_path(const struct amph_client_record *e);

/* A file with locks whose server has died and that nobody has taken over; it is pinned until it is
 * let go.  NULL: none. */
struct amph_client_record *amph_client_record_pin_locked(struct amph_fwd_client *cl);
void amph_client_record_unpin(struct amph_client_record *e);

/* ---- recovery/shared_offset.c ---- */

/* A call at the offset, as the other processes that share the file have to know of it. */
struct amph_client_inflight {
    struct amph_client_shared *shared; /* NULL: none */
    struct amph_client_location *seat; /* where the call is made */
    uint32_t round;
    bool stranded;
};

/* s NULL: not at the offset.  Once more for each repetition. */
void amph_client_inflight_begin(struct amph_client_inflight *f, struct amph_client_shared *s);
/* its server has died and has not answered it */
void amph_client_inflight_strand(struct amph_client_inflight *f);
/* its effect has been noted, or it has failed */
void amph_client_inflight_end(struct amph_client_inflight *f);

/* Another process has moved the file without it: what its server has answered holds no more. */
bool amph_client_inflight_is_abandoned(const struct amph_client_inflight *f);

/* Before the offset is taken from the notes: what has been answered has to be noted.  A process
 * that has been killed or stopped in between is not waited for long. */
void amph_client_inflight_wait(struct amph_client_shared *s);

/* The dead server has done a call at the offset that was not answered, and after it one that was:
 * nobody knows where the data of the first went, and it must not be written once more. */
bool amph_client_inflight_tangled(struct amph_client_shared *s);

/* ---- recovery/reopen.c ---- */

/* Sees to it that e's file is open at a server that is there, and that this process holds it.  0 or
 * EIO. */
int amph_client_record_recover(struct amph_fwd_client *cl, struct amph_client_record *e);

/* The same for all files with locks, where a server has died since the last time: who else wants a
 * lock must not have it meanwhile. */
void amph_client_recover_locks(struct amph_fwd_client *cl);

#endif

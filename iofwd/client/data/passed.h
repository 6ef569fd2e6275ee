/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files whose descriptors servers have passed to this process: what passthrough.c and record_locks.c
 * share.
 *
 * Layer: iofwd.  Thread rule: any thread; see passthrough.c.
 */
#ifndef AMPH_IOFWD_CLIENT_PASSED_H
#define AMPH_IOFWD_CLIENT_PASSED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/platform.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/passthrough.h"
#include "iofwd/wire/versions.h"

#define PASSED_FILES 128u /* files that are looked at, in sets by their handles */
#define PASSED_WAYS 8u    /* files in a set */
#define PASSED_SETS (PASSED_FILES / PASSED_WAYS)

enum passed_state {
    COUNTS, /* calls go to the server */
    ASKS,   /* a thread asks for the descriptor, or changes the entry otherwise */
    HAS,    /* calls use the descriptor */
    REFUSED
};

struct passed_file {
    _Atomic uint64_t handle; /* 0: unused */
    _Atomic uint32_t state;
    _Atomic int32_t calls; /* while it counts; below 0: after a refusal for now */
    /* while it counts: a read is expected to move no more, by the file's size or the last read; only a hint */
    _Atomic uint64_t read_bound;
    _Atomic uint32_t
        users; /* calls on the descriptor; one that a signal handler has left remains counted */
    _Atomic bool locks_remote; /* record_locks.c: the server may hold locks for this process */
    _Atomic uint32_t server;
    int fd, access; /* O_RDONLY, O_WRONLY, O_RDWR */
    /* identity, as the program may have closed the descriptor by the kernel's own call */
    dev_t dev;
    ino_t ino;
    struct amph_fwd_passthrough_file *shared;
    struct amph_fwd_version *data, *attributes; /* NULL: the server has no versions */
};

struct amph_client_passthrough {
    struct passed_file entry[PASSED_FILES];
    _Atomic bool adds[PASSED_SETS]; /* a thread gives one of the set's entries to a file */
    /* of a thread that asks a server for a descriptor, also of a directory, or sets record locks; signals are
     * blocked */
    pthread_mutex_t lock;
    _Atomic uint32_t has; /* entries with descriptors */
    _Atomic bool tables;  /* tasks of this process have descriptor tables of their own */
    _Atomic bool
        scarce; /* the process has used up its descriptors once: it gets no more of these */
    struct amph_fwd_versions *versions;
    _Atomic uint32_t *claims; /* of this process, in the versions; NULL: not yet taken */
    uint32_t forks;           /* how many forks this process is away from the first one */
};

extern struct amph_client_passthrough amph_client_passthrough AMPH_HIDDEN;

/* ---- passthrough.c ---- */

/* Returns the entry of this file, or NULL: other files have all that it could have. */
struct passed_file *amph_client_passed_find(const struct amph_fwd_ref *part);
/* Likewise, but gives it no entry if it has none. */
struct passed_file *amph_client_passed_peek(const struct amph_fwd_ref *part);
/* Asks for the file's descriptor, unless it was refused.  The caller's call keeps the file open; another file, which
 * may have got the entry meanwhile, could be closed by now.  With the lock held. */
void amph_client_passed_ask(struct amph_fwd_client *cl, struct passed_file *e, uint64_t handle);
/* May this process have more than n passed descriptors of a kind?  They take an eighth of its own at most. */
bool amph_client_passed_may_have(unsigned n);
/* What the client shares with the server; the link has a part of the transfer area. */
static inline struct amph_fwd_passthrough *amph_client_passed_shared(
    const struct amph_fwd_client *cl, const struct amph_client_link *link)
{
    return (struct amph_fwd_passthrough *)(link->part + cl->part_bytes - AMPH_AREA_SHARED_BYTES);
}
/* Does the descriptor still lead to this file?  Programs that close all descriptors may have closed it. */
bool amph_client_passed_is_itself(int fd, dev_t dev, ino_t ino);
/* Begins to use the entry's descriptor, which is not given up until leave.  false: it has none of this file. */
bool amph_client_passed_enter(struct passed_file *e, uint64_t handle);
void amph_client_passed_leave(struct passed_file *e);
/* Would a close of the descriptor drop record locks that the program has set by itself? */
bool amph_client_passed_holds_locks(int fd);
/* Withdraws a file's entry; closes its descriptor unless the number is the program's now. */
void amph_client_passed_withdraw(struct passed_file *e, uint64_t handle);
/* Counts a call that was made by a descriptor.  shared: NULL if the server does not count it. */
void amph_client_passed_count(struct amph_fwd_passthrough_file *shared, int err, size_t written,
                              size_t read);

/* ---- record_locks.c ---- */

/* psetlock, pwaitlock, pgetlock, punlock: makes the call, or passes it on to the layer behind `self`. */
int amph_client_record_lock(const struct amph_layer *self, struct amph_fwd_call *call,
                            const struct amph_fwd_file *file);
/* The process closes its last descriptor of this file: the kernel drops its locks with the descriptor. */
void amph_client_record_locks_close(const struct amph_fwd_ref *part);
/* The client opens.  passes: it may ask for descriptors.  Returns whether the previous image has left some. */
bool amph_client_record_locks_inherit(const struct amph_client_inherited *inherited, bool passes);
/* Does the process hold record locks on this file?  With the lock held. */
bool amph_client_record_locks_on(dev_t dev, ino_t ino);
/* May a descriptor be asked for?  With the lock held. */
bool amph_client_record_locks_allow(struct amph_fwd_client *cl, const struct passed_file *e);
void amph_client_record_locks_forget(void); /* in a forked child */

#endif

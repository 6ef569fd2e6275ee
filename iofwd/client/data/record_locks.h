/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What record_locks.c and record_locks_exec.c share.  What others use of them is in passed.h and passthrough.h.
 *
 * Layer: iofwd.  Thread rule: with the lock held, if not said otherwise.
 */
#ifndef AMPH_IOFWD_CLIENT_RECORD_LOCKS_H
#define AMPH_IOFWD_CLIENT_RECORD_LOCKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "iofwd/client/data/passed.h"
#include "iofwd/client/internal.h"

/* Blocks signals and takes the lock. */
static inline void amph_client_record_locks_enter(struct amph_client_sigguard *g)
{
    amph_client_sigguard_enter(g);
    pthread_mutex_lock(&amph_client_passthrough.lock);
}

static inline void amph_client_record_locks_leave(struct amph_client_sigguard *g)
{
    pthread_mutex_unlock(&amph_client_passthrough.lock);
    amph_client_sigguard_leave(g);
}

/* Has the entry a descriptor, which is still the file's?  e: or NULL. */
static inline bool amph_client_passed_has(const struct passed_file *e)
{
    return e && atomic_load_explicit(&e->state, memory_order_acquire) == HAS &&
           amph_client_passed_is_itself(e->fd, e->dev, e->ino);
}

/* ---- record_locks.c ---- */

/* May a server hold locks for this process?  Any thread. */
bool amph_client_record_locks_are_remote(void);
/* The process holds locks on this file, by a descriptor to read and write that the previous image had. */
void amph_client_record_locks_adopt(int fd, dev_t dev, ino_t ino);
/* The process has no locks on this file any more.  Returns whether it had. */
bool amph_client_record_locks_drop(dev_t dev, ino_t ino);

/* ---- record_locks_exec.c ---- */

/* A descriptor of a locked file that the previous image had. */
struct kept_file {
    int fd; /* -1: unused */
    int access;
    dev_t dev;
    ino_t ino;
    struct amph_fwd_ref ref;
};

/* Has the previous image left any?  Any thread. */
bool amph_client_kept_any(void);
/* Returns that of this open file, or NULL. */
const struct kept_file *amph_client_kept_find(const struct amph_fwd_ref *ref);
/* Closes that of this open file, if there is one. */
void amph_client_kept_close(const struct amph_fwd_ref *ref);
/* Closes all those of this file. */
void amph_client_kept_close_file(dev_t dev, ino_t ino);
void amph_client_kept_forget(void); /* in a forked child */
/* The client opens: takes over what the previous image has left, with its locks. */
void amph_client_kept_inherit(const struct amph_client_inherited *inherited);

#endif

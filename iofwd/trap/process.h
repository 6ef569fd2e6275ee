/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: the record of a process, for process.c, fs.c, number.c, map.c and memory.c, each of which
 * owns some fields.
 *
 * Layer: iofwd.  Thread rule: as the fields say.
 */
#ifndef AMPH_IOFWD_TRAP_PROCESS_H
#define AMPH_IOFWD_TRAP_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "iofwd/trap/trap.h"

struct own_fs;
struct amph_trap_mapper;

struct amph_trap_process {
    struct amph_trap_process *next; /* of its hash chain */
    _Atomic unsigned refs;          /* one is the table's */
    pid_t pid;
    int pidfd;
    bool gone;             /* out of the table */
    _Atomic unsigned said; /* of enum amph_trap_said */

    /* fs.c, under its lock */
    struct amph_trap_fs *fs;
    struct own_fs *own_fs;
    /* The first thread has left it (unshare) to those of its threads that have none of their own; else
     * NULL. */
    struct amph_trap_fs *left_fs;
    unsigned carried; /* the state of fs->changes that its placeholder carries */

    /* number.c */
    pthread_mutex_t numbering; /* from the search for a number to its use */
    _Atomic uint64_t *used;    /* numbers of the range, the first is bit 0; may say too much */

    struct amph_trap_mapper *mappers; /* map.c, under `numbering` */
};

/* ---- process.c ---- */

/* A living process that the supervisor knows, or NULL.  The caller ends its reference. */
struct amph_trap_process *amph_trap_process_find(pid_t pid);
void amph_trap_process_put(struct amph_trap_process *p);

/* ---- fs.c ---- */

/* Of a new process: what it has from its parent, by the placeholder that carries it.  False: no
 * memory. */
bool amph_trap_fs_inherit(struct amph_trap_process *p, mode_t mask);
/* The child uses its parent's, if the kernel says so. */
void amph_trap_fs_share(struct amph_trap_process *parent, struct amph_trap_process *child);
void amph_trap_fs_end(struct amph_trap_process *p);

/* ---- number.c ---- */

/* Memory for `used`, all free. */
_Atomic uint64_t *amph_trap_number_table(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tasks that leave their descriptor table for a copy of their own: unshare(CLONE_FILES),
 * close_range(CLOSE_RANGE_UNSHARE), and clone with CLONE_VM but without CLONE_FILES.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; not in signal handlers.
 */
#ifndef AMPH_IOFWD_OWN_TABLE_H
#define AMPH_IOFWD_OWN_TABLE_H

#include <pthread.h>
#include <stdbool.h>

#include "iofwd/interpose/fd/fdtab.h"

/* Is the caller's table the one that /proc/self/fd shows? */
bool amph_ip_table_is_selfs(void);

/* The directory in /proc that shows the caller's descriptors: "/proc/self/fd" or
 * "/proc/thread-self/fd". */
const char *amph_ip_table_directory(void);

/* Is there more than one table in this process? */
bool amph_ip_tables_many(void);

/* Has there been more than one, here or in the process that forked this one? */
bool amph_ip_tables_had(void);

/* Calls fn for each table but the caller's. */
void amph_ip_tables_others(void (*fn)(struct amph_fdtab *table, void *arg), void *arg);

/* Gives the calling task a copy of its table; the kernel does so in unshare_by, which returns 0 or -1.
 * Returns its result; -1 and ENOMEM: there is no memory for the copy. */
int amph_ip_table_unshare(int (*unshare_by)(void *arg), void *arg);

/* Would the kernel leave the table as it is, because no other task uses it? */
bool amph_ip_table_is_unshared(void);

/* A thread that the caller is about to start uses the caller's table.  The new thread calls enter
 * with what begin returned; cancel: it was not started. */
struct amph_fdtab *amph_ip_table_thread_begin(void);
void amph_ip_table_thread_enter(struct amph_fdtab *table);
void amph_ip_table_thread_cancel(struct amph_fdtab *table);

/* A child that shares memory with the caller: clone with CLONE_VM, without CLONE_THREAD.  With
 * CLONE_FILES it only counts.  begin: -1 and errno on failure; otherwise the child runs
 * amph_ip_table_child_run(*child_p) in place of fn, and the parent calls end with clone's result. */
struct amph_ip_table_child;
int amph_ip_table_child_begin(int flags, int (*fn)(void *), void *arg,
                              struct amph_ip_table_child **child_p);
int amph_ip_table_child_run(void *child);
void amph_ip_table_child_end(struct amph_ip_table_child *child, int flags, int pid);

/* Lets closes go on that are held for a child which was killed before it compared its table. */
void amph_ip_tables_forget_killed(void);

/* The calling task ends.  Returns whether it is a child that shares memory with another process. */
bool amph_ip_table_exit(void);

/* Around fork: fork_lock takes or releases the lock; forking, under it, notes the caller's table.  alone,
 * under it, too: no other task has a table of its own or shares the caller's as another process.  In the
 * child, forked makes that table the only and first one; forked_last, once the client knows of the fork,
 * gives it number 0. */
void amph_ip_tables_fork_lock(bool take);
bool amph_ip_tables_alone(void);
void amph_ip_tables_forking(void);
void amph_ip_tables_forked(void);
void amph_ip_tables_forked_last(void);

#endif

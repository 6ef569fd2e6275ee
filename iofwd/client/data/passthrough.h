/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passthrough, the client's side (wire/passthrough.h): the layer `passthrough` makes the calls that move file
 * data itself, on files whose descriptors the servers of this host have passed to it.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_PASSTHROUGH_H
#define AMPH_IOFWD_CLIENT_PASSTHROUGH_H

#include <stdbool.h>
#include <stddef.h>

struct amph_fwd_file;
struct amph_fwd_kept;

/* Adds the layer, if IOFWD_PASSTHROUGH allows it.  Before the first call. */
void amph_client_passthrough_open(void);

/* The process is about to have tasks with descriptor tables of their own.  Their calls go to the servers, so those
 * at the offsets of all tasks do from now on. */
void amph_client_passthrough_tables(void);

/* Closes the descriptors that no call is using; the process gets no more.  Returns whether there were any.
 * Signals are blocked. */
bool amph_client_passthrough_give_up(void);

/* Record locks over exec (record_locks_exec.c).  Appends to the text of the setting IOFWD_PRIVATE_CLIENT the files on
 * which this process holds locks, among those that are kept; returns its length.  Their descriptors stay open. */
size_t amph_client_record_locks_exec(const struct amph_fwd_kept *kept, char *buf, size_t len_bytes);
/* An exec has failed, or begins in a vfork child. */
void amph_client_record_locks_close_over_exec(void);
/* The new image has these files; the locks on others are dropped. */
void amph_client_record_locks_hold_only(const struct amph_fwd_file *files, size_t nfiles);
/* Is fd a descriptor that the previous image has left? */
bool amph_client_record_locks_own(int fd);

/* Is fd a descriptor that a server has passed? */
bool amph_client_passthrough_owns(int fd);

#endif

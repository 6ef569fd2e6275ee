/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pages of a file that is mapped MAP_SHARED, one set for all processes of a user on this host.
 * Layer: iofwd (preload). Thread rule: every function is called under amph_ip_pages_lock, but for
 * amph_ip_pages_fork; what takes pages, but for leave, between amph_ip_pages_begin and
 * amph_ip_pages_end.
 *
 * A file's pages are two files in /dev/shm/iofwd-UID, which belongs to that user alone: the data,
 * as long as the file itself, so that memory beyond its end is a SIGBUS as on a file system; and
 * the control file with a lock, a lock that each user of the pages holds a share of and the kernel
 * drops when it dies, which pieces are kept, and the shadow: what the server has.  The last user
 * removes both; what was left by processes that were killed is removed by the next process that
 * maps any file, and never believed.  Where the directory cannot be had, both are memory that only
 * forked children share.
 */
#ifndef AMPH_IOFWD_PAGES_H
#define AMPH_IOFWD_PAGES_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "iofwd/interpose/entry/client.h"

#define AMPH_IP_PAGES_NAME 120
#define AMPH_IP_PAGES_SHADOW \
    ((off_t)1 \
     << 42) /* where the shadow begins in the control file; 32-bit kernels have files of 16 TiB */

/* What the control file begins with. */
struct amph_ip_pages_head {
    uint32_t shadowed; /* a map may be written: there is a shadow of all that is kept */
};

struct amph_ip_pages {
    struct amph_ip_pages *next;
    char name[AMPH_IP_PAGES_NAME]; /* what the server calls the file */
    bool named;                    /* other processes find them */
    /* control is the parent's open file, whose locks do not keep the parent out */
    bool inherited;
    int data, control;
    struct amph_ip_pages_head *head;
    unsigned maps; /* of this process */
};

/* Of this process: signals are held back, no cancellation comes in between, and its limit of file
 * sizes, which is not meant for the files of pages, is lifted. */
struct amph_ip_pages_guard {
    sigset_t signals;
    int cancel;
    bool limited;
    struct rlimit64 limit;
};

void amph_ip_pages_lock(struct amph_ip_pages_guard *g);
void amph_ip_pages_unlock(const struct amph_ip_pages_guard *g);
void amph_ip_pages_fork_lock(bool take); /* for a fork: only the mutex */
void amph_ip_pages_forked(void);         /* in the child */

/* ---- memory/pages_shared.c: which pages, and who else uses them ---- */

/* The pages of file, which is len_bytes long, with one map more.  0, or an errno value: ENODEV
 * (strict: the map has to be one memory for all processes that lock the file, and cannot be). */
int amph_ip_pages_join(const struct amph_fwd_file *file, off_t len_bytes, bool strict,
                       struct amph_ip_pages **pages_p);

/* One map less; the last one of this process gives the pages up, and the last process removes
 * them. */
void amph_ip_pages_leave(struct amph_ip_pages *p);

/* This process ends, with its maps: who comes later need not find them. */
void amph_ip_pages_ending(void);

/* The pages of file that this process has, or NULL.  ask: the server may be asked which file
 * it is. */
struct amph_ip_pages *amph_ip_pages_of(const struct amph_fwd_file *file, bool ask);

/* Among processes: between these two, nobody else changes what is kept and what the file is. */
void amph_ip_pages_begin(struct amph_ip_pages *p);
void amph_ip_pages_end(struct amph_ip_pages *p);

/* A descriptor of the data for mapping, not writable where the file's is not; -1 with errno.  The
 * caller closes it. */
int amph_ip_pages_map_fd(const struct amph_ip_pages *p, bool writable);

/* ---- pages.c: what is in them.  Each gives 0 or an errno value. ---- */

/* From now on [from, from + len) is kept; it is read in afresh, but for what was changed here. */
int amph_ip_pages_load(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                       off_t len);

/* From now on there are changes. */
int amph_ip_pages_writable(struct amph_ip_pages *p);
bool amph_ip_pages_changed(const struct amph_ip_pages *p); /* may there be some?  Needs no lock. */

/* What was changed in [from, end) goes to the server through file. */
int amph_ip_pages_flush(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                        off_t end);

/* The file may have another length: what is new is read in. */
int amph_ip_pages_resize(struct amph_ip_pages *p, const struct amph_fwd_file *file);

/* [from, from + len) was written to the file. */
int amph_ip_pages_written(struct amph_ip_pages *p, const struct amph_fwd_file *file,
                          const void *buf, off_t from, size_t len);

/* [from, end) of the file has other data now, which are read in and take the place of changes. */
int amph_ip_pages_replaced(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                           off_t end);

/* buf was read from the file at from: what was changed since it went there comes into it. */
void amph_ip_pages_overlay(struct amph_ip_pages *p, void *buf, off_t from, size_t len);

/* Reads a file's data, from off on, into memory that is zero; holes are left out. */
int amph_ip_read_in(const struct amph_fwd_file *file, char *to, size_t len, off_t off);

/* ---- coherent.c ---- */

/* From now on the calls that move data know of pages. */
void amph_ip_coherent_begin(void);

#endif

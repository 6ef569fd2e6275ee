/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The versions that this process moves because it changes files by itself (near_change.c), so that clients on this
 * host hold nothing old of them (wire/writers.h).
 *
 * Each descriptor of a file that is open for writing has an entry.  The file counts as one that is changed until
 * the descriptor is closed.  That a descriptor was closed without a caught call is found at one of the next opens.
 * A file of which this process does not see all uses (shared maps, descriptors that were sent to others) counts as one
 * until the process ends.  If there are more descriptors than entries, all files count as changed until then.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#ifndef AMPH_IOFWD_INTERPOSE_NEAR_VERSIONS_H
#define AMPH_IOFWD_INTERPOSE_NEAR_VERSIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/platform.h"
#include "iofwd/wire/versions.h"

enum amph_ip_near_moves {
    AMPH_IP_NEAR_MOVES_NOT_YET,
    AMPH_IP_NEAR_MOVES_LOOKS, /* a thread is mapping the versions */
    AMPH_IP_NEAR_MOVES,
    AMPH_IP_NEAR_MOVES_NOT /* the servers change all files */
};

#define AMPH_IP_NEAR_NUMBER_TAKEN UINT32_MAX
#define AMPH_IP_NEAR_NUMBER_MAPPED \
    (UINT32_MAX - 1) /* the entry is that of maps, without a descriptor */

/* A descriptor of a file that is open for writing; or a file that is mapped. */
struct amph_ip_near_writing {
    _Atomic uint32_t
        number; /* 1 + the descriptor; 0: free; AMPH_IP_NEAR_NUMBER_TAKEN: a thread fills it in or gives it up;
                 * AMPH_IP_NEAR_NUMBER_MAPPED */
    uint32_t line;             /* of the file's versions */
    _Atomic uint64_t dev, ino; /* read while another thread may fill them in */
};

struct amph_ip_near_versions {
    _Atomic int state;             /* enum amph_ip_near_moves */
    struct amph_fwd_versions *map; /* NULL: the servers have none, so clients hold nothing */
    struct amph_fwd_writer *own;   /* NULL: none, or none was left */
    uint32_t pid;                  /* whose entries they are */
    _Atomic unsigned n;            /* entries in use */
    _Atomic unsigned swept;        /* the entry that was looked at last */
    _Atomic bool all;              /* all files count as changed */
    struct amph_ip_near_writing item[FWD_WRITER_FILES];
    struct amph_ip_near_writing more; /* of all files without an entry of their own */
};

extern struct amph_ip_near_versions amph_ip_near_versions AMPH_HIDDEN;

/* May this process change files by itself?  The first call maps the versions. */
bool amph_ip_near_may_change(void);

/* Around a change of names; cuts: it may also shorten a file.  begin returns what end needs: a child that a signal
 * handler has forked in between, and that returns from there, has another record, without this change. */
struct amph_fwd_writer *amph_ip_near_change_begin(bool cuts);
void amph_ip_near_change_end(struct amph_fwd_writer *record, bool cuts);

/* An entry for a file that is going to be opened for writing.  It must be filled in, or given up. */
struct amph_ip_near_writing *amph_ip_near_writing_reserve(void);
void amph_ip_near_writing_fill(struct amph_ip_near_writing *e, int fd, const struct stat *st);
void amph_ip_near_writing_give_up(struct amph_ip_near_writing *e);

/* Around the close of a descriptor that is not forwarded; NULL: it has no entry. */
struct amph_ip_near_writing *amph_ip_near_writing_leave(int fd);
/* closed: whether the call has closed fd. */
void amph_ip_near_writing_left(struct amph_ip_near_writing *e, int fd, bool closed);

/* copy, if it is one, has become another descriptor of the file behind fd, which is not forwarded.  Returns copy. */
int amph_ip_near_copied(int fd, int copy);

/* The file behind fd is used in ways that are not seen, until the process ends. */
void amph_ip_near_writing_keep(int fd);

/* A file that has these attributes is going to be mapped by a passed descriptor and may be changed in memory;
 * versions: those that the servers move.  Returns a number for the end, -1: this process cannot move them.  A forked
 * child, which has the maps, has begun as well.  Under amph_ip_pages_lock, which is held at a fork. */
int amph_ip_near_mapped_begin(uint64_t versions, const struct stat *st);
void amph_ip_near_mapped_end(int number);

/* Has an open descriptor of this process, which is not forwarded, an entry? */
static inline bool amph_ip_near_writes(int fd)
{
    if (AMPH_LIKELY(atomic_load_explicit(&amph_ip_near_versions.n, memory_order_relaxed) == 0))
        return false;

    for (size_t i = 0; i < FWD_WRITER_FILES; i++)
        if (atomic_load_explicit(&amph_ip_near_versions.item[i].number, memory_order_relaxed) ==
            (uint32_t)fd + 1)
            return true;

    return false;
}

/* A descriptor that this program has inherited is one of a file that is open for writing. */
void amph_ip_near_writing_inherit(int fd, const struct stat *st);

/* In a forked child, which has the parent's descriptors. */
void amph_ip_near_versions_forked(void);

#endif

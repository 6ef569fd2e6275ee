/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pages of a file that is mapped MAP_SHARED, one set for all processes of a user on this host.
 *
 * Layer: iofwd (interposer).  Thread rule: call every function under amph_ip_pages_lock, except
 * amph_ip_pages_fork_lock and amph_ip_pages_forked.  Call those that take a struct amph_ip_pages,
 * except amph_ip_pages_leave, between amph_ip_pages_begin and amph_ip_pages_end.
 *
 * The pages of a file are kept in two files in /dev/shm/iofwd-UID, which only that user can access:
 *
 *   data     as long as the file itself, so that access beyond its end raises SIGBUS as on a local
 *            file system
 *   control  a lock for changes; a lock that each process holds a share of and the kernel drops when
 *            the process dies; a map of the pieces that were read in; and the shadow, a copy of what
 *            the server has
 *
 * The last process removes both.  Files that killed processes left are never used; the next process
 * that maps a file removes them.  If the directory cannot be used, both are anonymous memory, which
 * only forked children share.
 */
#ifndef AMPH_IOFWD_PAGES_H
#define AMPH_IOFWD_PAGES_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/platform.h"
#include "iofwd/interpose/attach/client.h"

#define AMPH_IP_PAGES_NAME 120

/* The shadow's offset in the control file.  32-bit kernels limit files to 16 TiB. */
#define AMPH_IP_PAGES_SHADOW ((off_t)1 << 42)

/* The beginning of the control file. */
struct amph_ip_pages_head {
    uint32_t shadowed; /* some map may be written, so the shadow is complete */
};

struct amph_ip_pages {
    struct amph_ip_pages *next;
    char name[AMPH_IP_PAGES_NAME]; /* the file's identity, given by its server */
    bool named;                    /* other processes can find the pages by it */
    /* control was opened by the parent: a lock on it does not exclude the parent */
    bool inherited;
    int data, control;
    int kind; /* a descriptor of the object of wire/map_kinds.h, or -1 */
    struct amph_ip_pages_head *head;
    unsigned maps; /* of this process */
};

/* What amph_ip_pages_lock saves: under the lock signals are blocked, cancellation is disabled, and
 * the limit of file sizes is lifted, since it does not apply to the files of pages. */
struct amph_ip_pages_guard {
    sigset_t signals;
    int cancel;
    void (*set_program_mask)(const sigset_t *mask); /* of the client, if there is one */
    bool limited;
    struct rlimit64 limit;
};

#define AMPH_IP_PAGES_CHUNK ((off_t)1 << 20) /* bytes that are compared at once */
#define AMPH_IP_PAGES_KNOWN 64

struct amph_ip_map;
struct amph_ip_file_map;
struct amph_ip_mapped_file;

/* The state of memory/, read and written under amph_ip_pages_lock; amph_ip_pages_forked runs in a
 * child of one thread. */
struct amph_ip_memory_state {
    struct amph_ip_map *maps; /* map.c: this process's, newest first */

    /* pages_shared.c */
    pthread_mutex_t mutex;     /* amph_ip_pages_lock */
    struct amph_ip_pages *all; /* of this process */
    uint32_t epoch;            /* increases whenever `all` changes */
    bool swept;                /* what killed processes left has been removed */

    /* map_file.c: of files themselves */
    uint64_t turn; /* of the last call that has changed them; atomic */
    struct amph_ip_file_map *file_maps;
    struct amph_ip_mapped_file *files;

    struct {
        uint64_t handle;
        uint32_t server, epoch;
        struct amph_ip_pages *pages;
    } known[AMPH_IP_PAGES_KNOWN]; /* the pages of open files, by handle */

    /* pages.c: a chunk of this process's pages, of the server's file, and of the shadow. */
    char ours[AMPH_IP_PAGES_CHUNK], theirs[AMPH_IP_PAGES_CHUNK], base[AMPH_IP_PAGES_CHUNK];
};

extern struct amph_ip_memory_state amph_ip_memory AMPH_HIDDEN;

void amph_ip_pages_lock(struct amph_ip_pages_guard *g);
void amph_ip_pages_unlock(const struct amph_ip_pages_guard *g);
void amph_ip_pages_fork_lock(bool take); /* for a fork: only the mutex */
void amph_ip_pages_forked(void);         /* in the child */

/* Opens the directory in shared memory that all processes of this user on this host use, and makes it if necessary.
 * -1: it cannot be used, or other users can write there. */
int amph_ip_space_open(void);

/* ---- memory/pages_shared.c: which pages, and who else uses them ---- */

/* Who is going to map a file's pages. */
struct amph_ip_pages_user {
    const struct stat *st; /* the file's attributes at its server */
    bool writes;           /* the map may be written */
    bool strict;           /* all processes that lock the file must share one memory */
};

/* Adds a map of a file, and returns its pages.  Returns 0 or an errno value; EBUSY: other processes have maps of the
 * file itself (map_file.h), EALREADY: by passed descriptors; ENODEV: they cannot share one memory, but must. */
int amph_ip_pages_join(const struct amph_fwd_file *file, const struct amph_ip_pages_user *user,
                       struct amph_ip_pages **pages_p);

/* Removes one map.  With the last map of this process the pages are released, and the last process
 * removes them. */
void amph_ip_pages_leave(struct amph_ip_pages *p);

/* Releases all pages at the end of this process, so that no later process finds them. */
void amph_ip_pages_ending(void);

/* Returns the pages of file that this process has, or NULL.  ask: the server may be asked which
 * file it is. */
struct amph_ip_pages *amph_ip_pages_of(const struct amph_fwd_file *file, bool ask);

/* Lock the pages against other processes. */
void amph_ip_pages_begin(struct amph_ip_pages *p);
void amph_ip_pages_end(struct amph_ip_pages *p);

/* Opens a descriptor of the data for mapping, read-only if the file is.  -1 with errno.  The caller
 * closes it. */
int amph_ip_pages_map_fd(const struct amph_ip_pages *p, bool writable);

/* ---- pages.c: contents.  Each returns 0 or an errno value. ---- */

/* Reads [from, from + len) in, except for bytes that were changed here. */
int amph_ip_pages_load(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                       off_t len);

/* Prepares the pages for changes: completes the shadow. */
int amph_ip_pages_writable(struct amph_ip_pages *p);
/* Returns whether there may be changes.  Needs no lock. */
bool amph_ip_pages_changed(const struct amph_ip_pages *p);

/* Writes what was changed in [from, end) to the server through file. */
int amph_ip_pages_flush(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                        off_t end);

/* Adapts the pages to a new length of the file and reads in what was added. */
int amph_ip_pages_resize(struct amph_ip_pages *p, const struct amph_fwd_file *file);

/* Enters in the pages what a call has written to the file at from. */
int amph_ip_pages_written(struct amph_ip_pages *p, const struct amph_fwd_file *file,
                          const void *buf, off_t from, size_t len);

/* Reads [from, end) in again after its data in the file was replaced; changes there are dropped. */
int amph_ip_pages_replaced(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                           off_t end);

/* Adds to buf, which was read from the file at from, the changes that are not at the server yet. */
void amph_ip_pages_overlay(struct amph_ip_pages *p, void *buf, off_t from, size_t len);

/* Reads a file's data at off into zeroed memory; holes are skipped. */
int amph_ip_read_in(const struct amph_fwd_file *file, char *to, size_t len, off_t off);

/* ---- coherent.c ---- */

/* Makes the calls that move data consistent with mapped pages, from now on. */
void amph_ip_coherent_begin(void);

#endif

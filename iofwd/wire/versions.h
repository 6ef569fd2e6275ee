/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of files, in memory that all servers of one user on one host share and that clients of
 * that host map.  A server moves the version of a file before and after each change of
 * it, so a client that holds data or attributes of the file knows without a message whether they
 * are still current.
 *
 * Layer: iofwd.  Thread rule: any thread; the members are atomic.
 *
 * The object is /dev/shm/iofwd-UID/versions.  The first server makes it and the last one removes
 * it.  A file's versions are in the line that its device and inode select; files that share a line
 * only invalidate each other's data.
 */
#ifndef AMPH_IOFWD_VERSIONS_H
#define AMPH_IOFWD_VERSIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "iofwd/wire/writers.h"

#define FWD_VERSIONS_DIRECTORY \
    "/dev/shm/iofwd-%lu" /* of a user; also the interposer's, for shared maps */
#define FWD_VERSIONS_NAME "versions"
#define FWD_VERSIONS_LAYOUT (UINT64_C(0x56455254) << 32 | sizeof(struct amph_fwd_versions))

#define FWD_VERSIONS_LINES 4096u
#define FWD_VERSIONS_LINE_NONE UINT32_MAX

/* Changes begun and changes ended.  They have 32 bits, which processes of any word size read at
 * once; a client holds nothing for long enough to see them wrap. */
struct amph_fwd_version {
    _Atomic uint32_t begun, ended;
};

/*
 * The changes that a server makes. Like all who change files (writers.h) it claims a change before it begins it
 * and until it has ended it, so that what is under way without a claim was left by somebody who was killed, and
 * can be ended (amph_fwd_versions_repair). A server owns the journal whose byte of the file
 * (FWD_JOURNAL_LOCK_AT + its number) it has locked; claims in a journal that nobody has locked are void.
 */
struct amph_fwd_journal_entry {
    _Atomic uint32_t claims; /* FWD_VERSION_*: these versions of the line, of names, of cuts */
    _Atomic uint32_t line;
};

#define FWD_JOURNAL_ENTRIES 32u /* changes at a time */
#define FWD_JOURNALS 64u        /* servers; more have none */
#define FWD_JOURNAL_LOCK_AT (INT64_C(1) << 40)

struct amph_fwd_journal {
    _Alignas(64) struct amph_fwd_journal_entry entry[FWD_JOURNAL_ENTRIES];
    _Atomic uint32_t others; /* changes without an entry, of any file */
};

struct amph_fwd_versions_line {
    _Alignas(64) struct amph_fwd_version data; /* and the attributes that follow from it */
    struct amph_fwd_version attributes;        /* all others */
};

struct amph_fwd_versions {
    _Alignas(64) uint64_t layout;
    uint64_t id; /* of this object, random; 0: not yet initialised */
    /* the inode of /proc/self/ns/pid of the servers, where writers have their numbers */
    uint64_t pid_space;
    _Atomic uint32_t gone; /* the last server has removed the object */
    /* changes of processes that have no record, of any file; if one of these is killed, nothing is repaired any more */
    _Atomic uint32_t others;
    /* names, and the attributes of what a path names */
    _Alignas(64) struct amph_fwd_version names;
    /* calls that shorten a file which only the call itself finds: while one is under way, no file's
     * data is known to be current.  They move the file's version before they end. */
    struct amph_fwd_version cuts;
    struct amph_fwd_versions_line line[FWD_VERSIONS_LINES];
    struct amph_fwd_journal journal[FWD_JOURNALS];
    struct amph_fwd_writer writer[FWD_WRITERS];
    struct amph_fwd_passer passer[FWD_PASSERS];
};

static inline uint32_t amph_fwd_versions_line_of(uint64_t dev, uint64_t ino)
{
    uint64_t h = (ino ^ dev * UINT64_C(0xc2b2ae3d27d4eb4f)) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(h >> 40) % FWD_VERSIONS_LINES;
}

/* Server: before and after a change. */
static inline void amph_fwd_version_begin(struct amph_fwd_version *v)
{
    atomic_fetch_add(&v->begun, 1);
}

static inline void amph_fwd_version_end(struct amph_fwd_version *v)
{
    atomic_fetch_add(&v->ended, 1);
}

/* Client: stores the version.  Returns false while a change is under way.  The order of the two
 * loads matters: a change that begins between them makes the numbers differ. */
static inline bool amph_fwd_version_take(const struct amph_fwd_version *v, uint32_t *version_p)
{
    uint32_t ended = atomic_load((_Atomic uint32_t *)&v->ended);

    *version_p = atomic_load((_Atomic uint32_t *)&v->begun);
    return *version_p == ended;
}

/* Has no change begun since this version was taken? */
static inline bool amph_fwd_version_is(const struct amph_fwd_version *v, uint32_t version)
{
    return atomic_load_explicit((_Atomic uint32_t *)&v->begun, memory_order_acquire) == version;
}

/* Does this process number processes as those do that have records? */
bool amph_fwd_versions_same_pids(const struct amph_fwd_versions *v);

/* Server: opens the object, or makes it.  On AMPH_OK the caller owns the descriptor, whose lock
 * says that the object is in use.  AMPH_ERR_NOENT: this host has no usable place for it. */
enum amph_status amph_fwd_versions_open(struct amph_fwd_versions **versions_p, int *fd_p);
/* Ends the use; the last server removes the object, unless processes have files open for writing by themselves, of
 * which the next servers must know.  The memory stays mapped, since a worker may
 * still be in a call; busy: one is, and the journal stays this process's until it ends. */
void amph_fwd_versions_close(struct amph_fwd_versions *versions, int fd, bool busy);

/* The id of the user's object on this host; 0: there is none. */
uint64_t amph_fwd_versions_id(void);

/* Client: maps the object if it is the one with this id; else NULL.  Never unmapped.  writable: for a client
 * that changes files itself (passthrough.h); otherwise the memory is read-only. */
struct amph_fwd_versions *amph_fwd_versions_map(uint64_t id, bool writable);

#endif

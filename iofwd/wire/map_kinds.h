/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file's shared maps are maps of the file itself, by processes of the servers' host that can open it
 * (iofwd/interpose/path/near.h) or that a server passes its descriptor for that (amph_fwd_map_begin), or maps of its
 * pages, by all others (iofwd/interpose/memory/pages.h).  The two do not show each other's changes.  So they exclude
 * each other:
 *
 *   those by a process that has opened the file by itself, and all maps of pages
 *   those by a passed descriptor, and maps of pages by processes of the same host.  On other hosts pages are brought
 *   up to date by msync and the like only, whatever kind the others' maps are
 *
 * Maps that are only read may be of both kinds.
 *
 * Who maps a file locks bytes of one object that the user's processes and servers on a host have
 * (/dev/shm/iofwd-UID/maps).  The kernel drops the locks when the descriptor of the object is closed.
 *
 * Layer: iofwd.  Uses the C library only.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_MAP_KINDS_H
#define AMPH_IOFWD_MAP_KINDS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FWD_MAP_KINDS_NAME "maps"

/* Kinds that exclude each other differ in the lowest bit. */
enum amph_fwd_map_kind {
    FWD_MAPS_OF_FILE = 0,
    FWD_MAPS_OF_PAGES = 1,
    FWD_MAPS_PASSED = 4,
    FWD_MAPS_OF_PAGES_HERE = 5 /* beside FWD_MAPS_OF_PAGES, by a process of the server's host */
};

/* In the place of a space (sharemap): the map is one of the file itself. */
#define FWD_MAP_SPACE_FILE INT64_C(2)

/* fcntl, of the C library or past the interposer. */
typedef int (*amph_fwd_fcntl_fn)(int fd, int command, void *arg);

/* A file's first byte.  A kind's byte is so far behind it, and two behind that is the one for its maps that may be
 * written. */
static inline off_t amph_fwd_map_kinds_at(uint64_t dev, uint64_t ino)
{
    uint64_t h = (ino ^ dev * UINT64_C(0xc2b2ae3d27d4eb4f)) * UINT64_C(0x9e3779b97f4a7c15);

    return (off_t)((h ^ h >> 32) >> 2 & ~UINT64_C(7));
}

static inline bool amph_fwd_map_kind_lock(int fd, short type, off_t byte, amph_fwd_fcntl_fn call)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

    return call(fd, F_OFD_SETLK, &l) == 0;
}

static inline bool amph_fwd_map_kind_is_locked(int fd, off_t byte, amph_fwd_fcntl_fn call)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

    return call(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/* The holder of fd, a descriptor of the object, is going to map the file that begins at `at`.  writes: the map may be
 * written; reads: by fd there are maps already, which are only read.  false: others have maps of the other kind.  It
 * locks first: of two that map at a time at least one sees the other. */
static inline bool amph_fwd_map_kind_enter(int fd, off_t at, enum amph_fwd_map_kind kind,
                                           bool writes, bool reads, amph_fwd_fcntl_fn call)
{
    off_t other = at + (kind ^ 1);

    amph_fwd_map_kind_lock(fd, F_RDLCK, at + kind, call);
    if (writes)
        amph_fwd_map_kind_lock(fd, F_RDLCK, at + kind + 2, call);

    if (!amph_fwd_map_kind_is_locked(fd, writes ? other : other + 2, call))
        return true;

    if (!reads)
        amph_fwd_map_kind_lock(fd, F_UNLCK, at + kind, call);

    amph_fwd_map_kind_lock(fd, F_UNLCK, at + kind + 2, call);
    return false;
}

/* Server: opens the object.  -1: this host has no usable place for it.  The caller owns the descriptor. */
int amph_fwd_map_kinds_open(void);

#endif

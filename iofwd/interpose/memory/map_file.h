/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared maps of files that the process has opened by itself (path/near.h), and by descriptors that servers have passed
 * for them (amph_fwd_map_begin): the kernel's own, of the file itself.  They are listed, because other processes must
 * not map the file's pages meanwhile (wire/map_kinds.h), and because a file that is mapped by a passed descriptor
 * counts as changed until its last map is gone.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_INTERPOSE_MAP_FILE_H
#define AMPH_IOFWD_INTERPOSE_MAP_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/wire/map_kinds.h"

struct amph_ip_mapped_file;

/* How this process is going to map a file. */
struct amph_ip_map_way {
    enum amph_fwd_map_kind kind; /* FWD_MAPS_OF_FILE or FWD_MAPS_PASSED */
    bool writes;                 /* the map may be written */
    /* FWD_MAPS_PASSED: those that the servers move; the file's name below the prefix, "" if it is not known */
    uint64_t versions;
    const char *path;
};

/* This process is going to map the file with these attributes.  NULL: errno is EBUSY if others have maps of its pages,
 * EAGAIN if the process cannot move the versions, or ENOMEM.  amph_ip_map_file_add or amph_ip_map_file_leave must
 * follow. */
struct amph_ip_mapped_file *amph_ip_map_file_enter(const struct stat *st,
                                                   const struct amph_ip_map_way *way);
void amph_ip_map_file_leave(struct amph_ip_mapped_file *file);
/* Lists the map.  false: there is no memory; the file has been left. */
bool amph_ip_map_file_add(struct amph_ip_mapped_file *file, void *at, size_t len);

static inline bool amph_ip_map_files(void)
{
    return __atomic_load_n(&amph_ip_state.file_maps, __ATOMIC_RELAXED);
}

/* A number that is larger than those of all maps that have been listed, and smaller than those of later ones: before a
 * call that unmaps memory. */
uint64_t amph_ip_map_file_turn(void);
/* [at, at + len) has been unmapped, as it was at this turn; another thread may have mapped it again. */
void amph_ip_map_file_forget(const void *at, size_t len, uint64_t turn);

/* The name of a file that has a map by a passed descriptor in [at, at + len).  false: there is no such map. */
bool amph_ip_map_file_path(const void *at, size_t len, char path[PATH_MAX]);

/* A call of mremap that may move a map. */
struct amph_ip_moved_map {
    const void *old;
    size_t old_len;
    void *at; /* MAP_FAILED: nothing has changed */
    size_t len;
    bool keeps_old;
    uint64_t turn; /* before the call */
};

/* Around it: begin returns the file of a map in [at, at + len), or NULL. */
struct amph_ip_mapped_file *amph_ip_map_file_move_begin(const void *at, size_t len);
void amph_ip_map_file_move_end(struct amph_ip_mapped_file *file, const struct amph_ip_moved_map *v);

/* The object of wire/map_kinds.h; -1: it cannot be used.  The caller owns the descriptor. */
int amph_ip_map_kinds_open(void);

#endif

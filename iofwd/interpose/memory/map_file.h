/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared maps of files that the process has opened by itself (path/near.h): the kernel's own, of the file itself.
 * They are listed, because other processes must not map the file's pages meanwhile (wire/map_kinds.h).
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_INTERPOSE_MAP_FILE_H
#define AMPH_IOFWD_INTERPOSE_MAP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "iofwd/interpose/entry/catch.h"

struct amph_ip_mapped_file;

/* This process is going to map the file with these attributes.  writes: the map may be written.  NULL: errno is
 * EBUSY if others have maps of its pages, or ENOMEM.  amph_ip_map_file_add or amph_ip_map_file_leave must follow. */
struct amph_ip_mapped_file *amph_ip_map_file_enter(const struct stat *st, bool writes);
void amph_ip_map_file_leave(struct amph_ip_mapped_file *file);
/* Lists the map.  false: there is no memory; the file has been left. */
bool amph_ip_map_file_add(struct amph_ip_mapped_file *file, void *at, size_t len);

static inline bool amph_ip_map_files(void)
{
    return __atomic_load_n(&amph_ip_state.file_maps, __ATOMIC_RELAXED);
}

/* [at, at + len) is going to be unmapped. */
void amph_ip_map_file_forget(const void *at, size_t len);

/* Around mremap, which may move a map: begin returns the file of a map in [at, at + len), or NULL. */
struct amph_ip_mapped_file *amph_ip_map_file_move_begin(const void *at, size_t len);
void amph_ip_map_file_move_end(struct amph_ip_mapped_file *file, const void *old, size_t old_len,
                               void *at, size_t len, bool keeps_old);

/* The object of wire/map_kinds.h; -1: it cannot be used.  The caller owns the descriptor. */
int amph_ip_map_kinds_open(void);

#endif

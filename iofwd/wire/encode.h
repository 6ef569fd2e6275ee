/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fixed encodings of values that POSIX leaves to the system: errno, open flags, modes, whence,
 * stat, statfs, directory entries, locks, times.  Table driven.
 *
 * Layer: iofwd.  Thread rule: pure functions on the caller's memory.
 *
 * Numbers on the wire never change; tests/unit/unit_iofwd_encode.c holds golden bytes of each.
 */
#ifndef AMPH_IOFWD_ENCODE_H
#define AMPH_IOFWD_ENCODE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/wire.h"

/* A native number or bit and its number on the wire. */
struct amph_fwd_value_pair {
    uint32_t native, wire;
};

/* A set of flags: bits by table, and optionally a field that holds a number (access mode, file
 * type). */
struct amph_fwd_flagset {
    const char *name;
    const struct amph_fwd_value_pair *bit;
    size_t nbits;
    const struct amph_fwd_value_pair *field;
    size_t nfield;
    uint32_t native_mask, wire_mask; /* of the field */
};

enum amph_fwd_set {
    FWD_SET_OFLAGS,
    FWD_SET_MODE,
    FWD_SET_ATFLAGS,
    FWD_SET_AMODE,
    FWD_SET_RFLAGS,
    FWD_SET_XFLAGS,
    FWD_SET_FALLOC,
    FWD_SET_LOCKOP,
    FWD_NSETS
};

/* Return false if a bit or number has no equivalent; *out_p then holds the other bits. */
bool amph_fwd_flags_to_wire(enum amph_fwd_set set, uint32_t native, uint32_t *out_p);
bool amph_fwd_flags_from_wire(enum amph_fwd_set set, uint32_t wire, uint32_t *out_p);

uint32_t amph_fwd_errno_to_wire(int err); /* unknown numbers become EIO */
int amph_fwd_errno_from_wire(uint32_t wire);

/* Does the error concern the storage, and not the call: a broken or full device, a lost mount? */
bool amph_fwd_errno_is_storage(int err);

bool amph_fwd_whence_to_wire(int whence, uint8_t *out_p);
bool amph_fwd_whence_from_wire(uint8_t wire, int *out_p);

void amph_fwd_put_stat(struct amph_wr *w, const struct stat *st);
void amph_fwd_get_stat(struct amph_rd *r, struct stat *st);
/* mask and attributes in Linux's encoding, without mount ids */
void amph_fwd_put_statx(struct amph_wr *w, const struct statx *stx);
void amph_fwd_get_statx(struct amph_rd *r, struct statx *stx);
void amph_fwd_put_statfs(struct amph_wr *w, const struct statfs *fs);
void amph_fwd_get_statfs(struct amph_rd *r, struct statfs *fs);
void amph_fwd_put_lock(struct amph_wr *w, const struct flock *lock);
void amph_fwd_get_lock(struct amph_rd *r, struct flock *lock);
void amph_fwd_put_times(struct amph_wr *w, const struct timespec *times); /* NULL: both now */
void amph_fwd_get_times(struct amph_rd *r, struct timespec times[2]);

/* Encode len_bytes of whole getdents64 entries; decode them into at most cap bytes (false: they do
 * not fit or are malformed). */
void amph_fwd_put_dirents(struct amph_wr *w, const void *entries, size_t len_bytes);
bool amph_fwd_get_dirents(struct amph_rd *r, void *entries, size_t cap, size_t *len_p);

#endif

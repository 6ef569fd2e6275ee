/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ioctl requests that read and set inode flags (lsattr, chattr), for every way into a program: which
 * flags each request is about, and how its argument is encoded.
 *
 * Layer: iofwd.  Uses only the C library, so that the preload library can contain it.
 * Thread rule: pure functions.
 */
#ifndef AMPH_IOFWD_INODE_REQUESTS_H
#define AMPH_IOFWD_INODE_REQUESTS_H

#include <linux/fs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "iofwd/wire/inode_flags.h"

struct amph_fwd_inode_request {
    uint32_t request;
    uint8_t which; /* FWD_INODE_FLAGS_... */
    bool sets;
};

/* The argument: an int, although the number of the request names another type, or a struct fsxattr,
 * which begins with words. */
union amph_fwd_inode_value {
    struct fsxattr extended;
    uint32_t word[FWD_INODE_FLAGS_MAX];
};

/* Room for an encoded value. */
#define FWD_INODE_VALUE_BYTES (FWD_INODE_FLAGS_MAX * FWD_INODE_FLAG_BYTES)

/* Returns the row of the request, or NULL. */
static inline const struct amph_fwd_inode_request *amph_fwd_inode_request_find(
    unsigned long request)
{
    static const struct amph_fwd_inode_request rows[] = {
        { (uint32_t)FS_IOC_GETFLAGS, FWD_INODE_FLAGS_FLAGS, false },
        { (uint32_t)FS_IOC_SETFLAGS, FWD_INODE_FLAGS_FLAGS, true },
        { (uint32_t)FS_IOC32_GETFLAGS, FWD_INODE_FLAGS_FLAGS, false },
        { (uint32_t)FS_IOC32_SETFLAGS, FWD_INODE_FLAGS_FLAGS, true },
        { (uint32_t)FS_IOC_GETVERSION, FWD_INODE_FLAGS_VERSION, false },
        { (uint32_t)FS_IOC_SETVERSION, FWD_INODE_FLAGS_VERSION, true },
        { (uint32_t)FS_IOC_FSGETXATTR, FWD_INODE_FLAGS_EXTENDED, false },
        { (uint32_t)FS_IOC_FSSETXATTR, FWD_INODE_FLAGS_EXTENDED, true },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].request == request)
            return &rows[i];

    return NULL;
}

static inline size_t amph_fwd_inode_value_bytes(size_t which)
{
    return which == FWD_INODE_FLAGS_EXTENDED ? sizeof(struct fsxattr) : sizeof(uint32_t);
}

/* Encodes the value in room, FWD_INODE_VALUE_BYTES.  Returns its encoded length. */
static inline size_t amph_fwd_inode_value_put(void *room, size_t which,
                                              const union amph_fwd_inode_value *value)
{
    size_t n = which == FWD_INODE_FLAGS_EXTENDED ? FWD_INODE_FLAGS_MAX : 1;

    for (size_t i = 0; i < n; i++)
        amph_fwd_inode_flag_put(room, i, value->word[i]);

    return n * FWD_INODE_FLAG_BYTES;
}

/* Decodes len bytes, at most FWD_INODE_VALUE_BYTES, into the value, whose rest becomes 0. */
static inline void amph_fwd_inode_value_get(union amph_fwd_inode_value *value, const void *room,
                                            size_t len)
{
    *value = (union amph_fwd_inode_value){ 0 };
    for (size_t i = 0; i < len / FWD_INODE_FLAG_BYTES; i++)
        value->word[i] = amph_fwd_inode_flag_get(room, i);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding of the inode flags that ioctl reads and sets (lsattr, chattr): words of 32 bits,
 * little-endian.
 *
 * Layer: iofwd.  Uses only the C library, so that the preload library can contain it.
 * Thread rule: pure functions.
 */
#ifndef AMPH_IOFWD_INODE_FLAGS_H
#define AMPH_IOFWD_INODE_FLAGS_H

#include <stddef.h>
#include <stdint.h>

/* FS_IOC_GETFLAGS, GETVERSION, FSGETXATTR, FIONREAD of a file that is not regular, and fcntl's
 * F_GETPIPE_SZ */
enum {
    FWD_INODE_FLAGS_FLAGS = 1,
    FWD_INODE_FLAGS_VERSION = 2,
    FWD_INODE_FLAGS_EXTENDED = 3,
    FWD_INODE_FLAGS_UNREAD = 4,
    FWD_INODE_FLAGS_PIPE_SIZE = 5
};

#define FWD_INODE_FLAGS_MAX 5u /* words: of struct fsxattr */
#define FWD_INODE_FLAG_BYTES 4u

static inline void amph_fwd_inode_flag_put(void *at, size_t i, uint32_t word)
{
    uint8_t *p = (uint8_t *)at + i * FWD_INODE_FLAG_BYTES;
    for (unsigned b = 0; b < FWD_INODE_FLAG_BYTES; b++)
        p[b] = (uint8_t)(word >> 8 * b);
}

static inline uint32_t amph_fwd_inode_flag_get(const void *at, size_t i)
{
    const uint8_t *p = (const uint8_t *)at + i * FWD_INODE_FLAG_BYTES;
    uint32_t word = 0;

    for (unsigned b = 0; b < FWD_INODE_FLAG_BYTES; b++)
        word |= (uint32_t)p[b] << 8 * b;

    return word;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHA-256 (FIPS 180-4), for the MACs of base/auth.h.
 *
 * Layer: base.  Thread rule: pure functions on the caller's memory.
 *
 * It is here because of the time that a library takes to load in every process of a job and every
 * forwarded program: Nettle 0.12 ms, libcrypto 0.7.  What is hashed are keys and the few messages in
 * which peers prove that they know one.
 */
#ifndef AMPH_BASE_SHA256_H
#define AMPH_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define AMPH_SHA256_BYTES 32
#define AMPH_SHA256_BLOCK_BYTES 64

struct amph_sha256 {
    uint32_t state[8];
    uint64_t blocks; /* that state contains */
    uint8_t rest[AMPH_SHA256_BLOCK_BYTES];
    size_t rest_bytes; /* of the block that has begun, less than a block */
};

void amph_sha256_init(struct amph_sha256 *h);
/* Starts from the state after `blocks` blocks. */
void amph_sha256_resume(struct amph_sha256 *h, const uint32_t state[8], uint64_t blocks);
void amph_sha256_update(struct amph_sha256 *h, const void *data, size_t len_bytes);
/* Writes the digest of what has been given; h is used up. */
void amph_sha256_digest(struct amph_sha256 *h, uint8_t digest[AMPH_SHA256_BYTES]);

#endif

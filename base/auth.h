/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and message authentication codes (HMAC-SHA256, with Nettle's SHA-256).
 *
 * Layer: base.  Thread rule: callable from any thread.
 */
#ifndef AMPH_BASE_AUTH_H
#define AMPH_BASE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMPH_KEY_BYTES 32
#define AMPH_MAC_BYTES 32

/* Fills buf from the kernel's random source; ends the process if that fails. */
void amph_random(void *buf, size_t len_bytes);

/* HMAC-SHA256 of data under key. */
void amph_mac(const uint8_t key[AMPH_KEY_BYTES], const void *data, size_t len_bytes,
              uint8_t mac[AMPH_MAC_BYTES]);

/* The 64-bit cookie of messages from source to destination: the first 8 bytes of HMAC(key, domain,
 * src, dst), all little-endian. */
uint64_t amph_cookie(const uint8_t key[AMPH_KEY_BYTES], uint32_t domain, uint32_t src,
                     uint32_t dst);

/* A key that is used often: the part of the MAC that depends on the key alone, computed once. */
struct amph_mac_key {
    uint32_t state[2][8]; /* of SHA-256, after the inner and the outer block */
};

void amph_mac_key_init(struct amph_mac_key *k, const uint8_t key[AMPH_KEY_BYTES]);

struct amph_mac_part {
    const void *at;
    size_t len_bytes;
};

/* The first 8 bytes (as a little-endian number) of HMAC-SHA256 of the concatenated parts. */
uint64_t amph_mac64(const struct amph_mac_key *k, const struct amph_mac_part *part,
                    unsigned nparts);

/* Compares in constant time. */
bool amph_mac_equal(const void *a, const void *b, size_t len_bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256; see sha256.h.  The names of the functions and constants are those of FIPS 180-4.  Layer: base. */
#include "base/sha256.h"

#include <string.h>

enum {
    ROUNDS = 64,
    LENGTH_BYTES = 8 /* the message's length at its end */
};

/* The first 32 bits of the fractions of the square roots of the first 8 primes, 5.3.3. */
static const uint32_t initial[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

/* The same of the cube roots of the first 64 primes, 4.2.2. */
static const uint32_t K[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t get_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_be32(uint8_t *at, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* The message schedule of a block, 6.2.2 step 1. */
static void schedule(const uint8_t *block, uint32_t w[ROUNDS])
{
    for (int t = 0; t < 16; t++)
        w[t] = get_be32(block + 4 * t);

    for (int t = 16; t < ROUNDS; t++) {
        uint32_t sigma0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t sigma1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;

        w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
}

/* One round.  The working variables a to h are in v, from v[-j] on: the next round's are one place further, so
 * that none is moved. */
static inline void take_word(uint32_t v[8], unsigned j, uint32_t word)
{
    uint32_t a = v[(0 - j) & 7];
    uint32_t b = v[(1 - j) & 7];
    uint32_t c = v[(2 - j) & 7];
    uint32_t e = v[(4 - j) & 7];
    uint32_t f = v[(5 - j) & 7];
    uint32_t g = v[(6 - j) & 7];
    uint32_t sum1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
    uint32_t t1 = v[(7 - j) & 7] + sum1 + ((e & f) ^ (~e & g)) + word;
    uint32_t sum0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);

    v[(3 - j) & 7] += t1;
    v[(7 - j) & 7] = t1 + sum0 + ((a & b) ^ (a & c) ^ (b & c));
}

/* Takes one block into the state, 6.2.2 steps 2 to 4. */
static void compress(struct amph_sha256 *h, const uint8_t *block)
{
    uint32_t w[ROUNDS];
    uint32_t v[8];

    schedule(block, w);
    memcpy(v, h->state, sizeof v);

    for (unsigned t = 0; t < ROUNDS; t += 8) {
        take_word(v, 0, K[t] + w[t]);
        take_word(v, 1, K[t + 1] + w[t + 1]);
        take_word(v, 2, K[t + 2] + w[t + 2]);
        take_word(v, 3, K[t + 3] + w[t + 3]);
        take_word(v, 4, K[t + 4] + w[t + 4]);
        take_word(v, 5, K[t + 5] + w[t + 5]);
        take_word(v, 6, K[t + 6] + w[t + 6]);
        take_word(v, 7, K[t + 7] + w[t + 7]);
    }

    for (int i = 0; i < 8; i++)
        h->state[i] += v[i];

    h->blocks++;
}

void amph_sha256_resume(struct amph_sha256 *h, const uint32_t state[8], uint64_t blocks)
{
    memcpy(h->state, state, sizeof h->state);
    h->blocks = blocks;
    h->rest_bytes = 0;
}

void amph_sha256_init(struct amph_sha256 *h)
{
    amph_sha256_resume(h, initial, 0);
}

void amph_sha256_update(struct amph_sha256 *h, const void *data, size_t len_bytes)
{
    const uint8_t *at = data;

    while (len_bytes > 0) {
        size_t room = sizeof h->rest - h->rest_bytes;
        size_t n = len_bytes < room ? len_bytes : room;

        memcpy(h->rest + h->rest_bytes, at, n);
        h->rest_bytes += n;
        at += n;
        len_bytes -= n;

        if (h->rest_bytes == sizeof h->rest) {
            compress(h, h->rest);
            h->rest_bytes = 0;
        }
    }
}

void amph_sha256_digest(struct amph_sha256 *h, uint8_t digest[AMPH_SHA256_BYTES])
{
    uint64_t bits = (h->blocks * AMPH_SHA256_BLOCK_BYTES + h->rest_bytes) * 8;
    uint8_t end[AMPH_SHA256_BLOCK_BYTES + LENGTH_BYTES] = { 0x80 };

    /* the padding ends LENGTH_BYTES before a block's end, 5.1.1 */
    size_t filled = (h->rest_bytes + LENGTH_BYTES) % AMPH_SHA256_BLOCK_BYTES;
    size_t padding = AMPH_SHA256_BLOCK_BYTES - filled;

    put_be32(end + padding, (uint32_t)(bits >> 32));
    put_be32(end + padding + 4, (uint32_t)bits);
    amph_sha256_update(h, end, padding + LENGTH_BYTES);

    for (int i = 0; i < 8; i++)
        put_be32(digest + 4 * i, h->state[i]);
}

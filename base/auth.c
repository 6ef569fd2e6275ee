/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and message authentication codes; see auth.h.  Layer: base. */
#include "base/auth.h"

/* Uses libcrypto's SHA-256 directly: its HMAC() first loads configuration and providers, which takes
 * 0.8 ms in every process of a job, a third of the budget of the first forwarded call. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <errno.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/wire.h"

void amph_random(void *buf, size_t len_bytes)
{
    uint8_t *at = buf;

    while (len_bytes > 0) {
        ssize_t n = getrandom(at, len_bytes, 0);

        if (n < 0 && errno == EINTR)
            continue;

        if (n <= 0)
            amph_fatal(
                "the kernel's random source failed (getrandom: %m); a job needs it for its key");

        at += n;
        len_bytes -= (size_t)n;
    }
}

/* The block of SHA-256. */
enum {
    BLOCK_BYTES = 64
};

/* SHA-256 of the key, padded and XORed with pad as HMAC does (RFC 2104), and then the data. */
static void keyed_hash(const uint8_t key[AMPH_KEY_BYTES], uint8_t pad, const void *data,
                       size_t len_bytes, uint8_t out[AMPH_MAC_BYTES])
{
    uint8_t block[BLOCK_BYTES];
    SHA256_CTX ctx;

    memset(block, pad, sizeof block);
    for (size_t i = 0; i < AMPH_KEY_BYTES; i++)
        block[i] ^= key[i];

    if (!SHA256_Init(&ctx) || !SHA256_Update(&ctx, block, sizeof block) ||
        !SHA256_Update(&ctx, data, len_bytes) || !SHA256_Final(out, &ctx))
        amph_fatal("libcrypto cannot compute SHA-256");
}

void amph_mac(const uint8_t key[AMPH_KEY_BYTES], const void *data, size_t len_bytes,
              uint8_t mac[AMPH_MAC_BYTES])
{
    uint8_t inner[AMPH_MAC_BYTES];

    keyed_hash(key, 0x36, data, len_bytes, inner);
    keyed_hash(key, 0x5c, inner, sizeof inner, mac);
}

void amph_mac_key_init(struct amph_mac_key *k, const uint8_t key[AMPH_KEY_BYTES])
{
    static const uint8_t pads[2] = { 0x36, 0x5c };

    for (unsigned i = 0; i < 2; i++) {
        uint8_t block[BLOCK_BYTES];
        SHA256_CTX ctx;

        memset(block, pads[i], sizeof block);
        for (size_t b = 0; b < AMPH_KEY_BYTES; b++)
            block[b] ^= key[b];

        if (!SHA256_Init(&ctx) || !SHA256_Update(&ctx, block, sizeof block))
            amph_fatal("libcrypto cannot compute SHA-256");

        for (unsigned w = 0; w < 8; w++)
            k->state[i][w] = ctx.h[w];
    }
}

/* Starts a hash from the state after the key's block. */
static void resume(SHA256_CTX *ctx, const uint32_t state[8])
{
    SHA256_Init(ctx);
    for (unsigned w = 0; w < 8; w++)
        ctx->h[w] = state[w];

    ctx->Nl = 8 * BLOCK_BYTES;
}

uint64_t amph_mac64(const struct amph_mac_key *k, const struct amph_mac_part *part, unsigned nparts)
{
    SHA256_CTX ctx;
    uint8_t out[AMPH_MAC_BYTES];
    uint64_t word = 0;

    resume(&ctx, k->state[0]);
    for (unsigned i = 0; i < nparts; i++)
        SHA256_Update(&ctx, part[i].at, part[i].len_bytes);

    SHA256_Final(out, &ctx);
    resume(&ctx, k->state[1]);
    SHA256_Update(&ctx, out, sizeof out);
    SHA256_Final(out, &ctx);
    for (unsigned i = 0; i < sizeof word; i++)
        word |= (uint64_t)out[i] << 8 * i;

    return word;
}

uint64_t amph_cookie(const uint8_t key[AMPH_KEY_BYTES], uint32_t domain, uint32_t src, uint32_t dst)
{
    uint8_t text[12], mac[AMPH_MAC_BYTES];
    struct amph_wr w;

    amph_wr_init(&w, text, sizeof text);
    amph_wr_u32(&w, domain);
    amph_wr_u32(&w, src);
    amph_wr_u32(&w, dst);
    amph_mac(key, text, sizeof text, mac);

    struct amph_rd r;

    amph_rd_init(&r, mac, sizeof mac);
    return amph_rd_u64(&r);
}

bool amph_mac_equal(const void *a, const void *b, size_t len_bytes)
{
    const uint8_t *x = a;
    const uint8_t *y = b;
    uint8_t diff = 0;

    for (size_t i = 0; i < len_bytes; i++)
        diff |= x[i] ^ y[i];

    return diff == 0;
}

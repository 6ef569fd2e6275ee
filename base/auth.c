/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and message authentication codes; see auth.h.  Layer: base. */
#include "base/auth.h"

/* SHA-256 is Nettle's: loading its library takes 0.1 ms, where libcrypto takes 0.7 ms in every process
 * of a job and every forwarded program.  libmd takes half of Nettle's time, but its names (SHA256Init,
 * SHA256Update, SHA256Final) are ones that a client may define, and then we would call the client's. */
#include <errno.h>
#include <nettle/sha2.h>
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

_Static_assert(AMPH_MAC_BYTES == SHA256_DIGEST_SIZE, "a MAC is a whole digest");

/* What HMAC pads the key with for its two hashes (RFC 2104). */
static const uint8_t pads[2] = { 0x36, 0x5c };

/* Starts a hash of the key, padded to a block and XORed with pad. */
static void start(struct sha256_ctx *ctx, const uint8_t key[AMPH_KEY_BYTES], uint8_t pad)
{
    uint8_t block[SHA256_BLOCK_SIZE];

    memset(block, pad, sizeof block);
    for (size_t i = 0; i < AMPH_KEY_BYTES; i++)
        block[i] ^= key[i];

    sha256_init(ctx);
    sha256_update(ctx, sizeof block, block);
}

void amph_mac(const uint8_t key[AMPH_KEY_BYTES], const void *data, size_t len_bytes,
              uint8_t mac[AMPH_MAC_BYTES])
{
    uint8_t inner[AMPH_MAC_BYTES];
    struct sha256_ctx ctx;

    start(&ctx, key, pads[0]);
    sha256_update(&ctx, len_bytes, data);
    sha256_digest(&ctx, sizeof inner, inner);

    start(&ctx, key, pads[1]);
    sha256_update(&ctx, sizeof inner, inner);
    sha256_digest(&ctx, AMPH_MAC_BYTES, mac);
}

void amph_mac_key_init(struct amph_mac_key *k, const uint8_t key[AMPH_KEY_BYTES])
{
    for (unsigned i = 0; i < AMPH_COUNTOF(pads); i++) {
        struct sha256_ctx ctx;

        start(&ctx, key, pads[i]);
        memcpy(k->state[i], ctx.state, sizeof k->state[i]);
    }
}

/* Starts a hash from the state after the key's block. */
static void resume(struct sha256_ctx *ctx, const uint32_t state[8])
{
    sha256_init(ctx);
    memcpy(ctx->state, state, sizeof ctx->state);
    ctx->count = 1; /* blocks */
}

uint64_t amph_mac64(const struct amph_mac_key *k, const struct amph_mac_part *part, unsigned nparts)
{
    struct sha256_ctx ctx;
    uint8_t out[AMPH_MAC_BYTES];
    uint64_t word = 0;

    resume(&ctx, k->state[0]);
    for (unsigned i = 0; i < nparts; i++)
        sha256_update(&ctx, part[i].len_bytes, part[i].at);

    sha256_digest(&ctx, sizeof out, out);

    resume(&ctx, k->state[1]);
    sha256_update(&ctx, sizeof out, out);
    sha256_digest(&ctx, sizeof out, out);

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

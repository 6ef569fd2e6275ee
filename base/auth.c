/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and message authentication codes; see auth.h.  Layer: base. */
#include "base/auth.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/sha256.h"
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

_Static_assert(AMPH_MAC_BYTES == AMPH_SHA256_BYTES, "a MAC is a whole digest");

/* What HMAC pads the key with for its two hashes (RFC 2104). */
static const uint8_t pads[2] = { 0x36, 0x5c };

/* Starts a hash of the key, padded to a block and XORed with pad. */
static void start(struct amph_sha256 *ctx, const uint8_t key[AMPH_KEY_BYTES], uint8_t pad)
{
    uint8_t block[AMPH_SHA256_BLOCK_BYTES];

    memset(block, pad, sizeof block);
    for (size_t i = 0; i < AMPH_KEY_BYTES; i++)
        block[i] ^= key[i];

    amph_sha256_init(ctx);
    amph_sha256_update(ctx, block, sizeof block);
}

void amph_mac(const uint8_t key[AMPH_KEY_BYTES], const void *data, size_t len_bytes,
              uint8_t mac[AMPH_MAC_BYTES])
{
    uint8_t inner[AMPH_MAC_BYTES];
    struct amph_sha256 ctx;

    start(&ctx, key, pads[0]);
    amph_sha256_update(&ctx, data, len_bytes);
    amph_sha256_digest(&ctx, inner);

    start(&ctx, key, pads[1]);
    amph_sha256_update(&ctx, inner, sizeof inner);
    amph_sha256_digest(&ctx, mac);
}

void amph_mac_key_init(struct amph_mac_key *k, const uint8_t key[AMPH_KEY_BYTES])
{
    for (unsigned i = 0; i < AMPH_COUNTOF(pads); i++) {
        struct amph_sha256 ctx;

        start(&ctx, key, pads[i]);
        memcpy(k->state[i], ctx.state, sizeof k->state[i]);
    }
}

uint64_t amph_mac64(const struct amph_mac_key *k, const struct amph_mac_part *part, unsigned nparts)
{
    struct amph_sha256 ctx;
    uint8_t out[AMPH_MAC_BYTES];
    uint64_t word = 0;

    /* from the state after the key's block */
    amph_sha256_resume(&ctx, k->state[0], 1);
    for (unsigned i = 0; i < nparts; i++)
        amph_sha256_update(&ctx, part[i].at, part[i].len_bytes);

    amph_sha256_digest(&ctx, out);

    amph_sha256_resume(&ctx, k->state[1], 1);
    amph_sha256_update(&ctx, out, sizeof out);
    amph_sha256_digest(&ctx, out);

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

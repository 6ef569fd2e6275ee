/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys and codes; see auth.h.  Layer: base. */
#include "base/auth.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
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
            amph_fatal("the kernel gives no random numbers (getrandom: %m); a job needs them for its key");
        at += n;
        len_bytes -= (size_t)n;
    }
}

void amph_mac(const uint8_t key[AMPH_KEY_BYTES], const void *data, size_t len_bytes, uint8_t mac[AMPH_MAC_BYTES])
{
    unsigned len = AMPH_MAC_BYTES;
    if (!HMAC(EVP_sha256(), key, AMPH_KEY_BYTES, data, len_bytes, mac, &len) || len != AMPH_MAC_BYTES)
        amph_fatal("libcrypto cannot compute HMAC-SHA256; is its configuration limited?");
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
    const uint8_t *x = a, *y = b;
    uint8_t diff = 0;
    for (size_t i = 0; i < len_bytes; i++)
        diff |= x[i] ^ y[i];
    return diff == 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MACs of packets.
 * Layer: conduits (udp).  Thread rule: pure functions on the caller's memory.
 *
 * Each direction of a session has its own keys, derived from the pair's cookie and the nonces of both
 * peers.  So the MAC of a packet of an earlier session, or of one sent back to its sender, is wrong.
 *
 * A MAC is a pseudorandom function (SipHash-2-4) of a keyed universal hash of the text: the NH
 * function of UMAC (RFC 4418) with words of 64 bits, in blocks of 2048 bytes.  If both processors have
 * instructions for it, products and sums are those of polynomials over GF(2), which is four times as
 * fast.  In both cases two different texts of one length collide with probability 2^-64: the
 * difference of their hashes is a multiple of a key word plus something that does not depend on that
 * word.  The hashes of several blocks are hashed once more, with another key.  HELLOs, from which the
 * session's keys are made, have an HMAC-SHA256 instead.
 *
 * A packet has two MACs.  That of the bulk covers the long last part of the body.  That of the head
 * covers all the rest, the bulk's MAC included.  So the head can be trusted, and the bulk's destination
 * computed from it, before the bulk is received.
 */
#include <stdlib.h>
#include <string.h>

#include "base/auth.h"
#include "base/clmul.h"
#include "base/platform.h"
#include "base/wire.h"
#include "conduits/udp/rdp.h"

#define GROUP AMPH_CLMUL_GROUP /* bytes that the hash processes at a time */

/* What the pseudorandom function is used for; in the first word of its text. */
enum {
    CODE_HEAD = 1,
    CODE_BULK,
    CODE_KEY
};

static void put_u64(uint8_t *at, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static void cookie_key(uint64_t cookie, uint8_t key[AMPH_KEY_BYTES])
{
    memset(key, 0, AMPH_KEY_BYTES);
    put_u64(key, cookie);
}

/* ---- SipHash-2-4 (Aumasson and Bernstein, 2012) ---- */

static inline uint64_t rotate(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

static inline void sip_rounds(uint64_t v[4], unsigned n)
{
    for (; n > 0; n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);

        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

uint64_t amph_rdp_prf(const uint64_t key[2], const uint64_t *word, unsigned nwords)
{
    uint64_t v[4] = { key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                      key[0] ^ UINT64_C(0x6c7967656e657261),
                      key[1] ^ UINT64_C(0x7465646279746573) };
    uint64_t last = (uint64_t)(8 * nwords) << 56;

    for (unsigned i = 0; i <= nwords; i++) {
        uint64_t w = i < nwords ? word[i] : last;

        v[3] ^= w;
        sip_rounds(v, 2);
        v[0] ^= w;
    }

    v[2] ^= 0xff;
    sip_rounds(v, 4);

    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- keys ---- */

void amph_rdp_keys_hello(uint64_t cookie, struct amph_mac_key *k)
{
    uint8_t key[AMPH_KEY_BYTES];

    cookie_key(cookie, key);
    amph_mac_key_init(k, key);
}

void amph_rdp_keys_session(uint64_t cookie, uint64_t nonce_sender, uint64_t nonce_receiver,
                           struct amph_rdp_keys *k)
{
    uint8_t key[AMPH_KEY_BYTES];
    uint8_t text[24] = "session";
    uint8_t mac[AMPH_MAC_BYTES];
    struct amph_rd r;

    cookie_key(cookie, key);
    put_u64(text + 8, nonce_sender);
    put_u64(text + 16, nonce_receiver);
    amph_mac(key, text, sizeof text, mac);

    amph_rd_init(&r, mac, sizeof mac);
    for (unsigned i = 0; i < AMPH_COUNTOF(k->prf); i++)
        k->prf[i] = amph_rd_u64(&r);

    k->word = amph_rd_u64(&r);
}

/* Fills key[first..n).  The first word of the text distinguishes it from those of codes. */
static void make_keys(const struct amph_rdp_keys *k, uint64_t which, uint64_t *key, size_t first,
                      size_t n)
{
    for (size_t i = first; i < n; i++) {
        const uint64_t text[3] = { (uint64_t)CODE_KEY << 32 | which, i, 0 };

        key[i] = amph_rdp_prf(k->prf, text, AMPH_COUNTOF(text));
    }
}

bool amph_rdp_keys_want_hash(struct amph_rdp_keys *k, bool bulk)
{
    if (k->trusted || k->whole || (k->hash && !bulk))
        return true;

    size_t first = k->hash ? RDP_HASH_SHORT : 0;
    size_t words = bulk ? AMPH_COUNTOF(k->hash->block) : RDP_HASH_SHORT;
    size_t bytes = bulk ? sizeof *k->hash : words * sizeof k->hash->block[0];
    struct amph_rdp_hash *hash = realloc(k->hash, bytes);

    if (!hash)
        return false;

    make_keys(k, 0, hash->block, first, words);
    if (bulk)
        make_keys(k, 1, hash->second, 0, AMPH_COUNTOF(hash->second));

    k->hash = hash;
    k->whole = bulk;
    return true;
}

void amph_rdp_keys_fini(struct amph_rdp_keys *k)
{
    free(k->hash);
    k->hash = NULL;
    k->whole = false;
}

/* ---- the universal hash ---- */

static inline uint64_t load(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return AMPH_BIG_ENDIAN ? __builtin_bswap64(v) : v;
}

static void add_products(const uint64_t *key, const uint8_t *at, size_t groups, uint64_t out[2])
{
    uint64_t sum[4] = { 0, 0, 0, 0 };

    for (size_t i = 0; i < groups; i++, key += 4, at += GROUP) {
        amph_add_product(sum, load(at) + key[0], load(at + 8) + key[1]);
        amph_add_product(sum + 2, load(at + 16) + key[2], load(at + 24) + key[3]);
    }

    out[0] = sum[0] + sum[2];
    out[1] = sum[1] + sum[3] + (out[0] < sum[2]);
}

/* Hashes groups of a block, with the key from its group `first` on, and adds that to sum. */
static void hash_groups(const struct amph_rdp_keys *k, size_t first, const uint8_t *at,
                        size_t groups, uint64_t sum[2])
{
    const uint64_t *key = k->hash->block + first * (GROUP / 8);
    uint64_t more[2];

    if (k->clmul) {
        amph_clmul_sum(key, at, groups, more);
        sum[0] ^= more[0];
        sum[1] ^= more[1];
        return;
    }

    add_products(key, at, groups, more);
    sum[0] += more[0];
    sum[1] += more[1] + (sum[0] < more[0]);
}

/* Hashes one block.  A short one is padded with zeros; its length is hashed elsewhere. */
static void hash_block(const struct amph_rdp_keys *k, const uint8_t *at, size_t len_bytes,
                       uint64_t out[2])
{
    size_t whole = len_bytes / GROUP;
    size_t rest = len_bytes % GROUP;

    out[0] = out[1] = 0;
    hash_groups(k, 0, at, whole, out);
    if (rest) {
        uint8_t tail[GROUP] = { 0 };

        memcpy(tail, at + whole * GROUP, rest);
        hash_groups(k, whole, tail, 1, out);
    }
}

/* Hashes len_bytes: the hash of the hashes of all blocks. */
static void hash_all(const struct amph_rdp_keys *k, const uint8_t *at, size_t len_bytes,
                     uint64_t out[2])
{
    const uint64_t *key = k->hash->second;

    out[0] = out[1] = 0;
    for (size_t i = 0; i < len_bytes; i += RDP_HASH_BLOCK, key += 2) {
        size_t left = len_bytes - i;
        uint64_t one[2];

        hash_block(k, at + i, left < RDP_HASH_BLOCK ? left : RDP_HASH_BLOCK, one);
        amph_add_product(out, one[0] + key[0], one[1] + key[1]);
    }
}

/* ---- codes ---- */

/* The MAC of a text of at most one block. */
static uint64_t short_mac(const struct amph_rdp_keys *k, const uint8_t *at, size_t len_bytes)
{
    uint64_t text[3] = { (uint64_t)CODE_HEAD << 32 | len_bytes };

    hash_block(k, at, len_bytes, text + 1);
    return amph_rdp_prf(k->prf, text, AMPH_COUNTOF(text));
}

/* Copies head and plain part of the body, without the MAC itself, to `plain`, as on the wire. */
static size_t gather(const uint8_t *head, size_t head_len, const struct amph_mac_part *body,
                     unsigned nbody, uint8_t *plain)
{
    size_t n = head_len - sizeof(uint64_t);

    memcpy(plain, head + sizeof(uint64_t), n);
    for (unsigned i = 0; i < nbody; i++) {
        if (body[i].len_bytes)
            memcpy(plain + n, body[i].at, body[i].len_bytes);

        n += body[i].len_bytes;
    }

    for (; n % 8; n++)
        plain[n] = 0;

    return n;
}

uint64_t amph_rdp_hello_mac(const struct amph_mac_key *mac, const uint8_t *head, size_t head_len,
                            const struct amph_mac_part *body)
{
    uint8_t plain[RDP_PLAIN_MAX];
    struct amph_mac_part part = { plain, gather(head, head_len, body, 1, plain) };

    return amph_mac64(mac, &part, 1);
}

uint64_t amph_rdp_head_mac(const struct amph_rdp_keys *k, const uint8_t *head, size_t head_len,
                           const struct amph_mac_part *body, unsigned nbody)
{
    uint8_t plain[RDP_PLAIN_MAX];

    if (k->trusted)
        return k->word;

    return short_mac(k, plain, gather(head, head_len, body, nbody, plain));
}

uint64_t amph_rdp_bulk_mac(const struct amph_rdp_keys *k, const void *bulk, size_t len_bytes)
{
    size_t pad = amph_rdp_pad8(len_bytes) - len_bytes;

    if (k->trusted || !len_bytes)
        return 0;

    /* The hash ignores zeros at the end, and padding consists of zeros. */
    uint64_t text[3] = { (uint64_t)CODE_BULK << 32 | (len_bytes + pad) };

    hash_all(k, bulk, len_bytes, text + 1);
    return amph_rdp_prf(k->prf, text, AMPH_COUNTOF(text));
}

bool amph_rdp_hello_ok(const struct amph_mac_key *mac, const void *packet,
                       const struct amph_rdp_packet *p)
{
    struct amph_mac_part body = { p->body, p->h.body_len };

    if (p->h.split != p->h.body_len || p->h.split > RDP_BULK_BYTES)
        return false;

    uint64_t expected = amph_rdp_hello_mac(mac, packet, p->head_len, &body);

    return amph_mac_equal(&expected, &p->h.mac, sizeof expected);
}

bool amph_rdp_head_ok(const struct amph_rdp_keys *k, const void *packet,
                      const struct amph_rdp_packet *p)
{
    struct amph_mac_part body = { p->body, p->h.split };

    if (p->h.split > RDP_BULK_BYTES)
        return false;

    uint64_t expected = amph_rdp_head_mac(k, packet, p->head_len, &body, 1);

    return amph_mac_equal(&expected, &p->h.mac, sizeof expected);
}

bool amph_rdp_bulk_ok(const struct amph_rdp_keys *k, const struct amph_rdp_packet *p)
{
    uint64_t expected = amph_rdp_bulk_mac(k, p->bulk, p->bulk_len);

    return amph_mac_equal(&expected, &p->h.bulk_mac, sizeof expected);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MACs of packets.
 * Layer: conduits (udp).  Thread rule: pure functions on the caller's memory.
 *
 * Each direction of a session has its own key, derived from the pair's cookie and the nonces of both
 * peers.  So the MAC of a packet of an earlier session, or of one sent back to its sender, is wrong.
 *
 * HMAC-SHA256 runs at 2 GB/s, which would halve the speed of the loopback interface.  So packets are
 * first hashed with a keyed universal hash (the NH function of UMAC, RFC 4418, with words of 64 bits:
 * two different texts collide with probability 2^-64; 22 GB/s), in blocks of 2048 bytes.  The HMAC is
 * computed over the hashes, 16 bytes for each block.  There is no hash key before the session is up,
 * so the HMAC of a HELLO is computed over its bytes.
 */
#include <stdlib.h>

#include "base/auth.h"
#include "conduits/udp/rdp.h"

#define GROUP 32u /* bytes that the hash processes at a time */

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

    cookie_key(cookie, key);
    put_u64(text + 8, nonce_sender);
    put_u64(text + 16, nonce_receiver);
    amph_mac(key, text, sizeof text, mac);
    amph_mac_key_init(&k->mac, mac);
}

bool amph_rdp_keys_want_hash(struct amph_rdp_keys *k)
{
    if (k->hash)
        return true;

    k->hash = malloc(sizeof *k->hash);
    for (uint64_t i = 0; k->hash && i < AMPH_COUNTOF(k->hash->key); i++) {
        uint8_t text[16] = "hash";

        put_u64(text + 8, i);
        struct amph_mac_part part = { text, sizeof text };

        k->hash->key[i] = amph_mac64(&k->mac, &part, 1);
    }

    return k->hash != NULL;
}

void amph_rdp_keys_fini(struct amph_rdp_keys *k)
{
    free(k->hash);
    k->hash = NULL;
}

static inline uint64_t load(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return AMPH_BIG_ENDIAN ? __builtin_bswap64(v) : v;
}

static void hash_groups(const uint64_t *key, const uint8_t *at, size_t groups, uint64_t sum[4])
{
    for (size_t i = 0; i < groups; i++, key += 4, at += GROUP) {
        amph_add_product(sum, load(at) + key[0], load(at + 8) + key[1]);
        amph_add_product(sum + 2, load(at + 16) + key[2], load(at + 24) + key[3]);
    }
}

/* Hashes one block.  A short one is padded with zeros; the packet's header has its length. */
static void hash_block(const struct amph_rdp_hash *hash, const uint8_t *at, size_t len_bytes,
                       uint8_t out[16])
{
    size_t whole = len_bytes / GROUP;
    size_t rest = len_bytes % GROUP;
    uint64_t sum[4] = { 0, 0, 0, 0 };

    hash_groups(hash->key, at, whole, sum);
    if (rest) {
        uint8_t tail[GROUP] = { 0 };

        memcpy(tail, at + whole * GROUP, rest);
        hash_groups(hash->key + whole * (GROUP / 8), tail, 1, sum);
    }

    sum[0] += sum[2];
    sum[1] += sum[3] + (sum[0] < sum[2]);
    put_u64(out, sum[0]);
    put_u64(out + 8, sum[1]);
}

/* Hashes len_bytes, 16 bytes for each block.  Returns the number of bytes written. */
static size_t hash_all(const struct amph_rdp_hash *hash, const uint8_t *at, size_t len_bytes,
                       uint8_t *digest)
{
    size_t out = 0;

    for (size_t i = 0; i < len_bytes; i += RDP_HASH_BLOCK, out += 16)
        hash_block(hash, at + i, len_bytes - i < RDP_HASH_BLOCK ? len_bytes - i : RDP_HASH_BLOCK,
                   digest + out);

    return out;
}

uint64_t amph_rdp_mac(const struct amph_mac_key *mac, const struct amph_rdp_hash *hash,
                      const uint8_t *head, size_t head_len, const struct amph_mac_part *body,
                      unsigned nbody, const void *bulk, size_t bulk_len)
{
    uint8_t digest[8 + (RDP_DATAGRAM_MAX / RDP_HASH_BLOCK + 3) * 16];
    uint8_t plain[RDP_HEAD_MAX + RDP_BULK_BYTES + 8];
    struct amph_mac_part part = { plain, 0 };

    memcpy(plain, head + sizeof(uint64_t), part.len_bytes = head_len - sizeof(uint64_t));
    for (unsigned i = 0; i < nbody; i++) {
        if (body[i].len_bytes)
            memcpy(plain + part.len_bytes, body[i].at, body[i].len_bytes);

        part.len_bytes += body[i].len_bytes;
    }

    for (; part.len_bytes % 8; part.len_bytes++) /* as on the wire */
        plain[part.len_bytes] = 0;

    /* The lengths are included, because the hash ignores zeros at the end. */
    if (hash) {
        /* the length with padding, as on the wire */
        put_u64(digest, (uint64_t)part.len_bytes << 32 | amph_rdp_pad8(bulk_len));

        size_t n = 8 + hash_all(hash, plain, part.len_bytes, digest + 8);

        n += hash_all(hash, bulk, bulk_len, digest + n);
        part = (struct amph_mac_part){ digest, n };
    }

    return amph_mac64(mac, &part, 1);
}

bool amph_rdp_mac_ok(const struct amph_mac_key *mac, const struct amph_rdp_hash *hash,
                     const void *packet, const struct amph_rdp_packet *p)
{
    size_t bulk = p->h.body_len - p->h.split;
    struct amph_mac_part body = { p->body, p->h.split };

    if ((bulk && !hash) || p->h.split > RDP_BULK_BYTES)
        return false;

    uint64_t code = amph_rdp_mac(mac, hash, packet, p->head_len, &body, 1, p->body + p->h.split,
                                 bulk);

    return amph_mac_equal(&code, &p->h.mac, sizeof code);
}

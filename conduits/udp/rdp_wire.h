/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packet format of the udp conduit.
 * Layer: conduits (udp).  Thread rule: pure functions.
 *
 * Packet:   header | acknowledgement (flag ACK) | segment header (flag SEG) | body
 * All words are little-endian (base/wire.h), and every part is a multiple of 8 bytes long.
 *
 * Every packet has a number that is never used again: lost data is sent again in a packet with a new
 * number, so an acknowledgement identifies the transmission that arrived.  The segment that a packet
 * carries is numbered within its lane.
 *
 * The first `split` bytes of the body are its plain part, the rest is its bulk.  The MAC covers the
 * header after itself, which contains the MAC of the bulk, up to the end of the plain part
 * (rdp_auth.c).
 *
 * Body of a HELLO:      struct amph_rdp_hello
 * Body in an AM lane:   messages, each struct amph_rdp_msg | arguments | payload; or the first part of
 *                       a message longer than a segment; or (flag CONT) a further part of it
 * Body in an RMA lane:  units, each struct amph_rdp_rma | data, padded to 8
 */
#ifndef AMPH_CONDUITS_UDP_RDP_WIRE_H
#define AMPH_CONDUITS_UDP_RDP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire.h"
#include "conduits/conduit.h"

#define RDP_VERSION 3 /* part of an instance's `protocol` */

enum amph_rdp_type {
    RDP_HELLO = 1,
    RDP_DATA = 2,
    RDP_BYE = 3
};

enum {
    RDP_F_ACK = 1,   /* an acknowledgement block follows the header */
    RDP_F_SEG = 2,   /* the packet carries a segment */
    RDP_F_PING = 4,  /* needs an acknowledgement although it carries no segment */
    RDP_F_CONT = 8,  /* the segment continues the message of the segment before */
    RDP_F_VOID = 16, /* the segment only uses up its number; its contents are ignored */
    RDP_F_NOW = 32,  /* the sender waits: acknowledge at once */
    RDP_F_ALL = 63
};

/* The first two are enum amph_lane. */
enum amph_rdp_lane {
    RDP_PUT = AMPH_NLANES,
    RDP_GET,
    RDP_NLANES
};

struct amph_rdp_hdr {
    uint64_t mac;
    uint32_t src; /* number of the sender in the receiver's table */
    uint8_t type; /* enum amph_rdp_type | RDP_VERSION << 4 */
    uint8_t flags;
    uint8_t ack_words;
    uint8_t lane;
    uint64_t pn; /* number of the packet */
    uint32_t body_len;
    uint32_t split;
    uint64_t bulk_mac; /* of the body from byte `split` on, or 0 */
};

/* Bit i of word w: packet (largest - largest % 64) - 64 w + i has been received. */
struct amph_rdp_ackblk {
    uint64_t largest;
    uint32_t delay_us; /* since packet `largest` was received */
    uint32_t zero;
    /* the sender's limit for each AM lane, in bytes since the session began */
    uint64_t limit[AMPH_NLANES];
};

struct amph_rdp_seghdr {
    uint64_t lseq; /* number in the lane */
    uint64_t
        after; /* segments of the PUT lane that must be received before this one is delivered */
};

/* How packets are authenticated: by the last of these that both peers accept. */
enum amph_rdp_auth {
    RDP_AUTH_NONE = 1, /* not: a word that is the same in all packets of a session */
    RDP_AUTH_NH = 2,   /* by a MAC whose hash multiplies numbers */
    RDP_AUTH_CLMUL = 4 /* by a MAC whose hash multiplies without carries */
};

struct amph_rdp_hello {
    uint64_t nonce; /* the sender's, of this session */
    uint64_t echo;  /* the receiver's nonce as far as the sender knows it, or 0 */
    uint32_t want;  /* 1: answer with a HELLO; the sender has not seen its nonce echoed yet */
    uint32_t auth;  /* bits of enum amph_rdp_auth that the sender accepts */
    /* size of the sender's receive queue in bytes */
    uint64_t queue;
};

struct amph_rdp_msg {
    uint64_t dest;
    uint32_t nbytes; /* of the whole message, even if it continues in further segments */
    uint16_t aux;
    uint8_t kind;
    uint8_t handler;
    uint8_t nargs;
    uint8_t flags;
    uint8_t zero[6];
};

enum amph_rdp_rma_code {
    RDP_RMA_PUT = 1,
    RDP_RMA_GET,
    RDP_RMA_DATA,
    RDP_RMA_REFUSED,
    RDP_RMA_VOID /* a put that was refused; its data are ignored */
};

struct amph_rdp_rma {
    uint8_t code;
    uint8_t zero[3];
    uint32_t len_bytes; /* PUT, DATA, VOID: bytes that follow */
    uint64_t id;        /* of the operation at its origin */
    uint64_t key;       /* PUT, GET: of the memory; REFUSED: enum amph_status */
    uint64_t offset;    /* PUT, GET: in that memory; DATA: in the transfer */
    uint64_t total;     /* GET: bytes wanted */
};

_Static_assert(sizeof(struct amph_rdp_hdr) == 40 && sizeof(struct amph_rdp_ackblk) == 32 &&
                   sizeof(struct amph_rdp_seghdr) == 16,
               "wire format");
_Static_assert(sizeof(struct amph_rdp_hello) == 32 && sizeof(struct amph_rdp_msg) == 24 &&
                   sizeof(struct amph_rdp_rma) == 40,
               "wire format");
_Static_assert(offsetof(struct amph_rdp_hdr, split) == 28 &&
                   offsetof(struct amph_rdp_rma, total) == 32,
               "no holes in a wire format");

#define RDP_DATAGRAM_MAX 65504u /* of UDP over IPv4, 65507, down to a multiple of 8 */
#define RDP_ACK_WORDS 16u
#define RDP_HEAD_MAX \
    (sizeof(struct amph_rdp_hdr) + sizeof(struct amph_rdp_ackblk) + 8 * RDP_ACK_WORDS + \
     sizeof(struct amph_rdp_seghdr))
/* Bytes before the body of a packet with a segment; its acknowledgement has at most two words. */
#define RDP_SEG_OVERHEAD \
    (sizeof(struct amph_rdp_hdr) + sizeof(struct amph_rdp_ackblk) + 16 + \
     sizeof(struct amph_rdp_seghdr))
#define RDP_DATAGRAM_MIN 512u
#define RDP_BULK_BYTES 512u /* longest plain part of a body */
#define RDP_PLAIN_MAX (RDP_HEAD_MAX + RDP_BULK_BYTES)

/* A parsed packet, in host order except the bytes that `body` and `word` point to. */
struct amph_rdp_packet {
    struct amph_rdp_hdr h;
    struct amph_rdp_ackblk ack;
    struct amph_rdp_seghdr seg;
    const uint8_t *word; /* h.ack_words of them */
    const uint8_t
        *body; /* h.body_len bytes, aligned like the packet; if placed, only the plain part */
    const uint8_t *bulk;
    size_t bulk_len; /* without padding if placed */
    bool placed;     /* the bulk is already where it belongs */
    size_t head_len; /* of all before the body */
    uint8_t kind;    /* enum amph_rdp_type */
};

/* Parses a packet, which is not trusted.  Returns false if it is malformed.  amph_rdp_parse_head needs
 * the first `have` bytes only, and returns false also if these are not all before the bulk. */
bool amph_rdp_parse(const void *buf, size_t len_bytes, struct amph_rdp_packet *p);
bool amph_rdp_parse_head(const void *buf, size_t have, size_t len_bytes, struct amph_rdp_packet *p);
/* Returns the length of the first packet of a datagram.  The kernel joins datagrams, so several packets may
 * follow each other. */
size_t amph_rdp_first_packet(const void *buf, size_t len_bytes);
/* The same for the contents of bodies.  amph_rdp_get_msg parses a message of at most `left` bytes and
 * returns the length of its head, or 0. */
bool amph_rdp_get_hello(const struct amph_rdp_packet *p, struct amph_rdp_hello *hello);
size_t amph_rdp_get_msg(const uint8_t *at, size_t left, struct amph_rdp_msg *m,
                        int32_t args[AMPH_AM_MAX_ARGS]);
/* Parses a unit of at most `left` bytes and returns its length with the padding, or 0. */
size_t amph_rdp_get_unit(const uint8_t *at, size_t left, struct amph_rdp_rma *m);
/* Parses the only unit of a body.  false: there are several, or it is malformed. */
bool amph_rdp_get_rma(const struct amph_rdp_packet *p, struct amph_rdp_rma *m,
                      const uint8_t **data_p);

/* These write to buf in wire order and return the number of bytes written. */
size_t amph_rdp_put_hdr(void *buf, const struct amph_rdp_hdr *h);
size_t amph_rdp_put_ack(void *buf, const struct amph_rdp_ackblk *a, const uint64_t *words,
                        unsigned nwords);
size_t amph_rdp_put_seghdr(void *buf, const struct amph_rdp_seghdr *s);
size_t amph_rdp_put_hello(void *buf, const struct amph_rdp_hello *m);
size_t amph_rdp_put_msg(void *buf, const struct amph_am *am);
size_t amph_rdp_put_rma(void *buf, const struct amph_rdp_rma *m);

static inline size_t amph_rdp_pad8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

/* Does the payload of this kind travel in the message? */
static inline bool amph_rdp_kind_packs(unsigned kind)
{
    return kind == AMPH_AM_MEDIUM || kind == AMPH_AM_LONG_PACKED || kind == AMPH_AM_INTERNAL;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A datagram port: what the udp conduit's protocol sends its packets through.  Layer: conduits.
 *
 * Two implementations: a kernel socket (udp/port_sock.c) and libfabric's udp endpoint (ofi/port.c,
 * in the module).  Both may lose, repeat and reorder datagrams.  Thread rule: the caller serialises
 * all calls, except that send may run beside recv and idle.  No call blocks.
 */
#ifndef AMPH_CONDUITS_PORT_H
#define AMPH_CONDUITS_PORT_H

#include "conduits/conduit.h"

#define AMPH_PORT_PARTS 4 /* head, two of the body, padding */
#define AMPH_PORT_BATCH 16

/* A datagram that goes out; its parts stay the caller's. */
struct amph_port_out {
    uint32_t peer;
    unsigned nparts;
    struct {
        const void *at;
        size_t len_bytes;
    } part[AMPH_PORT_PARTS];
    size_t len_bytes; /* of all parts */
};

/* A datagram that came; valid until the next recv into the same set. */
struct amph_port_in {
    const void *at; /* aligned to 8 */
    size_t len_bytes;
};

/* Received datagrams and what they lie in. */
struct amph_port_set {
    struct amph_port_in in[AMPH_PORT_BATCH * 64]; /* the kernel may deliver up to 64 in one piece */
    unsigned at, end;                             /* in[at..end) are still to be handled */
    void *impl;                                   /* the port's */
};

struct amph_port_config {
    const char *conduit; /* its name, for messages */
    uint32_t max_peers;
    bool loopback_only;
    const char *interface;
};

struct amph_port {
    const struct amph_port_ops *ops;
    uint8_t addr[AMPH_ADDR_MAX_BYTES]; /* for add_peer of others' */
    size_t addr_len;
    uint32_t datagram;    /* longest datagram that it takes from peers, a multiple of 8 */
    uint64_t queue_bytes; /* what may wait for us before more is dropped */
};

struct amph_port_ops {
    const char *name; /* as in AMPHORA_UDP_PORT */
    /* Can it work here?  why (why_len bytes) gets a sentence in any case. */
    enum amph_status (*probe)(char *why, size_t why_len);
    enum amph_status (*open)(const struct amph_port_config *cfg, struct amph_port **port_p);
    void (*close)(struct amph_port *port);
    /* *datagram_p: longest datagram that the path to it takes. */
    enum amph_status (*add_peer)(struct amph_port *port, uint32_t peer, const void *addr,
                                 size_t addr_len, uint32_t *datagram_p);
    void (*del_peer)(struct amph_port *port, uint32_t peer);
    /* Sends v[0..n); gives how many were taken (a taken one may still be lost). */
    unsigned (*send)(struct amph_port *port, const struct amph_port_out *v, unsigned n);
    /* Receives into set, which is empty; gives the number of datagrams.  *set_p NULL: makes one. */
    unsigned (*recv)(struct amph_port *port, struct amph_port_set **set_p);
    void (*free_set)(struct amph_port *port, struct amph_port_set *set);
    /* A peer whose host says that nobody is there, or UINT32_MAX. */
    uint32_t (*refused)(struct amph_port *port);
    /* Readable while a datagram waits; -1: it has none. */
    int (*fd)(struct amph_port *port);
    /* Before a sleep on fd; false: something is there. */
    bool (*idle)(struct amph_port *port);
};

extern const struct amph_port_ops amph_port_socket_ops;

/* The libfabric module's port, found by its name. */
#define AMPH_PORT_OFI_ENTRY "amph_port_ofi_ops"
extern const struct amph_port_ops amph_port_ofi_ops;

#endif

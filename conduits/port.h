/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A datagram port: the interface by which the udp conduit's protocol sends and receives packets.
 * Layer: conduits.  Thread rule: the caller serialises all calls, except that send may run at the
 * same time as recv or idle.  No call blocks.
 *
 * Two implementations: a kernel socket (udp/port_sock.c) and libfabric's udp endpoint (ofi/port.c,
 * in the module).  Both may lose, repeat and reorder datagrams.
 */
#ifndef AMPH_CONDUITS_PORT_H
#define AMPH_CONDUITS_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "conduits/conduit.h"

#define AMPH_PORT_PARTS 4 /* head, two of the body, padding */
#define AMPH_PORT_BATCH 16

/* An outgoing datagram.  Its parts belong to the caller. */
struct amph_port_out {
    uint32_t peer;
    unsigned nparts;
    struct {
        const void *at;
        size_t len_bytes;
    } part[AMPH_PORT_PARTS];
    size_t len_bytes; /* of all parts */
};

/* Where a datagram is received to: its first bytes, the next ones, and the padding at its end. */
struct amph_port_in_parts {
    void *head, *bulk;
    size_t head_len, bulk_len, pad_len; /* pad_len < 8 */
};

/* A received datagram, or several of one peer that the kernel has joined, valid until the next recv into the
 * same set. */
struct amph_port_in {
    const void *at; /* aligned to 8 */
    size_t len_bytes;
};

/* Received datagrams and the memory that holds them. */
struct amph_port_set {
    struct amph_port_in in[AMPH_PORT_BATCH];
    unsigned at, end; /* in[at..end) have not been handled yet */
    bool emptied;     /* recv found the queue empty after these; false: not known */
    void *impl;       /* the port's */
};

struct amph_port_config {
    const char *conduit; /* its name, for messages */
    uint32_t max_peers;
    bool loopback_only;
    const char *interface;
};

struct amph_port {
    const struct amph_port_ops *ops;
    uint8_t addr[AMPH_ADDR_MAX_BYTES]; /* for add_peer by other ports */
    size_t addr_len;
    uint32_t datagram;    /* longest datagram that it receives, a multiple of 8 */
    uint64_t queue_bytes; /* size of the receive queue; datagrams beyond it are dropped */
    bool peeks;           /* peek and take work */
};

struct amph_port_ops {
    const char *name; /* as in AMPHORA_UDP_PORT */
    /* Checks if the port can work here.  why (why_len bytes) gets a sentence in any case. */
    enum amph_status (*probe)(char *why, size_t why_len);
    enum amph_status (*open)(const struct amph_port_config *cfg, struct amph_port **port_p);
    void (*close)(struct amph_port *port);
    /* *datagram_p: the longest datagram that the path to the peer carries. */
    enum amph_status (*add_peer)(struct amph_port *port, uint32_t peer, const void *addr,
                                 size_t addr_len, uint32_t *datagram_p);
    void (*del_peer)(struct amph_port *port, uint32_t peer);
    /* Sends v[0..n).  Returns how many were accepted; an accepted one may still be lost. */
    unsigned (*send)(struct amph_port *port, const struct amph_port_out *v, unsigned n);
    /* Receives into *set_p, which is empty, or makes a set if it is NULL.  Returns the number of
     * datagrams. */
    unsigned (*recv)(struct amph_port *port, struct amph_port_set **set_p);
    /* Copies the first bytes of the datagram that recv would return next, at most `room`.  Returns the
     * datagram's length, or 0 if none waits.  Only if the port peeks. */
    size_t (*peek)(struct amph_port *port, void *head, size_t room);
    /* Receives the datagram that peek has shown to several places.  Returns false if it cannot. */
    bool (*take)(struct amph_port *port, const struct amph_port_in_parts *parts);
    void (*free_set)(struct amph_port *port, struct amph_port_set *set);
    /* Returns true if a datagram is queued, as far as the port knows.  May run at the same time as any other
     * call. */
    bool (*queued)(struct amph_port *port);
    /* Returns a peer whose host reported that no process receives at its port, or UINT32_MAX. */
    uint32_t (*refused)(struct amph_port *port);
    /* Returns a descriptor that is readable while a datagram is queued, or -1. */
    int (*fd)(struct amph_port *port);
    /* Called before a sleep on fd.  Returns false if a datagram is queued. */
    bool (*idle)(struct amph_port *port);
};

extern const struct amph_port_ops amph_conduit_port_socket_ops;

/* The libfabric module's port, found by its name. */
#define AMPH_PORT_OFI_ENTRY "amph_conduit_port_ofi_ops"
extern const struct amph_port_ops amph_conduit_port_ofi_ops;

#endif

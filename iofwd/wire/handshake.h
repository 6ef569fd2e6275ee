/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of client and server on the control connection, a UNIX or TCP stream socket:
 * frames, proofs, and the client's side.
 *
 * Layer: iofwd.  Thread rule: functions on the caller's memory and descriptors.
 *
 * Sequence: the server sends GREET (its nonce).  The client sends HELLO (kind, facts, endpoint
 * address, transfer area, its nonce, proof of the job's key).  The server answers WELCOME (client
 * number, index, its endpoint address, list of servers, proof) or REFUSE (a sentence).  A client
 * may send ASK at any time to get a new GREET; a forked child or a new image does so on the
 * connection that it inherited.
 *
 * A process of no group first sends HELLO to the registrar (the first live server), which returns a
 * client number and an ordered list of servers.  With that number it connects to the first of them,
 * so joining takes two handshakes for any number of clients and servers.
 *
 * The connection stays open until the client ends: the server detects the end when the kernel
 * closes the last copy.  It is close-on-exec.  A process that keeps open files over exec opens another
 * connection before, its successor, and sends a frame KEEP on the first one, which names the successor and
 * lists the files.  Once the first connection has ended, these files belong to the successor, and all others
 * are closed.  The new image inherits the successor.  If the exec fails, the process closes it, and nothing has
 * changed.  A frame KEEP that names no successor has its effect at once: on a connection that was made for a
 * child (CHILD), which executes a program and inherits some of the parent's files only.
 *
 * If another launcher's compute processes do not use the library, each of
 * them holds one more connection to the first server (STAY), which its child processes inherit.
 * When the last of these connections is closed, no process uses the job's files any more.  Each
 * other server holds such a connection to the first server, too, and detects the end of the job by
 * its end.
 */
#ifndef AMPH_IOFWD_HANDSHAKE_H
#define AMPH_IOFWD_HANDSHAKE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "am/am.h"
#include "base/auth.h"
#include "base/os/clock.h"
#include "base/status.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "iofwd/wire/file.h"

#define FWD_FRAME_MAGIC UINT32_C(0x524f4f44) /* any number that is fixed */
#define FWD_FRAME_HEAD_BYTES 12
#define FWD_FRAME_BODY_MAX 4096
#define FWD_NONCE_BYTES 16
#define FWD_CONTROL_TIMEOUT_NS (10 * AMPH_NS_PER_S)
/* Within this time an answer must have come, however much the other side does. */
#define FWD_CONTROL_PATIENCE_NS (300 * AMPH_NS_PER_S)

enum amph_fwd_frame {
    FWD_FRAME_GREET = 1,
    FWD_FRAME_ASK,
    FWD_FRAME_HELLO,
    FWD_FRAME_WELCOME,
    FWD_FRAME_REFUSE,
    FWD_FRAME_NO_MEMORY, /* a refusal by a server without memory or addresses for the client */
    FWD_FRAME_QUERY,     /* of a watcher, and the answer: wire/watch.h */
    FWD_FRAME_ANSWER,
    FWD_FRAME_FULL, /* a refusal by a server that has its maximum number of clients */
    FWD_FRAME_DESCRIPTOR, /* from the server: a file's handle, and with it its descriptor (passthrough.h) */
    FWD_FRAME_UNREACHABLE, /* a refusal by a server that has no network in common with the client */
    /* from a client, on its connection: the files that the program which it executes keeps (below) */
    FWD_FRAME_KEEP
};

/* The body of FWD_FRAME_KEEP: the nonce of the successor's last GREET, or zeros; a number of handles; these handles. */
#define FWD_KEEP_MAX ((FWD_FRAME_BODY_MAX - FWD_NONCE_BYTES - sizeof(uint32_t)) / sizeof(uint64_t))
#define FWD_KEEP_ALL UINT32_MAX /* in the place of the number: all files that the client holds */

struct amph_fwd_keep {
    uint8_t nonce[FWD_NONCE_BYTES];
    uint32_t n; /* or FWD_KEEP_ALL */
    uint64_t handles[FWD_KEEP_MAX];
};

/* The purpose of a HELLO. */
enum amph_fwd_hello_kind {
    FWD_HELLO_NEW, /* a new client */
    /* from a parent about to fork: a number for the child, which gets holds on all the parent's
     * files */
    FWD_HELLO_CHILD,
    FWD_HELLO_AGAIN, /* on a client's connection: a new endpoint and transfer area for that client
                      */
    /* to the registrar: a number and the ordered list of servers, for a process of no group. If the
     * registrar is the first of them and the HELLO brings an endpoint's address and no number, a client is
     * made as for NEW; else the WELCOME's index is FWD_INDEX_NONE */
    FWD_HELLO_JOIN,
    /* to the first server: this connection stands for a compute process that does not use the
     * library and for the processes it starts, or for another server; no client is made */
    FWD_HELLO_STAY,
    /* from a client: the server sends a byte on this connection when a file registered with it
     * becomes ready (server/notify/readiness.c); the WELCOME's number identifies the connection */
    FWD_HELLO_NOTIFY,
    /* from a process of the server's host that may not make a shared-memory object of part_len bytes
     * itself (ulimit -f): the WELCOME brings its descriptor; no client is made */
    FWD_HELLO_MEMORY,
    /* from iofwd-ctl: the connection carries queries (wire/watch.h); no client is made */
    FWD_HELLO_WATCH,
    /* from a client of the server's host: the WELCOME brings a pipe, open for reading and writing, whose
     * number is the WELCOME's.  The data of large writes travels in it.  Without a descriptor: the
     * server makes no further pipe */
    FWD_HELLO_PIPE,
    FWD_HELLO_KINDS
};

/* The most pipes of a client at one server. */
#define FWD_PIPES_MAX 4

/* The longest object that a server makes for a client. */
#define FWD_MEMORY_MAX_BYTES (UINT64_C(1) << 30)

#define FWD_AREA_KEY_MAX (2 * AMPH_KEY_BLOB_MAX_BYTES + 32)

#define FWD_NUMBER_NONE UINT32_MAX
#define FWD_INDEX_NONE UINT32_MAX

struct amph_fwd_hello {
    uint8_t kind;
    uint8_t big_endian, pointer_bytes;
    uint32_t page_bytes;
    uint32_t rank; /* absolute number of a process of the job, or AMPH_RANK_NONE */
    /* client number given by another server; CHILD: the parent's; 0xffffffff: none */
    uint32_t number;
    /* CHILD: number that another server has given to the child, or 0xffffffff */
    uint32_t child;
    uint32_t pid;
    uint32_t index; /* by which the client addresses this server */
    uint8_t nonce[FWD_NONCE_BYTES];
    const void *addr; /* endpoint address; in the frame */
    size_t addr_len;
    const void *area_key;
    size_t area_key_len;        /* 0: no transfer area */
    uint64_t part_at, part_len; /* this server's part of the area */
};

/* The greeting of a process that is no client and watches the server (wire/watch.h). */
static inline struct amph_fwd_hello amph_fwd_watch_hello(void)
{
    return (struct amph_fwd_hello){ .kind = FWD_HELLO_WATCH,
                                    .big_endian = amph_wire_swaps(),
                                    .pointer_bytes = sizeof(void *),
                                    .rank = AMPH_RANK_NONE,
                                    .number = FWD_NUMBER_NONE,
                                    .child = FWD_NUMBER_NONE,
                                    .pid = (uint32_t)getpid() };
}

struct amph_fwd_welcome {
    uint32_t number;   /* the client's */
    uint32_t index;    /* by which the server addresses the client's endpoint */
    uint32_t server;   /* absolute number of the answering server */
    uint32_t nservers; /* the client's servers in order */
    uint32_t servers[AMPH_FWD_PARTS_MAX];
    const void *addr;
    size_t addr_len;
    /* as received: the object of FWD_HELLO_MEMORY or the pipe of FWD_HELLO_PIPE, else -1 */
    int passed_fd;
};

/* A frame as received: body points into the receiver's buffer. */
struct amph_fwd_frame_in {
    uint8_t version, type;
    const uint8_t *body;
    size_t len;
};

/* Builds a frame in out (FWD_FRAME_HEAD_BYTES + len bytes).  Returns its whole length. */
size_t amph_fwd_frame_build(uint8_t *out, enum amph_fwd_frame type, const void *body, size_t len);

/* Parses one frame at the start of the received bytes.  AMPH_OK (*used_p bytes were consumed),
 * AMPH_AGAIN (incomplete), AMPH_ERR_PROTO (not this protocol, or too long). */
enum amph_status amph_fwd_frame_parse(const uint8_t *buf, size_t have, struct amph_fwd_frame_in *in,
                                      size_t *used_p);

/* Build a body with the proof at its end: HMAC(key, label, both nonces, body).  0: does not fit. */
size_t amph_fwd_hello_build(uint8_t *out, size_t room, const struct amph_fwd_hello *h,
                            const uint8_t key[AMPH_KEY_BYTES],
                            const uint8_t server_nonce[FWD_NONCE_BYTES]);
size_t amph_fwd_welcome_build(uint8_t *out, size_t room, const struct amph_fwd_welcome *wc,
                              const uint8_t key[AMPH_KEY_BYTES],
                              const uint8_t server_nonce[FWD_NONCE_BYTES],
                              const uint8_t client_nonce[FWD_NONCE_BYTES]);
/* AMPH_ERR_DENIED: the proof is wrong; AMPH_ERR_PROTO: it does not parse. */
enum amph_status amph_fwd_hello_parse(const uint8_t *body, size_t len, struct amph_fwd_hello *h,
                                      const uint8_t key[AMPH_KEY_BYTES],
                                      const uint8_t server_nonce[FWD_NONCE_BYTES]);
enum amph_status amph_fwd_welcome_parse(const uint8_t *body, size_t len,
                                        struct amph_fwd_welcome *wc,
                                        const uint8_t key[AMPH_KEY_BYTES],
                                        const uint8_t server_nonce[FWD_NONCE_BYTES],
                                        const uint8_t client_nonce[FWD_NONCE_BYTES]);

/* Returns whether clients and servers of this job must be able to communicate over a network. */
bool amph_fwd_needs_network(const struct amph_jobdesc *job);
/* Records for waits whether the job has more processes on that host than cores. */
void amph_fwd_note_oversubscribed(const struct amph_jobdesc *job, uint32_t host);
enum amph_status amph_fwd_choose_network(const struct amph_jobdesc *job,
                                         const struct amph_conduit_ops **ops_p);

/* What a server publishes under FWD_CONTROL_KEY: the address of its listener. */
#define FWD_CONTROL_KEY AMPH_BOOT_CONTROL_KEY
struct amph_fwd_server_addr {
    char unix_name[64];          /* abstract name without the leading NUL; "": none */
    struct sockaddr_storage tcp; /* IPv4 or IPv6; AF_UNSPEC: none */
    uint64_t versions;           /* id of its object of file versions (wire/versions.h); 0: none */
};

size_t amph_fwd_server_addr_build(uint8_t *out, size_t room, const struct amph_fwd_server_addr *a);
bool amph_fwd_server_addr_parse(const uint8_t *buf, size_t len, struct amph_fwd_server_addr *a);

/* Has the kernel end the TCP connection fd if its other host has been silent for 15 to 20 s; sends small
 * messages at once. */
void amph_fwd_watch_host(int fd);

/* Client side, blocking: connect until deadline_ns (amph_now_ns; 0: no limit); send and receive whole
 * frames (buf: FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX) within FWD_CONTROL_TIMEOUT_NS.  Errors:
 * AMPH_ERR_PEER (no listener, or closed), AMPH_ERR_TIMEOUT, AMPH_ERR_PROTO. */
enum amph_status amph_fwd_control_connect(const struct amph_fwd_server_addr *a, bool same_host,
                                          uint64_t deadline_ns, int *fd_p);
enum amph_status amph_fwd_control_send(int fd, const void *buf, size_t len);
enum amph_status amph_fwd_control_receive(int fd, uint8_t *buf, struct amph_fwd_frame_in *in);

/* Server side, without waiting: sends a whole frame, and a descriptor with it (-1: none).  false: it could not
 * be sent at once. */
bool amph_fwd_control_pass(int fd, const void *frame, size_t len, int pass_fd);

/* Client side: sends a frame KEEP.  n: FWD_KEEP_ALL, or how many handles there are, at most FWD_KEEP_MAX.
 * amph_fwd_control_keep_only: with effect at once.  amph_fwd_control_successor: opens the successor of fd, too, which
 * the caller then owns (close-on-exec). */
enum amph_status amph_fwd_control_keep_only(int fd, const uint64_t *handles, uint32_t n);
enum amph_status amph_fwd_control_successor(int fd, const uint64_t *handles, uint32_t n,
                                            int *successor_p);

/* Server side: parses the body of a frame KEEP.  false: it is damaged. */
bool amph_fwd_keep_parse(const uint8_t *body, size_t len, struct amph_fwd_keep *keep);
bool amph_fwd_keep_has_successor(const struct amph_fwd_keep *keep);

/* Client side: receives the frame FWD_FRAME_DESCRIPTOR of this handle, which the server has sent already, and
 * closes the descriptors of others that calls which ended early have left.  On AMPH_OK the caller owns *fd_p. */
enum amph_status amph_fwd_control_take(int fd, uint64_t handle, int *fd_p);

/* Performs the client's side of the handshake until deadline_ns: [ASK,] GREET, HELLO, WELCOME.  buf holds
 * a frame; *wc points into it.  Errors as above, and those of refusals, with the server's sentence logged. */
enum amph_status amph_fwd_control_greet(int fd, const uint8_t key[AMPH_KEY_BYTES],
                                        struct amph_fwd_hello *h, bool ask, uint64_t deadline_ns,
                                        uint8_t *buf, struct amph_fwd_welcome *wc);
/* Connects and sends FWD_HELLO_STAY for process `rank` (absolute). */
enum amph_status amph_fwd_control_keep(const struct amph_fwd_server_addr *a, bool same_host,
                                       const uint8_t key[AMPH_KEY_BYTES], uint32_t rank, int *fd_p);

#endif

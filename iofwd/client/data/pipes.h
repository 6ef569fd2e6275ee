/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes to servers of this host, through which the data of large writes travels: the pages of the
 * caller's buffer are put into the pipe without a copy (server/pipes.c).
 *
 * Layer: iofwd.  Thread rule: any thread with signals blocked; a pipe belongs to the call that has
 * acquired it.
 */
#ifndef AMPH_IOFWD_CLIENT_PIPES_H
#define AMPH_IOFWD_CLIENT_PIPES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "iofwd/wire/handshake.h"

struct amph_client_link;
struct amph_fwd_client;

#define AMPH_CLIENT_PIPE_FROM ((size_t)256 << 10) /* minimum size of a write by a pipe */

struct amph_client_pipe {
    int fd;
    uint32_t number; /* at the server */
    size_t size_bytes;
    dev_t dev; /* identity, as the program might have closed the descriptor */
    ino_t ino;
};

/* The pipes to one server. */
struct amph_client_pipes {
    _Atomic uint32_t free;  /* bit set: made, and no call has it */
    _Atomic uint32_t made;  /* how many have been made */
    _Atomic uint32_t calls; /* large writes so far; the first ones make no pipe */
    _Atomic bool refused;   /* the server makes no further one */
    _Atomic bool busy;      /* several clients write by pipes: waits leave their cores at once */
    struct amph_client_pipe pipe[FWD_PIPES_MAX];
};

/* Returns a pipe for one call, or NULL.  May make one, which takes a handshake. */
struct amph_client_pipe *amph_client_pipe_acquire(struct amph_fwd_client *cl,
                                                  struct amph_client_link *link);

/* Gives the pipe back.  empty: nothing is left in it; else it is closed. */
void amph_client_pipe_release(struct amph_client_link *link, struct amph_client_pipe *pipe,
                              bool empty);

/* Puts data into the pipe without waiting.  Returns how many bytes, 0 if the pipe is full, or -1 if this
 * memory cannot be put into a pipe. */
ssize_t amph_client_pipe_fill(struct amph_client_pipe *pipe, const uint8_t *data, size_t len);

/* Removes what a call that has ended early has left.  Returns false if the pipe cannot be used any more. */
bool amph_client_pipe_empty(struct amph_client_pipe *pipe);

/* Is fd one of the link's pipes? */
bool amph_client_pipes_own(const struct amph_client_link *link, int fd);

/* The server is dead: closes the pipes that no call has, and makes no further ones. */
void amph_client_pipes_end(struct amph_client_link *link);

/* In a forked child: closes all its copies of the parent's pipes. */
void amph_client_pipes_forget(struct amph_client_link *link);

#endif

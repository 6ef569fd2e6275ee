/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames over a stream socket: a length (u32), a type (u16), a body.  Used by the control socket
 * (process to launcher) and between the launcher and its agents.  Layer: boot.  Thread rule: one
 * thread at a time on one struct.
 *
 * Nothing here blocks except amph_frames_wait.  What cannot be sent at once is kept and sent by
 * amph_frames_flush.
 */
#ifndef AMPH_BOOT_FRAMES_H
#define AMPH_BOOT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/wire.h"

#define AMPH_FRAME_HEAD_BYTES 6

/* Bytes at buf[at..len) wait; the rest is room. */
struct amph_bytes {
    uint8_t *buf;
    size_t at, len, cap;
};

struct amph_frames {
    int fd;           /* owned; -1: closed */
    int out_fd;       /* the same socket, or the second of two pipes (owned too) */
    size_t max_bytes; /* a longer body from the peer is a violation */
    struct amph_bytes in, out;
};

/* A received frame; body lies in the stream's memory until the next amph_frames_fill or
 * amph_frames_close. */
struct amph_frame {
    uint16_t type;
    size_t len_bytes;
    const uint8_t *body;
};

void amph_frames_open(struct amph_frames *f, int fd, size_t max_bytes);
/* Over two descriptors that need not be sockets (what sshd gives a command); both are made
 * non-blocking. */
void amph_frames_open_pair(struct amph_frames *f, int in_fd, int out_fd, size_t max_bytes);
void amph_frames_close(struct amph_frames *f);

/* Hands over bytes that came by another way, as if they had been read from the descriptor; false
 * where memory has run out. */
bool amph_frames_feed(struct amph_frames *f, const void *bytes, size_t len_bytes);

/* Takes a frame for sending and sends what the socket takes now.  AMPH_OK also where some is left;
 * AMPH_ERR_PEER, NOMEM. */
enum amph_status amph_frames_send(struct amph_frames *f, uint16_t type, const void *body,
                                  size_t len_bytes);
/* The same with the body that w holds; AMPH_ERR_RANGE where w ran over. */
enum amph_status amph_frames_send_wr(struct amph_frames *f, uint16_t type, const struct amph_wr *w);

/* AMPH_OK: nothing is left to send; AMPH_AGAIN: some is; AMPH_ERR_PEER. */
enum amph_status amph_frames_flush(struct amph_frames *f);
bool amph_frames_pending(const struct amph_frames *f);

/* Reads what has come.  AMPH_OK: some; AMPH_AGAIN: none; AMPH_ERR_PEER: the other end is closed;
 * AMPH_ERR_NOMEM. */
enum amph_status amph_frames_fill(struct amph_frames *f);

/* The next whole frame among what has been read: AMPH_OK, AMPH_AGAIN (none), AMPH_ERR_PROTO (its
 * length is not allowed). */
enum amph_status amph_frames_next(struct amph_frames *f, struct amph_frame *frame_p);

/* Blocks until something can be read, sending what is left meanwhile.  deadline_ns: amph_now_ns's
 * time, 0: no limit. AMPH_OK, AMPH_ERR_TIMEOUT, AMPH_ERR_PEER. */
enum amph_status amph_frames_wait(struct amph_frames *f, uint64_t deadline_ns);

/* Appends to a byte queue; false where memory has run out. */
bool amph_bytes_add(struct amph_bytes *b, const void *src, size_t len_bytes);
void amph_bytes_free(struct amph_bytes *b);
static inline size_t amph_bytes_left(const struct amph_bytes *b)
{
    return b->len - b->at;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames over a stream socket: a length (u32), a type (u16), a body.  Used on the control socket
 * (process to launcher) and between the launcher and its agents.
 *
 * Layer: boot.  Thread rule: one thread at a time on one struct.
 *
 * Only amph_boot_frames_wait blocks.  Bytes that cannot be sent at once are queued, and
 * amph_boot_frames_flush sends them.
 */
#ifndef AMPH_BOOT_FRAMES_H
#define AMPH_BOOT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/wire.h"

#define AMPH_FRAME_HEAD_BYTES 6

/* A byte queue: buf[at..len) is queued, the rest is free. */
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

/* A received frame.  body is valid until the next amph_boot_frames_fill or
 * amph_boot_frames_close. */
struct amph_frame {
    uint16_t type;
    size_t len_bytes;
    const uint8_t *body;
};

void amph_boot_frames_open(struct amph_frames *f, int fd, size_t max_bytes);
/* The same over two descriptors that need not be sockets (such as those of a command run by sshd);
 * both are made non-blocking. */
void amph_boot_frames_open_pair(struct amph_frames *f, int in_fd, int out_fd, size_t max_bytes);
void amph_boot_frames_close(struct amph_frames *f);

/* Adds received bytes that were not read from the descriptor by this file.  false: no memory. */
bool amph_boot_frames_feed(struct amph_frames *f, const void *bytes, size_t len_bytes);

/* Queues a frame and sends as much as the socket accepts now.  AMPH_OK also if bytes stay queued;
 * AMPH_ERR_PEER, AMPH_ERR_NOMEM. */
enum amph_status amph_boot_frames_send(struct amph_frames *f, uint16_t type, const void *body,
                                       size_t len_bytes);
/* The same with the body in w; AMPH_ERR_RANGE if w is bad. */
enum amph_status amph_boot_frames_send_wr(struct amph_frames *f, uint16_t type,
                                          const struct amph_wr *w);

/* Sends queued bytes.  AMPH_OK: all sent; AMPH_AGAIN: some are still queued; AMPH_ERR_PEER. */
enum amph_status amph_boot_frames_flush(struct amph_frames *f);
bool amph_boot_frames_pending(const struct amph_frames *f);

/* Reads what has arrived.  Allocates memory at the first call, and later only while an incomplete frame
 * nearly fills the buffer.  AMPH_OK: something; AMPH_AGAIN: nothing; AMPH_ERR_PEER: the other end
 * is closed; AMPH_ERR_NOMEM. */
enum amph_status amph_boot_frames_fill(struct amph_frames *f);

/* Returns the next complete frame of the bytes that have been read: AMPH_OK, AMPH_AGAIN (none),
 * AMPH_ERR_PROTO (its length is not allowed). */
enum amph_status amph_boot_frames_next(struct amph_frames *f, struct amph_frame *frame_p);

/* Blocks until something can be read, and sends queued bytes meanwhile. deadline_ns: on the
 * clock of amph_now_ns; 0: no limit.  AMPH_OK, AMPH_ERR_TIMEOUT, AMPH_ERR_PEER. */
enum amph_status amph_boot_frames_wait(struct amph_frames *f, uint64_t deadline_ns);

/* Makes room for len_bytes at the end; bytes that have been consumed are removed first.  false: no memory. */
bool amph_boot_bytes_reserve(struct amph_bytes *b, size_t len_bytes);
/* Appends to a byte queue; false: no memory. */
bool amph_boot_bytes_add(struct amph_bytes *b, const void *src, size_t len_bytes);
void amph_boot_bytes_free(struct amph_bytes *b);
static inline size_t amph_boot_bytes_left(const struct amph_bytes *b)
{
    return b->len - b->at;
}

#endif

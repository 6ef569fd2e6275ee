/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames over a stream socket; see frames.h.  Layer: boot. */
#include "boot/frames.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/thread.h"

enum {
    READ_BYTES = 16384,
    READ_MIN_BYTES = 4096 /* with less room than this, the buffer grows */
};

bool amph_boot_bytes_reserve(struct amph_bytes *b, size_t len_bytes)
{
    if (b->at > 0) {
        memmove(b->buf, b->buf + b->at, b->len - b->at);
        b->len -= b->at;
        b->at = 0;
    }

    if (b->cap - b->len >= len_bytes)
        return true;

    size_t cap = b->cap ? b->cap : 256;

    while (cap - b->len < len_bytes)
        cap *= 2;

    uint8_t *buf = realloc(b->buf, cap);
    if (!buf)
        return false;

    b->buf = buf;
    b->cap = cap;
    return true;
}

bool amph_boot_bytes_add(struct amph_bytes *b, const void *src, size_t len_bytes)
{
    if (len_bytes == 0)
        return true;
    if (b->cap - b->len < len_bytes && !amph_boot_bytes_reserve(b, len_bytes))
        return false;

    memcpy(b->buf + b->len, src, len_bytes);
    b->len += len_bytes;
    return true;
}

void amph_boot_bytes_free(struct amph_bytes *b)
{
    free(b->buf);
    memset(b, 0, sizeof *b);
}

void amph_boot_frames_open(struct amph_frames *f, int fd, size_t max_bytes)
{
    memset(f, 0, sizeof *f);
    f->fd = f->out_fd = fd;
    f->max_bytes = max_bytes;
}

void amph_boot_frames_open_pair(struct amph_frames *f, int in_fd, int out_fd, size_t max_bytes)
{
    amph_boot_frames_open(f, in_fd, max_bytes);
    f->out_fd = out_fd;
    fcntl(in_fd, F_SETFL, fcntl(in_fd, F_GETFL) | O_NONBLOCK);
    fcntl(out_fd, F_SETFL, fcntl(out_fd, F_GETFL) | O_NONBLOCK);
}

bool amph_boot_frames_feed(struct amph_frames *f, const void *bytes, size_t len_bytes)
{
    return amph_boot_bytes_add(&f->in, bytes, len_bytes);
}

/* Writes without blocking: MSG_DONTWAIT for a socket; a pipe has been made non-blocking. */
static ssize_t write_some(const struct amph_frames *f, const void *from, size_t len)
{
    return f->out_fd == f->fd ? send(f->fd, from, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : write(f->out_fd, from, len);
}

static ssize_t read_some(const struct amph_frames *f, void *to, size_t len)
{
    return f->out_fd == f->fd ? recv(f->fd, to, len, MSG_DONTWAIT) : read(f->fd, to, len);
}

void amph_boot_frames_close(struct amph_frames *f)
{
    if (f->fd >= 0)
        close(f->fd);

    if (f->out_fd >= 0 && f->out_fd != f->fd)
        close(f->out_fd);

    f->fd = f->out_fd = -1;
    amph_boot_bytes_free(&f->in);
    amph_boot_bytes_free(&f->out);
}

bool amph_boot_frames_pending(const struct amph_frames *f)
{
    return f->out.len > f->out.at;
}

enum amph_status amph_boot_frames_flush(struct amph_frames *f)
{
    while (amph_boot_frames_pending(f)) {
        ssize_t n = write_some(f, f->out.buf + f->out.at, f->out.len - f->out.at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? AMPH_AGAIN : AMPH_ERR_PEER;

        f->out.at += (size_t)n;
    }

    f->out.at = f->out.len = 0;
    return AMPH_OK;
}

enum amph_status amph_boot_frames_send(struct amph_frames *f, uint16_t type, const void *body,
                                       size_t len_bytes)
{
    uint8_t head[AMPH_FRAME_HEAD_BYTES];
    struct amph_wr w;

    if (f->fd < 0)
        return AMPH_ERR_PEER;
    if (len_bytes > UINT32_MAX)
        return AMPH_ERR_RANGE;

    amph_wr_init(&w, head, sizeof head);
    amph_wr_u32(&w, (uint32_t)len_bytes);
    amph_wr_u16(&w, type);
    if (!amph_boot_bytes_reserve(&f->out, sizeof head + len_bytes))
        return AMPH_ERR_NOMEM;

    amph_boot_bytes_add(&f->out, head, sizeof head);
    amph_boot_bytes_add(&f->out, body, len_bytes);

    enum amph_status st = amph_boot_frames_flush(f);

    return st == AMPH_AGAIN ? AMPH_OK : st;
}

enum amph_status amph_boot_frames_send_wr(struct amph_frames *f, uint16_t type,
                                          const struct amph_wr *w)
{
    return w->bad ? AMPH_ERR_RANGE : amph_boot_frames_send(f, type, w->base, amph_wr_len(w));
}

enum amph_status amph_boot_frames_fill(struct amph_frames *f)
{
    if (f->fd < 0)
        return AMPH_ERR_PEER;
    if (!amph_boot_bytes_reserve(&f->in, f->in.cap ? READ_MIN_BYTES : READ_BYTES))
        return AMPH_ERR_NOMEM;

    for (;;) {
        ssize_t n = read_some(f, f->in.buf + f->in.len, f->in.cap - f->in.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? AMPH_AGAIN : AMPH_ERR_PEER;
        if (n == 0)
            return AMPH_ERR_PEER;

        f->in.len += (size_t)n;
        return AMPH_OK;
    }
}

enum amph_status amph_boot_frames_next(struct amph_frames *f, struct amph_frame *frame_p)
{
    struct amph_rd r;

    amph_rd_init(&r, f->in.buf + f->in.at, amph_boot_bytes_left(&f->in));

    size_t len = amph_rd_u32(&r);
    uint16_t type = amph_rd_u16(&r);

    if (r.bad)
        return AMPH_AGAIN;
    if (len > f->max_bytes)
        return AMPH_ERR_PROTO;

    const void *body = amph_rd_bytes(&r, len);
    if (!body)
        return AMPH_AGAIN;

    f->in.at += AMPH_FRAME_HEAD_BYTES + len;
    *frame_p = (struct amph_frame){ .type = type, .len_bytes = len, .body = body };
    return AMPH_OK;
}

enum amph_status amph_boot_frames_wait(struct amph_frames *f, uint64_t deadline_ns)
{
    for (;;) {
        if (amph_boot_frames_flush(f) == AMPH_ERR_PEER)
            return AMPH_ERR_PEER;

        int left_ms = -1;

        if (deadline_ns) {
            uint64_t now = amph_now_ns();

            if (now >= deadline_ns)
                return AMPH_ERR_TIMEOUT;

            uint64_t ms = (deadline_ns - now + AMPH_NS_PER_MS - 1) / AMPH_NS_PER_MS;

            left_ms = ms > 3600000 ? 3600000 : (int)ms;
        }

        struct pollfd p = {
            .fd = f->fd, .events = (short)(POLLIN | (amph_boot_frames_pending(f) ? POLLOUT : 0))
        };

        sigset_t before;

        amph_thread_wait_begin(&before);

        int n = poll(&p, 1, left_ms);

        amph_thread_wait_end(&before);
        if (n < 0 && errno != EINTR)
            return AMPH_ERR_PEER;
        if (p.revents & (POLLIN | POLLHUP | POLLERR))
            return AMPH_OK;
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the client's end of the attach handshake: what a server, or anything at its address,
 * sends to a process that attaches.  Run by tests/fuzz/fuzz.sh.
 *
 * An input's first bytes say what the client asks for and what comes: a right GREET, a WELCOME with a
 * right proof over any body, descriptors that come along; the rest is that body, or raw bytes.  All is
 * sent before the client reads, and then the connection ends.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "iofwd/wire/handshake.h"
#include "iofwd/wire/watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    FDS = 64,
    BYTES_MAX = 2000
};

static const uint8_t key[AMPH_KEY_BYTES] = "a key that both know";
static const uint8_t server_nonce[FWD_NONCE_BYTES] = "of the server";
static int ends[2];

static void expect(bool ok, const char *what)
{
    if (ok)
        return;

    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* The client's nonce is known, so that a WELCOME with the proof can be made before. */
void amph_random(void *buf, size_t len_bytes)
{
    memset(buf, 'r', len_bytes);
}

/* Sends bytes with that many descriptors. */
static void send_with(const uint8_t *bytes, size_t len, unsigned nfds)
{
    int fd[4] = { 2, 2, 2, 2 };
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec iov = { (void *)bytes, len };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (len == 0)
        return;

    if (nfds) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(nfds * sizeof fd[0]);

        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof fd[0]);
        memcpy(CMSG_DATA(c), fd, nfds * sizeof fd[0]);
    }

    expect(sendmsg(ends[1], &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len, "room in the socket");
}

static void send_frame(enum amph_fwd_frame type, const void *body, size_t len, unsigned nfds)
{
    uint8_t frame[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];

    send_with(frame, amph_fwd_frame_build(frame, type, body, len), nfds);
}

/* A WELCOME whose proof is right. */
static void send_welcome(const uint8_t *bytes, size_t len, unsigned nfds)
{
    uint8_t client_nonce[FWD_NONCE_BYTES];
    uint8_t body[FWD_FRAME_BODY_MAX];
    uint32_t count = len ? bytes[0] % (AMPH_FWD_PARTS_MAX + 3) : 0;
    struct amph_fwd_welcome wc = { .number = len > 1 ? bytes[1] : 0,
                                   .server = len > 2 ? bytes[2] : 0,
                                   .nservers = count,
                                   .addr = bytes,
                                   .addr_len = len < 1000 ? len : 1000 };

    memset(client_nonce, 'r', sizeof client_nonce);

    size_t n = amph_fwd_welcome_build(body, sizeof body, &wc, key, server_nonce, client_nonce);

    if (n)
        send_frame(FWD_FRAME_WELCOME, body, n, nfds);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < FDS; fd++)
        n += fcntl(fd, F_GETFD) >= 0;

    return n;
}

/* What a client does with the answer. */
static void use(struct amph_fwd_welcome *wc, bool passes)
{
    volatile uint32_t sum = 0;

    expect(wc->nservers <= AMPH_FWD_PARTS_MAX, "the list of servers has room");
    for (uint32_t i = 0; i < wc->nservers; i++)
        sum += wc->servers[i];

    for (size_t i = 0; i < wc->addr_len; i++)
        sum += ((const uint8_t *)wc->addr)[i];

    if (passes && wc->passed_fd >= 0)
        close(wc->passed_fd);
    else
        expect(wc->passed_fd == -1, "a descriptor comes where one is asked for only");
}

/* What iofwd-ctl does with an answer. */
static void read_items(const uint8_t *bytes, size_t len)
{
    static struct amph_fwd_item item;
    struct amph_rd r;

    amph_rd_init(&r, bytes, len);
    while (amph_fwd_watch_next(&r, &item)) {
        expect(strlen(item.name) < sizeof item.name && strlen(item.text) < sizeof item.text,
               "texts end");
        if (item.kind == FWD_ITEM_LATENCY)
            expect(amph_fwd_latency_share_ns(&item.latency, 0.99) >= 0, "a time");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    read_items(bytes, len);
    if (len < 2)
        return 0;

    unsigned before = descriptors();

    signal(SIGPIPE, SIG_IGN);
    expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a connection");

    uint8_t what = bytes[0];
    unsigned nfds = bytes[1] & 3;
    unsigned early = bytes[1] >> 2 & 3;
    uint8_t answer = bytes[1] >> 4;

    bytes += 2;
    len -= 2;
    len = len < BYTES_MAX ? len : BYTES_MAX;

    if (what & 1)
        send_frame(FWD_FRAME_GREET, server_nonce, sizeof server_nonce, early);

    if (what & 2)
        send_welcome(bytes, len, nfds);
    else if (what & 4)
        send_frame((enum amph_fwd_frame)answer, bytes, len, nfds);
    else
        send_with(bytes, len, nfds);

    shutdown(ends[1], SHUT_WR);

    /* exactly one frame long, so that a sanitizer sees each byte too many */
    uint8_t *buf = malloc(FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX);
    struct amph_fwd_hello h = { .kind = (what >> 4) % FWD_HELLO_KINDS,
                                .pointer_bytes = 8,
                                .number = FWD_NUMBER_NONE,
                                .child = FWD_NUMBER_NONE };
    struct amph_fwd_welcome wc = { .passed_fd = -1 };

    expect(buf != NULL, "memory");
    if (amph_fwd_control_greet(ends[0], key, &h, what & 8, amph_now_ns() + FWD_CONTROL_TIMEOUT_NS,
                               buf, &wc) == AMPH_OK)
        use(&wc, h.kind == FWD_HELLO_MEMORY || h.kind == FWD_HELLO_PIPE);

    free(buf);
    close(ends[0]);
    close(ends[1]);
    expect(descriptors() == before, "every descriptor has been closed");
    return 0;
}

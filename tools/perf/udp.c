/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine's own limit of datagrams: two processes with a pair of UDP sockets over loopback.
 * Ranks 0 and 1 of a job take part; the others return at once.
 *
 * Layer: tools.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

#define GIVE_UP_NS (10 * AMPH_NS_PER_S)
#define LARGEST 65504u
#define BATCH 16u
#define DATAGRAM_ROOM 65536u
#define WINDOW \
    (1u << 20) /* bytes under way; each datagram counts 1 KiB more, as it does in the kernel */

_Static_assert(BATCH *DATAGRAM_ROOM <= PERF_MAX_BYTES, "a batch fits into perf_run.scratch");

static int open_socket(struct sockaddr_in *addr)
{
    int bytes = 8 << 20;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = sizeof *addr;

    *addr = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (fd < 0)
        return -1;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);

    if (bind(fd, (struct sockaddr *)addr, sizeof *addr) == 0 &&
        getsockname(fd, (struct sockaddr *)addr, &len) == 0)
        return fd;

    close(fd);
    return -1;
}

/* Sockets of ranks 0 and 1, connected to each other; made at first use and kept. */
static bool udp_open(struct perf_run *run)
{
    struct sockaddr_in addr;
    struct sockaddr_in peer = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    if (run->udp_tried)
        return run->udp_fd >= 0;

    run->udp_tried = true;
    run->udp_fd = run->rank < 2 ? open_socket(&addr) : -1;
    if (run->rank < 2)
        run->shared->udp_port[run->rank] = run->udp_fd < 0 ? 0 : ntohs(addr.sin_port);

    perf_sync(run);
    if (run->udp_fd >= 0) {
        peer.sin_port = htons((uint16_t)run->shared->udp_port[1 - run->rank]);
        if (peer.sin_port == 0 || connect(run->udp_fd, (struct sockaddr *)&peer, sizeof peer) != 0)
            perf_udp_close(run);
    }

    perf_sync(run);
    if (run->rank < 2 && run->udp_fd < 0)
        perf_no_value(run, "no UDP sockets on loopback: %s", strerror(errno));

    return run->udp_fd >= 0;
}

void perf_udp_close(struct perf_run *run)
{
    if (run->udp_fd >= 0)
        close(run->udp_fd);

    run->udp_fd = -1;
}

/* Spins until a datagram has come; -1: none in time. */
static ssize_t receive(int fd, void *data, size_t len)
{
    uint64_t tries = 0;
    uint64_t start = 0;
    ssize_t n;

    while ((n = recv(fd, data, len, 0)) < 0) {
        if (++tries % 100000)
            continue;

        start = start ? start : amph_now_ns();
        if (amph_now_ns() - start > GIVE_UP_NS)
            return -1;
    }

    return n;
}

/* Echoes of `bytes`; the first byte of a datagram says whether it is the last. */
double perf_udp_rtt(struct perf_run *run, size_t bytes)
{
    if (!udp_open(run))
        return run->rank > 1 ? 0 : NAN;

    unsigned char *data = run->buffer;
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;
    size_t len = bytes < LARGEST ? bytes : LARGEST;
    bool last = false;
    bool ok = true;

    while (!last && ok) {
        if (run->rank == 0) {
            last = end - start >= perf_sample_ns(run);
            data[0] = last;
            ok = send(run->udp_fd, data, len, 0) == (ssize_t)len &&
                 receive(run->udp_fd, data, LARGEST) == (ssize_t)len;
            end = amph_now_ns();
            n++;
        } else {
            ok = receive(run->udp_fd, data, LARGEST) == (ssize_t)len;
            last = data[0];
            ok = ok && send(run->udp_fd, data, len, 0) == (ssize_t)len;
        }
    }

    if (!ok) {
        perf_no_value(run, "a datagram was lost: %s", strerror(errno));
        return NAN;
    }

    return (double)(end - start) / (double)n / 1e3;
}

/* The stream: datagrams as long as they can be, a window of them under way, the receiver says how
 * many have come. */
struct pieces {
    size_t each, count, window;
};

static struct pieces cut(size_t bytes)
{
    size_t total = 64u << 20;
    size_t n = (bytes + LARGEST - 1) / LARGEST;
    size_t each = (bytes + n - 1) / n;
    struct pieces p = { each, total / each, WINDOW / (each + 1024) };

    p.count = p.count > 40000 ? 40000 : p.count;
    p.window = p.window < 2 * BATCH && each < 16384 ? 2 * BATCH : p.window;
    return p;
}

static bool send_all(struct perf_run *run, const struct pieces *p)
{
    struct mmsghdr msg[BATCH];
    struct iovec iov[BATCH];
    uint64_t came = 0;
    uint64_t sent = 0;
    uint64_t heard = amph_now_ns();
    uint64_t number;

    memset(msg, 0, sizeof msg);
    while (came < p->count) {
        unsigned n = 0;

        for (; n < BATCH && sent + n < p->count && sent + n - came < p->window; n++) {
            iov[n] = (struct iovec){
                run->buffer + (sent + n) * p->each % (PERF_MAX_BYTES - LARGEST), p->each
            };
            msg[n].msg_hdr.msg_iov = &iov[n];
            msg[n].msg_hdr.msg_iovlen = 1;
        }

        int k = n ? sendmmsg(run->udp_fd, msg, n, 0) : 0;

        sent += k > 0 ? (unsigned)k : 0;
        while (recv(run->udp_fd, &number, sizeof number, 0) == sizeof number) {
            came = number > came ? number : came;
            heard = amph_now_ns();
        }

        if (n == 0 && amph_now_ns() - heard > GIVE_UP_NS)
            return false;
    }

    return true;
}

static bool take_all(struct perf_run *run, const struct pieces *p)
{
    struct mmsghdr msg[BATCH];
    struct iovec iov[BATCH];
    uint64_t came = 0;
    uint64_t said = 0;
    uint64_t heard = amph_now_ns();

    memset(msg, 0, sizeof msg);
    for (unsigned i = 0; i < BATCH; i++) {
        iov[i] = (struct iovec){ run->scratch + i * DATAGRAM_ROOM, DATAGRAM_ROOM };
        msg[i].msg_hdr.msg_iov = &iov[i];
        msg[i].msg_hdr.msg_iovlen = 1;
    }

    while (came < p->count) {
        int n = recvmmsg(run->udp_fd, msg, BATCH, MSG_DONTWAIT, NULL);

        if (n > 0) {
            came += (unsigned)n;
            heard = amph_now_ns();
        } else if (amph_now_ns() - heard > GIVE_UP_NS) {
            return false;
        }

        if (came > said && (came - said >= p->window / 4 || came == p->count)) {
            said = came;
            if (send(run->udp_fd, &said, sizeof said, 0) < 0)
                return false;
        }
    }

    return true;
}

double perf_udp_stream(struct perf_run *run, size_t bytes)
{
    if (!udp_open(run))
        return run->rank > 1 ? 0 : NAN;

    struct pieces p = cut(bytes);
    uint64_t start = amph_now_ns();
    bool ok = run->rank == 0 ? send_all(run, &p) : take_all(run, &p);

    if (!ok) {
        perf_no_value(run,
                      "a datagram of the raw stream was lost; net.core.rmem_max may be too small");
        return NAN;
    }

    return (double)(p.count * p.each) * 1e3 / (double)(amph_now_ns() - start);
}

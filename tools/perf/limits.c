/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine's own limits: two processes that exchange cache lines, two processes with a TCP
 * connection over loopback, and one process that calls memcpy.  Ranks 0 and 1 of a job take part; the
 * others return at once.
 *
 * Layer: tools.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

#define LAST UINT64_MAX
#define SAMPLE_NS (20 * AMPH_NS_PER_MS)

/* ---- cache lines ---- */

/* Rank 0 sends 1, 2, 3 ... in *out and waits for the same in *in, until the time of a sample is
 * over; then it sends LAST. */
static double ping(_Atomic uint64_t *out, _Atomic uint64_t *in)
{
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    while (end - start < SAMPLE_NS) {
        for (unsigned i = 0; i < 2000; i++) {
            atomic_store_explicit(out, ++n, memory_order_release);
            while (atomic_load_explicit(in, memory_order_acquire) != n)
                ;
        }

        end = amph_now_ns();
    }

    atomic_store_explicit(out, LAST, memory_order_release);
    return (double)(end - start) / (double)n / 1e3;
}

static double pong(_Atomic uint64_t *out, _Atomic uint64_t *in)
{
    uint64_t n = 0;
    uint64_t got;

    for (;;) {
        while ((got = atomic_load_explicit(in, memory_order_acquire)) == n)
            ;

        if (got == LAST)
            return 0;

        atomic_store_explicit(out, n = got, memory_order_release);
    }
}

double perf_line2(struct perf_run *run, size_t bytes)
{
    struct perf_shared *s = run->shared;

    if (run->rank == 0) {
        s->line_a = s->line_b = 0;
        perf_sync(run);
        return ping(&s->line_a, &s->line_b);
    }

    perf_sync(run);
    return run->rank == 1 ? pong(&s->line_b, &s->line_a) : 0;
}

/* One line for both directions: odd numbers go out, even ones come back. */
static double one_line(_Atomic uint64_t *line, bool first)
{
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;
    uint64_t got;

    if (!first) {
        for (n = 1;; n += 2) {
            while ((got = atomic_load_explicit(line, memory_order_acquire)) != n)
                if (got == LAST)
                    return 0;

            atomic_store_explicit(line, n + 1, memory_order_release);
        }
    }

    while (end - start < SAMPLE_NS) {
        for (unsigned i = 0; i < 2000; i++, n += 2) {
            atomic_store_explicit(line, n + 1, memory_order_release);
            while (atomic_load_explicit(line, memory_order_acquire) != n + 2)
                ;
        }

        end = amph_now_ns();
    }

    atomic_store_explicit(line, LAST, memory_order_release);
    return (double)(end - start) / (double)(n / 2) / 1e3;
}

double perf_line1(struct perf_run *run, size_t bytes)
{
    if (run->rank == 0)
        run->shared->line_a = 0;

    perf_sync(run);
    return run->rank < 2 ? one_line(&run->shared->line_a, run->rank == 0) : 0;
}

/* Lines a microsecond that one process writes one after the other and another reads, through a ring
 * of lines: what a stream of messages of one line each can reach.  The reader says every quarter of
 * the ring how far it is. */
double perf_line_rate(struct perf_run *run, size_t bytes)
{
    enum {
        LINES = 400000
    };

    struct perf_shared *s = run->shared;

    if (run->rank == 0) {
        s->line_a = 0;
        for (unsigned i = 0; i < PERF_RING; i++)
            s->ring[i].word = 0;
    }

    perf_sync(run);

    uint64_t start = amph_now_ns();
    uint64_t read = 0;

    for (uint64_t n = 1; run->rank == 0 && n <= LINES; n++) {
        while (n - read > PERF_RING)
            read = atomic_load_explicit(&s->line_a, memory_order_acquire);

        atomic_store_explicit(&s->ring[n % PERF_RING].word, n, memory_order_release);
    }

    for (uint64_t n = 1; run->rank == 1 && n <= LINES; n++) {
        while (atomic_load_explicit(&s->ring[n % PERF_RING].word, memory_order_acquire) != n)
            ;

        if (n % (PERF_RING / 4) == 0)
            atomic_store_explicit(&s->line_a, n, memory_order_release);
    }

    while (run->rank == 0 && read != LINES)
        read = atomic_load_explicit(&s->line_a, memory_order_acquire);

    return LINES * 1e3 / (double)(amph_now_ns() - start);
}

/* Copies of 8 bytes a microsecond between private memory and memory that is shared. */
double perf_store_rate(struct perf_run *run, size_t bytes)
{
    if (run->rank != 0)
        return 0;

    volatile uint64_t *from = (volatile uint64_t *)(void *)run->buffer;
    volatile uint64_t *to = (volatile uint64_t *)(void *)run->shared->ring;
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    for (; end - start < SAMPLE_NS; end = amph_now_ns())
        for (unsigned i = 0; i < 1024; i++, n++)
            to[i % 64] = from[i % 64];

    return (double)n * 1e3 / (double)(end - start);
}

/* ---- TCP ---- */

/* As the tcp conduit inside a host, without a congestion control that estimates a rate (BBR), where that is
 * allowed: the limit is what the machine can do. */
static bool tcp_ready(int fd)
{
    static const char unpaced[] = "reno";
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
           fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

static int tcp_accept(struct perf_run *run)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof addr;
    struct timeval limit = { 20, 0 };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = -1;

    if (listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
        bind(listener, (struct sockaddr *)&addr, sizeof addr) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&addr, &len) == 0) {
        run->shared->port = ntohs(addr.sin_port);
        perf_sync(run);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    } else {
        perf_sync(run);
    }

    if (listener >= 0)
        close(listener);

    return fd;
}

static int tcp_connect(struct perf_run *run)
{
    perf_sync(run);

    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    addr.sin_port = htons((uint16_t)run->shared->port);

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) != 0) {
        close(fd);
        fd = -1;
    }

    return fd;
}

void perf_tcp_close(struct perf_run *run)
{
    if (run->tcp_fd >= 0)
        close(run->tcp_fd);

    run->tcp_fd = -1;
}

/* The connection between ranks 0 and 1, made at first use and kept. */
static bool tcp_open(struct perf_run *run)
{
    if (run->tcp_tried)
        return run->tcp_fd >= 0;

    run->tcp_tried = true;
    if (run->rank > 1)
        perf_sync(run);
    else
        run->tcp_fd = run->rank == 1 ? tcp_accept(run) : tcp_connect(run);

    perf_sync(run);
    if (run->rank < 2 && (run->tcp_fd < 0 || !tcp_ready(run->tcp_fd))) {
        perf_no_value(run, "no TCP connection over loopback: %s", strerror(errno));
        perf_tcp_close(run);
    }

    return run->tcp_fd >= 0;
}

/* Moves all bytes, spinning.  False: the connection broke. */
static bool tcp_move(int fd, unsigned char *data, size_t len, bool send_it)
{
    while (len > 0) {
        ssize_t n = send_it ? send(fd, data, len, MSG_NOSIGNAL) : recv(fd, data, len, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return false;

        data += n;
        len -= (size_t)n;
    }

    return true;
}

/* Echoes of `bytes`; the first byte of a message says whether it is the last. */
double perf_tcp_rtt(struct perf_run *run, size_t bytes)
{
    if (!tcp_open(run))
        return run->rank > 1 ? 0 : NAN;

    unsigned char *data = run->buffer;
    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;

    data[0] = 0;

    bool last = false;
    bool ok = true;

    while (!last && ok) {
        if (run->rank == 0) {
            last = end - start >= SAMPLE_NS;
            data[0] = last;
            ok = tcp_move(run->tcp_fd, data, bytes, true) &&
                 tcp_move(run->tcp_fd, data, bytes, false);
            end = amph_now_ns();
            n++;
        } else {
            ok = tcp_move(run->tcp_fd, data, bytes, false);
            last = data[0];
            ok = ok && tcp_move(run->tcp_fd, data, bytes, true);
        }
    }

    if (!ok) {
        perf_no_value(run, "the TCP connection broke: %s", strerror(errno));
        return NAN;
    }

    return (double)(end - start) / (double)n / 1e3;
}

/* Writes of `bytes` one after the other, and one byte back when all have arrived. */
double perf_tcp_stream(struct perf_run *run, size_t bytes)
{
    if (!tcp_open(run))
        return run->rank > 1 ? 0 : NAN;

    size_t count = (64u << 20) / bytes;

    count = count > 20000 ? 20000 : count;

    bool ok = true;
    uint64_t start = amph_now_ns();

    if (run->rank == 0) {
        for (size_t i = 0; i < count && ok; i++)
            ok = tcp_move(run->tcp_fd, run->buffer, bytes, true);

        ok = ok && tcp_move(run->tcp_fd, run->buffer, 1, false);
    } else {
        size_t piece = bytes < (1u << 20) ? 1u << 20 : bytes;

        for (size_t left = count * bytes; left > 0 && ok; left -= piece) {
            piece = piece < left ? piece : left;
            ok = tcp_move(run->tcp_fd, run->buffer, piece, false);
        }

        ok = ok && tcp_move(run->tcp_fd, run->buffer, 1, true);
    }

    if (!ok) {
        perf_no_value(run, "the TCP connection broke: %s", strerror(errno));
        return NAN;
    }

    return (double)(count * bytes) * 1e3 / (double)(amph_now_ns() - start);
}

/* Messages of `bytes` and a header of 32 bytes a microsecond, each by a write of its own. */
double perf_tcp_rate(struct perf_run *run, size_t bytes)
{
    return perf_tcp_stream(run, bytes + 32) / (double)(bytes + 32);
}

/* ---- memcpy ---- */

double perf_memcpy(struct perf_run *run, size_t bytes)
{
    /* Reached through a volatile pointer: the compiler can neither leave the copies out nor inline
     * them. */
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;

    if (run->rank != 0)
        return 0;

    uint64_t start = amph_now_ns();
    uint64_t end = start;
    uint64_t n = 0;
    unsigned batch = bytes > 65536 ? 4 : 1000;

    while (end - start < SAMPLE_NS) {
        for (unsigned i = 0; i < batch; i++)
            copy(run->scratch, run->buffer, bytes);

        n += batch;
        end = amph_now_ns();
    }

    return (double)n * (double)bytes * 1e3 / (double)(end - start);
}

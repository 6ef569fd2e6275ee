/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the machine: a TCP connection over loopback between ranks 0 and 1, and between a process
 * and a child that does nothing but receive data and write them to a file, or read them and send them.
 *
 * Layer: tools.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

/* As the tcp conduit inside a host, without a congestion control that estimates a rate (BBR), where that is
 * allowed: the limit is what the machine can do. */
static bool tcp_ready(int fd)
{
    static const char unpaced[] = "reno";
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
}

/* Returns a socket that listens on loopback, at *addr; -1: there is none. */
static int listen_on_loopback(struct sockaddr_in *addr)
{
    socklen_t len = sizeof *addr;
    struct timeval limit = { 20, 0 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *addr = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
        bind(fd, (struct sockaddr *)addr, sizeof *addr) == 0 && listen(fd, 1) == 0 &&
        getsockname(fd, (struct sockaddr *)addr, &len) == 0)
        return fd;

    if (fd >= 0)
        close(fd);

    return -1;
}

static int tcp_accept(struct perf_run *run)
{
    struct sockaddr_in addr;
    int listener = listen_on_loopback(&addr);
    int fd = -1;

    if (listener >= 0) {
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

/* Moves all bytes, spinning; yields: lets others run meanwhile.  False: the connection broke. */
static bool tcp_move_or(bool yields, int fd, unsigned char *data, size_t len, bool send_it)
{
    while (len > 0) {
        ssize_t n = send_it ? send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT)
                            : recv(fd, data, len, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (yields)
                sched_yield();

            continue;
        }

        if (n <= 0)
            return false;

        data += n;
        len -= (size_t)n;
    }

    return true;
}

static bool tcp_move(int fd, unsigned char *data, size_t len, bool send_it)
{
    return tcp_move_or(false, fd, data, len, send_it);
}

/* Messages of `bytes` that are answered with `back` bytes; the first byte of a message says whether it
 * is the last. */
static double echo(struct perf_run *run, size_t bytes, size_t back)
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
            last = end - start >= perf_sample_ns(run);
            data[0] = last;
            ok = tcp_move(run->tcp_fd, data, bytes, true) &&
                 tcp_move(run->tcp_fd, data, back, false);
            end = amph_now_ns();
            n++;
        } else {
            ok = tcp_move(run->tcp_fd, data, bytes, false);
            last = data[0];
            ok = ok && tcp_move(run->tcp_fd, data, back, true);
        }
    }

    if (!ok) {
        perf_no_value(run, "the TCP connection broke: %s", strerror(errno));
        return NAN;
    }

    return (double)(end - start) / (double)n / 1e3;
}

double perf_tcp_rtt(struct perf_run *run, size_t bytes)
{
    return echo(run, bytes, bytes);
}

double perf_tcp_put(struct perf_run *run, size_t bytes)
{
    return echo(run, bytes, 8);
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

/* ---- files over TCP ---- */

#define FILE_PIECE (256u << 10) /* stays in the second-level cache from recv to write */
#define SLEEP_FROM \
    (64u \
     << 10) /* a process that waits for this much is woken sooner than it finds out by looking */

/* A file test has no cores of its own, so that a process that waits for a few bytes yields, and one that waits
 * for many sleeps until all have come: receiving them in small parts halves the rate. */
static bool file_move(int fd, unsigned char *data, size_t len, bool send_it)
{
    if (len < SLEEP_FROM)
        return tcp_move_or(true, fd, data, len, send_it);

    while (len > 0) {
        ssize_t n = send_it ? send(fd, data, len, MSG_NOSIGNAL) : recv(fd, data, len, MSG_WAITALL);

        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }

    return true;
}

/* One call of `bytes` at the child: pieces from the connection to the file or back. */
static bool serve_call(int fd, int file, unsigned char *piece, size_t bytes, bool reading)
{
    bool ok = true;

    for (size_t left = bytes; left > 0 && ok;) {
        size_t len = left < FILE_PIECE ? left : FILE_PIECE;

        if (reading)
            ok = read(file, piece, len) == (ssize_t)len && file_move(fd, piece, len, true);
        else
            ok = file_move(fd, piece, len, false) && write(file, piece, len) == (ssize_t)len;

        left -= len;
    }

    return ok;
}

/* The child: each call begins with a byte if it reads, and ends with one if it writes. */
static bool serve_file(int fd, int file, unsigned char *piece, size_t bytes, size_t total,
                       bool reading)
{
    for (size_t done = 0; done < total; done += bytes) {
        unsigned char byte = 0;

        if (reading && !file_move(fd, &byte, 1, false))
            return false;
        if (!serve_call(fd, file, piece, bytes, reading))
            return false;
        if (!reading && !file_move(fd, &byte, 1, true))
            return false;
    }

    return true;
}

static bool ask_for_calls(int fd, unsigned char *data, size_t bytes, size_t total, bool reading)
{
    for (size_t done = 0; done < total; done += bytes) {
        unsigned char byte = 0;

        if (reading && !file_move(fd, &byte, 1, true))
            return false;
        if (!file_move(fd, data, bytes, !reading))
            return false;
        if (!reading && !file_move(fd, &byte, 1, false))
            return false;
    }

    return true;
}

/* Makes both ends of a connection over loopback. */
static bool tcp_pair(int ends[2])
{
    struct sockaddr_in addr;
    int listener = listen_on_loopback(&addr);

    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[1] = -1;
    if (listener >= 0 && ends[0] >= 0 &&
        connect(ends[0], (struct sockaddr *)&addr, sizeof addr) == 0)
        ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (listener >= 0)
        close(listener);

    return ends[1] >= 0 && tcp_ready(ends[0]) && tcp_ready(ends[1]);
}

double perf_tcp_file(struct perf_run *run, const char *path, size_t bytes, size_t total,
                     bool reading)
{
    int ends[2];
    int file = open(path, (reading ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    bool ok = tcp_pair(ends) && file >= 0;
    pid_t child = ok ? fork() : -1;

    if (child == 0) {
        close(ends[0]);
        _exit(serve_file(ends[1], file, run->scratch, bytes, total, reading) ? 0 : 1);
    }

    uint64_t start = amph_now_ns();

    ok = child > 0 && ask_for_calls(ends[0], run->buffer, bytes, total, reading);

    uint64_t end = amph_now_ns();

    if (!ok)
        perf_no_value(run, "no TCP connection to a child that uses %s: %s", path, strerror(errno));

    for (unsigned i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);

    if (file >= 0)
        close(file);
    if (child > 0)
        waitpid(child, NULL, 0);

    return ok ? (double)total * 1e3 / (double)(end - start) : NAN;
}

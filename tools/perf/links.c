/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the machine: processes that send short messages to each other over sockets of loopback and
 * yield their cores until one has come, in a ring or all through the first of them.
 *
 * Layer: tools.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "tools/perf/perf.h"

#define GIVE_UP_NS (10 * AMPH_NS_PER_S)
enum {
    MESSAGE_BYTES = 64,
    LOOKS_BETWEEN_CLOCKS = 100000
};

/* The sockets of a process; -1: none. */
struct links {
    bool datagrams;
    int own;                 /* receives all datagrams, or connections */
    int in[PERF_MAX_PROCS];  /* from each process */
    int out[PERF_MAX_PROCS]; /* to each process */
    unsigned looks;          /* for a message, before each one is sent */
};

/* count rounds.  False: a message was lost, or a connection broke. */
typedef bool (*link_rounds)(struct perf_run *run, struct links *l, uint64_t count);

/* ---- sockets ---- */

static int new_socket(const struct links *l)
{
    return socket(AF_INET, (l->datagrams ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
}

static struct sockaddr_in loopback(uint64_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Makes the socket at which others reach this process.  Returns its port; 0: there is none. */
static uint64_t open_own(struct links *l, unsigned procs)
{
    const struct timeval limit = { 20, 0 };
    struct sockaddr_in addr = loopback(0);
    socklen_t len = sizeof addr;

    l->own = new_socket(l);
    if (l->own < 0 || setsockopt(l->own, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        bind(l->own, (struct sockaddr *)&addr, sizeof addr) != 0 ||
        (!l->datagrams && listen(l->own, (int)procs) != 0) ||
        getsockname(l->own, (struct sockaddr *)&addr, &len) != 0)
        return 0;

    return ntohs(addr.sin_port);
}

static bool send_at_once(const struct links *l, int fd)
{
    int one = 1;

    return fd >= 0 &&
           (l->datagrams || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
}

static bool connect_to(struct perf_run *run, struct links *l, unsigned peer)
{
    const struct sockaddr_in addr = loopback(run->shared->own[peer].word);

    l->out[peer] = new_socket(l);
    return send_at_once(l, l->out[peer]) &&
           connect(l->out[peer], (const struct sockaddr *)&addr, sizeof addr) == 0;
}

/* A connection of whichever process comes next counts as that of `peer`. */
static bool accept_from(struct links *l, unsigned peer)
{
    l->in[peer] = l->datagrams ? l->own : accept4(l->own, NULL, NULL, SOCK_CLOEXEC);
    return send_at_once(l, l->in[peer]);
}

static void links_close(struct links *l)
{
    for (unsigned i = 0; i < PERF_MAX_PROCS; i++) {
        if (l->out[i] >= 0 && l->out[i] != l->in[i])
            close(l->out[i]);
        if (l->in[i] >= 0 && l->in[i] != l->own)
            close(l->in[i]);
    }

    if (l->own >= 0)
        close(l->own);

    free(l);
}

static bool open_ring(struct perf_run *run, struct links *l)
{
    return connect_to(run, l, (run->rank + 1) % run->procs) &&
           accept_from(l, (run->rank + run->procs - 1) % run->procs);
}

/* The answers to a connection come back over it. */
static bool open_star(struct perf_run *run, struct links *l)
{
    if (run->rank != 0) {
        bool ok = connect_to(run, l, 0);

        l->in[0] = l->datagrams ? l->own : l->out[0];
        return ok;
    }

    for (unsigned i = 1; i < run->procs; i++) {
        if (!accept_from(l, i))
            return false;

        if (!l->datagrams)
            l->out[i] = l->in[i];
        else if (!connect_to(run, l, i))
            return false;
    }

    return true;
}

/* ---- messages ---- */

static bool put_message(int fd)
{
    static const unsigned char message[MESSAGE_BYTES];

    return send(fd, message, sizeof message, MSG_NOSIGNAL) == sizeof message;
}

static bool take_message(int fd)
{
    unsigned char message[MESSAGE_BYTES];
    uint64_t start_ns = 0;
    ssize_t n;

    for (unsigned i = 1; (n = recv(fd, message, sizeof message, MSG_DONTWAIT)) < 0; i++) {
        if (errno != EAGAIN && errno != EINTR)
            return false;

        sched_yield();
        if (i % LOOKS_BETWEEN_CLOCKS == 0) {
            start_ns = start_ns ? start_ns : amph_now_ns();
            if (amph_now_ns() - start_ns > GIVE_UP_NS)
                return false;
        }
    }

    return n == sizeof message;
}

/* As a program that does something else between its messages. */
static void look_for_message(int fd)
{
    unsigned char byte;

    (void)!recv(fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_PEEK);
}

static bool ring_rounds(struct perf_run *run, struct links *l, uint64_t count)
{
    const int in = l->in[(run->rank + run->procs - 1) % run->procs];
    const int out = l->out[(run->rank + 1) % run->procs];
    bool ok = true;

    for (uint64_t i = 0; i < count && ok; i++) {
        for (unsigned look = 0; look < l->looks; look++)
            look_for_message(in);

        ok = put_message(out) && take_message(in);
    }

    return ok;
}

static bool star_rounds(struct perf_run *run, struct links *l, uint64_t count)
{
    bool ok = true;

    for (uint64_t i = 0; i < count && ok; i++) {
        if (run->rank != 0) {
            ok = put_message(l->out[0]) && take_message(l->in[0]);
            continue;
        }

        for (unsigned k = 1; k < run->procs && ok; k++)
            ok = take_message(l->in[k]);

        for (unsigned k = 1; k < run->procs && ok; k++)
            ok = put_message(l->out[k]);
    }

    return ok;
}

/* ---- samples ---- */

static struct links *links_open(struct perf_run *run, bool datagrams,
                                bool (*open)(struct perf_run *run, struct links *l), bool *ok_p)
{
    struct links *l = malloc(sizeof *l);

    if (!l)
        abort();

    l->datagrams = datagrams;
    for (unsigned i = 0; i < PERF_MAX_PROCS; i++)
        l->in[i] = l->out[i] = -1;

    run->shared->own[run->rank].word = open_own(l, run->procs);
    perf_sync(run);
    *ok_p = open(run, l);
    perf_sync(run);

    return l;
}

static double sample(struct perf_run *run, struct links *l, bool ok, link_rounds of)
{
    const unsigned first = 10;
    uint64_t start_ns = amph_now_ns();

    ok = ok && of(run, l, first);

    uint64_t count = perf_agree_rounds(run, (double)(amph_now_ns() - start_ns) / first / 1e3);

    start_ns = amph_now_ns();
    ok = ok && of(run, l, count);

    double us = (double)(amph_now_ns() - start_ns) / (double)count / 1e3;

    if (!ok)
        perf_no_value(run, "messages over sockets of loopback failed: %s", strerror(errno));

    perf_sync(run);
    links_close(l);
    return ok ? us : NAN;
}

static double ring(struct perf_run *run, bool datagrams, unsigned looks)
{
    bool ok;
    struct links *l = links_open(run, datagrams, open_ring, &ok);

    l->looks = looks;
    return sample(run, l, ok, ring_rounds);
}

/* Two processes need no centre. */
static double all(struct perf_run *run, bool datagrams)
{
    bool ok;

    if (run->procs == 2)
        return ring(run, datagrams, 0);

    struct links *l = links_open(run, datagrams, open_star, &ok);

    return sample(run, l, ok, star_rounds);
}

double perf_tcp_ring(struct perf_run *run, size_t bytes)
{
    return ring(run, false, 1);
}

double perf_tcp_ring_10(struct perf_run *run, size_t bytes)
{
    return ring(run, false, 10);
}

double perf_udp_ring(struct perf_run *run, size_t bytes)
{
    return ring(run, true, 1);
}

double perf_udp_ring_10(struct perf_run *run, size_t bytes)
{
    return ring(run, true, 10);
}

double perf_tcp_all(struct perf_run *run, size_t bytes)
{
    return all(run, false);
}

double perf_udp_all(struct perf_run *run, size_t bytes)
{
    return all(run, true);
}

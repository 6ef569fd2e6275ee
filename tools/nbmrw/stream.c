/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain TCP streams: what the links between hosts carry without file calls.
 *
 * `nbmrw --sink PORT` runs on a server's host.  Each connection to it carries any number of orders:
 * a direction and a number of bytes.  The sink receives them and answers by one byte, or sends
 * them.  A sample over W servers moves W equal shares at once, by a thread and a connection each;
 * connections stay open from sample to sample, as those of the file client do.
 *
 * Layer: tools.  Thread rule: the caller's thread, and one for each connection.
 */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"
#include "tools/nbmrw/state.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PIECE = 1 << 20
};

/* What a connection carries next; both ends are nbmrw on machines of any byte order. */
struct order {
    uint8_t reads;
    uint8_t bytes[8]; /* the lowest first */
};

bool nbmrw_stream_move(int fd, char *buf, uint64_t total, size_t piece, bool sends)
{
    for (uint64_t done = 0; done < total;) {
        size_t want = total - done < piece ? (size_t)(total - done) : piece;
        ssize_t n = sends ? send(fd, buf, want, MSG_NOSIGNAL) : recv(fd, buf, want, 0);

        if (n < 0 && errno == EINTR)
            continue;

        if (n <= 0)
            return false;

        done += (uint64_t)n;
    }

    return true;
}

static uint64_t bytes_of(const struct order *order)
{
    uint64_t bytes = 0;

    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | order->bytes[i];

    return bytes;
}

static struct order make_order(bool reads, uint64_t bytes)
{
    struct order order = { .reads = reads };

    for (int i = 0; i < 8; i++)
        order.bytes[i] = (uint8_t)(bytes >> 8 * i);

    return order;
}

/* ---- the sink ---- */

static void *serve(void *arg)
{
    int fd = *(int *)arg;
    struct order order;
    char done = 1;
    char *buf = calloc(1, PIECE);

    free(arg);
    while (buf && nbmrw_stream_move(fd, (char *)&order, sizeof order, sizeof order, false)) {
        if (!nbmrw_stream_move(fd, buf, bytes_of(&order), PIECE, order.reads))
            break;

        if (!order.reads && !nbmrw_stream_move(fd, &done, 1, 1, true))
            break;
    }

    free(buf);
    close(fd);
    return NULL;
}

/* Opens a socket that listens on all addresses of this host, or returns -1 with errno. */
static int listen_on(unsigned port)
{
    struct sockaddr_in6 at = { .sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)port),
                               .sin6_addr = in6addr_any };
    struct sockaddr_in at4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int one = 1;
    int none = 0;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none) == 0 &&
        bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0)
        return fd;

    /* a host without IPv6 */
    if (fd >= 0)
        close(fd);

    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, (struct sockaddr *)&at4, sizeof at4) == 0 && listen(fd, 64) == 0)
        return fd;

    int error = errno;

    if (fd >= 0)
        close(fd);

    errno = error;
    return -1;
}

int nbmrw_sink(unsigned port)
{
    int listener = listen_on(port);

    if (listener < 0) {
        fprintf(stderr, "nbmrw: port %u cannot be opened: %s; choose another by --sink\n", port,
                strerror(errno));
        return 1;
    }

    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        int one = 1;
        int *arg = malloc(sizeof *arg);
        pthread_t thread;

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) {
            free(arg);
            continue;
        }

        if (fd >= 0)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

        if (arg)
            *arg = fd;

        if (fd < 0 || !arg || pthread_create(&thread, NULL, serve, arg) != 0) {
            fprintf(stderr, "nbmrw: a connection to port %u failed: %s\n", port, strerror(errno));
            return 1;
        }

        pthread_detach(thread);
    }
}

/* ---- the client ---- */

/* Connects to HOST:PORT or returns -1 after a message. */
static int connect_to(const char *where, size_t len)
{
    char host[256];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int fd = -1;
    int one = 1;

    snprintf(host, sizeof host, "%.*s", (int)len, where);

    char *port = strrchr(host, ':');

    if (port)
        *port++ = 0;

    int code = port ? getaddrinfo(host, port, &hints, &found) : EAI_NONAME;

    if (code != 0) {
        fprintf(stderr, "nbmrw: --streams: %.*s is no HOST:PORT: %s\n", (int)len, where,
                port ? gai_strerror(code) : "there is no port");
        return -1;
    }

    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        fprintf(stderr, "nbmrw: --streams: %.*s: %s; start nbmrw --sink %s there\n", (int)len,
                where, strerror(errno), port);
        close(fd);
        fd = -1;
    }

    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

    freeaddrinfo(found);
    return fd;
}

/* Connects to the first `count` addresses of --streams that have no connection yet. */
static bool connect_first(const char *addresses, unsigned count)
{
    const char *at = addresses;

    for (unsigned i = 0; i < count; i++) {
        size_t len = strcspn(at, ",");

        if (i == nbmrw_state.nstreams) {
            nbmrw_state.stream[i] = connect_to(at, len);
            if (nbmrw_state.stream[i] < 0)
                return false;

            nbmrw_state.nstreams++;
        }

        at += len + (at[len] == ',');
    }

    return true;
}

struct share {
    int fd;
    bool reads, started, ok;
    uint64_t bytes;
    pthread_t thread;
};

static void *move_share(void *arg)
{
    struct share *share = arg;
    struct order order = make_order(share->reads, share->bytes);
    char done;
    char *buf = calloc(1, PIECE);

    share->ok = buf &&
                nbmrw_stream_move(share->fd, (char *)&order, sizeof order, sizeof order, true) &&
                nbmrw_stream_move(share->fd, buf, share->bytes, PIECE, !share->reads) &&
                (share->reads || nbmrw_stream_move(share->fd, &done, 1, 1, false));
    free(buf);
    return NULL;
}

unsigned nbmrw_streams(const char *addresses)
{
    unsigned count = addresses && *addresses;

    for (const char *at = addresses; at && *at; at++)
        count += *at == ',';

    return count;
}

bool nbmrw_sample_streams(const struct options *o, const struct series *s, double *value_p)
{
    struct share share[NBMRW_STREAMS_MAX];
    bool ok = connect_first(o->streams, s->width);

    if (!ok)
        return false;

    double start = nbmrw_now();

    for (unsigned i = 0; i < s->width; i++) {
        uint64_t from = s->file_bytes * i / s->width;
        uint64_t to = s->file_bytes * (i + 1) / s->width;

        share[i] = (struct share){ .fd = nbmrw_state.stream[i],
                                   .reads = s->what == READ,
                                   .bytes = to - from };
        share[i].started = pthread_create(&share[i].thread, NULL, move_share, &share[i]) == 0;
    }

    for (unsigned i = 0; i < s->width; i++) {
        if (share[i].started)
            pthread_join(share[i].thread, NULL);

        ok &= share[i].ok;
    }

    *value_p = (double)s->file_bytes / (nbmrw_now() - start);
    if (!ok)
        fprintf(stderr, "nbmrw: --streams: a connection to %s broke\n", o->streams);

    return ok;
}

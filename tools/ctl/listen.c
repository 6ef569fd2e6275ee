/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl metrics -listen: an HTTP server for the metrics, by libmicrohttpd.  It listens on a
 * Unix socket that only its user may open, or on the loopback interface, where every user of the
 * host may read.  It asks the I/O servers for each request.
 *
 * Layer: tools.  Thread rule: requests are answered in libmicrohttpd's one thread, which alone uses
 * the set; the main thread waits for a signal.
 */
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/ctl/metrics.h"

#ifdef AMPH_HAVE_MICROHTTPD

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define IDLE_S 10 /* a connection that is silent for longer is closed */
#define CONNECTIONS_MAX 16

/* ---- sockets ---- */

/* Returns whether the socket file was left by a process that has ended. */
static bool is_left(const struct sockaddr_un *sun)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool left = fd >= 0 && connect(fd, (const struct sockaddr *)sun, sizeof *sun) != 0 &&
                errno == ECONNREFUSED;

    if (fd >= 0)
        close(fd);

    return left;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    struct stat st;

    strcpy(sun.sun_path, path); /* its length was checked by ctl_metrics_can_listen */

    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && is_left(&sun))
        unlink(path);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    mode_t mask = umask(0177); /* no other user may connect, from the first moment on */
    int bound = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&sun, sizeof sun);
    int err = errno;

    umask(mask);
    if (bound == 0 && listen(fd, CONNECTIONS_MAX) == 0)
        return fd;

    ctl_fail("cannot listen on %s: %s", path, strerror(bound ? err : errno));
    if (fd >= 0)
        close(fd);

    return -1;
}

static bool is_path(const char *where)
{
    return strchr(where, '/') != NULL;
}

/* The port, or 0: this is none. */
static uint16_t port_of(const char *text)
{
    char *end;
    long port = strtol(text, &end, 10);

    return (uint16_t)(!*end && port >= 1 && port <= 65535 ? port : 0);
}

int ctl_metrics_can_listen(const char *where)
{
    const size_t path_max = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;

    if (is_path(where) && strlen(where) <= path_max)
        return 0;
    if (!is_path(where) && port_of(where))
        return 0;

    if (is_path(where))
        ctl_fail("%s is too long for a socket's name (at most %zu bytes)", where, path_max);
    else
        ctl_fail("-listen takes a socket's path (with a slash) or a port from 1 to 65535, not %s",
                 where);

    return CTL_WRONG;
}

static int listen_port(uint16_t port)
{
    int one = 1;
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&in, sizeof in) == 0 &&
        listen(fd, CONNECTIONS_MAX) == 0)
        return fd;

    ctl_fail("cannot listen on port %u of 127.0.0.1: %s", port, strerror(errno));
    if (fd >= 0)
        close(fd);

    return -1;
}

/* ---- requests ---- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type, char *text,
                              size_t len, enum MHD_ResponseMemoryMode memory)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(len, text, memory);

    if (!r)
        return MHD_NO;

    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);

    enum MHD_Result result = MHD_queue_response(c, code, r);

    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result answer_sentence(struct MHD_Connection *c, unsigned code, char *text)
{
    return answer(c, code, "text/plain; charset=utf-8", text, strlen(text), MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **state)
{
    char *text = NULL;
    size_t len = 0;

    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_sentence(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");

    if (strcmp(url, "/metrics") != 0)
        return answer_sentence(c, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n");

    FILE *out = open_memstream(&text, &len);

    if (out)
        ctl_metrics_write(arg, out);

    if (!out || fclose(out) != 0) {
        free(text);
        return answer_sentence(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory for the metrics\n");
    }

    return answer(c, MHD_HTTP_OK, CTL_METRICS_TYPE, text, len, MHD_RESPMEM_MUST_FREE);
}

int ctl_metrics_listen(struct ctl_set *set, const char *where)
{
    sigset_t ends;
    int sig;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* before the thread is created, which inherits the mask */
    signal(SIGPIPE, SIG_IGN);

    int fd = is_path(where) ? listen_unix(where) : listen_port(port_of(where));

    if (fd < 0)
        return 1;

    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, on_request, set,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_END);

    if (daemon) {
        sigwait(&ends, &sig);
        MHD_stop_daemon(daemon); /* closes the socket */
    } else {
        ctl_fail("the HTTP server (libmicrohttpd) cannot start: %s", strerror(errno));
        close(fd);
    }

    if (is_path(where))
        unlink(where);

    return daemon ? 0 : 1;
}

#else

int ctl_metrics_can_listen(const char *where)
{
    (void)where;
    return ctl_fail("this iofwd-ctl was built without libmicrohttpd (libmicrohttpd-dev); leave "
                    "-listen out, and the metrics are printed once");
}

int ctl_metrics_listen(struct ctl_set *set, const char *where)
{
    (void)set;
    return ctl_metrics_can_listen(where);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock of a recorded client's host: measured against that of the server which gives it its number, and
 * written to a file beside the records (iofwd/trace/format.h).  So hosts have one clock also if another
 * launcher has started the processes; amphora-run measures the clocks of its hosts itself.
 *
 * Layer: iofwd (client).  Thread rule: the thread that opens or closes the client.
 *
 * A file belongs to a host and a reference, and all clients of the host add to it, at most one in ten
 * seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/host_clock.h"
#include "base/log.h"
#include "base/settings/env.h"
#include "iofwd/client/internal.h"
#include "iofwd/trace/format.h"
#include "iofwd/wire/watch.h"

#define FRESH_S 10                        /* a file of that age needs no other measurement */
#define CONNECT_NS (500 * AMPH_NS_PER_MS) /* for a server to take the connection */
#define ENOUGH_NS (3 * AMPH_NS_PER_MS)    /* after that time no further question is asked */

enum {
    QUESTIONS = 8
};

/* What the quickest answer says. */
struct measured {
    uint64_t reference; /* the number of the server's clock */
    uint64_t server_ns, real_ns;
    uint64_t host_ns, error_ns;
    int64_t offset_ns;
};

static void read_answer(const struct amph_fwd_frame_in *in, struct measured *m)
{
    struct amph_fwd_item *item = calloc(1, sizeof *item);
    struct amph_rd r;

    *m = (struct measured){ 0 };
    if (!item || in->type != FWD_FRAME_ANSWER || in->len < FWD_WATCH_QUERY_BYTES) {
        free(item);
        return;
    }

    amph_rd_init(&r, in->body + FWD_WATCH_QUERY_BYTES, in->len - FWD_WATCH_QUERY_BYTES);
    while (amph_fwd_watch_next(&r, item)) {
        if (strcmp(item->name, "clock") == 0)
            m->reference = item->value;
        else if (strcmp(item->name, "monotonic_ns") == 0)
            m->server_ns = item->value;
        else if (strcmp(item->name, "real_ns") == 0)
            m->real_ns = item->value;
    }

    free(item);
}

/* One question.  false: there was no answer. */
static bool ask(int fd, uint8_t *buf, struct measured *m)
{
    uint8_t body[FWD_WATCH_QUERY_BYTES] = { FWD_WATCH_CLOCK };
    struct amph_fwd_frame_in in;
    size_t n = amph_fwd_frame_build(buf, FWD_FRAME_QUERY, body, sizeof body);
    uint64_t asked_ns = amph_now_ns();

    if (amph_fwd_control_send(fd, buf, n) != AMPH_OK ||
        amph_fwd_control_receive(fd, buf, &in) != AMPH_OK)
        return false;

    uint64_t took_ns = amph_now_ns() - asked_ns;

    read_answer(&in, m);
    m->host_ns = asked_ns + took_ns / 2;
    m->error_ns = took_ns / 2 + 1;
    m->offset_ns = (int64_t)(m->server_ns - m->host_ns);
    return m->reference && m->server_ns && m->real_ns;
}

/* On a connection that carries queries. */
static bool measure(int fd, uint8_t *buf, uint64_t own, struct measured *best)
{
    uint64_t end_ns = amph_now_ns() + ENOUGH_NS;
    struct measured m;

    *best = (struct measured){ .error_ns = UINT64_MAX };
    for (int i = 0; i < QUESTIONS && (i == 0 || amph_now_ns() < end_ns); i++) {
        if (!ask(fd, buf, &m))
            return false;

        if (m.error_ns < best->error_ns)
            *best = m;
    }

    if (best->reference == own) { /* the same clock */
        best->offset_ns = 0;
        best->error_ns = 0;
    }

    return true;
}

/* ---- the file ---- */

/* Puts the folder's file of this clock into path.  false: none is written, because the folder has
 * a fresh one. */
static bool is_wanted(const char *dir, uint64_t own, char path[PATH_MAX])
{
    struct stat st;
    struct timespec now;
    int n = snprintf(path, PATH_MAX, "%s/host-%016" PRIx64 AMPH_TRACE_CLOCKS_SUFFIX, dir, own);

    clock_gettime(CLOCK_REALTIME, &now);
    return n < PATH_MAX && (stat(path, &st) != 0 || now.tv_sec - st.st_mtim.tv_sec >= FRESH_S);
}

/* Makes the file with its first line and a measurement: whole, or not at all. */
static bool make(const char *path, const char *text, int len)
{
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    int fd = n < PATH_MAX ? open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;

    if (fd < 0)
        return false;

    bool ok = write(fd, text, (size_t)len) == len;

    close(fd);
    ok = ok && link(temporary, path) == 0;
    unlink(temporary);
    return ok;
}

/* Does the file begin with this reference?  Its lines mean nothing for another one. */
static bool is_of(int fd, uint64_t reference)
{
    char line[128] = "";
    uint64_t job = 0;

    return pread(fd, line, sizeof line - 1, 0) > 0 &&
           sscanf(line, AMPH_TRACE_CLOCKS " %" SCNu64, &job) == 1 && job == reference;
}

static void write_down(const char *path, uint64_t own, const struct measured *m)
{
    char text[256];
    int head = snprintf(text, sizeof text,
                        AMPH_TRACE_CLOCKS " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", m->reference,
                        m->server_ns, m->real_ns);
    int len = head + snprintf(text + head, sizeof text - (size_t)head,
                              "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu64 "\n", own, m->host_ns,
                              m->offset_ns, m->error_ns);
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT && make(path, text, len))
        return;
    if (fd < 0)
        fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);

    bool ok = fd >= 0 && (!is_of(fd, m->reference) ||
                          write(fd, text + head, (size_t)(len - head)) == len - head);

    if (!ok)
        amph_info("IOFWD_TRACE_DIR: the clock of this host cannot be written to %s (%s); "
                  "iofwd-trace will "
                  "compare the real times of hosts",
                  path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* All clients begin with the first server, so that they have one reference. */
static int connect_first(struct amph_fwd_client *cl, uint8_t *buf)
{
    int fd = -1;

    cl->give_up_ns = amph_now_ns() + CONNECT_NS;
    for (uint32_t i = 0; buf && i < cl->nlinks && fd < 0; i++)
        if (atomic_load(&cl->link[i].state) != AMPH_CLIENT_LINK_DEAD)
            fd = amph_client_watch_server(cl, cl->link[i].server, buf);

    cl->give_up_ns = 0;
    return fd;
}

void amph_client_clock_measure(struct amph_fwd_client *cl)
{
    const char *dir = amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR);
    char path[PATH_MAX];
    uint64_t own = dir[0] && !amph_env_foreign(AMPH_PRIVATE_CLOCK) ? amph_host_clock() : 0;

    if (!own || !is_wanted(dir, own, path))
        return;

    uint8_t *buf = malloc(FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX);
    struct measured m;
    int fd = connect_first(cl, buf);

    if (fd >= 0 && measure(fd, buf, own, &m))
        write_down(path, own, &m);
    if (fd >= 0)
        close(fd);

    free(buf);
}

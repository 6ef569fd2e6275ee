/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket of a host other than the launcher's.  Processes connect to the agent as they
 * would to the launcher, and the agent forwards the bytes without interpreting them.  A process
 * authenticates itself to the launcher.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/settings/counters.h"
#include "boot/control.h"
#include "boot/frames.h"
#include "launcher/agent/internal.h"
#include "launcher/master/jobdir.h"

struct amph_agent_conn {
    struct amph_agent *agent;
    uint32_t number;
    int fd;
    struct amph_watch *watch;
    struct amph_bytes out; /* for the process */
    struct amph_agent_conn *next;
};

static void send_event(struct amph_agent_conn *c, uint8_t what, const void *bytes, size_t len)
{
    uint8_t body[5 + AMPH_AGENT_CHUNK_BYTES];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, c->number);
    amph_wr_u8(&w, what);
    amph_wr_bytes(&w, bytes, len);
    amph_agent_send(c->agent, AMPH_AGENT_CONN, body, amph_wr_len(&w));
}

static void drop(struct amph_agent_conn *c)
{
    struct amph_agent_conn **at = &c->agent->conns;

    while (*at != c)
        at = &(*at)->next;

    *at = c->next;
    amph_watch_del(c->watch);
    close(c->fd);
    amph_boot_bytes_free(&c->out);
    free(c);
}

/* Forwards all data that has arrived.  Returns false, after reporting it, if the connection has
 * ended. */
static bool carry(struct amph_agent_conn *c)
{
    uint8_t bytes[AMPH_AGENT_CHUNK_BYTES];
    ssize_t n;

    while ((n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            send_event(c, AMPH_CONN_BYTES, bytes, (size_t)n);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return true;

    send_event(c, AMPH_CONN_CLOSED, NULL, 0);
    return false;
}

/* Writes pending data to the process.  A process that is gone is noticed by reading. */
static void flush(struct amph_agent_conn *c)
{
    while (amph_boot_bytes_left(&c->out) > 0) {
        ssize_t n = send(c->fd, c->out.buf + c->out.at, amph_boot_bytes_left(&c->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;

        c->out.at += (size_t)n;
    }

    if (amph_boot_bytes_left(&c->out) == 0)
        c->out.at = c->out.len = 0;

    amph_watch_want(c->watch, EPOLLIN | (amph_boot_bytes_left(&c->out) ? EPOLLOUT : 0));
}

static void on_ready(void *arg, uint32_t events)
{
    struct amph_agent_conn *c = arg;

    if (events & EPOLLOUT)
        flush(c);

    if ((events & ~(uint32_t)EPOLLOUT) && !carry(c))
        drop(c);
}

static void take(struct amph_agent *a, int fd)
{
    struct amph_agent_conn *c = calloc(1, sizeof *c);

    if (!c || !(c->watch = amph_watch_add(&a->loop, fd, EPOLLIN, on_ready, c))) {
        free(c);
        close(fd);
        return;
    }

    c->agent = a;
    c->fd = fd;
    c->number = ++a->nconns;
    c->next = a->conns;
    a->conns = c;
    send_event(c, AMPH_CONN_OPENED, NULL, 0);
}

static void on_listen(void *arg, uint32_t events)
{
    struct amph_agent *a = arg;
    int fd;

    while ((fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (amph_boot_control_same_user(fd)) {
            take(a, fd);
        } else {
            amph_count(DROP_STRANGER);
            close(fd);
        }
    }
}

enum amph_status amph_agent_relay_open(struct amph_agent *a, const uint8_t *key, size_t key_len)
{
    struct amph_jobfile file;
    char path[4200];
    uint64_t number;

    if (!a->directory || key_len != sizeof file.key || a->listen_fd >= 0)
        return AMPH_ERR_PROTO;

    memcpy(file.key, key, sizeof file.key);
    amph_random(&number, sizeof number);
    snprintf(file.address, sizeof file.address, "unix:amphora-%016" PRIx64, number);
    snprintf(path, sizeof path, "%s/" AMPH_JOBDIR_FILE, a->directory);

    enum amph_status st = amph_launch_jobdir_create(a->directory);

    if (st == AMPH_OK)
        st = amph_boot_control_listen(file.address, &a->listen_fd);

    if (st == AMPH_OK)
        st = amph_boot_jobfile_write(path, &file);

    if (st == AMPH_OK && !amph_watch_add(&a->loop, a->listen_fd, EPOLLIN, on_listen, a))
        st = AMPH_ERR_SYS;

    return st;
}

void amph_agent_relay_drain(struct amph_agent *a)
{
    for (struct amph_agent_conn *c = a->conns, *next; c; c = next) {
        next = c->next;
        if (!carry(c))
            drop(c);
    }
}

static struct amph_agent_conn *find(struct amph_agent *a, uint32_t number)
{
    struct amph_agent_conn *c = a->conns;

    while (c && c->number != number)
        c = c->next;

    return c;
}

void amph_agent_relay_give(struct amph_agent *a, uint32_t number, const void *bytes, size_t len)
{
    struct amph_agent_conn *c = find(a, number);
    if (c && amph_boot_bytes_add(&c->out, bytes, len))
        flush(c);
}

void amph_agent_relay_take(struct amph_agent *a, struct amph_rd *r)
{
    uint32_t number = amph_rd_u32(r);
    uint8_t what = amph_rd_u8(r);
    struct amph_agent_conn *c = find(a, number);

    if (r->bad || !c)
        return;

    if (what == AMPH_CONN_BYTES && amph_boot_bytes_add(&c->out, r->at, amph_rd_left(r)))
        flush(c);
    else
        drop(c); /* the launcher has closed it; most of its earlier data is written */
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output, input and PMI lines of an agent's processes.
 *
 * The agent does not read output while AMPH_AGENT_WINDOW_BYTES are unacknowledged by the launcher.
 * So a slow reader slows the writers down, and the output does not fill memory.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/wire.h"
#include "boot/frames.h"
#include "launcher/agent/internal.h"

static void end_ready(void *arg, uint32_t events);

bool amph_agent_open_end(struct amph_agent_proc *p, int which, int fd)
{
    struct amph_agent_end *end = &p->end[which];

    end->proc = p;
    end->fd = fd;
    end->watch = amph_watch_add(&p->agent->loop, fd, which == AMPH_END_IN ? 0 : EPOLLIN, end_ready,
                                end);

    return end->watch != NULL;
}

void amph_agent_close_end(struct amph_agent_end *end)
{
    if (end->fd < 0)
        return;

    amph_watch_del(end->watch);
    end->watch = NULL;
    close(end->fd);
    end->fd = -1;
}

static int which_end(const struct amph_agent_end *end)
{
    return (int)(end - end->proc->end);
}

/* ---- output and PMI lines ---- */

static void send_chunk(struct amph_agent_proc *p, int which, const uint8_t *bytes, size_t len)
{
    uint8_t body[5 + AMPH_AGENT_CHUNK_BYTES];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, p->rank);

    if (which != AMPH_END_PMI) {
        amph_wr_u8(&w, which == AMPH_END_OUT ? 1 : 2);
        p->agent->unacknowledged_bytes += len;
    }

    amph_wr_bytes(&w, bytes, len);
    amph_agent_send(p->agent, which == AMPH_END_PMI ? AMPH_AGENT_PMI : AMPH_AGENT_OUTPUT, body,
                    amph_wr_len(&w));
}

/* Reads one chunk.  Returns false if no more data is available now. */
static bool read_end(struct amph_agent_end *end)
{
    uint8_t bytes[AMPH_AGENT_CHUNK_BYTES];
    ssize_t n = read(end->fd, bytes, sizeof bytes);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;

    if (n <= 0) {
        amph_agent_close_end(end);
        return false;
    }

    send_chunk(end->proc, which_end(end), bytes, (size_t)n);
    return true;
}

static void watch_output(struct amph_agent *a, bool on)
{
    for (struct amph_agent_proc *p = a->procs; p; p = p->next)
        for (int which = AMPH_END_OUT; which <= AMPH_END_ERR; which++)
            amph_watch_want(p->end[which].watch, on ? EPOLLIN : 0);
}

void amph_agent_output_taken(struct amph_agent *a, size_t len_bytes)
{
    bool was_full = a->unacknowledged_bytes >= AMPH_AGENT_WINDOW_BYTES;

    a->unacknowledged_bytes -= len_bytes < a->unacknowledged_bytes ? len_bytes
                                                                   : a->unacknowledged_bytes;
    if (was_full && a->unacknowledged_bytes < AMPH_AGENT_WINDOW_BYTES)
        watch_output(a, true);
}

void amph_agent_drain(struct amph_agent_proc *p)
{
    for (int which = AMPH_END_OUT; which <= AMPH_END_PMI; which++)
        while (p->end[which].fd >= 0 && read_end(&p->end[which]))
            ;

    amph_agent_close_end(&p->end[AMPH_END_PMI]);
    amph_agent_close_end(&p->end[AMPH_END_IN]);
}

void amph_agent_pmi(struct amph_agent_proc *p, const void *bytes, size_t len_bytes)
{
    struct amph_agent_end *end = &p->end[AMPH_END_PMI];
    const uint8_t *at = bytes;

    /* PMI replies are short, and a client sends one request at a time.  If the socket is full, the
     * client is broken, and its socket is closed. */
    while (end->fd >= 0 && len_bytes > 0) {
        ssize_t n = write(end->fd, at, len_bytes);

        if (n < 0 && errno == EINTR)
            continue;

        if (n <= 0) {
            amph_agent_close_end(end);
            return;
        }

        at += n;
        len_bytes -= (size_t)n;
    }
}

/* ---- input ---- */

static void report_input(struct amph_agent_proc *p, bool taken)
{
    uint8_t body[5];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, p->rank);
    amph_wr_u8(&w, taken);
    amph_agent_send(p->agent, AMPH_AGENT_INPUT_TAKEN, body, amph_wr_len(&w));
}

/* Writes pending input.  Acknowledges it when all is written, so that the launcher has at most one
 * chunk in flight. */
static void write_input(struct amph_agent_end *end)
{
    struct amph_bytes *b = &end->proc->input;

    while (amph_boot_bytes_left(b) > 0) {
        ssize_t n = write(end->fd, b->buf + b->at, amph_boot_bytes_left(b));

        if (n < 0 && errno == EINTR)
            continue;

        if (n < 0 && errno == EAGAIN) {
            amph_watch_want(end->watch, EPOLLOUT);
            return;
        }

        if (n <= 0) {
            amph_agent_close_end(end);
            report_input(end->proc, false);
            return;
        }

        b->at += (size_t)n;
    }

    b->at = b->len = 0;
    if (end->proc->input_ended) {
        amph_agent_close_end(end);
        return;
    }

    amph_watch_want(end->watch, 0);
    report_input(end->proc, true);
}

void amph_agent_input(struct amph_agent_proc *p, const void *bytes, size_t len_bytes)
{
    struct amph_agent_end *end = &p->end[AMPH_END_IN];

    if (end->fd < 0) {
        report_input(p, false);
    } else if (amph_boot_bytes_add(&p->input, bytes, len_bytes)) {
        p->input_ended = len_bytes == 0;
        write_input(end);
    } else {
        amph_error("there is no memory for the input of process %u", p->rank);
        amph_agent_finish(p->agent, 1);
    }
}

static void end_ready(void *arg, uint32_t events)
{
    struct amph_agent_end *end = arg;
    struct amph_agent *a = end->proc->agent;
    int which = which_end(end);

    if (which == AMPH_END_IN) {
        if (events & EPOLLERR) {
            amph_agent_close_end(end); /* the process has closed its standard input */
            report_input(end->proc, false);
        } else {
            write_input(end);
        }

        return;
    }

    if (which != AMPH_END_PMI && a->unacknowledged_bytes >= AMPH_AGENT_WINDOW_BYTES)
        watch_output(a, false);
    else
        read_end(end);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the output of the processes in whole lines, and reads standard input for process 0.
 *
 * The launcher's outputs are shared with the process that started it, so they must stay blocking.
 * Therefore output is written in pieces that a ready pipe accepts without blocking.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "launcher/master/launch.h"
#include "launcher/common/message.h"

enum {
    HELD_MAX_BYTES = 65536,
    QUEUE_MAX_BYTES = 1 << 20,
    FINISH_LIMIT_MS = 5000
};

/* ---- the launcher's own outputs ---- */

static void acknowledge(struct amph_launch *l)
{
    for (uint32_t i = 0; i < l->nagents; i++) {
        struct amph_lagent *agent = &l->agents[i];
        uint8_t body[4];
        struct amph_wr w;

        if (agent->unacknowledged_bytes == 0)
            continue;

        amph_wr_init(&w, body, sizeof body);
        amph_wr_u32(&w, (uint32_t)agent->unacknowledged_bytes);
        agent->unacknowledged_bytes = 0;
        amph_tree_report(agent, AMPH_AGENT_OUTPUT_TAKEN, body, sizeof body);
    }
}

static bool queues_full(const struct amph_launch *l)
{
    return amph_boot_bytes_left(&l->outlet[0].bytes) > QUEUE_MAX_BYTES ||
           amph_boot_bytes_left(&l->outlet[1].bytes) > QUEUE_MAX_BYTES;
}

/* The reader has gone: closes the outputs of the processes, so that they notice it as they would
 * without a launcher. */
static void outlet_close(struct amph_launch *l, struct amph_outlet *out)
{
    uint8_t stream = (uint8_t)(out - l->outlet + 1);

    out->closed = true;
    out->bytes.at = out->bytes.len = 0;
    amph_watch_del(out->watch);
    out->watch = NULL;
    for (uint32_t i = 0; i < l->nagents; i++)
        amph_tree_report(&l->agents[i], AMPH_AGENT_CLOSE_OUTPUT, &stream, 1);
}

/* Returns how many bytes to write: at most what a ready pipe accepts without blocking, and up to a
 * newline, so that a message of the launcher is never printed inside a line. */
static size_t piece(const struct amph_outlet *out)
{
    size_t left = amph_boot_bytes_left(&out->bytes);

    if (left <= PIPE_BUF)
        return left;

    const uint8_t *from = out->bytes.buf + out->bytes.at;
    const uint8_t *end = memrchr(from, '\n', PIPE_BUF);

    return end ? (size_t)(end - from) + 1 : PIPE_BUF;
}

static void outlet_write(struct amph_launch *l, struct amph_outlet *out)
{
    if (amph_boot_bytes_left(&out->bytes) > 0) {
        ssize_t n = write(out->fd, out->bytes.buf + out->bytes.at, piece(out));

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return;

        if (n < 0) {
            if (errno != EPIPE) {
                amph_say("cannot write standard %s: %m; the rest is lost",
                         out == &l->outlet[0] ? "output" : "error");
                l->output_lost = true;
            }

            outlet_close(l, out);
            return;
        }

        out->bytes.at += (size_t)n;
    }

    if (amph_boot_bytes_left(&out->bytes) == 0) {
        out->bytes.at = out->bytes.len = 0;
        amph_watch_want(out->watch, 0);
    }
}

static void on_outlet(struct amph_launch *l, struct amph_outlet *out, uint32_t events)
{
    if ((events & EPOLLERR) && amph_boot_bytes_left(&out->bytes) == 0)
        outlet_close(l, out);
    else
        outlet_write(l, out);

    if (!queues_full(l))
        acknowledge(l);
}

static void on_stdout(void *arg, uint32_t events)
{
    struct amph_launch *l = arg;
    on_outlet(l, &l->outlet[0], events);
}

static void on_stderr(void *arg, uint32_t events)
{
    struct amph_launch *l = arg;
    on_outlet(l, &l->outlet[1], events);
}

static void outlet_put(struct amph_launch *l, struct amph_outlet *out, const void *bytes,
                       size_t len)
{
    if (out->closed || len == 0)
        return;

    if (amph_boot_bytes_add(&out->bytes, bytes, len)) {
        amph_watch_want(out->watch, EPOLLOUT);
        return;
    }

    amph_say("there is no memory for standard %s of the job; the rest is lost",
             out == &l->outlet[0] ? "output" : "error");
    l->output_lost = true;
    outlet_close(l, out);
}

/* ---- lines ---- */

static void put_label(struct amph_lproc *p, struct amph_outlet *out)
{
    char label[24];
    if (p->launch->o->label)
        outlet_put(p->launch, out, label, (size_t)snprintf(label, sizeof label, "[%u] ", p->rank));
}

/* Writes the end of a line (or of a progress line: carriage return) together with the held part of
 * the line. */
static void put_line(struct amph_lproc *p, int stream, const uint8_t *bytes, size_t len, bool ends)
{
    struct amph_line *line = &p->line[stream - 1];
    struct amph_outlet *out = &p->launch->outlet[stream - 1];
    bool only_newline = amph_boot_bytes_left(&line->held) == 0 && len == 1 && bytes[0] == '\n';

    if (!line->inside && !(line->after_cr && only_newline))
        put_label(p, out);

    outlet_put(p->launch, out, line->held.buf + line->held.at, amph_boot_bytes_left(&line->held));
    line->held.at = line->held.len = 0;
    outlet_put(p->launch, out, bytes, len);
    line->inside = !ends;
    line->after_cr = ends && len && bytes[len - 1] == '\r';
}

/* Output of a job with a single process is forwarded unchanged, so that a prompt without a newline
 * appears. */
static bool passes_raw(const struct amph_lproc *p)
{
    return p->launch->o->ncompute == 1 && p->group == AMPH_COMPUTE && !p->launch->o->label;
}

void amph_launch_stdio_output(struct amph_lproc *p, int stream, const void *bytes, size_t len_bytes)
{
    struct amph_launch *l = p->launch;
    struct amph_line *line = &p->line[stream - 1];
    const uint8_t *at = bytes;
    const uint8_t *end = at + len_bytes;

    amph_launch_agent_of(p)->unacknowledged_bytes += len_bytes;
    while (at < end) {
        const uint8_t *stop = at;

        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;

        if (stop == end)
            break;

        if (*stop == '\r' && stop + 1 < end && stop[1] == '\n')
            stop++;

        put_line(p, stream, at, (size_t)(stop + 1 - at), true);
        at = stop + 1;
    }

    if (at < end && passes_raw(p))
        put_line(p, stream, at, (size_t)(end - at), false);
    else if (at < end && (amph_boot_bytes_left(&line->held) + (size_t)(end - at) > HELD_MAX_BYTES ||
                          !amph_boot_bytes_add(&line->held, at, (size_t)(end - at))))
        put_line(p, stream, at, (size_t)(end - at), false);

    if (!queues_full(l))
        acknowledge(l);
}

/* Writes incomplete last lines. */
static void flush_lines(struct amph_launch *l)
{
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        for (int stream = 1; stream <= 2; stream++)
            if (amph_boot_bytes_left(&l->procs[i].line[stream - 1].held) > 0)
                put_line(&l->procs[i], stream, (const uint8_t *)"\n", 1, true);
}

/* ---- input ---- */

static void send_input(struct amph_launch *l, const uint8_t *bytes, size_t len)
{
    uint8_t body[4 + AMPH_AGENT_CHUNK_BYTES];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, 0);
    amph_wr_bytes(&w, bytes, len);
    amph_tree_report(amph_launch_agent_of(&l->procs[0]), AMPH_AGENT_INPUT, body, amph_wr_len(&w));
}

void amph_launch_stdio_stop_input(struct amph_launch *l)
{
    amph_watch_del(l->input);
    l->input = NULL;
}

static void on_input(void *arg, uint32_t events)
{
    struct amph_launch *l = arg;
    uint8_t bytes[AMPH_AGENT_CHUNK_BYTES];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;

    /* an error (such as reading a terminal in the background) counts as end of input */
    send_input(l, bytes, n > 0 ? (size_t)n : 0);
    if (n <= 0)
        amph_launch_stdio_stop_input(l);
    else
        amph_watch_want(l->input, 0); /* until the process has read it */
}

void amph_launch_stdio_input_taken(struct amph_launch *l, bool taken)
{
    if (taken)
        amph_watch_want(l->input, EPOLLIN);
    else
        amph_launch_stdio_stop_input(l);
}

/* ---- start and end ---- */

enum amph_status amph_launch_stdio_start(struct amph_launch *l)
{
    void (*const ready[2])(void *arg, uint32_t events) = { on_stdout, on_stderr };
    for (int i = 0; i < 2; i++) {
        l->outlet[i].fd = STDOUT_FILENO + i;
        l->outlet[i].watch = amph_watch_add(&l->loop, STDOUT_FILENO + i, 0, ready[i], l);
        if (!l->outlet[i].watch) {
            amph_say("cannot forward standard output and standard error: %m");
            return AMPH_ERR_SYS;
        }
    }

    /* read when process 0 has been started */
    l->input = amph_watch_add(&l->loop, STDIN_FILENO, 0, on_input, l);
    if (l->input)
        return AMPH_OK;

    amph_say("cannot forward standard input: %m");
    return AMPH_ERR_SYS;
}

void amph_launch_stdio_finish(struct amph_launch *l)
{
    flush_lines(l);
    for (int i = 0; i < 2; i++) {
        struct amph_outlet *out = &l->outlet[i];
        struct pollfd p = { .fd = out->fd, .events = POLLOUT };

        /* After a failure, a reader that does not read must not block the launcher.  Otherwise the
         * launcher waits like any program. */
        while (!out->closed && amph_boot_bytes_left(&out->bytes) > 0) {
            int n = poll(&p, 1, l->code ? FINISH_LIMIT_MS : -1);

            if (n == 0 || (n < 0 && errno != EINTR))
                break;

            if (n > 0)
                outlet_write(l, out);
        }

        amph_boot_bytes_free(&out->bytes);
    }

    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        for (int stream = 0; stream < 2; stream++)
            amph_boot_bytes_free(&l->procs[i].line[stream].held);
}

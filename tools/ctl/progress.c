/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl progress: bytes, calls and rates of all servers together, one line each interval, and
 * one at their end.  amphora-run -progress starts it beside a job.
 *
 * Each server has two connections: one carries STATUS queries; the other carries one FINAL query,
 * which the server answers when it ends, so that the last line counts everything.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "iofwd/wire/watch.h"
#include "tools/ctl/progress.h"
#include "tools/ctl/sample.h"

static const char *const counted[] = { "server_bytes_written", "server_bytes_read", "server_calls",
                                       "server_errors" };
enum {
    WRITTEN,
    READ,
    CALLS,
    ERRORS,
    NCOUNTED
};

struct progress {
    struct ctl_set *set;        /* STATUS */
    struct ctl_set *ending;     /* FINAL */
    struct pollfd *poll;        /* one for each server: its connection of `ending` */
    uint64_t (*last)[NCOUNTED]; /* preceding counts of each server */
    bool *is_final;             /* the server has sent its final counts */
    uint64_t begin_ns, line_ns;
    double total[NCOUNTED]; /* total of the preceding line, or of the beginning */
    bool terminal;
};

static void take(struct progress *p, uint32_t server, const struct ctl_row *row)
{
    for (size_t k = 0; k < NCOUNTED; k++)
        p->last[server][k] = ctl_value_of(row, counted[k]);
}

static double total_of(const struct progress *p, size_t k)
{
    double total = 0;

    for (uint32_t i = 0; i < p->set->n; i++)
        total += (double)p->last[i][k];

    return total;
}

/* Prints a line.  On a terminal the next one replaces it. */
static void print_line(struct progress *p)
{
    uint64_t now = amph_now_ns();
    double seconds = (double)(now - p->line_ns) / AMPH_NS_PER_S;
    double total[NCOUNTED], rate[NCOUNTED];
    char w[16], wr[16], r[16], rr[16];

    for (size_t k = 0; k < NCOUNTED; k++) {
        total[k] = total_of(p, k);
        rate[k] = seconds > 0 ? (total[k] - p->total[k]) / seconds : 0;
        p->total[k] = total[k];
    }

    fprintf(stderr,
            "%sprogress: %.0f s: written %s (%s/s), read %s (%s/s), %.0f calls (%.0f/s), %.0f "
            "errors%s",
            p->terminal ? "\r" : "", (double)(now - p->begin_ns) / AMPH_NS_PER_S,
            ctl_bytes(total[WRITTEN], w), ctl_bytes(rate[WRITTEN], wr), ctl_bytes(total[READ], r),
            ctl_bytes(rate[READ], rr), total[CALLS], rate[CALLS], total[ERRORS],
            p->terminal ? "\033[K" : "\n");
    p->line_ns = now;
}

static void print_end(const struct progress *p)
{
    uint32_t lost = 0;
    char w[16], r[16];

    for (uint32_t i = 0; i < p->set->n; i++)
        lost += !p->is_final[i];

    fprintf(stderr, "%sprogress: %.1f s in all: written %s, read %s, %.0f calls, %.0f errors%s",
            p->terminal ? "\r" : "", (double)(amph_now_ns() - p->begin_ns) / AMPH_NS_PER_S,
            ctl_bytes(total_of(p, WRITTEN), w), ctl_bytes(total_of(p, READ), r), total_of(p, CALLS),
            total_of(p, ERRORS), p->terminal ? "\033[K" : "");
    if (lost)
        fprintf(stderr,
                " (at least: %" PRIu32 " of %" PRIu32
                " servers ended without saying what they had counted)",
                lost, p->set->n);

    fputc('\n', stderr);
}

/* Receives the final counts of servers that have sent them, and forgets servers that have died.
 * Returns how many servers are left. */
static uint32_t take_ends(struct progress *p)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < p->set->n; i++) {
        struct ctl_rows rows;

        if (p->poll[i].fd >= 0 && p->poll[i].revents) {
            p->is_final[i] = ctl_take_final(p->ending, i, &rows);
            if (p->is_final[i])
                take(p, i, &rows.row[0]);

            ctl_rows_free(&rows);
            p->poll[i].fd = -1;
        }

        left += p->poll[i].fd >= 0;
    }

    return left;
}

static void take_status(struct progress *p)
{
    for (uint32_t i = 0; i < p->set->n; i++) {
        struct ctl_rows rows;

        if (p->poll[i].fd < 0)
            continue;

        if (ctl_ask(p->set, i, FWD_WATCH_STATUS, "", &rows) && rows.n > 0)
            take(p, i, &rows.row[0]);

        ctl_rows_free(&rows);
    }
}

/* Asks every server for its last counts.  Returns how many it could ask. */
static uint32_t begin(struct progress *p)
{
    uint32_t n = p->set->n;
    uint32_t asked = 0;

    p->poll = calloc(n, sizeof *p->poll);
    p->last = calloc(n, sizeof *p->last);
    p->is_final = calloc(n, sizeof *p->is_final);
    if (!p->poll || !p->last || !p->is_final) {
        ctl_fail("there is no memory for %" PRIu32 " servers", n);
        return 0;
    }

    for (uint32_t i = 0; i < n; i++) {
        bool ok = ctl_ask_final(p->ending, i);

        p->poll[i] = (struct pollfd){ .fd = ok ? p->ending->server[i].fd : -1, .events = POLLIN };
        asked += ok;
        if (!ok)
            ctl_fail("server %" PRIu32 " cannot be reached: %s", i, p->ending->server[i].why);
    }

    return asked;
}

int ctl_progress(struct ctl_set *set, struct ctl_set *ending, double interval_s)
{
    struct progress p = { .set = set, .ending = ending, .terminal = isatty(STDERR_FILENO) };
    uint32_t left = begin(&p);
    bool reached = left > 0;

    /* what the servers had done before is in no rate */
    if (reached)
        take_status(&p);

    for (size_t k = 0; k < NCOUNTED && reached; k++)
        p.total[k] = total_of(&p, k);

    p.begin_ns = p.line_ns = amph_now_ns();

    while (left > 0) {
        uint64_t due_ns = p.line_ns + (uint64_t)(interval_s * AMPH_NS_PER_S);
        uint64_t now = amph_now_ns();
        int ms = now < due_ns ? (int)((due_ns - now) / AMPH_NS_PER_MS) + 1 : 0;
        int ready = poll(p.poll, p.set->n, ms);

        if (ready > 0)
            left = take_ends(&p);
        else if (ready == 0) {
            take_status(&p);
            print_line(&p);
        }
    }

    if (reached)
        print_end(&p);

    free(p.poll);
    free(p.last);
    free(p.is_final);
    return reached ? 0 : 1;
}

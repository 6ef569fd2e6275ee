/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-ctl: what I/O servers do while they run, and orders to them.
 *
 * It is a tool and no launcher: it starts no process, and needs only the address file and the control
 * connection (iofwd/wire/watch.h).
 *
 * Layer: tools.  Thread rule: one thread.
 *
 *   main.c          the command line, orders (drain, stop, reload, loglevel)
 *   servers.c       finds the servers of an address file, connects, asks
 *   show.c          answers as text and as JSON
 *   sample.c, .h    answers of all servers at one moment, rates between two of them
 *   view.c, .h      the table of top: columns, lines, order
 *   top.c, .h       top as text and JSON
 *   screen.c        top on a terminal (ncurses)
 *   metrics.c, .h   counters as OpenMetrics text
 *   listen.c        an HTTP server for them (libmicrohttpd)
 *   progress.c, .h  what all servers have done, a line each interval
 */
#ifndef AMPH_TOOLS_CTL_H
#define AMPH_TOOLS_CTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/visible.h"
#include "boot/boot.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/watch.h"

/* ---- answers ---- */

/* For a path as text for a terminal. */
#define CTL_TEXT_BYTES (AMPH_VISIBLE_WIDEST * 4096 + 8)

struct ctl_cell {
    enum amph_fwd_item_kind kind;
    char name[FWD_WATCH_NAME_MAX];
    uint64_t value;
    char *text;                       /* of TEXT; owned */
    struct amph_fwd_latency *latency; /* LATENCY; owned */
};

struct ctl_row {
    size_t n;
    struct ctl_cell *cell; /* owned */
};

/* The rows of an answer.  STATUS has one. */
struct ctl_rows {
    size_t n;
    struct ctl_row *row; /* owned */
};

void ctl_rows_free(struct ctl_rows *rows);

/* The cell of that name, or NULL. */
const struct ctl_cell *ctl_cell_of(const struct ctl_row *row, const char *name);

/* Its value; 0: the server did not send it. */
uint64_t ctl_value_of(const struct ctl_row *row, const char *name);
const char *ctl_text_of(const struct ctl_row *row, const char *name);

/* ---- servers ---- */

struct ctl_server {
    uint32_t rank; /* absolute */
    int fd;        /* connection, or -1 */
    char why[256]; /* why there is no connection, or why the last query was refused */
    bool refused;  /* the server itself has refused the last query */
    bool deaf;     /* it did not listen at the last attempt */
    bool same_host;
};

/* What is needed to read one answer. */
struct ctl_input {
    uint8_t frame[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    struct amph_fwd_item item;
};

struct ctl_set {
    const char *file; /* address file */
    struct amph_boot *boot;
    const struct amph_jobdesc *job;
    bool standing; /* they belong to no job */
    uint32_t n;
    struct ctl_server *server;
    struct ctl_input *input;
};

/* Reads the address file; connects to no server yet.  false: after a sentence. */
bool ctl_open(const char *file, struct ctl_set *set);
void ctl_close(struct ctl_set *set);

/* Asks server i.  false: server->why says the reason. */
bool ctl_ask(struct ctl_set *set, uint32_t i, enum amph_fwd_watch query, const char *text,
             struct ctl_rows *rows);

/* Asks server i for its last counts, which it sends when it ends.  Until then the connection must
 * carry nothing else; it is server[i].fd.  false: server->why. */
bool ctl_ask_final(struct ctl_set *set, uint32_t i);

/* Receives them when the connection is readable.  false: the server has ended without sending
 * them. */
bool ctl_take_final(struct ctl_set *set, uint32_t i, struct ctl_rows *rows);

/* Waits until server i has closed its connection.  false: not within the time. */
bool ctl_await_end(struct ctl_set *set, uint32_t i, uint64_t timeout_ns);

/* For a set none of whose servers listens, perhaps because all are about to be restarted: ends the process
 * of this host that supervises it, as SIGTERM does, and waits for its end.  false: a server listens, there
 * is no such process, this user may not end it, or it has not ended within the time. */
bool ctl_end_supervisor(const struct ctl_set *set, uint64_t timeout_ns);

/* ---- output ---- */

#define CTL_WRONG 2 /* exit code for a wrong command line */

int ctl_status(struct ctl_set *set, bool json, bool all);
int ctl_list(struct ctl_set *set, enum amph_fwd_watch list, bool json);

/* Writes a byte count as 4 or 5 characters ("12.3M"). */
const char *ctl_bytes(double bytes, char out[16]);
/* Writes a duration ("12.3us"). */
const char *ctl_time(double ns, char out[16]);
/* Writes text as a JSON string. */
void ctl_json_text(FILE *out, const char *text);

/* Prints a sentence on standard error and returns 1. */
int ctl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client keeps that executes a program: frames KEEP, and successors of control connections
 * (wire/handshake.h).
 *
 * Layer: iofwd.  Thread rule: progress thread.
 */
#ifndef AMPH_IOFWD_SERVER_EXEC_H
#define AMPH_IOFWD_SERVER_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amph_fwd_keep;
struct amph_server;
struct amph_server_conn;
struct amph_server_event;
struct amph_server_peer;

/* Of a control connection: it has one of the two, or neither. */
struct amph_server_exec {
    struct amph_server_conn *successor, *predecessor;
    struct amph_fwd_keep *keep; /* of a successor */
};

/* Handles a frame KEEP. */
void amph_server_exec_keep(struct amph_server *s, const struct amph_server_event *event);

/* A new image has sent something on this connection: if it is a successor, it takes its predecessor's place. */
void amph_server_exec_finish(struct amph_server *s, struct amph_server_conn *conn);

/* The connection has ended.  Returns whether its successor has taken its client. */
bool amph_server_exec_gone(struct amph_server *s, struct amph_server_conn *conn);

/* ---- clients.c ---- */

/* Drops all holds of peer but those on the n handles. */
void amph_server_peer_keep_only(struct amph_server *s, struct amph_server_peer *peer,
                                const uint64_t *numbers, size_t n);

/* Replaces a client by the new image of its process, whose endpoint is another one: its files, locks and
 * counters stay.  NULL: there is no place for it, and nothing has changed. */
struct amph_server_peer *amph_server_peer_renew(struct amph_server *s,
                                                struct amph_server_peer *old);

#endif

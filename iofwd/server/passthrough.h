/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passthrough, the server's side: which files' descriptors a client has, and what it counts.
 *
 * Layer: iofwd.
 * Thread rule: progress thread.
 */
#ifndef AMPH_IOFWD_SERVER_PASSTHROUGH_H
#define AMPH_IOFWD_SERVER_PASSTHROUGH_H

#include <stdint.h>

#include "iofwd/server/trust.h"
#include "iofwd/wire/passthrough.h"

struct amph_server;
struct amph_server_handle;
struct amph_server_peer;

/* A file whose descriptor a client has; handle NULL: none.  seen: what the client had counted when it was
 * looked at last. */
struct amph_server_passed {
    struct amph_server_handle *handle;
    struct amph_server_passed_counts {
        uint64_t calls, errors, bytes_written, bytes_read;
    } seen;
};

/* Of one client. */
struct amph_server_passthrough {
    enum amph_server_trust trust;
    uint64_t looked_ns; /* when that was */
    uint32_t nfiles;
    struct amph_server_passed file[FWD_PASSTHROUGH_MAX];
    uint64_t lookups_seen, lookup_errors_seen;
};

/* Sends the client the descriptor of an open file.  0, EBADF (it does not hold the file), EOPNOTSUPP (it gets
 * none of this file) or EAGAIN (not now). */
int amph_server_passthrough_give(struct amph_server *s, struct amph_server_peer *p, uint64_t number,
                                 struct amph_fwd_passed *passed_p);

/* Sends the client the descriptor of an open file, for a shared map.  0, EBADF, EOPNOTSUPP or EAGAIN. */
int amph_server_passthrough_give_map(struct amph_server *s, struct amph_server_peer *p,
                                     uint64_t number);

/* Sends the client the descriptor of an open directory; or with `directory` 0, of the export in which `path` lies,
 * the length of whose name is *name_bytes_p.  0, EBADF, EACCES (it lies in none), EOPNOTSUPP or EAGAIN. */
int amph_server_passthrough_give_directory(struct amph_server *s, struct amph_server_peer *p,
                                           uint64_t directory, const char *path,
                                           uint32_t *name_bytes_p);

/* The number of the file's holders has changed: tells the clients with its descriptor whether they share its
 * offset. */
void amph_server_passthrough_holders(struct amph_server *s, const struct amph_server_handle *h);

/* Adds what clients have counted since the last time to the server's counters. */
void amph_server_passthrough_collect(struct amph_server *s, struct amph_server_peer *p);
void amph_server_passthrough_collect_all(struct amph_server *s);

/* The client has closed the file (NULL: all files), or is gone. */
void amph_server_passthrough_drop(struct amph_server *s, struct amph_server_peer *p,
                                  const struct amph_server_handle *h);

#endif

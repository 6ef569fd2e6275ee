/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What watchers receive about each client and file, one row each: COLUMN(id, name, title, form, list,
 * help).  The server writes the values, iofwd-ctl shows them, man/counters.c makes a manual of them.
 * Layer: iofwd.  Thread rule: none.
 *
 * form: NUMBER; COUNT and BYTES only grow; LEVEL_BYTES is a present amount; TEXT; LATENCY.
 */
#ifndef AMPH_IOFWD_WATCH_COLUMNS_H
#define AMPH_IOFWD_WATCH_COLUMNS_H

/* clang-format off */
#define FWD_WATCH_COLUMNS(COLUMN) \
    COLUMN(CLIENT, "client", "CLIENT", TEXT, CLIENTS, "the client: its rank, or s, the server and c, the number that this server gave it") \
    COLUMN(PROCESS, "process", "PROCESS", NUMBER, CLIENTS, "its process number on its own host") \
    COLUMN(CLIENT_FILES, "files", "FILES", NUMBER, CLIENTS, "open files that it holds") \
    COLUMN(CLIENT_QUEUED, "queued", "QUEUE", NUMBER, CLIENTS, "its requests that wait or are worked on") \
    COLUMN(CLIENT_MEMORY, "memory", "MEMORY", LEVEL_BYTES, CLIENTS, "memory that these requests take") \
    COLUMN(CLIENT_CALLS, "calls", "CALLS", COUNT, CLIENTS, "its file calls") \
    COLUMN(CLIENT_ERRORS, "errors", "ERRORS", COUNT, CLIENTS, "of these: calls that gave an error") \
    COLUMN(CLIENT_WRITTEN, "bytes_written", "WRITTEN", BYTES, CLIENTS, "file data that it has written") \
    COLUMN(CLIENT_READ, "bytes_read", "READ", BYTES, CLIENTS, "file data that it has read") \
    COLUMN(CLIENT_LATENCY, "latency", "LATENCY", LATENCY, CLIENTS, "time from a request's arrival to its answer") \
    COLUMN(PATH, "path", "PATH", TEXT, FILES, "the file's name as clients see it; a removed file has (deleted) behind it") \
    COLUMN(OPENER, "opener", "OPENER", TEXT, FILES, "the client that opened it") \
    COLUMN(HOLDERS, "holders", "HOLDERS", NUMBER, FILES, "clients that have it open") \
    COLUMN(FILE_QUEUED, "queued", "QUEUE", NUMBER, FILES, "requests on it that wait or are worked on") \
    COLUMN(FILE_CALLS, "calls", "CALLS", COUNT, FILES, "calls on it") \
    COLUMN(FILE_WRITTEN, "bytes_written", "WRITTEN", BYTES, FILES, "file data written") \
    COLUMN(FILE_READ, "bytes_read", "READ", BYTES, FILES, "file data read")
/* clang-format on */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of clients and requests in messages, traces and lists.  Both sides of a request use them, so
 * that a client's message and the server's lines about the same request can be found together.
 *
 * Layer: iofwd (wire); uses only the C library.  Thread rule: pure functions on the caller's memory.
 */
#ifndef AMPH_IOFWD_REQUEST_NAME_H
#define AMPH_IOFWD_REQUEST_NAME_H

#include <stdint.h>

/* Client numbers issued by servers: the top bit, the server, a counter.  Others are ranks. */
#define FWD_NUMBER_GIVEN UINT32_C(0x80000000)
#define FWD_NUMBER_SERVER_SHIFT 20
#define FWD_CLIENT_NAME_BYTES 24
#define FWD_REQUEST_NAME_BYTES 48

/* Writes a client's name and returns it: "3" (a rank) or "s0c12" (number 12 that server 0 has
 * given). */
const char *amph_fwd_client_name(uint32_t number, char out[FWD_CLIENT_NAME_BYTES]);

/* Writes the id of a request and returns it: its client and its number among that client's,
 * "s0c12-1234". */
const char *amph_fwd_request_name(uint32_t client, uint64_t seq, char out[FWD_REQUEST_NAME_BYTES]);

#endif

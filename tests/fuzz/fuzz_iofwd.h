/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzz target and the deterministic test of the server's decoder share. */
#ifndef FUZZ_IOFWD_H
#define FUZZ_IOFWD_H

#include <stddef.h>
#include <stdint.h>

/* Feeds len bytes to every decoder that unauthenticated bytes can reach.  Returns how many were
 * taken for good. */
int fuzz_iofwd_feed(const uint8_t *bytes, size_t len);

/* The same bytes as the body of a request for call number `call` (mod their number) with a right
 * header, and as that of its reply.  1: the request was taken for good, 2: the reply was, 3:
 * both. */
int fuzz_iofwd_call(unsigned call, const uint8_t *bytes, size_t len);

/* A client number and handle that the decoder knows. */
#define FUZZ_CLIENT 3u
#define FUZZ_COOKIE UINT64_C(0x1234)
#define FUZZ_HANDLE (UINT64_C(1) << 63)

#endif

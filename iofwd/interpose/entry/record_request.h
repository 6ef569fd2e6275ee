/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of requests: operations that one call starts and that a later one sees to be complete.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers; no call waits.
 *
 * The record is written when the request is started, as a call that has not returned, and completed when its
 * end is seen.  If another thread sees it, or the lap of the ring is over, a second record with the same
 * start holds the end, and the reader makes one of both.  Requests in flight are found by a key: the
 * address of a control block, a handle, what a ring's user gave.
 */
#ifndef AMPH_IOFWD_RECORD_REQUEST_H
#define AMPH_IOFWD_RECORD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/trace/format.h"

/* Kinds of keys, so that those of different kinds differ. */
enum amph_ip_request_kind {
    AMPH_IP_REQUEST_AIO = 1, /* a struct aiocb */
    AMPH_IP_REQUEST_LIBAIO,  /* a struct iocb */
    AMPH_IP_REQUEST_MPI,     /* an MPI_Request */
    AMPH_IP_REQUEST_RING     /* a ring and the user's data */
};

/* The key of an address, or of another word of at most 56 bits. */
static inline uint64_t amph_ip_request_key(enum amph_ip_request_kind kind, uint64_t word)
{
    return (uint64_t)kind << 56 | (word & (UINT64_MAX >> 8));
}

/* Their names are numbers in a file, from AMPH_IP_EVENT_REQUEST on. */
enum amph_ip_request_name {
    AMPH_IP_ASYNC_READ,
    AMPH_IP_ASYNC_WRITE,
    AMPH_IP_ASYNC_SYNC,
    AMPH_IP_ASYNC_OPEN,
    AMPH_IP_ASYNC_CLOSE,
    AMPH_IP_ASYNC_STAT,
    AMPH_IP_ASYNC_ALLOCATE,
    AMPH_IP_MPI_ASYNC_READ,
    AMPH_IP_MPI_ASYNC_WRITE,
    AMPH_IP_ASYNC_NAMES
};

/* Begins the record of a request.  call: its side, has, fd, file, offset, length, and start_ns, which no
 * other request of the thread has. */
void amph_ip_request_start(uint64_t key, unsigned name, const struct amph_trace_call *call);

/* The end of a request has been seen.  result: bytes, or 0; err: an errno value or, of MPI, a class of errors.
 * false: no such request is in flight. */
bool amph_ip_request_end(uint64_t key, int64_t result, int err);

/* Is a request of that key in flight? */
bool amph_ip_request_is_in_flight(uint64_t key);

/* Is any request in flight?  Without one, no end needs to be looked for. */
bool amph_ip_request_any(void);

/* How far the completions of a ring have been looked at; head: for one that is new.  NULL: too many rings. */
uint32_t *amph_ip_request_ring(const void *ring, uint32_t head);
/* The ring is no more. */
void amph_ip_request_ring_ends(const void *ring);

#endif

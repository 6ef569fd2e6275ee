/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of stdio/; each group belongs to the file that its comment names.
 *
 * Layer: iofwd (interposer).  Thread rule: as said at each group.
 */
#ifndef AMPH_IOFWD_INTERPOSE_STDIO_STATE_H
#define AMPH_IOFWD_INTERPOSE_STDIO_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

#include "base/platform.h"

struct amph_ip_abort_text;
struct amph_ip_stream;

#define AMPH_IP_STREAM_BUCKETS 64
#define AMPH_IP_SEEN_FDS 65536
#define AMPH_IP_SEEN_WORD_BITS 64

struct amph_ip_stdio_state {
    /* stream.c: the forwarded streams, by the address of their FILE; under the lock.  Who changes the list takes
     * `changing` too, after it and with signals blocked.  A fork takes only that: the thread may be a handler's, which
     * has interrupted a look at the list. */
    pthread_mutex_t lock, changing;
    struct amph_ip_stream *streams[AMPH_IP_STREAM_BUCKETS];
    /* stream.c: the server may be asked what kind a file is; written once, after the C library's
     * constructor. */
    bool may_ask;
    mbstate_t no_conversion; /* stream.c: of a FILE that is no forwarded stream */

    bool std_complete; /* std_files.c: amph_ip_std_complete has run; atomic */

    /* lost_data.c */
    struct {
        bool watched; /* some stream could not be converted; atomic */
        bool ending;  /* destructors run */
        FILE *last;   /* a stream that is synchronised when all others are flushed, or NULL */
        char unread[1];
    } lost;

    /* abort_text.c; both are atomic */
    struct {
        bool asserted; /* an assertion has failed: its text went through stderr */
        const struct amph_ip_abort_text *const *variable; /* of the C library, or NULL */
    } abort;

    /* libc_text.c: what openlog was given; both are atomic */
    struct {
        const char *ident; /* the program's text, or NULL: the program's name */
        int options;
    } log;

    /* foreign_file.c: the descriptors that local streams have had; for any other descriptor the list
     * of streams is not searched.  Written atomically by any thread. */
    int seen_end;     /* above all descriptors in `seen` */
    bool seen_beyond; /* one was AMPH_IP_SEEN_FDS or more: the list is searched for all such */
    uint64_t seen[AMPH_IP_SEEN_FDS / AMPH_IP_SEEN_WORD_BITS]; /* a bit for each descriptor */
};

extern struct amph_ip_stdio_state amph_ip_stdio AMPH_HIDDEN;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the preload library's other files need of its streams.
 *
 * Layer: iofwd (interposer).
 */
#ifndef AMPH_IOFWD_STREAM_H
#define AMPH_IOFWD_STREAM_H

#include <stdbool.h>

/* Called around a fork, so that the child finds the list of streams in order. */
void amph_ip_stream_fork_lock(bool take);
void amph_ip_stream_forked(void); /* in the child */
/* Has some stream data that was not written, or read ahead, so that the C library makes calls for it
 * at exit?  A guess for wide streams. */
bool amph_ip_stream_any_pending(void);
/* Called when forwarding begins: handles streams on descriptors that the program was started with
 * or that its libraries have opened. */
void amph_ip_stream_start(void);
/* Gives the standard ones buffers as large as those of other streams, unless they have one already.
 * May ask the server. */
void amph_ip_stream_enlarge(void);

#endif

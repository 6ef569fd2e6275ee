/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the preload library's other files need of its streams.
 *
 * Layer: iofwd (interposer).
 */
#ifndef AMPH_IOFWD_STREAM_H
#define AMPH_IOFWD_STREAM_H

#include <stdbool.h>

/* Around a fork: the list of streams is whole in the child. */
void amph_ip_stream_fork_lock(bool take);
/* Forwarding begins: streams whose descriptors the program was started with, or that its libraries
 * have opened. */
void amph_ip_stream_start(void);
/* The standard ones of them get buffers as large as other streams', where they have none yet; this
 * may ask the server. */
void amph_ip_stream_enlarge(void);

#endif

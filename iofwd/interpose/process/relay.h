/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static programs whose standard input or output is a forwarded file: nothing of ours is in them,
 * so they get pipes, and the process that was to become the program stays and carries data between
 * these and the files.
 *
 * Layer: iofwd (interposer).  Thread rule: amph_ip_relay ends the process; it is for the only thread
 * of one that was to be replaced.
 */
#ifndef AMPH_IOFWD_RELAY_H
#define AMPH_IOFWD_RELAY_H

#include <stdbool.h>

/* Starts the program in a child, as execve would here, and ends as it ends, when its data is in the
 * files.  Returns -1 with errno where it could not be started. */
int amph_ip_relay(const char *path, char *const argv[], char *const env[]);

/* Is there work for amph_ip_relay: a forwarded standard descriptor? */
bool amph_ip_relay_useful(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static programs whose standard input or output is a forwarded file.  The interposer cannot be
 * loaded into them, so they get pipes, and the process that the program was to replace stays and
 * copies data between pipes and files.
 *
 * Layer: iofwd (interposer).  Thread rule: amph_ip_relay ends the process; the caller is the only
 * thread of a process that was to be replaced.
 */
#ifndef AMPH_IOFWD_RELAY_H
#define AMPH_IOFWD_RELAY_H

#include <stdbool.h>

/* Starts the program in a child, with execve's arguments, and ends as it ends, once its data is in
 * the files.  Returns -1 with errno if the program could not be started. */
int amph_ip_relay(const char *path, char *const argv[], char **env);

/* Is a standard descriptor forwarded, so that the program needs amph_ip_relay? */
bool amph_ip_relay_useful(void);

#endif

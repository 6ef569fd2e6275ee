/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's connections over exec and posix_spawn: those that the program before this one has left, and those
 * that the next one gets.
 *
 * Layer: iofwd (interposer).  Thread rule: as execve.
 */
#ifndef AMPH_IOFWD_INTERPOSE_CONNECTIONS_H
#define AMPH_IOFWD_INTERPOSE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "iofwd/client/client.h"

/* In the constructor: takes over what the program before this one has left, until the client is opened.  From now on
 * exec closes these descriptors. */
void amph_ip_connections_take(char **env);

/* Are there such, and has this process not adopted its open files yet?  Before it closes one or starts a program, it
 * must.  false in a vfork child, which cannot. */
bool amph_ip_connections_wait(void);

/* Just before exec, when all that may need the client has been done: makes the connections that the program needs for
 * the open files that it inherits.  They end when the exec has failed and amph_ip_connections_undo is called. */
struct amph_ip_passed {
    char client[1024], locks[1024]; /* entries of the environment */
    char **env;
    size_t n; /* of env, before these */
};

/* env: made by amph_ip_env_make, with room for two entries more. */
void amph_ip_connections_pass(struct amph_ip_passed *passed, char **env);
void amph_ip_connections_undo(struct amph_ip_passed *passed);

/* Does exec keep a forwarded file open? */
bool amph_ip_connections_needed(void);

#endif

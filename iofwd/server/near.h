/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the exports to processes that can read them without the servers.
 *
 * Layer: iofwd.  Thread rule: the process that watches over the servers.
 */
#ifndef AMPH_IOFWD_SERVER_NEAR_H
#define AMPH_IOFWD_SERVER_NEAR_H

/* Returns the lines of wire/near.h for the exports of spec (IOFWD_PREFIX); the caller frees them.  NULL: the
 * processes are to leave all calls to the servers, or the lines cannot be made. */
char *amph_server_near_print(const char *spec);

#endif

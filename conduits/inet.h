/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IP addresses of the networks: which one to listen on, and their portable form.
 * Layer: conduits.  Thread rule: any thread.
 */
#ifndef AMPH_CONDUITS_INET_H
#define AMPH_CONDUITS_INET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"

size_t amph_conduit_inet_len(const struct sockaddr_storage *sa);
/* Chooses the address to listen on, with port 0: the address of `interface` (a name or an
 * address) if it is not NULL or ""; else loopback if loopback_only; else the source address of
 * the route to other hosts.  If there is no such route, a warning names conduit.  Errors,
 * logged: AMPH_ERR_NOENT; AMPH_ERR_ARG for 0.0.0.0 and ::, to which peers cannot send. */
enum amph_status amph_conduit_inet_choose(const char *conduit, bool loopback_only,
                                          const char *interface, struct sockaddr_storage *sa_p);
/* The source address, with port 0, of the route to another host's address, as text (room for
 * INET6_ADDRSTRLEN).  false: there is no route. */
bool amph_conduit_inet_source(const struct sockaddr_storage *to, char *text);
/* Logs why an address cannot be listened on. */
void amph_conduit_inet_report(const struct sockaddr_storage *sa, int err);

/* version | family (4, 6) | port, network order | IP address, network order (4 or 16 bytes); 8 or
 * 20 bytes. */
#define AMPH_INET_BLOB_BYTES 20
size_t amph_conduit_inet_put(const struct sockaddr_storage *sa, uint8_t *blob);
/* Do two such addresses of that length have the same IP address?  The ports may differ. */
bool amph_conduit_inet_same_host(const uint8_t *blob, const uint8_t *other, size_t len_bytes);
enum amph_status amph_conduit_inet_get(const void *blob, size_t len_bytes,
                                       struct sockaddr_storage *sa_p);

/* The same, followed by 4 bytes: the length of the longest datagram that is received there, a
 * multiple of 8 from 512 to AMPH_INET_DATAGRAM_MAX. */
#define AMPH_INET_DATAGRAM_MAX 65504u /* 65507, down to a multiple of 8 */
size_t amph_conduit_inet_put_port(const struct sockaddr_storage *sa, uint32_t datagram,
                                  uint8_t *blob);
enum amph_status amph_conduit_inet_get_port(const void *blob, size_t len_bytes,
                                            struct sockaddr_storage *sa_p, uint32_t *datagram_p);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's view of the versions of files (wire/versions.h): whether what it has cached of a
 * file may still be used.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_VERSIONS_H
#define AMPH_IOFWD_CLIENT_VERSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "iofwd/client/internal.h"
#include "iofwd/wire/versions.h"

/* Reads the setting IOFWD_CACHE_AGE; wanted returns whether it lets the client cache anything.
 * Called before the first call. */
void amph_client_versions_open(void);
bool amph_client_versions_wanted(void);

/* Returns the versions, or NULL if a server of the job does not share them with this process.  The
 * first call looks the servers up, which may block. */
const struct amph_fwd_versions *amph_client_versions(struct amph_fwd_client *cl);
/* The same, whether or not the client caches anything.  With them, all servers of the job are on this host. */
const struct amph_fwd_versions *amph_client_versions_common(struct amph_fwd_client *cl);

/* Returns whether an answer to a query made at that time is too old.  The versions do not show
 * changes that other programs of the servers' host make. */
bool amph_client_versions_expired(uint64_t asked_ns);

/* Adds the layer `attributes`, which answers stat and fstat from cached answers (attributes.c). */
void amph_client_attributes_open(void);

#endif

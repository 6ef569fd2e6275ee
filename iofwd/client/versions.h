/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's view of the versions of files (wire/versions.h): what it may hold of a file, and for
 * how long.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_VERSIONS_H
#define AMPH_IOFWD_CLIENT_VERSIONS_H

#include "iofwd/client/internal.h"
#include "iofwd/wire/versions.h"

/* Does the setting allow the client to hold anything (IOFWD_CACHE_AGE)?  Called before the first
 * call. */
void amph_client_versions_open(void);
bool amph_client_versions_wanted(void);

/* Returns the versions, or NULL if one server of the job does not share them with this process.
 * The first call looks the servers up, which may block. */
const struct amph_fwd_versions *amph_client_versions(struct amph_fwd_client *cl);

/* Is something held that was asked for at that time too old?  The versions do not show what other
 * programs of the servers' host change. */
bool amph_client_versions_expired(uint64_t asked_ns);

/* Adds the layer `attributes`, which answers stat and fstat from what it holds (attributes.c). */
void amph_client_attributes_open(void);

#endif

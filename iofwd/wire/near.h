/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What standing servers say in their address file about the directories that they export, so that a process of
 * the same host and user can read them by itself (iofwd/interpose/path/near.h).
 *
 *   here BOOT-ID [DEVICE INODE]... UID
 *                            the servers' host; their mount and user namespaces and root directory, as
 *                            FWD_NEAR_OBJECTS names them; their effective user
 *   versions ID              the object of file versions (versions.h) that the servers use, in hexadecimal; 0: none
 *   export DEVICE INODE rw|ro NAME=DIR
 *                            one line an export: the identity of its directory, whether it may be changed, its name,
 *                            its path on the host
 *
 * An export that contains another one has no line: look-ups below it may have to enter that one.
 *
 * Layer: iofwd.
 */
#ifndef AMPH_IOFWD_NEAR_H
#define AMPH_IOFWD_NEAR_H

#include <inttypes.h>

#define FWD_NEAR_BOOT_ID "/proc/sys/kernel/random/boot_id"
#define FWD_NEAR_BOOT_ID_BYTES 40

#define FWD_NEAR_OBJECTS { "/proc/self/ns/mnt", "/proc/self/ns/user", "/" }
#define FWD_NEAR_OBJECTS_MAX 3

/* The first lines of both kinds, without what follows: the places of the objects and the user; NAME=DIR. */
#define FWD_NEAR_HERE "here %s"
#define FWD_NEAR_PLACE " %" PRIu64 " %" PRIu64
#define FWD_NEAR_VERSIONS "versions %" PRIx64 "\n"
#define FWD_NEAR_EXPORT "export" FWD_NEAR_PLACE " %s %s=%s\n"
#define FWD_NEAR_WRITABLE "rw"
#define FWD_NEAR_READONLY "ro"

#endif

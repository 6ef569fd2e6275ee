/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passthrough: a server passes the descriptor of an open regular file to a client of its own host and
 * user, and the client then makes the calls that move the file's data itself (as FUSE passthrough and
 * NFS LOCALIO do).  Both have the same open file description, so offset, O_APPEND, flags and locks by
 * flock stay common to them.
 *
 * Such a client also gets the descriptors of directories, those that it has open and those of exports, and
 * looks up names below them itself (stat, access and the like).
 *
 * Such a client also does what the server does at each call: it moves the versions of files (versions.h,
 * writers.h) and counts its calls.  The counters are in memory that both share, at the end of the client's part
 * of its transfer area.
 *
 * Layer: iofwd.  Thread rule: any thread; the members are atomic.
 */
#ifndef AMPH_IOFWD_PASSTHROUGH_H
#define AMPH_IOFWD_PASSTHROUGH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/os/arena.h"

#define FWD_PASSTHROUGH_MAX 32u /* files of a client at one server */
#define FWD_PASSTHROUGH_NONE UINT32_MAX

/* One file.  The client writes all but shares_offset, and the server reads it. */
struct amph_fwd_passthrough_file {
    _Alignas(64) _Atomic uint64_t calls;
    _Atomic uint64_t errors, bytes_written, bytes_read;
    /* Written by the server: other clients have the file open with the same offset, or a call of theirs is
     * under way.  Set before such a client can make its first call. */
    _Atomic uint32_t shares_offset;
    /* The client itself holds record locks on the file.  While it does, it gets no other descriptor of that
     * file, because the close of one would drop them. */
    _Atomic uint32_t locked;
};

/* The look-ups that the client has made itself. */
struct amph_fwd_passthrough_lookups {
    _Alignas(64) _Atomic uint64_t calls, errors;
};

struct amph_fwd_passthrough {
    struct amph_fwd_passthrough_file file[FWD_PASSTHROUGH_MAX];
    struct amph_fwd_passthrough_lookups lookups;
};

/* What a server answers to FWD_SERVICE_PASSTHROUGH, whose body is the file's handle.  It has sent the
 * descriptor in a frame FWD_FRAME_DESCRIPTOR on the client's control connection. */
struct amph_fwd_passed {
    uint32_t slot;     /* of the file in struct amph_fwd_passthrough */
    uint32_t line;     /* of its versions */
    uint64_t versions; /* id of the versions that the client must move; 0: the server has none */
};
#define FWD_PASSED_BYTES 16

/* FWD_SERVICE_MAP, whose body is the file's handle, has no answer but the descriptor.  The client maps the file by it
 * and closes it, and makes no calls on it. */

/*
 * FWD_SERVICE_DIRECTORY.  The body is the handle of an open directory; or 0, and after it an absolute path.  The
 * server answers with the length of the export's name in that path (32 bits; 0 for an open directory).  It has
 * sent the descriptor of the directory, or of the export's, in a frame FWD_FRAME_DESCRIPTOR that bears the same
 * handle.
 */
#define FWD_DIRECTORY_BYTES 4

_Static_assert(sizeof(struct amph_fwd_passthrough) <= AMPH_AREA_SHARED_BYTES,
               "a part of the transfer area has room for it");

#endif

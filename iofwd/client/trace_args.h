/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments as the record of a call (union amph_fwd_args) has them, for trace.c and trace_record.c.
 *
 * Layer: iofwd.  Thread rule: pure functions on the caller's memory.
 */
#ifndef AMPH_IOFWD_CLIENT_TRACE_ARGS_H
#define AMPH_IOFWD_CLIENT_TRACE_ARGS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "iofwd/wire/marshal.h"

/* FWD_IN_PATH */
struct amph_client_path_arg {
    const struct amph_fwd_file *dir;
    const char *path;
};

/* FWD_IN_DATA, FWD_IN_BLOB */
struct amph_client_bytes_arg {
    const void *at;
    size_t len;
};

/* FWD_OUT_BUF, FWD_OUT_STRING, FWD_OUT_DIRENTS: room, and what has been put there */
struct amph_client_room_arg {
    void *at;
    size_t cap, *len_p;
};

/* The last result that is a number; else 0, as for success. */
static inline int64_t amph_client_result(const struct amph_fwd_call_desc *desc,
                                         const union amph_fwd_args *args)
{
    if (!desc->nargs)
        return 0;

    const struct amph_fwd_arg_desc *arg = &desc->arg[desc->nargs - 1];
    const void *at = (const char *)args + arg->client_at;

    switch (arg->word) {
    case FWD_OUT_OFFSET:
        return **(off_t *const *)at;
    case FWD_OUT_COUNT:
        return (int64_t) * *(size_t *const *)at;
    case FWD_OUT_SFLAGS:
        return **(int *const *)at;
    case FWD_OUT_STRING:
    case FWD_OUT_DIRENTS:
    case FWD_OUT_BUF:
        return (int64_t) * ((const struct amph_client_room_arg *)at)->len_p;
    default:
        return 0;
    }
}

#endif

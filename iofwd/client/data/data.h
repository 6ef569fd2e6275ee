/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One view of the calls that transfer file data (read, write, pread, pwrite), whose records have
 * the same members under different names.  Inline, because it is in the path of small calls.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CLIENT_DATA_H
#define AMPH_IOFWD_CLIENT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/client/client.h"
#include "iofwd/wire/marshal.h"

struct amph_client_data {
    const struct amph_fwd_file *file;
    off_t off;          /* if placed */
    uint8_t *data;      /* the caller's buffer; const for a write */
    size_t len;         /* bytes requested */
    size_t *done_p;     /* gets the number of bytes transferred */
    bool reads, placed; /* placed: pread or pwrite; else at the file's offset */
};

#define AMPH_CLIENT_DATA_SAME(a, b, member_a, member_b) \
    _Static_assert(offsetof(struct amph_fwd_args_##a, member_a) == \
                       offsetof(struct amph_fwd_args_##b, member_b), \
                   #a " and " #b)
AMPH_CLIENT_DATA_SAME(read, write, file, file);
AMPH_CLIENT_DATA_SAME(read, pread, file, file);
AMPH_CLIENT_DATA_SAME(read, write, buf, data);
AMPH_CLIENT_DATA_SAME(read, write, buf_cap, data_len);
AMPH_CLIENT_DATA_SAME(read, write, buf_len, done);
AMPH_CLIENT_DATA_SAME(pread, pwrite, file, file);
AMPH_CLIENT_DATA_SAME(pread, pwrite, off, off);
AMPH_CLIENT_DATA_SAME(pread, pwrite, buf, data);
AMPH_CLIENT_DATA_SAME(pread, pwrite, buf_cap, data_len);
AMPH_CLIENT_DATA_SAME(pread, pwrite, buf_len, done);
#undef AMPH_CLIENT_DATA_SAME

/* Returns false, with *d unset, if call id transfers no file data. */
static inline bool amph_client_data_of(enum amph_fwd_id id, const union amph_fwd_args *u,
                                       struct amph_client_data *d)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[id];
    bool reads = desc->flags & FWD_CALL_READS;
    bool placed = !(desc->flags & FWD_CALL_OFFSET);

    if (desc->stripe != FWD_STRIPE_SPREAD)
        return false;

    if (placed)
        *d = (struct amph_client_data){
            u->pread.file,    u->pread.off, u->pread.buf, u->pread.buf_cap,
            u->pread.buf_len, reads,        true
        };
    else
        *d = (struct amph_client_data){ u->read.file,    0,     u->read.buf, u->read.buf_cap,
                                        u->read.buf_len, reads, false };

    return true;
}

/* Fills in the record of d; returns the call's id. */
static inline enum amph_fwd_id amph_client_data_record(const struct amph_client_data *d,
                                                       union amph_fwd_args *u)
{
    static const enum amph_fwd_id ids[2][2] = { { AMPH_FWD_WRITE, AMPH_FWD_PWRITE },
                                                { AMPH_FWD_READ, AMPH_FWD_PREAD } };

    if (d->placed)
        u->pread = (struct amph_fwd_args_pread){ d->file, d->off, d->data, d->len, d->done_p };
    else
        u->read = (struct amph_fwd_args_read){ d->file, d->data, d->len, d->done_p };

    return ids[d->reads][d->placed];
}

#endif

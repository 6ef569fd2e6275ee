/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking reads and writes; see client/api/nonblocking.c.
 *
 * Layer: iofwd.  Thread rule: any thread, not signal handlers.
 */
#ifndef AMPH_IOFWD_CLIENT_NB_H
#define AMPH_IOFWD_CLIENT_NB_H

#include <stdbool.h>
#include <stdint.h>

#include "iofwd/client/internal.h"

struct amph_client_nb;

struct amph_client_nb_result {
    int error; /* 0 or an errno value; 0 if bytes were transferred before an error */
    size_t bytes;
    uint64_t ns; /* from start to end */
};

/* Starts a pread or pwrite; the caller must not use buf until it is done.  finished (or NULL) is
 * then called in another thread.  The operation is valid until amph_client_nb_wait returns 0.
 * Returns 0, EINVAL, ENOMEM, EAGAIN (no thread). */
int amph_client_nb_start(struct amph_fwd_client *cl, const struct amph_fwd_file *file, bool write,
                         void *buf, size_t len, off_t off, void (*finished)(void *arg), void *arg,
                         struct amph_client_nb **op_p);
/* Waits at most timeout_ns (UINT64_MAX: no limit; 0: polls).  0: done, and op is freed; ETIMEDOUT:
 * not done. */
int amph_client_nb_wait(struct amph_client_nb *op, uint64_t timeout_ns,
                        struct amph_client_nb_result *result);
/* Returns true if the operation had not begun; it is then done with ECANCELED. */
bool amph_client_nb_cancel(struct amph_client_nb *op);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What iofwd_file_t is.  Layer: iofwd. */
#ifndef AMPH_IOFWD_API_FILE_H
#define AMPH_IOFWD_API_FILE_H

#include <stdbool.h>

#include "iofwd.h"
#include "iofwd/client/client.h"

/* Its client is the process's: in a forked child the child's. */
struct iofwd_file {
    struct amph_fwd_file file;
    bool borrowed;                 /* a descriptor's: closing does not end it */
    bool doubled;                  /* another of this process may stand for the same open file */
    struct amph_fwd_file whole;    /* what its end closes: parts, too, that another has known of */
    struct iofwd_file *next, **at; /* all that this process has of its own */
};

/* 0 or ENOMEM; the open file f stays the caller's then. */
int amph_client_file_make(const struct amph_fwd_file *f, bool borrowed, iofwd_file_t **file_p);
/* Of a file that has been opened by its name: this process may have it already. */
void amph_client_file_double(iofwd_file_t *file);

#endif
